"""The end-of-text id of documents in shards: one rule for writing and converting.

A format that finds documents by the id alone (nanogpt: after each, llmc: before each) gets it once at that end of each
document, and nowhere else: it is added where it is missing, and removed from the other end. A document with the id
inside would be read back as several, so it is refused. Formats that record where documents begin hold any document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.offsets import offsets_of
from bpe.data.formats.reading import DocumentBatch
from bpe.data.formats.shard_format import ShardFormat

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class EndOfText:
    """Puts the id where the format has it, in batches of consecutive documents, which it gets in order.

    Attributes:
        form: the format, which has the id before or after each document.
        number: the id.
        fix: what to do about an id inside a document, for the error; None allows it.
        changes: whether an id was added or removed so far.

    >>> from bpe.data.formats import FORMATS
    >>> batch = DocumentBatch(np.array([5, 6, 9, 7]), np.array([3, 1]), True, True, None)
    >>> EndOfText(FORMATS["nanogpt"], 9, "").place(batch).ids, EndOfText(FORMATS["llmc"], 9, "").place(batch).ids
    (array([5, 6, 9, 7, 9]), array([9, 5, 6, 9, 7]))

    """

    form: ShardFormat
    number: int
    fix: str | None
    changes: bool = False
    _documents: int = 0  # before the batch

    def place(self, batch: DocumentBatch) -> DocumentBatch:
        """The batch with the id before or after each document."""
        before, n_rows = self.form.around[0], len(batch.lengths)
        lengths, offsets = np.array(batch.lengths), offsets_of(batch.lengths)
        is_end: NDArray[np.bool_] = np.asarray(batch.ids) == self.number
        begun, ended = np.ones(n_rows, dtype=np.bool_), np.ones(n_rows, dtype=np.bool_)
        if n_rows:
            begun[0], ended[-1] = batch.begins, batch.ends
        firsts, lasts = offsets[:-1], offsets[1:] - 1
        has_first, has_last = _at(is_end, firsts, begun & (lengths > 0)), _at(is_end, lasts, ended & (lengths > 0))
        own, other = (has_first, has_last) if before else (has_last, has_first)
        other &= ~(own & (lengths == 1))  # one id is at both ends
        missing = np.flatnonzero((begun if before else ended) & ~own)
        removed = np.empty(0, dtype=np.int64)
        if "documents" not in self.form.holds:
            removed = (lasts if before else firsts)[other]
            is_end[removed] = is_end[(firsts if before else lasts)[own]] = False
            self._refuse_inside(is_end, offsets)
            lengths[other] -= 1
        self._documents += n_rows - (n_rows > 0 and not batch.ends)
        if not len(missing) and not len(removed):
            return batch
        self.changes = True
        lengths[missing] += 1
        positions = (firsts if before else lasts + 1)[missing]
        ids = np.asarray(batch.ids)
        if self.number > np.iinfo(ids.dtype).max:
            ids = ids.astype(np.int64)
        ids = self._edit(ids, removed, positions, self.number)
        mask = None if batch.mask is None else self._edit(batch.mask, removed, positions, 1)
        return DocumentBatch(ids, lengths, batch.begins, batch.ends, mask)

    @staticmethod
    def _edit(values: NDArray[Any], removed: NDArray[np.int64], positions: NDArray[np.int64], new: int) -> Any:
        """The values without some, and with a new one before each of these positions."""
        if len(removed):
            positions = positions - np.searchsorted(removed, positions)
            values = np.delete(values, removed)
        return np.insert(values, positions, new)

    def _refuse_inside(self, is_inside: NDArray[np.bool_], offsets: NDArray[np.int64]) -> None:
        if self.fix is not None and is_inside.any():
            row = int(np.searchsorted(offsets, int(is_inside.argmax()), side="right")) - 1
            raise ValueError(
                f"document {self._documents + row} has the end-of-text id {self.number} inside, where "
                f"{self.form.name} shards would end it; {self.fix}"
            )


def _at(is_end: NDArray[np.bool_], positions: NDArray[np.int64], rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether the ids at the positions of some rows are end-of-text ids; False for other rows."""
    found = np.zeros(len(rows), dtype=np.bool_)
    found[rows] = is_end[positions[rows]]
    return found
