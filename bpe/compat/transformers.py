"""Makes fast tokenizers of transformers 5 faster: one with `accelerate`, all with `patch_transformers`.

Encoding and decoding go to a compat `Tokenizer` that is made from the tokenizer's own backend, and checked against it
on texts for that purpose. A kernel (`_calls.pyx`) answers calls with usual options, which `transformers_calls.py`
reads; transformers' own code still runs for all others. Whatever was not verified is left to the methods that the
tokenizer had before.

A change of the backend is noticed at the next call: added tokens, components, settings of the model. Its settings are
compared at each call, unless nothing but the tokenizer refers to the backend and nothing has read it since the last
call. Comparing results again takes as long as hundreds of short calls, so short calls use twins of the backend until
there were enough calls.
"""

from __future__ import annotations

import copy
import copyreg
import sys
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar

from bpe.base.forks import make_lock
from bpe.base.memory_limits import parse_byte_count
from bpe.compat import _calls
from bpe.compat._calls import BACKEND_ATTRIBUTE, STATE_ATTRIBUTE
from bpe.compat.huggingface import Tokenizer
from bpe.compat.transformers_calls import (
    Acceleration,
    AccelerationState,
    find_overrides,
    is_short,
    is_tensor_type,
    make_tensors,
    make_twin,
    make_view,
    read_layout,
    with_backend,
)
from bpe.compat.transformers_chats import make_chat_method
from bpe.errors import describe, get_log, pluralize, raise_if_of_signal_handler

__all__ = ["Acceleration", "accelerate", "patch_transformers", "unpatch_transformers"]

log = get_log()

_Tokenizer = TypeVar("_Tokenizer")

#: The methods that are replaced, of a tokenizer's class or of `TokenizersBackend`. A property replaces the attribute of
#: the backend, to notice that it is read.
_REPLACED_METHODS = (
    "__call__", "encode", "tokenize", "decode", "batch_decode", "convert_ids_to_tokens", "apply_chat_template",
    "_encode_plus",
)  # fmt: skip
#: Texts on which results are compared.
_PROBE_TEXTS = (
    "Hello, world! Don't you think it's 12345.67% fine?", "", " ", "  two  spaces\n\n\tand tabs ",
    "naïve café e\u0301 Å ﬁ", "한국어 日本語 中文 العربية हिन्दी ไทย", "😀👍🏽 \u200d \u00a0\u2028",
    "def f(x):\n    return x ** 2  # ok\n", "CamelCaseWords AND SHOUTING 1234567890 ١٢٣",
    "<s></s><unk><pad><|endoftext|>[INST] [MASK]", "a" * 50 + " " * 20 + "!" * 30,
)  # fmt: skip
#: Characters in calls after which results are compared again, and the characters that each call counts for in addition:
#: 1,000 short calls without acceleration, or 130 kB of text, take 50 ms; comparing takes 80 to 230.
_CHARS_BEFORE_VERIFYING, _CHARS_PER_CALL = 1 << 17, 64
#: transformers' method that decodes one text.
_DECODE_METHOD = "_decode"
#: Options for which `tokenizers` takes nothing but bool.
_BOOL_OPTIONS = ("add_special_tokens", "is_split_into_words")
#: The key of the memory for prompts in an instance's `__dict__`, in bytes; None for no cache.
_PROMPT_CACHE_ATTRIBUTE = "_bpe_prompt_cache"


# What users call ------------------------------------------------------------------------------------------------------


