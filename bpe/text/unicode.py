r"""Normalization forms, case and word characters as `tokenizers` has them, the same on every Python.

`unicodedata` and `str.lower` change with Python's version, and `tokenizers` has data of its own: Unicode 9 in the
normalization forms, 17 in lower case, 16 in `\w`. By Unicode's stability policies these differ only in characters that
`bpe/text/generate_unicode.py` calls NEW. A NEW character changes in no form and joins with nothing, so a text is cut at
these, and Python's functions, which agree about all others, do the rest.

Not here: the scanners' classes (`bpe/text/_unicode.pxd`) and white space, about which all agree.
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

#: Marks that `str.lower` of older Pythons passes over between Σ and a letter, and of newer ones does not.
_NOT_IGNORED = re.compile("([\u1734\U0001171e])")


def normalized(form: Any, text: str) -> str:
    r"""A text in a normalization form: NFC, NFD, NFKC or NFKD.

    >>> normalized("NFC", "cafe\u0301"), ascii(normalized("NFKD", "\u32ff"))  # U+32FF is of Unicode 12.1
    ('café', "'\\u32ff'")
    """
    if text.isascii():
        return text
    made = unicodedata.normalize(form, text)
    if made == text:  # then so is each stretch between NEW characters, because forms are closed under substrings
        return text
    at = find_new(text, 0)
    return made if at < 0 else _around(text, at, lambda part: unicodedata.normalize(form, part), str)


def lower(text: str, final_sigma: bool = False) -> str:
    r"""A text in lower case, each character by itself; with `final_sigma` Σ is ς at the end of a word.

    What a word is beside Σ is as in Unicode 16, but that NEW characters end words.

    >>> lower("ΟΔΟΣ"), lower("ΟΔΟΣ", True), lower("\U00016ea0") == "\U00016ebb"  # a letter of Unicode 17
    ('οδοσ', 'οδος', True)
    """
    if final_sigma and _NOT_IGNORED.search(text):
        return "".join(part if _NOT_IGNORED.match(part) else lower(part, True) for part in _NOT_IGNORED.split(text))
    at = find_new(text, 0)
    change = str.lower if final_sigma else _lower
    return change(text) if at < 0 else _around(text, at, change, lambda char: _lower_of_new().get(char, char))


def combining(char: str) -> int:
    """The canonical combining class of a character.

    >>> combining("\\u0301"), combining("a"), combining("\\u07fd")  # the last one is of Unicode 11
    (230, 0, 0)
    """
    return 0 if is_new(char) else unicodedata.combining(char)


def is_new(char: str) -> bool:
    """Whether a character is NEW."""
    return find_new(char, 0) == 0


def is_word(char: str) -> bool:
    r"""Whether a character is `\w` in the engine of `tokenizers` that looks around tokens which are single words.

    >>> is_word("é"), is_word("½"), is_word("-")
    (True, False, False)
    """
    firsts, lasts = _words()
    at = bisect_right(firsts, ord(char)) - 1
    return at >= 0 and ord(char) <= lasts[at]


def _around(text: str, at: int, change: Callable[[str], str], new: Callable[[str], str]) -> str:
    """`change` of each stretch between NEW characters, and `new` of each of these, the first of which is at `at`."""
    parts: list[str] = []
    done = 0
    while at >= 0:
        parts += (change(text[done:at]), new(text[at]))
        done = at + 1
        at = find_new(text, done)
    return "".join([*parts, change(text[done:])])


def _lower(text: str) -> str:
    return text.replace("Σ", "σ").lower()


@cache
def _lower_of_new() -> dict[str, str]:
    return {chr(code): chr(code + add) for first, last, step, add in LOWER for code in range(first, last + 1, step)}


@cache
def _words() -> tuple[list[int], list[int]]:
    """The first and the last character of each range."""
    ends = [[int(end, 16) for end in item.split("-")] for item in WORD.split()]
    return [each[0] for each in ends], [each[-1] for each in ends]
