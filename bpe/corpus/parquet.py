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

from bpe.base.offsets import offsets_of
from bpe.base.utf8 import utf8_error
from bpe.corpus import blocks
from bpe.corpus.blocks import Block, find_invalid_document
from bpe.corpus.documents import Documents, arrow_documents
from bpe.corpus.jsonl import check_once, list_others
from bpe.corpus.listing import SourceFile, import_extra
from bpe.corpus.records import RecordContext
from bpe.corpus.streams import States, open_raw, read_ahead, refuse_changes
from bpe.errors import FormatError

#: The bytes of a column that are decoded at once, about, and the bytes of arrays that are read ahead.
BATCH, AHEAD = 2 << 20, 16 << 20
#: The largest number of rows that are decoded at once.
MAX_ROWS = 1 << 16

_TYPES = ("string", "large_string", "binary", "large_binary")

#: Rows of the column: (the array, the number of its row group or record batch, the rows of the file or -1, and those
#: before the array).
Rows = tuple[Any, int, int, int]


def read_blocks(context: RecordContext) -> Generator[Block, None, None]:
    """The documents of a Parquet or Arrow file.

    Raises:
        FormatError: for a damaged file, a column that does not exist or has no text, a bad record.
        ImportError: without pyarrow.

    """
    file, shared = context.file, context.shared
    import_extra("pyarrow", "corpus", f"a file of format {file.format}", file.name)
    if file.kind in ("stdin", "pipe"):
        raise FormatError(
            f"a {file.format} file cannot be read from a pipe, since its index is at its end; name the file itself",
            path=file.name,
        )
    read = _read_parquet if file.format == "parquet" else _read_arrow
    rows = read_ahead(read(context), lambda rows: int(rows[0].nbytes), AHEAD)
    group, before, skipped = -1, 0, 0  # the present row group or record batch, its documents so far, bad rows before it
    with closing(rows):
        for array, part_index, total, row in rows:
            if part_index != group:
                group, before, skipped = part_index, 0, context.bad.skipped
            shared.unclaimed += _count_bytes(file, array, row, total)
            valid = None if not array.null_count else np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
            with _name_errors(file):
                parts = arrow_documents(_cast_to_text(array)) or []
            for part in parts:
                for block in _divide_part(part, valid, context, row):
                    if len(block.starts):
                        yield replace(
                            block,
                            size=shared.claim_bytes(),
                            file=context.number,
                            position=part_index,
                            skip=before,
                            skipped=skipped,
                        )
                        before += len(block.starts)


def list_row_groups(file: SourceFile) -> list[int]:
    """The numbers of rows of a Parquet file's row groups."""
    import_extra("pyarrow", "corpus", "a file of format parquet", file.name)
    with ExitStack() as stack:
        about = _open_parquet(file, stack).metadata
        return [about.row_group(index).num_rows for index in range(about.num_row_groups)]


# Rows of the column ---------------------------------------------------------------------------------------------------


