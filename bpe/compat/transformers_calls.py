"""Calls of transformers' tokenizers, answered by a compat `Tokenizer` or by a twin of the tokenizer's backend.

transformers sets truncation and padding in the backend for each call, so its code never gets the backend itself, which
other threads use: a call has a compat `Tokenizer`, or a twin of the backend, for itself.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from bpe.compat.core import load_tokenizers, split_additions
from bpe.compat.document import AddedTokenEntry
from bpe.compat.huggingface import Tokenizer
from bpe.compat.processing import Plan
from bpe.compat.state import read_added_fields

#: The options of calls that do not need transformers' own code, and among these the options that choose columns.
_BASIC_OPTIONS = frozenset(("text_pair", "add_special_tokens", "truncation", "max_length", "padding", "return_tensors"))
_COLUMN_OPTIONS = frozenset(
    ("return_token_type_ids", "return_attention_mask", "return_special_tokens_mask", "return_offsets_mapping")
)
SUPPORTED_OPTIONS = _BASIC_OPTIONS | _COLUMN_OPTIONS | {"return_overflowing_tokens", "stride"}
#: The columns that a call returns without being asked, if the model has them.
_DEFAULT_COLUMNS = ("token_type_ids", "attention_mask")
#: The most plans that are kept for a tokenizer: one for each kind of call.
_MAX_PLANS = 64
#: Characters: for a shorter text `tokenizers` takes less time, as measured. The second is for calls that want offsets.
_MAX_SHORT_CHARS = 40, 80
#: The same limits where transformers' own code must run, too.
MAX_SHORT_CHARS_ENCODE_PLUS = 150, 1000
#: transformers' method that warns of long texts.
WARN_METHOD = "_eventual_warn_about_too_long_sequence"


@dataclass
class Acceleration:
    """What is accelerated for one tokenizer.

    Attributes:
        encoding: whether `__call__` and `encode` are accelerated.
        decoding: whether `decode` and `batch_decode` are accelerated.
        reasons: why a part is not accelerated, for each such part.

    """

    encoding: bool = False
    decoding: bool = False
    reasons: list[str] = field(default_factory=list)


@dataclass
class AccelerationState:
    """The state of one tokenizer, kept in its `__dict__`.

    Attributes:
        result: what is accelerated.
        compat: the tokenizer that takes the place of the backend.
        quick_signature: `_make_quick_signature` of the backend with which results were compared.
        full_signature: `_make_full_signature` of the same backend.
        backend_was_read: whether the backend was handed out since the last comparison with `full_signature`.
        verification_due: whether the backend has changed, and results have not been compared again yet.
        chars_since_change: the characters in calls since then, as `_may_defer` counts them.
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

    def get_plan(self, add_special: bool, as_text: bool, truncation: tuple[Any, ...], padding: tuple[Any, ...]) -> Plan:
        """Return how a call encodes, by the arguments of `enable_truncation` and of `enable_padding`, or ()."""
        key = (add_special, as_text, truncation, padding)
        plan = self.plans.get(key)
        if plan is None:
            assert self.compat is not None
            view = copy.copy(self.compat)
            _configure(view, as_text, truncation, padding)
            plan = view.get_plan(add_special)
            if len(self.plans) >= _MAX_PLANS:
                self.plans.clear()
            self.plans[key] = plan
        return plan

    def take_twin(self, backend: Any) -> tuple[Any, Any]:
        """Take a twin of the backend, or None, and the settings that the twin has.

        No other call uses the twin, until it is appended to `twins` again.
        """
        try:
            return self.twins.pop()  # list.pop and append are atomic: no lock
        except IndexError:
            return make_twin(backend), None

    def __reduce__(self) -> tuple[Any, ...]:
        return _return_none, ()  # computed again where it is needed

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None


def _return_none() -> None:
    return None


def _encode_by_twin(tokenizer: Any, state: AccelerationState, text_or_pair: Any, key: tuple[Any, ...]) -> Any:
    """Encode a text or a pair by a twin; None if the backend has none.

    `key` has the arguments of `AccelerationState.get_plan`.
    """
    twin, twin_settings = state.take_twin(tokenizer.__dict__["_tokenizer"])
    if twin is None:
        return None
    add_special, *settings = key
    try:
        if twin_settings != settings:
            twin_settings = None
            _configure(twin, *settings)
            twin_settings = settings
        return twin.encode_batch([text_or_pair], add_special_tokens=add_special)
    finally:
        state.twins.append((twin, twin_settings))


#: The arguments of `enable_truncation` and of `enable_padding`, as the keys of plans have them.
_TRUNCATION_ARGUMENTS = ("max_length", "stride", "strategy", "direction")
_PADDING_ARGUMENTS = ("direction", "pad_id", "pad_type_id", "pad_token", "length")


