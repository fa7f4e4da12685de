"""Training checkpoints: resume an interrupted training, and refuse to resume a different one.

A checkpoint at `path` is two files, each replaced whole or not at all. `path` holds the merges so far, the options and
the description of the corpus that determine the result, and a fingerprint of the counts. `path` + ".counts" holds the
counts of files in the format of `WordCounts.save`. The first is written before counting, without merges. While files
are counted, the counts of those read so far are written every `SAVE_EVERY` seconds, with the position where reading
goes on; at the end all counts are. Then the first file is rewritten every `SAVE_EVERY` seconds. Until there are merges,
options that the counts do not depend on may change; until there are counts, all may.

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
from bpe.corpus._listing import FileMeasurer
from bpe.corpus.blocks import PathLike, Position
from bpe.corpus.sources import Sources
from bpe.corpus.streams import read_stamp
from bpe.count.counting import PartialCounts
from bpe.count.sealed_files import SealedFormat
from bpe.count.word_counts import (
    DOCUMENTS,
    WordCounts,
    borrow_arrays,
    empty_like,
    fill_counts,
    read_counts,
    write_counts,
)
from bpe.errors import FormatError, describe, get_log, pluralize, raise_if_of_signal_handler, short_repr

#: Merges in order: int64, shape (n, 4), each left, right, token, count. Tokens are numbered from 0.
Merges = NDArray[np.int64]

CHECKPOINT_FORMAT = SealedFormat(
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
#: What the name of a checkpoint's second file ends in, and the names of those of a second stage.
COUNTS_SUFFIX, SECOND_STAGE_SUFFIX = ".counts", ".stage2"


class Checkpoint:
    """The checkpoint of one training. The constructor reads an existing file, or writes a new one.

    Args:
        path: the file.
        options: the options that determine the result, name → JSON value. A checkpoint with other options is refused.
        files: the corpus as `identify_files` describes it, or None if the counts do not come from regular files.
        count_option_names: the names of the options that the counts depend on.

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
        count_option_names: Iterable[str] = (),
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"checkpoint is {describe(path)}; it must be a path or None")
        self.path = os.fspath(path)
        self.counts_path = self.path + COUNTS_SUFFIX
        self.merges: Merges = np.empty((0, 4), dtype=np.int64)
        self._header: dict[str, Any] = {"options": dict(options), "files": files, "counts": None}
        self._count_option_names = frozenset(count_option_names)
        self._has_counts = False  # whether the file of counts exists and matches the fingerprint
        self._partial_counts: PartialCounts | None = None  # the counts of a part of the files
        self._last_save, self._save_interval = time.monotonic(), SAVE_EVERY
        if not Path(self.path).parent.is_dir():
            raise ValueError(f"the checkpoint's folder {Path(self.path).parent} does not exist; make it first")
        for file_path in (self.path, self.counts_path):
            if os.path.exists(file_path) and not os.path.isfile(file_path):
                raise OSError(errno.EINVAL, "it is no regular file, which a checkpoint is; name another", file_path)
            remove_leftovers(file_path)  # now, since the disk space may be needed before the next write
        if os.path.exists(self.path):
            self._read()
        elif files is not None and os.path.exists(self.counts_path):
            raise ValueError(
                f"{self.counts_path} exists without its checkpoint {self.path}, and would be replaced; delete it or "
                "name another checkpoint"
            )
        else:
            self.save_merges(self.merges)  # fails now rather than after hours of counting

    # The counts -------------------------------------------------------------------------------------------------------

    def load_counts(self) -> WordCounts | None:
        """Load the saved counts of this training's files, or None if the files must be counted."""
        expected = self._header["counts"]
        if expected is None or self._header["files"] is None or not os.path.exists(self.counts_path):
            return None
        try:
            counts = WordCounts.load(self.counts_path)
        except (OSError, FormatError) as error:
            raise_if_of_signal_handler(error)
            log.warning("the counts of the checkpoint cannot be used, so the files are counted again: %s", error)
            return None
        if not _is_current(counts):
            log.warning(
                "the counts of the checkpoint were made with Unicode %s, so the files are counted again",
                counts.unicode_version,
            )
            return None
        self._has_counts = compute_fingerprint(counts) == expected
        return counts if self._has_counts else None

    def take_partial_counts(self) -> PartialCounts | None:
        """Take the counts of a part of this training's files, which an interrupted one saved."""
        counts, self._partial_counts = self._partial_counts, None
        return counts

    def is_counts_save_due(self) -> bool:
        """Whether it is time to save the counts of the files read so far."""
        return time.monotonic() - self._last_save >= self._save_interval

    def save_partial_counts(self, like: WordCounts, partial_counts: PartialCounts) -> None:
        """Save the counts of the files read so far. An OSError such as a full disk is logged, and counting goes on."""
        start_time, position = time.monotonic(), partial_counts.resume_position
        assert position is not None
        counts = empty_like(like)
        fill_counts(counts, partial_counts.words)
        resume_state = [
            position.file_index,
            position.offset,
            position.documents_to_skip,
            partial_counts.n_bad_records,
            partial_counts.n_bytes,
        ]
        try:
            write_counts(counts, self.counts_path, resume_state)
        except OSError as error:
            raise_if_of_signal_handler(error)
            log.warning("the counts so far could not be saved in %s: %s", self.counts_path, error)
        self._last_save = time.monotonic()
        self._save_interval = max(SAVE_EVERY, PAUSE_PER_SAVING * (self._last_save - start_time))

    def record_counts(self, counts: WordCounts) -> None:
        """Record the counts to train on, and save them if they come from files and are not saved yet.

        Raises:
            ValueError: if the merges in the checkpoint were learned from other counts.

        """
        current = self._header["counts"] if self._has_counts else compute_fingerprint(counts)
        if self._header["counts"] not in (None, current):
            raise ValueError(f"the checkpoint {self.path} is of another corpus: its word counts differ; {START_OVER}")
        if self._header["files"] is not None and not self._has_counts:
            counts.save(self.counts_path)
        self._header["counts"] = current
        self.save_merges(self.merges)

    # The merges -------------------------------------------------------------------------------------------------------

    def save_merges_if_due(self, merges: Callable[[], Merges]) -> None:
        """Save the result of merges() if the last save was SAVE_EVERY seconds ago."""
        if time.monotonic() - self._last_save >= SAVE_EVERY:
            self.try_save_merges(merges())

    def try_save_merges(self, merges: Merges) -> None:
        """Save the merges. An OSError such as a full disk is logged and does not end the training."""
        try:
            self.save_merges(merges)
        except OSError as error:
            raise_if_of_signal_handler(error)
            self._last_save = time.monotonic()
            log.warning("the checkpoint %s could not be saved: %s", self.path, error)

    def save_merges(self, merges: Merges) -> None:
        """Save the merges now."""
        CHECKPOINT_FORMAT.write(self.path, self._header | {"merges": len(merges)}, [merges.astype("<i8").tobytes()])
        self._last_save = time.monotonic()

    def _read(self) -> None:
        header, merges = _read_checkpoint(self.path)
        current_files, saved_files = self._header["files"], header["files"]
        if len(merges):
            self._check_matches(header)
        elif current_files is not None and saved_files is not None and os.path.exists(self.counts_path):
            self._partial_counts = None if header["counts"] is not None else self._read_partial_counts()
            if self._partial_counts is not None:  # the files that it was not made of may have been mended since
                position = self._partial_counts.resume_position
                assert position is not None
                n_read = position.file_index + bool(position.offset or position.documents_to_skip)
                header["files"] = [*saved_files[:n_read], *current_files[n_read:]]
            if self._partial_counts is not None or header["counts"] is not None:
                self._check_matches(header, self._count_option_names)
        else:
            header["counts"] = None
        self._header["counts"] = header["counts"]
        self.merges = merges
        if (header["options"], saved_files) != (self._header["options"], current_files):
            self.save_merges(merges)  # now, so that counts saved from now on are known to be of these

    def _read_partial_counts(self) -> PartialCounts | None:
        """Read the counts of a part of the files; None where there are none that can be used."""
        try:
            counts, position = read_counts(self.counts_path)
        except (OSError, FormatError) as error:
            raise_if_of_signal_handler(error)
            log.warning("the counts so far of the checkpoint cannot be used, so all files are counted: %s", error)
            return None
        if position is None or not _is_position(position) or not _is_current(counts):
            return None
        return PartialCounts(borrow_arrays(counts), Position(*position[:3]), *position[3:])

    def _check_matches(self, header: Mapping[str, Any], names: Container[str] | None = None) -> None:
        """Raise ValueError for the first option that differs, of those with these names, or the first file."""
        saved_options, options = header["options"], self._header["options"]
        for name in {**options, **saved_options}:
            value, saved_value = options.get(name), saved_options.get(name)
            if value != saved_value and (names is None or name in names):
                raise ValueError(
                    f"the checkpoint {self.path} was made with {name}={short_repr(saved_value)}, but "
                    f"{name}={short_repr(value)} is requested; pass the same value to resume it; {START_OVER}"
                )
        if header["files"] is None or self._header["files"] is None:
            return  # `record_counts` compares the counts
        for saved_file, file in zip(header["files"], self._header["files"], strict=False):
            if saved_file != file:
                raise ValueError(
                    f"the checkpoint {self.path} is of another corpus: it has file {_describe_file(saved_file)}, "
                    f"and now there is {_describe_file(file)}; {START_OVER}"
                )
        if len(header["files"]) != len(self._header["files"]):
            raise ValueError(
                f"the checkpoint {self.path} is of another corpus: of {pluralize(len(header['files']), 'file')}, "
                f"not of {len(self._header['files'])}; {START_OVER}"
            )


