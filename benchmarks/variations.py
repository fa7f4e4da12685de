"""A corpus of any size: the given corpora, and variations of them that have other words.

Variation 0 is the corpora as they are. In variation k, the letters of the ASCII alphabet, the Hangul syllables, the
kana and the Han characters are each moved on by k times a fixed step within their own range, and the documents of a
corpus begin with another one. So every variation has as many distinct words and as long lines as the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from report import SEPARATOR

#: (first, last, step) of the ranges of characters that are moved.
RANGES = (
    (ord("a"), ord("z"), 5),
    (ord("A"), ord("Z"), 5),
    (0x3041, 0x3093, 11),
    (0x30A1, 0x30F3, 11),
    (0x4E00, 0x9FA5, 1009),
    (0xAC00, 0xD7A3, 588),
)


def shift_letters(text: bytes, variation: int) -> bytes:
    """A text in variation `number`.

    >>> moved(b"abc XYZ, 12", 1), moved("한 か".encode(), 2).decode()
    (b'fgh CDE, 12', '깐 ち')
    """
    codes = np.frombuffer(text.decode().encode("utf-32-le"), dtype=np.uint32)
    return _make_table(variation)[codes].tobytes().decode("utf-32-le").encode()


@cache
def _make_table(variation: int) -> NDArray[np.uint32]:
    """What each code point becomes."""
    table = np.arange(0x110000, dtype=np.uint32)
    for first_code, last_code, step in RANGES:
        table[first_code : last_code + 1] = np.roll(table[first_code : last_code + 1], -variation * step)
    return table


def vary_documents(path: Path, variation: int) -> Iterator[bytes]:
    """The documents of a corpus in variation `number`."""
    texts = path.read_bytes().split(SEPARATOR)
    begin = variation * len(texts) // 7 % len(texts)
    for text in texts[begin:] + texts[:begin]:
        yield shift_letters(text, variation) if variation else text


def write_large(paths: Sequence[Path], output: Path, size: int) -> None:
    """Write a corpus of about `size` bytes: all corpora, then all of them in variation 1, 2, …"""
    written, variation = 0, 0
    with output.open("wb") as file:
        while written < size:
            for path in paths:
                written += _copy_texts(vary_documents(path, variation), file, size - written)
            variation += 1


def _copy_texts(texts: Iterable[bytes], file: BinaryIO, max_bytes: int) -> int:
    written = 0
    for text in texts:
        if written >= max_bytes:
            break
        written += file.write(text + SEPARATOR)
    return written
