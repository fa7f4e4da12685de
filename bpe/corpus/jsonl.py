"""JSON Lines: one field of each record is a document.

A record is a line: a JSON object that ends with \\n, or at the end of the file; \\r before it and blank lines are
ignored. A kernel reads the wanted field of usual lines (`_json_fields.pyx`); the standard library reads any other line,
and decides what is valid. Cost: linear.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import escape, find_utf8_error, to_bytes, unescape
from bpe.corpus._json_fields import FieldPath, read_fields
from bpe.corpus.blocks import Block
from bpe.corpus.contents import UTF8_BOM
from bpe.corpus.reading import TextBlock
from bpe.corpus.records import RecordContext
from bpe.errors import FormatError, short_repr

_SPACE = b" \t\r"
#: The most lines that one call of the kernel reads.
_MAX_KERNEL_LINES = 1 << 12
#: The bytes that the kernel may write after the last text.
_PADDING_BYTES = 8


class _BadRecordError(ValueError):
    """A line that is no record with the field."""


def read_blocks(context: RecordContext) -> Generator[Block, None, None]:
    """Yield the documents of JSON Lines in blocks.

    Raises:
        FormatError: for a bad record, unless such records are skipped.

    """
    keys, n_lines = context.field.split("."), 0
    buffers = context.state.buffers
    with context.open_stream() as stream:
        for lines in context.read_lines(stream):
            data = buffers.take(len(lines.text) + _PADDING_BYTES)
            ends, n_read = _read_fields(lines, data, keys, context, n_lines)
            n_lines += n_read
            buffers.give_back(lines.text)
            view = memoryview(data)[: ends[-1]]
            block = context.make_block(view, ends, lines.offset, lines.size, buffers)
            if block is None:
                buffers.give_back(view)
            else:
                yield block


def _read_fields(
    block: TextBlock, out: bytearray, keys: list[str], context: RecordContext, first_line: int
) -> tuple[NDArray[np.int64], int]:
    """Write the field of each line to `out`; returns the offsets of the texts, int64, and the number of lines.

    `first_line` is the number of the first line.
    """
    data, end = block.text, len(block.text)
    buffer: Any = data.obj
    is_utf8 = find_utf8_error(data) is None
    names = _encode_keys(keys)
    offsets, text_ends = array("q", [0]), np.empty(_MAX_KERNEL_LINES, dtype=np.int64)
    position = len(UTF8_BOM) if block.offset == 0 and data[: len(UTF8_BOM)] == UTF8_BOM else 0
    n_written = n_lines = 0
    while position < end:
        n_read = 0
        if is_utf8:
            position, n_written, n_read = read_fields(data, position, end, names, out, n_written, text_ends)
            offsets.frombytes(text_ends[:n_read].tobytes())
            n_lines += n_read
        if n_read == _MAX_KERNEL_LINES or position == end:
            continue
        newline = buffer.find(b"\n", position, end)
        line = data[position : end if newline < 0 else newline].tobytes()
        document = _parse_line(line, keys, context, first_line + n_lines)
        if document is not None:
            out[n_written : n_written + len(document)] = document
            n_written += len(document)
            offsets.append(n_written)
        position += len(line) + 1
        n_lines += 1
    return np.frombuffer(offsets, dtype=np.int64), n_lines


def make_field_path(field: str) -> FieldPath:
    """Make the path that the kernel reads a field by."""
    return FieldPath(_encode_keys(field.split(".")))


def _encode_keys(keys: list[str]) -> list[bytes]:
    return [key.encode("utf-8", "surrogatepass") for key in keys]


def parse_line(line: bytes, context: RecordContext) -> bytes:
    """Read the field of the line that a part of a file begins with.

    Raises:
        FormatError: for a bad record.

    """
    return _parse_line(line, context.field.split("."), context, 0) or b""


def _parse_line(line: bytes, keys: list[str], context: RecordContext, index: int) -> bytes | None:
    """Read the field of a line; None for a blank line, and for a bad one, which is an error or skipped."""
    if not line.strip(_SPACE):
        return None
    try:
        return to_bytes(_parse_record(line, keys, context))
    except _BadRecordError as error:
        context.refuse_record(str(error), index)
        return None


def _parse_record(line: bytes, keys: list[str], context: RecordContext) -> str | bytes:
    """Read the field of a line by the standard library; bytes if it is not UTF-8."""
    keeps_bytes = context.encoding_errors == "bytes"
    if not keeps_bytes and (invalid := find_utf8_error(line)) is not None:
        offset, reason = invalid
        raise _BadRecordError(f"byte 0x{line[offset]:02x} at column {offset + 1} is not UTF-8 ({reason})")
    try:
        value = json.loads(escape(line), parse_int=len)  # the values of numbers do not matter
    except RecursionError:
        raise _BadRecordError("the record is nested too deeply") from None
    except ValueError as error:
        raise _BadRecordError(f"the line is not a JSON value ({error}); each line must be one JSON object") from None
    for depth, key in enumerate(keys):
        parent = ".".join(keys[:depth])
        if not isinstance(value, dict):
            subject = f"field {parent!r}" if depth else "the record"
            raise _BadRecordError(
                f"{subject} is {_describe_json_type(value)}; it must be an object with a field {key!r}"
            )
        if key not in value:
            inside = f" in {parent!r}" if depth else ""
            raise _BadRecordError(f"there is no field {key!r}{inside}{describe_known_names(value)}")
        value = value[key]
    if not isinstance(value, str):
        raise _BadRecordError(f"field {'.'.join(keys)!r} is {_describe_json_type(value)}; it must be a string")
    if keeps_bytes:
        with suppress(UnicodeEncodeError):  # a lone surrogate of a JSON escape
            return unescape(value)
    return value


def describe_known_names(names: Iterable[str]) -> str:
    """Make the end of an error message about a name that does not exist: the names that do.

    >>> describe_known_names(["id", "body"])
    ", only 'id', 'body'; pass the name of the text, such as field='id'"
    """
    known_names = list(names)
    if not known_names:
        return ", and no other"
    shown_names = ", ".join(map(repr, known_names))
    shown_names = shown_names if len(shown_names) <= 200 else shown_names[:199] + "…"
    return f", only {shown_names}; pass the name of the text, such as field={known_names[0]!r}"


def check_unique_column(name: str, names: Sequence[str], source: str, full_name: str = "") -> None:
    """Raise FormatError for a column whose name other columns have too."""
    if names.count(name) > 1:
        raise FormatError(
            f"there are {names.count(name)} columns {full_name or name!r}, and one has the text; rename the others",
            path=source,
        )


def _describe_json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else f"the string {short_repr(value, 30)}"
