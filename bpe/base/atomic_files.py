"""Atomic writes: a file appears under its name complete or not at all, even if the process is killed.

A file is written under a temporary name beside its target and then renamed over it. The writer holds a lock (`flock`)
on the temporary file. The operating system releases the lock when the process dies, so the next writer of the same
target can tell the leftovers of a killed process from a file that another process is still writing.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from bpe.errors import check_path, ignore_system_errors, name_file_in_errors, raise_if_of_signal_handler

fcntl: Any  # None on Windows
try:
    import fcntl
except ImportError:
    fcntl = None

#: The longest file name that file systems allow, in bytes.
_MAX_NAME_BYTES = 255
#: How many bytes longer a temporary name is than its target's.
_NAME_OVERHEAD_BYTES = len("..bpe-0123456789abcdef.tmp")
#: The size of the write buffer in bytes.
_BUFFER_BYTES = 1 << 17


class AtomicFile:
    """A file that is written under a temporary name and appears under `path` when `commit` renames it.

    An existing target keeps its permission bits, and its owner and group where the process may set them. The
    temporary file never has wider permissions than the target. A symbolic link is followed, or replaced if `follow` is
    False. Temporary files that killed processes left beside the target are removed first, unless `in_clean_folder` says
    that there are none. For several files that belong together: `sync` each, then `commit` each, the one that makes the
    others valid last.

    Attributes:
        file: the open file, binary, for writing.

    Raises:
        OSError: for a target that cannot be written; the error names `path`. So do the errors of all methods.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ids = AtomicFile(os.path.join(folder, "ids"))
    ...     _ = ids.file.write(b"abc")
    ...     ids.sync()
    ...     ids.commit()
    ...     os.listdir(folder)
    ['ids']

    """

    def __init__(self, path: str | os.PathLike[str], *, follow: bool = True, in_clean_folder: bool = False) -> None:
        self._shown_path = check_path(path)
        self._target, target_status = _find_target(self._shown_path, follow=follow)
        if target_status is not None and not stat.S_ISREG(target_status.st_mode):
            raise OSError(f"{self._target} is not a regular file; an atomic write can replace only regular files")
        if not in_clean_folder:
            _remove_leftovers(self._target)
        mode = 0o666 if target_status is None else target_status.st_mode & 0o600
        self._temporary_path, descriptor = _create_temporary(self._target, mode, self._shown_path)
        self.file: BinaryIO = io.BufferedWriter(_ErrorNamingFile(descriptor, self._shown_path), _BUFFER_BYTES)

    def sync(self) -> None:
        """Write everything to the disk, under the temporary name."""
        with name_file_in_errors(self._shown_path):
            self.file.flush()
            os.fsync(self.file.fileno())

    def commit(self) -> None:
        """Rename the file to its target, and close it. Call `sync` first."""
        with name_file_in_errors(self._shown_path):
            _copy_permissions(self.file.fileno(), self._temporary_path, self._target)
            if fcntl is not None:  # rename while the lock is held, so that no other writer removes the file
                os.replace(self._temporary_path, self._target)
            self.file.close()
            if fcntl is None:  # Windows can rename only closed files
                os.replace(self._temporary_path, self._target)

    def discard(self) -> None:
        """Close and remove the temporary file. Does nothing to a committed file."""
        try:
            with ignore_system_errors():  # data still in the buffer that cannot be written is not wanted either
                self.file.close()
        finally:
            with ignore_system_errors():
                os.unlink(self._temporary_path)


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, follow: bool = True) -> Iterator[BinaryIO]:
    """Open a binary file that appears under `path` when the block ends, and not at all if the block raises.

    See `AtomicFile` for permissions, links (`follow`) and leftovers.

    Raises:
        OSError: for a target that cannot be written; the error names `path`.

    """
    with atomic_write_all([path], follow=follow) as (file,):
        yield file


@contextmanager
def atomic_write_all(paths: Iterable[str | os.PathLike[str]], *, follow: bool = True) -> Iterator[list[BinaryIO]]:
    """Open binary files that belong together, as `atomic_write` does. They appear in this order, once all are written.

    A process that is killed between two of the renames leaves those files renamed that came first.

    Raises:
        OSError: as `atomic_write`.

    """
    atomic_files: list[AtomicFile] = []
    try:
        atomic_files.extend(AtomicFile(path, follow=follow) for path in paths)
        yield [atomic_file.file for atomic_file in atomic_files]
        for atomic_file in atomic_files:
            atomic_file.sync()
        for atomic_file in atomic_files:
            atomic_file.commit()
    except BaseException:
        for atomic_file in atomic_files:
            atomic_file.discard()
        raise


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Write a folder's entries to the disk, so that files renamed in it survive a power failure (POSIX only)."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with ignore_system_errors():  # some network file systems cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove this target's temporary files whose writers have died. Does nothing on file systems without locks."""
    _remove_leftovers(_find_target(os.fspath(path))[0])


