"""A tokenizer.json as small JSON values, and its two long lists (vocab and merges) as text that is not parsed again.

Not here: what the values mean (`bpe/formats/huggingface`), and the tokenizer that is made from them (`sequences.py`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bpe.errors import FormatError, shown

#: Numbers that stand for the vocab and the merges while `json` reads the rest.
_PLACEHOLDERS = (8273645190382745103, 8273645190382745104)
_VOCAB, _MERGES = re.compile(r'"vocab"\s*:\s*(?=\{)'), re.compile(r'"merges"\s*:\s*(?=\[)')
#: What follows the merges where they are the last field; whoever uses them reads them anyway.
_TAIL = re.compile(r"\](?=\s*\}\s*\}\s*\Z)")
_SCANNER = json.JSONDecoder()

#: The fields of an added token, in the order in which `tokenizers` writes them.
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass(frozen=True, slots=True)
class Added:
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
        return {"id": self.id, "content": self.content} | {flag: getattr(self, flag) for flag in FLAGS}

    @property
    def flags(self) -> tuple[bool, ...]:
        """The flags in the order of `FLAGS`."""
        return tuple(getattr(self, flag) for flag in FLAGS)


@dataclass(frozen=True, eq=False)
class Model:
    """The model of a tokenizer.json. Immutable.

    Attributes:
        settings: its fields without vocab and merges.
        vocab: token → id.
        merges_text: the list of merges, as JSON.

    """

    settings: dict[str, Any]
    vocab: dict[str, int]
    merges_text: str
    given_vocab: str | None = field(default=None, repr=False)

    @cached_property
    def vocab_text(self) -> str:
        """The vocab as JSON."""
        return self.given_vocab or compact(dict(sorted(self.vocab.items(), key=lambda item: item[1])))

    def text(self) -> str:
        """The model as JSON."""
        head = "".join(f"{compact(name)}:{compact(value)}," for name, value in self.settings.items())
        return f'{{{head}"vocab":{self.vocab_text},"merges":{self.merges_text}}}'


def parse(text: str) -> tuple[Model, dict[str, Any]]:
    """(model, the other fields) of a tokenizer.json.

    Raises:
        FormatError: for text that is not JSON, or has no model of type BPE.

    """
    top, lists = _divided(text) or (_loaded(text), None)
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
    return Model(settings, vocab, compact(merges)), top


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise FormatError(f"it is not JSON: {error}", where="the file") from None


def _divided(text: str) -> tuple[dict[str, Any], tuple[dict[str, int], str, str]] | None:
    """(the file without its long lists, (vocab, merges as text, vocab as text)); None for an unusual file."""
    vocab_at, merges_at = _VOCAB.search(text), _MERGES.search(text)
    if vocab_at is None or merges_at is None or any(str(number) in text for number in _PLACEHOLDERS):
        return None
    try:
        vocab, vocab_end = _SCANNER.raw_decode(text, vocab_at.end())
        tail = _TAIL.search(text, max(len(text) - 64, merges_at.end())) if merges_at.start() > vocab_end else None
        merges_end = tail.start() + 1 if tail else _SCANNER.raw_decode(text, merges_at.end())[1]
        spans = [(vocab_at.end(), vocab_end, _PLACEHOLDERS[0]), (merges_at.end(), merges_end, _PLACEHOLDERS[1])]
        rest, done = [], 0
        for start, end, number in sorted(spans):
            rest += [text[done:start], str(number)]
            done = end
        top = json.loads("".join([*rest, text[done:]]))
        if (top["model"]["vocab"], top["model"]["merges"]) != _PLACEHOLDERS:
            return None
    except (ValueError, TypeError, KeyError):
        return None
    return top, (vocab, text[merges_at.end() : merges_end], text[vocab_at.end() : vocab_end])


def compact(value: object) -> str:
    """A value as JSON without spaces, as `tokenizers` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
