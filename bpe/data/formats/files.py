"""Files of shards while they are written: under temporary names, with checksums; and numbers too many for memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from bpe.base._crc32 import combine_crc32, crc32
from bpe.base._team import Outcome, Team
from bpe.base.atomic_files import AtomicFile
from bpe.base.threads import Part, Result, Workers
from bpe.data.formats._file_writer import FileTarget, write_at
from bpe.data.formats._mapping import FileMapping
from bpe.errors import ignore_system_errors, make_id_error, name_file_in_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Arrays are converted and read in pieces of this many bytes, which stay in the processor's cache.
PIECE_BYTES = 1 << 19
#: Each time a file has grown by this many bytes, the system begins to write them to the disk, so that the wait at its
#: end is short.
SYNC_BYTES = 16 << 20
_MAX_SPOOL_MEMORY = 1 << 20
_NO_HELPERS = Team(1)


@dataclass(frozen=True, slots=True)
class WriterThreads:
    """The threads that help the one that writes shards: for arrays, and for row groups. Without any, it does all."""

    team: Team = _NO_HELPERS
    workers: Workers | None = None

    def submit(self, work: Callable[[Part], Result], part: Part) -> Outcome[Result]:
        """Have `work(part)` called, at once if there are no workers."""
        if self.workers is not None:
            return self.workers.submit(work, part)
        outcome: Outcome[Result] = Outcome()
        outcome.set_result(work(part))
        return outcome


ONE_THREAD = WriterThreads()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a finished shard: its name, its size in bytes, and its CRC-32 as 8 hexadecimal digits."""

    name: str
    size: int
    crc32: str


class ShardFile:
    """One file of a shard, under a temporary name until `commit`; its size and CRC-32 are known at the end.

    With `header_size`, the file starts with that many bytes, which `sync` gets: they contain counts that are known only
    at the end. The threads of `team` share each write.
    """

    def __init__(self, path: Path, header_size: int = 0, team: Team = _NO_HELPERS) -> None:
        self.path = path
        self._atomic = AtomicFile(path, in_clean_folder=True)  # `Journal` has removed what was left
        self._descriptor = self._atomic.file.fileno()
        self._header_size, self._team = header_size, team
        self._size = self._crc = self._synced_size = 0  # without the header

    def write(self, data: Any) -> int:
        """Write bytes (an object with the buffer protocol, contiguous)."""
        view = memoryview(data).cast("B")
        self._write(view, len(view))
        return len(view)

    def write_array(self, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Write an array as another dtype.

        Raises:
            ValueError: for a value that the dtype cannot hold; the file is as before then.

        """
        if array.dtype == np.uint32 and dtype.itemsize in (2, 4) and array.flags.aligned:
            data, size = np.ascontiguousarray(array).view(np.uint8), len(array) * dtype.itemsize
            if not self._write(data, size, **_convert_ids(dtype)):
                check_ids(array, dtype)
            return
        if array.dtype != dtype:
            check_ids(array, dtype)
        step = PIECE_BYTES // 8 if array.dtype.itemsize != dtype.itemsize else max(len(array), 1)
        for start in range(0, len(array), step):
            self.write(np.ascontiguousarray(array[start : start + step], dtype=dtype).view(np.uint8))

    def open_target(self, dtype: np.dtype[Any], max_ids: int, threads: int) -> FileTarget:
        """Open a target that writes uint32 ids as another dtype at the end of the file, until `add_target`."""
        position, path = self._header_size + self._size, os.fspath(self.path)
        return FileTarget(self._descriptor, position, max_ids, threads, path, **_convert_ids(dtype))

    def add_target(self, target: FileTarget) -> None:
        """Add what a target has written since the last write."""
        size, crc = target.finish()
        self._crc = combine_crc32(self._crc, crc, size)
        self._size += size

    def _write(self, data: Any, size: int, **conversion: Any) -> bool:
        """Write data, which has `size` bytes in the file; False for an id that is too large."""
        if not size:
            return True
        position = self._header_size + self._size
        if self._size + size - self._synced_size >= SYNC_BYTES:
            conversion["sync_from"], self._synced_size = self._synced_size, self._size + size
        crc = write_at(self._descriptor, position, data, self._team, os.fspath(self.path), **conversion)
        if crc is None:
            return False
        self._crc = combine_crc32(self._crc, crc, size)
        self._size += size
        return True

    def sync(self, header: bytes = b"") -> None:
        """Write everything, with the header, to the disk."""
        assert len(header) == self._header_size
        size = len(header) + self._size
        with name_file_in_errors(os.fspath(self.path)):
            os.ftruncate(self._descriptor, size)  # after ids that were too large there may be more
        if header:
            write_at(self._descriptor, 0, header, _NO_HELPERS, os.fspath(self.path))
        self._crc = combine_crc32(crc32(header), self._crc, self._size)
        self._size = size
        self._atomic.sync()

    def commit(self) -> WrittenFile:
        """Rename the file into place, after `sync`."""
        self._atomic.commit()
        return WrittenFile(self.path.name, self._size, f"{self._crc:08x}")

    def discard(self) -> None:
        """Remove the temporary file."""
        self._atomic.discard()


def _convert_ids(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Make the arguments of `write_at` for uint32 ids that are written as this dtype, of 16 or 32 bits."""
    return {"narrows": dtype.itemsize == 2, "max_id": int(np.iinfo(dtype).max)}


def check_ids(ids: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Raise ValueError for negative integers, and those that an integer dtype cannot hold."""
    smallest = int(ids.min(initial=0)) if ids.dtype.kind != "u" else 0
    largest, max_id = int(ids.max(initial=0)), int(np.iinfo(dtype).max)
    if smallest < 0 or largest > max_id:
        bad_id = smallest if smallest < 0 else largest
        raise make_id_error(bad_id, dtype.name, max_id)


# Temporary numbers ---------------------------------------------------------------------------------------------------


class Spool:
    """Numbers that are written once, then read in order, without keeping all in memory.

    More than 1 MB of them are in an unnamed temporary file: without a folder, in the system's folder for such files.
    """

    def __init__(self, folder: Path | None, dtype: str) -> None:
        from tempfile import SpooledTemporaryFile, gettempdir  # here, since it imports every compression: 5 ms

        folder = Path(gettempdir()) if folder is None else folder
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file: IO[bytes] = SpooledTemporaryFile(  # noqa: SIM115 (close() closes it)
            max_size=_MAX_SPOOL_MEMORY, dir=str(folder), prefix=".bpe-"
        )
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
        while True:
            with _name_folder_in_errors(self._folder):
                data = self._file.read(PIECE_BYTES)
            if not data:
                return
            yield np.frombuffer(data, dtype=self.dtype)

    def map_numbers(self) -> NDArray[Any]:
        """Map all numbers into memory. The file ends as if discarded; its content lives as long as the array."""
        try:
            with _name_folder_in_errors(self._folder):
                if not self.length:
                    return np.empty(0, dtype=self.dtype)
                descriptor = self._file.fileno()  # moves what is in memory to a file
                self._file.flush()
                mapping = FileMapping(descriptor, 0, self.length * self.dtype.itemsize)
                return np.frombuffer(mapping.view(), dtype=self.dtype)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the file."""
        with ignore_system_errors():
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
