"""The steps of a decoder, as data: they turn a list of tokens into a list of strings, whose concatenation is the text.

They are those of a tokenizer.json, with the meaning that Hugging Face's `tokenizers` gives them. `bpe/decode/chain.py`
runs them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Replace:
    """Replace a string, or each match of a pattern of Oniguruma (`bpe/text/oniguruma.py`), in each token."""

    pattern: str
    content: str
    literal: bool = True


@dataclass(frozen=True)
class Strip:
    """Remove up to `start` characters `content` from the beginning of each token, and up to `stop` from its end."""

    content: str
    start: int
    stop: int


@dataclass(frozen=True)
class Fuse:
    """Join all tokens into one."""


@dataclass(frozen=True)
class ByteFallback:
    """Make each run of tokens `<0x00>` to `<0xFF>` the text of these bytes.

    A run that is not UTF-8 becomes as many U+FFFD as it has tokens; with `by_character`, as in sentencepiece, only a
    byte that is part of no character becomes one.
    """

    by_character: bool = False


@dataclass(frozen=True)
class ByteLevel:
    """Join all tokens and read their characters as GPT-2's letters of bytes; other tokens stand for their UTF-8."""


@dataclass(frozen=True)
class Metaspace:
    """Replace a character by a space, or remove it from the first token if encoding puts it before the text."""

    replacement: str = "\u2581"
    prepended: bool = True


@dataclass(frozen=True)
class Suffix:
    """Replace an end-of-word mark, wherever it occurs in a token, by a space; in the last token by nothing."""

    suffix: str


@dataclass(frozen=True)
class WordPiece:
    """Put a space before each token but the first; a token with the prefix loses it instead.

    `cleanup` then removes the spaces before punctuation and English contractions.
    """

    prefix: str = "##"
    cleanup: bool = True


@dataclass(frozen=True)
class DummySpace:
    """Remove `▁` from the beginning of the first token, as in sentencepiece; only the last step can be this one.

    With `each`, it is also removed from the following tokens as long as there is no text.
    """

    each: bool = False


DecoderStep = DummySpace | Replace | Strip | Fuse | ByteFallback | ByteLevel | Metaspace | Suffix | WordPiece


def to_json(step: DecoderStep) -> dict[str, Any]:
    """A step as a JSON object, for fingerprints.

    >>> to_json(Strip(" ", 1, 0))
    {'step': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}
    """
    fields = asdict(step)
    if isinstance(step, ByteFallback) and not step.by_character:
        fields = {}  # as before there was this field
    return {"step": type(step).__name__, **fields}
