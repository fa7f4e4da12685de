"""Alignment: the span of the original text that each character of a normalized text comes from, by two conventions.

By "whole", the span is the smallest that contains all sources of the character: for an `é` that composition produced,
the letter and the accent; for a space that replaced several, all of them; for an inserted character, an empty span at
the position of the insertion.

By "tokenizers", it is the span that the package tokenizers gives: that of one character, the *source*. A composed
character has the first one's, a replacement the last one's, an inserted character its neighbour's; marks that
composition or sorting moved have those of their positions. Sources: `NormalizedString::transform_range` of
`tokenizers` and its `unicode_normalization_alignments`.

Offsets of tokens: `bpe/encode/offsets.py`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import regex
from numpy.typing import NDArray

from bpe.text.unicode import find_combining_class, is_new, normalize

#: The rule for the spans of normalized text: all that a character was made from, or what `tokenizers` gives.
Convention = Literal["whole", "tokenizers"]
#: A character of the normalized text, the start and end of its span in the original, and its source.
MappedChar = tuple[str, int, int, int]
#: (character, start, end, how many source characters it stands for).
CountedChar = tuple[str, int, int, int]


@dataclass(frozen=True, eq=False)
class AlignedText:
    """A normalized text. Its character i comes from the characters `starts[i]:ends[i]` of the original text.

    With `in_place`, character i comes from character i alone, so spans need no lookup. `sources` has the character that
    each takes its span from in `tokenizers`, -1 before the first; None for a step that `tokenizers` does not have.

    >>> align_normal_form("NFC", "cafe\\u0301!").starts.tolist()
    [0, 1, 2, 3, 5]
    """

    text: str
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    in_place: bool = False
    sources: NDArray[np.int64] | None = None

    def compose(self, later: AlignedText, convention: Convention) -> AlignedText:
        """Compose this alignment with `later`, whose original is the text of this one."""
        if convention == "whole" or later.sources is None:
            return self.compose_whole(later)
        starts, ends = (
            np.where(later.sources < 0, 0, bound[np.maximum(later.sources, 0)]) if len(bound) else bound
            for bound in (self.starts, self.ends)
        )
        return AlignedText(later.text, starts, ends)

    def compose_whole(self, later: AlignedText) -> AlignedText:
        """Compose by the convention "whole"."""
        if self.in_place:
            return later
        if later.in_place:
            n = len(later.text)
            return AlignedText(later.text, self.starts[:n], self.ends[:n])
        starts, ends = self.find_hull(later.starts, later.ends)
        return AlignedText(later.text, starts, ends)

    def find_hull(
        self, first_chars: NDArray[np.int64], end_chars: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the (starts, ends) of the smallest original spans of the spans `text[first_chars[i]:end_chars[i]]`."""
        n = len(self.text)
        if self.in_place:
            return first_chars, end_chars
        if n == 0:
            return np.zeros_like(first_chars), np.zeros_like(first_chars)
        bounds = np.stack((first_chars, end_chars), axis=1).ravel()
        is_nonempty = self.starts < self.ends
        infinity = np.int64(np.iinfo(np.int64).max)
        starts = np.minimum.reduceat(np.append(np.where(is_nonempty, self.starts, infinity), infinity), bounds)[::2]
        ends = np.maximum.reduceat(np.append(np.where(is_nonempty, self.ends, -1), -1), bounds)[::2]
        # An empty span lies where the span of the character before it ends; a span of inserted characters only, where
        # the first of them was inserted.
        position = np.where(first_chars > 0, self.ends[first_chars - 1], self.starts[0])
        position = np.where(first_chars < end_chars, self.starts[np.minimum(first_chars, n - 1)], position)
        is_empty = (first_chars >= end_chars) | (starts > ends)
        return np.where(is_empty, position, starts), np.where(is_empty, position, ends)


def align_unchanged(text: str, start: int = 0, end: int | None = None) -> AlignedText:
    """Align the substring `text[start:end]` with `text`."""
    positions = np.arange(start, len(text) if end is None else end, dtype=np.int64)
    return AlignedText(text[start:end], positions, positions + 1, in_place=start == 0, sources=positions)


def apply_edits(text: str, edits: Iterable[tuple[int, int, Iterable[MappedChar]]]) -> AlignedText:
    """Edit a text: each (start, end, chars), in ascending order, replaces `text[start:end]` by chars."""
    parts: list[str] = []
    kept_starts: list[int] = []  # of each kept stretch: its position in the result (the next starts after the edit)
    shifts: list[int] = []  # of each kept stretch: its position in the text less that in the result
    new_chars: list[int] = []  # of each new character: its position in the result, its span and its source
    position = length = 0
    for start, end, chars in edits:
        parts.append(text[position:start])
        kept_starts.append(length)
        shifts.append(position - length)
        length += start - position
        for char, *span_and_source in chars:
            parts.append(char)
            new_chars += (length, *span_and_source)
            length += 1
        position = end
    if not kept_starts:
        return align_unchanged(text)
    parts.append(text[position:])
    kept_starts.append(length)
    shifts.append(position - length)
    length += len(text) - position
    starts = np.arange(length) + np.repeat(shifts, np.diff(kept_starts, append=length))
    ends, sources = starts + 1, starts.copy()
    positions, *spans_and_sources = np.array(new_chars, dtype=np.int64).reshape(-1, 4).T
    starts[positions], ends[positions], sources[positions] = spans_and_sources
    return AlignedText("".join(parts), starts, ends, sources=sources)


