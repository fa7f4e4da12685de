"""Read whole files of bounded size, and reject devices, which may have no end."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

#: The largest file that is read into memory at once, unless its reader knows larger ones.
MAX_FILE_BYTES = 1 << 30


def check_device(path: str | os.PathLike[str], file: int | None = None) -> None:
    """Raise OSError for a device other than a terminal or the null device: reading /dev/zero would never end.

    Args:
        path: the file, for the error.
        file: its descriptor, if it is open.

    Raises:
        OSError: for such a device, and for a file that does not exist.

    """
    status = os.stat(path) if file is None else os.fstat(file)
    if not stat.S_ISBLK(status.st_mode):
        if not stat.S_ISCHR(status.st_mode) or status.st_rdev == os.stat(os.devnull).st_rdev:
            return
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOCTTY", 0)) if file is None else file
        try:
            if os.isatty(descriptor):
                return
        finally:
            if file is None:
                os.close(descriptor)
    raise OSError(errno.EINVAL, "it is a device; read regular files, pipes or terminals", os.fspath(path))


def read_file(path: str | os.PathLike[str], max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Read the bytes of a file, which must not be a device.

    Raises:
        OSError: for a file that cannot be read, or with more than `max_bytes` bytes.

    """
    check_device(path)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return read_all(file, os.fspath(path), max_bytes)
        if status.st_size > max_bytes:
            raise _make_size_error(os.fspath(path), max_bytes)
        return file.read()


def read_all(file: BinaryIO, name: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Read the rest of a stream, which may have no end.

    Raises:
        OSError: for one that cannot be read, or with more than `max_bytes` bytes.

    """
    data = bytearray()
    while piece := file.read(1 << 20):
        data += piece
        if len(data) > max_bytes:
            raise _make_size_error(name, max_bytes)
    return bytes(data)


def _make_size_error(name: str, max_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {max_bytes} bytes, the most that are read of such a file", name)
