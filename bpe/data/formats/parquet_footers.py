"""Parquet files whose row groups were encoded one by one, by several threads: all with one footer at the end.

    PAR1 | pages of row group 0 | pages of row group 1 | ... | footer | its size | PAR1

pyarrow writes one row group after the other, and so with one thread. A footer lists the row groups, with the offsets of
their pages in the file. The rest of it is that of a file without rows that pyarrow has written.

Source: parquet-format (parquet.thrift).
"""

from __future__ import annotations

from bpe.corpus.page_headers import PLAIN, RLE, RLE_DICTIONARY
from bpe.data.formats.parquet_pages import Column
from bpe.data.formats.thrift import (
    BINARY,
    I32,
    I64,
    STRUCT,
    Struct,
    make_integer,
    make_list,
    parse,
    serialize,
)

MAGIC = b"PAR1"
#: What parquet.thrift calls INT32 and ZSTD.
_INT32, _ZSTD = 1, 6
#: Fields of FileMetaData, and of SchemaElement.
_SCHEMA, _N_ROWS, _ROW_GROUPS = 2, 3, 4
_TYPE, _NAME = 1, 4


class FooterBuilder:
    """Makes the footer of a file with row groups whose columns are lists of integers.

    Args:
        empty_file: a file without rows.

    """

    def __init__(self, empty_file: bytes) -> None:
        size = int.from_bytes(empty_file[-8:-4], "little")
        self._footer = parse(empty_file[-8 - size : -8])[0]
        elements = self._footer[_SCHEMA][1][1][1:]  # of each column its own, the list's and that of the integers
        self._paths = [[element[_NAME][1] for element in elements[i : i + 3]] for i in range(0, len(elements), 3)]
        if any(element[_TYPE] != make_integer(_INT32) for element in elements[2::3]):
            raise RuntimeError("this version of pyarrow has another physical type than INT32 for integers of 32 bits")
        self._position = len(MAGIC)  # in the file
        self._row_groups: list[Struct] = []
        self._n_rows = 0

    def add(self, columns: list[Column], n_rows: int) -> None:
        """Add a row group, whose pages follow those of the row group before in the file."""
        start, chunks = self._position, list[Struct]()
        for path, column in zip(self._paths, columns, strict=True):
            chunks.append({2: make_integer(0, I64), 3: (STRUCT, self._describe_column(path, column))})
            self._position += sum(page.size for page in column.pages)
        uncompressed_size = sum(page.uncompressed_size for column in columns for page in column.pages)
        self._row_groups.append(
            {
                1: make_list(STRUCT, chunks),
                2: make_integer(uncompressed_size, I64),
                3: make_integer(n_rows, I64),
                5: make_integer(start, I64),
                6: make_integer(self._position - start, I64),
            }
        )
        self._n_rows += n_rows

    def _describe_column(self, path: list[bytes], column: Column) -> Struct:
        """Make the metadata of a column whose pages begin at the current position."""
        encodings, dictionary_size, offsets = [RLE, PLAIN], 0, {}
        if column.dictionary is not None:
            encodings.append(RLE_DICTIONARY)
            dictionary_size, offsets = column.dictionary.size, {11: make_integer(self._position, I64)}
        return {
            1: make_integer(_INT32),
            2: make_list(I32, [encoding << 1 for encoding in encodings]),
            3: make_list(BINARY, path),
            4: make_integer(_ZSTD),
            5: make_integer(column.n_levels, I64),
            6: make_integer(sum(page.uncompressed_size for page in column.pages), I64),
            7: make_integer(sum(page.size for page in column.pages), I64),
            9: make_integer(self._position + dictionary_size, I64),
            **offsets,
        }

    def build(self) -> bytes:
        """Return what is to follow the pages of the last row group."""
        changed = {_N_ROWS: make_integer(self._n_rows, I64), _ROW_GROUPS: make_list(STRUCT, self._row_groups)}
        footer = serialize({**self._footer, **changed})
        return footer + len(footer).to_bytes(4, "little") + MAGIC
