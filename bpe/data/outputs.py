"""Groups of documents to shards: in source order, or shuffled by way of buckets.

Shards that are finished together are recorded as one *step* in one line of the journal. A step is one shard; with a
validation split, one of each, from the same part of the sources, so that one position resumes both. In source order, a
step ends after the first document with which it has `shard_size` tokens or more: where shards end depends on the
documents alone, not on how they are grouped. Shuffled documents go to buckets on disk first (`shuffling.py`), and then
shard by shard out of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.corpus.sources import Sources
from bpe.data.formats._file_writer import FileTarget, find_document_ends
from bpe.data.formats.files import WriterThreads
from bpe.data.formats.shard_format import ShardInfo, ShardWriter
from bpe.data.grouping import DocumentGroup, ResumePoint
from bpe.data.journal import Journal, crash_point
from bpe.data.manifest import ShardEntry
from bpe.data.plan import TRAIN, VALIDATION, ShardPlan
from bpe.data.shuffling import Buckets, compute_document_keys, count_buckets
from bpe.errors import ignore_system_errors

#: After this many bytes of sources the buckets are written to the disk and the journal records their sizes.
CHECKPOINT_BYTES = 256 << 20


class ShardOutput:
    """Writes the shards of steps, and records each finished step in the journal.

    Args:
        plan: where shards go, and how.
        journal: its steps are those that are finished.
        threads: those that help to write shards.

    Attributes:
        start: where reading goes on after the finished steps; None if there is nothing left to read.

    """

    start: ResumePoint | None = ResumePoint()

    def __init__(self, plan: ShardPlan, journal: Journal, threads: WriterThreads) -> None:
        self._plan, self._journal, self._threads = plan, journal, threads
        self._n_finished_steps = 0  # steps of shards
        self._n_documents: Counter[str | None] = Counter()  # of each split, in finished steps
        self._writers: dict[str | None, ShardWriter] = {}
        self._n_step_tokens = 0  # in the step, of all splits
        for step in journal.steps:
            self._count_step(step)

    def open_target(self) -> FileTarget | None:
        """Open a target, by which the encoder's threads write the next group's first ids straight to the step's shard.

        None if this output or format allows none.
        """
        return None

    def _write_documents(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        begins_document: bool,
        ends_document: bool,
        *,
        validation: NDArray[np.bool_] | None = None,
        target: FileTarget | None = None,
    ) -> None:
        """Write documents, given as to `ShardWriter.write`, to their splits; `validation` says which."""
        if not len(lengths):
            return
        self._n_step_tokens += len(ids) + (0 if target is None else target.n_ids)
        if validation is None:
            self._get_writer(None).write(
                ids, lengths, begins_document=begins_document, ends_document=ends_document, target=target
            )
            return
        id_is_validation = np.repeat(validation, lengths)
        for split, is_validation in ((TRAIN, False), (VALIDATION, True)):
            rows = validation == is_validation
            if rows.any():
                self._get_writer(split).write(
                    ids[id_is_validation == is_validation],
                    lengths[rows],
                    begins_document=begins_document,
                    ends_document=ends_document,
                )

    def _get_writer(self, split: str | None) -> ShardWriter:
        if split not in self._writers:
            plan = self._plan
            info = ShardInfo(plan.fingerprint, first_document=self._n_documents[split])
            stem = plan.make_stem(split, self._n_finished_steps)
            self._writers[split] = plan.format.open_writer(
                plan.folder, stem, plan.dtype, info=info, threads=self._threads
            )
        return self._writers[split]

    def _finish_step(self, **fields: Any) -> None:
        """Finish all shards of the step, and record them, with more fields, in the journal."""
        records = []
        for split in self._plan.splits:
            writer = self._writers.get(split)
            if writer is None:
                continue
            if writer.is_empty:
                writer.discard()
                continue
            crash_point("finish")
            files = writer.finish()
            crash_point("finished")
            stem = self._plan.make_stem(split, self._n_finished_steps)
            records.append(asdict(ShardEntry(stem, writer.n_documents, writer.n_tokens, tuple(files), split)))
        step = {"shards": records, **fields}
        self._journal.append(step)
        self._count_step(step)
        self._writers, self._n_step_tokens = {}, 0
        crash_point("recorded")

    def _count_step(self, step: dict[str, Any]) -> None:
        """Count a finished step and its documents."""
        self._n_finished_steps += "shards" in step
        for shard in step.get("shards", ()):
            self._n_documents[shard["split"]] += shard["documents"]

    def __enter__(self) -> None:
        """Begin a block after which an error removes the shards that are not finished."""

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        for writer in self._writers.values() if error is not None else ():
            with ignore_system_errors():
                writer.discard()


def _make_source_fields(n_used_files: int | None, next_point: ResumePoint | None, n_bad_records: int) -> dict[str, Any]:
    """Make the fields of a step about the sources: the files used, and where to go on; at the end, the bad records."""
    if next_point is None:
        return {"used": None, "next": None, "skipped": n_bad_records}
    assert next_point.position is not None
    n_passed_files = next_point.position.file_index  # some of them may have no documents
    return {"used": max(n_used_files or 0, n_passed_files), "next": next_point.to_json()}


class OrderedShardOutput(ShardOutput):
    """Writes groups of documents to shards in source order."""

    def __init__(self, plan: ShardPlan, journal: Journal, threads: WriterThreads) -> None:
        super().__init__(plan, journal, threads)
        self._shard_size = (1 << 63) - 1 if plan.shard_size is None else plan.shard_size
        self._first_document: tuple[int, int] | None = None  # the file and the index in it of the step's first document
        self._last_file = -1
        if journal.steps:
            next_point = journal.steps[-1]["next"]
            self.start = None if next_point is None else ResumePoint.from_json(next_point)

    def open_target(self) -> FileTarget | None:
        """Open a target that takes the ids before the document that ends the step."""
        writer = self._get_writer(None) if self._plan.splits == (None,) else None
        if writer is None or not writer.takes_targets:
            return None
        return writer.open_target(self._shard_size - self._n_step_tokens)

    def write(self, group: DocumentGroup) -> None:
        """Write a group."""
        (token_ends, _), n_documents = find_document_ends(group.lengths), len(group.lengths)
        validation, target, n_written = group.choose_validation(self._plan.validation), group.target, group.n_written
        document = token_start = 0  # the next document, and its first id
        while document < n_documents:
            missing_tokens = self._shard_size - self._n_step_tokens + token_start
            is_full = group.n_complete > 0 and token_ends[group.n_complete - 1] >= missing_tokens
            next_document, token_end = n_documents, group.n_ids
            if is_full:
                last_document = document + int(np.searchsorted(token_ends[document : group.n_complete], missing_tokens))
                next_document, token_end = last_document + 1, int(token_ends[last_document])
            if self._first_document is None:
                self._first_document = group.find_file_and_index(document)
            self._last_file = group.find_file_and_index(next_document - 1)[0]
            self._write_documents(
                group.ids[max(token_start - n_written, 0) : token_end - n_written],
                group.lengths[document:next_document],
                group.begins_document or document > 0,
                group.ends_document or next_document < n_documents,
                validation=None if validation is None else validation[document:next_document],
                target=target,
            )
            target = None
            crash_point("written")
            if is_full:
                self._finish_ordered_step(group.find_resume_point(next_document))
            document, token_start = next_document, token_end

    def _finish_ordered_step(self, next_point: ResumePoint | None, n_bad_records: int = 0) -> None:
        """Finish the shards of the step; reading goes on at `next_point`."""
        self._finish_step(
            first=self._first_document, **_make_source_fields(self._last_file + 1, next_point, n_bad_records)
        )
        self._first_document, self._last_file = None, -1

    def finish(self, n_bad_records: int) -> None:
        """Finish the last step, after all groups; `n_bad_records` bad records were left out in all runs."""
        self._finish_ordered_step(None, n_bad_records)


class ShuffledShardOutput(ShardOutput):
    """Writes groups of documents to buckets, and shards from them.

    The journal has records of the buckets ("buckets": their number; "sizes" and "next" after each checkpoint) and then
    a record per shard.
    """

    def __init__(self, plan: ShardPlan, journal: Journal, threads: WriterThreads, sources: Sources) -> None:
        super().__init__(plan, journal, threads)
        self._unsaved_bytes = self._n_used_files = 0
        self._n_shards = plan.count_shards(sources)
        checkpoint_steps = [step for step in journal.steps if "buckets" in step]
        last_checkpoint = checkpoint_steps[-1] if checkpoint_steps else None
        size = (sources.text_size or 0) * plan.dtype.itemsize // 4
        n_buckets = count_buckets(size, self._n_shards) if last_checkpoint is None else last_checkpoint["buckets"]
        self._buckets = Buckets(plan.folder, n_buckets, plan.dtype)
        if last_checkpoint is not None and last_checkpoint["next"] is None:
            self.start = None
        elif last_checkpoint is not None and self._buckets.truncate(last_checkpoint["sizes"]):
            self.start = ResumePoint.from_json(last_checkpoint["next"])
        else:
            self._buckets.create()

    def write(self, group: DocumentGroup) -> None:
        """Append the documents of a group to buckets."""
        plan = self._plan
        if not len(group.lengths):  # of files without documents
            self._unsaved_bytes += group.disk_bytes
            return
        if self._unsaved_bytes >= CHECKPOINT_BYTES:
            self._save_checkpoint(group.find_resume_point(0))
        assert plan.seed is not None
        keys = compute_document_keys(plan.seed, plan.part or (0, 1), *group.number_documents())
        self._buckets.append(group.ids, group.lengths, keys, group.choose_validation(plan.validation))
        self._unsaved_bytes += group.disk_bytes
        self._n_used_files = group.find_file_and_index(len(group.lengths) - 1)[0] + 1
        crash_point("bucketed")

    def _save_checkpoint(self, next_point: ResumePoint | None, n_bad_records: int = 0) -> None:
        """Record that all documents before a resume point are in the buckets."""
        sizes = self._buckets.measure_sizes(sync=True)
        fields = _make_source_fields(self._n_used_files, next_point, n_bad_records)
        self._journal.append({"buckets": self._buckets.n_buckets, "sizes": sizes, **fields})
        self._unsaved_bytes = 0
        crash_point("recorded")

    def finish(self, n_bad_records: int) -> None:
        """Record that all documents are in the buckets; `n_bad_records` bad records were left out in all runs."""
        self._save_checkpoint(None, n_bad_records)

    def count_tokens(self) -> int:
        """Count the tokens that the buckets had when all documents were in them."""
        sizes = [step["sizes"] for step in self._journal.steps if "buckets" in step]
        return sum(ids for ids, _ in sizes[-1]) // self._plan.dtype.itemsize if sizes else 0

    def write_shards(self, advance: Callable[[int], object]) -> None:
        """Write the shards that are not finished, and remove the buckets.

        Args:
            advance: called with the number of tokens after each bucket.

        """
        per_shard = self._buckets.n_buckets // self._n_shards
        for shard in range(self._n_finished_steps, self._n_shards):
            buckets = range(shard * per_shard, (shard + 1) * per_shard)
            for bucket in buckets:
                tokens_before = self._n_step_tokens
                for ids, lengths, begins, ends, validation in self._buckets.sort_documents(bucket):
                    split_rows = validation if self._plan.validation > 0 else None
                    self._write_documents(ids, lengths, begins, ends, validation=split_rows)
                advance(self._n_step_tokens - tokens_before)
                crash_point("written")
            self._finish_step()
            self._buckets.remove(buckets)
        self._buckets.remove_all()