def _is_current(counts: WordCounts) -> bool:
    """Whether counts were made with this release's Unicode."""
    return counts.pretokenizer is None or counts.unicode_version == counts.pretokenizer.unicode_version


def _is_position(value: Any) -> bool:
    """Whether a value is what `Checkpoint.save_partial_counts` writes of a count that is unfinished."""
    return isinstance(value, list) and len(value) == 5 and all(type(part) is int and part >= 0 for part in value)


def list_checkpoint_paths(path: str, *, two_stages: bool) -> list[str]:
    """List the files of the checkpoint of a training, in one stage or two."""
    suffixes = ("", SECOND_STAGE_SUFFIX) if two_stages else ("",)
    return [f"{path}{stage}{kind}" for stage in suffixes for kind in ("", COUNTS_SUFFIX)]


def read_progress(path: PathLike) -> tuple[int, str]:
    """Read how far a checkpoint is: (its number of merges, which counts it has: "", those so far, or all)."""
    try:
        header, merges = _read_checkpoint(path)
    except (OSError, FormatError) as error:
        raise_if_of_signal_handler(error)
        return 0, ""
    if not os.path.exists(os.fspath(path) + COUNTS_SUFFIX):
        return len(merges), ""
    return len(merges), "the word counts so far" if header["counts"] is None else "the word counts"


