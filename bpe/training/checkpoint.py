"""Training checkpoints: resume an interrupted training, and refuse to resume a different one.

A checkpoint at `path` is two files, each replaced whole or not at all. `path` holds the merges so far, the options and
the description of the corpus that determine the result, and a fingerprint of the counts. `path` + ".counts" holds the
counts of files in the format of `WordCounts.save`. The first is written before counting, without merges. While files
are counted, the counts of those read so far are written every `SAVE_EVERY` seconds, with the position where reading
goes on; at the end all counts are. Then the first file is rewritten every `SAVE_EVERY` seconds. While it has no merges,
other options than those that the counts depend on may change, and without counts any: it holds nothing of them.

Layout of `path`, little-endian: the 8 bytes BPETRAIN, a uint32 version (1), a uint64 length and as many bytes of JSON,
the merges as int64 (left, right, token, count), and the SHA-256 of everything before it.

`trainer.replay` learns the saved merges again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.atomic_files import remove_leftovers
from bpe.corpus.blocks import PathLike, Position
from bpe.corpus.sources import Sources
from bpe.count.counting import PartialCounts
from bpe.count.files import SealedFormat
from bpe.count.word_counts import UNITS, WordCounts, arrays_of, empty_like, fill, read_counts, write_counts
from bpe.errors import FormatError, describe, get_log, pluralize, short_repr

#: Merges in order: int64, shape (n, 4), each left, right, token, count. Tokens are numbered from 0.
Merges = NDArray[np.int64]

FORMAT = SealedFormat(
    b"BPETRAIN",
    "a checkpoint",
    "the checkpoint is truncated or altered; delete it",
    ": use the release that wrote it, or delete it to start over",
)
#: Seconds between two saves of the merges.
SAVE_EVERY = 30.0
#: Counting goes on for this many times the seconds that saving its counts has taken, if that is longer.
PAUSE_PER_SAVING = 20
START_OVER = "to start over, delete it or name another checkpoint"

log = get_log()


class Checkpoint:
    """The checkpoint of one training. The constructor reads an existing file, or writes a new one.

    Args:
        path: the file.
        options: the options that determine the result, name → JSON value. A checkpoint with other options is refused.
        files: the corpus as `identify_files` describes it, or None if the counts do not come from regular files.
        counting: the names of the options that the counts depend on.

    Attributes:
        merges: the merges so far.

    Raises:
        ValueError: for a checkpoint of other options or of another corpus, or a folder that does not exist.
        FormatError: for a file that is not a checkpoint, is truncated or altered.

    """

    def __init__(
        self,
        path: PathLike,
        options: Mapping[str, Any],
        files: list[list[Any]] | None = None,
        counting: Iterable[str] = (),
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"checkpoint is {describe(path)}; it must be a path or None")
        self.path = os.fspath(path)
        self.counts_path = f"{self.path}.counts"
        self.merges: Merges = np.empty((0, 4), dtype=np.int64)
        self._header: dict[str, Any] = {"options": dict(options), "files": files, "counts": None}
        self._counting = frozenset(counting)
        self._has_counts = False  # whether the file of counts exists and matches the fingerprint
        self._held: PartialCounts | None = None  # the counts of a part of the files
        self._saved, self._pause = time.monotonic(), SAVE_EVERY
        if not Path(self.path).parent.is_dir():
            raise ValueError(f"the checkpoint's folder {Path(self.path).parent} does not exist; make it first")
        for each in (self.path, self.counts_path):
            if os.path.exists(each) and not os.path.isfile(each):
                raise OSError(errno.EINVAL, "it is no regular file, which a checkpoint is; name another", each)
            remove_leftovers(each)  # now, since the disk space may be needed before the next write
        if os.path.exists(self.path):
            self._read()
        elif files is not None and os.path.exists(self.counts_path):
            raise ValueError(
                f"{self.counts_path} exists without its checkpoint {self.path}, and would be replaced; delete it or "
                "name another checkpoint"
            )
        else:
            self.save(self.merges)  # fails now rather than after hours of counting

    # The counts -------------------------------------------------------------------------------------------------------

    def counts(self) -> WordCounts | None:
        """The saved counts of this training's files, or None if the files must be counted."""
        expected = self._header["counts"]
        if expected is None or self._header["files"] is None or not os.path.exists(self.counts_path):
            return None
        try:
            counts = WordCounts.load(self.counts_path)
        except (OSError, FormatError) as error:
            log.warning("the counts of the checkpoint cannot be used, so the files are counted again: %s", error)
            return None
        if not _is_current(counts):
            log.warning(
                "the counts of the checkpoint were made with Unicode %s, so the files are counted again",
                counts.unicode_version,
            )
            return None
        self._has_counts = fingerprint(counts) == expected
        return counts if self._has_counts else None

    def take_partial_counts(self) -> PartialCounts | None:
        """The counts of a part of this training's files, which an interrupted one saved."""
        held, self._held = self._held, None
        return held

    def due(self) -> bool:
        """Whether it is time to save the counts of the files read so far."""
        return time.monotonic() - self._saved >= self._pause

    def save_counts(self, settings: WordCounts, counted: PartialCounts) -> None:
        """Save the counts of the files read so far. An OSError such as a full disk is logged, and counting goes on."""
        began, place = time.monotonic(), counted.position
        assert place is not None
        part = empty_like(settings)
        fill(part, counted.words)
        unfinished = [place.file, place.offset, place.documents, counted.skipped, counted.bytes]
        try:
            write_counts(part, self.counts_path, unfinished)
        except OSError as error:
            log.warning("the counts so far could not be saved in %s: %s", self.counts_path, error)
        self._saved = time.monotonic()
        self._pause = max(SAVE_EVERY, PAUSE_PER_SAVING * (self._saved - began))

    def begin(self, counts: WordCounts) -> None:
        """Record the counts to train on, and save them if they come from files and are not saved yet.

        Raises:
            ValueError: if the merges in the checkpoint were learned from other counts.

        """
        current = self._header["counts"] if self._has_counts else fingerprint(counts)
        if self._header["counts"] not in (None, current):
            raise ValueError(f"the checkpoint {self.path} is of another corpus: its word counts differ; {START_OVER}")
        if self._header["files"] is not None and not self._has_counts:
            counts.save(self.counts_path)
        self._header["counts"] = current
        self.save(self.merges)

    # The merges -------------------------------------------------------------------------------------------------------

    def save_if_due(self, merges: Callable[[], Merges]) -> None:
        """Save the result of merges() if the last save was SAVE_EVERY seconds ago."""
        if time.monotonic() - self._saved >= SAVE_EVERY:
            self.try_save(merges())

    def try_save(self, merges: Merges) -> None:
        """Save the merges. An OSError such as a full disk is logged and does not end the training."""
        try:
            self.save(merges)
        except OSError as error:
            self._saved = time.monotonic()
            log.warning("the checkpoint %s could not be saved: %s", self.path, error)

    def save(self, merges: Merges) -> None:
        """Save the merges now."""
        FORMAT.write(self.path, self._header | {"merges": len(merges)}, [merges.astype("<i8").tobytes()])
        self._saved = time.monotonic()

    def _read(self) -> None:
        header, merges = _read_checkpoint(self.path)
        ours, theirs = self._header["files"], header["files"]
        if len(merges):
            self._refuse_others(header)
        elif ours is not None and theirs is not None and os.path.exists(self.counts_path):
            self._held = None if header["counts"] is not None else self._read_partial_counts()
            if self._held is not None:  # the files that it was not made of may have been mended since
                place = self._held.position
                assert place is not None
                used = place.file + bool(place.offset or place.documents)
                header["files"] = [*theirs[:used], *ours[used:]]
            if self._held is not None or header["counts"] is not None:
                self._refuse_others(header, self._counting)
        else:
            header["counts"] = None
        self._header["counts"] = header["counts"]
        self.merges = merges
        if (header["options"], theirs) != (self._header["options"], ours):
            self.save(merges)  # now, so that counts saved from now on are known to be of these options

    def _read_partial_counts(self) -> PartialCounts | None:
        """The counts of a part of the files; None where there are none that can be used."""
        try:
            counts, place = read_counts(self.counts_path)
        except (OSError, FormatError) as error:
            log.warning("the counts so far of the checkpoint cannot be used, so all files are counted: %s", error)
            return None
        if place is None or not _is_place(place) or not _is_current(counts):
            return None
        return PartialCounts(arrays_of(counts), Position(*place[:3]), *place[3:])

    def _refuse_others(self, found: Mapping[str, Any], names: Container[str] | None = None) -> None:
        """Raise ValueError for the first option that differs, of those with these names, or the first file."""
        before, now = found["options"], self._header["options"]
        for name in {**now, **before}:
            ours, theirs = now.get(name), before.get(name)
            if ours != theirs and (names is None or name in names):
                raise ValueError(
                    f"the checkpoint {self.path} was made with {name}={short_repr(theirs)}, but "
                    f"{name}={short_repr(ours)} is requested; pass the same value to resume it; {START_OVER}"
                )
        if found["files"] is None or self._header["files"] is None:
            return  # `begin` compares the counts
        for was, is_ in zip(found["files"], self._header["files"], strict=False):
            if was != is_:
                raise ValueError(
                    f"the checkpoint {self.path} is of another corpus: it has file {_describe_file(was)}, and now "
                    f"there is {_describe_file(is_)}; {START_OVER}"
                )
        if len(found["files"]) != len(self._header["files"]):
            raise ValueError(
                f"the checkpoint {self.path} is of another corpus: of {pluralize(len(found['files']), 'file')}, not of "
                f"{len(self._header['files'])}; {START_OVER}"
            )