def map_to_span(chars: str, start: int, end: int) -> Iterator[MappedChar]:
    """Map characters to one span; their source is its last character."""
    return ((char, start, end, max(end - 1, 0)) for char in chars)


def find_sources(counts: Sequence[int]) -> NDArray[np.int64]:
    """Find the source of each character as `transform_range` of `tokenizers` does.

    It is the first of the `counts[i]` source characters that character i stands for, which follow those of the
    character before it. An inserted character (0) takes the span of the source character before it, or -1.

    >>> find_sources([1, 0, 2, 1]).tolist()
    [0, 0, 1, 3]
    """
    n_sources = np.array(counts, dtype=np.int64)
    first_sources: NDArray[np.int64] = np.cumsum(n_sources) - np.maximum(n_sources, 1)
    return first_sources


# Normalization forms --------------------------------------------------------------------------------------------------


def align_normal_form(form: Any, text: str) -> AlignedText:
    """Bring a text to a Unicode normalization form (NFC, NFD, NFKC or NFKD), aligned with the original."""
    if unicodedata.is_normalized(form, text):
        return align_unchanged(text)
    stretches = _find_stretches(form, text)
    return apply_edits(
        text, ((start, end, _normalize_stretch(form, text[start:end], start)) for start, end in stretches)
    )


def _find_stretches(form: Any, text: str) -> Iterator[tuple[int, int]]:
    """Find the (start, end) of the parts of a text that a form may change, each by itself."""
    joining_chars = {char for char in set(text) if not is_boundary_before(char)}
    changing_chars = {char for char in set(text) if normalize(form, char) != char}
    joining_class, changing_class = (
        f"[{regex.escape(''.join(sorted(chars)))}]" if chars else "(?!)" for chars in (joining_chars, changing_chars)
    )
    changeable_part = regex.compile(rf"(?s:.)?{joining_class}+|{changing_class}", regex.V0)
    return (match.span() for match in changeable_part.finditer(text))


def is_boundary_before(char: str) -> bool:
    """Whether no normalization form joins a character with the one before it or moves it in front of that one.

    A text may be split before such a character and its parts normalized separately.

    >>> is_boundary_before("e"), is_boundary_before("\\u0301"), is_boundary_before("가"), is_boundary_before("\\u1161")
    (True, False, True, False)
    """
    if char < "\u0300" or is_new(char):
        return True
    first_part = normalize("NFKD", char)[0]
    return (
        not {char, first_part} & _find_composing_chars()
        and not find_combining_class(char)
        and not find_combining_class(first_part)
    )


@cache
def _find_composing_chars() -> frozenset[str]:
    """Find the characters that composition joins to the one before (marks aside). All lie below U+30000."""
    decompositions = (unicodedata.decomposition(chr(code)).split() for code in range(0xC0, 0x30000))
    second_chars = {chr(int(parts[1], 16)) for parts in decompositions if len(parts) == 2 and parts[0][0] != "<"}
    return frozenset(second_chars | {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))})


def _normalize_stretch(form: str, text: str, offset: int) -> Iterator[MappedChar]:
    """Bring a stretch to a form: decompose, sort marks by combining class, then compose.

    `offset` is the position of the stretch in the whole text.
    """
    chars: list[CountedChar] = []
    for position, char in enumerate(text, offset):
        for part_index, part in enumerate(normalize("NFKD" if "K" in form else "NFD", char)):
            chars.append((part, position, position + 1, int(part_index == 0)))
            i = len(chars) - 1
            combining_class = find_combining_class(part)
            while combining_class and i and find_combining_class(chars[i - 1][0]) > combining_class:
                chars[i - 1], chars[i] = chars[i], chars[i - 1]
                i -= 1
    if form.endswith("C"):
        chars = _compose(chars)
    sources = find_sources([count for *_, count in chars]) + offset
    return ((*mapped[:3], source) for mapped, source in zip(chars, sources.tolist(), strict=True))


def _compose(decomposed: list[CountedChar]) -> list[CountedChar]:
    """Compose each character with the last starter, unless a character between them blocks it (Unicode, D115)."""
    chars: list[CountedChar] = []
    starter, last_class = -1, 0  # of `chars`: the index of the last starter; the combining class of the last one
    for char, start, end, count in decomposed:
        combining_class = find_combining_class(char)
        if starter >= 0 and (last_class < combining_class or last_class == 0):
            base, base_start, base_end, base_count = chars[starter]
            composed_char = normalize("NFC", base + char)
            if len(composed_char) == 1:
                chars[starter] = (composed_char, min(base_start, start), max(base_end, end), base_count + count)
                continue
        if combining_class == 0:
            starter = len(chars)
        last_class = combining_class
        chars.append((char, start, end, count))
    return chars
