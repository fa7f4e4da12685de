"""Numbers that are too many for memory, in an unnamed temporary file: a shard's index while it is written or found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from bpe.data.formats._mapping import Mapping

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Numbers are read back in pieces of this many bytes.
PIECE = 1 << 19


class Spool:
    """Numbers in an unnamed temporary file in a folder: written once, then read in order. It never holds them all.

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
        with _naming_folder(self._folder):
            self._file.write(data.data if len(data) else b"")
        self.length += len(data)

    def pieces(self) -> Iterator[NDArray[Any]]:
        """The numbers in arrays of bounded size."""
        with _naming_folder(self._folder):
            self._file.flush()
            self._file.seek(0)
        while data := self._file.read(PIECE):
            yield np.frombuffer(data, dtype=self.dtype)

    def mapped(self) -> NDArray[Any]:
        """All numbers, memory-mapped. The file ends as if discarded; its content lives as long as the array."""
        try:
            with _naming_folder(self._folder):
                self._file.flush()
                if not self.length:
                    return np.empty(0, dtype=self.dtype)
                mapping = Mapping(self._file.fileno(), 0, self.length * self.dtype.itemsize)
                return np.frombuffer(mapping.view(), dtype=self.dtype)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._file.close()


class _naming_folder:  # noqa: N801 (a context manager that reads like a function)
    """Name the folder in OSErrors of an unnamed temporary file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            text = f"{error.strerror or error} (a temporary file in this folder)"
            raise OSError(error.errno, text, str(self._folder)) from None
