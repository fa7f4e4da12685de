"""Thrift's compact protocol, in which Parquet's footers and page headers are written.

A struct is (type, value) by the number of the field. Integers are as they are stored, a signed one "zigzagged", which
doubles those of 0 and more.

Source: Apache Thrift's page on the compact protocol.
"""

from __future__ import annotations

from typing import Any

#: The numbers of the types; fields of the two types for bools have no bytes.
_TRUE, _FALSE, _BYTE, I32, I64, _DOUBLE, BINARY, LIST, _SET, STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 10, 12

Struct = dict[int, tuple[int, Any]]


def make_integer(value: int, kind: int = I32) -> tuple[int, int]:
    """Make a field with an integer of 0 or more."""
    return kind, value << 1


def make_list(kind: int, values: list[Any]) -> tuple[int, Any]:
    """Make a field with a list of values of one type, as they are stored."""
    return LIST, (kind, values)


def parse(data: bytes) -> tuple[Struct, int]:
    """Parse the struct that `data` begins with; returns it and the number of its bytes.

    Raises:
        IndexError: if the data ends before the struct does.

    """
    parser = _Parser(data)
    return parser.parse_struct(), parser.position


def serialize(struct: Struct) -> bytes:
    """Write a struct whose fields are in the order of their numbers."""
    out = bytearray()
    _append_struct(out, struct)
    return bytes(out)


class _Parser:
    def __init__(self, data: bytes) -> None:
        self._data, self.position = data, 0

    def _take(self, size: int) -> bytes:
        self.position += size
        if self.position > len(self._data):
            raise IndexError("the data ends within a struct")
        return self._data[self.position - size : self.position]

    def _parse_integer(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def parse_struct(self) -> Struct:
        struct: Struct = {}
        field = 0
        while header := self._take(1)[0]:
            kind = header & 15
            field = field + (header >> 4) if header >> 4 else self._parse_integer() >> 1
            struct[field] = kind, None if kind in (_TRUE, _FALSE) else self._parse_value(kind)
        return struct

    def _parse_value(self, kind: int) -> Any:
        if kind == STRUCT:
            return self.parse_struct()
        if kind == BINARY:
            return self._take(self._parse_integer())
        if kind in (LIST, _SET):
            header = self._take(1)[0]
            size = header >> 4 if header >> 4 < 15 else self._parse_integer()
            return header & 15, [self._parse_value(header & 15) for _ in range(size)]
        if kind in (_TRUE, _FALSE, _BYTE):  # a bool in a list has a byte
            return self._take(1)
        return self._take(8) if kind == _DOUBLE else self._parse_integer()


def _append_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for field, (kind, value) in struct.items():
        if 0 < field - last < 16:
            out.append(field - last << 4 | kind)
        else:
            out.append(kind)
            append_integer(out, field << 1)
        if value is not None:
            _append_value(out, kind, value)
        last = field
    out.append(0)


def _append_value(out: bytearray, kind: int, value: Any) -> None:
    if kind == STRUCT:
        _append_struct(out, value)
    elif kind == BINARY:
        append_integer(out, len(value))
        out += value
    elif kind in (LIST, _SET):
        item_kind, items = value
        out.append(min(len(items), 15) << 4 | item_kind)
        if len(items) >= 15:
            append_integer(out, len(items))
        for item in items:
            _append_value(out, item_kind, item)
    elif isinstance(value, bytes):
        out += value
    else:
        append_integer(out, value)


def append_integer(out: bytearray, value: int) -> None:
    """Append an integer, seven bits in each byte."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
