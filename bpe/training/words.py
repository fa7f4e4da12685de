"""The words that a training learns from, validated, as arrays for the kernel. `bpe/count` counts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import offsets_of
from bpe.base.utf8 import check_utf8
from bpe.count.word_counts import WordCounts, arrays_of
from bpe.training._symbol_array import symbol_counts
from bpe.training.config import TrainConfig

SYMBOL_LIMIT = 2**32 - 2


@dataclass(frozen=True)
class Words:
    """The distinct words: word i is `blob[offsets[i]:offsets[i + 1]]` and occurs `counts[i]` times.

    Attributes:
        blob, offsets, counts: uint8, int64 of shape (n + 1,), int64 of shape (n,).
        inner: int64: how often each byte or code point occurs before the last position of a word.
        last: int64: how often it is a word's last symbol.
        symbols: the number of symbols of all distinct words together.
        mapped: whether the blob is a temporary file, mapped for reading, instead of memory.

    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    inner: NDArray[np.int64]
    last: NDArray[np.int64]
    symbols: int
    mapped: bool = False

    @property
    def memory(self) -> int:
        """The bytes of the arrays that are in memory."""
        return self.offsets.nbytes + self.counts.nbytes + (0 if self.mapped else self.blob.nbytes)

    def extent(self, config: TrainConfig) -> tuple[int, int]:
        """(The bytes of all words of the corpus, their tokens when each symbol is one, in the alphabet or not)."""
        occurring = self.inner + self.last
        tokens = int(occurring.sum())
        ends = (0x80, 0x800, 0x10000) if config.chars else (0x100,)
        n_bytes = sum(int(part.sum()) * width for width, part in enumerate(np.split(occurring, ends), 1))
        if config.end_of_word is not None and not config.end_of_word_glued:
            tokens += int(self.counts.sum())
        return n_bytes, tokens

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


def words_of(counts: WordCounts, config: TrainConfig) -> Words:
    """Validate counts and count their symbols. Words with count 0 are dropped.

    Raises:
        ValueError: for counts without words, counts that overflow 64 bits, too many symbols, and in a character model
            words that are not UTF-8.

    """
    blob, offsets, numbers = arrays_of(counts)
    if not numbers.any():
        raise ValueError(
            "the corpus has no words to train on; give text that is not empty"
            + (" and that the pretokenizer does not drop" if counts.pretokenizer is not None else "")
        )
    if not numbers.all():
        kept = np.flatnonzero(numbers)
        data = blob.tobytes()
        pieces = [data[offsets[i] : offsets[i + 1]] for i in kept.tolist()]
        blob = np.frombuffer(b"".join(pieces), dtype=np.uint8)
        offsets = offsets_of([len(piece) for piece in pieces])
        numbers = numbers[kept]
    if config.chars:
        data = blob.tobytes()
        check_utf8(data, "the corpus's words")
        within = np.flatnonzero(blob[offsets[:-1]] & 0xC0 == 0x80)
        if len(within):
            at = int(within[0])
            check_utf8(data[offsets[at] : offsets[at + 1]], f"word {at}")
    codes = _code_points(int(blob.max())) if config.chars else 256
    inner, last = np.zeros(codes, np.int64), np.zeros(codes, np.int64)
    symbols, overflow = symbol_counts(blob, offsets, numbers, config.chars, inner, last)
    if overflow:
        raise ValueError(
            "the counts of the symbols sum to more than 2**63 - 1, the largest sum supported; scale the counts down"
        )
    if symbols + 2 * len(numbers) + 1 > SYMBOL_LIMIT:
        raise ValueError(
            f"the distinct words have {symbols} symbols; at most {SYMBOL_LIMIT} fit: train on less text, or use a "
            "pretokenizer that makes words repeat"
        )
    return Words(blob, offsets, numbers, inner, last, symbols)


def _code_points(highest: int) -> int:
    """The number of code points that UTF-8 can encode with bytes up to `highest`."""
    return 0x80 if highest < 0x80 else 0x800 if highest < 0xE0 else 0x10000 if highest < 0xF0 else 0x110000