def _is_current(counts: WordCounts) -> bool:
    """Whether counts were made with this release's Unicode."""
    return counts.pretokenizer is None or counts.unicode_version == counts.pretokenizer.unicode_version


def _is_place(value: Any) -> bool:
    """Whether a value is what `Checkpoint.save_counts` writes of a count that is unfinished."""
    return isinstance(value, list) and len(value) == 5 and all(type(each) is int and each >= 0 for each in value)


def read_progress(path: PathLike) -> tuple[int, str]:
    """(The number of merges in a checkpoint, the counts in words: none, those so far, or all)."""
    try:
        header, merges = _read_checkpoint(path)
    except (OSError, FormatError):
        return 0, ""
    if not os.path.exists(f"{os.fspath(path)}.counts"):
        return len(merges), ""
    return len(merges), "the word counts so far" if header["counts"] is None else "the word counts"


def _read_checkpoint(path: PathLike) -> tuple[dict[str, Any], Merges]:
    """(The header, the merges) of a checkpoint."""
    head, data = FORMAT.read(path)
    try:
        header = json.loads(head)
        merges = np.frombuffer(data, dtype="<i8").reshape(-1, 4)
        if len(merges) != header["merges"] or not isinstance(header["options"], dict):
            raise ValueError(f"header declares merges={short_repr(header['merges'])}; the file has {len(merges)}")
        if not _are_files(header["files"]) or not isinstance(header["counts"], (str, type(None))):
            raise ValueError(f"files is {short_repr(header['files'])}, and counts {short_repr(header['counts'])}")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the header is not valid: {error}; delete the file to start over", path=path) from None
    return header, merges.astype(np.int64)