def _find_target(path: str, *, follow: bool = True) -> tuple[Path, os.stat_result | None]:
    """Find the file that a path stands for, and its status, as `_read_status` does.

    Links to folders on the way are left to the system: resolving them takes a call of the system for each folder, and
    beside a busy thread each call waits to get the GIL back.
    """
    target = Path(path) if os.path.isabs(path) else Path(os.getcwd(), path)  # the working folder may change
    try:
        status = target.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return target, None
    if not stat.S_ISLNK(status.st_mode):
        return target, status
    if follow:
        target = Path(os.path.realpath(path))
    return target, _read_status(target)


def _remove_leftovers(target: Path) -> None:
    pattern = re.compile(re.escape(_make_prefix(target)) + r"[0-9a-f]{16}\.tmp")
    with ignore_system_errors():
        for name in os.listdir(target.parent):
            if pattern.fullmatch(name):
                _remove_if_unlocked(target.parent / name)


def _remove_if_unlocked(path: Path) -> None:
    """Remove a temporary file that no process has locked."""
    with ignore_system_errors():  # locked, removed by another process, or a file system without locks: leave it
        if fcntl is None:  # Windows removes no file that is open
            path.unlink()
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        finally:
            os.close(descriptor)


def _make_prefix(target: Path) -> str:
    """Make the prefix of the names of a target's temporary files; a hash replaces a long name."""
    name = target.name
    if len(os.fsencode(name)) + _NAME_OVERHEAD_BYTES > _MAX_NAME_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return f".{name}.bpe-"


def _create_temporary(target: Path, mode: int, shown_path: str) -> tuple[str, int]:
    """Create and lock a temporary file for a target; returns (its path, its descriptor)."""
    while True:
        temporary_path = str(target.parent / f"{_make_prefix(target)}{os.urandom(8).hex()}.tmp")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            with name_file_in_errors(shown_path):
                descriptor = os.open(temporary_path, flags, mode)
        except (FileNotFoundError, NotADirectoryError):
            reason = "the folder does not exist; make it first"
            raise FileNotFoundError(errno.ENOENT, reason, str(target.parent)) from None
        if _try_lock(descriptor):
            return temporary_path, descriptor
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(temporary_path)


def _try_lock(descriptor: int) -> bool:
    """Lock a new file where the system can; False if another writer took it for a leftover and removes it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # a file system without locks, where leftovers are never removed
        raise_if_of_signal_handler(error)
        return True
    return os.fstat(descriptor).st_nlink > 0


def _read_status(path: Path) -> os.stat_result | None:
    """Read the status of a file; None if it does not exist, or is a symbolic link, which is only to be replaced."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return None if stat.S_ISLNK(status.st_mode) else status


def _copy_permissions(descriptor: int, temporary_path: str, target: Path) -> None:
    """Give a temporary file the permission bits of its target, if that exists, and its owner and group if possible."""
    target_status = _read_status(target)
    if target_status is None:
        return
    if not hasattr(os, "fchown"):  # Windows
        os.chmod(temporary_path, stat.S_IMODE(os.stat(target).st_mode))
        return
    mode = stat.S_IMODE(target_status.st_mode)
    try:
        os.fchown(descriptor, -1, target_status.st_gid)
    except OSError as error:
        raise_if_of_signal_handler(error)
        mode &= ~0o070 | (mode & 0o007) << 3  # the group stays another one: it gets no more than "others" do
    with ignore_system_errors():
        os.fchown(descriptor, target_status.st_uid, -1)
    os.fchmod(descriptor, mode)


class _ErrorNamingFile(io.FileIO):
    """A file whose write errors, such as a full disk, name the target."""

    def __init__(self, descriptor: int, target: str) -> None:
        super().__init__(descriptor, "w")
        self._target = target

    def write(self, data: Any, /) -> int:
        """Write bytes, as `FileIO.write` does."""
        with name_file_in_errors(self._target):
            return super().write(data)
