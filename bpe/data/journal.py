"""The journal of an output folder: what is finished, and where the same command goes on after a crash.

The journal is the file `journal.jsonl` in the output folder while its shards are made. The first line is the header:
all that determines the output. Each later line records one finished step: shards that are complete under their names,
and the position in the sources after them. Each line has a checksum. A line is on the disk before the next step begins,
and after the files that it names:

    write temporary files → fsync → rename → append the line → fsync → next step

A process killed in between leaves temporary files, or complete files that no line names; the next run removes the first
and writes the second again, with the same bytes. The last line may be incomplete: it is cut off. When all shards are
finished, the manifest is written, and then the journal is removed. So a folder is in one of four states: empty, begun
(journal), finished (manifest), or not ours, which is refused.

A lock (`flock`) on the file `.bpe-lock` keeps other processes out. `records.py` checks that the steps fit the files and
the sources.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bpe.base.atomic_files import atomic_write, sync_folder
from bpe.errors import FormatError, get_log, pluralize, short_repr
from bpe.formats.schema import load

fcntl: Any  # None on Windows
try:
    import fcntl
except ImportError:
    fcntl = None

log = get_log()

JOURNAL_NAME = "journal.jsonl"
VERSION = 2
#: The largest accepted size of the file in bytes.
_MAX_SIZE = 1 << 30
_LOCK = ".bpe-lock"
_TEMPORARY = re.compile(r"\..+\.bpe-[0-9a-f]{16}\.tmp")
_MOST_NAMES = 3
#: The facts of a file in `Sources.plan`.
_FILE_FACTS = ("name", "size", "format", "compression")

#: For tests: called with the name of each event, between which a process may be killed.
failpoint: Callable[[str], None] | None = None


def crash_point(event: str) -> None:
    """Call the test's hook, if there is one."""
    if failpoint is not None:
        failpoint(event)


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Make the output folder if it is absent, and keep other processes out of it during the block.

    Raises:
        ValueError: if another process works in the folder.
        OSError: if the folder cannot be made.

    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"the output {out} is a file; shards go to a folder: name another with -o, or remove the file")
    out.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    descriptor = _lock(out)
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(out / _LOCK)  # while the lock is held: see `_lock`
        os.close(descriptor)


def _lock(out: Path) -> int:
    """Lock the folder; returns the lock's descriptor."""
    path = out / _LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ValueError(
                f"another process is writing to {out}; wait until it ends, or name another folder"
            ) from None
        except OSError:  # a file system without locks
            return descriptor
        if os.fstat(descriptor).st_nlink:  # else the file was removed by its owner after it was opened here
            return descriptor
        os.close(descriptor)


def remove_temporary_files(out: Path) -> None:
    """Remove the temporary files that killed processes have left. The folder must be locked."""
    for name in os.listdir(out):
        if _TEMPORARY.fullmatch(name):
            with suppress(FileNotFoundError):
                os.unlink(out / name)


