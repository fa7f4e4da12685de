"""Sets of characters as `tokenizers` has them, which the tables of `character_data.py` list.

They are those of the installed `tokenizers` at the time of writing, whatever the versions of Python and `regex`.

Characters later than Unicode 16, the version of Oniguruma's classes in `tokenizers`, are masked for the installed
`regex`, which may be newer. Oniguruma takes later characters for unassigned, so `mask_new_characters` replaces them by
characters that are unassigned everywhere. Those that a pattern names itself, alone or in a range such as
`[\\u0800-\\u4e00]`, are matched by both engines. In a translated pattern (`oniguruma.py`) each range has what stands
for its later characters, too; for any other pattern of `regex`, the later characters that it names stay.
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
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


@cache
def read_ranges(name: str) -> list[tuple[int, int]]:
    """Read the ranges of code points in a table, as (first, last)."""
    table: str = getattr(character_data, name)
    rows = [item.split("-") for item in table.split()]
    return [(int(row[0], 16), int(row[-1], 16)) for row in rows]


def list_codes(name: str) -> Iterator[int]:
    """List the code points of a table."""
    return (code for first, last in read_ranges(name) for code in range(first, last + 1))


@cache
def make_char_class(name: str) -> str:
    """Write the characters of a table as a class of `re` and `regex`.

    >>> bool(re.match(make_char_class("PUNCTUATION"), "!")), bool(re.match(make_char_class("PUNCTUATION"), "a"))
    (True, False)
    """
    return f"[{''.join(_escape_code(first) + '-' + _escape_code(last) for first, last in read_ranges(name))}]"


def _escape_code(code: int) -> str:
    return f"\\U{code:08x}"


@cache
def compile_char_class(name: str) -> re.Pattern[str]:
    """Compile a pattern that matches one character of a table."""
    return re.compile(make_char_class(name))


@cache
def _read_scripts() -> tuple[list[int], list[int], list[int]]:
    rows = [re.split("[-:]", item) for item in character_data.SCRIPTS.split()]
    return [int(row[0], 16) for row in rows], [int(row[1], 16) for row in rows], [int(row[2]) for row in rows]


@cache
def find_script(char: str) -> int | None:
    """Find the number of a character's script for `UnicodeScripts`; None for a character of any script.

    >>> find_script("a") == find_script("é"), find_script("a") == find_script("あ"), find_script(" ")
    (True, False, None)
    """
    firsts, lasts, script_numbers = _read_scripts()
    i = bisect_right(firsts, ord(char)) - 1
    return script_numbers[i] if i >= 0 and ord(char) <= lasts[i] else None


#: The numbers of Common and Inherited in the table of scripts.
_SHARED_SCRIPTS = (2, 4)


@cache
def make_script_table() -> bytes:
    """Make a table by code point: the number of its script + 1; 0 for none, Common and Inherited.

    The table ends with the last code point that `find_script` knows.

    >>> table = make_script_table()
    >>> table[ord("a")] == table[ord("é")], table[ord("a")] == table[ord("я")], table[ord("!")], table[ord("́")]
    (True, False, 0, 0)
    """
    firsts, lasts, script_numbers = _read_scripts()
    table = bytearray(lasts[-1] + 1)
    for first, last, script_number in zip(firsts, lasts, script_numbers, strict=True):
        if script_number not in _SHARED_SCRIPTS:
            table[first : last + 1] = bytes([script_number + 1]) * (last + 1 - first)
    return bytes(table)


# Classes --------------------------------------------------------------------------------------------------------------

#: The bits of a class.
DIGIT, NUMBER, LETTER, SPACE = 1, 2, 4, 8
#: The number of code points that have a class. All later ones have none in Unicode 16, which the patterns follow.
N_CLASSIFIED_CODES = 0x40000


@cache
def find_character_classes() -> NDArray[np.uint8]:
    """Find the classes of code points by the `regex` package; those that are not in Unicode 16 have none."""
    import regex

    text = np.arange(N_CLASSIFIED_CODES, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    classes = np.zeros(N_CLASSIFIED_CODES, dtype=np.uint8)
    for expression, bit in (
        (r"\d+", DIGIT),
        (r"\p{N}+", NUMBER),
        (r"\p{L}+", LETTER),
        (r"\p{White_Space}+", SPACE),
    ):
        for match in regex.finditer(expression, text):
            classes[slice(*match.span())] |= bit
    classes[[code for code in list_codes("UNASSIGNED") if code < N_CLASSIFIED_CODES]] = 0
    classes.flags.writeable = False
    return classes


# Characters later than Unicode 16 -------------------------------------------------------------------------------------

#: The first of many characters that are unassigned in all versions of Unicode so far.
FIRST_MASK = 0x50000
#: The only other character that differs: `find_substitutes`.
_CHANGED_LETTER = "\u0295"

#: A character, or a range of them, that a pattern names.
_NAMED_CHARS = (
    r"(?P<first>\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|[^\\])"
    r"(?:-(?P<last>\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|[^\\\]]))?"
)


def _read_code(item: str) -> int:
    """Read the code point of a character in a pattern."""
    return int(item[2:], 16) if len(item) > 2 else ord(item[-1])  # noqa: FURB166 (the prefix is not that of base 0)


@cache
def _list_later_chars() -> tuple[str, ...]:
    """List the characters that `regex` has assigned and Unicode 16 has not, in ascending order."""
    import regex

    planes = (code for code in list_codes("UNASSIGNED") if code < 0x40000 or code >= 0xE0000)  # the others are empty
    return tuple(regex.findall(r"\P{Cn}", "".join(map(chr, planes))))


def find_mask_range(first: int, last: int) -> tuple[int, int] | None:
    """Find the first and the last code point that stand for the later characters of a range; None without any."""
    if not any(start <= last and first <= end for start, end in read_ranges("UNASSIGNED")):
        return None
    start, end = bisect_left(_list_later_chars(), first, key=ord), bisect_right(_list_later_chars(), last, key=ord)
    return (FIRST_MASK + start, FIRST_MASK + end - 1) if start < end else None


@lru_cache(256)
def _find_named_ranges(pattern: str) -> list[tuple[int, int]]:
    """Find the ranges of characters that a pattern names."""
    matches = re.finditer(_NAMED_CHARS, pattern, re.DOTALL)
    return [(_read_code(match["first"]), _read_code(match["last"] or match["first"])) for match in matches]


@lru_cache(256)
def find_substitutes(pattern: str) -> str:
    """Find letters that may stand for U+0295, which Unicode 16 has in lower case and later versions without case.

    The pattern names either all of them and U+0295, or none.

    >>> set(find_substitutes("[a-z]")) <= set("ĸƍƪƺ")
    True
    """
    import regex

    letters = "ĸƍƪƺ" if regex.match(r"\p{Lo}", _CHANGED_LETTER) else ""
    for first, last in _find_named_ranges(pattern):
        is_named = first <= ord(_CHANGED_LETTER) <= last
        letters = "".join(char for char in letters if (first <= ord(char) <= last) == is_named)
    return letters


_CASE_PROPERTIES = r"(?i)\\p\{(?:ll|lowercaseletter|lo|otherletter|lc|casedletter|lower|lowercase|cased)\}"


def differs_by_case(pattern: str) -> bool:
    """Whether U+0295 is not what it was for a pattern that asks for its case, and nothing can stand for it."""
    return (
        re.search(_CASE_PROPERTIES, pattern) is not None
        and not find_substitutes(pattern)
        and find_substitutes("") != ""
    )


@lru_cache(256)
def _make_masks(pattern: str) -> dict[int, str]:
    """Make the mapping for `str.translate`: later characters that the pattern does not name → what stands for them."""
    later_chars = list(_list_later_chars())
    for first, last in _find_named_ranges(pattern):
        del later_chars[bisect_left(later_chars, first, key=ord) : bisect_right(later_chars, last, key=ord)]
    return {ord(char): chr(FIRST_MASK + bisect_left(_list_later_chars(), char)) for char in later_chars}


def mask_new_characters(text: str, pattern: str = "", translated: bool = False) -> str:
    r"""Replace each character of a text that is not in Unicode 16 by one that is unassigned in all versions.

    Args:
        text: the text.
        pattern: the pattern in the syntax of `regex`. The characters that it names stay.
        translated: whether it is a translation, so that all characters are replaced.

    >>> ascii(mask_new_characters("a\u088f"))[:7]  # U+088F is new in Unicode 17
    "'a\\U000"
    >>> ascii(mask_new_characters("a\u088f", "[\u0800-\u08ff]"))
    "'a\\u088f'"

    """
    if text.isascii() or (find_new(text, 0) < 0 and _CHANGED_LETTER not in text):
        return text
    if _CHANGED_LETTER in text and (letters := find_substitutes(pattern)):
        text = text.replace(_CHANGED_LETTER, next((char for char in letters if char not in text), letters[0]))
    return text.translate(_make_masks("" if translated else pattern))
