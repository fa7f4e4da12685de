"""Sums of documents for intervals, in bounded memory, and the intervals (the bootstrap over documents).

Up to 4,096 documents are kept one by one. Beyond that, neighbours are added up in pairs, and again, so that a record
stands for 2, 4, 8, … consecutive documents, and there are always between 2,048 and 4,096 of them. Which documents are
together depends on their order alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Half of the most records that are held.
MOST = 2048


class Groups:
    """Rows of sums, one for each group of consecutive documents.

    Attributes:
        size: the number of documents in a group; the last one may have fewer.
        documents: the number of documents.

    >>> groups = Groups(1, most=2)
    >>> for value in range(6):
    ...     groups.add(np.array([[value]]))
    >>> groups.size, groups.rows().tolist(), groups.documents
    (2, [[1.0], [5.0], [9.0]], 6)

    """

    def __init__(self, columns: int, most: int = MOST) -> None:
        self._rows = np.zeros((2 * most, columns))
        self._n = 0  # rows that are complete
        self._open = np.zeros(columns)  # of the group that is not complete
        self._filled = 0  # its documents
        self.size, self.documents = 1, 0

    def add(self, rows: NDArray[np.float64]) -> None:
        """Add documents in order, one row each."""
        self.documents += len(rows)
        at = 0
        while at < len(rows):
            if self._n == len(self._rows):
                self._rows[: self._n // 2] = self._rows[0::2] + self._rows[1::2]
                self._n //= 2
                self.size *= 2
            whole = 0 if self._filled else (len(rows) - at) // self.size
            if whole:  # groups that are complete
                whole = min(whole, len(self._rows) - self._n)
                taken = whole * self.size
                sums = rows[at : at + taken].reshape(whole, self.size, -1).sum(axis=1)
                self._rows[self._n : self._n + whole] = sums
                self._n += whole
            else:
                taken = min(self.size - self._filled, len(rows) - at)
                self._open += rows[at : at + taken].sum(axis=0)
                self._filled += taken
                if self._filled == self.size:
                    self._rows[self._n], self._open[:], self._filled = self._open, 0, 0
                    self._n += 1
            at += taken

    def rows(self) -> NDArray[np.float64]:
        """The sums of the groups; float64, shape (n, columns)."""
        last = [self._open[None]] if self._filled else []
        return np.concatenate([self._rows[: self._n], *last])

    def total(self) -> NDArray[np.float64]:
        """The sums of all documents."""
        total: NDArray[np.float64] = self.rows().sum(axis=0)
        return total


def resample(rows: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64] | None:
    """Sums of as many rows as there are, drawn with replacement; shape (resamples, columns). None for fewer than 2.

    The draws depend on the number of rows and the seed alone, so that tokenizers are compared on the same documents.
    """
    n = len(rows)
    if n < 2 or not resamples:
        return None
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, n])))
    sums = np.empty((resamples, rows.shape[1]))
    step = max(1, (1 << 20) // n)
    for first in range(0, resamples, step):
        count = min(step, resamples - first)
        drawn = generator.integers(0, n, size=(count, n), dtype=np.int32)
        drawn += np.arange(count, dtype=np.int32)[:, None] * n
        weights = np.bincount(drawn.ravel(), minlength=count * n).reshape(count, n)
        sums[first : first + count] = weights @ rows
    return sums


def interval(values: NDArray[np.float64], confidence: float) -> list[float] | None:
    """The central interval of resampled values that holds this share of them; None if some are undefined."""
    if not len(values) or not np.isfinite(values).all():
        return None
    tail = 50 * (1 - confidence)
    low, high = np.percentile(values, [tail, 100 - tail])
    return [float(low), float(high)]
