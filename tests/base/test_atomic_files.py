"""Files that are written completely or not at all: permissions, names, and leftovers of killed processes."""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.base import atomic_files as atomic
from bpe.base.atomic_files import AtomicFile, atomic_write, remove_leftovers
from bpe.count.spilling import Spill
from bpe.formats.id_files import write_npy

posix = pytest.mark.skipif(sys.platform == "win32", reason="permission bits and flock are POSIX")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def temporary(folder: Path) -> Path:
    (path,) = folder.glob(".*.tmp")
    return path


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o604, 0o400, 0o755])
def test_a_temporary_file_never_has_wider_permissions(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "secret"
    target.touch()
    target.chmod(mode)
    replace = os.replace
    seen = []

    def recording_replace(source: str, to: Path) -> None:
        seen.append(mode_of(Path(source)))
        replace(source, to)

    monkeypatch.setattr(os, "replace", recording_replace)
    old = os.umask(0)
    try:
        with atomic_write(target) as file:
            file.write(b"1")
            assert mode_of(temporary(tmp_path)) & ~(mode & 0o600) == 0
    finally:
        os.umask(old)
    assert seen == [mode]
    assert mode_of(target) == mode
    assert target.read_bytes() == b"1"


@posix
def test_a_new_file_has_the_permissions_that_open_gives(tmp_path: Path) -> None:
    for mask in (0o022, 0o077, 0o002):
        old = os.umask(mask)
        try:
            with atomic_write(tmp_path / f"{mask}"):
                pass
        finally:
            os.umask(old)
        assert mode_of(tmp_path / f"{mask}") == 0o666 & ~mask


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may change the owner of a file")
def test_owner_and_group_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "theirs"
    target.touch()
    os.chown(target, 12345, 23456)
    target.chmod(0o640)
    with atomic_write(target):
        pass
    assert (target.stat().st_uid, target.stat().st_gid, mode_of(target)) == (12345, 23456, 0o640)


@posix
def test_another_group_gets_no_more_than_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the target's group cannot be set, the group that the file has instead gets no access."""

    def refused(*_: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refused)
    for mode, expected in ((0o660, 0o600), (0o664, 0o644), (0o600, 0o600)):
        target = tmp_path / f"{mode}"
        target.touch()
        target.chmod(mode)
        with atomic_write(target):
            pass
        assert mode_of(target) == expected


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    for content in (b"1", b"2"):
        with atomic_write(tmp_path / "link") as file:
            file.write(content)
            assert temporary(tmp_path / "folder")
        assert (tmp_path / "folder" / "file").read_bytes() == content
    assert (tmp_path / "link").is_symlink()


def test_the_folder_stays_that_of_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder may change, and a link to a folder is followed before `..`."""
    for name in ("real/folder", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "folder")
    monkeypatch.chdir(tmp_path)
    with atomic_write("file") as file, atomic_write("link/../file") as other_file:
        monkeypatch.chdir(tmp_path / "other")
        file.write(b"1")
        other_file.write(b"2")
    assert [(tmp_path / name).read_bytes() for name in ("file", "real/file")] == [b"1", b"2"]
    assert os.listdir(tmp_path / "other") == []


@pytest.mark.parametrize("name", ["gone/file", "file/file", "dangling"])
def test_the_folder_must_exist(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "gone" / "file")
    with pytest.raises(FileNotFoundError, match=r"the folder does not exist; make it first: .*(gone|file)'"):
        AtomicFile(tmp_path / name)


@pytest.mark.parametrize("name", ["x" * 240, "x" * 250 + ".json", "語" * 85, "x" * 229, "x" * 230, "-", ".a", "a\nb"])
def test_every_name_that_the_file_system_allows(tmp_path: Path, name: str) -> None:
    for content in (b"1", b"2"):
        with atomic_write(tmp_path / name) as file:
            file.write(content)
            assert len(os.fsencode(temporary(tmp_path).name)) <= 255
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"2"


def test_a_name_that_is_too_long_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"File name too long.*xxxx"), atomic_write(tmp_path / ("x" * 256)):
        pytest.fail("the work began")


# Leftovers of killed processes ----------------------------------------------------------------------------------------

WRITE = """
import sys, time
from bpe.base.atomic_files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("here", flush=True)
    sys.stdin.readline()
"""


def writer(target: Path) -> subprocess.Popen[bytes]:
    """A process that has begun to write a file, and continues when it reads a line."""
    argv = [sys.executable, "-c", WRITE, str(target)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    return process


def finish(process: subprocess.Popen[bytes]) -> None:
    process.communicate(b"go on\n", timeout=60)
    assert process.returncode == 0


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


@posix
@pytest.mark.parametrize("name", ["out", "x" * 250])
def test_the_next_writer_removes_leftovers(tmp_path: Path, name: str) -> None:
    """It removes only files of the same target, and none that a living process is writing."""
    target = tmp_path / name
    kill(writer(target))
    left = temporary(tmp_path)
    kill(writer(tmp_path / "another"))
    others = set(tmp_path.glob(".*.tmp")) - {left}
    alive = writer(target)
    assert not left.exists(), "it is removed when the next writer begins"
    alive_file = set(tmp_path.glob(".*.tmp")) - others
    assert len(alive_file) == 1
    with atomic_write(target) as file:
        file.write(b"mine")
    assert target.read_bytes() == b"mine"
    assert set(tmp_path.glob(".*.tmp")) == others | alive_file
    finish(alive)
    assert target.read_bytes() == b"half"
    assert set(tmp_path.glob(".*.tmp")) == others


@posix
def test_leftovers_are_not_sought_in_a_clean_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing a folder takes the GIL for each of its files; shards are written to folders that were cleaned before."""
    monkeypatch.setattr(os, "listdir", None)
    file = atomic.AtomicFile(tmp_path / "out", in_clean_folder=True)
    file.sync()
    file.commit()
    assert (tmp_path / "out").exists()
    with pytest.raises(TypeError):
        atomic.AtomicFile(tmp_path / "out")


@posix
def test_a_leftover_with_a_reused_process_id_is_removed(tmp_path: Path) -> None:
    """Only a lock protects a file, since a name does not identify its writer."""
    (tmp_path / f".out.bpe-{os.getpid():016x}.tmp").touch()
    strangers = [".out.tmp", ".out.bpe-0123.tmp", ".output.bpe-0123456789abcdef.tmp", "out.bpe-0123456789abcdef.tmp"]
    for name in strangers:
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / ".out.bpe-fedcba9876543210.tmp")
    with atomic_write(tmp_path / "out"):
        pass
    assert sorted(os.listdir(tmp_path)) == sorted([*strangers, ".out.bpe-fedcba9876543210.tmp", "out"])


