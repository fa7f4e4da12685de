r"""Spelling tokens in visible characters, the same everywhere.

Text stays as it is. What a terminal would hide or mangle (control and format characters, white space other than the
space, bytes that are not whole UTF-8) is spelled as `\xNN`, byte by byte; a backslash is doubled. Where colours do not
show where tokens end, a space is `·`, and a real `·` or `|` gets a backslash before it.

Tokens of one text, one after the other, can share a character. It then stands in each of them, with the numbers of its
bytes there as subscripts; real subscripts after a character that is not ASCII get a backslash.

Not here: lines of tokens, with colours or separators (`bpe/show/colours.py`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import accumulate

SEPARATOR = "|"
SPACE = "·"
#: The numbers of a character's bytes.
_NUMBERS = "₁₂₃₄"
#: Categories that a terminal shows as a mark of its own: letters, marks, numbers, punctuation, symbols.
_VISIBLE = frozenset("LMNPS")


def spell(token: bytes | str, *, mark_spaces: bool = True) -> str:
    r"""One token in visible characters.

    With `mark_spaces=False` spaces, `|` and `·` stand as they are, for where colours show the edges.

    >>> print(spell(b" caf\xc3"), spell("a\tb"), spell(" a|b", mark_spaces=False))
    ·caf\xc3 a\x09b  a|b
    """
    text = token.decode("utf-8", "surrogateescape") if isinstance(token, bytes) else token
    return "".join([_spelled(character, mark_spaces) for character in text])


def spell_together(tokens: Iterable[bytes | str], *, mark_spaces: bool = True) -> list[str]:
    r"""Tokens that follow one another in a text, each in visible characters, also where they share a character.

    >>> spell_together([b"\xed", b"\x95", b"\x9c!"]), spell_together([b"\xed\x95"])
    (['한₁', '한₂', '한₃!'], ['\\xed\\x95'])
    """
    data = [token if isinstance(token, bytes) else token.encode("utf-8", "surrogatepass") for token in tokens]
    ends = list(accumulate(map(len, data)))
    spelled: list[list[str]] = [[] for _ in data]
    start, number, before = 0, 0, ""
    for character in b"".join(data).decode("utf-8", "surrogateescape"):
        end = start + len(character.encode("utf-8", "surrogateescape"))
        while ends[number] <= start:
            number, before = number + 1, ""
        shown = _spelled(character, mark_spaces)
        if mark_spaces and character in _NUMBERS and before > "\x7f":
            shown = "\\" + shown
        if end <= ends[number]:
            spelled[number].append(shown)
        else:
            visible = unicodedata.category(character)[0] in _VISIBLE
            for place, byte in enumerate(character.encode()):
                while ends[number] <= start + place:
                    number += 1
                first = place == 0 or start + place == ends[number - 1]
                spelled[number].append(shown * first + _NUMBERS[place] if visible else f"\\x{byte:02x}")
        start, before = end, character
    return ["".join(parts) for parts in spelled]


def _spelled(character: str, mark_spaces: bool) -> str:
    if character == " ":
        return SPACE if mark_spaces else " "
    if character == "\\" or (mark_spaces and character in (SEPARATOR, SPACE)):
        return "\\" + character
    if unicodedata.category(character)[0] in _VISIBLE:
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, as `surrogateescape` decodes it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
