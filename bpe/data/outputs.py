"""Groups of documents to shards: in source order, or shuffled by way of buckets.

Shards that are finished together are recorded as one *step* in one line of the journal: one shard, or, with a
train/validation split, one of each side, made from the same part of the sources, so that one position says where to go
on. In source order, a step ends after the first document with which it has `shard_size` tokens or more: where shards
end depends on the documents alone, not on how they are grouped. Shuffled documents go to buckets on disk first
(`shuffling.py`), and then shard by shard out of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.corpus.sources import Sources
from bpe.data.formats.shard_format import ShardInfo, ShardWriter
from bpe.data.grouping import Group, ResumePoint
from bpe.data.journal import Journal, crash_point
from bpe.data.manifest import ShardEntry
from bpe.data.plan import TRAIN, VALIDATION, ShardPlan
from bpe.data.shuffling import Buckets, count_buckets, hash_positions

#: After this many bytes of sources the buckets are written to the disk and the journal records their sizes.
CHECKPOINT_BYTES = 256 << 20


class ShardOutput:
    """Writes the shards of steps, and records each finished step in the journal.

    Args:
        plan: where shards go, and how.
        journal: its steps are those that are finished.

    Attributes:
        start: where reading goes on after the finished steps; None if there is nothing left to read.

    """

    start: ResumePoint | None = ResumePoint()

    def __init__(self, plan: ShardPlan, journal: Journal) -> None:
        self._plan, self._journal = plan, journal
        self._finished = 0  # steps of shards
        self._documents: Counter[str | None] = Counter()  # of each side, in finished steps
        self._writers: dict[str | None, ShardWriter] = {}
        self._tokens = 0  # in the step, of all sides
        for step in journal.steps:
            self._count(step)

    def _write_documents(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        begins: bool,
        ends: bool,
        validation: NDArray[np.bool_] | None,
    ) -> None:
        """Write documents, given as to `ShardWriter.write`, to their sides; `validation` says which."""
        if not len(lengths):
            return
        self._tokens += len(ids)
        if validation is None:
            self._writer_for(None).write(ids, lengths, begins=begins, ends=ends)
            return
        of_ids = np.repeat(validation, lengths)
        for side, chosen in ((TRAIN, False), (VALIDATION, True)):
            rows = validation == chosen
            if rows.any():
                self._writer_for(side).write(ids[of_ids == chosen], lengths[rows], begins=begins, ends=ends)

    def _writer_for(self, side: str | None) -> ShardWriter:
        if side not in self._writers:
            plan = self._plan
            info = ShardInfo(plan.fingerprint, first_document=self._documents[side])
            stem = plan.stem(side, self._finished)
            self._writers[side] = plan.format.writer(plan.folder, stem, plan.dtype, info=info)
        return self._writers[side]

    def _finish_step(self, **more: Any) -> None:
        """Finish all shards of the step, and record them, with more fields, in the journal."""
        records = []
        for side in self._plan.sides:
            writer = self._writers.get(side)
            if writer is None:
                continue
            crash_point("finish")
            files = writer.finish()
            crash_point("finished")
            stem = self._plan.stem(side, self._finished)
            records.append(asdict(ShardEntry(stem, writer.documents, writer.tokens, tuple(files), side)))
        step = {"shards": records, **more}
        self._journal.append(step)
        self._count(step)
        self._writers, self._tokens = {}, 0
        crash_point("recorded")

    def _count(self, step: dict[str, Any]) -> None:
        """Count a finished step and its documents."""
        self._finished += "shards" in step
        for shard in step.get("shards", ()):
            self._documents[shard["split"]] += shard["documents"]

    def __enter__(self) -> None:
        """Begin a block after which an error removes the shards that are not finished."""

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        for writer in self._writers.values() if error is not None else ():
            with suppress(OSError):
                writer.discard()


def _next_fields(used: int | None, after: ResumePoint | None, skipped: int) -> dict[str, Any]:
    """The fields of a step about the sources: the files used, and where to go on; at the end, the bad records."""
    if after is None:
        return {"used": None, "next": None, "skipped": skipped}
    return {"used": used, "next": after.to_json()}


class OrderedOutput(ShardOutput):
    """Writes groups of documents to shards in source order."""

    def __init__(self, plan: ShardPlan, journal: Journal) -> None:
        super().__init__(plan, journal)
        self._size = (1 << 63) - 1 if plan.shard_size is None else plan.shard_size
        self._first: tuple[int, int] | None = None  # the file and the index in it of the step's first document
        self._last_file = -1
        if journal.steps:
            after = journal.steps[-1]["next"]
            self.start = None if after is None else ResumePoint.from_json(after)

    def write(self, group: Group) -> None:
        """Write a group."""
        totals, n_rows = np.cumsum(group.lengths), len(group.lengths)
        validation = group.choose_validation(self._plan.validation)
        first = start = 0  # the next document, and its first id
        while first < n_rows:
            wanted = self._size - self._tokens + start
            last = first + int(np.searchsorted(totals[first : group.complete], wanted))
            is_full = last < group.complete
            after, end = (last + 1, int(totals[last])) if is_full else (n_rows, len(group.ids))
            if self._first is None:
                self._first = group.file_and_index(first)
            self._last_file = group.file_and_index(after - 1)[0]
            self._write_documents(
                group.ids[start:end],
                group.lengths[first:after],
                group.begins or first > 0,
                group.ends or after < n_rows,
                None if validation is None else validation[first:after],
            )
            crash_point("written")
            if is_full:
                self._end_step(group.find_resume_point(after))
            first, start = after, end

    def _end_step(self, after: ResumePoint | None, skipped: int = 0) -> None:
        """Finish the shards of the step; reading goes on at `after`."""
        self._finish_step(first=self._first, **_next_fields(self._last_file + 1, after, skipped))
        self._first, self._last_file = None, -1

    def end(self, skipped: int) -> None:
        """Finish the last step, after all groups; `skipped` bad records were left out in all runs."""
        self._end_step(None, skipped)


class ShuffledOutput(ShardOutput):
    """Writes groups of documents to buckets, and shards from them.

    The journal has records of the buckets ("buckets": their number; "sizes" and "next" after each checkpoint) and then
    a record per shard.
    """

    def __init__(self, plan: ShardPlan, journal: Journal, sources: Sources) -> None:
        super().__init__(plan, journal)
        self._unsaved = self._used = 0
        self._shards = plan.count_shards(sources)
        checkpoints = [step for step in journal.steps if "buckets" in step]
        last = checkpoints[-1] if checkpoints else None
        size = (sources.text_size or 0) * plan.dtype.itemsize // 4
        count = count_buckets(size, self._shards) if last is None else last["buckets"]
        self._buckets = Buckets(plan.folder, count, plan.dtype)
        if last is not None and last["next"] is None:
            self.start = None
        elif last is not None and self._buckets.cut(last["sizes"]):
            self.start = ResumePoint.from_json(last["next"])
        else:
            self._buckets.begin()

    def write(self, group: Group) -> None:
        """Append the documents of a group to buckets."""
        plan = self._plan
        if self._unsaved >= CHECKPOINT_BYTES:
            self._save(group.start)
        assert plan.seed is not None
        keys = hash_positions(plan.seed, plan.part or (0, 1), *group.number_documents())
        self._buckets.append(group.ids, group.lengths, keys, group.choose_validation(plan.validation))
        self._unsaved += group.size
        self._used = group.file_and_index(len(group.lengths) - 1)[0] + 1
        crash_point("bucketed")

    def _save(self, after: ResumePoint | None, skipped: int = 0) -> None:
        """Record that all documents before a resume point are in the buckets."""
        sizes = self._buckets.sizes(sync=True)
        fields = _next_fields(self._used, after, skipped)
        self._journal.append({"buckets": self._buckets.count, "sizes": sizes, **fields})
        self._unsaved = 0
        crash_point("recorded")

    def end(self, skipped: int) -> None:
        """Record that all documents are in the buckets; `skipped` bad records were left out in all runs."""
        self._save(None, skipped)

    def count_tokens(self) -> int:
        """The number of tokens that the buckets had when all documents were in them."""
        sizes = [step["sizes"] for step in self._journal.steps if "buckets" in step]
        return sum(ids for ids, _ in sizes[-1]) // self._plan.dtype.itemsize if sizes else 0

    def write_shards(self, advance: Callable[[int], object]) -> None:
        """Write the shards that are not finished, and remove the buckets.

        Args:
            advance: called with the number of tokens after each bucket.

        """
        per_shard = self._buckets.count // self._shards
        for shard in range(self._finished, self._shards):
            buckets = range(shard * per_shard, (shard + 1) * per_shard)
            for bucket in buckets:
                before = self._tokens
                for ids, lengths, begins, ends, validation in self._buckets.sort_documents(bucket):
                    chosen = validation if self._plan.validation > 0 else None
                    self._write_documents(ids, lengths, begins, ends, chosen)
                advance(self._tokens - before)
                crash_point("written")
            self._finish_step()
            self._buckets.remove(buckets)
        self._buckets.remove_all()
