"""The options of calls of transformers' tokenizers, as layouts of rows; and backends for transformers' own code.

transformers sets truncation and padding in the backend for each call, so its code never gets the backend itself, which
other threads use: a call has a compat `Tokenizer`, or a twin of the backend, for itself.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, TypeGuard

import numpy as np

from bpe.compat._calls import BACKEND_ATTRIBUTE, AccelerationFields, RowLayout
from bpe.compat.core import load_tokenizers, split_additions
from bpe.compat.document import AddedTokenEntry
from bpe.compat.encoding import Encoding
from bpe.compat.huggingface import Tokenizer
from bpe.compat.state import read_added_fields

#: The columns that calls return, in their order, and the options that choose them.
_COLUMN_OPTIONS = {
    "token_type_ids": "return_token_type_ids", "attention_mask": "return_attention_mask",
    "special_tokens_mask": "return_special_tokens_mask", "offset_mapping": "return_offsets_mapping",
}  # fmt: skip
#: The columns that a call returns without being asked, if the model has them.
_DEFAULT_COLUMNS = ("token_type_ids", "attention_mask")
#: The options of calls that do not need transformers' own code, and of these, those that must be the default.
_DEFAULT_OPTIONS: dict[str, Any] = {
    "stride": 0, "is_split_into_words": False, "pad_to_multiple_of": None, "return_overflowing_tokens": False,
    "return_length": False, "verbose": True, "sanitize_control_tokens": False,
}  # fmt: skip
_SUPPORTED_OPTIONS = frozenset(
    (
        "text_pair", "add_special_tokens", "truncation", "max_length", "padding", "padding_side", "return_tensors",
        *_COLUMN_OPTIONS.values(), *_DEFAULT_OPTIONS,
    )
)  # fmt: skip
#: Characters: for a shorter text `tokenizers` takes less time where transformers' own code must run, as measured. The
#: second is for calls that want offsets.
_MAX_SHORT_CHARS = 150, 1000


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


@dataclass(eq=False)
class AccelerationState(AccelerationFields):
    """The state of one tokenizer, kept in its `__dict__`.

    Attributes:
        result: what is accelerated.
        compat: the tokenizer that takes the place of the backend.
        quick_signature: `_make_quick_signature` of the backend with which results were compared.
        full_signature: `_make_full_signature` of the same backend.
        chars_since_change: the characters in calls since the backend has changed, as `_may_defer` counts them.
        twins: twins of the backend that no call uses.

    """

    result: Acceleration = field(default_factory=Acceleration)
    compat: Tokenizer | None = None
    quick_signature: Any = None
    full_signature: Any = None
    chars_since_change: int = 0
    twins: list[Any] = field(default_factory=list)

    def take_twin(self, backend: Any) -> Any:
        """Take a twin of the backend, or None; no other call uses it, until it is appended to `twins` again."""
        try:
            return self.twins.pop()  # list.pop and append are atomic: no lock
        except IndexError:
            return make_twin(backend)

    def __reduce__(self) -> tuple[Any, ...]:
        return _return_none, ()  # computed again where it is needed

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None


def _return_none() -> None:
    return None


#: The arguments of `enable_truncation` and of `enable_padding`, as the keys of plans have them.
_TRUNCATION_ARGUMENTS = ("max_length", "stride", "strategy", "direction")
_PADDING_ARGUMENTS = ("direction", "pad_id", "pad_type_id", "pad_token", "length")


def _configure(twin: Any, specials_as_text: bool, truncation: tuple[Any, ...], padding: tuple[Any, ...]) -> None:
    """Set a twin's options; an empty tuple stands for no truncation, or no padding."""
    twin.encode_special_tokens = specials_as_text
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
    for name, method in find_overrides(backend).items():
        setattr(twin, name, method)
    return twin if twin.get_added_tokens_decoder() == added else None


def find_overrides(backend: Any) -> dict[str, Any]:
    """Find the methods that replace those of a backend's class, as transformers replaces `decode` for CLIP."""
    attributes = getattr(backend, "__dict__", {})
    return {name: value for name, value in attributes.items() if callable(getattr(type(backend), name, None))}


def make_view(tokenizer: Any, state: AccelerationState) -> Any:
    """Return the tokenizer with a compat `Tokenizer` of its own as backend, for one call of transformers' code."""
    return with_backend(tokenizer, copy.copy(state.compat))


def with_backend(tokenizer: Any, backend: Any) -> Any:
    """Return the tokenizer with another backend."""
    view = object.__new__(type(tokenizer))
    view.__dict__.update(tokenizer.__dict__)
    view.__dict__[BACKEND_ATTRIBUTE] = backend
    return view


def is_short(text: Any, pair: Any, options: dict[str, Any]) -> bool:
    """Whether a call is for one text, or pair, so short that `tokenizers` computes its columns in less time."""
    if type(text) is not str or not (pair is None or type(pair) is str):
        return False
    return len(text) + len(pair or "") < _MAX_SHORT_CHARS[bool(options.get("return_offsets_mapping"))]


