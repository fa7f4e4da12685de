"""Files that appear whole or not at all, whatever ends the process that writes them.

A file is written under a temporary name beside its target and then renamed over it. The writer holds a lock (`flock`)
on the temporary file. The kernel drops the lock when the process dies, so the next writer of the same target can tell
what a killed process left from what another process is still writing.

Not here: what is written.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any  # None on Windows
try:
    import fcntl
except ImportError:
    fcntl = None

#: File systems allow names of 255 bytes; a temporary name is this many bytes longer than its target's.
_LONGEST_NAME, _ADDED = 255, len("..bpe-0123456789abcdef.tmp")
#: The file that a program writes is buffered in blocks of this many bytes.
_BUFFER = 1 << 17


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that appears under `path` whole when the block ends, and not at all if it raises.

    A target that exists keeps its permission bits, and its owner and group where the process may set them. The
    temporary file never has wider permissions than the target. A symbolic link is followed. What killed processes
    left of the same target is removed first.

    Raises:
        OSError: naming `path`, for a target that cannot be written.

    """
    shown = os.fspath(path)
    target = Path(os.path.realpath(path))
    before = _status(target)
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise OSError(f"{target} is not a regular file; a file written whole or not at all cannot replace it")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist; make it first", str(target.parent))
    remove_leftovers(target)
    name, descriptor = _created(target, 0o666 if before is None else before.st_mode & 0o600, shown)
    try:
        with io.BufferedWriter(_NamedFile(descriptor, shown), _BUFFER) as file:
            yield file
            with _naming(shown):
                file.flush()
                os.fsync(descriptor)
                _take_over_permissions(descriptor, name, target)
                if fcntl is not None:  # while the lock is held, or another writer might remove the file
                    os.replace(name, target)
        if fcntl is None:  # Windows renames closed files only
            with _naming(shown):
                os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of this target whose writers are gone; on file systems without `flock`, none."""
    if fcntl is None:
        return
    target = Path(os.path.realpath(path))
    pattern = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{16}\.tmp")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if pattern.fullmatch(name):
                _remove_if_unlocked(target.parent / name)


def _remove_if_unlocked(path: Path) -> None:
    """Remove a temporary file that no process has locked."""
    with suppress(OSError):  # locked, removed by another process, or a file system without locks: leave it
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        finally:
            os.close(descriptor)


def _prefix(target: Path) -> str:
    """What the names of a target's temporary files begin with; a long name is replaced by its hash."""
    name = target.name
    if len(os.fsencode(name)) + _ADDED > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return f".{name}.bpe-"


def _created(target: Path, mode: int, shown: str) -> tuple[str, int]:
    """A new locked temporary file for a target: (its path, its descriptor)."""
    while True:
        name = str(target.parent / f"{_prefix(target)}{os.urandom(8).hex()}.tmp")
        with _naming(shown):
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        if _locked(descriptor):
            return name, descriptor
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(name)


def _locked(descriptor: int) -> bool:
    """Lock a file just made, where the system can; False if another writer takes it for a leftover and removes it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, where nobody removes leftovers
        return True
    return os.fstat(descriptor).st_nlink > 0


def _status(path: Path) -> os.stat_result | None:
    """The status of a file, None if there is none."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _take_over_permissions(descriptor: int, name: str, target: Path) -> None:
    """Give a temporary file the permission bits of its target, if that exists, and its owner and group if possible."""
    now = _status(target)
    if now is None:
        return
    if not hasattr(os, "fchown"):  # Windows
        shutil.copymode(target, name)
        return
    mode = stat.S_IMODE(now.st_mode)
    try:
        os.fchown(descriptor, -1, now.st_gid)
    except OSError:
        mode &= ~0o070 | (mode & 0o007) << 3  # another group gets no more than everybody
    with suppress(OSError):
        os.fchown(descriptor, now.st_uid, -1)
    os.fchmod(descriptor, mode)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Name the target in an error of the system, which names the temporary file or nothing."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), path) from None


class _NamedFile(io.FileIO):
    """A file whose errors while it is written, such as a full disk, name the target."""

    def __init__(self, descriptor: int, target: str) -> None:
        super().__init__(descriptor, "w")
        self._target = target

    def write(self, data: Any, /) -> int:
        """Write bytes, as `FileIO.write` does."""
        with _naming(self._target):
            return super().write(data)