class Journal:
    """The journal of one output folder. The constructor reads an existing journal, or begins a new one.

    Args:
        out: the output folder, locked.
        header: all that determines the output, name → JSON value. A journal with another header is refused, unless no
            step is finished: then the output begins anew. Of the files of the sources, only those count that finished
            steps have used.
        disposable: names of files that an attempt without a finished step may leave.
        shared: whether a new output may go to a folder with other files.
        identify_beginning: gives, of a step, what tells whether the file that reading goes on in begins as before. It
            is called where that file has changed, and where `note_beginning` recorded what it gave then.

    Attributes:
        steps: the records of finished steps. "used" is how many of the sources' files they depend on, the first ones.

    Raises:
        ValueError: for a journal with another header, or a folder with other files than a journal's.
        FormatError: for a journal that is damaged.

    """

    def __init__(
        self,
        out: Path,
        header: Mapping[str, Any],
        disposable: Collection[str] = (),
        *,
        shared: bool = False,
        identify_beginning: Callable[[dict[str, Any]], list[Any] | None] | None = None,
    ) -> None:
        self.path = out / JOURNAL_NAME
        self._identify_beginning = identify_beginning
        self.steps: list[dict[str, Any]] = []
        self._header = json.loads(json.dumps(header))  # as it is when it is read
        remove_temporary_files(out)
        if not os.path.lexists(self.path):
            if not shared:
                refuse_foreign(out)
            self._write()
        elif not self._resume(out, disposable):
            self._remove_attempt(out, disposable)
            self._write()
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)

    def _write(self) -> None:
        """Write the header and the steps."""
        with atomic_write(self.path) as file:
            for record in ({"version": VERSION, **self._header}, *self.steps):
                file.write(_spell_line(record))

    def count_shards(self) -> int:
        """The number of finished shards."""
        return sum(len(step.get("shards", ())) for step in self.steps)

    def append(self, step: dict[str, Any]) -> None:
        """Record a finished step; it is on the disk when this returns."""
        data = _spell_line(step)
        try:
            sync_folder(self.path.parent)
            size = os.fstat(self._descriptor).st_size
            try:
                written = os.write(self._descriptor, data)
                if written < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, size)
                raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        self.steps.append(json.loads(json.dumps(step)))  # as it is when it is read

    def note_beginning(self) -> None:
        """Record how the file begins that reading goes on in: after a bad record, it may be mended."""
        beginning = (
            self._identify_beginning(self.steps[-1]) if self.steps and self._identify_beginning is not None else None
        )
        if beginning is not None:
            self._header["beginning"] = beginning
            with suppress(OSError):  # the error of the file is the one to raise
                self._write()

    def close(self) -> None:
        """Close the file, which stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """Remove the file: the manifest is written."""
        self.close()
        self.path.unlink()

    def _resume(self, out: Path, disposable: Collection[str]) -> bool:
        """Read the journal; False if it has another header, no step is finished, and all files are disposable."""
        records, size = self._read(out)
        before, steps = records[0], records[1:]
        used = steps[-1].get("used") if steps else None
        try:
            known = self._adopt_mended_file(before, steps)
            refuse_difference(out, known, self._header, used if isinstance(used, int) else None)
        except ValueError:
            if steps or not {*os.listdir(out)} <= {JOURNAL_NAME, _LOCK, *disposable}:
                raise
            return False
        self.steps = steps
        if before != self._header:  # files that no step has used
            self._write()
        elif size < self.path.stat().st_size:
            os.truncate(self.path, size)
        return True

    def _adopt_mended_file(self, before: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        """The header before, with the size and time that the file that reading goes on in has now, if it begins alike.

        So a file that was mended after its bad record stopped a run is no other source.
        """
        noted = before.get("beginning")
        if not (steps and isinstance(noted, list) and noted and type(noted[0]) is int and self._identify_beginning):
            return before
        index = noted[0]
        known: dict[str, Any] = json.loads(json.dumps(before))
        try:
            old, new = ((header["sources"]["files"][index], header["modified"]) for header in (known, self._header))
            if (old[0], old[1][index]) == (new[0], new[1][index]) or self._identify_beginning(steps[-1]) != noted:
                return before
            old[0][1], old[1][index] = new[0][1], new[1][index]
        except (LookupError, TypeError):
            return before
        return known

    def _read(self, out: Path) -> tuple[list[dict[str, Any]], int]:
        """The header and the steps, and the bytes that they take: an incomplete line after them is left out."""
        fix = f"to start over, remove {out}"
        if not self.path.is_file() or self.path.stat().st_size > _MAX_SIZE:
            raise FormatError(f"this is no journal: it is no file of at most {_MAX_SIZE} bytes; {fix}", path=self.path)
        data = self.path.read_bytes()
        lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
        records: list[dict[str, Any]] = []
        try:
            for line in lines:
                records.append(_parse_record(line))  # noqa: PERF401 (their number is the line of an error)
        except FormatError as error:
            raise FormatError(
                f"this is no journal, or it is damaged: {error.message}; {fix}",
                path=self.path,
                where=f"line {len(records) + 1}",
            ) from None
        if not records or records[0].pop("version", None) != VERSION:
            raise FormatError(f"this is no journal of version {VERSION}; {fix}", path=self.path)
        return records, sum(map(len, lines)) + len(lines)

    def _remove_attempt(self, out: Path, disposable: Collection[str]) -> None:
        """Remove what an attempt without a finished step left."""
        for name in disposable:
            path = out / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.path.unlink()
        log.info("%s has no finished shard; starting anew with the changed sources, options or tokenizer", out)


def refuse_foreign(out: Path) -> None:
    """Refuse a folder with files in it that a new output could be mixed up with."""
    names = sorted(name for name in os.listdir(out) if name != _LOCK)
    if names:
        some = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        raise ValueError(
            f"the output folder {out} is not empty ({some}) and has neither a journal nor a manifest of shards; name a "
            "new folder, or empty this one"
        )


def refuse_difference(out: Path, before: Mapping[str, Any], now: Mapping[str, Any], used: int | None = None) -> None:
    """Raise ValueError, which names the difference, unless an output folder was begun with this header.

    Of the sources' files, only the first `used` are compared, and of their options only those that changed what has
    been read of them; None compares everything.
    """
    for name in now:
        old, new = before.get(name), now[name]
        if name == "modified" and isinstance(old, list):
            old, new = old[:used], new[:used]
        elif name == "sources" and isinstance(old, dict):
            old, new = _select_used(match_names(old, new), old, used), _select_used(new, old, used)
        if old == new:
            continue
        raise ValueError(
            f"{out} was made {_describe_difference(name, old, new)}; use the same sources, options and "
            "tokenizer, name another folder, or remove this one"
        )


def _select_used(plan: Mapping[str, Any], before: Mapping[str, Any], used: int | None) -> dict[str, Any]:
    """What of a plan of sources (`Sources.plan`) determines the finished steps, if they were begun with `before`."""
    kept = dict(plan)
    files = plan.get("files")
    if isinstance(files, list):
        kept["files"] = files[:used]
    if used is not None and before.get("on_error") == "raise":  # so that nothing bad was in what was read
        kept.pop("on_error", None)
        if before.get("encoding_errors") == "strict":
            kept.pop("encoding_errors", None)
    return kept


def match_names(plan: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A plan of sources with the names that another one has for the same files, such as "mv" for "./mv"."""
    files, others = plan.get("files"), other.get("files")
    if not isinstance(files, list) or not isinstance(others, list):
        return dict(plan)
    names = [
        [new[0], *old[1:]] if isinstance(old, list) and old and _is_same_file(old[0], new[0]) else old
        for old, new in zip(files, others, strict=False)
    ]
    return {**plan, "files": names + files[len(names) :]}


