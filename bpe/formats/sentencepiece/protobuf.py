"""The wire format of protocol buffers, in which sentencepiece's models are: fields with numbers, read and written."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from bpe.errors import FormatError

#: A value of a field: an int for a varint, the bytes of any other.
Value = int | bytes
#: The wire types.
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5


def iterate_fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield the offset, the number and the value of each field of a message.

    Raises:
        FormatError: for data that is not a message; it names the offset.

    >>> list(iterate_fields(bytes([0x08, 0x96, 0x01, 0x12, 2, 104, 105])))
    [(0, 1, 150), (3, 2, b'hi')]

    """
    offset = 0
    while offset < len(data):
        field_offset = offset
        key, offset = _read_varint(data, offset)
        field_number, wire_type = key >> 3, key & 7
        if field_number == 0 or field_number >= 1 << 29:
            raise FormatError(f"field number {field_number} is not valid", where=f"offset {field_offset}")
        if wire_type == _VARINT:
            value, offset = _read_varint(data, offset)
            yield field_offset, field_number, value
            continue
        if wire_type not in (_FIXED64, _LENGTH_DELIMITED, _FIXED32):
            raise FormatError(
                f"wire type {wire_type} of field {field_number} is not known", where=f"offset {field_offset}"
            )
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire_type, 0)
        if wire_type == _LENGTH_DELIMITED:
            size, offset = _read_varint(data, offset)
        if size > len(data) - offset:
            raise FormatError(
                f"field {field_number} declares {size} bytes, and {len(data) - offset} follow; the file may be "
                "truncated",
                where=f"offset {field_offset}",
            )
        yield field_offset, field_number, data[offset : offset + size]
        offset += size


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Read the number at this offset; returns it and the offset after it."""
    value = 0
    for i, byte in enumerate(data[offset : offset + 10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, offset + i + 1
    raise FormatError("a number is not complete; the file may be truncated", where=f"offset {offset}")


def read_float(value: Value) -> float:
    """Read the float of a fixed32 field."""
    if not isinstance(value, bytes) or len(value) != 4:
        raise FormatError("a field that must be a float is not one")
    (result,) = struct.unpack("<f", value)
    return float(result)


def write_field(field_number: int, value: float | str | bytes) -> bytes:
    """Write a field: an int or a bool as a varint, a float as fixed32, and a text or a message with its length.

    >>> list(iterate_fields(write_field(1, 150) + write_field(2, "hi")))
    [(0, 1, 150), (3, 2, b'hi')]

    """
    if isinstance(value, int):
        return _write_varint(field_number << 3 | _VARINT) + _write_varint(value)
    if isinstance(value, float):
        return _write_varint(field_number << 3 | _FIXED32) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _write_varint(field_number << 3 | _LENGTH_DELIMITED) + _write_varint(len(data)) + data


def _write_varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
