"""Sets of characters as `tokenizers` has them, which the tables of `character_data.py` list.

They are those of the installed `tokenizers` at the time of writing, whatever the versions of Python and `regex`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

from bpe.text import character_data

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
