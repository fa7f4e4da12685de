"""Writing shards: files with a checksum, and the bookkeeping of documents that all formats share."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.atomic_files import AtomicFile, sync_folder
from bpe.data.formats.protocol import WrittenFile
from bpe.data.formats.spooling import Spool

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Arrays are converted, summed and written in pieces of this many bytes, which stay in the processor's cache.
PIECE = 1 << 19
#: A file is synced to the disk each time it has grown by this many bytes, so that the wait at its end is short.
SYNC = 16 << 20
#: The CRC-32 polynomial, reversed: bit 31 - k is the coefficient of x**k.
_POLYNOMIAL = 0xEDB88320


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
        self._size = self._crc = self._synced = 0  # without the header
        self._crc32 = crc32_function()
        self._buffer = np.empty(0, dtype=np.uint8)
        if header_size:
            self._file.write(bytes(header_size))

    def write(self, data: Any) -> int:
        """Write bytes (an object with the buffer protocol, contiguous)."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PIECE):
            piece = view[start : start + PIECE]
            self._crc = self._crc32(piece, self._crc)
            self._file.write(piece)
        self._size += len(view)
        if self._size - self._synced >= SYNC:
            self._atomic.sync()
            self._synced = self._size
        return len(view)

    def write_array(self, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Write an array as another dtype. The caller has checked that the values fit."""
        if array.dtype == dtype or (array.dtype.kind in "iu" and dtype.kind in "iu" and _same_bytes(array, dtype)):
            if len(array):
                self.write(np.ascontiguousarray(array).view(np.uint8))
            return
        step = PIECE // dtype.itemsize
        if len(self._buffer) != PIECE:
            self._buffer = np.empty(PIECE, dtype=np.uint8)
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
        self._crc = combined_crc32(self._crc32(header, 0), self._crc, self._size)
        self._size += len(header)
        self._atomic.sync()

    def commit(self) -> WrittenFile:
        """Rename the file into place, after `sync`."""
        self._atomic.commit()
        return WrittenFile(self.path.name, self._size, f"{self._crc:08x}")

    def discard(self) -> None:
        """Remove the temporary file."""
        self._atomic.discard()


def _same_bytes(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Whether integers that fit both dtypes have the same bytes in both."""
    return array.dtype.itemsize == dtype.itemsize and array.dtype.newbyteorder("<") == array.dtype


class DocumentWriter:
    """The base of all writers: checks what `write` gets and keeps count of tokens and documents.

    A format opens its files in the order of their renaming, and overrides `_write_ends`, `_headers` and `_write`.

    Attributes:
        tokens, documents: the numbers written so far; a document counts when it is complete.

    """

    #: The largest numbers of tokens in a shard and in a document, and where a longer one may go.
    max_tokens = max_document = (1 << 63) - 1
    name = ""

    def __init__(self, dtype: np.dtype[Any], *, masks: bool = False) -> None:
        self.tokens = self.documents = 0
        self._dtype, self._masks = dtype, masks
        self._largest = int(np.iinfo(dtype).max)
        self._last_end = 0  # of the last complete document
        self._is_open = False
        self._files: list[ShardFile] = []
        self._spools: list[Spool] = []

    def _open(self, *files: tuple[Path, int]) -> None:
        """Create the files of the shard: (path, size of the header) of each."""
        try:
            for path, header_size in files:
                self._files.append(ShardFile(path, header_size))
        except BaseException:
            self.discard()
            raise

    def _spool(self, folder: Path, dtype: str) -> Spool:
        """Start a temporary file of numbers, which ends with the writer."""
        try:
            self._spools.append(Spool(folder, dtype))
        except BaseException:
            self.discard()
            raise
        return self._spools[-1]

    def write(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        *,
        begins: bool = True,
        ends: bool = True,
        mask: NDArray[np.uint8] | None = None,
    ) -> None:
        """Write documents; see `ShardWriter.write`."""
        positions = self._checked(ids, lengths, begins, mask)
        if not len(lengths):
            return
        done = positions if ends else positions[:-1]
        self._write(ids, done, mask)
        self.tokens += len(ids)
        if len(done):
            self._last_end = int(done[-1])
            self.documents += len(done)
        self._is_open = not ends

    def finish(self) -> list[WrittenFile]:
        """Write everything to the disk and rename the files into place; see `ShardWriter.finish`."""
        if self._is_open:
            raise ValueError("the last document is not complete; write the rest of it with begins=False first")
        committed: list[Path] = []
        written = []
        try:
            for file, header in zip(self._files, self._headers(), strict=True):
                file.sync(header)
            for file in self._files:
                written.append(file.commit())
                committed.append(file.path)
            sync_folder(self._files[0].path.parent)
            for spool in self._spools:
                spool.discard()
        except BaseException:
            for path in committed:  # part of a shard is no shard
                with suppress(OSError):
                    path.unlink()
            self.discard()
            raise
        return written

    def discard(self) -> None:
        """Remove the temporary files."""
        for file in self._files:
            file.discard()
        for spool in self._spools:
            spool.discard()

    # What a format overrides ------------------------------------------------------------------------------------------

    def _write(self, ids: NDArray[Any], ends: NDArray[np.int64], mask: NDArray[np.uint8] | None) -> None:
        """Write ids, by default to the first file, and their mask, to the second.

        `ends` are the positions in the shard where documents end, without one that continues in the next call.
        """
        self._files[0].write_array(ids, self._dtype)
        if mask is not None:
            self._files[1].write_array(mask, mask.dtype)
        if len(ends):
            self._write_ends(ends)

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        """Record documents that are complete, by the positions of their ends."""

    def _headers(self) -> list[bytes]:
        """Write what remains, and return the headers of the files."""
        return [b""] * len(self._files)

    # Checks -----------------------------------------------------------------------------------------------------------

    def _checked(
        self, ids: NDArray[Any], lengths: NDArray[np.int64], begins: bool, mask: NDArray[np.uint8] | None
    ) -> NDArray[np.int64]:
        """Check the arguments of `write` before anything is written; returns the positions of the documents' ends."""
        if begins == self._is_open and len(lengths):
            state = "is not" if self._is_open else "is"
            raise ValueError(f"begins is {begins}, but the last document {state} complete; see ShardWriter.write")
        positions = self.tokens + np.cumsum(lengths, dtype=np.int64)
        total = int(positions[-1]) - self.tokens if len(positions) else 0
        if total != len(ids) or (len(lengths) and int(lengths.min()) < 0):
            raise ValueError(f"the lengths add up to {total}, but there are {len(ids)} ids; they must be equal")
        if self._masks != (mask is not None) and len(lengths):
            got = "has none" if self._masks else "has one"
            raise ValueError(f"the shard {'has' if self._masks else 'has no'} loss masks, but this call {got}")
        if mask is not None and (len(mask) != len(ids) or mask.dtype != np.uint8):
            raise ValueError(f"the mask is {mask.dtype}, {len(mask)} long; it must be uint8, {len(ids)} long")
        self._check_limits(ids, positions)
        return positions

    def _check_limits(self, ids: NDArray[Any], positions: NDArray[np.int64]) -> None:
        """Refuse ids and counts that the format cannot hold."""
        if len(ids) and (np.iinfo(ids.dtype).max > self._largest or ids.dtype.kind == "i"):
            largest, least = int(ids.max()), int(ids.min()) if ids.dtype.kind == "i" else 0
            if largest > self._largest or least < 0:
                bad = least if least < 0 else largest
                raise ValueError(
                    f"id {bad} does not fit the shard's dtype, {self._dtype}; ids are from 0 to {self._largest}"
                )
        if self.tokens + len(ids) > self.max_tokens:
            raise ValueError(
                f"the shard would have {self.tokens + len(ids)} tokens; {self.name} files hold at most "
                f"{self.max_tokens}: pass a shard size"
            )
        if len(positions) and int(positions[-1]) - self._last_end > self.max_document:
            longest = int(np.diff(positions, prepend=self._last_end).max())
            if longest > self.max_document:
                raise ValueError(
                    f"a document has {longest} tokens or more; {self.name} holds documents of at most "
                    f"{self.max_document}: use native"
                )


def refuse_masks(name: str, masks: bool) -> None:
    """Raise ValueError if masks are wanted in a format that has no place for them."""
    if masks:
        raise ValueError(f"{name} shards cannot hold loss masks; native, datatrove, parquet and arrow shards can")


# CRC-32 ---------------------------------------------------------------------------------------------------------------


@cache
def crc32_function() -> Callable[[Any, int], int]:
    """`zlib.crc32`, or the same function of `isal`, ten times as fast, where that is installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.crc32
    faster: Callable[[Any, int], int] = isal_zlib.crc32
    return faster


def combined_crc32(first: int, second: int, size: int) -> int:
    """The CRC-32 of two byte strings, one after the other, from theirs; `size` is the second's size in bytes.

    >>> combined_crc32(zlib.crc32(b"ab"), zlib.crc32(b"cde"), 3) == zlib.crc32(b"abcde")
    True
    """
    power, square = 1 << 31, 0x00800000  # x**0, and x**8: one byte
    while size:
        if size & 1:
            power = _product(power, square)
        square = _product(square, square)
        size >>= 1
    return _product(first, power) ^ second


def _product(a: int, b: int) -> int:
    """The product of two polynomials over GF(2) modulo the CRC's; bit 31 is the coefficient of x**0."""
    result = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            result ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return result
