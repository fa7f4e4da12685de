"""GPT-2's letters for bytes: the printable character that stands for each byte, in whole texts and in tokens."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bpe.base.utf8 import encode_losslessly

if TYPE_CHECKING:
    from numpy.typing import NDArray


@cache
def list_byte_letters() -> tuple[str, ...]:
    """List GPT-2's letters by byte: a printable byte is its own letter, the others get U+0100, U+0101, ….

    >>> list_byte_letters()[ord("a")], list_byte_letters()[ord(" ")], list_byte_letters()[ord(chr(10))]
    ('a', 'Ġ', 'Ċ')

    Source: `bytes_to_unicode` of openai/gpt-2, encoder.py.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


#: All letters, in the order of their bytes.
LETTERS = "".join(list_byte_letters())
_LETTER_OF_BYTE = dict(enumerate(LETTERS))


@cache
def map_letters_to_bytes() -> dict[str, int]:
    """Map each of GPT-2's letters to its byte."""
    return {letter: byte for byte, letter in enumerate(list_byte_letters())}


@cache
def _make_latin_table() -> dict[int, str]:
    """Make a table for `str.translate`: letter → character of Latin-1; other characters of Latin-1 → one outside it."""
    letters = map_letters_to_bytes()
    return dict.fromkeys(range(256), "\uffff") | {ord(letter): chr(byte) for letter, byte in letters.items()}


@cache
def list_byte_alphabet() -> tuple[int, ...]:
    """List the 256 bytes by the code points of their letters, which is the order of their ids.

    >>> list_byte_alphabet()[:3], list_byte_alphabet()[-2:]
    ((33, 34, 35), (160, 173))
    """
    return tuple(sorted(range(256), key=lambda byte: list_byte_letters()[byte]))


# Spelling -------------------------------------------------------------------------------------------------------------


def spell_text_in_letters(text: str) -> str:
    """Spell the UTF-8 of a text in letters; a surrogate that `decode_losslessly` made stands for its byte.

    >>> spell_text_in_letters("a é")
    'aĠÃ©'
    """
    return encode_losslessly(text).decode("latin-1").translate(_LETTER_OF_BYTE)


def spell_token_in_letters(token: bytes) -> str:
    """Spell the bytes of a token in letters.

    >>> spell_token_in_letters(b" hi")
    'Ġhi'
    """
    letters = list_byte_letters()
    return "".join(letters[byte] for byte in token)


def measure_utf8(text: str) -> NDArray[np.int64]:
    """Measure the bytes of each character of a text; a surrogate that `decode_losslessly` made has one."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    counts = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    counts[(codes >= 0xDC80) & (codes <= 0xDCFF)] = 1
    return counts


# Reading --------------------------------------------------------------------------------------------------------------


def read_letters(text: str) -> bytes:
    """Read the bytes that letters stand for.

    Raises:
        ValueError: for a character that is not one of GPT-2's letters.

    >>> read_letters("Ġhi")
    b' hi'

    """
    return text.translate(_make_latin_table()).encode("latin-1")


def read_letters_or_utf8(token: str) -> bytes:
    """Read a token as a ByteLevel decoder does: its UTF-8 if not all characters are GPT-2's letters.

    >>> read_letters_or_utf8("Ġhi"), read_letters_or_utf8("Ġ hi")
    (b' hi', b'\\xc4\\xa0 hi')
    """
    try:
        return read_letters(token)
    except ValueError:
        return token.encode()
