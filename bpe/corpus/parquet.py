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
from bpe.corpus.blocks import Block, find_invalid_document
from bpe.corpus.documents import Documents, read_arrow_documents
from bpe.corpus.jsonl import check_unique_column, describe_known_names
from bpe.corpus.listing import SourceFile, import_extra
from bpe.corpus.reading import DamagedFileError
from bpe.corpus.records import RecordContext
from bpe.corpus.streams import FileStamps, open_raw, read_ahead, watch_for_changes
from bpe.errors import FormatError, raise_if_of_signal_handler

#: The bytes of a column that are decoded at once, about, and the bytes of arrays that are read ahead.
BATCH_BYTES, READ_AHEAD_BYTES = 2 << 20, 16 << 20
#: The largest number of rows that are decoded at once.
MAX_ROWS = 1 << 16

_TEXT_TYPES = ("string", "large_string", "binary", "large_binary")

#: Rows of the column: (the array, the number of its row group or record batch, the rows of the file or -1, and those
#: before the array).
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
        for array, part_index, n_file_rows, first_row in row_arrays:
            if part_index != current_part:
                current_part, n_documents_before, n_bad_records = part_index, 0, context.bad_records.count
            state.unclaimed_bytes += _count_bytes(file, array, first_row, n_file_rows)
            is_not_null = None if not array.null_count else np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
            with _as_format_errors(file):
                parts = read_arrow_documents(_cast_to_text(array)) or []
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
                read_arrow_documents(_cast_to_text(array))


def list_row_groups(file: SourceFile) -> list[int]:
    """List the numbers of rows of a Parquet file's row groups."""
    import_extra("pyarrow", "corpus", "a file of format parquet", file.name)
    with ExitStack() as stack:
        metadata = _open_parquet(file, stack).metadata
        return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


# Rows of the column ---------------------------------------------------------------------------------------------------


def _read_rows(context: RecordContext) -> Generator[ColumnRows, None, None]:
    return (_read_parquet if context.file.format == "parquet" else _read_arrow)(context)


def _read_parquet(context: RecordContext) -> Generator[ColumnRows, None, None]:
    file, first, last = context.file, context.start, context.end
    with ExitStack() as stack, _as_format_errors(file):
        parquet_file = _open_parquet(file, stack, context.state.file_stamps)
        path = _find_column(parquet_file.schema_arrow, context)
        metadata = parquet_file.metadata
        last = metadata.num_row_groups if last is None else min(last, metadata.num_row_groups)
        row = sum(metadata.row_group(index).num_rows for index in range(min(first, last)))
        column = _find_leaf(parquet_file, path)
        for group_index in range(first, last):
            group, n_done = metadata.row_group(group_index), 0
            row_size = group.column(column).total_uncompressed_size // max(group.num_rows, 1) + 1
            size = min(max(BATCH_BYTES // row_size, 1), MAX_ROWS)
            for batch in parquet_file.iter_batches(
                size, row_groups=[group_index], columns=[".".join(path)], use_threads=False
            ):
                array = _unnest(batch.column(0), path[1:])
                yield array, group_index, metadata.num_rows, row + n_done
                n_done += len(array)
            row += group.num_rows


def _open_parquet(file: SourceFile, stack: ExitStack, stamps: FileStamps | None = None) -> Any:
    import pyarrow.parquet as pq

    watch_for_changes(file, stack, file.name, stamps)
    source = file.name if file.kind == "file" else open_raw(file, stack)[0]
    with _as_format_errors(file):
        return stack.enter_context(pq.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20))


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
        if start[:6] == b"ARROW1":
            schema = ipc.open_file(source).schema
            path = _find_column(schema, context)
            options = ipc.IpcReadOptions(use_threads=False, included_fields=[schema.get_field_index(path[0])])
            reader = ipc.open_file(source, options=options)
            batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
        else:
            schema = ipc.open_stream(source).schema
            path = _find_column(schema, context)
            options = ipc.IpcReadOptions(use_threads=False, included_fields=[schema.get_field_index(path[0])])
            source.seek(0)
            batches = iter(ipc.open_stream(source, options=options))
        row = 0
        for batch_index, batch in enumerate(batches):
            if last is not None and batch_index >= last:
                break
            if batch_index >= first:
                batch.column(0).validate()  # the sizes of its buffers, which reading it relies on
                yield _unnest(batch.column(0), path[1:]), batch_index, -1, row
            row += batch.num_rows


def _find_column(schema: Any, context: RecordContext) -> list[str]:
    """Find the column that `context` names, and the names of the nested fields in it.

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
    value_type = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
    if str(value_type) not in (*_TEXT_TYPES, "string_view", "binary_view"):
        raise FormatError(
            f"column {context.field!r} is of type {column_type}, not text; it must be of {', '.join(_TEXT_TYPES)}",
            path=context.source,
        )
    return path


def _unnest(array: Any, field_path: list[str]) -> Any:
    """Take the nested field of an array of structs; null where a struct is."""
    import pyarrow.compute as pc

    for name in field_path:
        array = pc.struct_field(array, name)
    return array


def _cast_to_text(array: Any) -> Any:
    """Cast an array to one of the types that `read_arrow_documents` reads.

    Raises:
        ValueError: for an array that refers to what it does not have, such as a dictionary's entry.

    """
    import pyarrow as pa

    array_type = array.type
    if str(array_type) in _TEXT_TYPES:
        return array
    is_dictionary = pa.types.is_dictionary(array_type)
    bytes_type = pa.type_for_alias(
        str(array_type.value_type if is_dictionary else array_type).replace("string", "binary")
    )
    # Of bytes, UTF-8 or not.
    array = array.view(pa.dictionary(array_type.index_type, bytes_type) if is_dictionary else bytes_type)
    array.validate(full=True)  # pyarrow itself does not check what it reads by
    if is_dictionary:
        array = array.dictionary_decode()
    return array if str(array.type) in _TEXT_TYPES else array.cast("large_binary")


# Blocks ---------------------------------------------------------------------------------------------------------------


def _count_bytes(file: SourceFile, array: Any, row: int, n_file_rows: int) -> int:
    """Estimate the bytes on disk of the array's rows; `n_file_rows` counts those of the file, -1 if unknown."""
    if n_file_rows < 0:
        return int(array.nbytes)
    size = file.size or 0
    return size * (row + len(array)) // max(n_file_rows, 1) - size * row // max(n_file_rows, 1)


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
