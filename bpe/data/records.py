"""The records of a journal, checked before the run goes on with them: against each other, the files and the sources.

A checksum in each line tells a damaged record from a sound one (`journal.py`). Here every value is checked as one from
an unknown hand: its type and range, the counts of documents against the positions in the sources and against the
bucket files, and shards against their files. The content of the last finished shards, and of the sources before the
last positions, is read again, up to `READ_AGAIN` bytes of each; older shards are compared by size.
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
    COUNT,
    LIST,
    Rule,
    ShardEntry,
    are_numbers,
    check_fields,
    or_null,
    parse_shard,
    refuse_value,
)
from bpe.data.plan import ShardPlan
from bpe.data.shuffling import DOCUMENT_DTYPE, Buckets
from bpe.data.verifying import find_file_defects, find_shard_defects
from bpe.errors import FormatError, short_repr

#: How many bytes of finished shards, and of the sources, are read again.
READ_AGAIN = 1 << 28

_PLACE: dict[str, Rule] = {"used": COUNT, "next": or_null((partial(are_numbers, count=6), "a list of 6 numbers"))}
#: The fields of the records of each kind of step: shards in source order, bucket files, a shard made of them.
_STEPS: dict[str, dict[str, Rule]] = {
    "ordered": {"shards": LIST, "first": or_null((partial(are_numbers, count=2), "a list of 2 numbers")), **_PLACE},
    "buckets": {
        "buckets": COUNT,
        "sizes": (
            lambda value: isinstance(value, list) and all(are_numbers(pair, 2) for pair in value),
            "a list of pairs of numbers",
        ),
        **_PLACE,
    },
    "shuffled": {"shards": LIST},
}


def check_steps(journal: Journal, plan: ShardPlan, sources: Sources) -> None:
    """Check the finished steps of a journal, from which a run goes on.

    Raises:
        FormatError: for a record that does not fit, with its line.
        ValueError: for a finished shard that is missing, or damaged.

    """
    fix = f"to start over, remove {plan.folder}"
    checks = _Checks(plan, sources)
    try:
        for checks.line, step in enumerate(journal.steps, 2):
            checks.check(step)
        checks.check_sources()
    except FormatError as error:
        raise FormatError(
            f"{error.message}; the record does not fit the others, the files or the sources: {fix}",
            path=journal.path,
            where=", ".join(filter(None, (f"line {checks.line}", error.where))),
        ) from None
    checks.check_files(fix)


def identify_beginning(sources: Sources, step: dict[str, Any]) -> list[Any] | None:
    """Facts that show whether the file to read next still begins with the documents that the step has used.

    Returns:
        The index of the file, the number of the documents, and their digest; None where no document of the file is in
        a finished shard, or it cannot be read again. The file is read up to the position.

    """
    try:
        point = ResumePoint.from_json(step["next"])
        assert point.position is not None
        file, offset, skipped = point.position.file, point.position.offset, point.position.documents
        if step["used"] != file + 1:
            return None
        start = next(unit.start for unit in sources.units() if unit.file == file)
        counted = sources.count_between(file, start, offset)
        if counted is not None and counted + skipped != point.index:
            return None
        count = point.index + point.skip
        digest = sources.hash_documents(file, count)
    except (LookupError, OSError, OverflowError, StopIteration, TypeError, ValueError):
        return None
    return None if digest is None else [file, count, digest]


class _Checks:
    """Checks the steps in order, and keeps what they say of the sources."""

    def __init__(self, plan: ShardPlan, sources: Sources) -> None:
        self._plan, self._sources = plan, sources
        whole = ((index, 0) for index in range(len(sources.files)))
        units = whole if plan.part is None else ((unit.file, unit.start) for unit in reversed(sources.units()))
        self._starts = dict(units)  # where each file begins
        self._documents = 0  # in all steps so far
        self._before: dict[int, tuple[int, int]] = {}  # documents in earlier files; and the least by the last known one
        self._points = [ResumePoint()]
        self.line = 1  # of the journal
        self._ended = False  # whether all documents are in shards or buckets
        self._entries: list[ShardEntry] = []
        self._shards = 0  # steps of shards
        self._sizes: list[list[int]] = []  # of bucket files

    def check(self, step: dict[str, Any]) -> None:
        """Check the next step."""
        kind = "ordered" if self._plan.seed is None else "buckets" if "buckets" in step else "shuffled"
        rules = _STEPS[kind]
        if "next" in rules and step.get("next") is None:
            rules = {**rules, "skipped": COUNT, "used": (lambda value: value is None, "null where next is")}
        if {*step} != {*rules}:
            raise FormatError(f"its fields are {short_repr(sorted(step))}; they must be {sorted(rules)}")
        check_fields(step, rules, "")
        for key in ("first", "next"):
            if step.get(key) is not None and step[key][0] not in self._starts:
                refuse_value(step[key], "of a file in these sources", key)
        {"ordered": self._check_ordered, "buckets": self._check_buckets, "shuffled": self._check_shuffled}[kind](step)

    # Steps ------------------------------------------------------------------------------------------------------------

    def _check_ordered(self, step: dict[str, Any]) -> None:
        """Shards in source order, with the position after them."""
        if self._ended:
            raise FormatError("it follows the last step")
        entries = self._check_shards(step)
        if entries and step["first"] is None:
            refuse_value(None, "a list of 2 numbers", "first")
        if step["first"] is not None:
            file, index = step["first"]
            self._count_before(file, self._documents, index, index + 1)
        self._documents += sum(entry.documents for entry in entries)
        self._check_next(step)
        shard_size = self._plan.shard_size
        tokens = sum(entry.tokens for entry in entries)
        if not self._ended and (shard_size is None or tokens < shard_size or not entries):
            raise FormatError(f"its shards have {tokens} tokens; a step before the last has {shard_size} or more")

    def _check_buckets(self, step: dict[str, Any]) -> None:
        """The sizes of the bucket files, and the position after the documents in them."""
        if self._ended:
            raise FormatError("it follows the record of the last documents")
        count, sizes, shards = step["buckets"], step["sizes"], self._plan.count_shards(self._sources)
        if len(sizes) != count or not count or count % shards:
            refuse_value(count, f"a multiple of {shards}, the shards, and the number of sizes, {len(sizes)}", "buckets")
        self._sizes = sizes
        widths = self._plan.dtype.itemsize, DOCUMENT_DTYPE.itemsize
        if any(size % width for pair in sizes for size, width in zip(pair, widths, strict=True)):
            raise FormatError(
                f"it must have whole ids and documents, of {widths[0]} and {widths[1]} bytes", where="sizes"
            )
        self._documents = sum(size for _, size in self._sizes) // DOCUMENT_DTYPE.itemsize
        self._points = [ResumePoint()]  # after a loss of bucket files all documents are read again
        self._check_next(step)

    def _check_shuffled(self, step: dict[str, Any]) -> None:
        """A shard from its bucket files."""
        shards = self._plan.count_shards(self._sources)
        if not self._ended or self._shards >= shards:
            raise FormatError(f"it is not one of {shards} shards after the record of the last documents")
        per_shard = len(self._sizes) // shards
        sizes = self._sizes[self._shards * per_shard :][:per_shard]
        entries = self._check_shards(step)
        totals = [sum(entry.tokens for entry in entries), sum(entry.documents for entry in entries)]
        widths = self._plan.dtype.itemsize, DOCUMENT_DTYPE.itemsize
        expected = [sum(column) // width for column, width in zip(zip(*sizes, strict=True), widths, strict=True)]
        if totals != expected:
            raise FormatError(f"its shards have {totals} tokens and documents; their buckets had {expected}")

    def _check_shards(self, step: dict[str, Any]) -> list[ShardEntry]:
        """The shards of a step, with the names that its number gives them."""
        plan, index = self._plan, self._shards
        entries = [parse_shard(item, f"shards[{i}]") for i, item in enumerate(step["shards"])]
        if step["shards"] != json.loads(json.dumps([asdict(entry) for entry in entries])):
            raise FormatError("it must have the fields of shards, and no others", where="shards")
        sides = plan.sides
        splits = [entry.split for entry in entries]
        if splits != [side for side in sides if side in splits]:
            raise FormatError(f"its shards are of {splits}; they must be of {sides}, each once", where="shards")
        for side in sides:
            name = plan.format.names(plan.stem(side, index))[0]
            if side not in splits and (plan.folder / name).exists():
                raise FormatError(f"it does not have the shard {name}, which is there", where="shards")
        for entry in entries:
            stem = plan.stem(entry.split, index)
            names = list(plan.format.names(stem))
            if entry.stem != stem or [file.name for file in entry.files] != names or entry.start is not None:
                raise FormatError(f"its files must be {names}, of shard {stem}, without a start", where="shards")
            if not entry.documents:
                raise FormatError("it has no documents; a shard in a journal has some", where="shards")
        self._entries += entries
        self._shards += 1
        return entries

    # The sources ------------------------------------------------------------------------------------------------------

    def _check_next(self, step: dict[str, Any]) -> None:
        """The position after a step, or the end: in these sources, after the one before, with its documents."""
        before = self._points[-1]
        if step["next"] is None:
            self._ended = True
            self._check_skipped(step["skipped"], before.skipped)
            return
        point = ResumePoint.from_json(step["next"])
        assert point.position is not None
        position, source = point.position, self._sources.files[point.position.file]
        last = before.position or Position(0, 0)
        place = position.file, position.offset, position.documents
        self._check_skipped(point.skipped, before.skipped)
        if place < (last.file, last.offset, last.documents):
            refuse_value(step["next"], f"after the position before, {before}", "next")
        if source.compression is None and source.size is not None and position.offset > source.size:
            refuse_value(step["next"], f"in {source.name}, which has {source.size} bytes", "next")
        self._count_before(position.file, self._documents - point.skip, point.index, point.index)
        if step["used"] > len(self._sources.files):
            refuse_value(step["used"], f"at most {len(self._sources.files)}, the files", "used")
        self._points.append(point)

    def _check_skipped(self, count: int, before: int) -> None:
        """The number of bad records that were left out."""
        if count < before or (count and self._sources.on_error == "raise"):
            refuse_value(count, "no less than before, and 0 where bad records are errors", "skipped")

    def _count_before(self, file: int, documents: int, index: int, n_documents: int) -> None:
        """Note that `documents` documents end before document `index` of a file, which has `n_documents` or more."""
        before = documents - index
        known = self._before.get(file, (before, 0))
        self._before[file] = before, max(known[1], before + n_documents)
        ends = [0]
        for known_file in sorted(self._before):
            begin, end = self._before[known_file]
            if begin < ends[-1] or (begin and known_file == min(self._starts)):
                raise FormatError(f"document {index} of file {file} cannot follow {documents} documents")
            ends.append(end)
        if before != known[0]:
            raise FormatError(f"file {file} would begin after {before} and after {known[0]} documents")

    def check_sources(self) -> None:
        """Count the documents again between the last two positions, and between earlier ones up to `READ_AGAIN`."""
        left, first = READ_AGAIN, min(self._starts, default=0)
        for before, point in reversed([*zip(self._points, self._points[1:], strict=False)]):
            if left < 0:
                return
            start, end = before.position or Position(first, self._starts[first]), point.position
            assert end is not None
            between = [file for file in sorted(self._starts) if start.file < file < end.file]
            parts: list[tuple[int, int, int | None]] = [(file, self._starts[file], None) for file in between]
            if start.file == end.file:
                parts = [(start.file, start.offset, end.offset)]
            else:
                parts = [(start.file, start.offset, None), *parts, (end.file, self._starts[end.file], end.offset)]
            left -= sum(self._count_bytes(*part) for part in parts)
            counts = [self._sources.count_between(*part) for part in parts]
            known = self._before.get(start.file, (0, 0))[0]
            expected = self._before[end.file][0] + point.index - known - before.index
            in_file = point.index - (before.index if start.file == end.file else 0)
            known_counts = [count for count in counts if count is not None]
            if len(known_counts) < len(parts):
                continue
            if end.documents and self._sources.files[end.file].offsets_are_bytes:
                refuse_value(end.documents, "0, since documents begin at offsets", "next")
            known_counts[0] -= start.documents
            known_counts[-1] += end.documents
            if known_counts[-1] != in_file or sum(known_counts) != expected:
                raise FormatError(f"the sources have {known_counts} documents in {parts}, not {expected}", where="next")

    def _count_bytes(self, file: int, low: int, high: int | None) -> int:
        """The bytes to read for the documents between two offsets of a file, about."""
        source = self._sources.files[file]
        if high is None or not source.offsets_are_bytes:
            return source.size or READ_AGAIN
        return high - (low if source.seekable else 0)

    # Files ------------------------------------------------------------------------------------------------------------

    def check_files(self, fix: str) -> None:
        """Compare the finished shards, and the buckets of the others, with their files."""
        folder, left = self._plan.folder, READ_AGAIN
        for entry in reversed(self._entries):
            for file in entry.files:
                path = folder / file.name
                if not path.is_file() or path.stat().st_size != file.size:
                    raise ValueError(f"{path} was finished, and is missing now or has another size; {fix}")
            left -= sum(file.size for file in entry.files)
            if left < 0:
                continue
            for line in self._find_defects(entry):
                raise ValueError(f"a finished shard is damaged, or the journal is: {folder}: {line}; {fix}")
        if self._plan.seed is not None and self._ended:
            per_shard = len(self._sizes) // self._plan.count_shards(self._sources)
            first = self._shards * per_shard
            sizes = Buckets(folder, len(self._sizes), self._plan.dtype).sizes()
            if sizes[first:] != self._sizes[first:]:
                raise ValueError(f"bucket files in {folder} are missing now or have other sizes; {fix}")

    def _find_defects(self, entry: ShardEntry) -> Iterator[str]:
        """What is wrong with the files of a shard."""
        folder, plan = self._plan.folder, self._plan
        defects = list(find_file_defects(folder, entry))
        yield from defects or find_shard_defects(folder, plan.format.name, plan.dtype.name, entry, None)
