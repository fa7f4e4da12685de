"""Shards in source order: each ends after the first document with which it has `shard_size` tokens or more.

So where shards end depends on the documents alone, not on how they are grouped. Shuffled shards: `shuffled.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.data.grouping import Group, Place
from bpe.data.journal import Journal, reached
from bpe.data.splitting import is_validation
from bpe.data.steps import Step, Target


class OrderedShards:
    """Writes groups of documents to shards in order, and records each finished step in the journal.

    Args:
        target: where shards go.
        journal: its steps are those that are finished.
        shard_size: the tokens after which a step ends; None for one step.
        validation: the fraction of documents for validation; 0 for no split.

    """

    def __init__(self, target: Target, journal: Journal, shard_size: int | None, validation: float) -> None:
        self._target, self._journal, self._validation = target, journal, validation
        self._size = (1 << 63) - 1 if shard_size is None else shard_size
        self._documents: Counter[str] = Counter()
        for step in journal.steps:
            self._count(step)
        self._begin()

    @property
    def start(self) -> Place | None:
        """Where to go on after the finished steps; None if there is nothing left."""
        if not self._journal.steps:
            return Place()
        after = self._journal.steps[-1]["next"]
        return None if after is None else Place.from_json(after)

    def _begin(self) -> None:
        self._step = Step(self._target, len(self._journal.steps), self._documents)
        self._first: tuple[int, int] | None = None  # the file and the number in it of the first document
        self._last_file = -1

    def write(self, group: Group) -> None:
        """Write a group."""
        validation = is_validation(group.hashes, self._validation) if group.hashes is not None else None
        totals = np.cumsum(group.lengths)
        complete = group.complete
        first = before = 0
        while first < complete:
            wanted = self._size - self._step.tokens + before
            last = first + int(np.searchsorted(totals[first:complete], wanted))
            if last >= complete:
                break
            self._write(group, first, last + 1, before, int(totals[last]), validation)
            self._finish(group.place_of(last + 1))
            first, before = last + 1, int(totals[last])
        if first < len(group.lengths):
            self._write(group, first, len(group.lengths), before, len(group.ids), validation)

    def _write(
        self, group: Group, first: int, last: int, start: int, end: int, validation: NDArray[np.bool_] | None
    ) -> None:
        """Write the documents from `first` to `last`, whose ids are from `start` to `end`."""
        if self._first is None:
            self._first = group.number_of(first)
        self._last_file = group.number_of(last - 1)[0]
        self._step.write(
            group.ids[start:end],
            group.lengths[first:last],
            group.begins or first > 0,
            group.ends or last < len(group.lengths),
            None if validation is None else validation[first:last],
        )
        reached("written")

    def _finish(self, after: Place | None, skipped: int = 0) -> None:
        """Finish the shards of the step, and begin another."""
        step: dict[str, Any] = {"shards": self._step.finish(), "first": self._first}
        if after is None:
            step |= {"used": None, "next": None, "skipped": skipped}
        else:
            step |= {"used": self._last_file + 1, "next": after.to_json()}
        self._count(step)
        self._journal.append(step)
        reached("recorded")
        self._begin()

    def _count(self, step: dict[str, Any]) -> None:
        for shard in step["shards"]:
            self._documents[shard["split"] or ""] += shard["documents"]

    def end(self, skipped: int) -> None:
        """Finish the last step, after all groups; `skipped` bad records were left out in all runs."""
        self._finish(None, skipped)

    def discard(self) -> None:
        """Remove what is not finished."""
        self._step.discard()
