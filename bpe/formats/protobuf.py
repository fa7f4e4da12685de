"""A reader of protocol buffers' wire format, for the few messages that this package reads.

Not here: the meaning of the fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from bpe.errors import FormatError

#: A value of a field: an int for a varint, the bytes of any other.
Value = int | bytes


def fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """(offset, number, value) of each field of a message.

    Raises:
        FormatError: for data that is not a message; it names the offset.

    >>> list(fields(bytes([0x08, 0x96, 0x01, 0x12, 2, 104, 105])))
    [(0, 1, 150), (3, 2, b'hi')]

    """
    at = 0
    while at < len(data):
        offset = at
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0 or number >= 1 << 29:
            raise FormatError(f"field number {number} is not valid", where=f"offset {offset}")
        if kind == 0:
            value, at = _varint(data, at)
            yield offset, number, value
            continue
        if kind not in (1, 2, 5):
            raise FormatError(f"wire type {kind} of field {number} is not known", where=f"offset {offset}")
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            size, at = _varint(data, at)
        if size > len(data) - at:
            raise FormatError(
                f"field {number} declares {size} bytes, and {len(data) - at} follow; the file may be truncated",
                where=f"offset {offset}",
            )
        yield offset, number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(the number at this offset, the offset after it)."""
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + i + 1
    raise FormatError("a number is not complete; the file may be truncated", where=f"offset {at}")


def float_of(value: Value) -> float:
    """The float of a fixed32 field."""
    if not isinstance(value, bytes) or len(value) != 4:
        raise FormatError("a field that must be a float is not one")
    (number,) = struct.unpack("<f", value)
    return float(number)