def _is_same_file(name: object, other: str) -> bool:
    if not isinstance(name, str) or any("://" in path or "\0" in path for path in (name, other)):
        return name == other
    return os.path.realpath(name) == os.path.realpath(other)


def _describe_difference(name: str, before: Any, now: Any) -> str:
    """The difference between two values of a header's entry, in words."""
    if name == "options" and isinstance(before, dict):
        changed = [key for key in now if before.get(key) != now[key]]
        pairs = [f"{key} was {short_repr(before.get(key))} and is {short_repr(now[key])}" for key in changed]
        return f"with other options: {'; '.join(pairs)}"
    if name == "modified":
        return "from other sources: a file has been modified since"
    if name == "tokenizer":
        old, new = (f"{str(fingerprint)[:12]}…" for fingerprint in (before, now))
        return f"with another tokenizer: the tokenizer's fingerprint was {old} and is {new}"
    return f"from other sources: {_describe_source_difference(before, now)}"


def _describe_source_difference(before: Any, now: Any) -> str:
    """The first difference between two plans of sources (`Sources.plan`)."""
    if not isinstance(before, dict):
        return "the plan of the sources is unknown"
    key = next((key for key in [*now, *before] if before.get(key) != now.get(key)), None)
    if key is None:
        return "the plan of the sources has other fields"
    old, new = before.get(key), now.get(key)
    if key != "files" or not isinstance(old, list):
        return f"{key} was {short_repr(old)} and is {short_repr(new)}"
    for index, (one, other) in enumerate(zip(old, new, strict=False), 1):
        for what, was, is_ in zip(_FILE_FACTS, one if isinstance(one, list) else [one], other, strict=False):
            if was != is_:
                subject = f"file {index}" if what == "name" else f"the {what} of {short_repr(other[0], 200)}"
                return f"{subject} was {short_repr(was, 200)} and is {short_repr(is_, 200)}"
    return f"there were {pluralize(len(old), 'file')}, and there are {len(new)} now"


def _spell_line(record: Mapping[str, Any]) -> bytes:
    """A record as a line with its checksum."""
    return json.dumps({**record, "crc32": _hash_record(record)}, separators=(",", ":")).encode() + b"\n"


def _parse_record(line: bytes) -> dict[str, Any]:
    """The record of a line, without its checksum, which must be right."""
    record = load(line)
    if not isinstance(record, dict):
        raise FormatError(f"the record is {short_repr(record)}; it must be an object")
    given, expected = record.pop("crc32", None), _hash_record(record)
    if given != expected:
        raise FormatError(f"its crc32 is {short_repr(given)}, and the record's is {short_repr(expected)}")
    return record


def _hash_record(record: Mapping[str, Any]) -> str:
    """The checksum of a record, which does not depend on spaces."""
    return f"{zlib.crc32(json.dumps(record, separators=(',', ':')).encode()):08x}"