def _configure(twin: Any, as_text: bool, truncation: tuple[Any, ...], padding: tuple[Any, ...]) -> None:
    """Set a twin's options; an empty tuple stands for no truncation, or no padding."""
    twin.encode_special_tokens = as_text
    if truncation:
        twin.enable_truncation(**dict(zip(_TRUNCATION_ARGUMENTS, truncation, strict=True)))
    else:
        twin.no_truncation()
    if padding:
        twin.enable_padding(**dict(zip(_PADDING_ARGUMENTS, padding, strict=True)))
    else:
        twin.no_padding()


def make_twin(backend: Any) -> Any:
    """Make a backend that gives the same results, with settings of its own; None for a backend of another class.

    The twin shares the model, so making one takes little memory, and microseconds.
    """
    if isinstance(backend, Tokenizer):
        return copy.copy(backend)
    tokenizer_class = load_tokenizers().Tokenizer
    if type(backend) is not tokenizer_class:
        return None
    twin = tokenizer_class(backend.model)
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (component := getattr(backend, name)) is not None:
            setattr(twin, name, component)
    added = backend.get_added_tokens_decoder()
    rows = [
        AddedTokenEntry(token_id, **read_added_fields(token, special=False))
        for token_id, token in sorted(added.items())
    ]
    for tokens in split_additions(rows, backend.get_vocab_size(False), backend.model.token_to_id):
        twin.add_tokens(tokens)
    return twin if twin.get_added_tokens_decoder() == added else None


def make_view(tokenizer: Any, state: AccelerationState) -> Any:
    """Return the tokenizer with a compat `Tokenizer` of its own as backend, for one call of transformers' code."""
    return with_backend(tokenizer, copy.copy(state.compat))


def with_backend(tokenizer: Any, backend: Any) -> Any:
    """Return the tokenizer with another backend."""
    view = object.__new__(type(tokenizer))
    view.__dict__.update(tokenizer.__dict__)
    view.__dict__["_tokenizer"] = backend
    return view


def is_short(text: Any, pair: Any, options: dict[str, Any], limits: tuple[int, int]) -> bool:
    """Whether a call is for one text, or pair, so short that `tokenizers` computes its columns in less time."""
    if type(text) is not str or not (pair is None or type(pair) is str):
        return False
    return len(text) + len(pair or "") < limits[bool(options.get("return_offsets_mapping"))]


def is_supported_call(text: Any, options: dict[str, Any]) -> bool:
    """Whether `encode_call` may answer a call: a text or a list of texts, or pairs, and options of the usual types."""
    if not options:
        return type(text) is str or _is_list_of_str(text)
    tensor_type, pair = options.get("return_tensors"), options.get("text_pair")
    if type(text) is str:
        if not (pair is None or (type(pair) is str and pair)):
            return False
    elif not _is_list_of_str(text) or not (pair is None or (_is_list_of_str(pair) and len(pair) == len(text))):
        return False
    if tensor_type not in (None, "np", "pt") or type(options.get("add_special_tokens", True)) is not bool:
        return False
    columns = options.keys() & _COLUMN_OPTIONS
    if columns and any(options[name] not in (None, False, True) for name in columns):
        return False
    with_overflow = options.get("return_overflowing_tokens", False)
    return type(with_overflow) is bool and not (with_overflow and (tensor_type is not None or pair is not None))


def encode_call(
    tokenizer: Any, state: AccelerationState, text: Any, options: dict[str, Any], batch_encoding: Any
) -> Any:
    """Encode the texts of a supported call; None where transformers' own code must do so."""
    is_single, pair = type(text) is str, options.get("text_pair")
    with_overflow = options.get("return_overflowing_tokens", False)
    truncation = _read_truncation(tokenizer, options) if options else ()
    padding = _read_padding(tokenizer, state, is_single and not with_overflow, options) if options else ()
    if not state.result.encoding or truncation is None or padding is None:
        return None
    # A pair that must be truncated is left to transformers' own code.
    key = (
        options.get("add_special_tokens", True),
        bool(tokenizer.split_special_tokens),
        truncation if pair is None else (),
        padding,
    )
    encodings = None
    if is_single and (with_overflow or not _COLUMN_OPTIONS.isdisjoint(options)):
        max_chars = MAX_SHORT_CHARS_ENCODE_PLUS if with_overflow else _MAX_SHORT_CHARS
        if is_short(text, pair, options, max_chars):
            encodings = _encode_by_twin(tokenizer, state, text if pair is None else (text, pair), key)
    if encodings is None:
        plan = state.get_plan(*key)
        if pair is None:
            encodings = plan.encode_texts([text] if is_single else text).make_encodings()
        elif plan.pair_template_ids is None:
            return None
        else:
            texts = [text, pair] if is_single else list(chain.from_iterable(zip(text, pair, strict=True)))
            encodings = plan.encode_pairs(texts).make_encodings()
    if pair is not None and truncation and any(len(encoding) > truncation[0] for encoding in encodings):
        return None
    return _make_result(tokenizer, encodings, options, is_single, bool(padding), batch_encoding)


