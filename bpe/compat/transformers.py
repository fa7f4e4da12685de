"""Makes fast tokenizers of transformers 5 faster: one with `accelerate`, all with `patch_transformers`.

Encoding and decoding go to a compat `Tokenizer` that is made from the tokenizer's own backend, and checked against it
on texts for that purpose. transformers' own code still runs for everything else: padding, truncation and templates are
set by its `_encode_plus`, and results are its `BatchEncoding`. Whatever was not verified is left to the methods that
the tokenizer had before.

That code sets truncation and padding in the backend for each call, so it never gets the backend itself, which other
threads use: a call has a compat `Tokenizer` or a twin of the backend for itself.

A change of the backend is noticed at the next call: added tokens, components, settings of the model. Comparing again
takes as long as hundreds of short calls, so these use twins of the backend until there were enough of them.
"""

from __future__ import annotations

import copy
import copyreg
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import update_wrapper
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from bpe.base.forks import lock_of
from bpe.compat.core import load_tokenizers, split_additions
from bpe.compat.document import Added
from bpe.compat.huggingface import Tokenizer
from bpe.compat.processing import Plan
from bpe.compat.state import read_added_fields
from bpe.errors import describe, get_log, pluralize

__all__ = ["Acceleration", "accelerate", "patch_transformers", "unpatch_transformers"]

log = get_log()

_Tokenizer = TypeVar("_Tokenizer")

#: The methods that are replaced, of a tokenizer's class or of `TokenizersBackend`.
METHODS = ("__call__", "encode", "decode", "batch_decode", "_encode_plus", "_add_tokens", "backend_tokenizer")
#: Texts on which results are compared.
PROBES = (
    "Hello, world! Don't you think it's 12345.67% fine?", "", " ", "  two  spaces\n\n\tand tabs ",
    "naïve café e\u0301 Å ﬁ", "한국어 日本語 中文 العربية हिन्दी ไทย", "😀👍🏽 \u200d \u00a0\u2028",
    "def f(x):\n    return x ** 2  # ok\n", "CamelCaseWords AND SHOUTING 1234567890 ١٢٣",
    "<s></s><unk><pad><|endoftext|>[INST] [MASK]", "a" * 50 + " " * 20 + "!" * 30,
)  # fmt: skip
#: The options of calls that do not need transformers' own code, and those of them that add or leave out columns.
_SIMPLE = frozenset(("text_pair", "add_special_tokens", "truncation", "max_length", "padding", "return_tensors"))
_COLUMNS = frozenset(
    ("return_token_type_ids", "return_attention_mask", "return_special_tokens_mask", "return_offsets_mapping")
)
_DIRECT = _SIMPLE | _COLUMNS | {"return_overflowing_tokens", "stride"}
#: The columns that a call returns without being asked, if the model has them.
_BY_DEFAULT = ("token_type_ids", "attention_mask")
#: The most plans that are kept for a tokenizer: one for each kind of call.
_PLANS_KEPT = 64
#: Characters: for a shorter text `tokenizers` takes less time, as measured. The second is for calls that want offsets.
_SHORT_CHARS = 40, 80
#: Where transformers' own code must run, too.
_SHORT_CHARS_ENCODE_PLUS = 150, 1000
#: Characters in calls after which results are compared again, and the characters that each call counts for in addition:
#: 1,000 short calls without acceleration, or 130 kB of text, take 50 ms; comparing takes 80 to 230.
_CHARS_BEFORE_VERIFYING, _CHARS_PER_CALL = 1 << 17, 64
#: transformers' methods that warn of long texts and that decode one.
_WARN, _DECODE = "_eventual_warn_about_too_long_sequence", "_decode"
#: The key of an instance's state in its `__dict__`.
_STATE_ATTRIBUTE = "_bpe_acceleration"


@dataclass
class Acceleration:
    """What is accelerated for one tokenizer.

    Attributes:
        encoding: whether `__call__` and `encode` are.
        decoding: whether `decode` and `batch_decode` are.
        reasons: why not, for each part that is not.

    """

    encoding: bool = False
    decoding: bool = False
    reasons: list[str] = field(default_factory=list)