def _are_files(files: Any) -> bool:
    """Whether a header's `files` has the form of `identify_files`'s result."""
    return files is None or (
        isinstance(files, list)
        and all(isinstance(each, list) and [type(part) for part in each] == [str, int, int] for each in files)
    )


def identify_files(sources: object) -> list[list[Any]] | None:
    """Identify files without reading them: [name, size, time of the last change in ns] of each.

    None for texts and counts, and if a file is not regular: text from a pipe or another machine is identified by its
    counts only.
    """
    if not isinstance(sources, Sources) or not sources.regular:
        return None
    states = [(file.name, os.stat(file.name)) for file in sources.files]
    return [[name, state.st_size, state.st_mtime_ns] for name, state in states]


def _describe_file(file: list[Any]) -> str:
    name, size, changed = file
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(changed / 1e9))
    return f"{name!r} of {pluralize(size, 'byte')}, last changed {when} UTC"


def count_settings(counts: WordCounts) -> dict[str, Any]:
    """The settings that counts were made with: name → JSON value."""
    return {
        "pretokenizer": None if counts.pretokenizer is None else counts.pretokenizer.to_json(),
        "normalizer": None if counts.normalizer is None else counts.normalizer.to_json(),
        "counted_special_tokens": list(counts.special_tokens),
        **({} if counts.units == UNITS[0] else {"units": counts.units}),
    }


def fingerprint(counts: WordCounts) -> str:
    """SHA-256 in hex of all words, their counts and their order, and the settings that the counts were made with."""
    blob, offsets, numbers = arrays_of(counts)
    digest = hashlib.sha256(json.dumps(count_settings(counts), sort_keys=True).encode())
    for array, dtype in ((offsets, "<i8"), (numbers, "<i8"), (blob, "u1")):
        digest.update(np.ascontiguousarray(array, dtype=dtype).data)
    return digest.hexdigest()
