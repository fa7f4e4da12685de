"""Parquet and Arrow IPC files: a column `input_ids` of lists, one row for each document, and `loss_mask` beside it.

The ids are uint16, int32 or uint32, whichever is the first to hold the largest id, in large lists, whose 64-bit offsets
do not overflow. A row group (Parquet) or record batch (Arrow) ends with the document that gives it 2**19 ids or 2**18
documents. Longer documents are kept in a temporary file until they are complete; Parquet's encoder takes some 14 bytes
of memory for each id of the longest document, Arrow's none. Needs pyarrow (extra `arrow`).

Sources: the documentation of Apache Parquet, of the Arrow columnar format and of pyarrow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base._team import Outcome
from bpe.base.offsets import compute_offsets
from bpe.batch import as_id_array, load_pyarrow
from bpe.data.formats.files import ShardFile, Spool, check_ids
from bpe.data.formats.parquet_footers import MAGIC, FooterBuilder
from bpe.data.formats.parquet_pages import Column, encode_column
from bpe.data.formats.reading import DocumentBatch, DocumentOffsets, Shard, bound_one_document, find_size
from bpe.data.formats.shard_format import ShardFormat, ShardWriter
from bpe.errors import FormatError, ignore_system_errors, raise_if_of_signal_handler, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The names of the columns.
IDS_COLUMN, MASK_COLUMN = "input_ids", "loss_mask"
#: A row group or record batch ends with the document that reaches one of these numbers.
_GROUP_TOKENS, _GROUP_DOCUMENTS = 1 << 19, 1 << 18
#: The most numbers of a row group that are gathered in memory.
_MAX_GATHERED_TOKENS = 1 << 23
#: The longest document of a Parquet shard: some 2 GB of memory while it is written.
_MAX_PARQUET_DOCUMENT = 1 << 27
#: Rows are read in batches of this many.
_BATCH_ROWS = 1 << 12


# Writing --------------------------------------------------------------------------------------------------------------


class _RowGroupColumn:
    """Numbers of one column of a row group: in memory, or in a temporary file if they are many."""

    def __init__(self, folder: Path, dtype: np.dtype[Any]) -> None:
        self._folder, self._dtype = folder, dtype
        self._parts: list[NDArray[Any]] = []
        self._spool: Spool | None = None
        self.length = 0

    def append(self, values: NDArray[Any]) -> None:
        """Append numbers; the array must not change before `keep`, or the end of what `take` has returned."""
        self.length += len(values)
        if self._spool is None and self.length > _MAX_GATHERED_TOKENS:
            self._spool = Spool(self._folder, self._dtype.str)
            for part in self._parts:
                self._spool.append(part.astype(self._dtype, copy=False))
            self._parts.clear()
        if self._spool is None:
            self._parts.append(values)
        else:
            self._spool.append(values)

    def keep(self) -> None:
        """Copy the numbers of the last call of `append`, whose array will change, or has many more numbers."""
        if self._parts:
            self._parts[-1] = self._parts[-1].astype(self._dtype)

    def take(self) -> list[NDArray[Any]]:
        """Return all numbers, in several arrays; the column is empty afterwards."""
        parts = self._parts if self._spool is None else [self._spool.map_numbers()]  # the mapping keeps the file
        self.discard()
        return parts

    def discard(self) -> None:
        """Remove the temporary file."""
        self._parts, self.length = [], 0
        if self._spool is not None:
            self._spool.discard()
            self._spool = None


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """The documents of a row group, by its number: their lengths, and the numbers of each column, in several arrays."""

    number: int
    lengths: list[NDArray[np.int64]]
    columns: list[list[NDArray[Any]]]

    def make_batch(self, schema: Any) -> Any:
        """Make a record batch."""
        pa = load_pyarrow()
        offsets = pa.array(compute_offsets(np.concatenate(self.lengths)))
        lists = []
        for parts, field in zip(self.columns, schema, strict=True):
            dtype = np.dtype(str(field.type.value_type))  # to_pandas_dtype needs pandas with pyarrow 25
            empty = np.empty(0, dtype=dtype)
            is_whole = len(parts) == 1 and parts[0].dtype == dtype
            values = parts[0] if is_whole else np.concatenate([empty, *parts], dtype=dtype, casting="unsafe")
            lists.append(pa.LargeListArray.from_arrays(offsets, pa.array(values)))
        return pa.record_batch(lists, schema=schema)

    def encode_columns(self) -> tuple[list[Column], int]:
        """Encode the columns for Parquet; returns the number of documents, too."""
        lengths = np.concatenate(self.lengths)
        return [encode_column(lengths, parts) for parts in self.columns], len(lengths)


class _PyArrowFile:
    """A file object for pyarrow over a file of a shard."""

    def __init__(self, file: ShardFile) -> None:
        self._file = file
        self._position = 0
        self.closed = self.discarded = False

    def write(self, data: Any) -> int:
        """Write bytes, or drop them once the shard is discarded."""
        size = len(memoryview(data).cast("B")) if self.discarded else self._file.write(data)
        self._position += size
        return size

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._position

    def flush(self) -> None:
        """Do nothing: `ShardFile.sync` flushes."""

    def close(self) -> None:
        """Mark the file closed for pyarrow."""
        self.closed = True


class ColumnWriter(ShardWriter):
    """Writes a shard: gathers the documents of a row group, which a thread of `threads` encodes meanwhile.

    Row groups are written in order, each by a thread that has encoded one, and few are in memory at once.
    """

    takes_targets = False

    def __init__(self, shard_format: ShardFormat, folder: Path, *args: Any, masks: bool, **options: Any) -> None:
        self._columns: list[_RowGroupColumn] = []
        self._encoded: dict[int, Any] = {}  # row groups that are not written, by their number
        self._file_lock, self._is_discarded = RLock(), False  # after an interrupt this thread may still hold it
        pa = load_pyarrow(f"writing {shard_format.name}")
        super().__init__(shard_format, folder, *args, masks=masks, **options)
        types = {IDS_COLUMN: self._dtype} | ({MASK_COLUMN: np.dtype("u1")} if masks else {})
        self._schema = pa.schema([(name, pa.large_list(pa.from_numpy_dtype(dtype))) for name, dtype in types.items()])
        self._columns = [_RowGroupColumn(folder, dtype) for dtype in types.values()]
        self._lengths: list[NDArray[np.int64]] = []  # of the documents of the row group
        self._n_rows, self._group_end = 0, 0
        self._encoding: deque[tuple[int, Outcome[None]]] = deque()  # row groups in work: how many ids, and when done
        self._n_groups = self._n_written_groups = 0

    def _encode(self, row_group: _RowGroup) -> Any:
        """Encode a row group, in any thread."""
        raise NotImplementedError

    def _write_encoded(self, encoded: Any) -> None:
        """Write what `_encode` has returned."""
        raise NotImplementedError

    def discard(self) -> None:
        """Remove the temporary files."""
        with self._file_lock:
            self._is_discarded = True
            self._encoded.clear()
        for column in self._columns:
            column.discard()
        super().discard()

    def _write(self, ids: NDArray[Any], ends: NDArray[np.int64], mask: NDArray[np.uint8] | None) -> None:
        if ids.dtype != self._dtype:
            check_ids(ids, self._dtype)
        start = 0  # in ids
        while len(ends):
            capacity = _GROUP_TOKENS - self._columns[0].length
            count = int(np.searchsorted(ends, self.n_tokens + start + capacity)) + 1
            count = min(count, _GROUP_DOCUMENTS - self._n_rows, len(ends))
            stop = int(ends[count - 1]) - self.n_tokens
            self._append(ids[start:stop], None if mask is None else mask[start:stop])
            self._lengths.append(np.diff(ends[:count], prepend=self._group_end))
            self._n_rows += count
            self._group_end = int(ends[count - 1])
            start, ends = stop, ends[count:]
            if self._n_rows >= _GROUP_DOCUMENTS or self._columns[0].length >= _GROUP_TOKENS:
                self._end_group()
            else:
                self._keep()
        self._append(ids[start:], None if mask is None else mask[start:])
        self._keep()

    def _append(self, ids: NDArray[Any], mask: NDArray[np.uint8] | None) -> None:
        self._columns[0].append(ids)
        if mask is not None:
            self._columns[1].append(mask)

    def _keep(self) -> None:
        for column in self._columns:
            column.keep()

    def _end_group(self) -> None:
        """Have the gathered documents encoded and written, and wait until few are left."""
        n_ids = self._columns[0].length
        row_group = _RowGroup(self._n_groups, self._lengths, [column.take() for column in self._columns])
        self._lengths, self._n_rows = [], 0
        self._n_groups += 1
        workers = self._threads.workers
        max_ids = 0 if workers is None else (workers.size + 1) * _GROUP_TOKENS
        self._wait_for_groups(max_ids - n_ids)
        self._encoding.append((n_ids, self._threads.submit(self._encode_and_write, row_group)))
        self._wait_for_groups(max_ids)

    def _wait_for_groups(self, max_ids: int) -> None:
        """Wait for the first row groups, until those that are left have at most `max_ids` ids."""
        while self._encoding and sum(n_ids for n_ids, _ in self._encoding) > max_ids:
            self._encoding.popleft()[1].result()

    def _encode_and_write(self, row_group: _RowGroup) -> None:
        """Encode a row group, and write all that are next in the file, unless another thread does so."""
        self._encoded[row_group.number] = self._encode(row_group)
        while self._n_written_groups in self._encoded and self._file_lock.acquire(blocking=False):
            try:
                encoded = self._encoded.pop(self._n_written_groups, None)
                if encoded is not None and not self._is_discarded:
                    self._write_encoded(encoded)
                    self._n_written_groups += 1  # not after an error: nothing more is written then
            finally:
                self._file_lock.release()

    def _make_headers(self) -> list[bytes]:
        if self._n_rows:
            self._end_group()
        self._wait_for_groups(-1)
        return [b""]


class ParquetWriter(ColumnWriter):
    """Writes a Parquet file."""

    def begin(self) -> None:
        """Write the beginning of the file."""
        import pyarrow.parquet as pq

        empty_file = load_pyarrow().BufferOutputStream()
        pq.ParquetWriter(empty_file, self._schema, version="2.6").close()
        self.max_document = _MAX_PARQUET_DOCUMENT
        self._footer = FooterBuilder(empty_file.getvalue().to_pybytes())
        self._files[0].write(MAGIC)

    def _encode(self, row_group: _RowGroup) -> tuple[list[Column], int]:
        return row_group.encode_columns()

    def _write_encoded(self, encoded: tuple[list[Column], int]) -> None:
        columns, n_rows = encoded
        self._footer.add(columns, n_rows)
        for page in (page for column in columns for page in column.pages):
            self._files[0].write(page.header)
            self._files[0].write(page.data)

    def _make_headers(self) -> list[bytes]:
        headers = super()._make_headers()
        self._files[0].write(self._footer.build())
        return headers


class ArrowWriter(ColumnWriter):
    """Writes an Arrow IPC file, whose record batches are not compressed, so that readers can map them into memory."""

    _output: _PyArrowFile | None = None

    def begin(self) -> None:
        """Write the beginning of the file."""
        self._output = _PyArrowFile(self._files[0])
        pa = load_pyarrow()
        self._writer: Any = pa.ipc.new_file(pa.PythonFile(self._output, mode="w"), self._schema)

    def _encode(self, row_group: _RowGroup) -> Any:
        return row_group.make_batch(self._schema)

    def _write_encoded(self, encoded: Any) -> None:
        self._writer.write_batch(encoded)

    def _make_headers(self) -> list[bytes]:
        headers = super()._make_headers()
        self._writer.close()
        return headers

    def discard(self) -> None:
        """Remove the temporary files."""
        if self._output is not None:
            self._output.discarded = True
        super().discard()
        if self._output is not None:
            with suppress(ValueError), ignore_system_errors():
                self._writer.close()  # else it closes itself later, and reports errors that nobody can handle


# Reading --------------------------------------------------------------------------------------------------------------


class ColumnShard(Shard):
    """A shard whose rows are read with pyarrow, batch by batch."""

    def __init__(self, shard_format: str, path: Path, validate: bool) -> None:
        del validate  # rows are checked when they are read
        self._shard_format = shard_format
        find_size(path)
        with self._as_format_errors(path), self._open_batches(path) as (schema, n_rows, _):
            self._check_schema(path, schema)
            self._has_masks = MASK_COLUMN in schema.names
        super().__init__(path, None, bound_one_document(0))
        self._n_rows = n_rows

    def __repr__(self) -> str:
        return f"Shard({self.name!r}, {self.n_documents} documents)"

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return self._n_rows

    @property
    def n_tokens(self) -> int:
        """The number of ids, which reading all rows finds."""
        return sum(len(batch.ids) for batch in self.batches())

    @property
    def has_masks(self) -> bool:
        """Whether the shard has a loss mask."""
        return self._has_masks

    def batches(self, max_tokens: int = 1 << 22) -> Iterator[DocumentBatch]:
        """Yield the documents in order; see `Shard.batches`."""
        with self._as_format_errors(self.path), self._open_batches(self.path) as (_, _, batches):
            for batch in batches:
                batch.validate(full=True)
                yield from self._open_batch(batch).batches(max_tokens)

    def _open_batch(self, batch: Any) -> Shard:
        """Check the documents of a record batch, and return them as a shard in memory."""
        columns = [batch.column(name) for name in (IDS_COLUMN, MASK_COLUMN) if name in batch.schema.names]
        if any(column.null_count or column.flatten().null_count for column in columns):
            raise FormatError(
                f"it has null rows or ids; every row of {IDS_COLUMN} must be a list of ids", path=self.path
            )
        values = [column.flatten().to_numpy(zero_copy_only=False) for column in columns]
        lengths = [column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64) for column in columns]
        mask = None
        if len(values) > 1:
            if not np.array_equal(lengths[0], lengths[1]):
                raise FormatError(f"a row of {MASK_COLUMN} is not as long as its row of {IDS_COLUMN}", path=self.path)
            mask = values[1].astype(np.uint8, copy=False)
        return Shard(self.path, as_id_array(values[0]), DocumentOffsets(compute_offsets(lengths[0])), mask=mask)

    def _check_schema(self, path: Path, schema: Any) -> None:
        types = load_pyarrow().types
        for name in (IDS_COLUMN, MASK_COLUMN):
            kind = schema.field(name).type if name in schema.names else None
            if kind is None and name == MASK_COLUMN:
                continue
            if kind is None or not (types.is_list(kind) or types.is_large_list(kind)):
                raise FormatError(f"its column {name} is {kind}; it must be a list of integers", path=path)
            if not types.is_integer(kind.value_type) or (name == MASK_COLUMN and str(kind.value_type) != "uint8"):
                raise FormatError(f"its column {name} is {kind}; it must be a list of integers", path=path)

    @contextmanager
    def _open_batches(self, path: Path) -> Iterator[tuple[Any, int, Iterator[Any]]]:
        """Open the file: its schema, its number of rows, and its record batches."""
        pa = load_pyarrow(f"reading {self._shard_format}")
        names = [IDS_COLUMN, MASK_COLUMN]
        if self._shard_format == "arrow":
            with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
                indices = range(file.num_record_batches)
                n_rows = sum(file.get_batch(i).num_rows for i in indices)
                yield file.schema, n_rows, (file.get_batch(i) for i in indices)
            return
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            column_names = [name for name in names if name in schema.names]
            yield schema, file.metadata.num_rows, file.iter_batches(batch_size=_BATCH_ROWS, columns=column_names)

    @contextmanager
    def _as_format_errors(self, path: Path) -> Iterator[None]:
        """Turn pyarrow's errors into FormatErrors that name the file."""
        pa = load_pyarrow(f"reading {self._shard_format}")
        try:
            yield
        except FormatError:
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise_if_of_signal_handler(error)
            raise FormatError(
                f"it is not a valid {self._shard_format} file: {short_repr(str(error), 200)}", path=path
            ) from None
