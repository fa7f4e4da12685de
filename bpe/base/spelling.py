r"""Tokens in visible characters: the one spelling that all output uses.

Visible text is unchanged. Characters that a terminal would hide or mangle (control and format characters, white space
other than the space, bytes that are not valid UTF-8) are spelled `\xNN`, byte by byte; a backslash is doubled. Where no
colours show the bounds of tokens, a space is spelled `·`, and a literal `·` or `|` gets a backslash before it.

Consecutive tokens of one text can share a character. Each of them then shows the character, with subscripts that
number its bytes in the token; a literal subscript after a non-ASCII character gets a backslash.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate

SEPARATOR = "|"
SPACE = "·"
#: The subscripts that number a character's bytes.
_SUBSCRIPTS = "₁₂₃₄"
#: Major Unicode categories that a terminal shows: letters, marks, numbers, punctuation, symbols.
_VISIBLE_CATEGORIES = frozenset("LMNPS")


def spell(token: bytes | str, *, mark_spaces: bool = True) -> str:
    r"""Spell one token in visible characters.

    With `mark_spaces=False`, for output in which colours show the bounds of tokens, spaces, `|` and `·` are unchanged.

    >>> print(spell(b" caf\xc3"), spell("a\tb"), spell(" a|b", mark_spaces=False))
    ·caf\xc3 a\x09b  a|b
    """
    text = token.decode("utf-8", "surrogateescape") if isinstance(token, bytes) else token
    return "".join([_spell_character(character, mark_spaces) for character in text])


def spell_together(tokens: Iterable[bytes | str], *, mark_spaces: bool = True) -> list[str]:
    r"""Spell consecutive tokens of a text in visible characters, even where tokens share a character.

    >>> spell_together([b"\xed", b"\x95", b"\x9c!"]), spell_together([b"\xed\x95"])
    (['한₁', '한₂', '한₃!'], ['\\xed\\x95'])
    """
    return _spell_shared(tokens, partial(_spell_character, mark_spaces=mark_spaces), mark_subscripts=mark_spaces)


def spell_shared_characters(tokens: Iterable[bytes | str]) -> list[str]:
    r"""Decode consecutive tokens of a text; only characters that tokens share are spelled, and bytes that are none.

    >>> spell_shared_characters([b"a b\\\n", b"\xed\x95", b"\x9c", b"\xff"])
    ['a b\\\n', '한₁₂', '한₃', '\\xff']
    """
    return _spell_shared(tokens, _spell_byte, mark_subscripts=False)


def _spell_shared(
    tokens: Iterable[bytes | str], spell_character: Callable[[str], str], *, mark_subscripts: bool
) -> list[str]:
    """Spell consecutive tokens, each character by a function, and characters that tokens share with subscripts."""
    token_bytes = [token if isinstance(token, bytes) else token.encode("utf-8", "surrogatepass") for token in tokens]
    ends = list(accumulate(map(len, token_bytes)))
    spellings: list[list[str]] = [[] for _ in token_bytes]
    start, index, previous_character = 0, 0, ""
    for character in b"".join(token_bytes).decode("utf-8", "surrogateescape"):
        end = start + len(character.encode("utf-8", "surrogateescape"))
        while ends[index] <= start:
            index, previous_character = index + 1, ""
        spelling = spell_character(character)
        if mark_subscripts and character in _SUBSCRIPTS and previous_character > "\x7f":
            spelling = "\\" + spelling
        if end <= ends[index]:
            spellings[index].append(spelling)
        else:
            is_visible = unicodedata.category(character)[0] in _VISIBLE_CATEGORIES
            for i, byte in enumerate(character.encode()):
                while ends[index] <= start + i:
                    index += 1
                is_first_byte = i == 0 or start + i == ends[index - 1]
                spellings[index].append(spelling * is_first_byte + _SUBSCRIPTS[i] if is_visible else f"\\x{byte:02x}")
        start, previous_character = end, character
    return ["".join(parts) for parts in spellings]


def _spell_byte(character: str) -> str:
    """Spell a byte that is not UTF-8, as `surrogateescape` decodes it; any other character stays."""
    return f"\\x{ord(character) - 0xDC00:02x}" if "\udc80" <= character <= "\udcff" else character


def _spell_character(character: str, mark_spaces: bool) -> str:
    if character == " ":
        return SPACE if mark_spaces else " "
    if character == "\\" or (mark_spaces and character in (SEPARATOR, SPACE)):
        return "\\" + character
    if unicodedata.category(character)[0] in _VISIBLE_CATEGORIES:
        return character
    if "\udc80" <= character <= "\udcff":
        return _spell_byte(character)
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