def accelerate(tokenizer: _Tokenizer, *, prompt_cache: int | str | None = None) -> _Tokenizer:
    """Copy a tokenizer of transformers as one that encodes and decodes faster, with the same results.

    The copy's class is a subclass of the tokenizer's that overrides `__call__`, `encode`, `decode` and `batch_decode`.
    Results are compared at once with the tokenizer's own on texts made for that. What differs is not accelerated, and
    the log says so at level INFO. `acceleration_of` returns what is accelerated.

    Args:
        tokenizer: a fast tokenizer of transformers, such as `AutoTokenizer.from_pretrained` returns, which is not
            changed. The copy shares the backend, added tokens included.
        prompt_cache: memory, in bytes or as "64M", for encoding only what is new of prompts that begin as earlier ones
            did, with `bpe.PromptCache`; None for none.

    Raises:
        TypeError: for anything else.
        ValueError: for a size of memory that is not one.
        ModuleNotFoundError: if transformers is not installed.

    """
    backend = _load_backend()
    if not isinstance(tokenizer, backend):
        raise TypeError(
            f"tokenizer is {describe(tokenizer)}; it must be a fast tokenizer of transformers, such as "
            "AutoTokenizer.from_pretrained returns"
        )
    max_bytes = None if prompt_cache is None else parse_byte_count("prompt_cache", prompt_cache, 0)
    fast_tokenizer: Any = copy.copy(tokenizer)
    if not hasattr(type(fast_tokenizer), "_bpe_original_class"):
        fast_tokenizer.__class__ = _make_subclass(type(tokenizer))
    fast_tokenizer.__dict__.pop(STATE_ATTRIBUTE, None)
    fast_tokenizer.__dict__[_PROMPT_CACHE_ATTRIBUTE] = max_bytes
    _find_state(fast_tokenizer, _find_original_methods(type(fast_tokenizer)._bpe_original_class), "")
    return fast_tokenizer  # type: ignore[no-any-return]


def acceleration_of(tokenizer: Any) -> Acceleration | None:
    """Return what is accelerated for a tokenizer; None if nothing was tried."""
    state: AccelerationState | None = tokenizer.__dict__.get(STATE_ATTRIBUTE)
    if state is not None and state.verification_due:
        state = tokenizer.__dict__[STATE_ATTRIBUTE] = _verify(tokenizer, _find_original_methods(type(tokenizer)))
    return None if state is None else state.result


_lock = make_lock(sys.modules[__name__])
_MISSING = object()  # stands for an attribute that a class inherits
_original_attributes: dict[str, Any] | None = None  # the attributes of `TokenizersBackend` before it was patched


def patch_transformers() -> None:
    """Accelerate all fast tokenizers of transformers, those that exist and those that will be made.

    Each is checked at its first call, and keeps its own methods if results differ. A second call does nothing.

    Raises:
        ModuleNotFoundError: if transformers is not installed.

    """
    global _original_attributes
    backend = _load_backend()
    with _lock:
        if _original_attributes is None:
            methods = _make_methods(_find_original_methods(backend))
            _original_attributes = {name: backend.__dict__.get(name, _MISSING) for name in methods}
            for name, method in methods.items():
                setattr(backend, name, method)


def unpatch_transformers() -> None:
    """Give all tokenizers of transformers their own methods back. Without `patch_transformers`, it does nothing."""
    global _original_attributes
    with _lock:
        if _original_attributes is not None:
            backend = _load_backend()
            for name, method in _original_attributes.items():
                if method is _MISSING:
                    delattr(backend, name)
                else:
                    setattr(backend, name, method)
            _original_attributes = None


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


def _find_original_methods(cls: Any) -> dict[str, Any]:
    """Find the methods of a class before they are overridden, and what its tokenizers have before a backend is set."""
    names = (*_REPLACED_METHODS, BACKEND_ATTRIBUTE)
    attributes = {name: getattr(cls, name, None) for name in names}
    for name, attribute in attributes.items():  # of a patched class, the attributes before it was patched
        attributes[name] = getattr(attribute, "_bpe_original", attribute)
    return attributes


