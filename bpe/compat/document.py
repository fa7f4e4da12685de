"""A tokenizer.json as small JSON values, and its long lists, vocab and merges, as bytes that are parsed when needed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from bpe.base.forks import cached_property
from bpe.errors import FormatError, short_repr
from bpe.formats.huggingface.lists import Span, split_off_lists
from bpe.formats.huggingface.model import CL100K_FIELD
from bpe.formats.schema import check_text
from bpe.vocab.spec import MATCHING_FLAGS, make_flags

_EMPTY_OBJECT = re.compile(rb"\{\s*\}")

#: The flags of an added token, in the order in which `tokenizers` writes them.
FLAGS = (*MATCHING_FLAGS, "special")


class AddedTokenEntry(NamedTuple):
    """An entry in the added tokens of a tokenizer.json: id, name and flags."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the object in a tokenizer.json."""
        return self._asdict()

    @property
    def flags(self) -> tuple[bool, ...]:
        """The flags in the order of `FLAGS`."""
        return self[2:]

    @property
    def flag_names(self) -> frozenset[str]:
        """The flags as those of a native tokenizer."""
        names = {name for name, is_set in zip(MATCHING_FLAGS, self.flags, strict=False) if is_set}
        return make_flags(names, is_special=self.special)


@dataclass(frozen=True, eq=False)
class ModelJson:
    """The model of a tokenizer.json. Immutable.

    Attributes:
        settings: its fields without vocab and merges.
        vocab_json: the vocab, a JSON object; parsed when it is needed.
        merges_json: the merges, a JSON array.

    """

    settings: dict[str, Any]
    vocab_json: bytes
    merges_json: bytes

    @cached_property
    def vocab(self) -> dict[str, int]:
        """Token → id.

        Raises:
            FormatError: for a vocab that is not JSON.

        """
        vocab = _load_json(self.vocab_json)
        if not isinstance(vocab, dict) or not all(type(token_id) is int for token_id in vocab.values()):
            raise FormatError("vocab must be an object of ids", where="model.vocab")
        return vocab

    @property
    def has_tokens(self) -> bool:
        """Whether the vocab has tokens."""
        return _EMPTY_OBJECT.match(self.vocab_json) is None

    def to_json_bytes(self) -> bytes:
        """Write the model as JSON."""
        settings = "".join(f"{dump_compact(name)}:{dump_compact(value)}," for name, value in self.settings.items())
        return b'{%b"vocab":%b,"merges":%b}' % (settings.encode(), self.vocab_json, self.merges_json)

    def check(self) -> None:
        """Raise FormatError for a vocab or merges that are not JSON."""
        _ = self.vocab  # raises
        if not isinstance(_load_json(self.merges_json), list):
            raise FormatError("merges must be a list", where="model.merges")


def parse_document(data: bytes) -> tuple[ModelJson, dict[str, Any]]:
    """Divide a tokenizer.json into the model and the other fields.

    Raises:
        FormatError: for text that is not JSON or not Unicode, or has no model of type BPE.

    """
    split_file = _try_split_off_lists(data)
    fields = _load_json(data) if split_file is None else split_file[0]
    check_text(data, fields)
    model = fields.pop("model", None) if isinstance(fields, dict) else None
    if not isinstance(model, dict):
        raise FormatError("it has no model; a tokenizer.json has one", where="the file")
    if model.get("type", "BPE") not in ("BPE", "bpe.BPE"):
        raise FormatError(f"the model is {short_repr(model['type'])}; it must be BPE", where="model.type")
    model.pop(CL100K_FIELD, None)  # `tokenizers` splits into words by the pattern in the file
    for name in ("vocab", "merges"):
        if name not in model:
            raise FormatError(f"it has no {name}; a BPE model has vocab and merges", where="model")
    vocab, merges = model.pop("vocab"), model.pop("merges")
    settings = {"type": model.pop("type", "BPE")} | model
    if split_file is not None:
        vocab_json, merges_json = (text[start:end] for text, start, end in split_file[1:])
        return ModelJson(settings, vocab_json, merges_json), fields
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise FormatError("vocab must be an object, and merges a list", where="model")
    return ModelJson(settings, dump_compact(vocab).encode(), dump_compact(merges).encode()), fields


def _load_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is not JSON: {error}", where="the file") from None


def _try_split_off_lists(data: bytes) -> tuple[dict[str, Any], Span, Span] | None:
    """Call `split_off_lists`; None also for what is not JSON."""
    try:
        return split_off_lists(data, json.loads)
    except (ValueError, RecursionError):
        return None


def dump_compact(value: object) -> str:
    """Write a value as JSON without spaces, as `tokenizers` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