def _read_truncation(tokenizer: Any, options: dict[str, Any]) -> tuple[Any, ...] | None:
    """Read the truncation that a call asks for, as transformers does; None where transformers must decide."""
    max_length, stride = options.get("max_length"), options.get("stride", 0)
    truncation, padding = options.get("truncation"), options.get("padding", False)
    if type(stride) is not int or (stride and not options.get("return_overflowing_tokens")):
        return None
    if max_length is not None and (type(max_length) is not int or not 0 <= max_length < 1 << 64):
        return None  # transformers raises an error
    if truncation is None or truncation is False:
        if padding is True and max_length is not None:
            return None  # transformers warns
        truncates = truncation is None and padding is False and max_length is not None
    elif truncation is True or truncation == "longest_first":
        if max_length is None:
            return None
        truncates = True
    else:
        return None
    if not truncates:
        return ()
    if stride and (max_length is None or not 0 < stride < max_length - tokenizer.num_special_tokens_to_add(False)):
        return None  # transformers raises an error, or wants no template
    return max_length, stride, "longest_first", tokenizer.truncation_side


def _read_padding(
    tokenizer: Any, state: AccelerationState, is_single: bool, options: dict[str, Any]
) -> tuple[Any, ...] | None:
    """Read the padding that a call asks for; None where transformers must decide. A single text needs none."""
    padding = options.get("padding", False)
    if padding is False:
        return ()
    to_longest = padding is True or padding == "longest"
    max_length = None if to_longest else options.get("max_length")
    if not to_longest and (padding != "max_length" or max_length is None):
        return None
    token = tokenizer.pad_token
    token_id = None if token is None or state.compat is None else state.compat.token_to_id(token)
    if token_id is None:
        return None
    if to_longest and is_single:
        return ()
    return (tokenizer.padding_side, token_id, tokenizer.pad_token_type_id, token, max_length)


def _make_result(
    tokenizer: Any, encodings: list[Any], options: dict[str, Any], is_single: bool, is_padded: bool, batch_encoding: Any
) -> Any:
    """Make the columns of encodings, in the order of transformers; None for rows that are no array."""
    with_overflow, tensor_type = options.get("return_overflowing_tokens", False), options.get("return_tensors")
    samples: list[int] = []  # the text of each row
    if with_overflow:
        samples = [index for index, encoding in enumerate(encodings) for _ in range(1 + len(encoding.overflowing))]
    if len(samples) > len(encodings):
        encodings = [piece for encoding in encodings for piece in (encoding, *encoding.overflowing)]
    names, model_max_length = tokenizer.model_input_names, tokenizer.model_max_length
    rows = [encoding.ids for encoding in encodings]
    for ids in rows:
        if len(ids) > model_max_length and options.get("max_length") is None:
            getattr(tokenizer, WARN_METHOD)(ids, None, True)
    data: dict[str, Any] = {"input_ids": rows}
    if not _COLUMN_OPTIONS.isdisjoint(options):
        _add_columns(data, encodings, options, names)
    else:
        if "token_type_ids" in names:
            data["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        if "attention_mask" in names:
            if is_padded:
                data["attention_mask"] = [encoding.attention_mask for encoding in encodings]
            else:
                data["attention_mask"] = [[1] * len(ids) for ids in rows]
    if tensor_type is not None:
        data = make_tensors(data, tensor_type)
        return data and batch_encoding(data, encodings)
    if with_overflow:
        data["overflow_to_sample_mapping"] = samples
    elif is_single:
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
        is_wanted = options.get(option)
        if (name in names and name in _DEFAULT_COLUMNS) if is_wanted is None else is_wanted:
            data[name] = [getattr(encoding, column) for encoding in encodings]


def _is_list_of_str(value: Any) -> bool:
    """Whether a value is a list of str."""
    return type(value) is list and all(type(item) is str for item in value)


def make_tensors(data: dict[str, Any], tensor_type: str) -> Any:
    """Convert lists to arrays or tensors of int64; None for rows of different lengths, and no rows."""
    arrays = {}
    for name, column in data.items():
        rows = column if column and isinstance(column[0], list) else [column]
        if not isinstance(rows[0], list) or not rows[0]:
            return None
        if len(rows) > 1 and any(len(row) != len(rows[0]) for row in rows):
            return None
        if not isinstance(rows[0][0], int):
            return None
        arrays[name] = np.array(rows, dtype=np.int64)
    if tensor_type == "pt":
        import torch

        return {name: torch.from_numpy(array) for name, array in arrays.items()}
    return arrays
