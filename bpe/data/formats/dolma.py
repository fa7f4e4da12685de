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
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.data.formats.protocol import ShardInfo, ShardWriter, smallest_dtype
from bpe.data.formats.reading import Offsets, Shard, dtype_by_size, mapped, size_of
from bpe.data.formats.spooling import Spool
from bpe.data.formats.writing import DocumentWriter, refuse_masks
from bpe.errors import FormatError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rows are compressed in pieces of this many bytes, whatever the sizes of the calls: the file's bytes depend on its
#: content alone.
_PIECE = 1 << 20
#: gzip's header without a name and a time: deflate, unknown system.
_GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_POSITION = re.compile("[0-9]{1,19}")
#: Offsets are gathered in lists of this many.
_ROWS = 1 << 16


class Dolma:
    """dolma's format; see `ShardFormat`."""

    name = "dolma"
    around = (False, False)
    holds = frozenset({"documents"})

    def dtype(self, largest_id: int) -> np.dtype[Any]:
        """uint16, or uint32 for ids above 65,535."""
        return smallest_dtype(self.name, largest_id, ["<u2", "<u4"])

    def names(self, stem: str, *, masks: bool = False) -> tuple[str, ...]:
        """The names of a shard's files."""
        refuse_masks(self.name, masks)
        return f"{stem}.npy", f"{stem}.csv.gz"

    def writer(
        self, folder: Path, stem: str, dtype: np.dtype[Any], *, masks: bool = False, info: ShardInfo | None = None
    ) -> ShardWriter:
        """Start a shard."""
        return _Writer([folder / name for name in self.names(stem, masks=masks)], dtype, info or ShardInfo())

    def open(self, path: Path, *, end_of_text: int | None = None, validate: bool = True) -> Shard:
        """Open a shard by the path of its ids. The rows are read once into a temporary file of offsets."""
        del end_of_text, validate  # boundaries are recorded, and reading the rows checks them
        rows = path.with_name(path.name.removesuffix(".npy") + ".csv.gz")
        size, _ = size_of(path), size_of(rows)
        offsets = _offsets_in(rows, size // 2)
        tokens = int(offsets[-1])
        ids = mapped(path, dtype_by_size(path, size, tokens), 0, tokens)
        return Shard(path, ids, Offsets(offsets), files=(path, rows))


def _offsets_in(path: Path, most: int) -> NDArray[np.int64]:
    """The offsets of the documents in a file of rows, memory-mapped."""
    with Spool(Path(gettempdir()), "<i8") as spool:
        position, gathered = 0, [0]
        for number, row in enumerate(_rows_in(path), start=1):
            fields = row[:2]
            valid = len(fields) == 2 and all(
                field.isascii() and field.isdigit() and len(field) < 20 for field in fields
            )
            start, end = map(int, fields) if valid else (0, 0)
            if not valid or start != position or not start <= end <= most:
                rule = f"it must begin with the document's start, {position}, and its end, {position} to {most}"
                raise FormatError(f"the row is {shown(','.join(row))}; {rule}", path=path, where=f"row {number}")
            gathered.append(end)
            position = end
            if len(gathered) == _ROWS:
                spool.append(np.array(gathered, dtype=np.int64))
                gathered = []
        spool.append(np.array(gathered, dtype=np.int64))
        return spool.mapped()


def _rows_in(path: Path) -> Iterator[list[str]]:
    """The rows of a compressed CSV file."""
    try:
        with gzip.open(path) as file, io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="") as text:
            yield from csv.reader(text)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"it cannot be decompressed: {error}; the file may be damaged", path=path) from None
    except csv.Error as error:
        raise FormatError(f"it is not CSV: {error}", path=path) from None


class _Writer(DocumentWriter):
    """Writes a shard; the rows are compressed as they are made."""

    name = "dolma"

    def __init__(self, paths: list[Path], dtype: np.dtype[Any], info: ShardInfo) -> None:
        super().__init__(dtype)
        self._next = info.first_document
        field = io.StringIO()
        csv.writer(field, lineterminator="").writerow(["", info.source])
        self._source = field.getvalue()[1:]  # quoted where needed
        self._compressor = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._held = bytearray()
        self._crc, self._size = 0, 0
        self._open(*((path, 0) for path in paths))
        self._files[1].write(_GZIP)

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        for first in range(0, len(ends), _ROWS):
            start, rows = self._last_end if first == 0 else int(ends[first - 1]), []
            for end in ends[first : first + _ROWS].tolist():
                rows.append(f"{start},{end},{self._next},{self._source},{self._next + 1}\r\n")
                start = end
                self._next += 1
            self._held += "".join(rows).encode()
            while len(self._held) >= _PIECE:
                self._compress(bytes(self._held[:_PIECE]))
                del self._held[:_PIECE]

    def _compress(self, data: bytes) -> None:
        self._crc, self._size = zlib.crc32(data, self._crc), self._size + len(data)
        self._files[1].write(self._compressor.compress(data))

    def _headers(self) -> list[bytes]:
        self._compress(bytes(self._held))
        self._held.clear()
        tail = self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")
        self._files[1].write(self._compressor.flush() + tail)
        return [b"", b""]
