"""What a tokenizer.json says about the time after encoding: the post-processor, truncation and padding, as data.

Encoding itself uses none of them: `TokenizerSpec.template` has the ids that the post-processor adds to one text. They
are kept for the compatible modules, and saved again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bpe.errors import check_choice, check_int, typed

Direction = Literal["Left", "Right"]
Strategy = Literal["LongestFirst", "OnlyFirst", "OnlySecond"]


@dataclass(frozen=True)
class PostProcessor:
    """A post-processor that adds special tokens to encoded texts and trims their spans.

    Attributes:
        json: the object of tokenizer.json, as JSON with sorted keys.

    >>> PostProcessor.of({"type": "ByteLevel", "trim_offsets": True, "add_prefix_space": False}).trims
    (False,)

    """

    json: str

    @classmethod
    def of(cls, value: dict[str, Any]) -> PostProcessor:
        """The post-processor that an object of tokenizer.json describes."""
        return cls(json.dumps(value, sort_keys=True, ensure_ascii=False))

    @property
    def value(self) -> dict[str, Any]:
        """The object of tokenizer.json."""
        found: dict[str, Any] = json.loads(self.json)
        return found

    @property
    def trims(self) -> tuple[bool, ...]:
        """For each time that spaces are trimmed from the spans: whether a space that begins a text is kept."""
        return tuple(bool(one.get("add_prefix_space", True)) for one in _flat(self.value) if _trims(one))

    def renumber(self, new_ids: Sequence[int]) -> PostProcessor | None:
        """The post-processor with new ids, by old id; None if a token that it adds has none, which is negative."""
        value = self.value
        for one in _flat(value):
            if one.get("type") == "TemplateProcessing":
                for token in one["special_tokens"].values():
                    token["ids"] = [new_ids[token_id] for token_id in token["ids"]]
                    if min(token["ids"], default=0) < 0:
                        return None
            for role in ("cls", "sep"):
                if role in one:
                    one[role][1] = new_ids[one[role][1]]
                    if one[role][1] < 0:
                        return None
        return PostProcessor.of(value)


def _flat(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if value.get("type") == "Sequence":
        for one in value["processors"]:
            yield from _flat(one)
    else:
        yield value


def _trims(value: dict[str, Any]) -> bool:
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
            raise TypeError(f"pad_token is {typed(self.pad_token)}; it must be a str")
