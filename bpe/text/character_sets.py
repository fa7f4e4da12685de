"""Sets of characters as `tokenizers` has them, which the tables of `character_data.py` list.

They are those of the installed `tokenizers` at the time of writing, whatever the versions of Python and `regex`.

Characters later than Unicode 16, the version of Oniguruma's classes in `tokenizers`, are masked for the installed
`regex`, which may be newer: `masked` replaces later characters, which Oniguruma takes for unassigned, by ones that are
unassigned everywhere. Characters that a pattern names itself, alone or in a range such as `[\\u0800-\\u4e00]`, are
matched by both engines. In a translated pattern (`oniguruma.py`) each range has what stands for its later characters,
too; for any other pattern of `regex`, the later characters that it names stay.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from bpe.text import character_data
from bpe.text._unicode import find_new

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: All characters with Unicode's White_Space property, which has not changed since Unicode 6.3.
WHITE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


@cache
def ranges(name: str) -> list[tuple[int, int]]:
    """The ranges of code points in a table, as (first, last)."""
    table: str = getattr(character_data, name)
    ends = [item.split("-") for item in table.split()]
    return [(int(each[0], 16), int(each[-1], 16)) for each in ends]


def codes(name: str) -> Iterator[int]:
    """The code points of a table."""
    return (code for first, last in ranges(name) for code in range(first, last + 1))


@cache
def char_class(name: str) -> str:
    """The characters of a table as a class of `re` and `regex`.

    >>> bool(re.match(char_class("PUNCTUATION"), "!")), bool(re.match(char_class("PUNCTUATION"), "a"))
    (True, False)
    """
    return f"[{''.join(_escaped(first) + '-' + _escaped(last) for first, last in ranges(name))}]"


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern that matches one character of a table."""
    return re.compile(char_class(name))


@cache
def _scripts() -> tuple[list[int], list[int], list[int]]:
    rows = [re.split("[-:]", item) for item in character_data.SCRIPTS.split()]
    return [int(row[0], 16) for row in rows], [int(row[1], 16) for row in rows], [int(row[2]) for row in rows]


@cache
def script(char: str) -> int | None:
    """The number of the script of a character for `UnicodeScripts`; None for one that belongs to any script.

    >>> script("a") == script("é"), script("a") == script("あ"), script("漢") == script("ア"), script(" ")
    (True, False, True, None)
    """
    firsts, lasts, numbers = _scripts()
    i = bisect_right(firsts, ord(char)) - 1
    return numbers[i] if i >= 0 and ord(char) <= lasts[i] else None


#: The numbers of Common and Inherited in the table of scripts.
_EVERY_SCRIPT = (2, 4)


@cache
def script_bytes() -> bytes:
    """A byte for each code point up to the last that `script` knows: its number + 1, 0 for Common and Inherited too.

    >>> table = script_bytes()
    >>> table[ord("a")] == table[ord("é")], table[ord("a")] == table[ord("я")], table[ord("!")], table[ord("́")]
    (True, False, 0, 0)
    """
    firsts, lasts, numbers = _scripts()
    table = bytearray(lasts[-1] + 1)
    for first, last, number in zip(firsts, lasts, numbers, strict=True):
        if number not in _EVERY_SCRIPT:
            table[first : last + 1] = bytes([number + 1]) * (last + 1 - first)
    return bytes(table)


# Classes --------------------------------------------------------------------------------------------------------------

#: The bits of a class.
DIGIT, NUMBER, LETTER, SPACE = 1, 2, 4, 8
#: The number of code points that have a class. All later ones have none in Unicode 16, which the patterns follow.
N_CLASSES = 0x40000


