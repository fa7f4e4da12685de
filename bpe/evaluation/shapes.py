"""What the tokens of a vocabulary look like: characters that are whole, spaces, scripts, lengths.

Special tokens and unused ids have no shape. Everything is computed from the bytes of the tokens; the text only says
how often each occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from bpe.evaluation import metrics
from bpe.evaluation._shapes import CROSSING, INNER_SPACE, LEADING_SPACE, WHOLE, token_shapes
from bpe.evaluation.adapters import Tokens

#: Scripts of tokens; a token with letters of several is "Mixed", one without letters "Common".
SCRIPTS = (
    *("Latin", "Greek", "Cyrillic", "Armenian", "Hebrew", "Arabic", "Syriac", "Thaana", "Devanagari", "Bengali"),
    *("Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan"),
    *("Myanmar", "Georgian", "Hangul", "Ethiopic", "Cherokee", "Khmer", "Mongolian", "Hiragana", "Katakana"),
    *("Bopomofo", "Han"),
)
_OTHER, _MIXED, _PARTIAL = len(SCRIPTS) + 1, len(SCRIPTS) + 2, len(SCRIPTS) + 3
NAMES = ("Common", *SCRIPTS, "Other", "Mixed", "Partial")
#: The last bar of the length histogram, which has all longer tokens.
LONGEST = 32


@dataclass(frozen=True)
class Shapes:
    """The shapes of tokens, by id.

    Attributes:
        known: bool: whether the id has an ordinary token.
        whole: bool: whether the token is whole characters.
        crossing: bool: whether it has parts of several characters, at least one of them incomplete.
        leading_space, inner_space: bool: whether it begins with white space before other characters; whether it has
            white space between them.
        script: uint8: an index into NAMES.
        lengths: int64: bytes.

    """

    known: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    crossing: NDArray[np.bool_]
    leading_space: NDArray[np.bool_]
    inner_space: NDArray[np.bool_]
    script: NDArray[np.uint8]
    lengths: NDArray[np.int64]

    def in_text(self, counts: NDArray[np.int64]) -> dict[str, Any]:
        """The shares of the tokens of a text, by these counts."""
        weights = counts * self.known
        total = int(weights.sum())
        return {
            "whole_character_tokens": metrics.ratio(int(weights[self.whole].sum()), total),
            "crossing_tokens": metrics.ratio(int(weights[self.crossing].sum()), total),
            "leading_space_tokens": metrics.ratio(int(weights[self.leading_space].sum()), total),
            "inner_space_tokens": metrics.ratio(int(weights[self.inner_space].sum()), total),
            "scripts": self._scripts(weights, total),
            "length_histogram": self._histogram(weights),
        }

    def to_dict(self) -> dict[str, Any]:
        """The shares of the tokens of the vocabulary."""
        each = self.known.astype(np.int64)
        return {f"vocabulary_{name}": value for name, value in self.in_text(each).items()}

    def _scripts(self, weights: NDArray[np.int64], total: int) -> dict[str, float | None]:
        sums = np.bincount(self.script, weights=weights, minlength=len(NAMES))
        return {NAMES[index]: metrics.ratio(sums[index], total) for index in np.flatnonzero(sums).tolist()}

    def _histogram(self, weights: NDArray[np.int64]) -> list[int]:
        """How many tokens have 1, 2, … bytes; the last number is for 32 bytes and more."""
        sums = np.bincount(np.minimum(self.lengths, LONGEST), weights=weights, minlength=LONGEST + 1)
        return [int(count) for count in sums[1:]]


def find_shapes(tokens: Tokens) -> Shapes:
    """The shapes of the tokens of a vocabulary."""
    n = len(tokens.ordinary)
    flags, scripts = np.empty(n, dtype=np.uint8), np.empty(n, dtype=np.uint8)
    token_shapes(tokens.blob, tokens.offsets, _make_script_table(), _PARTIAL, _MIXED, flags, scripts)
    whole, crossing, leading, inner = (
        ((flags & bit) != 0) & tokens.ordinary for bit in (WHOLE, CROSSING, LEADING_SPACE, INNER_SPACE)
    )
    return Shapes(tokens.ordinary, whole, crossing, leading, inner, scripts, tokens.lengths)


@cache
def _make_script_table() -> NDArray[np.uint8]:
    """By code point: 0 for no script of its own (Common, Inherited, unassigned), else an index into NAMES."""
    table = np.zeros(0x110000, dtype=np.uint8)
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x40000))))  # no letters beyond
    for match in regex.finditer(r"[^\p{Script=Common}\p{Script=Inherited}\p{Script=Unknown}]+", every):
        table[ord(match[0][0]) : ord(match[0][-1]) + 1] = _OTHER
    for number, name in enumerate(SCRIPTS, 1):
        for match in regex.finditer(rf"\p{{Script={name}}}+", every):
            table[ord(match[0][0]) : ord(match[0][-1]) + 1] = number
    return table