@dataclass
class _State:
    """What is kept for one tokenizer, in its `__dict__`.

    Attributes:
        result: what is accelerated.
        compat: the tokenizer that takes the place of the backend.
        quick_signature: `_quick_signature` of the backend with which results were compared.
        full_signature: its `_full_signature`.
        backend_was_read: whether the backend was handed out since it was last compared with `full_signature`.
        verification_due: whether the backend has changed, and results have not been compared again yet.
        chars_since_change: the characters in calls since then, as `_must_wait` counts them.
        twins: twins of the backend that no call uses, each with the settings that it has.
        plans: how the calls of each kind encode.

    """

    result: Acceleration = field(default_factory=Acceleration)
    compat: Tokenizer | None = None
    quick_signature: Any = None
    full_signature: Any = None
    backend_was_read: bool = False
    verification_due: bool = False
    chars_since_change: int = 0
    twins: list[tuple[Any, Any]] = field(default_factory=list)
    plans: dict[tuple[Any, ...], Plan] = field(default_factory=dict)

    def plan(self, add_special: bool, as_text: bool, truncation: tuple[Any, ...], padding: tuple[Any, ...]) -> Plan:
        """How a call encodes: the arguments of `enable_truncation` and of `enable_padding`, or ()."""
        key = (add_special, as_text, truncation, padding)
        found = self.plans.get(key)
        if found is None:
            assert self.compat is not None
            view = copy.copy(self.compat)
            _set_up(view, as_text, truncation, padding)
            found = view.plan_of(add_special)
            if len(self.plans) >= _PLANS_KEPT:
                self.plans.clear()
            self.plans[key] = found
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()  # computed again where it is needed

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None


def _nothing() -> None:
    return None


# What users call ------------------------------------------------------------------------------------------------------


def accelerate(tokenizer: _Tokenizer) -> _Tokenizer:
    """A copy of a tokenizer of transformers that encodes and decodes faster, with the same results.

    Its class is a subclass of the tokenizer's, with `__call__`, `encode`, `decode` and `batch_decode` overridden. At
    once, results are compared with the tokenizer's own on texts made for that; what differs is not accelerated, and the
    log says so at level INFO. `acceleration_of` says what is.

    Args:
        tokenizer: a fast tokenizer of transformers, such as `AutoTokenizer.from_pretrained` returns. It is not changed.
            The copy shares its backend, added tokens included.

    Raises:
        TypeError: for anything else.
        ModuleNotFoundError: if transformers is not installed.

    """
    backend = _load_backend()
    if not isinstance(tokenizer, backend):
        raise TypeError(
            f"tokenizer is {describe(tokenizer)}; it must be a fast tokenizer of transformers, such as "
            "AutoTokenizer.from_pretrained returns"
        )
    made: Any = copy.copy(tokenizer)
    if not hasattr(type(made), "_bpe_plain"):
        made.__class__ = _make_subclass(type(tokenizer))
    made.__dict__.pop(_STATE_ATTRIBUTE, None)
    _find_state(made, _find_originals(type(made)._bpe_plain), "")
    return made  # type: ignore[no-any-return]


def acceleration_of(tokenizer: Any) -> Acceleration | None:
    """What is accelerated for a tokenizer; None if nothing was tried."""
    state: _State | None = tokenizer.__dict__.get(_STATE_ATTRIBUTE)
    if state is not None and state.verification_due:
        state = tokenizer.__dict__[_STATE_ATTRIBUTE] = _verify(tokenizer, _find_originals(type(tokenizer)))
    return None if state is None else state.result


_lock = lock_of(sys.modules[__name__])
_patched: dict[str, Any] | None = None  # the attributes of `TokenizersBackend` before it was patched


def patch_transformers() -> None:
    """Accelerate all fast tokenizers of transformers, those that exist and those that will be made.

    Each is checked at its first call, and keeps its own methods if results differ. A second call does nothing.

    Raises:
        ModuleNotFoundError: if transformers is not installed.

    """
    global _patched
    backend = _load_backend()
    with _lock:
        if _patched is None:
            methods = _make_methods(_find_originals(backend))
            _patched = {name: backend.__dict__.get(name) for name in METHODS}
            for name, method in methods.items():
                setattr(backend, name, method)


