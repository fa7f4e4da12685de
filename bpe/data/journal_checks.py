"""The records of a journal, checked before the run goes on with them: against each other, the files and the sources.

A checksum in each line tells a damaged record from a sound one (`journal.py`). Here every value is checked as one from
an unknown hand: its type and range, the counts of documents against the positions in the sources and against the
bucket files, and shards against their files. The content of the last finished shards, and of the sources before the
last positions, is read again, up to `MAX_REREAD_BYTES` bytes of each; older shards are compared by size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from bpe.corpus.blocks import Position
from bpe.corpus.sources import Sources
from bpe.data.grouping import ResumePoint
from bpe.data.journal import Journal
from bpe.data.manifest import (
    COUNT_RULE,
    LIST_RULE,
    FieldRule,
    ShardEntry,
    allow_null,
    are_numbers,
    check_fields,
    parse_shard,
    refuse_value,
)
from bpe.data.plan import ShardPlan
from bpe.data.shuffling import DOCUMENT_DTYPE, Buckets
from bpe.data.verifying import find_file_defects, find_shard_defects
from bpe.errors import FormatError, raise_if_of_signal_handler, short_repr

#: How many bytes of finished shards, and of the sources, are read again.
MAX_REREAD_BYTES = 1 << 28

_SOURCE_RULES: dict[str, FieldRule] = {
    "used": COUNT_RULE,
    "next": allow_null((partial(are_numbers, count=6), "a list of 6 numbers")),
}
#: The fields of the records of each kind of step: shards in source order, bucket files, a shard made of them.
_STEP_RULES: dict[str, dict[str, FieldRule]] = {
    "ordered": {
        "shards": LIST_RULE,
        "first": allow_null((partial(are_numbers, count=2), "a list of 2 numbers")),
        **_SOURCE_RULES,
    },
    "buckets": {
        "buckets": COUNT_RULE,
        "sizes": (
            lambda value: isinstance(value, list) and all(are_numbers(pair, 2) for pair in value),
            "a list of pairs of numbers",
        ),
        **_SOURCE_RULES,
    },
    "shuffled": {"shards": LIST_RULE},
}


def check_steps(journal: Journal, plan: ShardPlan, sources: Sources) -> None:
    """Check the finished steps of a journal, from which a run goes on.

    Raises:
        FormatError: for a record that does not fit, with its line.
        ValueError: for a finished shard that is missing, or damaged.

    """
    fix = f"to start over, remove {plan.folder}"
    checker = _StepChecker(plan, sources)
    try:
        for checker.line, step in enumerate(journal.steps, 2):
            checker.check(step)
        checker.check_damage(fix)
        checker.check_sources()
    except FormatError as error:
        raise FormatError(
            f"{error.message}; the record does not fit the others, the files or the sources: {fix}",
            path=journal.path,
            where=", ".join(filter(None, (f"line {checker.line}", error.where))),
        ) from None
    checker.check_files(fix)


def fingerprint_beginning(sources: Sources, step: dict[str, Any]) -> list[Any] | None:
    """Collect facts that show whether the file to read next still begins with the documents that the step has used.

    Returns:
        The index of the file, the number of the documents, and their digest; None where no document of the file is in
        a finished shard, or it cannot be read again. The file is read up to the position.

    """
    try:
        resume_point = ResumePoint.from_json(step["next"])
        assert resume_point.position is not None
        position = resume_point.position
        file, offset, documents_to_skip = position.file_index, position.offset, position.documents_to_skip
        if step["used"] != file + 1:
            return None
        start = next(unit.start for unit in sources.units() if unit.file_index == file)
        n_counted = sources.count_documents(file, start, offset)
        if n_counted is not None and n_counted + documents_to_skip != resume_point.index_in_file:
            return None
        n_documents = resume_point.index_in_file + resume_point.documents_after_position
        digest = sources.hash_documents(file, n_documents)
    except (LookupError, OSError, OverflowError, StopIteration, TypeError, ValueError) as error:
        raise_if_of_signal_handler(error)
        return None
    return None if digest is None else [file, n_documents, digest]


class _StepChecker:
    """Checks the steps in order, and keeps what they say of the sources."""

    def __init__(self, plan: ShardPlan, sources: Sources) -> None:
        self._plan, self._sources = plan, sources
        if plan.part is None:
            self._file_starts = dict.fromkeys(range(len(sources.files)), 0)  # where each file begins
        else:
            self._file_starts = {unit.file_index: unit.start for unit in reversed(sources.units())}
        self._n_documents = 0  # in all steps so far
        # file: (documents before it, the fewest up to its last known document)
        self._documents_before_file: dict[int, tuple[int, int]] = {}
        self._resume_points = [ResumePoint()]
        self.line = 1  # of the journal
        self._has_all_documents = False  # whether all documents are in shards or buckets
        self._shard_entries: list[ShardEntry] = []
        self._n_shard_steps = 0  # steps of shards
        self._bucket_sizes: list[list[int]] = []  # of bucket files

    def check(self, step: dict[str, Any]) -> None:
        """Check the next step."""
        kind = "ordered"
        if self._plan.seed is not None:
            kind = "buckets" if "buckets" in step else "shuffled"
        rules = _STEP_RULES[kind]
        if "next" in rules and step.get("next") is None:
            rules = {**rules, "skipped": COUNT_RULE, "used": (lambda value: value is None, "null where next is")}
        if {*step} != {*rules}:
            raise FormatError(f"its fields are {short_repr(sorted(step))}; they must be {sorted(rules)}")
        check_fields(step, rules, "")
        for key in ("first", "next"):
            if step.get(key) is not None and step[key][0] not in self._file_starts:
                refuse_value(step[key], "of a file in these sources", key)
        {"ordered": self._check_ordered, "buckets": self._check_buckets, "shuffled": self._check_shuffled}[kind](step)

    # Steps ------------------------------------------------------------------------------------------------------------

    def _check_ordered(self, step: dict[str, Any]) -> None:
        """Check a step of shards in source order, with the position after them."""
        if self._has_all_documents:
            raise FormatError("it follows the last step")
        entries = self._check_shards(step)
        if entries and step["first"] is None:
            refuse_value(None, "a list of 2 numbers", "first")
        if step["first"] is not None:
            file, index = step["first"]
            self._record_first_document(file, self._n_documents, index, index + 1)
        self._n_documents += sum(entry.documents for entry in entries)
        self._check_next(step)
        shard_size = self._plan.shard_size
        tokens = sum(entry.tokens for entry in entries)
        if not self._has_all_documents and (shard_size is None or tokens < shard_size or not entries):
            raise FormatError(f"its shards have {tokens} tokens; a step before the last has {shard_size} or more")

    def _check_buckets(self, step: dict[str, Any]) -> None:
        """Check the sizes of the bucket files, and the position after the documents in them."""
        if self._has_all_documents:
            raise FormatError("it follows the record of the last documents")
        count, sizes, shards = step["buckets"], step["sizes"], self._plan.count_shards(self._sources)
        if len(sizes) != count or not count or count % shards:
            refuse_value(count, f"a multiple of {shards}, the shards, and the number of sizes, {len(sizes)}", "buckets")
        self._bucket_sizes = sizes
        widths = self._plan.dtype.itemsize, DOCUMENT_DTYPE.itemsize
        if any(size % width for pair in sizes for size, width in zip(pair, widths, strict=True)):
            raise FormatError(
                f"it must have whole ids and documents, of {widths[0]} and {widths[1]} bytes", where="sizes"
            )
        self._n_documents = sum(size for _, size in self._bucket_sizes) // DOCUMENT_DTYPE.itemsize
        self._resume_points = [ResumePoint()]  # after a loss of bucket files all documents are read again
        self._check_next(step)

    def _check_shuffled(self, step: dict[str, Any]) -> None:
        """Check a shard against its bucket files."""
        shards = self._plan.count_shards(self._sources)
        if not self._has_all_documents or self._n_shard_steps >= shards:
            raise FormatError(f"it is not one of {shards} shards after the record of the last documents")
        per_shard = len(self._bucket_sizes) // shards
        sizes = self._bucket_sizes[self._n_shard_steps * per_shard :][:per_shard]
        entries = self._check_shards(step)
        totals = [sum(entry.tokens for entry in entries), sum(entry.documents for entry in entries)]
        widths = self._plan.dtype.itemsize, DOCUMENT_DTYPE.itemsize
        expected = [sum(column) // width for column, width in zip(zip(*sizes, strict=True), widths, strict=True)]
        if totals != expected:
            raise FormatError(f"its shards have {totals} tokens and documents; their buckets had {expected}")

    def _check_shards(self, step: dict[str, Any]) -> list[ShardEntry]:
        """Check and return the shards of a step, with the names that its number gives them."""
        plan, index = self._plan, self._n_shard_steps
        entries = [parse_shard(item, f"shards[{i}]") for i, item in enumerate(step["shards"])]
        if step["shards"] != json.loads(json.dumps([asdict(entry) for entry in entries])):
            raise FormatError("it must have the fields of shards, and no others", where="shards")
        splits = [entry.split for entry in entries]
        if splits != [split for split in plan.splits if split in splits]:
            raise FormatError(f"its shards are of {splits}; they must be of {plan.splits}, each once", where="shards")
        for split in plan.splits:
            name = plan.format.name_files(plan.make_stem(split, index))[0]
            if split not in splits and (plan.folder / name).exists():
                raise FormatError(f"it does not have the shard {name}, which is there", where="shards")
        for entry in entries:
            stem = plan.make_stem(entry.split, index)
            names = list(plan.format.name_files(stem))
            file_names = sorted(file.name for file in entry.files)  # in the order in which they were finished
            if entry.stem != stem or file_names != sorted(names) or entry.start is not None:
                raise FormatError(f"its files must be {names}, of shard {stem}, without a start", where="shards")
            if not entry.documents:
                raise FormatError("it has no documents; a shard in a journal has some", where="shards")
        self._shard_entries += entries
        self._n_shard_steps += 1
        return entries

    # The sources ------------------------------------------------------------------------------------------------------

    def _check_next(self, step: dict[str, Any]) -> None:
        """Check that the position after a step is in these sources, after the one before, and fits its documents."""
        previous_point = self._resume_points[-1]
        if step["next"] is None:
            self._has_all_documents = True
            self._check_bad_records(step["skipped"], previous_point.n_bad_records)
            return
        point = ResumePoint.from_json(step["next"])
        assert point.position is not None
        position, source = point.position, self._sources.files[point.position.file_index]
        previous = previous_point.position or Position(0, 0)
        location = position.file_index, position.offset, position.documents_to_skip
        self._check_bad_records(point.n_bad_records, previous_point.n_bad_records)
        if location < (previous.file_index, previous.offset, previous.documents_to_skip):
            refuse_value(step["next"], f"after the position before, {previous_point}", "next")
        if source.compression is None and source.size is not None and position.offset > source.size:
            refuse_value(step["next"], f"in {source.name}, which has {source.size} bytes", "next")
        self._record_first_document(
            position.file_index,
            self._n_documents - point.documents_after_position,
            point.index_in_file,
            point.index_in_file,
        )
        if step["used"] > len(self._sources.files):
            refuse_value(step["used"], f"at most {len(self._sources.files)}, the files", "used")
        self._resume_points.append(point)

    def _check_bad_records(self, count: int, min_count: int) -> None:
        """Check the number of bad records that were left out."""
        if count < min_count or (count and self._sources.on_error == "raise"):
            refuse_value(count, "no less than before, and 0 where bad records are errors", "skipped")

    def _record_first_document(self, file: int, documents: int, index: int, n_documents: int) -> None:
        """Note where a file begins: its document `index` comes after `documents` documents in all.

        The file has at least `n_documents`.
        """
        n_before = documents - index
        recorded = self._documents_before_file.get(file, (n_before, 0))
        self._documents_before_file[file] = n_before, max(recorded[1], n_before + n_documents)
        ends = [0]
        for other_file in sorted(self._documents_before_file):
            begin, end = self._documents_before_file[other_file]
            if begin < ends[-1] or (begin and other_file == min(self._file_starts)):
                raise FormatError(f"document {index} of file {file} cannot follow {documents} documents")
            ends.append(end)
        if n_before != recorded[0]:
            raise FormatError(f"file {file} would begin after {n_before} and after {recorded[0]} documents")

    def check_sources(self) -> None:
        """Count the documents again between the last two positions, and between earlier ones up to a limit."""
        bytes_left = MAX_REREAD_BYTES
        for previous_point, point in reversed([*zip(self._resume_points, self._resume_points[1:], strict=False)]):
            if bytes_left < 0:
                return
            start, end = self._find_position(previous_point), self._find_position(point)
            ranges = self._list_ranges(start, end)
            bytes_left -= sum(self._count_bytes(*file_range) for file_range in ranges)
            counts = [self._sources.count_documents(*file_range) for file_range in ranges]
            known_counts = [count for count in counts if count is not None]
            if len(known_counts) < len(ranges):
                continue
            if end.documents_to_skip and self._sources.files[end.file_index].offsets_are_bytes:
                refuse_value(end.documents_to_skip, "0, since documents begin at offsets", "next")
            known_counts[0] -= start.documents_to_skip
            known_counts[-1] += end.documents_to_skip
            expected, expected_in_last_file = self._count_expected(previous_point, point)
            if known_counts[-1] != expected_in_last_file or sum(known_counts) != expected:
                raise FormatError(
                    f"the sources have {known_counts} documents in {ranges}, not {expected}", where="next"
                )

    def check_damage(self, fix: str) -> None:
        """Check that the file that reading goes on in, if it has documents in shards, is not one to leave out now."""
        point = self._resume_points[-1]
        if self._has_all_documents or point.position is None:
            return
        file = point.position.file_index
        if point.index_in_file + point.documents_after_position and self._sources.is_left_out(file):
            raise ValueError(
                f"{self._sources.files[file].name} is damaged, and documents of it are in finished shards, so it "
                f"cannot be left out as a whole; {fix}"
            )

    def _find_position(self, point: ResumePoint) -> Position:
        """Find the position of a resume point, that of the first document for the first one."""
        first_file = min(self._file_starts, default=0)
        return point.position or Position(first_file, self._file_starts[first_file])

    def _list_ranges(self, start: Position, end: Position) -> list[tuple[int, int, int | None]]:
        """List what is between two positions: (file, the offset where it starts, the offset where it ends or None)."""
        if start.file_index == end.file_index:
            return [(start.file_index, start.offset, end.offset)]
        files_between = [file for file in sorted(self._file_starts) if start.file_index < file < end.file_index]
        return [
            (start.file_index, start.offset, None),
            *((file, self._file_starts[file], None) for file in files_between),
            (end.file_index, self._file_starts[end.file_index], end.offset),
        ]

    def _count_expected(self, previous_point: ResumePoint, point: ResumePoint) -> tuple[int, int]:
        """Count the documents between two resume points by the records: in all, and in the last file."""
        first_file, last_file = self._find_position(previous_point).file_index, self._find_position(point).file_index
        earlier_in_all = self._documents_before_file.get(first_file, (0, 0))[0] + previous_point.index_in_file
        earlier_in_file = previous_point.index_in_file if first_file == last_file else 0
        in_all = self._documents_before_file[last_file][0] + point.index_in_file - earlier_in_all
        return in_all, point.index_in_file - earlier_in_file

    def _count_bytes(self, file: int, start: int, end: int | None) -> int:
        """Estimate the bytes to read for the documents between two offsets of a file."""
        source = self._sources.files[file]
        if end is None or not source.offsets_are_bytes:
            return source.size or MAX_REREAD_BYTES
        return end - (start if source.is_seekable else 0)

    # Files ------------------------------------------------------------------------------------------------------------

    def check_files(self, fix: str) -> None:
        """Compare the finished shards, and the buckets of the others, with their files."""
        folder, bytes_left = self._plan.folder, MAX_REREAD_BYTES
        for entry in reversed(self._shard_entries):
            for file in entry.files:
                path = folder / file.name
                if not path.is_file() or path.stat().st_size != file.size:
                    raise ValueError(f"{path} was finished, and is missing now or has another size; {fix}")
            bytes_left -= sum(file.size for file in entry.files)
            if bytes_left < 0:
                continue
            for line in self._find_defects(entry):
                raise ValueError(f"a finished shard is damaged, or the journal is: {folder}: {line}; {fix}")
        if self._plan.seed is not None and self._has_all_documents:
            per_shard = len(self._bucket_sizes) // self._plan.count_shards(self._sources)
            first_bucket = self._n_shard_steps * per_shard
            sizes = Buckets(folder, len(self._bucket_sizes), self._plan.dtype).measure_sizes()
            if sizes[first_bucket:] != self._bucket_sizes[first_bucket:]:
                raise ValueError(f"bucket files in {folder} are missing now or have other sizes; {fix}")

    def _find_defects(self, entry: ShardEntry) -> Iterator[str]:
        """Yield what is wrong with the files of a shard."""
        folder, plan = self._plan.folder, self._plan
        defects = list(find_file_defects(folder, entry))
        yield from defects or find_shard_defects(folder, plan.format.name, plan.dtype.name, entry, None)
