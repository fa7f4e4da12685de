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

A lock (`flock`) on the file `.bpe-lock` keeps other processes out. `journal_checks.py` checks that the steps fit the
files and the sources.
"""

from __future__ import annotations

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
from bpe.errors import (
    FormatError,
    add_file_name,
    get_log,
    ignore_system_errors,
    pluralize,
    raise_if_of_signal_handler,
    short_repr,
)
from bpe.formats.schema import parse_json

fcntl: Any  # None on Windows
try:
    import fcntl
except ImportError:
    fcntl = None

log = get_log()

JOURNAL_NAME = "journal.jsonl"
VERSION = 2
#: The largest accepted size of the file in bytes. Its objects take up to 29 times as much, so set
#: `bpe.data.journal.max_journal_bytes` lower where strangers write to the folder.
max_journal_bytes = 1 << 30
_LOCK_NAME = ".bpe-lock"
_TEMPORARY_NAME = re.compile(r"\..+\.bpe-[0-9a-f]{16}\.tmp")
_MAX_LISTED_NAMES = 3
#: The number of Windows's error for a file that another process has open.
_SHARING_VIOLATION = 32
#: The arguments, and the command's options, that the recorded options have another name for.
_ARGUMENT_NAMES = {
    "shuffle": "seed (--shuffle)",
    "allow_special": "allowed_special (--allow-special)",
    "part": "part (rank=, world=, --part)",
}
#: The facts of a file in `Sources.plan`.
_FILE_FACTS = ("name", "size", "format", "compression")

#: The entry of a plan of sources with the folder that relative names were given in, as a path from the output folder.
BASE = "base"

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
    descriptor = _lock(out) if fcntl is not None else _lock_on_windows(out)
    try:
        yield
    finally:
        with ignore_system_errors():
            os.unlink(out / _LOCK_NAME)  # while the lock is held: see `_lock`
        os.close(descriptor)


def _make_busy_error(out: Path) -> ValueError:
    return ValueError(f"another process is writing to {out}; wait until it ends, or name another folder")


def _lock_on_windows(out: Path) -> int:
    """Lock the folder by a file that the system removes with its descriptor, which is returned, and nobody before."""
    path, removed_at_close = out / _LOCK_NAME, getattr(os, "O_TEMPORARY", 0)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)  # there after a crash of the machine; one that is open is not removed
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | removed_at_close, 0o666)
    except OSError as error:
        if isinstance(error, FileExistsError) or getattr(error, "winerror", None) == _SHARING_VIOLATION:
            raise _make_busy_error(out) from None
        raise


def _lock(out: Path) -> int:
    """Lock the folder; returns the lock's descriptor."""
    path = out / _LOCK_NAME
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise _make_busy_error(out) from None
        except OSError as error:  # a file system without locks
            raise_if_of_signal_handler(error)
            return descriptor
        if os.fstat(descriptor).st_nlink:  # else the file was removed by its owner after it was opened here
            return descriptor
        os.close(descriptor)


def remove_temporary_files(out: Path) -> None:
    """Remove the temporary files that killed processes have left. The folder must be locked."""
    for name in os.listdir(out):
        if _TEMPORARY_NAME.fullmatch(name):
            with suppress(FileNotFoundError):
                os.unlink(out / name)


