"""GPT-2's letters for bytes, in whole texts: the printable character that stands for each byte.

The spelling of tokens in files: `bpe/vocab/byte_letters.py`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bpe.base.utf8 import unescape

if TYPE_CHECKING:
    from numpy.typing import NDArray


@cache
def byte_letters() -> tuple[str, ...]:
    """GPT-2's letter for each byte 0 to 255: a printable byte is its own letter, the others get U+0100, U+0101, ….

    >>> byte_letters()[ord("a")], byte_letters()[ord(" ")], byte_letters()[ord(chr(10))]
    ('a', 'Ġ', 'Ċ')

    Source: `bytes_to_unicode` of openai/gpt-2, encoder.py.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


#: All letters, in the order of their bytes.
LETTERS = "".join(byte_letters())
_OF_BYTE = dict(enumerate(LETTERS))
_BYTE = {ord(letter): byte for byte, letter in enumerate(LETTERS)}


def to_letters(text: str) -> str:
    """A text with the bytes of its UTF-8 spelled in letters. A byte that is not UTF-8 is a lone surrogate of `escape`.

    >>> to_letters("a é")
    'aĠÃ©'
    """
    return unescape(text).decode("latin-1").translate(_OF_BYTE)


def from_letters(text: str) -> bytes:
    """The bytes that letters spell.

    >>> from_letters("aĠÃ©").decode()
    'a é'
    """
    return text.translate(_BYTE).encode("latin-1")


def measure_utf8(text: str) -> NDArray[np.int64]:
    """Measure the number of bytes of each character of a text. A lone surrogate of `escape` is one byte."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    counts = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    counts[(codes >= 0xDC80) & (codes <= 0xDCFF)] = 1
    return counts
