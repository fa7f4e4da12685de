"""What a tokenizer.json does with ids and after encoding, as data: decoder, post-processor, truncation and padding.

The steps of a decoder turn a list of tokens into a list of strings, whose concatenation is the text;
`bpe/decode/step_decoder.py` runs them. They have the meaning that Hugging Face's `tokenizers` gives them.

Encoding uses none of the others: `TokenizerSpec.template` has the ids that the post-processor adds to one text. They
are kept for the compatible modules, and saved again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from bpe.base.fast_dataclasses import dataclass
from bpe.errors import check_choice, check_int, describe

# Decoders -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DecodeReplace:
    """Replace a string, or each match of a pattern of Oniguruma (`bpe/text/oniguruma.py`), in each token."""

    pattern: str
    content: str
    literal: bool = True


@dataclass(frozen=True)
class DecodeStrip:
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
class DecodeByteLevel:
    """Join all tokens and read their characters as GPT-2's letters of bytes; other tokens stand for their UTF-8."""


@dataclass(frozen=True)
class DecodeMetaspace:
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
    """Remove `▁` from the beginning of the first token that is decoded to text; only the last step can be this one.

    With `each`, it is also removed from the following tokens as long as there is no text. Both as in sentencepiece.
    """

    each: bool = False


DecoderStep = (
    DummySpace
    | DecodeReplace
    | DecodeStrip
    | Fuse
    | ByteFallback
    | DecodeByteLevel
    | DecodeMetaspace
    | Suffix
    | WordPiece
)


def step_to_json(step: DecoderStep) -> dict[str, Any]:
    """Convert a step to a JSON object, for fingerprints.

    >>> step_to_json(DecodeStrip(" ", 1, 0))
    {'step': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}
    """
    from dataclasses import asdict

    fields = asdict(step)
    if isinstance(step, ByteFallback) and not step.by_character:
        fields = {}  # as before there was this field
    return {"step": type(step).__name__.removeprefix("Decode"), **fields}


# Post-processors, truncation and padding ------------------------------------------------------------------------------


Direction = Literal["Left", "Right"]
Strategy = Literal["LongestFirst", "OnlyFirst", "OnlySecond"]


@dataclass(frozen=True)
class PostProcessor:
    """A post-processor that adds special tokens to encoded texts and trims their spans.

    Attributes:
        json: the object of tokenizer.json, as JSON with sorted keys.

    >>> PostProcessor.from_json({"type": "ByteLevel", "trim_offsets": True, "add_prefix_space": False}).trims
    (False,)

    """

    json: str

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PostProcessor:
        """Create the post-processor that an object of tokenizer.json describes."""
        return cls(json.dumps(value, sort_keys=True, ensure_ascii=False))

    @property
    def value(self) -> dict[str, Any]:
        """The object of tokenizer.json."""
        value: dict[str, Any] = json.loads(self.json)
        return value

    @property
    def trims(self) -> tuple[bool, ...]:
        """For each time that spaces are trimmed from the spans: whether a space that begins a text is kept."""
        return tuple(
            bool(processor.get("add_prefix_space", True))
            for processor in _flatten_processors(self.value)
            if _is_trimming(processor)
        )

    def renumber(self, new_ids: Sequence[int]) -> PostProcessor | None:
        """Replace ids by new ones, by old id; None if the new id of a token that is added is negative."""
        value = self.value
        for processor in _flatten_processors(value):
            if processor.get("type") == "TemplateProcessing":
                for token in processor["special_tokens"].values():
                    token["ids"] = [new_ids[token_id] for token_id in token["ids"]]
                    if min(token["ids"], default=0) < 0:
                        return None
            for role in ("cls", "sep"):
                if role in processor:
                    processor[role][1] = new_ids[processor[role][1]]
                    if processor[role][1] < 0:
                        return None
        return PostProcessor.from_json(value)


def _flatten_processors(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if value.get("type") == "Sequence":
        for processor in value["processors"]:
            yield from _flatten_processors(processor)
    else:
        yield value


def _is_trimming(value: dict[str, Any]) -> bool:
    return value.get("type") in ("ByteLevel", "RobertaProcessing") and value.get("trim_offsets", True) is True


@dataclass(frozen=True)
class Truncation:
    """How long encoded texts may be: at most `max_length` ids, in windows that overlap by `stride`."""

    max_length: int
    strategy: Strategy = "LongestFirst"
    stride: int = 0
    direction: Direction = "Right"

    def __post_init__(self) -> None:
        check_int("max_length", self.max_length, 0)
        check_int("stride", self.stride, 0)
        check_choice("strategy", self.strategy, get_args(Strategy))
        check_choice("direction", self.direction, get_args(Direction))


@dataclass(frozen=True)
class Padding:
    """How encoded texts get one length: that of the longest (`length` None), or `length`."""

    length: int | None = None
    direction: Direction = "Right"
    pad_to_multiple_of: int | None = None
    pad_id: int = 0
    pad_type_id: int = 0
    pad_token: str = "[PAD]"

    def __post_init__(self) -> None:
        for name in ("length", "pad_to_multiple_of"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 0)
        check_choice("direction", self.direction, get_args(Direction))
        check_int("pad_id", self.pad_id, 0)
        check_int("pad_type_id", self.pad_type_id, 0)
        if not isinstance(self.pad_token, str):
            raise TypeError(f"pad_token is {describe(self.pad_token)}; it must be a str")