class Journal:
    """The journal of one output folder. The constructor reads an existing journal, or begins a new one.

    Args:
        out: the output folder, locked.
        header: all that determines the output, name → JSON value, as a run that reads it back has it. A journal with
            another header is refused, unless no step is finished: then the output begins anew. Of the files of the
            sources, only those count that finished steps have used.
        disposable_names: names of files that an attempt without a finished step may leave.
        allow_other_files: whether a new output may go to a folder with other files.
        fingerprint_beginning: makes, for a step, a fingerprint of the documents before the position in the file that
            reading goes on in. It is compared, if that file has changed, with the one that `record_beginning` recorded.

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
        disposable_names: Collection[str] = (),
        *,
        allow_other_files: bool = False,
        fingerprint_beginning: Callable[[dict[str, Any]], list[Any] | None] | None = None,
    ) -> None:
        self.path = out / JOURNAL_NAME
        self._fingerprint_beginning = fingerprint_beginning
        self.steps: list[dict[str, Any]] = []
        self._header = dict(header)
        remove_temporary_files(out)
        if not os.path.lexists(self.path):
            if not allow_other_files:
                refuse_nonempty_folder(out)
            self._write()
        elif not self._resume(out, disposable_names):
            self._remove_attempt(out, disposable_names)
            self._write()
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))

    def _write(self) -> None:
        """Write the header and the steps."""
        with atomic_write(self.path) as file:
            for record in ({"version": VERSION, **self._header}, *self.steps):
                file.write(_format_line(record))

    def count_shards(self) -> int:
        """Count the finished shards."""
        return sum(len(step.get("shards", ())) for step in self.steps)

    def append(self, step: dict[str, Any]) -> None:
        """Record a finished step; it is on the disk when this returns."""
        data = _format_line(step)
        try:
            sync_folder(self.path.parent)
            size = os.fstat(self._descriptor).st_size
            try:
                while data:  # a write may be short
                    data = data[os.write(self._descriptor, data) :]
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, size)
                raise
        except OSError as error:
            raise add_file_name(error, str(self.path)) from None
        self.steps.append(json.loads(json.dumps(step)))  # as a run that reads it back has it

    def record_beginning(self) -> None:
        """Record how the file begins in which reading goes on, since a file with a bad record may be mended."""
        beginning = (
            self._fingerprint_beginning(self.steps[-1])
            if self.steps and self._fingerprint_beginning is not None
            else None
        )
        if beginning is not None:
            self._header["beginning"] = beginning
            with ignore_system_errors():  # the error of the file is the one to raise
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

    def _resume(self, out: Path, disposable_names: Collection[str]) -> bool:
        """Read the journal; False if it has another header, no step is finished, and all files are disposable."""
        records, size = self._read(out)
        old_header, steps = records[0], records[1:]
        n_used_files = steps[-1].get("used") if steps else None
        try:
            adopted_header = self._adopt_mended_file(old_header, steps)
            check_same_header(
                out, adopted_header, self._header, n_used_files if isinstance(n_used_files, int) else None
            )
        except ValueError:
            if steps or not {*os.listdir(out)} <= {JOURNAL_NAME, _LOCK_NAME, *disposable_names}:
                raise
            return False
        self.steps = steps
        if old_header != self._header:  # files that no step has used
            self._write()
        elif size < self.path.stat().st_size:
            os.truncate(self.path, size)
        return True

    def _adopt_mended_file(self, old_header: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the old header; if the file that reading goes on in begins alike, with that file's new size and time.

        So a file that was mended after its bad record stopped a run is no other source.
        """
        beginning = old_header.get("beginning")
        if not (
            steps
            and isinstance(beginning, list)
            and beginning
            and type(beginning[0]) is int
            and self._fingerprint_beginning
        ):
            return old_header
        index = beginning[0]
        adopted_header: dict[str, Any] = json.loads(json.dumps(old_header))
        try:
            old, new = (
                (header["sources"]["files"][index], header["modified"]) for header in (adopted_header, self._header)
            )
            if (old[0], old[1][index]) == (new[0], new[1][index]) or self._fingerprint_beginning(
                steps[-1]
            ) != beginning:
                return old_header
            old[0][1], old[1][index] = new[0][1], new[1][index]
        except (LookupError, TypeError):
            return old_header
        return adopted_header

    def _read(self, out: Path) -> tuple[list[dict[str, Any]], int]:
        """Read the header and the steps, and the bytes that they take: an incomplete line after them is left out."""
        fix = f"to start over, remove {out}"
        if not self.path.is_file() or self.path.stat().st_size > max_journal_bytes:
            raise FormatError(
                f"this is no journal: it is no file of at most {max_journal_bytes} bytes "
                f"(bpe.data.journal.max_journal_bytes); {fix}",
                path=self.path,
            )
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

    def _remove_attempt(self, out: Path, disposable_names: Collection[str]) -> None:
        """Remove what an attempt without a finished step left."""
        for name in disposable_names:
            path = out / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.path.unlink()
        log.info("%s has no finished shard; starting anew with the changed sources, options or tokenizer", out)