def _read_checkpoint(path: PathLike) -> tuple[dict[str, Any], Merges]:
    """Read the (header, merges) of a checkpoint."""
    header_json, merge_bytes = CHECKPOINT_FORMAT.read(path)
    try:
        header = json.loads(header_json)
        merges = np.frombuffer(merge_bytes, dtype="<i8").reshape(-1, 4)
        if len(merges) != header["merges"] or not isinstance(header["options"], dict):
            raise ValueError(f"header declares merges={short_repr(header['merges'])}; the file has {len(merges)}")
        if not _is_file_list(header["files"]) or not isinstance(header["counts"], (str, type(None))):
            raise ValueError(f"files is {short_repr(header['files'])}, and counts {short_repr(header['counts'])}")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the header is not valid: {error}; delete the file to start over", path=path) from None
    return header, merges.astype(np.int64)


def _is_file_list(files: Any) -> bool:
    """Whether a header's `files` has the form of `identify_files`'s result."""
    return files is None or (
        isinstance(files, list)
        and all(isinstance(file, list) and [type(part) for part in file] == [str, int, int] for file in files)
    )


def identify_files(corpus: object) -> list[list[Any]] | None:
    """Identify files without reading them: [name, size, time of the last change in ns] of each.

    None for texts and counts, and if a file is not regular: text from a pipe or another machine is identified by its
    counts only.
    """
    if not isinstance(corpus, Sources) or not corpus.regular:
        return None
    names = [file.name for file in corpus.files]
    stamps = FileMeasurer(names).read_stamps()
    return [[name, *(stamp or read_stamp(name))] for name, stamp in zip(names, stamps, strict=True)]


def _describe_file(file: list[Any]) -> str:
    name, size, changed = file
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(changed / 1e9))
    return f"{name!r} of {pluralize(size, 'byte')}, last changed {when} UTC"


def describe_count_settings(counts: WordCounts) -> dict[str, Any]:
    """Describe the settings that counts were made with: name → JSON value."""
    return {
        "pretokenizer": None if counts.pretokenizer is None else counts.pretokenizer.to_json(),
        "normalizer": None if counts.normalizer is None else counts.normalizer.to_json(),
        "counted_special_tokens": list(counts.special_tokens),
        **({} if counts.units == DOCUMENTS else {"units": counts.units}),
    }


def compute_fingerprint(counts: WordCounts) -> str:
    """Compute the SHA-256, in hex, of all words in order, their counts, and the settings of the counts."""
    blob, offsets, word_counts = borrow_arrays(counts)
    digest = hashlib.sha256(json.dumps(describe_count_settings(counts), sort_keys=True).encode())
    for array, dtype in ((offsets, "<i8"), (word_counts, "<i8"), (blob, "u1")):
        digest.update(np.ascontiguousarray(array, dtype=dtype).data)
    return digest.hexdigest()
