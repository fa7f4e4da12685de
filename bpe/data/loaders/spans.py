"""Batches of rows, from the spans of ids that each row is made of.

A row holds length + 1 ids: all but the last are its `input_ids`, all but the first its `labels`. Example, for a row of
length 6 with the documents `a b c` and `x y`, and padding `.`:

    ids           a  b  c  x  y  .  .
    input_ids     a  b  c  x  y  .
    labels        b  c  x  y  -  -      - is -100; with mask_other_documents the x is, too
    position_ids  0  1  2  0  1  0
    document_ids  7  7  7  8  8 -1      the numbers of the documents in the shards
    cu_seqlens    0        3     5  6
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.data.loaders._gather import gather, number_positions
from bpe.errors import check_bool, check_int, check_iterable, short_repr

if TYPE_CHECKING:
    from bpe.data.shards import TokenShards


class Batch(TypedDict, total=False):
    """A batch: the fields that were asked for, of shape (rows, length), or (length,) for one row."""

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    position_ids: NDArray[np.int64]
    document_ids: NDArray[np.int64]
    loss_mask: NDArray[np.int64]
    cu_seqlens: NDArray[np.int32]  # 1-D
    max_seqlen: int


#: The fields of a batch, or of a row, by name.
Fields = dict[str, Any]

#: The label of a position that does not count in the loss: the default `ignore_index` of PyTorch's cross entropy.
IGNORED = -100
FIELDS = ("input_ids", "labels", "position_ids", "document_ids", "loss_mask", "cu_seqlens")
#: The fields that need the bounds of documents.
DOCUMENT_FIELDS = {"position_ids", "document_ids", "cu_seqlens"}


@dataclass(frozen=True, slots=True)
class RowFormat:
    """What a batch holds.

    Attributes:
        length: the positions of a row.
        fields: the fields of a batch, of `FIELDS`.
        pad_id: the input id of padding.
        mask_other_documents: whether a label that belongs to another document than its input is -100.

    """

    length: int
    fields: tuple[str, ...]
    pad_id: int = 0
    mask_other_documents: bool = False

    @classmethod
    def from_arguments(
        cls, length: object, fields: Iterable[str], pad_id: object, mask_other_documents: bool
    ) -> RowFormat:
        """Make the format of a dataset's rows from its arguments, after checking them.

        Raises:
            TypeError, ValueError: for a length below 1, an unknown field, a negative id of padding.

        """
        check_iterable("fields", fields, f"names of {', '.join(FIELDS)}")
        names = (fields,) if isinstance(fields, str) else tuple(dict.fromkeys(fields))
        for name in names:
            if name not in FIELDS:
                raise ValueError(f"fields has {short_repr(name)}; the fields are {', '.join(FIELDS)}")
        mask_others = check_bool("mask_other_documents", mask_other_documents)
        return cls(check_int("length", length, 1, 1 << 31), names, check_int("pad_id", pad_id, 0), mask_others)

    @property
    def by_document(self) -> bool:
        """Whether spans must end where documents do."""
        return self.mask_other_documents or not DOCUMENT_FIELDS.isdisjoint(self.fields)


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of ids in rows: int64 arrays of equal length.

    Attributes:
        row: the row in the batch.
        column: the position in the row.
        start: the position of the first id in the shards.
        length: the number of ids, at least 1.
        document: the number of the document; -1 where it is not needed.

    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    document: NDArray[np.int64]

    def take(self, indices: NDArray[np.int64], rows: NDArray[np.int64]) -> Spans:
        """Return the spans with these indices, in these rows of a batch."""
        return Spans(rows, self.column[indices], self.start[indices], self.length[indices], self.document[indices])

    @classmethod
    def join(cls, parts: Sequence[Spans]) -> Spans:
        """Join the spans of several parts, in this order."""
        if not parts:
            return cls(*[np.empty(0, dtype=np.int64)] * 5)
        return cls(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.length for part in parts]),
            np.concatenate([part.document for part in parts]),
        )


class SpanReader:
    """Makes batches of the ids of `TokenShards`."""

    def __init__(self, shards: TokenShards) -> None:
        self.shards = shards
        self.starts = compute_offsets([shard.n_tokens for shard in shards.shards])

    def make_batch(self, spans: Spans, n_rows: int, row_format: RowFormat) -> Batch:
        """Make the fields of a batch of rows from spans."""
        shape = n_rows, row_format.length
        is_full = int(spans.length.sum()) == n_rows * (row_format.length + 1)
        inputs = np.empty(shape, dtype=np.int64) if is_full else np.full(shape, row_format.pad_id, dtype=np.int64)
        labels = np.empty(shape, dtype=np.int64) if is_full else np.full(shape, IGNORED, dtype=np.int64)
        self._gather(spans, inputs, labels, masks=False)
        if row_format.mask_other_documents:
            continued = np.flatnonzero(spans.column > 0)
            labels[spans.row[continued], spans.column[continued] - 1] = IGNORED
        if self.shards.has_masks:
            mask = np.zeros(shape, dtype=np.int64)
            self._gather(spans, np.empty(shape, dtype=np.int64), mask, masks=True)
            labels[mask == 0] = IGNORED
        batch: Fields = {"input_ids": inputs, "labels": labels}
        if "loss_mask" in row_format.fields:
            batch["loss_mask"] = (labels != IGNORED).astype(np.int64)
        if not DOCUMENT_FIELDS.isdisjoint(row_format.fields):
            positions, documents = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
            columns = [spans.row, spans.column, spans.length, spans.document]
            number_positions(np.stack(columns, axis=1), positions, documents)
            batch |= {"position_ids": positions, "document_ids": documents}
        if "cu_seqlens" in row_format.fields:
            batch.update(cu_seqlens_of_begins(batch["position_ids"] == 0))
        extra_fields = ("max_seqlen",) if "cu_seqlens" in row_format.fields else ()
        return cast("Batch", {name: batch[name] for name in (*row_format.fields, *extra_fields)})

    def _gather(self, spans: Spans, inputs: NDArray[np.int64], labels: NDArray[np.int64], *, masks: bool) -> None:
        """Copy the ids of spans, or their loss masks; one call of the kernel for each shard."""
        if len(spans.row) == 0:
            return
        shard_indices = np.searchsorted(self.starts, spans.start, side="right") - 1
        crosses_shards = spans.start + spans.length > self.starts[shard_indices + 1]
        if crosses_shards.any():
            spans, shard_indices = self._divide(spans)
        table = np.empty((len(shard_indices), 4), dtype=np.int64)
        columns = spans.row, spans.column, spans.start - self.starts[shard_indices], spans.length
        for i, column in enumerate(columns):
            table[:, i] = column
        used_shards = set(shard_indices.tolist())
        for index in used_shards:
            shard = self.shards.shards[index]
            ids: Any = shard.mask if masks else shard.ids
            gather(ids, table if len(used_shards) == 1 else table[shard_indices == index], inputs, labels)

    def _divide(self, spans: Spans) -> tuple[Spans, NDArray[np.int64]]:
        """Divide spans at the borders of shards; returns the spans, and the index of the shard of each."""
        first = np.searchsorted(self.starts, spans.start, side="right") - 1
        last = np.searchsorted(self.starts, spans.start + spans.length, side="left") - 1
        span_indices = np.repeat(np.arange(len(first)), last - first + 1)
        shard_indices = (
            np.arange(len(span_indices))
            - np.repeat(compute_offsets(last - first + 1)[:-1], last - first + 1)
            + first[span_indices]
        )
        start = np.maximum(spans.start[span_indices], self.starts[shard_indices])
        length = (
            np.minimum(spans.start[span_indices] + spans.length[span_indices], self.starts[shard_indices + 1]) - start
        )
        column = spans.column[span_indices] + start - spans.start[span_indices]
        non_empty = length > 0  # a shard between the two may be empty
        return Spans(
            *(values[non_empty] for values in (spans.row[span_indices], column, start, length, span_indices))
        ), shard_indices[non_empty]


def cu_seqlens_of_bounds(bounds: NDArray[np.int64]) -> Fields:
    """Make `cu_seqlens` and `max_seqlen` as FlashAttention's functions for sequences of several lengths take them."""
    if bounds[-1] >= 1 << 31:
        raise ValueError(f"the batch has {bounds[-1]} positions; cu_seqlens is int32: at most {(1 << 31) - 1}")
    return {"cu_seqlens": bounds.astype(np.int32), "max_seqlen": int(np.diff(bounds).max(initial=0))}


