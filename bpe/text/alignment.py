"""Alignment: which part of a text each character of the changed text was made from.

The part is the smallest that holds everything the character came from: for an `é` that composition made, the letter and
the accent; for one space that replaced several, all of them; for an inserted character, an empty part at the place of
insertion. Not here: what each normalizer changes (`bpe/text/normalizers.py`), tokens (`bpe/encode/offsets.py`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from bpe.text.unicode import combining, is_new, normalized

#: A character, and from where to where it was made.
Made = tuple[str, int, int]


@dataclass(frozen=True, eq=False)
class Aligned:
    """A changed text: its character i was made from the characters `starts[i]` to `ends[i]` of the text before.

    With `in_place`, character i was made from character i alone, so that nothing has to be looked up.

    >>> composed("NFC", "cafe\\u0301!").starts.tolist()
    [0, 1, 2, 3, 5]
    """

    text: str
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    in_place: bool = False

    def through(self, later: Aligned) -> Aligned:
        """This change and a later one of its text, as one."""
        if self.in_place:
            return later
        if later.in_place:
            n = len(later.text)
            return Aligned(later.text, self.starts[:n], self.ends[:n])
        starts, ends = self.hull(later.starts, later.ends)
        return Aligned(later.text, starts, ends)

    def hull(self, first: NDArray[np.int64], behind: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The smallest parts of the text before that the parts `text[first[i]:behind[i]]` were made from."""
        n = len(self.text)
        if self.in_place:
            return first, behind
        if n == 0:
            return np.zeros_like(first), np.zeros_like(first)
        pairs = np.stack((first, behind), axis=1).ravel()
        filled = self.starts < self.ends
        far = np.int64(np.iinfo(np.int64).max)
        starts = np.minimum.reduceat(np.append(np.where(filled, self.starts, far), far), pairs)[::2]
        ends = np.maximum.reduceat(np.append(np.where(filled, self.ends, -1), -1), pairs)[::2]
        # No character: behind what the one before was made of. Characters that were put in: where the first one was.
        place = np.where(first > 0, self.ends[first - 1], self.starts[0])
        place = np.where(first < behind, self.starts[np.minimum(first, n - 1)], place)
        empty = (first >= behind) | (starts > ends)
        return np.where(empty, place, starts), np.where(empty, place, ends)


def unchanged(text: str, start: int = 0, end: int | None = None) -> Aligned:
    """A part of a text, as it is."""
    places = np.arange(start, len(text) if end is None else end, dtype=np.int64)
    return Aligned(text[start:end], places, places + 1, in_place=start == 0)


def edited(text: str, edits: Iterable[tuple[int, int, Iterable[Made]]]) -> Aligned:
    """A text in which some parts, in order, become other characters."""
    parts: list[str] = []
    begun: list[int] = []  # where each stretch that stays lies in the changed text, what is put in behind it included
    moved: list[int] = []  # and by how much further on it lay before
    changed: list[int] = []  # of each character put in, its place and the part that it was made of
    at = length = 0
    for start, end, made in edits:
        parts.append(text[at:start])
        begun.append(length)
        moved.append(at - length)
        length += start - at
        for char, first, behind in made:
            parts.append(char)
            changed += (length, first, behind)
            length += 1
        at = end
    if not begun:
        return unchanged(text)
    parts.append(text[at:])
    begun.append(length)
    moved.append(at - length)
    length += len(text) - at
    starts = np.arange(length) + np.repeat(moved, np.diff(begun, append=length))
    ends = starts + 1
    places, firsts, behinds = np.array(changed, dtype=np.int64).reshape(-1, 3).T
    starts[places], ends[places] = firsts, behinds
    return Aligned("".join(parts), starts, ends)


def whole(made: str, start: int, end: int) -> Iterator[Made]:
    """Characters of which each was made of all of a part."""
    return ((char, start, end) for char in made)


# Unicode's forms ------------------------------------------------------------------------------------------------------


def composed(form: Any, text: str) -> Aligned:
    """A text in a normalization form of Unicode: NFC, NFD, NFKC or NFKD."""
    if unicodedata.is_normalized(form, text):
        return unchanged(text)
    joined = {char for char in set(text) if not begins_anew(char)}
    other = {char for char in set(text) if normalized(form, char) != char}
    joining, changing = (f"[{regex.escape(''.join(sorted(chars)))}]" if chars else "(?!)" for chars in (joined, other))
    stretches = regex.compile(rf"(?s:.)?{joining}+|{changing}", regex.V0)
    return edited(text, ((*match.span(), _form(form, match[0], match.start())) for match in stretches.finditer(text)))


def begins_anew(char: str) -> bool:
    """Whether no normalization form joins a character with the one before it, or moves it in front of that.

    A text may be cut before such a character and its parts normalized separately.

    >>> begins_anew("e"), begins_anew("\\u0301"), begins_anew("가"), begins_anew("\\u1161")
    (True, False, True, False)
    """
    if char < "\u0300" or is_new(char):
        return True
    first = normalized("NFKD", char)[0]
    return not {char, first} & _seconds() and not combining(char) and not combining(first)


@cache
def _seconds() -> frozenset[str]:
    """The characters, not marks, that composition joins to one before: no plane beyond the third has any."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(0xC0, 0x30000))
    seconds = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    return frozenset(seconds | {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))})


def _form(form: str, text: str, place: int) -> list[Made]:
    """The characters of a stretch, which lies at `place`, in a form: decomposed, marks in order, then composed."""
    compatible = "NFKD" if "K" in form else "NFD"
    made: list[Made] = []
    for at, char in enumerate(text, place):
        for part in normalized(compatible, char):
            made.append((part, at, at + 1))
            here = len(made) - 1
            order = combining(part)
            while order and here and combining(made[here - 1][0]) > order:
                made[here - 1], made[here] = made[here], made[here - 1]
                here -= 1
    return made if form.endswith("D") else _compose(made)


def _compose(decomposed: list[Made]) -> list[Made]:
    """Join each character to the last one that begins anew, unless one between them is in the way."""
    made: list[Made] = []
    starter, last = -1, 0
    for char, start, end in decomposed:
        order = combining(char)
        if starter >= 0 and (last < order or last == 0):
            before, first, behind = made[starter]
            both = normalized("NFC", before + char)
            if len(both) == 1:
                made[starter] = (both, min(first, start), max(behind, end))
                continue
        if order == 0:
            starter = len(made)
        last = order
        made.append((char, start, end))
    return made