@cache
def find_character_classes() -> NDArray[np.uint8]:
    """The classes of code points, as the `regex` package has them; those that are not in Unicode 16 have none."""
    import regex

    text = np.arange(N_CLASSES, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    classes = np.zeros(N_CLASSES, dtype=np.uint8)
    for expression, bit in (
        (r"\d+", DIGIT),
        (r"\p{N}+", NUMBER),
        (r"\p{L}+", LETTER),
        (r"\p{White_Space}+", SPACE),
    ):
        for match in regex.finditer(expression, text):
            classes[slice(*match.span())] |= bit
    classes[[code for code in codes("UNASSIGNED") if code < N_CLASSES]] = 0
    classes.flags.writeable = False
    return classes


# Characters later than Unicode 16 -------------------------------------------------------------------------------------

#: The first of many characters that are unassigned in all versions of Unicode so far.
UNASSIGNED = 0x50000
#: The only other character that differs: `as_before`.
_CHANGED = "\u0295"

#: A character, or a range of them, that a pattern names.
_NAMED = (
    r"(?P<first>\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|[^\\])"
    r"(?:-(?P<last>\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|[^\\\]]))?"
)


def _read_code(item: str) -> int:
    """The code point of a character in a pattern."""
    return int(item[2:], 16) if len(item) > 2 else ord(item[-1])  # noqa: FURB166 (the prefix is not that of base 0)


@cache
def _list_later() -> tuple[str, ...]:
    """The characters that `regex` has assigned and Unicode 16 has not, in ascending order."""
    import regex

    planes = (code for code in codes("UNASSIGNED") if code < 0x40000 or code >= 0xE0000)  # the others are empty
    return tuple(regex.findall(r"\P{Cn}", "".join(map(chr, planes))))


def find_mask_range(first: int, last: int) -> tuple[int, int] | None:
    """The first and the last of the code points that stand for the later characters of a range; None without any."""
    if not any(low <= last and first <= high for low, high in ranges("UNASSIGNED")):
        return None
    low, high = bisect_left(_list_later(), first, key=ord), bisect_right(_list_later(), last, key=ord)
    return (UNASSIGNED + low, UNASSIGNED + high - 1) if low < high else None


@lru_cache(256)
def _find_named(pattern: str) -> list[tuple[int, int]]:
    """The ranges of characters that a pattern names."""
    matches = re.finditer(_NAMED, pattern, re.DOTALL)
    return [(_read_code(match["first"]), _read_code(match["last"] or match["first"])) for match in matches]


@lru_cache(256)
def as_before(pattern: str) -> str:
    """Letters that may stand for U+0295, which Unicode 16 has in lower case and later versions without case.

    The pattern names either all of them and U+0295, or none.

    >>> set(as_before("[a-z]")) <= set("ĸƍƪƺ")
    True
    """
    import regex

    letters = "ĸƍƪƺ" if regex.match(r"\p{Lo}", _CHANGED) else ""
    for first, last in _find_named(pattern):
        is_named = first <= ord(_CHANGED) <= last
        letters = "".join(char for char in letters if (first <= ord(char) <= last) == is_named)
    return letters


_CASE = r"(?i)\\p\{(?:ll|lowercaseletter|lo|otherletter|lc|casedletter|lower|lowercase|cased)\}"


def differs_by_case(pattern: str) -> bool:
    """Whether U+0295 is not what it was for a pattern that asks for its case, and nothing can stand for it."""
    return re.search(_CASE, pattern) is not None and not as_before(pattern) and as_before("") != ""


@lru_cache(256)
def _make_masks(pattern: str) -> dict[int, str]:
    """For `str.translate`: later characters that the pattern does not name → what stands for them."""
    later = list(_list_later())
    for first, last in _find_named(pattern):
        del later[bisect_left(later, first, key=ord) : bisect_right(later, last, key=ord)]
    return {ord(char): chr(UNASSIGNED + bisect_left(_list_later(), char)) for char in later}


def masked(text: str, pattern: str = "", translated: bool = False) -> str:
    r"""The text with each character that is not in Unicode 16 replaced by one that is unassigned in all versions.

    Args:
        text: the text.
        pattern: the pattern in the syntax of `regex`. The characters that it names stay.
        translated: whether it is a translation, so that all characters are replaced.

    >>> ascii(masked("a\u0558"))  # U+0558 is new in Unicode 18
    "'a\\U00050000'"
    >>> ascii(masked("a\u0558", "[\u0500-\u05ff]"))
    "'a\\u0558'"

    """
    if text.isascii() or (find_new(text, 0) < 0 and _CHANGED not in text):
        return text
    if _CHANGED in text and (letters := as_before(pattern)):
        text = text.replace(_CHANGED, next((char for char in letters if char not in text), letters[0]))
    return text.translate(_make_masks("" if translated else pattern))
