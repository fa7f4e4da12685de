"""`Blocks`: the tokens of shards in rows of equal length, documents following each other without gaps.

Row i has the length + 1 ids from position i * length on, so that neighbouring rows share one id and each token but the
first is a label exactly once per epoch.

Rows that keep documents together: `packing.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.data.loaders.order import RowOrder
from bpe.data.loaders.rows import ShardRows, Tail, hash_values
from bpe.data.loaders.spans import Batch, RowFormat, Spans
from bpe.errors import FormatError, check_int, pluralize

if TYPE_CHECKING:
    from bpe.data.shards import TokenShards


class Blocks(ShardRows):
    """Rows of `length` consecutive tokens, in the order of a seed.

    Args:
        shards: a `TokenShards`.
        length: the positions of a row.
        seed: the seed of the order: a permutation of all rows, another one in each epoch.
        fields: what rows hold: "input_ids", "labels" (the ids shifted by one), "position_ids" (from 0 in each document
            and each row), "document_ids" (the document's number in the shards), "loss_mask" (1 where a label counts),
            and, in batches only, "cu_seqlens" (with `max_seqlen`). Fields that are not listed cost nothing.
        chunk: permute chunks of this many neighbouring rows instead of rows, so that slow storage is read in longer
            runs.
        tail: "drop" the ids that fill no row, or "pad" them: with `pad_id`, labels -100, document -1.
        pad_id: the input id of padding.
        mask_other_documents: whether the label after a document's last id is -100 rather than the next document's
            first.

    Raises:
        TypeError, ValueError: for an invalid argument; for a length with which the ids fill no row.

    Where the shards have loss masks, labels whose mask is 0 are -100.

    >>> import tempfile
    >>> from bpe.data import TokenShards, write_shards
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = write_shards([[1, 2, 3], [4, 5, 6, 7, 8, 9]], folder.name)
    >>> blocks = Blocks(TokenShards(folder.name), length=4, fields=["input_ids", "labels", "position_ids"])
    >>> len(blocks)
    2
    >>> {name: array.tolist() for name, array in blocks[1].items()}
    {'input_ids': [1, 2, 3, 4], 'labels': [2, 3, 4, 5], 'position_ids': [0, 1, 2, 0]}
    >>> del blocks; folder.cleanup()

    """

    def __init__(
        self,
        shards: TokenShards,
        length: int = 1024,
        seed: int = 0,
        *,
        fields: Iterable[str] = ("input_ids", "labels"),
        chunk: int = 1,
        tail: Tail = "drop",
        pad_id: int = 0,
        mask_other_documents: bool = False,
    ) -> None:
        row_format = RowFormat.from_arguments(length, fields, pad_id, mask_other_documents)
        super().__init__(shards, row_format, seed, tail, by_document=row_format.by_document)
        n_labels = max(shards.n_tokens - 1, 0)
        n_rows = n_labels // self.length if tail == "drop" else -(-n_labels // self.length)
        self._order = RowOrder(n_rows, self.seed, check_int("chunk", chunk, 1))
        if n_labels and not n_rows:
            raise ValueError(
                f"length is {self.length}, but {shards!r} has {pluralize(shards.n_tokens, 'id')}, and a row needs "
                f"length + 1; pass length={n_labels} or less, or tail='pad'"
            )

    def __len__(self) -> int:
        return self._order.n_rows

    def __repr__(self) -> str:
        return f"Blocks({self.shards!r}, length={self.length}, seed={self.seed}, {len(self)} rows)"

    @property
    def fingerprint(self) -> str:
        """A hash of the shards' content, the length, `chunk` and `tail`."""
        return hash_values(self.length, "Blocks", self.shards.fingerprint, self._order.chunk, self._tail)

    def read(self, numbers: NDArray[np.int64]) -> Batch:
        """Read the rows with these numbers, each `epoch * len(blocks) + index`: int64 arrays (n, length)."""
        rows = np.empty(len(numbers), dtype=np.int64)
        for epoch, indices, in_epoch in self._split_by_epoch(numbers):
            rows[in_epoch] = self._order.rows(indices, epoch)
        starts = rows * self.length
        lengths = np.minimum(self.length + 1, self.shards.n_tokens - starts)
        spans = self._find_spans(starts, lengths) if self.row_format.by_document else _make_whole_rows(starts, lengths)
        return self._reader.make_batch(spans, len(rows), self.row_format)

    def _find_spans(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Spans:
        """Find the spans of each document in these rows."""
        ends = starts + lengths
        first, last = self.shards.documents_at(np.concatenate([starts, ends - 1])).reshape(2, -1)
        counts = last - first + 1
        if (counts < 1).any():
            raise FormatError("offsets of documents fall; the file has changed", path=self.shards.path)
        row = np.repeat(np.arange(len(starts)), counts)
        document = np.arange(len(row)) + np.repeat(first - compute_offsets(counts)[:-1], counts)
        begins = np.maximum(self.shards.document_starts(document), starts[row])
        next_begins = np.append(begins[1:], 0)  # where the next document of the row begins, or the row ends
        last_spans = np.cumsum(counts) - 1
        next_begins[last_spans] = ends
        sizes = next_begins - begins
        if (sizes < 0).any():
            raise FormatError("offsets of documents fall; the file has changed", path=self.shards.path)
        non_empty = np.flatnonzero(sizes)  # without empty documents
        row, begins = row[non_empty], begins[non_empty]
        return Spans(row, begins - starts[row], begins, sizes[non_empty], document[non_empty])


def _make_whole_rows(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Spans:
    """Make rows of one span each, without regard to documents."""
    zeros = np.zeros(len(starts), dtype=np.int64)
    return Spans(np.arange(len(starts)), zeros, starts, lengths, zeros - 1)
