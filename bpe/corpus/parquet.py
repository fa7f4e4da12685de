"""Parquet and Arrow files: the rows of one column are documents, read without a copy from Arrow's buffers.

Only the column is read, in batches of some MB of a Parquet file's row groups, and by record batch of an Arrow file or
stream (Feather is an Arrow file). A thread reads ahead. Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import find_utf8_error
from bpe.corpus import blocks
from bpe.corpus.batch_headers import BatchHeaders
from bpe.corpus.blocks import Block, find_invalid_document
from bpe.corpus.documents import Documents, group_by_size, read_arrow_documents
from bpe.corpus.jsonl import check_unique_column, describe_known_names
from bpe.corpus.listing import SourceFile, import_extra
from bpe.corpus.page_headers import ColumnPages, read_column_chunks
from bpe.corpus.reading import DamagedFileError
from bpe.corpus.records import RecordContext
from bpe.corpus.streams import FileStamps, open_raw, read_ahead, watch_for_changes
from bpe.errors import FormatError, raise_if_of_signal_handler

#: The bytes of a column that are decoded at once, about, and the bytes of arrays that are read ahead.
BATCH_BYTES, READ_AHEAD_BYTES = 2 << 20, 16 << 20
#: The largest number of rows that are decoded at once, and the most bytes that the first ones of a row group can have.
MAX_ROWS, FIRST_BYTES = 1 << 16, 1 << 28

_TEXT_TYPES = ("string", "large_string", "binary", "large_binary")

#: Rows of the column: (the array, the number of its row group or record batch, its bytes on disk, about, and the
#: number of rows before it).
ColumnRows = tuple[Any, int, int, int]


def read_blocks(context: RecordContext) -> Generator[Block, None, None]:
    """Yield the documents of a Parquet or Arrow file in blocks.

    Raises:
        FormatError: for a damaged file, a column that does not exist or has no text, a bad record.
        ImportError: without pyarrow.

    """
    file, state = context.file, context.state
    import_extra("pyarrow", "corpus", f"a file of format {file.format}", file.name)
    if file.kind in ("stdin", "pipe"):
        raise FormatError(
            f"a {file.format} file cannot be read from a pipe, since its index is at its end; name the file itself",
            path=file.name,
        )
    row_arrays = read_ahead(_read_rows(context), lambda row_arrays: int(row_arrays[0].nbytes), READ_AHEAD_BYTES)
    current_part = -1  # the row group or record batch that is read
    n_documents_before = n_bad_records = 0  # its documents so far, and the bad rows before it
    with closing(row_arrays):
        for array, part_index, disk_bytes, first_row in row_arrays:
            if part_index != current_part:
                current_part, n_documents_before, n_bad_records = part_index, 0, context.bad_records.count
            state.unclaimed_bytes += disk_bytes
            is_not_null = None if not array.null_count else np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
            with _as_format_errors(file):
                parts = read_arrow_documents(array) or []
            for part in parts:
                for block in _divide_part(part, is_not_null, context, first_row):
                    if len(block.starts):
                        yield replace(
                            block,
                            disk_bytes=state.claim_bytes(),
                            file_index=context.file_index,
                            resume_offset=part_index,
                            documents_to_skip=n_documents_before,
                            n_bad_records=n_bad_records,
                        )
                        n_documents_before += len(block.starts)


def read_column(context: RecordContext) -> None:
    """Read the column as a whole, and drop it, to see whether the file is damaged.

    Raises:
        DamagedFileError: for a damaged file; FormatError for a column that does not exist or has no text.

    """
    import_extra("pyarrow", "corpus", f"a file of format {context.file.format}", context.file.name)
    with closing(_read_rows(context)) as row_arrays:
        for array, *_ in row_arrays:
            with _as_format_errors(context.file):
                read_arrow_documents(array)


def list_row_groups(file: SourceFile) -> list[int]:
    """List the numbers of rows of a Parquet file's row groups."""
    import_extra("pyarrow", "corpus", "a file of format parquet", file.name)
    with ExitStack() as stack:
        metadata = _open_parquet(file, stack)[0].metadata
        return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


# Rows of the column ---------------------------------------------------------------------------------------------------


def _read_rows(context: RecordContext) -> Generator[ColumnRows, None, None]:
    return (_read_parquet if context.file.format == "parquet" else _read_arrow)(context)