def unpatch_transformers() -> None:
    """Give all tokenizers of transformers their own methods back. Without `patch_transformers`, it does nothing."""
    global _patched
    with _lock:
        if _patched is not None:
            backend = _load_backend()
            for name, method in _patched.items():
                if method is None:
                    delattr(backend, name)
                else:
                    setattr(backend, name, method)
            _patched = None


# Private --------------------------------------------------------------------------------------------------------------


def _load_backend() -> Any:
    try:
        from transformers.tokenization_utils_tokenizers import TokenizersBackend
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this needs Hugging Face's transformers 5, which is not installed; pip install transformers",
            name=error.name,
        ) from None
    return TokenizersBackend


def _find_originals(kind: Any) -> dict[str, Any]:
    """The methods of a class before they are overridden."""
    found = {name: getattr(kind, name) for name in METHODS}
    for name, value in found.items():  # of a class that is patched, those from before
        found[name] = getattr(value.fget if isinstance(value, property) else value, "_bpe_original", value)
    return found


def _make_subclass(kind: Any) -> Any:
    """The accelerated subclass of a class of tokenizers. It has the same name, which `save_pretrained` writes."""
    originals = _find_originals(kind)
    for each in kind.__subclasses__():  # one that was made before, so that copies have the same class
        if each.__dict__.get("_bpe_plain") is kind and each._bpe_originals == originals:
            return each
    attributes = {
        **_make_methods(originals),
        "_bpe_plain": kind,
        "_bpe_originals": originals,
        "__reduce_ex__": _reduce,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    return type(kind)(kind.__name__, (kind,), attributes)


def _reduce(self: Any, protocol: Any) -> Any:
    """How to copy and pickle a tokenizer: as its class says, except that pickle cannot import an accelerated class."""
    plain = type(self)._bpe_plain
    found = plain.__reduce_ex__(self, max(protocol, 2))
    if "_bpe_plain" not in type(self).__dict__ or not isinstance(found, tuple):  # a subclass of the accelerated class
        return found
    function, arguments, *rest = found
    if function is copyreg.__newobj__:  # type: ignore[attr-defined]
        return _new, (plain, *arguments[1:]), *rest
    return _make_accelerated, (function, arguments), *rest


def _new(plain: Any, *arguments: Any) -> Any:
    kind = _make_subclass(plain)
    return kind.__new__(kind, *arguments)


def _make_accelerated(function: Any, arguments: Any) -> Any:
    return accelerate(function(*arguments))


def _make_methods(originals: dict[str, Any]) -> dict[str, Any]:
    """The replacements of the methods of a class, which call the original ones where they must."""
    methods = {**_make_encoding_methods(originals), **_make_decoding_methods(originals)}
    for name, method in methods.items():
        update_wrapper(method, originals[name])  # so that it has the same signature too, which libraries ask for
        method._bpe_original = originals[name]
    plain_backend = originals["backend_tokenizer"]

    def backend_tokenizer(self: Any) -> Any:
        state = self.__dict__.get(_STATE_ATTRIBUTE)
        if state is not None:
            state.backend_was_read = True
        return plain_backend.fget(self)

    backend_tokenizer._bpe_original = plain_backend  # type: ignore[attr-defined]
    return {**methods, "backend_tokenizer": property(backend_tokenizer, doc=plain_backend.__doc__)}


def _make_encoding_methods(originals: dict[str, Any]) -> dict[str, Any]:
    from transformers.tokenization_utils_base import BatchEncoding, PreTrainedTokenizerBase

    plain_call, plain_encode, plain_plus = (originals[name] for name in ("__call__", "encode", "_encode_plus"))
    plain_add = originals["_add_tokens"]
    own_plus = (
        plain_plus.__qualname__ == "TokenizersBackend._encode_plus" and plain_encode is PreTrainedTokenizerBase.encode
    )
    own_call = (
        own_plus
        and plain_call is PreTrainedTokenizerBase.__call__
        and not hasattr(PreTrainedTokenizerBase, "_switch_to_input_mode")
    )

    def __call__(self: Any, text: Any = None, *args: Any, **options: Any) -> Any:  # noqa: N807
        if own_call and text and len(args) <= 1 and options.keys() <= _DIRECT:
            given = {"text_pair": args[0], **options} if args else options
            found = _try_call(self, text, given, originals, BatchEncoding)
            if found is not None:
                return found
        return plain_call(self, text, *args, **options)

    def encode(self: Any, text: Any, *args: Any, **options: Any) -> Any:
        if own_plus and not args and type(text) is str and options.keys() <= {"add_special_tokens"}:
            state = _find_state(self, originals, text)
            add_special = options.get("add_special_tokens", True)
            if state.result.encoding and type(add_special) is bool:
                plan = state.plan(add_special, bool(self.split_special_tokens), (), ())
                ids: list[int] = plan.call([text]).encodings()[0].ids
                if len(ids) > self.model_max_length:
                    getattr(self, _WARN)(ids, None, True)
                return ids
        return plain_encode(self, text, *args, **options)

    def _encode_plus(self: Any, *args: Any, **options: Any) -> Any:
        state = _find_state(self, originals, options["text"] if "text" in options else args[:1])
        valid = type(options.get("add_special_tokens", True)) is bool
        short = state.result.encoding and _is_short(
            options.get("text"), options.get("text_pair"), options, _SHORT_CHARS_ENCODE_PLUS
        )
        if (state.verification_due or short or not valid) and (twin := _take_twin(self, state)[0]) is not None:
            try:
                return plain_plus(_with_backend(self, twin), *args, **options)
            finally:
                state.twins.append((twin, None))
        if not state.result.encoding or not valid:
            return plain_plus(self, *args, **options)
        view, kind = _make_view(self, state), options.get("return_tensors")
        if kind in ("np", "pt") and not options.get("return_overflowing_tokens") and not options.get("return_length"):
            found = plain_plus(view, *args, **{**options, "return_tensors": None})
            arrays = _make_tensors(found.data, kind)
            if arrays is not None:
                found.data.update(arrays)
                return found
        return plain_plus(view, *args, **options)

    def _add_tokens(self: Any, new_tokens: Any, special_tokens: bool = False) -> int:
        added: int = plain_add(self, new_tokens, special_tokens)
        if (state := self.__dict__.get(_STATE_ATTRIBUTE)) is not None:
            state.backend_was_read = True
        return added

    return {"__call__": __call__, "encode": encode, "_encode_plus": _encode_plus, "_add_tokens": _add_tokens}


def _make_decoding_methods(originals: dict[str, Any]) -> dict[str, Any]:
    plain_decode = originals["decode"]

    def decode(self: Any, token_ids: Any, skip_special_tokens: bool = False, **options: Any) -> Any:
        found = _try_decode(self, token_ids, skip_special_tokens, options, originals)
        return plain_decode(self, token_ids, skip_special_tokens, **options) if found is None else found

    def batch_decode(
        self: Any,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **options: Any,
    ) -> list[str]:
        options = {**options, "clean_up_tokenization_spaces": clean_up_tokenization_spaces}
        found = decode(self, sequences, skip_special_tokens, **options)
        return [found] if isinstance(found, str) else found

    return {"decode": decode, "batch_decode": batch_decode}


# Calls ----------------------------------------------------------------------------------------------------------------


def _is_short(text: Any, pair: Any, options: dict[str, Any], limits: tuple[int, int]) -> bool:
    """Whether a call is for one text, or pair, so short that `tokenizers` computes its columns in less time."""
    if type(text) is not str or not (pair is None or type(pair) is str):
        return False
    return len(text) + len(pair or "") < limits[bool(options.get("return_offsets_mapping"))]


def _make_view(tokenizer: Any, state: _State) -> Any:
    """The tokenizer with a compat `Tokenizer` of its own as backend, for one call of transformers' code."""
    return _with_backend(tokenizer, copy.copy(state.compat))


def _with_backend(tokenizer: Any, backend: Any) -> Any:
    """The tokenizer with another backend."""
    view = object.__new__(type(tokenizer))
    view.__dict__.update(tokenizer.__dict__)
    view.__dict__["_tokenizer"] = backend
    return view


def _take_twin(tokenizer: Any, state: _State) -> tuple[Any, Any]:
    """A twin of the backend, or None, and the settings that it has.

    No other call uses it, until it is appended to `state.twins` again.
    """
    try:
        return state.twins.pop()  # list.pop and append are atomic: no lock
    except IndexError:
        return _make_twin(tokenizer.__dict__["_tokenizer"]), None


def _encode_by_twin(tokenizer: Any, state: _State, given: Any, key: tuple[Any, ...]) -> Any:
    """The encodings of a text or a pair by a twin; None if the backend has none.

    `key` has the arguments of `_State.plan`.
    """
    twin, known = _take_twin(tokenizer, state)
    if twin is None:
        return None
    add_special, *settings = key
    try:
        if known != settings:
            known = None
            _set_up(twin, *settings)
            known = settings
        return twin.encode_batch([given], add_special_tokens=add_special)
    finally:
        state.twins.append((twin, known))


#: The arguments of `enable_truncation` and of `enable_padding`, as the keys of plans have them.
_TRUNCATION = ("max_length", "stride", "strategy", "direction")
_PADDING = ("direction", "pad_id", "pad_type_id", "pad_token", "length")


def _set_up(twin: Any, as_text: bool, truncation: tuple[Any, ...], padding: tuple[Any, ...]) -> None:
    """Set a twin's options; an empty tuple stands for no truncation, or no padding."""
    twin.encode_special_tokens = as_text
    if truncation:
        twin.enable_truncation(**dict(zip(_TRUNCATION, truncation, strict=True)))
    else:
        twin.no_truncation()
    if padding:
        twin.enable_padding(**dict(zip(_PADDING, padding, strict=True)))
    else:
        twin.no_padding()


def _make_twin(backend: Any) -> Any:
    """A backend that gives the same results, with settings of its own; None for a backend of another class.

    It shares the model, so it takes little memory, and microseconds.
    """
    if isinstance(backend, Tokenizer):
        return copy.copy(backend)
    kind = load_tokenizers().Tokenizer
    if type(backend) is not kind:
        return None
    made = kind(backend.model)
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (component := getattr(backend, name)) is not None:
            setattr(made, name, component)
    added = backend.get_added_tokens_decoder()
    rows = [Added(token_id, **read_added_fields(token, special=False)) for token_id, token in sorted(added.items())]
    for tokens in split_additions(rows, backend.get_vocab_size(False), backend.model.token_to_id):
        made.add_tokens(tokens)
    return made if made.get_added_tokens_decoder() == added else None


def _read_truncation(tokenizer: Any, options: dict[str, Any]) -> tuple[Any, ...] | None:
    """The truncation that a call asks for, as transformers understands it; None where its own code must decide."""
    most, given, padding = options.get("max_length"), options.get("truncation"), options.get("padding", False)
    stride = options.get("stride", 0)
    if type(stride) is not int or (stride and not options.get("return_overflowing_tokens")):
        return None
    if most is not None and (type(most) is not int or not 0 <= most < 1 << 64):  # for others, it raises errors
        return None
    if given is None or given is False:
        if padding is True and most is not None:  # it warns
            return None
        wanted = given is None and padding is False and most is not None
    elif given is True or given == "longest_first":
        if most is None:
            return None
        wanted = True
    else:
        return None
    if wanted and stride and (most is None or not 0 < stride < most - tokenizer.num_special_tokens_to_add(False)):
        return None  # it raises errors, or wants no template
    return (most, stride, "longest_first", tokenizer.truncation_side) if wanted else ()


def _read_padding(tokenizer: Any, state: _State, single: bool, options: dict[str, Any]) -> tuple[Any, ...] | None:
    """The padding that a call asks for; None where transformers' own code must decide. A single text needs none."""
    padding = options.get("padding", False)
    if padding is False:
        return ()
    longest = padding is True or padding == "longest"
    most = None if longest else options.get("max_length")
    if not longest and (padding != "max_length" or most is None):
        return None
    token = tokenizer.pad_token
    token_id = None if token is None or state.compat is None else state.compat.token_to_id(token)
    if token_id is None:
        return None
    if longest and single:
        return ()
    return (tokenizer.padding_side, token_id, tokenizer.pad_token_type_id, token, most)


def _try_call(
    tokenizer: Any, text: Any, options: dict[str, Any], originals: dict[str, Any], batch_encoding: Any
) -> Any:
    """The result of a call with a text or a list of texts, or with pairs; None for other arguments."""
    single, kind, pair = type(text) is str, options.get("return_tensors"), options.get("text_pair")
    if single:
        if not (pair is None or (type(pair) is str and pair)):
            return None
    elif not _are_texts(text) or not (pair is None or (_are_texts(pair) and len(pair) == len(text))):
        return None
    if kind not in (None, "np", "pt"):
        return None
    columns = options.keys() & _COLUMNS if options else None
    if columns and any(options[name] not in (None, False, True) for name in columns):
        return None
    overflows = options.get("return_overflowing_tokens", False)
    if type(overflows) is not bool or (overflows and (kind is not None or pair is not None)):
        return None
    state = _find_state(tokenizer, originals, text)
    truncation = _read_truncation(tokenizer, options) if options else ()
    padding = _read_padding(tokenizer, state, single and not overflows, options) if options else ()
    if not state.result.encoding or truncation is None or padding is None:
        return None
    add_special = options.get("add_special_tokens", True)
    if type(add_special) is not bool:
        return None
    encodings = None
    if (
        (columns or overflows)
        and single
        and _is_short(text, pair, options, _SHORT_CHARS_ENCODE_PLUS if overflows else _SHORT_CHARS)
    ):
        key = (add_special, bool(tokenizer.split_special_tokens), truncation if pair is None else (), padding)
        encodings = _encode_by_twin(tokenizer, state, text if pair is None else (text, pair), key)
    if encodings is None:
        cut = () if pair is not None else truncation  # a pair that must be truncated is left to transformers' own code
        plan = state.plan(add_special, bool(tokenizer.split_special_tokens), cut, padding)
        if pair is None:
            encodings = plan.call([text] if single else text).encodings()
        elif plan.pair_ends is None:
            return None
        else:
            texts = [text, pair] if single else list(chain.from_iterable(zip(text, pair, strict=True)))
            encodings = plan.call_pairs(texts).encodings()
    if pair is not None and truncation and any(len(each) > truncation[0] for each in encodings):
        return None
    return _make_result(tokenizer, encodings, options, single, bool(padding), batch_encoding)


def _make_result(
    tokenizer: Any, encodings: list[Any], options: dict[str, Any], single: bool, is_padded: bool, batch_encoding: Any
) -> Any:
    """The columns of encodings, in the order of transformers; None for rows that are no array."""
    overflows, kind = options.get("return_overflowing_tokens", False), options.get("return_tensors")
    samples = [i for i, each in enumerate(encodings) for _ in range(1 + len(each.overflowing))] if overflows else []
    if len(samples) > len(encodings):
        encodings = [part for each in encodings for part in (each, *each.overflowing)]
    names, longest = tokenizer.model_input_names, tokenizer.model_max_length
    rows = [each.ids for each in encodings]
    for ids in rows:
        if len(ids) > longest and options.get("max_length") is None:
            getattr(tokenizer, _WARN)(ids, None, True)
    data: dict[str, Any] = {"input_ids": rows}
    if not _COLUMNS.isdisjoint(options):
        _add_columns(data, encodings, options, names)
    else:
        if "token_type_ids" in names:
            data["token_type_ids"] = [each.type_ids for each in encodings]
        if "attention_mask" in names:
            masks = [each.attention_mask for each in encodings] if is_padded else [[1] * len(ids) for ids in rows]
            data["attention_mask"] = masks
    if kind is not None:
        data = _make_tensors(data, kind)
        return data and batch_encoding(data, encodings)
    if overflows:
        data["overflow_to_sample_mapping"] = samples
    elif single:
        data = {name: rows[0] for name, rows in data.items()}
    return batch_encoding(data, encodings)


def _add_columns(data: dict[str, Any], encodings: list[Any], options: dict[str, Any], names: list[str]) -> None:
    """Add the columns that a call wants, in the order of transformers; `names` are those that it has by default."""
    for option, name, column in (
        ("return_token_type_ids", "token_type_ids", "type_ids"),
        ("return_attention_mask", "attention_mask", "attention_mask"),
        ("return_special_tokens_mask", "special_tokens_mask", "special_tokens_mask"),
        ("return_offsets_mapping", "offset_mapping", "offsets"),
    ):
        wanted = options.get(option)
        if (name in names and name in _BY_DEFAULT) if wanted is None else wanted:
            data[name] = [getattr(each, column) for each in encodings]


def _are_texts(value: Any) -> bool:
    """Whether a value is a list of str."""
    return type(value) is list and all(type(each) is str for each in value)


def _make_tensors(data: dict[str, Any], kind: str) -> Any:
    """Lists as arrays or tensors of int64; None for rows of different lengths, and no rows."""
    arrays = {}
    for name, given in data.items():
        rows = given if given and isinstance(given[0], list) else [given]
        if not isinstance(rows[0], list) or not rows[0]:
            return None
        if len(rows) > 1 and any(len(row) != len(rows[0]) for row in rows):
            return None
        if not isinstance(rows[0][0], int):
            return None
        arrays[name] = np.array(rows, dtype=np.int64)
    if kind == "pt":
        import torch

        return {name: torch.from_numpy(array) for name, array in arrays.items()}
    return arrays


def _try_decode(tokenizer: Any, ids: Any, skip: bool, options: dict[str, Any], originals: dict[str, Any]) -> Any:
    """The text of ids, or the texts of several rows; None where the tokenizer's own method must do it."""
    clean = options.get("clean_up_tokenization_spaces")
    if options.keys() - {"clean_up_tokenization_spaces"} or type(skip) is not bool:
        return None
    if tokenizer.clean_up_tokenization_spaces if clean is None else clean:
        return None
    if not isinstance(ids, (list, int)) and hasattr(ids, "tolist"):
        ids = ids.tolist()
    if type(ids) is int:
        ids = [ids]
    if type(ids) is not list:
        return None
    state = _find_state(tokenizer, originals, ids, decoding=True)
    if not state.result.decoding:
        return None
    assert state.compat is not None
    decode = state.compat.decode
    try:
        if ids and type(ids[0]) is list:
            return [decode(row, skip) for row in ids]
        return decode(ids, skip)
    except (TypeError, ValueError, OverflowError):
        return None


# Verification ---------------------------------------------------------------------------------------------------------


def _find_state(tokenizer: Any, originals: dict[str, Any], given: Any, decoding: bool = False) -> _State:
    """The state of a tokenizer, made or made again if its backend changed.

    With `decoding`, only what decoding depends on is compared. `given` is what the call is for: texts or ids.
    """
    state: _State | None = tokenizer.__dict__.get(_STATE_ATTRIBUTE)
    backend = tokenizer.__dict__["_tokenizer"]
    same = state is not None and state.quick_signature[: 3 if decoding else 6] == _quick_signature(backend, decoding)
    if state is not None and same and (not state.backend_was_read or state.full_signature == _full_signature(backend)):
        state.backend_was_read = False
        if not state.verification_due or _must_wait(state, given):
            return state
    elif state is not None and (twin := _make_twin(backend)) is not None:
        state = _State(
            quick_signature=_quick_signature(backend),
            full_signature=_full_signature(backend),
            verification_due=True,
            twins=[(twin, None)],
        )
        if _must_wait(state, given):
            tokenizer.__dict__[_STATE_ATTRIBUTE] = state
            return state
    state = tokenizer.__dict__[_STATE_ATTRIBUTE] = _verify(tokenizer, originals)
    return state


def _must_wait(state: _State, given: Any) -> bool:
    """Whether comparing again would still take longer than the calls since the change, this one included."""
    rows = given if isinstance(given, (list, tuple)) else [given]
    state.chars_since_change += _CHARS_PER_CALL + sum(
        len(row) if isinstance(row, (str, list, tuple)) else 1 for row in rows
    )
    return state.chars_since_change < _CHARS_BEFORE_VERIFYING


def _quick_signature(backend: Any, decoding: bool = False) -> Any:
    """What is compared at each call to notice a change of the backend; a few microseconds."""
    decoder = backend.decoder
    found = (id(backend), backend.get_vocab_size(True), None if decoder is None else decoder.__getstate__())
    if decoding:
        return found
    post_processor, pre_tokenizer, normalizer = backend.post_processor, backend.pre_tokenizer, backend.normalizer
    return (
        *found,
        None if post_processor is None else post_processor.__getstate__(),
        None if pre_tokenizer is None else pre_tokenizer.__getstate__(),
        None if normalizer is None else normalizer.__getstate__(),
    )


def _full_signature(backend: Any) -> Any:
    """What is compared after the backend was handed out."""
    model = backend.model
    names = ("dropout", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges")
    settings = [getattr(model, name, None) for name in names]
    return repr(backend.get_added_tokens_decoder()), backend.get_vocab_size(False), settings


def _verify(tokenizer: Any, originals: dict[str, Any]) -> _State:
    """The state of a tokenizer after comparing results."""
    backend = tokenizer.__dict__["_tokenizer"]
    state = _State()
    try:
        state.quick_signature, state.full_signature = _quick_signature(backend), _full_signature(backend)
        state.compat = Tokenizer.from_str(backend.to_str()).with_added_ids(backend.get_added_tokens_decoder())
        if state.compat.native is None:
            raise ValueError("the native tokenizer cannot read this model")
        _compare(tokenizer, state, originals)
    except Exception as error:  # noqa: BLE001  # whatever goes wrong, the tokenizer's own methods remain
        state.result.encoding = state.result.decoding = False
        state.result.reasons.append(f"{type(error).__name__}: {error}")
    name = type(tokenizer).__name__
    if state.result.reasons:
        log.info("%s is not accelerated, or in part: %s", name, "; ".join(state.result.reasons))
    else:
        log.info("%s is accelerated: encoding and decoding", name)
    return state


def _compare(tokenizer: Any, state: _State, originals: dict[str, Any]) -> None:
    """Set what is accelerated: whatever gives the same results as the original methods on all probe texts."""
    plain_plus, compat = originals["_encode_plus"], state.compat
    assert compat is not None
    names = list(compat.get_added_tokens_decoder().values())[:64]
    texts = [*PROBES, " ".join(f"x{token}y {token} " for token in map(str, names)), "".join(map(str, names))]
    own = tokenizer.__dict__["_tokenizer"]
    plain = _with_backend(tokenizer, _make_twin(own) or own)
    options = {"add_special_tokens": True, "return_token_type_ids": True, "return_special_tokens_mask": True}
    differing = _count_differing(plain_plus, plain, _make_view(tokenizer, state), texts, options)
    state.result.encoding = not differing
    if differing:
        state.result.reasons.append(f"encoding differs on {pluralize(differing, 'probe text')}")
    backend, own_decode = plain.__dict__["_tokenizer"], getattr(_load_backend(), _DECODE)
    wrong = 0
    for each in backend.encode_batch(texts):
        wrong += any(backend.decode(each.ids, skip) != compat.decode(each.ids, skip) for skip in (False, True))
        wrong += any(backend.decode(each.ids[i:]) != compat.decode(each.ids[i:]) for i in range(1, 4))
    if getattr(type(tokenizer), _DECODE) is not own_decode:
        wrong = -1
    state.result.decoding = not wrong
    if wrong:
        state.result.reasons.append(
            "its class has a _decode of its own" if wrong < 0 else "decoding differs on probe texts"
        )


def _count_differing(
    encode: Callable[..., Any], plain: Any, fast: Any, texts: list[str], options: dict[str, Any]
) -> int:
    """The number of probe texts that two tokenizers encode in different ways."""
    inputs: list[tuple[Any, ...]] = [*((text,) for text in texts), (texts,), (texts, list(reversed(texts)))]
    return sum(dict(encode(plain, *given, **options)) != dict(encode(fast, *given, **options)) for given in inputs)
