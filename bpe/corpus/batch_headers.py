"""The record batches of an Arrow file or stream, by their headers: how many bytes their buffers have unpacked.

pyarrow unpacks a column of a record batch as a whole, and gigabytes of one buffer may take a few kilobytes in the file.
The header of a batch says where its buffers are, and each compressed one begins with its size.

Source: Arrow's columnar format (Message.fbs and File.fbs), and the internals of FlatBuffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from bpe.corpus import page_headers
from bpe.errors import FormatError

#: What Message.fbs calls the kinds of messages.
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3
#: Fields of a message, of a dictionary, of a record batch, and of the footer of a file.
_KIND, _HEADER, _BODY_SIZE = 1, 2, 3
_DICTIONARY_DATA = 1
_BUFFERS, _COMPRESSION = 2, 3
_DICTIONARIES, _RECORD_BATCHES = 2, 3
#: Begins a message in files since Arrow 0.15, before the size of its header.
_CONTINUATION = 0xFFFFFFFF
#: The bytes that end a file, after the size of its footer.
_MAGIC_BYTES = 6
#: What the footer says of a batch: where its message begins, and the sizes of its header and its body.
_BLOCK = "<qi4xq"


class BatchHeaders:
    """The headers of the record batches of a file or stream.

    Args:
        source: the file, a `NativeFile` of pyarrow.
        path: its name, for errors.
        schema: its schema, of pyarrow.
        column: the index of the column of which the unpacked bytes count; dictionaries count whole.

    """

    def __init__(self, source: Any, path: str, schema: Any, column: int) -> None:
        self._source, self._path = source, path
        counts = [_count_buffers(field.type) for field in schema]
        first = sum(counts[:column])
        self._buffers, self._n_buffers = range(first, first + counts[column]), sum(counts)

    def check_batches(self) -> Iterator[int]:
        """Check the record batches of a file, the dictionaries with the first; yield the index of each one.

        The file's position changes.

        Raises:
            FormatError: for a batch that has more than `page_headers.max_decoded_bytes` unpacked.
            ValueError: for a header that is not valid.

        """
        tail = self._source.size() - 4 - _MAGIC_BYTES
        footer_size = _unpack("<i", self._read(tail, 4), 0)
        footer = _Table.read_root(self._read(tail - footer_size, footer_size))
        for start, _, _ in footer.read_structs(_DICTIONARIES, _BLOCK):
            self._check_message(start)
        for index, (start, _, _) in enumerate(footer.read_structs(_RECORD_BATCHES, _BLOCK)):
            self._check_message(start)
            yield index

    def check_next_batch(self) -> None:
        """Check the next record batch of a stream, and the dictionaries before it; the position stays.

        Raises:
            FormatError, ValueError: as for `check_batches`.

        """
        start = position = self._source.tell()
        kind = SCHEMA
        while kind in (SCHEMA, DICTIONARY_BATCH):
            kind, position = self._check_message(position)
        self._source.seek(start)

    def _check_message(self, start: int) -> tuple[int, int]:
        """Check a message; return its kind, and where the next begins; 0 for the kind at the end of a stream."""
        if start == self._source.size():  # a stream without an end mark
            return 0, start
        first = _unpack("<I", self._read(start, 4), 0)
        header_start = start + (8 if first == _CONTINUATION else 4)
        header_size = _unpack("<I", self._read(header_start - 4, 4), 0)
        if not header_size:
            return 0, start
        message = _Table.read_root(self._read(header_start, header_size))
        kind, body, body_size = message.read(_KIND, "<B"), header_start + header_size, message.read(_BODY_SIZE, "<q")
        if kind == RECORD_BATCH:
            self._check_batch(message.read_table(_HEADER), body, self._buffers)
        elif kind == DICTIONARY_BATCH:
            self._check_batch(message.read_table(_HEADER).read_table(_DICTIONARY_DATA), body, None)
        if body_size < 0:
            raise ValueError(f"a message declares {body_size} bytes")
        return kind, body + body_size

    def _check_batch(self, batch: _Table, body: int, chosen: range | None) -> None:
        """Check the buffers of a batch: those that are chosen, or all."""
        if not batch.find(_COMPRESSION):
            return  # its buffers are parts of the file
        buffers = list(batch.read_structs(_BUFFERS, "<qq"))
        if chosen is not None and len(buffers) == self._n_buffers:  # else some types have other numbers of buffers
            buffers = buffers[chosen.start : chosen.stop]
        n_bytes = 0
        for start, size in buffers:
            if size >= 8:
                n_bytes += max(_unpack("<q", self._read(body + start, 8), 0), 0)  # -1: as it is in the file
        if n_bytes > page_headers.max_decoded_bytes:
            raise FormatError(
                f"a record batch has {n_bytes} bytes unpacked, and at most {page_headers.max_decoded_bytes} are "
                "unpacked at once (bpe.corpus.page_headers.max_decoded_bytes); set that higher, or write the file with "
                "smaller record batches",
                path=self._path,
            )

    def _read(self, start: int, size: int) -> bytes:
        """Read bytes of the file; ValueError for a start or a size that is outside of it."""
        if start < 0 or not 0 <= size <= self._source.size() - start:
            raise ValueError(f"{size} bytes from byte {start} on are not in the file")
        self._source.seek(start)
        data: bytes = self._source.read(size)
        return data


def _count_buffers(data_type: Any) -> int:
    """Count the buffers that a column of a type has in a record batch; unions and views have others."""
    inner = (data_type.field(index).type for index in range(data_type.num_fields))
    return int(data_type.num_buffers) + sum(map(_count_buffers, inner))


class _Table:
    """A table of a FlatBuffer; ValueError for what is not in the data."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position
        self._vtable = position - _unpack("<i", data, position)

    @classmethod
    def read_root(cls, data: bytes) -> _Table:
        """Read the table that is the root of a FlatBuffer."""
        return cls(data, _unpack("<I", data, 0))

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
            raise ValueError(f"field {field} is absent")
        return _Table(self.data, position + _unpack("<I", self.data, position))

    def read_structs(self, field: int, layout: str) -> Iterator[tuple[Any, ...]]:
        """Read a vector of structs; empty if the table lacks it."""
        position = self.find(field)
        if position:
            position += _unpack("<I", self.data, position)
            start, size = position + 4, _unpack("<I", self.data, position) * struct.calcsize(layout)
            if size > len(self.data) - start:
                raise ValueError(f"{size} bytes from byte {start} on are not in the data")
            yield from struct.iter_unpack(layout, self.data[start : start + size])


def _unpack(layout: str, data: bytes, position: int) -> int:
    """Unpack a number; ValueError for a position outside of the data."""
    if not 0 <= position <= len(data) - struct.calcsize(layout):
        raise ValueError(f"there is no number at byte {position} of the data")
    value: int = struct.unpack_from(layout, data, position)[0]
    return value