def _read_parquet(context: RecordContext) -> Generator[ColumnRows, None, None]:
    file, first, last = context.file, context.start, context.end
    with ExitStack() as stack, _as_format_errors(file):
        parquet_file, raw = _open_parquet(file, stack, context.state.file_stamps)
        path, is_dictionary = _find_column(parquet_file.schema_arrow, context)
        metadata = parquet_file.metadata
        chunks = read_column_chunks(raw, _find_leaf(parquet_file, path))
        if len(chunks) != metadata.num_row_groups:
            raise ValueError(f"the footer has {len(chunks)} row groups in place of {metadata.num_row_groups}")
        last = metadata.num_row_groups if last is None else min(last, metadata.num_row_groups)
        row = sum(metadata.row_group(index).num_rows for index in range(min(first, last)))
        n_file_rows, size = max(metadata.num_rows, 1), file.size or 0
        for index in range(first, last):
            chunk = chunks[index]  # that of `metadata` ends the process if the footer contradicts itself
            pages = ColumnPages(raw, chunk, file, keeps_dictionary=is_dictionary)
            row_size = max(chunk.unpacked_size, 0) // max(metadata.row_group(index).num_rows, 1) + 1
            n_rows = min(max(BATCH_BYTES // row_size, 1), MAX_ROWS)
            for array in _join_small(_read_row_group(parquet_file, index, path, pages, n_rows)):
                end = row + len(array)
                disk_bytes = size * end // n_file_rows - size * row // n_file_rows
                yield from _divide_rows(array, index, disk_bytes, row)
                row = end


def _read_row_group(
    parquet_file: Any, index: int, field_path: list[str], pages: ColumnPages, n_rows: int
) -> Iterator[Any]:
    """Yield arrays of `n_rows` rows of a row group, or of fewer, as `pages` and the size of the texts demand."""
    columns = [".".join(field_path)]
    for batch in parquet_file.iter_batches(
        pages.take_rows(n_rows, FIRST_BYTES), row_groups=[index], columns=columns, use_threads=False
    ):
        array = _unnest(batch.column(0), field_path[1:])
        yield array
        if array.nbytes > 2 * BATCH_BYTES:  # the texts are longer than their pages
            n_rows = max(BATCH_BYTES * len(array) // array.nbytes, 1)
        parquet_file.reader.set_batch_size(pages.take_rows(n_rows))  # of the next batch


def _join_small(arrays: Iterator[Any]) -> Iterator[Any]:
    """Join arrays that are much smaller than `BATCH_BYTES` with those that follow, since each block costs time."""
    import pyarrow as pa

    waiting: list[Any] = []
    n_bytes = 0  # of those that wait
    for array in arrays:
        is_small = array.nbytes < BATCH_BYTES // 4 and not pa.types.is_dictionary(array.type)
        if waiting and (not is_small or n_bytes + array.nbytes > BATCH_BYTES):
            yield waiting[0] if len(waiting) == 1 else pa.concat_arrays(waiting)  # which copies one, too
            waiting, n_bytes = [], 0
        if is_small:
            waiting.append(array)
            n_bytes += array.nbytes
        else:
            yield array
    if waiting:
        yield waiting[0] if len(waiting) == 1 else pa.concat_arrays(waiting)


def _open_parquet(file: SourceFile, stack: ExitStack, stamps: FileStamps | None = None) -> tuple[Any, Any]:
    """Open a Parquet file with pyarrow, and its bytes; both are closed with the stack."""
    import pyarrow.parquet as pq

    watch_for_changes(file, stack, file.name, stamps)
    is_local = file.kind == "file"
    raw = stack.enter_context(open(file.name, "rb", buffering=0)) if is_local else open_raw(file, stack)[0]  # noqa: SIM115 (the stack)
    with _as_format_errors(file):
        return stack.enter_context(
            pq.ParquetFile(file.name if is_local else raw, pre_buffer=False, buffer_size=1 << 20)
        ), raw


def _find_leaf(parquet_file: Any, field_path: list[str]) -> int:
    """Find the index of the column of a Parquet file that holds the text."""
    for index in range(len(parquet_file.schema)):
        if parquet_file.schema.column(index).path == ".".join(field_path):
            return index
    return 0


def _read_arrow(context: RecordContext) -> Generator[ColumnRows, None, None]:
    import pyarrow as pa
    from pyarrow import ipc

    file, first, last = context.file, context.start, context.end
    with ExitStack() as stack, _as_format_errors(file):
        raw, _ = open_raw(file, stack, context.state.file_stamps)
        source = stack.enter_context(pa.OSFile(file.name) if file.kind == "file" else pa.PythonFile(raw, "r"))
        start = source.read(8)
        source.seek(0)
        if start[:4] == b"FEA1":
            raise FormatError(
                "this is Feather version 1; write it again as version 2: pyarrow.feather.write_feather", path=file.name
            )
        is_file = start[:6] == b"ARROW1"
        open_source = ipc.open_file if is_file else ipc.open_stream
        schema = open_source(source).schema
        path, _ = _find_column(schema, context)
        column = schema.get_field_index(path[0])
        headers = BatchHeaders(source, file.name, schema, column)
        source.seek(0)
        reader = open_source(source, options=ipc.IpcReadOptions(use_threads=False, included_fields=[column]))
        batches = map(reader.get_batch, headers.check_batches()) if is_file else _read_stream(reader, headers)
        row = 0
        for batch_index, batch in enumerate(batches):
            if last is not None and batch_index >= last:
                break
            if batch_index >= first:
                batch.column(0).validate()  # the sizes of its buffers, which reading it relies on
                array = _unnest(batch.column(0), path[1:])
                yield from _divide_rows(array, batch_index, array.nbytes, row)
            row += batch.num_rows


def _read_stream(reader: Any, headers: BatchHeaders) -> Iterator[Any]:
    """Yield the record batches of an Arrow stream, each after a look at its header."""
    while True:
        headers.check_next_batch()
        try:
            yield reader.read_next_batch()
        except StopIteration:
            return


def _find_column(schema: Any, context: RecordContext) -> tuple[list[str], bool]:
    """Find the column that `context` names.

    Returns:
        Its name with those of the nested fields in it, and whether its texts are those of a dictionary.

    Raises:
        FormatError: if there is none, or it has no text.

    """
    import pyarrow as pa

    path = [context.field] if context.field in schema.names else context.field.split(".")
    column_type: Any = None
    names, prefix = schema.names, ""
    for depth, name in enumerate(path):
        if name not in names:
            raise FormatError(
                f"there is no column {prefix + name!r}{describe_known_names(prefix + other for other in names)}",
                path=context.source,
            )
        check_unique_column(name, names, context.source, prefix + name)
        column_type = schema.field(name).type if depth == 0 else column_type.field(name).type
        names = (
            [column_type.field(index).name for index in range(column_type.num_fields)]
            if pa.types.is_struct(column_type)
            else []
        )
        prefix += f"{name}."
    is_dictionary = pa.types.is_dictionary(column_type)
    value_type = column_type.value_type if is_dictionary else column_type
    if str(value_type) not in (*_TEXT_TYPES, "string_view", "binary_view"):
        raise FormatError(
            f"column {context.field!r} is of type {column_type}, not text; it must be of {', '.join(_TEXT_TYPES)}",
            path=context.source,
        )
    return path, is_dictionary


def _unnest(array: Any, field_path: list[str]) -> Any:
    """Take the nested field of an array of structs; null where a struct is."""
    import pyarrow.compute as pc

    for name in field_path:
        array = pc.struct_field(array, name)
    return array


def _divide_rows(array: Any, part_index: int, disk_bytes: int, row: int) -> Iterator[ColumnRows]:
    """Yield the rows of an array in arrays of a type that `read_arrow_documents` reads."""
    for text_array in _cast_to_text(array):
        yield text_array, part_index, disk_bytes, row
        row, disk_bytes = row + len(text_array), 0


def _cast_to_text(array: Any) -> Iterator[Any]:
    """Cast an array to one of the types that `read_arrow_documents` reads, in parts of about `BATCH_BYTES`.

    Raises:
        ValueError: for an array that refers to what it does not have, such as a dictionary's entry.

    """
    import pyarrow as pa

    array_type = array.type
    if str(array_type) in _TEXT_TYPES:
        yield array
        return
    is_dictionary = pa.types.is_dictionary(array_type)
    bytes_type = pa.type_for_alias(
        str(array_type.value_type if is_dictionary else array_type).replace("string", "binary")
    )
    # Of bytes, UTF-8 or not.
    array = array.view(pa.dictionary(array_type.index_type, bytes_type) if is_dictionary else bytes_type)
    array.validate(full=True)  # pyarrow itself does not check what it reads by
    for first, last in group_by_size(_measure_texts(array), BATCH_BYTES):
        part = array[first:last]
        part = part.dictionary_decode() if is_dictionary else part
        yield part if str(part.type) in _TEXT_TYPES else part.cast("large_binary")


def _measure_texts(array: Any) -> NDArray[np.int64]:
    """Measure the bytes of each text of an array of a dictionary or of views, which several may share."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        entry_sizes, indices = _measure_texts(array.dictionary), array.indices.fill_null(0).to_numpy()
        return entry_sizes[indices] if len(entry_sizes) else np.zeros(len(array), dtype=np.int64)
    if str(array.type) in _TEXT_TYPES:
        sizes: NDArray[np.int64] = pc.binary_length(array).fill_null(0).to_numpy().astype(np.int64)
        return sizes
    views = np.frombuffer(array.buffers()[1], dtype=np.int32).reshape(-1, 4)  # the first number is the length
    return np.where(array.is_valid(), views[array.offset : array.offset + len(array), 0], 0).astype(np.int64)


# Blocks ---------------------------------------------------------------------------------------------------------------


def _divide_part(
    part: Documents, is_not_null: NDArray[np.bool_] | None, context: RecordContext, first_part_row: int
) -> Iterator[Block]:
    """Yield the documents of one array in blocks; nulls, and in some cases bad UTF-8, are left out or an error."""
    n_done = 0
    for group in part.split_into_groups(blocks.BLOCK_BYTES):
        n = len(group)
        starts, ends, first_row = group.starts, group.ends, first_part_row + n_done
        if is_not_null is not None and not is_not_null[n_done : n_done + n].all():
            is_valid = is_not_null[n_done : n_done + n]
            for _ in range(int(n - is_valid.sum())):
                where = f"row {first_row + int(np.argmin(is_valid)) + 1}"
                message = f"column {context.field!r} is null; it must be text"
                context.bad_records.raise_or_skip(message, context.source, where)
            starts, ends = starts[is_valid], ends[is_valid]
        n_done += n
        if not len(starts):
            continue
        start = int(starts[0])
        text = memoryview(np.frombuffer(part.data, dtype=np.uint8)[start : int(ends[-1])])  # type: ignore[arg-type]
        block = Block(text, starts - start, ends - start, context.source, start)
        yield _check_block(block, context, first_row)


def _check_block(block: Block, context: RecordContext, row: int) -> Block:
    """Return the block with bytes that are not UTF-8 handled, or to be checked by the thread that takes it."""
    assert isinstance(block.text, memoryview)
    if context.encoding_errors == "bytes":
        return block
    if context.encoding_errors == "strict" and context.bad_records.must_raise:
        return replace(block, must_be_utf8=True, first_row=row + 1)
    if find_invalid_document(block.text, block.starts, block.ends) is None:
        return block
    pairs = list(zip(block.starts.tolist(), block.ends.tolist(), strict=True))
    if context.encoding_errors == "replace":
        texts = [bytes(block.text[start:end]).decode("utf-8", "replace").encode() for start, end in pairs]
        bounds = compute_offsets(list(map(len, texts)))
        return replace(block, text=memoryview(b"".join(texts)), starts=bounds[:-1], ends=bounds[1:])
    is_valid = np.array([find_utf8_error(block.text[start:end]) is None for start, end in pairs], dtype=np.bool_)
    context.bad_records.skip(int(len(is_valid) - is_valid.sum()))
    return replace(block, starts=block.starts[is_valid], ends=block.ends[is_valid])


@contextmanager
def _as_format_errors(file: SourceFile) -> Iterator[None]:
    """Turn pyarrow's errors about the content of a file into FormatErrors that name it."""
    import pyarrow as pa

    try:
        yield
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        raise_if_of_signal_handler(error)
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = " ".join(str(error).split())
        raise DamagedFileError(
            f"the {file.format} data cannot be read ({reason}); copy or write the file again", file.name
        ) from None