def refuse_nonempty_folder(out: Path) -> None:
    """Refuse a folder with files in it that a new output could be mixed up with."""
    names = sorted(name for name in os.listdir(out) if name != _LOCK_NAME)
    if names:
        listed_names = ", ".join(names[:_MAX_LISTED_NAMES]) + (", …" if len(names) > _MAX_LISTED_NAMES else "")
        raise ValueError(
            f"the output folder {out} is not empty ({listed_names}) and has neither a journal nor a manifest of "
            "shards; name a new folder, or empty this one"
        )


def check_same_header(
    out: Path, old_header: Mapping[str, Any], new_header: Mapping[str, Any], n_used_files: int | None = None
) -> None:
    """Raise ValueError, which names the difference, unless an output folder was begun with this header.

    Of the sources' files, only the first `n_used_files` are compared, and of their options only those that changed what
    has been read of the files; None compares everything.
    """
    for name in new_header:
        old, new = old_header.get(name), new_header[name]
        if name == "modified" and isinstance(old, list):
            old, new = old[:n_used_files], new[:n_used_files]
        elif name == "sources" and isinstance(old, dict):
            used_new = _select_used_plan(new, old, n_used_files)
            old, new = _select_used_plan(match_names(old, new, out), old, n_used_files), used_new
        if old == new:
            continue
        raise ValueError(
            f"{out} was made {_describe_difference(name, old, new)}; use the same sources, options and "
            "tokenizer, name another folder, or remove this one"
        )


def _select_used_plan(plan: Mapping[str, Any], old_plan: Mapping[str, Any], n_used_files: int | None) -> dict[str, Any]:
    """Select what of a plan of sources (`Sources.plan`) determines steps that were begun with `old_plan`."""
    used_plan = dict(plan)
    files = plan.get("files")
    if isinstance(files, list):
        used_plan["files"] = files[:n_used_files]
    if n_used_files is not None and old_plan.get("on_error") == "skip" and plan.get("on_error") == "skip_files":
        used_plan["on_error"] = "skip"  # no file that was read was damaged
    if n_used_files is not None and old_plan.get("on_error") == "raise":  # so that nothing bad was in what was read
        used_plan.pop("on_error", None)
        if old_plan.get("encoding_errors") == "strict":
            used_plan.pop("encoding_errors", None)
    return used_plan


def match_names(plan: Mapping[str, Any], other_plan: Mapping[str, Any], out: Path = Path()) -> dict[str, Any]:
    """Give a plan of the sources of `out` the names that another one has for the same files, as "mv" for "./mv".

    Other files get other names: their paths, where both plans have the same name for them.
    """
    files, other_files = plan.get("files"), other_plan.get("files")
    if not isinstance(files, list) or not isinstance(other_files, list):
        return dict(plan)
    has_same_base = plan.get(BASE) == other_plan.get(BASE)
    names = []
    for old, new in zip(files, other_files, strict=False):
        if not (isinstance(old, list) and old and isinstance(old[0], str)) or (has_same_base and old[0] == new[0]):
            names.append(old)
            continue
        path, name = find_source(old[0], plan, out), old[0]
        if path == find_source(new[0], other_plan, out):
            name = new[0]
        elif name == new[0]:
            name = path
        names.append([name, *old[1:]])
    matched_plan = {key: value for key, value in plan.items() if key != BASE}
    if BASE in other_plan:
        matched_plan[BASE] = other_plan[BASE]
    return {**matched_plan, "files": names + files[len(names) :]}


def record_base(plan: dict[str, Any], out: Path) -> dict[str, Any]:
    """Add to the plan of the sources of `out` the current folder, if there are relative names."""
    names = [file[0] for file in plan["files"] if file[1] is not None]
    if all("://" in name or os.path.isabs(name) for name in names):
        return plan
    try:
        base = os.path.relpath(os.path.realpath(os.curdir), os.path.realpath(out))
    except ValueError:  # another drive of Windows
        base = os.path.realpath(os.curdir)
    base = base.replace(os.sep, "/")
    has_surrogates = any("\ud800" <= char <= "\udfff" for char in base)  # bytes that are no UTF-8
    return plan if has_surrogates else {**plan, BASE: base}


def move_base(plan: dict[str, Any], old_out: Path, new_out: Path) -> dict[str, Any]:
    """Return the plan of the sources of shards for other shards in another folder."""
    if not isinstance(plan.get(BASE), str):
        return plan
    base = os.path.join(os.path.realpath(old_out), plan[BASE])
    with suppress(ValueError):  # another drive of Windows
        base = os.path.relpath(os.path.realpath(base), os.path.realpath(new_out))
    return {**plan, BASE: base.replace(os.sep, "/")}


