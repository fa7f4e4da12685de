"""Files of shards while they are written: under temporary names, with checksums; and numbers too many for memory."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from bpe.base.atomic_files import AtomicFile
from bpe.data.formats._mapping import FileMapping

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Arrays are converted, summed, written and read in pieces of this many bytes, which stay in the processor's cache.
PIECE_BYTES = 1 << 19
#: A file is synced to the disk each time it has grown by this many bytes, so that the wait at its end is short.
SYNC_BYTES = 16 << 20
#: The CRC-32 polynomial, reversed: bit 31 - k is the coefficient of x**k.
_POLYNOMIAL = 0xEDB88320


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a finished shard: its name, its size in bytes, and its CRC-32 as 8 hexadecimal digits."""

    name: str
    size: int
    crc32: str


class ShardFile:
    """One file of a shard, under a temporary name until `commit`; its size and CRC-32 are known at the end.

    With `header_size`, the file starts with that many bytes, which `sync` gets: they contain counts that are known only
    at the end.
    """

    def __init__(self, path: Path, header_size: int = 0) -> None:
        self.path = path
        self._atomic = AtomicFile(path)
        self._file = self._atomic.file
        self._header_size = header_size
        self._size = self._crc = self._synced_size = 0  # without the header
        self._crc32 = choose_crc32()
        self._buffer = np.empty(0, dtype=np.uint8)
        if header_size:
            self._file.write(bytes(header_size))

    def write(self, data: Any) -> int:
        """Write bytes (an object with the buffer protocol, contiguous)."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            self._crc = self._crc32(piece, self._crc)
            self._file.write(piece)
        self._size += len(view)
        if self._size - self._synced_size >= SYNC_BYTES:
            self._atomic.sync()
            self._synced_size = self._size
        return len(view)

    def write_array(self, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Write an array as another dtype. The caller has checked that the values fit."""
        if array.dtype == dtype or (array.dtype.kind in "iu" and dtype.kind in "iu" and _has_same_bytes(array, dtype)):
            if len(array):
                self.write(np.ascontiguousarray(array).view(np.uint8))
            return
        step = PIECE_BYTES // dtype.itemsize
        if len(self._buffer) != PIECE_BYTES:
            self._buffer = np.empty(PIECE_BYTES, dtype=np.uint8)
        buffer = self._buffer.view(dtype)
        for start in range(0, len(array), step):
            piece = array[start : start + step]
            np.copyto(buffer[: len(piece)], piece, casting="unsafe")
            self.write(buffer[: len(piece)])

    def sync(self, header: bytes = b"") -> None:
        """Write everything, with the header, to the disk."""
        assert len(header) == self._header_size
        if header:
            self._file.seek(0)
            self._file.write(header)
        self._crc = combine_crc32(self._crc32(header, 0), self._crc, self._size)
        self._size += len(header)
        self._atomic.sync()

    def commit(self) -> WrittenFile:
        """Rename the file into place, after `sync`."""
        self._atomic.commit()
        return WrittenFile(self.path.name, self._size, f"{self._crc:08x}")

    def discard(self) -> None:
        """Remove the temporary file."""
        self._atomic.discard()


def _has_same_bytes(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Check whether integers that fit both dtypes have the same bytes in both."""
    return array.dtype.itemsize == dtype.itemsize and array.dtype.newbyteorder("<") == array.dtype


# Temporary numbers ---------------------------------------------------------------------------------------------------


class Spool:
    """Numbers in an unnamed temporary file: written once, then read in order, without keeping all in memory.

    Without a folder, the file is in the system's folder for temporary files.
    """

    def __init__(self, folder: Path | None, dtype: str) -> None:
        from tempfile import TemporaryFile, gettempdir  # here, since it imports every compression: 5 ms

        folder = Path(gettempdir()) if folder is None else folder
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file: IO[bytes] = TemporaryFile(dir=folder, prefix=".bpe-")  # noqa: SIM115 (close() closes it)
        self._folder = folder

    def __enter__(self) -> Spool:  # noqa: PYI034 (Self needs Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def append(self, values: NDArray[Any]) -> None:
        """Add numbers at the end."""
        data = np.ascontiguousarray(values, dtype=self.dtype)
        with _name_folder_in_errors(self._folder):
            self._file.write(data.data if len(data) else b"")
        self.length += len(data)

    def read_pieces(self) -> Iterator[NDArray[Any]]:
        """Yield the numbers in arrays of bounded size."""
        with _name_folder_in_errors(self._folder):
            self._file.flush()
            self._file.seek(0)
        while data := self._file.read(PIECE_BYTES):
            yield np.frombuffer(data, dtype=self.dtype)

    def map_numbers(self) -> NDArray[Any]:
        """Map all numbers into memory. The file ends as if discarded; its content lives as long as the array."""
        try:
            with _name_folder_in_errors(self._folder):
                self._file.flush()
                if not self.length:
                    return np.empty(0, dtype=self.dtype)
                mapping = FileMapping(self._file.fileno(), 0, self.length * self.dtype.itemsize)
                return np.frombuffer(mapping.view(), dtype=self.dtype)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._file.close()


class _name_folder_in_errors:  # noqa: N801 (a context manager that reads like a function)
    """Name the folder in OSErrors of an unnamed temporary file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            text = f"{error.strerror or error} (a temporary file in this folder)"
            raise OSError(error.errno, text, str(self._folder)) from None


# CRC-32 ---------------------------------------------------------------------------------------------------------------


@cache
def choose_crc32() -> Callable[[Any, int], int]:
    """Return `zlib.crc32`, or where `isal` is installed its function, ten times as fast."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.crc32
    crc32: Callable[[Any, int], int] = isal_zlib.crc32
    return crc32


def combine_crc32(first_crc: int, second_crc: int, size: int) -> int:
    """Compute the CRC-32 of two byte strings, one after the other, from theirs; `size` is the second's in bytes.

    >>> combine_crc32(zlib.crc32(b"ab"), zlib.crc32(b"cde"), 3) == zlib.crc32(b"abcde")
    True
    """
    power, square = 1 << 31, 0x00800000  # x**0, and x**8: one byte
    while size:
        if size & 1:
            power = _multiply(power, square)
        square = _multiply(square, square)
        size >>= 1
    return _multiply(first_crc, power) ^ second_crc


def _multiply(a: int, b: int) -> int:
    """Multiply two polynomials over GF(2) modulo the CRC's; bit 31 is the coefficient of x**0."""
    result = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            result ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return result
