"""dolma's format, which OLMo trains on: ids in X.npy, boundaries in X.csv.gz.

`.npy` has the ids, uint16 or uint32, and nothing else: despite its name it has no NumPy header. `.csv.gz`, compressed
by gzip, has a row for each document, without a header: start, end (in tokens), id, src, loc. The writer gives `id` the
document's number in the corpus, from 0, `src` the name of its source, and `loc` the same number from 1, since dolma's
is a line number.

Sources: `python/dolma/tokenizer/memmap_writer.py` and `data_types.py` of dolma.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.data.formats.files import Spool
from bpe.data.formats.reading import DocumentOffsets, Shard, find_dtype, find_size, map_numbers
from bpe.data.formats.shard_format import ShardWriter
from bpe.errors import FormatError, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rows are compressed in pieces of this many bytes, whatever the sizes of the calls: the file's bytes depend on its
#: content alone.
_PIECE_BYTES = 1 << 20
#: gzip's header without a name and a time: deflate, unknown system.
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: A row on one line, of which the group has the first two fields; and the beginning that a row must have.
_FIRST_FIELDS = re.compile(rb"([^,\r\n]*,[^,\r\n]*)[^\n]*\n")
_ROW_START = re.compile(rb"[0-9]+,[0-9]+(?:[,\r]|$)")
#: The longest accepted row in bytes.
_MAX_ROW_BYTES = 1 << 20
#: Offsets are gathered in lists of this many.
_BATCH_ROWS = 1 << 16


def open_dolma(path: Path, validate: bool) -> Shard:
    """Open a shard by the path of its ids. The rows are read once into a temporary file of offsets."""
    del validate  # reading the rows checks them
    rows = path.with_name(path.name.removesuffix(".npy") + ".csv.gz")
    size, _ = find_size(path), find_size(rows)
    offsets = _read_offsets(rows, size // 2)
    n_tokens = int(offsets[-1])
    ids = map_numbers(path, find_dtype(path, size, n_tokens), 0, n_tokens)
    return Shard(path, ids, DocumentOffsets(offsets), files=(path, rows))


class _QuotedError(Exception):
    """A row has a quoted field."""


def _read_offsets(path: Path, max_tokens: int) -> NDArray[np.int64]:
    """Read the offsets of the documents in a file of rows, memory-mapped; `max_tokens` limits the ids."""
    try:
        return _gather_offsets(_read_unquoted(path), path, max_tokens)
    except _QuotedError:
        return _gather_offsets(_read_quoted(path), path, max_tokens)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"it cannot be decompressed: {error}; the file may be damaged", path=path) from None


def _gather_offsets(bounds_parts: Iterator[NDArray[np.int64]], path: Path, max_tokens: int) -> NDArray[np.int64]:
    """Check starts and ends of documents, and gather them as offsets."""
    with Spool(None, "<i8") as spool:
        spool.append(np.zeros(1, dtype=np.int64))
        position = 0
        for bounds in bounds_parts:
            starts, ends = bounds[:, 0], bounds[:, 1]
            expected = np.concatenate(([position], ends[:-1]))
            wrong_rows = np.flatnonzero((starts != expected) | (ends < starts) | (ends > max_tokens))
            if len(wrong_rows):
                index = int(wrong_rows[0])
                rule = f"it must begin with the document's start, {expected[index]}, and its end, at most {max_tokens}"
                raise FormatError(
                    f"the row begins with {starts[index]},{ends[index]}; {rule}",
                    path=path,
                    where=f"row {spool.length + index}",
                )
            spool.append(ends)
            position = int(ends[-1])
        return spool.map_numbers()


def _read_unquoted(path: Path) -> Iterator[NDArray[np.int64]]:
    """Yield starts and ends of documents, of shape (n, 2), in rows without quotes, each of which is one line."""
    with gzip.open(path) as file:
        pending, row = b"", 1
        while True:
            data = file.read(_PIECE_BYTES)
            pending += data
            if b'"' in data:  # a quoted field may hold line breaks
                raise _QuotedError
            end = len(pending) if not data else pending.rfind(b"\n") + 1
            if end:
                bounds = _parse_rows(pending[:end].rstrip(b"\n") + b"\n", path, row)
                row += len(bounds)
                yield bounds
            pending = pending[end:]
            if not data:
                return
            if len(pending) > _MAX_ROW_BYTES:
                raise FormatError(f"it has more than {_MAX_ROW_BYTES} bytes", path=path, where=f"row {row}")


def _parse_rows(text: bytes, path: Path, first_row: int) -> NDArray[np.int64]:
    """Parse the first two fields of each line, as an array of shape (n, 2); `first_row` is the first line's number."""
    fields = b"\n".join(_FIRST_FIELDS.findall(text))
    lines = text.count(b"\n")
    if fields.translate(None, b"0123456789") == b",\n" * (lines - 1) + b",":
        values = np.fromstring(fields.replace(b",", b" "), dtype=np.int64, sep=" ")  # 2**63 - 1 for larger ones
        if len(values) == 2 * lines:
            return values.reshape(-1, 2)
    for index, line in enumerate(text.split(b"\n"), start=first_row):
        if not _ROW_START.match(line):
            start = short_repr(line[:100].rstrip(b"\r").decode(errors="backslashreplace"))
            rule = "it must begin with the start and the end of a document"
            raise FormatError(f"the row is {start}; {rule}", path=path, where=f"row {index}")
    raise AssertionError("a row that does not parse was not found")


def _read_quoted(path: Path) -> Iterator[NDArray[np.int64]]:
    """Yield the first two fields of rows that may have quoted fields, ten times as slowly."""
    lines: list[bytes] = []
    first_row = 1
    try:
        with gzip.open(path) as file, io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="") as text:
            for row in csv.reader(text):
                lines.append(",".join(row[:2]).replace("\n", " ").encode() + b"\n")
                if len(lines) == _BATCH_ROWS:
                    yield _parse_rows(b"".join(lines), path, first_row)
                    first_row += len(lines)
                    lines = []
    except csv.Error as error:
        raise FormatError(f"it is not CSV: {error}", path=path) from None
    if lines:
        yield _parse_rows(b"".join(lines), path, first_row)


class DolmaWriter(ShardWriter):
    """Writes a shard; the rows are compressed as they are made."""

    takes_targets = False  # making the rows takes longer than writing the ids

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._next_document = self._info.first_document
        field = io.StringIO()
        csv.writer(field, lineterminator="").writerow(["", self._info.source])
        self._source = field.getvalue()[1:]  # quoted where needed
        self._compressor = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._pending = bytearray()
        self._crc, self._size = 0, 0
        self._files[1].write(_GZIP_HEADER)

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        for first in range(0, len(ends), _BATCH_ROWS):
            start, rows = self._last_end if first == 0 else int(ends[first - 1]), []
            for end in ends[first : first + _BATCH_ROWS].tolist():
                rows.append(f"{start},{end},{self._next_document},{self._source},{self._next_document + 1}\r\n")
                start = end
                self._next_document += 1
            self._pending += "".join(rows).encode()
            while len(self._pending) >= _PIECE_BYTES:
                self._compress(bytes(self._pending[:_PIECE_BYTES]))
                del self._pending[:_PIECE_BYTES]

    def _compress(self, data: bytes) -> None:
        self._crc, self._size = zlib.crc32(data, self._crc), self._size + len(data)
        self._files[1].write(self._compressor.compress(data))

    def _make_headers(self) -> list[bytes]:
        self._compress(bytes(self._pending))
        self._pending.clear()
        tail = self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")
        self._files[1].write(self._compressor.flush() + tail)
        return [b"", b""]
