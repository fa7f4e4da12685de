"""A tokenizer.json as small JSON values, and its long lists, vocab and merges, as bytes that are parsed when needed.

Not here: what the values mean (`bpe/formats/huggingface`), and the tokenizer that is made from them (`sequences.py`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from bpe.errors import FormatError, shown
from bpe.formats._json_tokens import value_end

#: Numbers that stand for the vocab and the merges while `json` reads the rest.
_PLACEHOLDERS = (8273645190382745103, 8273645190382745104)
_VOCAB, _MERGES = re.compile(rb'"vocab"\s*:\s*(?=\{)'), re.compile(rb'"merges"\s*:\s*(?=\[)')
_EMPTY = re.compile(rb"\{\s*\}")

#: The fields of an added token, in the order in which `tokenizers` writes them.
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class Added(NamedTuple):
    """An added token: its id, its name and its flags."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False

    def to_json(self) -> dict[str, Any]:
        """The object in a tokenizer.json."""
        return self._asdict()

    @property
    def flags(self) -> tuple[bool, ...]:
        """The flags in the order of `FLAGS`."""
        return self[2:]


@dataclass(frozen=True, eq=False)
class Model:
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
        found = _loaded(self.vocab_json)
        if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
            raise FormatError("vocab must be an object of ids", where="model.vocab")
        return found

    @property
    def has_tokens(self) -> bool:
        """Whether the vocab has tokens."""
        return _EMPTY.match(self.vocab_json) is None

    def json(self) -> bytes:
        """The model as JSON."""
        head = "".join(f"{compact(name)}:{compact(value)}," for name, value in self.settings.items())
        return b'{%b"vocab":%b,"merges":%b}' % (head.encode(), self.vocab_json, self.merges_json)

    def check(self) -> None:
        """Raise FormatError for a vocab or merges that are not JSON."""
        _ = self.vocab  # raises
        if not isinstance(_loaded(self.merges_json), list):
            raise FormatError("merges must be a list", where="model.merges")


def parse(data: bytes) -> tuple[Model, dict[str, Any]]:
    """(model, the other fields) of a tokenizer.json.

    Raises:
        FormatError: for text that is not JSON, or has no model of type BPE.

    """
    top, lists = _divided(data) or (_loaded(data), None)
    model = top.pop("model", None) if isinstance(top, dict) else None
    if not isinstance(model, dict):
        raise FormatError("it has no model; a tokenizer.json has one", where="the file")
    if model.get("type", "BPE") not in ("BPE", "bpe.BPE"):
        raise FormatError(f"the model is {shown(model['type'])}; it must be BPE", where="model.type")
    vocab, merges = model.pop("vocab", {}), model.pop("merges", [])
    settings = {"type": model.pop("type", "BPE")} | model
    if lists is not None:
        return Model(settings, *lists), top
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise FormatError("vocab must be an object, and merges a list", where="model")
    return Model(settings, compact(vocab).encode(), compact(merges).encode()), top


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is not JSON: {error}", where="the file") from None


def _divided(data: bytes) -> tuple[dict[str, Any], tuple[bytes, bytes]] | None:
    """(the file without its long lists, (vocab, merges)); None for an unusual file.

    `json` reads the file with numbers in place of the lists. If it finds them as fields of the model, the lists are
    the values of these fields.
    """
    vocab, merges = _VOCAB.search(data), _MERGES.search(data)
    if vocab is None or merges is None or any(str(number).encode() in data for number in _PLACEHOLDERS):
        return None
    spans = [(each.end(), value_end(data, each.end())) for each in (vocab, merges)]
    (first, first_end), (last, last_end) = sorted(spans)
    if min(first_end, last_end) < 0 or first_end > last:
        return None
    numbers = [str(number).encode() for number in (_PLACEHOLDERS if spans[0] < spans[1] else _PLACEHOLDERS[::-1])]
    try:
        top = json.loads(b"".join([data[:first], numbers[0], data[first_end:last], numbers[1], data[last_end:]]))
        if (top["model"]["vocab"], top["model"]["merges"]) != _PLACEHOLDERS:
            return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return top, (data[slice(*spans[0])], data[slice(*spans[1])])


def compact(value: object) -> str:
    """A value as JSON without spaces, as `tokenizers` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