def join_base(name: str, plan: Mapping[str, Any], out: Path) -> str:
    """Return a name in the plan of the sources of `out` for use in the current folder: the name, or a whole path."""
    base = plan.get(BASE)
    if not isinstance(base, str) or any("://" in path or "\0" in path for path in (name, base)):
        return name
    path = os.path.join(os.path.normpath(os.path.join(os.path.realpath(out), base)), name)
    return name if os.path.realpath(path) == os.path.realpath(name) else path


def find_source(name: str, plan: Mapping[str, Any], out: Path) -> str:
    """Find the real path of a file in the plan of the sources of `out`.

    Where it is not there, as after `out` was moved, the name is taken in the current folder.
    """
    path = join_base(name, plan, out)
    if "://" in path or "\0" in path:
        return path
    return os.path.realpath(path if os.path.lexists(path) else name)


def _describe_difference(name: str, old_value: Any, new_value: Any) -> str:
    """Describe the difference between two values of a header's entry, in words."""
    if name == "options" and isinstance(old_value, dict):
        pairs = [(key, old_value.get(key), value) for key, value in new_value.items() if old_value.get(key) != value]
        changes = (
            f"{_ARGUMENT_NAMES.get(key, key)} was {short_repr(old)} and is {short_repr(new)}" for key, old, new in pairs
        )
        return f"with other options: {'; '.join(changes)}"
    if name == "modified":
        return "from other sources: a file has been modified since"
    if name == "tokenizer":
        old, new = (f"{str(fingerprint)[:12]}…" for fingerprint in (old_value, new_value))
        return f"with another tokenizer: the tokenizer's fingerprint was {old} and is {new}"
    return f"from other sources: {_describe_source_difference(old_value, new_value)}"


def _describe_source_difference(old_plan: Any, new_plan: Any) -> str:
    """Describe the first difference between two plans of sources (`Sources.plan`)."""
    if not isinstance(old_plan, dict):
        return "the plan of the sources is unknown"
    key = next((key for key in [*new_plan, *old_plan] if old_plan.get(key) != new_plan.get(key)), None)
    if key is None:
        return "the plan of the sources has other fields"
    old, new = old_plan.get(key), new_plan.get(key)
    if key != "files" or not isinstance(old, list):
        return f"{_ARGUMENT_NAMES.get(key, key)} was {short_repr(old)} and is {short_repr(new)}"
    for index, (old_file, new_file) in enumerate(zip(old, new, strict=False), 1):
        for fact, old_fact, new_fact in zip(
            _FILE_FACTS, old_file if isinstance(old_file, list) else [old_file], new_file, strict=False
        ):
            if old_fact != new_fact:
                subject = f"file {index}" if fact == "name" else f"the {fact} of {short_repr(new_file[0], 200)}"
                return f"{subject} was {short_repr(old_fact, 200)} and is {short_repr(new_fact, 200)}"
    return f"there were {pluralize(len(old), 'file')}, and there are {len(new)} now"


def _format_line(record: Mapping[str, Any]) -> bytes:
    """Write a record as a line with its checksum."""
    text = _to_json(record)
    return f'{text[:-1]},"crc32":"{_hash_json(text)}"}}\n'.encode()


def _parse_record(line: bytes) -> dict[str, Any]:
    """Parse the record of a line, and check and remove its checksum."""
    record = parse_json(line)
    if not isinstance(record, dict):
        raise FormatError(f"the record is {short_repr(record)}; it must be an object")
    recorded_crc, expected_crc = record.pop("crc32", None), _hash_json(_to_json(record))
    if recorded_crc != expected_crc:
        raise FormatError(f"its crc32 is {short_repr(recorded_crc)}, and the record's is {short_repr(expected_crc)}")
    return record


def _to_json(record: Mapping[str, Any]) -> str:
    """Write a record as JSON without spaces, on which its checksum does not depend."""
    return json.dumps(record, separators=(",", ":"))


def _hash_json(text: str) -> str:
    """Compute the checksum of the JSON of a record."""
    return f"{zlib.crc32(text.encode()):08x}"