def _make_subclass(cls: Any) -> Any:
    """Make the accelerated subclass of a class of tokenizers, with the same name, which `save_pretrained` writes."""
    original_methods = _find_original_methods(cls)
    for subclass in cls.__subclasses__():  # the subclass that was made before, so that copies have the same class
        if subclass.__dict__.get("_bpe_original_class") is cls and subclass._bpe_originals == original_methods:
            return subclass
    attributes = {
        **_make_methods(original_methods),
        "_bpe_original_class": cls,
        "_bpe_originals": original_methods,
        "__reduce_ex__": _reduce_accelerated,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    return type(cls)(cls.__name__, (cls,), attributes)


def _reduce_accelerated(self: Any, protocol: Any) -> Any:
    """Copy and pickle a tokenizer as its class says, except that pickle cannot import an accelerated class."""
    original_class = type(self)._bpe_original_class
    reduce_value = original_class.__reduce_ex__(self, max(protocol, 2))
    is_subclass = "_bpe_original_class" not in type(self).__dict__  # of the accelerated class
    if is_subclass or not isinstance(reduce_value, tuple):
        return reduce_value
    function, arguments, *state = reduce_value
    if function is copyreg.__newobj__:  # type: ignore[attr-defined]
        return _new_accelerated, (original_class, *arguments[1:]), *state
    return _make_accelerated, (function, arguments), *state


def _new_accelerated(original_class: Any, *arguments: Any) -> Any:
    accelerated_class = _make_subclass(original_class)
    return accelerated_class.__new__(accelerated_class, *arguments)


def _make_accelerated(function: Any, arguments: Any) -> Any:
    return accelerate(function(*arguments))


def _make_methods(original_methods: dict[str, Any]) -> dict[str, Any]:
    """Make the replacements of the methods of a class, which call the original ones where they must.

    A method that a class has of its own is not replaced, since it may do anything and have other parameters, except
    `_encode_plus`, whose results are compared.
    """
    methods = {**_make_encoding_methods(original_methods), **_make_decoding_methods(original_methods)}
    methods["apply_chat_template"] = make_chat_method(original_methods["apply_chat_template"])
    for name in list(methods):
        if name != "_encode_plus" and _is_own(original_methods, name):
            del methods[name]
    for name, method in methods.items():
        # So that the method has the same signature too, which libraries ask for.
        update_wrapper(method, original_methods[name])
        method._bpe_original = original_methods[name]
    default = original_methods[BACKEND_ATTRIBUTE]
    return {**methods, BACKEND_ATTRIBUTE: _calls.BackendAttribute(default)}


def _is_own(methods: dict[str, Any], name: str) -> bool:
    """Whether a class has a method of its own instead of that of transformers."""
    standard_methods = _find_original_methods(_load_backend())
    return methods[name] is not standard_methods[name]


def _make_encoding_methods(original_methods: dict[str, Any]) -> dict[str, Any]:
    from transformers.tokenization_utils_base import BatchEncoding, PreTrainedTokenizerBase

    original_call, original_encode, original_encode_plus = (
        original_methods[name] for name in ("__call__", "encode", "_encode_plus")
    )
    uses_standard_encode = (
        original_encode_plus.__qualname__ == "TokenizersBackend._encode_plus"
        and original_encode is PreTrainedTokenizerBase.encode
    )
    uses_standard_call = (
        uses_standard_encode
        and original_call is PreTrainedTokenizerBase.__call__
        and not hasattr(PreTrainedTokenizerBase, "_switch_to_input_mode")
    )

    def make_layout(tokenizer: Any, text: Any, options: dict[str, Any], key: tuple[Any, ...]) -> Any:
        has_pair, ids_only = (bool(key[0] & flag) for flag in (2, 4))
        if not (uses_standard_encode if ids_only else uses_standard_call):
            return None
        if getattr(type(tokenizer)._encode_plus, "_bpe_original", None) is not original_encode_plus:
            return None  # a subclass of a patched class encodes in another way
        state = _find_state(tokenizer, original_methods, text)
        layout = state.find_layout(tokenizer, key)
        if layout is None:
            batch_type = None if ids_only else BatchEncoding
            layout = read_layout(tokenizer, state, options, batch_type, 1 + has_pair)
            if layout is not None:
                state.keep_layout(key, layout)
        return layout

    def tokenize(self: Any, text: Any, pair: Any = None, add_special_tokens: bool = False, **options: Any) -> Any:
        if type(text) is str and pair is None and add_special_tokens is False and not options and uses_standard_encode:
            state = _find_state(self, original_methods, text)
            if state.result.encoding:
                assert state.compat is not None
                names = state.compat.find_names(encode(self, text, add_special_tokens=False), text)
                if names is not None:
                    return names
        return original_methods["tokenize"](self, text, pair, add_special_tokens, **options)

    encode = _calls.with_fast_transformers_encode(original_encode, make_layout)

    def _encode_plus(self: Any, *args: Any, **options: Any) -> Any:
        state = _find_state(self, original_methods, options["text"] if "text" in options else args[:1])
        is_valid = all(type(options.get(name, True)) is bool for name in _BOOL_OPTIONS)
        is_short_call = is_short(options.get("text"), options.get("text_pair"), options)
        is_sanitized = options.get("sanitize_control_tokens")  # calls methods of the components
        # Where nothing is accelerated, no change of the backend is noticed, and a twin may be of an older one.
        uses_twin = state.result.encoding and (is_short_call or not is_valid or is_sanitized)
        uses_twin = uses_twin or state.verification_due
        if uses_twin and (twin := state.take_twin(self.__dict__[BACKEND_ATTRIBUTE])) is not None:
            try:
                return original_encode_plus(with_backend(self, twin), *args, **options)
            finally:
                state.twins.append(twin)
        if not state.result.encoding or not is_valid or is_sanitized:
            return original_encode_plus(self, *args, **options)
        return _encode_by_view(original_encode_plus, self, state, args, options)

    call = _calls.with_fast_call(original_call, make_layout)
    return {"__call__": call, "encode": encode, "tokenize": tokenize, "_encode_plus": _encode_plus}


def _encode_by_view(
    encode_plus: Callable[..., Any], tokenizer: Any, state: AccelerationState, args: Any, options: dict[str, Any]
) -> Any:
    """Call transformers' `_encode_plus` with a compat `Tokenizer` as backend; tensors are made here where possible."""
    view, tensor_type = make_view(tokenizer, state), options.get("return_tensors")
    has_other_columns = options.get("return_overflowing_tokens") or options.get("return_length")
    if is_tensor_type(tensor_type) and not has_other_columns:
        result = encode_plus(view, *args, **{**options, "return_tensors": None})
        arrays = make_tensors(result.data, tensor_type)
        if arrays is not None:
            result.data.update(arrays)
            return result
    return encode_plus(view, *args, **options)


def _make_decoding_methods(original_methods: dict[str, Any]) -> dict[str, Any]:
    original_decode, original_batch_decode = original_methods["decode"], original_methods["batch_decode"]

    def decode(self: Any, token_ids: Any, skip_special_tokens: bool = False, **options: Any) -> Any:
        result = _try_decode(self, token_ids, skip_special_tokens, options, original_methods)
        return original_decode(self, token_ids, skip_special_tokens, **options) if result is None else result

    def batch_decode(
        self: Any,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **options: Any,
    ) -> list[str]:
        options = {**options, "clean_up_tokenization_spaces": clean_up_tokenization_spaces}
        if type(sequences) is list and len(sequences) > 0 and type(sequences[0]) is list:
            rows: list[str] = self.decode(token_ids=sequences, skip_special_tokens=skip_special_tokens, **options)
            return rows
        result: list[str] = original_batch_decode(self, sequences, skip_special_tokens, **options)
        return result

    def convert_ids_to_tokens(self: Any, ids: Any, skip_special_tokens: bool = False) -> Any:
        original_convert = original_methods["convert_ids_to_tokens"]
        if type(ids) is not list:
            return original_convert(self, ids, skip_special_tokens)
        state = _find_state(self, original_methods, ids, decoding=True)
        if not state.result.decoding:
            return original_convert(self, ids, skip_special_tokens)
        assert state.compat is not None
        if skip_special_tokens:
            if any(type(token_id) is not int for token_id in ids):
                return original_convert(self, ids, skip_special_tokens)
            ids_to_skip = set(self.all_special_ids)
            names = state.compat.find_names([token_id for token_id in ids if token_id not in ids_to_skip])
        else:
            names = state.compat.find_names(ids)
        return original_convert(self, ids, skip_special_tokens) if names is None else names

    return {
        "decode": _calls.with_fast_transformers_decode(decode),
        "batch_decode": batch_decode,
        "convert_ids_to_tokens": convert_ids_to_tokens,
    }


# Decoding -------------------------------------------------------------------------------------------------------------


def _try_decode(tokenizer: Any, ids: Any, skip: bool, options: dict[str, Any], original_methods: dict[str, Any]) -> Any:
    """Decode ids, or several rows of ids; None where the tokenizer's own method must do so."""
    cleans_up = options.get("clean_up_tokenization_spaces")
    if options.keys() - {"clean_up_tokenization_spaces"} or type(skip) is not bool:
        return None
    if tokenizer.clean_up_tokenization_spaces if cleans_up is None else cleans_up:
        return None
    if not isinstance(ids, (list, int)) and hasattr(ids, "tolist"):
        ids = ids.tolist()
    if type(ids) is int:
        ids = [ids]
    if type(ids) is not list:
        return None
    state = _find_state(tokenizer, original_methods, ids, decoding=True)
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


def _find_state(
    tokenizer: Any, original_methods: dict[str, Any], text_or_ids: Any, decoding: bool = False
) -> AccelerationState:
    """Return the state of a tokenizer, made or made again if its backend changed.

    With `decoding`, only what decoding depends on is compared, unless all of the backend may have changed since the
    last call.
    """
    state: AccelerationState | None = tokenizer.__dict__.get(STATE_ATTRIBUTE)
    if state is not None and state.is_certain(tokenizer):
        return state
    backend = tokenizer.__dict__[BACKEND_ATTRIBUTE]
    is_unchanged = False
    if state is not None and state.backend is backend:
        compares_all = state.backend_was_read or not decoding
        n_compared = 5 if compares_all else 3
        is_unchanged = state.quick_signature[:n_compared] == _make_quick_signature(backend, not compares_all)
        # Where nothing is accelerated, results cannot differ, and this takes longer than a short call. A twin, which
        # answers before results are compared, does differ.
        is_used = state.verification_due or state.result.encoding or state.result.decoding
        if is_unchanged and state.backend_was_read and is_used:
            is_unchanged = state.full_signature == _make_full_signature(backend)
    if state is not None and is_unchanged:
        state.backend_was_read = False
        del backend
        state.note_sharing()
        if not state.verification_due or _may_defer(state, text_or_ids):
            return state
    elif state is not None and (twin := make_twin(tokenizer.__dict__[BACKEND_ATTRIBUTE])) is not None:
        state = _make_state(tokenizer)
        state.verification_due, state.twins = True, [twin]
        if _may_defer(state, text_or_ids):
            tokenizer.__dict__[STATE_ATTRIBUTE] = state
            return state
    state = tokenizer.__dict__[STATE_ATTRIBUTE] = _verify(tokenizer, original_methods)
    return state


def _may_defer(state: AccelerationState, text_or_ids: Any) -> bool:
    """Whether verification would still take longer than the calls since the change, the current call included."""
    rows = text_or_ids if isinstance(text_or_ids, (list, tuple)) else [text_or_ids]
    state.chars_since_change += _CHARS_PER_CALL + sum(
        len(row) if isinstance(row, (str, list, tuple)) else 1 for row in rows
    )
    return state.chars_since_change < _CHARS_BEFORE_VERIFYING


def _make_quick_signature(backend: Any, decoding: bool = False) -> Any:
    """Return what is compared at each call to notice a change of the backend; takes a few microseconds."""
    decoder, normalizer = backend.decoder, backend.normalizer  # the normalizer spells added tokens
    signature = (
        backend.get_vocab_size(True),
        None if decoder is None else decoder.__getstate__(),
        None if normalizer is None else normalizer.__getstate__(),
    )
    if decoding:
        return signature
    post_processor, pre_tokenizer = backend.post_processor, backend.pre_tokenizer
    return (
        *signature,
        None if post_processor is None else post_processor.__getstate__(),
        None if pre_tokenizer is None else pre_tokenizer.__getstate__(),
    )


def _make_full_signature(backend: Any) -> Any:
    """Return what is compared after the backend was handed out."""
    model = backend.model
    names = ("dropout", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges")
    settings = [getattr(model, name, None) for name in names]
    return repr(backend.get_added_tokens_decoder()), backend.get_vocab_size(False), settings, find_overrides(backend)


def _make_state(tokenizer: Any) -> AccelerationState:
    """Make the state of a tokenizer whose results have not been compared."""
    state, backend = AccelerationState(), tokenizer.__dict__[BACKEND_ATTRIBUTE]
    state.backend = backend
    state.quick_signature, state.full_signature = _make_quick_signature(backend), _make_full_signature(backend)
    return state


def _verify(tokenizer: Any, original_methods: dict[str, Any]) -> AccelerationState:
    """Compare results, and return the state of the tokenizer."""
    backend, state = tokenizer.__dict__[BACKEND_ATTRIBUTE], AccelerationState()
    try:
        state = _make_state(tokenizer)
        state.compat = Tokenizer.from_str(backend.to_str()).with_added_ids(backend.get_added_tokens_decoder())
        if state.compat.native is None:
            raise ValueError("the native tokenizer cannot read this model")
        max_bytes = tokenizer.__dict__.get(_PROMPT_CACHE_ATTRIBUTE)
        if max_bytes is not None:
            state.compat.cache_prompts(max_bytes)
        _compare(tokenizer, state, original_methods)
    except Exception as error:  # noqa: BLE001  # whatever goes wrong, the tokenizer's own methods remain
        raise_if_of_signal_handler(error)
        state.result.encoding = state.result.decoding = False
        state.decoding = None
        state.result.reasons.append(f"{type(error).__name__}: {error}")
    name = type(tokenizer).__name__
    if state.result.reasons:
        log.info("%s is not accelerated, or in part: %s", name, "; ".join(state.result.reasons))
    else:
        log.info("%s is accelerated: encoding and decoding", name)
    return state


def _compare(tokenizer: Any, state: AccelerationState, original_methods: dict[str, Any]) -> None:
    """Set what is accelerated: whatever gives the same results as the original methods on all probe texts."""
    original_encode_plus, compat = original_methods["_encode_plus"], state.compat
    assert compat is not None
    names = list(compat.get_added_tokens_decoder().values())[:64]
    texts = [*_PROBE_TEXTS, " ".join(f"x{token}y {token} " for token in map(str, names)), "".join(map(str, names))]
    backend_of_tokenizer = tokenizer.__dict__[BACKEND_ATTRIBUTE]
    plain_tokenizer = with_backend(tokenizer, make_twin(backend_of_tokenizer) or backend_of_tokenizer)
    options = {"add_special_tokens": True, "return_token_type_ids": True, "return_special_tokens_mask": True}
    n_differing = _count_differing(original_encode_plus, plain_tokenizer, make_view(tokenizer, state), texts, options)
    state.result.encoding = not n_differing
    if n_differing:
        state.result.reasons.append(f"encoding differs on {pluralize(n_differing, 'probe text')}")
    backend, standard_decode = plain_tokenizer.__dict__[BACKEND_ATTRIBUTE], getattr(_load_backend(), _DECODE_METHOD)
    n_wrong = 0
    for ids in (encoding.ids for encoding in backend.encode_batch(texts)):
        n_wrong += any(backend.decode(ids, skip) != compat.decode(ids, skip) for skip in (False, True))
        n_wrong += any(backend.decode(ids[start:]) != compat.decode(ids[start:]) for start in range(1, 4))
    own_name = "decode" if _is_own(original_methods, "decode") else ""
    if getattr(type(tokenizer), _DECODE_METHOD) is not standard_decode:
        own_name = _DECODE_METHOD
    n_wrong += bool(own_name)
    state.result.decoding = not n_wrong
    state.decoding = None if n_wrong else compat
    if n_wrong:
        state.result.reasons.append(
            f"its class has a {own_name} of its own" if own_name else "decoding differs on probe texts"
        )


def _count_differing(
    encode: Callable[..., Any], plain_tokenizer: Any, fast_tokenizer: Any, texts: list[str], options: dict[str, Any]
) -> int:
    """Count the probe texts that two tokenizers encode in different ways."""
    inputs: list[tuple[Any, ...]] = [*((text,) for text in texts), (texts,), (texts, list(reversed(texts)))]
    results = (
        [dict(encode(tokenizer, *texts_of_call, **options)) for tokenizer in (plain_tokenizer, fast_tokenizer)]
        for texts_of_call in inputs
    )
    return sum(plain != fast for plain, fast in results)
