"""Parquet files whose row groups were written one by one: each as a file of its own, all with one footer at the end.

    file k       | PAR1 | pages of row group k | footer k | its size | PAR1 |
    the whole    | PAR1 | pages of 0 | pages of 1 | ... | one footer | its size | PAR1 |

pyarrow writes one row group after the other, and so with one thread. A footer lists the row groups, with the offsets of
their pages in the file, in Thrift's compact protocol; what this module need not know of it is copied as it is.

Sources: parquet-format (its file parquet.thrift), and Apache Thrift's page on the compact protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAGIC = b"PAR1"
#: The numbers of the types; fields of the two types for bools have no bytes.
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
#: Fields of FileMetaData, of RowGroup, of ColumnChunk, and of ColumnMetaData: offsets, and what has them.
_N_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _GROUP_N_ROWS, _GROUP_OFFSET = 1, 3, 5
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3
_PAGE_OFFSETS = (9, 10, 11)

#: A struct: (type, value) by the field's number. A list is (type of its items, values), an integer as it is stored.
Struct = dict[int, tuple[int, Any]]


@dataclass(frozen=True, slots=True)
class RowGroupFile:
    """The pages of a Parquet file, which begin after its magic number, and its footer."""

    pages: memoryview
    footer: Struct

    @classmethod
    def parse(cls, data: memoryview) -> RowGroupFile:
        """Divide a file that pyarrow has written."""
        size = int.from_bytes(data[-8:-4], "little")
        return cls(data[4 : -8 - size], _Parser(bytes(data[-8 - size : -8])).parse_struct())


class FooterBuilder:
    """Makes the footer of a file from those of files with one row group each; the first may have none.

    Attributes:
        position: where the next row group's pages are to begin in the file.

    """

    def __init__(self, empty_file: RowGroupFile) -> None:
        self.position = len(MAGIC)
        self._footer, self._row_groups, self._n_rows = empty_file.footer, list[Struct](), 0

    def add(self, file: RowGroupFile) -> None:
        """Add a file whose pages are written at `position`."""
        shift = 2 * (self.position - len(MAGIC))  # a positive integer is stored doubled
        for group in file.footer[_ROW_GROUPS][1][1]:
            _shift_fields(group, (_GROUP_OFFSET,), shift)
            for chunk in group[_COLUMNS][1][1]:
                _shift_fields(chunk, (_CHUNK_OFFSET,), shift)
                _shift_fields(chunk[_CHUNK_METADATA][1], _PAGE_OFFSETS, shift)
            self._row_groups.append(group)
            self._n_rows += group[_GROUP_N_ROWS][1]
        self.position += len(file.pages)

    def build(self) -> bytes:
        """Return what is to follow the pages of the last row group."""
        changed = {_N_ROWS: (_I64, self._n_rows), _ROW_GROUPS: (_LIST, (_STRUCT, self._row_groups))}
        footer = bytearray()
        _append_struct(footer, {**self._footer, **changed})
        return bytes(footer) + len(footer).to_bytes(4, "little") + MAGIC


def _shift_fields(struct: Struct, fields: tuple[int, ...], shift: int) -> None:
    """Add to the offsets that are there; 0 stands for none."""
    for field in fields:
        if field in struct and struct[field][1]:
            struct[field] = struct[field][0], struct[field][1] + shift


class _Parser:
    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def _take(self, size: int) -> bytes:
        self._position += size
        return self._data[self._position - size : self._position]

    def _parse_integer(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._position]
            self._position += 1
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
        if kind == _STRUCT:
            return self.parse_struct()
        if kind == _BINARY:
            return self._take(self._parse_integer())
        if kind in (_LIST, _SET):
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
            _append_integer(out, field << 1)
        if value is not None:
            _append_value(out, kind, value)
        last = field
    out.append(0)


def _append_value(out: bytearray, kind: int, value: Any) -> None:
    if kind == _STRUCT:
        _append_struct(out, value)
    elif kind == _BINARY:
        _append_integer(out, len(value))
        out += value
    elif kind in (_LIST, _SET):
        item_kind, items = value
        out.append(min(len(items), 15) << 4 | item_kind)
        if len(items) >= 15:
            _append_integer(out, len(items))
        for item in items:
            _append_value(out, item_kind, item)
    elif isinstance(value, bytes):
        out += value
    else:
        _append_integer(out, value)


def _append_integer(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
