r"""Normalization forms, lower case and word characters as in `tokenizers`, the same on every Python version.

`unicodedata` and `str.lower` depend on Python's version. `tokenizers` has its own data: Unicode 9 for normalization
forms, 17 for lower case, 16 for `\w`. By Unicode's stability policies these sources differ only in the characters
that `bpe/text/generate_unicode.py` calls NEW. No form changes a NEW character or joins it with another. So a text is
split at its NEW characters, and Python's functions, which agree on all others, handle the rest.

The scanners' classes: `bpe/text/_unicode.pxd`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from typing import Any

from bpe.text._unicode import find_new
from bpe.text.unicode_data import LOWER, WORD

#: Marks between Σ and a letter that `str.lower` ignores on older Pythons and not on newer ones.
_VERSION_DEPENDENT_MARKS = re.compile("([\u1734\U0001171e])")


def normalize(form: Any, text: str) -> str:
    r"""Bring a text to a normalization form: NFC, NFD, NFKC or NFKD.

    >>> normalize("NFC", "cafe\u0301"), ascii(normalize("NFKD", "\u32ff"))  # U+32FF is new in Unicode 12.1
    ('café', "'\\u32ff'")
    """
    if text.isascii():
        return text
    result = unicodedata.normalize(form, text)
    if result == text:  # substrings of normalized text are normalized, so the parts between NEW characters are too
        return text
    first_new = find_new(text, 0)
    if first_new < 0:
        return result
    return _map_around_new(text, first_new, lambda part: unicodedata.normalize(form, part), str)


def lower(text: str, final_sigma: bool = False) -> str:
    r"""Lower the case of a text, each character by itself. With `final_sigma`, a Σ that ends a word becomes ς.

    Word ends are as in Unicode 16, except that NEW characters end words.

    >>> lower("ΟΔΟΣ"), lower("ΟΔΟΣ", True), lower("\U00016ea0") == "\U00016ebb"  # a letter new in Unicode 17
    ('οδοσ', 'οδος', True)
    """
    if final_sigma and _VERSION_DEPENDENT_MARKS.search(text):
        return "".join(
            part if _VERSION_DEPENDENT_MARKS.match(part) else lower(part, True)
            for part in _VERSION_DEPENDENT_MARKS.split(text)
        )
    first_new = find_new(text, 0)
    change = str.lower if final_sigma else _lower_without_final_sigma
    if first_new < 0:
        return change(text)
    return _map_around_new(text, first_new, change, lambda char: _map_new_to_lower().get(char, char))


def find_combining_class(char: str) -> int:
    """Find the canonical combining class of a character.

    >>> find_combining_class("\\u0301"), find_combining_class("\\u07fd")  # U+07FD is new in Unicode 11
    (230, 0)
    """
    return 0 if is_new(char) else unicodedata.combining(char)


def is_new(char: str) -> bool:
    """Whether a character is NEW (defined in `bpe/text/generate_unicode.py`)."""
    return find_new(char, 0) == 0


def is_word(char: str) -> bool:
    r"""Whether `\w` matches a character in `tokenizers`, which tests the neighbours of `single_word` tokens with it.

    >>> is_word("é"), is_word("½"), is_word("-")
    (True, False, False)
    """
    firsts, lasts = _read_word_ranges()
    i = bisect_right(firsts, ord(char)) - 1
    return i >= 0 and ord(char) <= lasts[i]


def _map_around_new(text: str, first_new: int, change: Callable[[str], str], change_new: Callable[[str], str]) -> str:
    """Apply `change_new` to each NEW character, the first of which is at `first_new`, and `change` to the rest."""
    parts: list[str] = []
    start, position = 0, first_new
    while position >= 0:
        parts += (change(text[start:position]), change_new(text[position]))
        start = position + 1
        position = find_new(text, start)
    return "".join([*parts, change(text[start:])])


def _lower_without_final_sigma(text: str) -> str:
    return text.replace("Σ", "σ").lower()


@cache
def _map_new_to_lower() -> dict[str, str]:
    return {
        chr(code): chr(code + distance)
        for first, last, step, distance in LOWER
        for code in range(first, last + 1, step)
    }


@cache
def _read_word_ranges() -> tuple[list[int], list[int]]:
    """Read the first and the last code point of each range of word characters."""
    ranges = [[int(end, 16) for end in item.split("-")] for item in WORD.split()]
    return [ends[0] for ends in ranges], [ends[-1] for ends in ranges]
