"""Shuffled shards: all documents go to buckets on disk, and then shard by shard out of them.

The keys and the bucket files: `shuffling.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from bpe.data.grouping import Group, Place
from bpe.data.journal import Journal, reached
from bpe.data.shuffling import Buckets, bucket_count, document_keys
from bpe.data.splitting import is_validation
from bpe.data.steps import Step, Target

#: After this many bytes of sources the buckets are written to the disk and the journal records their sizes.
CHECKPOINT = 256 << 20


class ShuffledShards:
    """Writes groups of documents to buckets, and shards from them.

    The journal has records of the buckets ("buckets": their number; "sizes" and "next" after each checkpoint) and then
    a record per shard.

    Args:
        target: where shards go.
        journal: its steps are those that are finished.
        shards: the number of shards.
        seed: the seed of the shuffle.
        part: number and count of the part of the sources.
        validation: the fraction of documents for validation; 0 for no split.
        size: the bytes of the sources, about.

    """

    def __init__(
        self,
        target: Target,
        journal: Journal,
        *,
        shards: int,
        seed: int,
        part: tuple[int, int],
        validation: float,
        size: int,
    ) -> None:
        self._target, self._journal, self._seed, self._part = target, journal, seed, part
        self._validation, self._shards = validation, shards
        self._unsaved = self._used = 0
        checkpoints = [step for step in journal.steps if "buckets" in step]
        self._done = [step for step in journal.steps if "shards" in step]
        count = checkpoints[-1]["buckets"] if checkpoints else bucket_count(size * target.dtype.itemsize // 4, shards)
        self._buckets = Buckets(target.folder, count, target.dtype)
        self._start: Place | None = self._restored(checkpoints)
        self._step: Step | None = None

    def _restored(self, checkpoints: list[dict[str, Any]]) -> Place | None:
        """Where reading goes on, with the buckets as they were there; None if all documents are in buckets."""
        if checkpoints and checkpoints[-1]["next"] is None:
            return None
        if checkpoints and self._buckets.cut(checkpoints[-1]["sizes"]):
            return Place.from_json(checkpoints[-1]["next"])
        self._buckets.begin()
        return Place()

    @property
    def start(self) -> Place | None:
        """Where reading begins; None if all documents are in buckets."""
        return self._start

    def write(self, group: Group) -> None:
        """Append the documents of a group to buckets."""
        if self._unsaved >= CHECKPOINT:
            self._save(group.place)
        keys = document_keys(self._seed, self._part, *group.numbering())
        validation = None if group.hashes is None else is_validation(group.hashes, self._validation)
        self._buckets.append(group.ids, group.lengths, keys, validation)
        self._unsaved += group.size
        self._used = group.number_of(len(group.lengths) - 1)[0] + 1
        reached("bucketed")

    def _save(self, place: Place | None, skipped: int = 0) -> None:
        """Record that all documents before a place are in the buckets."""
        sizes = self._buckets.sizes(sync=True)
        step: dict[str, Any] = {"buckets": self._buckets.count, "sizes": sizes}
        if place is None:
            step |= {"used": None, "next": None, "skipped": skipped}
        else:
            step |= {"used": self._used, "next": place.to_json()}
        self._journal.append(step)
        self._unsaved = 0
        reached("recorded")

    def end(self, skipped: int) -> None:
        """Record that all documents are in the buckets; `skipped` bad records were left out in all runs."""
        self._save(None, skipped)

    def write_shards(self, advance: Callable[[int], object]) -> None:
        """Write the shards that are not finished, and remove the buckets.

        Args:
            advance: called with the number of tokens after each bucket.

        """
        documents: Counter[str] = Counter()
        for done in self._done:
            for shard in done["shards"]:
                documents[shard["split"] or ""] += shard["documents"]
        per_shard = self._buckets.count // self._shards
        for number in range(len(self._done), self._shards):
            buckets = range(number * per_shard, (number + 1) * per_shard)
            step = self._step = Step(self._target, number, documents)
            for bucket in buckets:
                before = step.tokens
                for part in self._buckets.sorted_documents(bucket):
                    validation = part.validation if self._target.split else None
                    step.write(part.ids, part.lengths, part.begins, part.ends, validation)
                advance(step.tokens - before)
                reached("written")
            record: dict[str, Any] = {"shards": step.finish()}
            self._step = None
            for shard in record["shards"]:
                documents[shard["split"] or ""] += shard["documents"]
            self._journal.append(record)
            reached("recorded")
            self._buckets.remove(buckets)
        self._buckets.remove_all()

    def discard(self) -> None:
        """Remove what is not finished; the buckets stay."""
        if self._step is not None:
            self._step.discard()


def tokens_in_buckets(journal: Journal, dtype: np.dtype[Any]) -> int:
    """The number of tokens that the buckets had when all documents were in them."""
    sizes = [step["sizes"] for step in journal.steps if "buckets" in step]
    return sum(ids for ids, _ in sizes[-1]) // dtype.itemsize if sizes else 0