def _read_parquet(context: RecordContext) -> Generator[Rows, None, None]:
    file, first, last = context.file, context.start, context.end
    with ExitStack() as stack, _name_errors(file):
        opened = _open_parquet(file, stack, context.shared.states)
        path = _find_column(opened.schema_arrow, context)
        about = opened.metadata
        last = about.num_row_groups if last is None else min(last, about.num_row_groups)
        row = sum(about.row_group(index).num_rows for index in range(min(first, last)))
        column = _find_leaf(opened, path)
        for number in range(first, last):
            group, done = about.row_group(number), 0
            row_size = group.column(column).total_uncompressed_size // max(group.num_rows, 1) + 1
            size = min(max(BATCH // row_size, 1), MAX_ROWS)
            for batch in opened.iter_batches(size, row_groups=[number], columns=[".".join(path)], use_threads=False):
                array = _unnest(batch.column(0), path[1:])
                yield array, number, about.num_rows, row + done
                done += len(array)
            row += group.num_rows


def _open_parquet(file: SourceFile, stack: ExitStack, states: States | None = None) -> Any:
    import pyarrow.parquet as pq

    refuse_changes(file, stack, file.name, states)
    source = file.name if file.kind == "file" else open_raw(file, stack)[0]
    with _name_errors(file):
        return stack.enter_context(pq.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20))


def _find_leaf(opened: Any, path: list[str]) -> int:
    """The index of the column of a Parquet file that holds the text."""
    for index in range(len(opened.schema)):
        if opened.schema.column(index).path == ".".join(path):
            return index
    return 0


def _read_arrow(context: RecordContext) -> Generator[Rows, None, None]:
    import pyarrow as pa
    from pyarrow import ipc

    file, first, last = context.file, context.start, context.end
    with ExitStack() as stack, _name_errors(file):
        raw, _ = open_raw(file, stack, context.shared.states)
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
        for number, batch in enumerate(batches):
            if last is not None and number >= last:
                break
            if number >= first:
                batch.column(0).validate()  # the sizes of its buffers, which reading it relies on
                yield _unnest(batch.column(0), path[1:]), number, -1, row
            row += batch.num_rows


def _find_column(schema: Any, context: RecordContext) -> list[str]:
    """The column that `context` wants, and the names of the nested fields in it.

    Raises:
        FormatError: if there is none, or it has no text.

    """
    import pyarrow as pa

    path = [context.field] if context.field in schema.names else context.field.split(".")
    kind: Any = None
    names, prefix = schema.names, ""
    for depth, name in enumerate(path):
        if name not in names:
            raise FormatError(
                f"there is no column {prefix + name!r}{list_others(prefix + other for other in names)}",
                path=context.source,
            )
        check_once(name, names, context.source, prefix + name)
        kind = schema.field(name).type if depth == 0 else kind.field(name).type
        names = [kind.field(index).name for index in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        prefix += f"{name}."
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if str(inner) not in (*_TYPES, "string_view", "binary_view"):
        raise FormatError(
            f"column {context.field!r} is of type {kind}, not text; it must be of {', '.join(_TYPES)}",
            path=context.source,
        )
    return path


def _unnest(array: Any, path: list[str]) -> Any:
    """The nested field of an array of structs; null where a struct is."""
    import pyarrow.compute as pc

    for name in path:
        array = pc.struct_field(array, name)
    return array


def _cast_to_text(array: Any) -> Any:
    """The array as one of the types that `arrow_documents` reads.

    Raises:
        ValueError: for an array that refers to what it does not have, such as a dictionary's entry.

    """
    import pyarrow as pa

    kind = array.type
    if str(kind) in _TYPES:
        return array
    encoded = pa.types.is_dictionary(kind)
    inner = pa.type_for_alias(str(kind.value_type if encoded else kind).replace("string", "binary"))
    array = array.view(pa.dictionary(kind.index_type, inner) if encoded else inner)  # of bytes, UTF-8 or not
    array.validate(full=True)  # pyarrow itself does not check what it reads by
    if encoded:
        array = array.dictionary_decode()
    return array if str(array.type) in _TYPES else array.cast("large_binary")


# Blocks ---------------------------------------------------------------------------------------------------------------


def _count_bytes(file: SourceFile, array: Any, row: int, rows: int) -> int:
    """The bytes on disk of the array's rows, about; `rows` is the number of rows of the file, -1 if unknown."""
    if rows < 0:
        return int(array.nbytes)
    size = file.size or 0
    return size * (row + len(array)) // max(rows, 1) - size * row // max(rows, 1)


def _divide_part(part: Documents, valid: NDArray[np.bool_] | None, context: RecordContext, row: int) -> Iterator[Block]:
    """The documents of one array in blocks; nulls, and in some cases bad UTF-8, are left out or an error."""
    done = 0
    for group in part.groups(blocks.BLOCK):
        n = len(group)
        starts, ends, first = group.starts, group.ends, row + done
        if valid is not None and not valid[done : done + n].all():
            good = valid[done : done + n]
            for _ in range(int(n - good.sum())):
                where = f"row {first + int(np.argmin(good)) + 1}"
                context.bad.add(f"column {context.field!r} is null; it must be text", context.source, where)
            starts, ends = starts[good], ends[good]
        done += n
        if not len(starts):
            continue
        start = int(starts[0])
        text = memoryview(np.frombuffer(part.data, dtype=np.uint8)[start : int(ends[-1])])  # type: ignore[arg-type]
        block = Block(text, starts - start, ends - start, [], False, context.source, start)
        yield _check_block(block, context, first)


def _check_block(block: Block, context: RecordContext, row: int) -> Block:
    """The block, with bytes that are not UTF-8 handled, or to be checked by the thread that takes it."""
    assert isinstance(block.text, memoryview)
    if context.encoding_errors == "bytes":
        return block
    if context.encoding_errors == "strict" and context.bad.raises:
        return replace(block, checked=False, row=row + 1)
    if find_invalid_document(block.text, block.starts, block.ends) is None:
        return block
    pairs = list(zip(block.starts.tolist(), block.ends.tolist(), strict=True))
    if context.encoding_errors == "replace":
        texts = [bytes(block.text[start:end]).decode("utf-8", "replace").encode() for start, end in pairs]
        bounds = offsets_of(list(map(len, texts)))
        return replace(block, text=memoryview(b"".join(texts)), starts=bounds[:-1], ends=bounds[1:])
    good = np.array([utf8_error(block.text[start:end]) is None for start, end in pairs], dtype=np.bool_)
    context.bad.skip(int(len(good) - good.sum()))
    return replace(block, starts=block.starts[good], ends=block.ends[good])


@contextmanager
def _name_errors(file: SourceFile) -> Iterator[None]:
    """Turn pyarrow's errors about the content of a file into FormatErrors that name it."""
    import pyarrow as pa

    try:
        yield
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = " ".join(str(error).split())
        raise FormatError(
            f"the {file.format} data cannot be read ({reason}); copy or write the file again", path=file.name
        ) from None
