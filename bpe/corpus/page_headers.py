"""The pages of a Parquet column of texts, by their headers: how many rows may be decoded at once.

pyarrow decodes as many rows as it is asked for, and copies each text: a dictionary, or prefixes that texts share, makes
gigabytes of a few kilobytes. The headers, some 30 bytes each, say how long a text can be.

Source: parquet-format (parquet.thrift).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from bpe.corpus._parquet_headers import find_column_chunks, read_page_header
from bpe.corpus.listing import SourceFile
from bpe.errors import FormatError

#: The largest page that is read, in bytes without compression: it is in memory as a whole. Set
#: `bpe.corpus.page_headers.max_page_bytes` lower where strangers name the files.
max_page_bytes = 1 << 30
#: The most bytes that texts decoded at once can have, whatever the pages hold; a longer text is decoded alone.
max_decoded_bytes = 1 << 31

#: What parquet.thrift calls the encodings, and the types of pages.
PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 0, 2, 3, 7, 8
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
#: More rows than a row group has, and more bytes.
_MANY = 1 << 62
#: Bytes of a header that are read at first, and the most that are.
_HEADER_BYTES, _MAX_HEADER_BYTES = 512, 1 << 20


class ColumnChunk(NamedTuple):
    """A column in a row group.

    Attributes:
        dictionary_page: where its dictionary begins in the file; 0 if there is none.
        data_page: where its first data page begins.
        packed_size: bytes of its pages in the file.
        unpacked_size: bytes of its pages without compression.

    """

    dictionary_page: int
    data_page: int
    packed_size: int
    unpacked_size: int


def read_column_chunks(raw: BinaryIO, column: int) -> list[ColumnChunk]:
    """Read where a column is in each row group of a Parquet file, by its footer.

    Raises:
        ValueError: for a footer that is not valid.

    """
    end = raw.seek(-8, io.SEEK_END)
    size = min(int.from_bytes(raw.read(4), "little"), end)
    raw.seek(end - size)
    footer = b""
    while len(footer) < size and (part := raw.read(size - len(footer))):  # which may give fewer bytes at a time
        footer += part
    return [ColumnChunk(*row) for row in find_column_chunks(footer, column).tolist()]


@dataclass(slots=True)
class _Rows:
    """The rows of a page that are left.

    Attributes:
        count: their number.
        page_size: bytes of the page without compression, which are all that its texts have, but for `longest_text`.
        longest_text: where texts are made of others: the most bytes that one can have; else 0.

    """

    count: int
    page_size: int
    longest_text: int


class ColumnPages:
    """The pages of a column in one row group, from the first to the last.

    Args:
        raw: the bytes of the Parquet file.
        chunk: where the column is.
        file: the file. Of a remote one, only the header of the first page is read.
        keeps_dictionary: whether pyarrow gives the texts as indices of a dictionary, which makes none longer.

    """

    def __init__(self, raw: BinaryIO, chunk: ColumnChunk, file: SourceFile, *, keeps_dictionary: bool) -> None:
        self._raw, self._path, self._only_first = raw, file.name, file.kind != "file"
        self._keeps_dictionary = keeps_dictionary
        self._start = min(chunk.dictionary_page or chunk.data_page, chunk.data_page)
        self._end = min(self._start + chunk.packed_size, _MANY)
        self._pages = self._read_pages()
        self._rows = _Rows(0, 0, 0)

    def take_rows(self, count: int, max_bytes: int = _MANY) -> int:
        """Return how many of the next `count` rows have at most `max_bytes` for certain, or 1, and go on after these.

        Raises:
            FormatError: for a page of more than `max_page_bytes`.

        """
        n_taken, n_bytes_left = 0, min(max_bytes, max_decoded_bytes)
        while n_taken < count:
            while not self._rows.count:
                self._rows = next(self._pages)
            rows = self._rows
            n = min(rows.count, count - n_taken)
            if rows.longest_text:
                n = min(n, max(n_bytes_left // rows.longest_text, not n_taken))
                n_bytes_left -= n * rows.longest_text
            else:
                n = n if rows.page_size <= n_bytes_left or not n_taken else 0
                n_bytes_left -= rows.page_size
            if n <= 0:
                break
            rows.count -= n
            n_taken += n
        return n_taken

    def _read_pages(self) -> Iterator[_Rows]:
        """Yield the rows of each page; after the last, or a header that is not valid, one row after the other."""
        position, dictionary_size = self._start, 0
        while 0 <= position < self._end and (header := self._read_header(position)) is not None:
            page_type, page_size, packed_size, n_values, encoding, header_size = header
            if page_size > max_page_bytes:
                raise FormatError(
                    f"a page of the column has {page_size} bytes, and at most {max_page_bytes} are read "
                    "(bpe.corpus.page_headers.max_page_bytes); set that higher, or write the file with smaller pages",
                    path=self._path,
                )
            is_data = page_type in (DATA_PAGE, DATA_PAGE_V2)
            if min(page_size, packed_size) < 0 or (is_data and min(n_values, encoding) < 0):
                break
            position += header_size + packed_size
            if page_type == DICTIONARY_PAGE:
                dictionary_size = 0 if self._keeps_dictionary else page_size
                if self._only_first:
                    yield _Rows(_MANY, 0, dictionary_size)
            elif is_data:
                longest_texts = {
                    PLAIN_DICTIONARY: dictionary_size,
                    RLE_DICTIONARY: dictionary_size,
                    DELTA_BYTE_ARRAY: page_size,
                }
                yield _Rows(_MANY if self._only_first else n_values, page_size, longest_texts.get(encoding, 0))
        while True:
            yield _Rows(1, 0, max_decoded_bytes)

    def _read_header(self, position: int) -> tuple[int, int, int, int, int, int] | None:
        """Read the header of a page, as `read_page_header` does; None if it is not valid."""
        size = _HEADER_BYTES
        while True:
            self._raw.seek(position)
            data = self._raw.read(size)
            header = read_page_header(data)
            if header is not None or len(data) < size or size >= _MAX_HEADER_BYTES:
                return header
            size *= 8  # statistics may make it long