@posix
def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    left = tmp_path / ".out.bpe-0123456789abcdef.tmp"
    left.touch()
    monkeypatch.setattr(atomic.fcntl, "flock", unsupported)
    with atomic_write(tmp_path / "out") as file:
        file.write(b"1")
    assert (tmp_path / "out").read_bytes() == b"1"
    assert left.exists()


@posix
def test_a_file_removed_before_it_is_locked_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer may remove a file that is created but not locked yet, as a leftover."""
    flock = atomic.fcntl.flock
    moments = ["removed", "locked"]

    def late(descriptor: int, how: int) -> None:
        moment = moments.pop() if moments else ""
        if moment == "removed":
            temporary(tmp_path).unlink()
        if moment == "locked":
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        flock(descriptor, how)

    monkeypatch.setattr(atomic.fcntl, "flock", late)
    with atomic_write(tmp_path / "out") as file:
        file.write(b"1")
    assert not moments
    assert os.listdir(tmp_path) == ["out"]


@posix
def test_two_writers_of_one_target(tmp_path: Path) -> None:
    """The one that ends last determines the whole file."""
    target = tmp_path / "out"
    one, other = writer(target), writer(target)
    finish(one)
    with atomic_write(target) as file:
        file.write(b"between")
        finish(other)
        assert target.read_bytes() == b"half"
    assert target.read_bytes() == b"between"
    assert os.listdir(tmp_path) == ["out"]


@posix
def test_a_new_training_removes_leftovers_of_a_checkpoint(tmp_path: Path) -> None:
    options: dict[str, Any] = {"texts": ["low lower lowest"], "num_merges": 3, "checkpoint": tmp_path / "run"}
    expected = bpe.train(**options)
    kill(writer(tmp_path / "run"))
    kill(writer(tmp_path / "run.counts"))
    assert bpe.train(**options) == expected
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.skipif(sys.platform != "linux", reason="the open files are read from /proc")
def test_spilled_counts_have_no_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of them, however the process ends."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spill = Spill()
    spill._store(np.ones(100, dtype=np.uint8))
    assert os.listdir(tmp_path) == []
    spill.close()


# Errors ---------------------------------------------------------------------------------------------------------------


def full_disk(_: Any, data: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error may come while the file is written or when its last block is flushed."""
    open_ = os.open
    target = tmp_path / "tokenizer.json"

    def full(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = open_(path, flags, mode)
        device = open_("/dev/full", os.O_WRONLY)
        os.dup2(device, descriptor)
        os.close(device)
        return descriptor

    monkeypatch.setattr(os, "open", full)
    tok = bpe.train(texts=["low lower lowest"], num_merges=3)
    counts = bpe.count_words(texts=["low " * 10])
    for save in (tok.save, counts.save):
        with pytest.raises(OSError, match=f"No space left on device: '{re.escape(str(target))}'") as caught:
            save(target)
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(target)
    with pytest.raises(OSError, match=r"No space left on device: '.*tokenizer.json'"), atomic_write(target) as file:
        file.write(b"x" * 10_000_000)
    assert os.listdir(tmp_path) == []


def test_files_that_belong_together_are_all_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the last of them is written to it."""
    tok = bpe.train(texts=["low lower"], num_merges=2)
    batch = tok.encode_batch(["low", "lower low"])
    writers: list[tuple[Path, int, Callable[[], object]]] = [
        (tmp_path / "folder", 5, lambda: tok.save(tmp_path / "folder", format="vocab-merges")),
        (tmp_path, 2, lambda: write_npy(str(tmp_path / "ids.npy"), [(batch, False)])),
    ]
    fsync = os.fsync
    for folder, n_files, write in writers:
        n_synced = 0

        def sync(descriptor: int) -> None:
            nonlocal n_synced
            n_synced += 1
            if n_synced == n_files:  # noqa: B023
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", sync)
        with pytest.raises(OSError, match="No space left"):
            write()
        assert n_synced == n_files
        assert not [path for path in folder.iterdir() if path.is_file()]
        monkeypatch.setattr(os, "fsync", fsync)
        write()
        assert len([path for path in folder.iterdir() if path.is_file()]) == n_files


def test_errors_about_other_files_keep_their_names(tmp_path: Path) -> None:
    """The program may read another file in the block that writes this one."""
    with pytest.raises(OSError, match=r"Input/output error$"), atomic_write(tmp_path / "out"):
        raise OSError(errno.EIO, "Input/output error")
    with pytest.raises(FileNotFoundError, match="corpus"), atomic_write(tmp_path / "out"):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "corpus.txt")
    assert os.listdir(tmp_path) == []


@posix
def test_a_folder_that_cannot_be_written_to_names_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", _[0])

    target = tmp_path / "tokenizer.json"
    tok = bpe.train(texts=["low"], num_merges=1)
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PermissionError, match=f"Permission denied: '{re.escape(str(target))}'"):
        tok.save(target)


def test_a_full_disk_names_the_folder_of_spilled_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spill = Spill()

    class Full:
        def seek(self, *_: int) -> int:
            return 0

        def write(self, data: Any) -> int:
            return full_disk(self, data)

        def close(self) -> None:
            pass

    with suppress(OSError):
        spill._file.close()
    spill._file = Full()
    with pytest.raises(OSError, match=r"No space left on device.*TMPDIR") as caught:
        spill._store(np.ones(3, dtype=np.uint8))
    assert caught.value.filename == str(tmp_path)


def test_removing_leftovers_from_a_missing_folder(tmp_path: Path) -> None:
    remove_leftovers(tmp_path / "no" / "out")