def read_layout(
    tokenizer: Any, state: AccelerationState, options: dict[str, Any], batch_type: Any, n_texts: int
) -> RowLayout | None:
    """Read the layout of a call's rows from its options; None where transformers' own code must answer.

    Args:
        tokenizer: the tokenizer.
        state: its state.
        options: the options.
        batch_type: the class of the result, or None for a call that returns ids only.
        n_texts: 2 for pairs, otherwise 1.

    """
    if not state.result.encoding or not _are_supported(options) or hasattr(type(tokenizer), "_switch_to_input_mode"):
        return None
    assert state.compat is not None
    truncation, padding = _read_truncation(tokenizer, options), _read_padding(tokenizer, state, options)
    if truncation is None or padding is None:
        return None
    add_special: bool = options.get("add_special_tokens", True)
    view = copy.copy(state.compat)
    # A pair that must be truncated is left to transformers' own code.
    _configure(view, bool(tokenizer.split_special_tokens), truncation if n_texts == 1 else (), padding)
    plan = view.get_plan(add_special)
    template = plan.rules.get_template(n_texts, add_special)
    if template is None or plan.must_truncate or (n_texts == 2 and plan.pair_template_ids is None):
        return None
    spec = None if plan.core.native is None else plan.core.native.spec
    if spec is None or spec.dropout:
        return None
    names, columns = list(tokenizer.model_input_names), ["input_ids"]
    if batch_type is not None:
        for name, option in _COLUMN_OPTIONS.items():
            is_wanted = options.get(option)
            if (name in names and name in _DEFAULT_COLUMNS) if is_wanted is None else is_wanted:
                columns.append(name)
    model_max_length = -1 if options.get("max_length") is not None else _clip(tokenizer.model_max_length)
    settings = ["split_special_tokens", "model_input_names", "model_max_length"]
    settings += ["truncation_side"] * bool(truncation) + ["padding_side", "pad_token", "pad_token_type_id"] * (
        options.get("padding", False) is not False
    )
    return RowLayout(
        plan,
        (Encoding, batch_type, batch_type is not None and _is_plain(batch_type)),
        tuple(columns),
        _find_tensor_maker(options.get("return_tensors")),
        template,
        None if plan.max_ids is None else (min(plan.max_ids, sys.maxsize), truncation[3] == "left"),
        (-1 if padding[4] is None else padding[4], *padding[:4]) if padding else None,
        (model_max_length, min(truncation[0], sys.maxsize) if truncation and n_texts == 2 else -1),
        type(tokenizer),
        tuple((name, copy.copy(getattr(tokenizer, name))) for name in settings),
    )


def _are_supported(options: dict[str, Any]) -> bool:
    """Whether the options of a call are usual ones, of their types."""
    if not options.keys() <= _SUPPORTED_OPTIONS or type(options.get("add_special_tokens", True)) is not bool:
        return False
    if any(options.get(name, default) is not default for name, default in _DEFAULT_OPTIONS.items()):
        return False
    if any(options.get(name) not in (None, False, True) for name in _COLUMN_OPTIONS.values()):
        return False
    if options.get("padding_side") not in (None, "left", "right"):
        return False
    return is_tensor_type(options.get("return_tensors")) or options.get("return_tensors") is None


def is_tensor_type(tensor_type: Any) -> TypeGuard[str]:
    """Whether tensors of a type are made here; transformers' own code raises the error where torch is missing."""
    return tensor_type == "np" or (tensor_type == "pt" and find_spec("torch") is not None)


def _find_tensor_maker(tensor_type: str | None) -> Any:
    """Find the function that makes a tensor of an array; None where lists are wanted."""
    if tensor_type == "pt":
        import torch

        return torch.from_numpy
    return np.asarray if tensor_type == "np" else None


def _clip(length: Any) -> int:
    """Clip a number of tokens to what a kernel can count; -1, for no limit, if there is none."""
    return int(length) if isinstance(length, (int, float)) and 0 < length < 1 << 62 else -1


def _is_plain(batch_type: Any) -> bool:
    """Whether results have exactly the attributes that the kernel sets."""
    attributes = vars(batch_type({"input_ids": [1]}, [Encoding.from_parts([])]))
    return bool(attributes.keys() == {"data", "_encodings", "_n_sequences"})


def _read_truncation(tokenizer: Any, options: dict[str, Any]) -> tuple[Any, ...] | None:
    """Read the truncation that a call asks for, as transformers does; None where transformers must decide."""
    max_length, truncation = options.get("max_length"), options.get("truncation")
    padding = options.get("padding", False)
    if max_length is not None and (type(max_length) is not int or not 0 <= max_length <= sys.maxsize):
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
    return (max_length, 0, "longest_first", tokenizer.truncation_side) if truncates else ()


def _read_padding(tokenizer: Any, state: AccelerationState, options: dict[str, Any]) -> tuple[Any, ...] | None:
    """Read the padding that a call asks for; None where transformers must decide."""
    padding = options.get("padding", False)
    if padding is False:
        return ()
    to_longest = padding is True or padding == "longest"
    max_length = None if to_longest else options.get("max_length")
    if not to_longest and (padding != "max_length" or max_length is None or max_length >= 1 << 31):
        return None
    token = tokenizer.pad_token
    token_id = None if token is None or state.compat is None else state.compat.token_to_id(token)
    if token_id is None:
        return None
    side = options.get("padding_side")
    return (
        tokenizer.padding_side if side is None else side, token_id, tokenizer.pad_token_type_id, token, max_length
    )  # fmt: skip


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