def join_batches(batches: list[Batch], order: NDArray[np.int64]) -> Batch:
    """Join the rows of several batches in one, in this order."""
    if len(batches) == 1 and (np.diff(order) == 1).all():
        return batches[0]
    names = [name for name in batches[0] if name not in ("cu_seqlens", "max_seqlen")]
    parts = cast("list[Fields]", batches)
    batch = {name: np.concatenate([part[name] for part in parts])[order] for name in names}
    if "cu_seqlens" in batches[0]:
        begin_masks = []
        for part in parts:
            is_begin = np.zeros(part["cu_seqlens"][-1], dtype=np.bool_)
            is_begin[part["cu_seqlens"][:-1]] = True
            begin_masks.append(is_begin)
        batch.update(cu_seqlens_of_begins(np.concatenate(begin_masks).reshape(len(order), -1)[order]))
    return cast("Batch", batch)


def cu_seqlens_of_begins(begins: NDArray[np.bool_]) -> Fields:
    """Find `cu_seqlens` and `max_seqlen` of rows, given the positions where sequences begin."""
    return cu_seqlens_of_bounds(np.append(np.flatnonzero(begins), begins.size))


def collate(rows: Sequence[Batch]) -> Batch:
    """Make a batch of NumPy arrays of rows from a dataset: `collate_fn` for loops without PyTorch.

    With "position_ids" in the rows, or "cu_seqlens" in the dataset's fields, the batch has `cu_seqlens` (int32: where
    each document begins in the flattened batch, and its size) and `max_seqlen`. Rows that one call of `__getitems__`
    returned are not copied.

    >>> import numpy as np
    >>> batch = collate([{"position_ids": np.array([0, 1, 2])}, {"position_ids": np.array([0, 0, 1])}])
    >>> batch["cu_seqlens"].tolist(), batch["max_seqlen"]
    ([0, 3, 4, 6], 3)

    """
    fields = cast("Sequence[Fields]", rows)
    batch = dict(getattr(rows, "batch", None) or {name: np.stack([row[name] for row in fields]) for name in fields[0]})
    if "cu_seqlens" not in batch and "position_ids" in batch:
        batch.update(cu_seqlens_of_begins(batch["position_ids"] == 0))
    return cast("Batch", batch)
