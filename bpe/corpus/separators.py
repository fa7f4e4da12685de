"""Splitting texts into documents at separators and special tokens.

The strings are found by `bpe/base/_aho_corasick.pyx`, in time linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bpe.base._aho_corasick import Finder
from bpe.base.utf8 import Bytes

if TYPE_CHECKING:
    from bpe.base._buffers import Buffer


@lru_cache(maxsize=64)
def _finder(strings: tuple[bytes, ...]) -> Finder:
    """A finder of distinct strings; those of a corpus are the same for all its blocks."""
    return Finder(list(strings))


def split(
    text: Bytes,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    strings: Iterable[bytes],
    keep: bool = False,
    empty: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split spans of a text at every occurrence of some strings, from left to right; the longest string wins.

    Args:
        text: the text.
        starts: where the spans to split start: span i is `text[starts[i]:ends[i]]`.
        ends: where they end.
        strings: non-empty bytes to split at.
        keep: each string ends the span before it, instead of being dropped.
        empty: return empty spans too, as `bytes.split` does; with `keep` there are none.

    Returns:
        (starts, ends) of the spans between the strings, two int64 arrays.

    Raises:
        ValueError: for an empty string, or a span that is not within the text.

    Example:
        >>> split(b"ab;c", np.array([0]), np.array([4]), [b";"])
        (array([0, 3]), array([2, 4]))

    """
    distinct = tuple(dict.fromkeys(strings))
    if b"" in distinct:
        raise ValueError("a string to split at is empty; it must have at least one byte")
    found, counts = _finder(distinct).find_in(text, starts, ends)
    after = np.insert(found[:, 1], np.append(np.int64(0), counts[:-1])[: len(starts)], starts)
    before = np.insert(found[:, 1 if keep else 0], counts, ends)
    if keep or not empty:
        filled = after < before
        after, before = after[filled], before[filled]
    return after, before


def find_last(text: Buffer, start: int, end: int, string: bytes) -> int:
    """The last position of a string in `text[start:end]`; -1 if there is none.

    `bytearray.rfind` reads byte by byte for two bytes or more, and holds the GIL.
    """
    return _finder((string,)).last(text, start, end)
