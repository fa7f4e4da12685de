"""`Packed`: rows of equal length that hold whole documents where possible, in windows of documents.

A window is some thousand documents in the order of the shards. It is packed by itself, so that memory is bounded and a
run resumes anywhere by packing one window again. Each epoch takes the windows in an order of its own, and the rows of a
window in an order of its own. A row has room for length + 1 ids. Three documents of 5, 4 and 2 ids in rows of length 5:

    concat          a a a a a b   b b b b c c     each row begins with the last id of the one before
    best-fit        a a a a a .   b b b b c c     . is padding
    best-fit-crop   a a a a a c   b b b b . .     the shortest document was cropped

Rows without regard to documents: `blocks.py`.

Sources: Ding et al., "Fewer Truncations Improve Language Modeling" (arXiv 2404.10830) for best fit; nanochat's data
loader for cropping, where at most 1,000 documents wait. Here a whole window waits: 0.03% of the tokens are cropped
rather than 3% (65,536 documents of a log-normal distribution, rows of 1,024).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.data.loaders._packing import best_fit, best_fit_crop
from bpe.data.loaders.order import RowOrder
from bpe.data.loaders.rows import ShardRows, Tail, hash_values, keep_last
from bpe.data.loaders.spans import Batch, RowFormat, Spans
from bpe.errors import check_choice, check_int, pluralize

if TYPE_CHECKING:
    from bpe.data.shards import TokenShards

Strategy = Literal["concat", "best-fit", "best-fit-crop"]
LongDocuments = Literal["split", "truncate", "drop", "error"]
#: Windows whose rows are kept in memory: a batch may end one window and begin the next.
KEPT_WINDOWS = 2


@dataclass(frozen=True, slots=True)
class PackedWindow:
    """The rows of a window.

    Attributes:
        spans: the spans of all rows, ordered by row and position.
        offsets: int64: row i has the spans from offsets[i] to offsets[i + 1].
        order: the order of the rows, in each epoch.

    """

    spans: Spans
    offsets: NDArray[np.int64]
    order: RowOrder


class Packed(ShardRows):
    """Rows of `length` tokens made of documents, in the order of a seed.

    Args:
        shards: a `TokenShards` of a format that records documents.
        length: the positions of a row, of any size.
        seed: the seed of the order of windows, and of the rows in each.
        strategy: "best-fit" puts the documents, by decreasing length, each into the fullest row that has room for it,
            and pads the rows: documents are cut only if they are longer than a row. "best-fit-crop" fills each row with
            the longest document that fits; when none does, it fills the row with the beginning of the shortest one, and
            leaves out the rest of that. "concat" joins documents and cuts them into rows.
        long_documents: how to handle documents longer than a row, which has length + 1 ids: "split" makes pieces of
            length + 1 ids, each of which begins with the last id of the one before; "truncate" keeps the first
            length + 1 ids; "drop" leaves them out; "error" refuses them. With "concat", "split" does nothing.
        window: the documents of a window. A process holds some 100 bytes for each, of at most two windows.
        fields: as for `Blocks`.
        tail: "drop" a window's last row if it is not full, or "pad" it. With "best-fit", rows are padded in any case
            and none is dropped.
        pad_id: as for `Blocks`.
        mask_other_documents: as for `Blocks`.

    Attributes:
        statistics: a dict of numbers: `rows`; `tokens` and `padding` in them, length + 1 per row; `documents` that are
            in a row; `truncated`, those of which no row has all ids; `dropped` documents, which are in no row.

    Raises:
        ValueError: for a long document, with "error"; for shards that do not record documents.

    Construction packs all windows once, to count their rows: some 4 million documents per second.

    >>> import tempfile
    >>> from bpe.data import TokenShards, write_shards
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = write_shards([[1] * 5, [2] * 4, [3] * 2], folder.name)
    >>> packed = Packed(TokenShards(folder.name), length=5)
    >>> [row["input_ids"].tolist() for row in packed]
    [[1, 1, 1, 1, 1], [2, 2, 2, 2, 3]]
    >>> packed.statistics["padding"]
    1
    >>> del packed; folder.cleanup()

    """

    def __init__(
        self,
        shards: TokenShards,
        length: int = 1024,
        seed: int = 0,
        *,
        strategy: Strategy = "best-fit",
        long_documents: LongDocuments = "split",
        window: int = 1 << 16,
        fields: Iterable[str] = ("input_ids", "labels"),
        tail: Tail = "drop",
        pad_id: int = 0,
        mask_other_documents: bool = False,
    ) -> None:
        row_format = RowFormat.from_arguments(length, fields, pad_id, mask_other_documents)
        super().__init__(shards, row_format, seed, tail, by_document=True)
        check_choice("strategy", strategy, ("concat", "best-fit", "best-fit-crop"))
        check_choice("long_documents", long_documents, ("split", "truncate", "drop", "error"))
        self._strategy, self._long_documents = strategy, long_documents
        self._window = check_int("window", window, 1)
        self._window_order = RowOrder(-(-shards.n_documents // self._window), self.seed)
        self._kept_windows: dict[int, PackedWindow] = {}
        self._windows_by_epoch: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self.statistics: dict[str, int] = {}
        self._counts = np.array([self._count_rows(index) for index in range(self._window_order.n_rows)], dtype=np.int64)
        self._n_rows = int(self._counts.sum())

    def __len__(self) -> int:
        return self._n_rows

    def __repr__(self) -> str:
        return (
            f"Packed({self.shards!r}, length={self.length}, seed={self.seed}, strategy={self._strategy!r}, "
            f"{pluralize(len(self), 'row')})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept_windows": {}, "_windows_by_epoch": {}}

    @property
    def fingerprint(self) -> str:
        """A hash of the shards' content, the length, the strategy and its arguments."""
        choices = self._strategy, self._long_documents, self._window, self._tail
        return hash_values(self.length, "Packed", self.shards.fingerprint, *choices)

    def read(self, numbers: NDArray[np.int64]) -> Batch:
        """Read the rows with these numbers, each `epoch * len(packed) + index`: int64 arrays (n, length)."""
        parts = []
        for epoch, indices, in_epoch in self._split_by_epoch(numbers):
            windows, first_rows = self._order_windows(epoch)
            window_positions = np.searchsorted(first_rows, indices, side="right") - 1
            for window_position in dict.fromkeys(window_positions.tolist()):
                packed = self._find_window(int(windows[window_position]))
                in_window = window_positions == window_position
                rows = packed.order.rows(indices[in_window] - first_rows[window_position], epoch)
                span_starts, span_ends = packed.offsets[rows], packed.offsets[rows + 1]
                batch_rows = np.repeat(np.flatnonzero(in_epoch)[in_window], span_ends - span_starts)
                parts.append(packed.spans.take(join_ranges(span_starts, span_ends), batch_rows))
        return self._reader.make_batch(Spans.join(parts), len(numbers), self.row_format)

    def _order_windows(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the windows in the order of an epoch, and the index of the first row of each."""
        order = self._windows_by_epoch.get(epoch)
        if order is None:
            windows = self._window_order.rows(np.arange(self._window_order.n_rows), epoch)
            order = windows, compute_offsets(self._counts[windows])
            keep_last(self._windows_by_epoch, epoch, order, KEPT_WINDOWS)
        return order

    # Packing ----------------------------------------------------------------------------------------------------------

    def _find_window(self, index: int) -> PackedWindow:
        """Return the rows of a window, packed again unless it was one of the last ones."""
        window = self._kept_windows.get(index)
        if window is None:
            window = self._pack(index)
            keep_last(self._kept_windows, index, window, KEPT_WINDOWS)
        return window

    def _pack(self, index: int) -> PackedWindow:
        starts, lengths, documents = self._bound_documents(index)
        starts, lengths, documents = limit_lengths(
            starts, lengths, documents, self.length, self._long_documents, self._strategy
        )
        document_indices, row, positions, skipped_ids, span_lengths = PACKERS[self._strategy](
            lengths, self.length, self._tail
        )
        n_rows = int(row[-1]) + 1 if len(row) else 0
        spans = Spans(row, positions, starts[document_indices] + skipped_ids, span_lengths, documents[document_indices])
        offsets = np.searchsorted(row, np.arange(n_rows + 1))
        return PackedWindow(spans, offsets, RowOrder(n_rows, self.seed, salt=(1 + index,)))

    def _bound_documents(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Find (starts, lengths, numbers) of a window's documents that are not empty."""
        first = index * self._window
        bounds = self.shards.document_bounds(first, min(first + self._window, self.shards.n_documents))
        non_empty = np.flatnonzero(np.diff(bounds))
        return bounds[non_empty], np.diff(bounds)[non_empty], first + non_empty

    def _count_rows(self, index: int) -> int:
        """Pack the rows of a window; adds its numbers to the statistics."""
        packed, (_, lengths, documents) = self._pack(index), self._bound_documents(index)
        spans, rows = packed.spans, packed.order.n_rows
        first = index * self._window
        sizes, is_present, is_whole = (np.zeros(self._window, dtype=np.int64) for _ in range(3))
        sizes[documents - first] = lengths
        is_present[spans.document - first] = 1
        is_whole[spans.document[spans.length == sizes[spans.document - first]] - first] = 1
        tokens = int(spans.length.sum())
        totals = {
            "rows": rows,
            "tokens": tokens,
            "padding": rows * (self.length + 1) - tokens,
            "documents": int(is_present.sum()),
            "truncated": int(is_present.sum() - is_whole.sum()),
            "dropped": len(documents) - int(is_present.sum()),
        }
        for name, value in totals.items():
            self.statistics[name] = self.statistics.get(name, 0) + value
        return rows


# The strategies ------------------------------------------------------------------------------------------------------

#: Spans of documents in rows, ordered by row and position: the document's index, row, position in the row, ids of the
#: document before the span, ids in the span.
PlacedSpans = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def limit_lengths(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    documents: NDArray[np.int64],
    length: int,
    long_documents: LongDocuments,
    strategy: Strategy,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Limit documents to length + 1 ids by `long_documents`: (starts, lengths, numbers) of what is packed.

    "concat" with "split" changes nothing.
    """
    capacity = length + 1
    if long_documents == "error" and len(lengths) and lengths.max() > capacity:
        long_index = int(np.argmax(lengths > capacity))
        raise ValueError(
            f"document {documents[long_index]} has {lengths[long_index]} ids; a row holds length + 1 = {capacity}: "
            'raise length, or set long_documents to "split", "truncate" or "drop"'
        )
    if long_documents == "drop":
        is_short = lengths <= capacity
        return starts[is_short], lengths[is_short], documents[is_short]
    if long_documents == "truncate":
        return starts, np.minimum(lengths, capacity), documents
    if strategy == "concat":
        return starts, lengths, documents
    pieces = np.maximum(-(-(lengths - 1) // length), 1)
    document_indices = np.repeat(np.arange(len(lengths)), pieces)
    skipped_ids = join_ranges(np.zeros(len(pieces), dtype=np.int64), pieces) * length
    return (
        starts[document_indices] + skipped_ids,
        np.minimum(lengths[document_indices] - skipped_ids, capacity),
        documents[document_indices],
    )


def pack_concat(lengths: NDArray[np.int64], length: int, tail: Tail) -> PlacedSpans:
    """Cut rows from all documents joined; each begins with the last id of the one before."""
    offsets = compute_offsets(lengths)
    total = int(offsets[-1])
    labels = max(total - 1, 0)
    begins = np.arange(labels // length if tail == "drop" else -(-labels // length)) * length
    ends = np.minimum(begins + length + 1, total)
    first = np.searchsorted(offsets, begins, side="right") - 1
    last = np.searchsorted(offsets, ends, side="left")
    document_indices, row = join_ranges(first, last), np.repeat(np.arange(len(begins)), last - first)
    span_starts = np.maximum(offsets[document_indices], begins[row])
    span_lengths = np.minimum(offsets[document_indices + 1], ends[row]) - span_starts
    return document_indices, row, span_starts - begins[row], span_starts - offsets[document_indices], span_lengths


def pack_best_fit(lengths: NDArray[np.int64], length: int, tail: Tail) -> PlacedSpans:
    """Place documents by best fit, decreasing: stable, so that of equal lengths the first is placed first."""
    del tail  # no row is left out
    decreasing = _sort_stably(length + 1 - lengths)
    rows = np.empty(len(lengths), dtype=np.int64)
    best_fit(lengths[decreasing], length + 1, rows)
    by_row = _sort_stably(rows)
    document_indices, row = decreasing[by_row], rows[by_row]
    return (
        document_indices,
        row,
        _find_positions(row, lengths[document_indices]),
        np.zeros(len(row), dtype=np.int64),
        lengths[document_indices],
    )


def pack_best_fit_crop(lengths: NDArray[np.int64], length: int, tail: Tail) -> PlacedSpans:
    """Fill rows one after another, and close the gap of each with the beginning of a document."""
    placed = np.empty((len(lengths), 3), dtype=np.int64)
    best_fit_crop(lengths, length + 1, placed)
    document_indices, row, span_lengths = np.ascontiguousarray(placed.T)
    if tail == "drop" and len(row) and span_lengths[row == row[-1]].sum() < length + 1:
        in_full_row = row < row[-1]
        document_indices, row, span_lengths = document_indices[in_full_row], row[in_full_row], span_lengths[in_full_row]
    return document_indices, row, _find_positions(row, span_lengths), np.zeros(len(row), dtype=np.int64), span_lengths


PACKERS = {"concat": pack_concat, "best-fit": pack_best_fit, "best-fit-crop": pack_best_fit_crop}


def _find_positions(row: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the positions in their rows of spans that are ordered by row and follow each other."""
    ids_before = compute_offsets(lengths)[:-1]
    first = np.flatnonzero(np.diff(row, prepend=-1))
    return ids_before - np.repeat(ids_before[first], np.diff(first, append=len(row)))


def _sort_stably(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the stable order of non-negative values; NumPy sorts 16-bit numbers by radix, 8 times as fast."""
    return np.argsort(values.astype(np.uint16) if values.max(initial=0) < 1 << 16 else values, kind="stable")


def join_ranges(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Join the numbers of several ranges.

    >>> join_ranges(np.array([3, 7]), np.array([5, 8])).tolist()
    [3, 4, 7]
    """
    sizes = last - first
    return np.arange(int(sizes.sum())) + np.repeat(first - compute_offsets(sizes)[:-1], sizes)
