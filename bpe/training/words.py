"""The words that a training learns from, checked and laid out for the kernel.

Not here: how they are counted (`bpe/count`), and which of their symbols are in the alphabet (`alphabet.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import check_utf8
from bpe.count.word_counts import WordCounts, arrays_of
from bpe.training._symbol_array import symbol_counts
from bpe.training.options import TrainOptions

CELL_LIMIT = 2**32 - 2


@dataclass(frozen=True)
class Words:
    """The words to learn from, as the kernel takes them."""

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    inner: NDArray[np.int64]  # occurrences of each byte or code point that words can hold, but for last places
    last: NDArray[np.int64]  # and at the last place
    cells: int  # symbols of all distinct words together

    def order(self, by_count: bool) -> NDArray[np.int64]:
        """The words in the order in which the kernel lays them out: the highest count first, or as they are.

        Most counts fit 16 bits, which NumPy sorts in linear time; the words of higher counts are few.
        """
        if not by_count:
            return np.arange(len(self.counts), dtype=np.int64)
        falling = np.minimum(self.counts, 0xFFFF).astype(np.uint16)
        np.subtract(0xFFFF, falling, out=falling)
        order = np.argsort(falling, kind="stable")
        frequent = order[: np.count_nonzero(falling == 0)]
        frequent[:] = frequent[np.argsort(-self.counts[frequent], kind="stable")]
        return order


def words_of(counts: WordCounts, options: TrainOptions) -> Words:
    """The words that occur, checked, with their symbols counted."""
    blob, offsets, numbers = arrays_of(counts)
    if not numbers.any():
        raise ValueError(
            "the corpus has no words: there is nothing to learn from; give text that is not empty"
            + (" and that the pretokenizer does not drop" if counts.pretokenizer is not None else "")
        )
    if not numbers.all():
        kept = np.flatnonzero(numbers)
        data = blob.tobytes()
        pieces = [data[offsets[i] : offsets[i + 1]] for i in kept.tolist()]
        blob = np.frombuffer(b"".join(pieces), dtype=np.uint8)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(piece) for piece in pieces], dtype=np.int64)))
        numbers = numbers[kept]
    if options.chars:
        data = blob.tobytes()
        check_utf8(data, "the corpus's words")
        within = np.flatnonzero(blob[offsets[:-1]] & 0xC0 == 0x80)
        if len(within):
            at = int(within[0])
            check_utf8(data[offsets[at] : offsets[at + 1]], f"word {at}")
    symbols = _most_symbols(int(blob.max())) if options.chars else 256
    inner, last = np.zeros(symbols, np.int64), np.zeros(symbols, np.int64)
    cells, overflow = symbol_counts(blob, offsets, numbers, options.chars, inner, last)
    if overflow:
        raise ValueError(
            "the counts of the symbols sum to more than 2**63 - 1, the largest sum supported; scale the counts down"
        )
    if cells + 2 * len(numbers) + 1 > CELL_LIMIT:
        raise ValueError(
            f"the distinct words have {cells} symbols; at most {CELL_LIMIT} fit: train on less text, or use a "
            "pretokenizer that makes words repeat"
        )
    return Words(blob, offsets, numbers, inner, last, cells)


def _most_symbols(highest: int) -> int:
    """How many code points UTF-8 can spell whose highest byte is that one."""
    return 0x80 if highest < 0x80 else 0x800 if highest < 0xE0 else 0x10000 if highest < 0xF0 else 0x110000
