"""The record batches of an Arrow file or stream, by their headers: how many bytes their buffers have unpacked.

pyarrow unpacks a record batch as a whole, and gigabytes of one buffer may take a few kilobytes in the file. The header
of a batch says where its buffers are, and each compressed one begins with its size.

Source: Arrow's columnar format (Message.fbs and File.fbs), and the internals of FlatBuffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from bpe.corpus import page_headers
from bpe.errors import FormatError

#: What Message.fbs calls the kinds of messages; and fields of a message, a dictionary, a record batch, and a footer.
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3
_KIND, _HEADER, _BODY_SIZE, _DATA, _BUFFERS, _COMPRESSION, _DICTIONARIES, _RECORD_BATCHES = 1, 2, 3, 1, 2, 3, 2, 3
#: Begins a message in files since Arrow 0.15, before the size of its header.
_CONTINUATION = 0xFFFFFFFF
#: The end of a file after the size of its footer, and what the footer says of a batch: start, header, and body.
_MAGIC_BYTES, _BLOCK = 6, "<qi4xq"


class _Table:
    """A table of a FlatBuffer; struct.error for what is not in the data."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position
        self._vtable = position - _unpack("<i", data, position)

    def find(self, field: int) -> int:
        """Find the position of a field's value; 0 for a field that the table lacks."""
        start = 4 + 2 * field
        if start + 2 > _unpack("<H", self.data, self._vtable):
            return 0
        offset = _unpack("<H", self.data, self._vtable + start)
        return self.position + offset if offset else 0

    def read(self, field: int, layout: str) -> int:
        """Read a number; 0 if the table lacks it."""
        position = self.find(field)
        return _unpack(layout, self.data, position) if position else 0

    def read_table(self, field: int) -> _Table:
        """Read a table, which the field must have."""
        position = self.find(field)
        if not position:
            raise struct.error(f"field {field} is absent")
        return _Table(self.data, position + _unpack("<I", self.data, position))

    def read_structs(self, field: int, layout: str) -> Iterator[tuple[Any, ...]]:
        """Read a vector of structs; empty if the table lacks it."""
        position = self.find(field)
        if position:
            position += _unpack("<I", self.data, position)
            size = _unpack("<I", self.data, position) * struct.calcsize(layout)
            yield from struct.iter_unpack(layout, self.data[position + 4 : position + 4 + size])


def _unpack(layout: str, data: bytes, position: int) -> int:
    """Unpack a number; struct.error for a position outside the data, negative ones included."""
    if position < 0:
        raise struct.error(f"position {position} is before the data")
    value: int = struct.unpack_from(layout, data, position)[0]
    return value


def _read(source: Any, start: int, size: int) -> bytes:
    """Read bytes of a file; struct.error for a start or a size that is outside of it."""
    if not 0 <= size <= source.size() - start or start < 0:
        raise struct.error(f"{size} bytes from byte {start} on are not in the file")
    source.seek(start)
    data: bytes = source.read(size)
    return data


def check_batches(source: Any, path: str) -> Iterator[int]:
    """Check the record batches of an Arrow file, the dictionaries with the first; yield the index of each one.

    Args:
        source: the file, a `NativeFile` of pyarrow. Its position changes.
        path: its name, for the error.

    Raises:
        FormatError: for a batch that has more than `page_headers.max_decoded_bytes` unpacked.

    """
    tail_size = 4 + _MAGIC_BYTES
    tail = source.size() - tail_size
    footer_size = _unpack("<i", _read(source, tail, tail_size), 0)
    data = _read(source, tail - footer_size, footer_size)
    footer = _Table(data, _unpack("<I", data, 0))
    for start, _, _ in footer.read_structs(_DICTIONARIES, _BLOCK):
        _check_message(source, start, path)
    for index, (start, _, _) in enumerate(footer.read_structs(_RECORD_BATCHES, _BLOCK)):
        _check_message(source, start, path)
        yield index


def check_next_batch(source: Any, path: str) -> None:
    """Check the next record batch of an Arrow stream, and the dictionaries before it; the position stays.

    Raises:
        FormatError: as for `check_batches`.

    """
    start = position = source.tell()
    kind = SCHEMA
    while kind in (SCHEMA, DICTIONARY_BATCH):
        kind, position = _check_message(source, position, path)
    source.seek(start)


def _check_message(source: Any, start: int, path: str) -> tuple[int, int]:
    """Check a message of a file; return its kind, and where the next begins; 0 for the kind at the end of a stream."""
    if start == source.size():  # a stream without an end mark
        return 0, start
    first = _unpack("<I", _read(source, start, 4), 0)
    header_start = start + (8 if first == _CONTINUATION else 4)
    header_size = _unpack("<I", _read(source, header_start - 4, 4), 0)
    if not header_size:
        return 0, start
    data = _read(source, header_start, header_size)
    message = _Table(data, _unpack("<I", data, 0))
    kind, body, body_size = message.read(_KIND, "<B"), header_start + header_size, message.read(_BODY_SIZE, "<q")
    if kind in (DICTIONARY_BATCH, RECORD_BATCH):
        batch = message.read_table(_HEADER)
        _check_batch(source, batch if kind == RECORD_BATCH else batch.read_table(_DATA), body, path)
    if body_size < 0:
        raise struct.error(f"a message declares {body_size} bytes")
    return kind, body + body_size


def _check_batch(source: Any, batch: _Table, body: int, path: str) -> None:
    if not batch.find(_COMPRESSION):
        return  # its buffers are parts of the file
    n_bytes = 0
    for start, size in batch.read_structs(_BUFFERS, "<qq"):
        if size >= 8:
            n_bytes += max(_unpack("<q", _read(source, body + start, 8), 0), 0)  # -1: as it is in the file
    if n_bytes > page_headers.max_decoded_bytes:
        raise FormatError(
            f"a record batch has {n_bytes} bytes unpacked, and at most {page_headers.max_decoded_bytes} are unpacked "
            "at once (bpe.corpus.page_headers.max_decoded_bytes); set that higher, or write the file with smaller "
            "record batches",
            path=path,
        )
