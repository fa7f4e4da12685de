"""Steps of writing: the shards that are finished together and recorded in one line of the journal.

Without a split a step is one shard. With a train/validation split it is one shard of each side, made from the same part
of the sources, so that one position says where to go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.data.formats.shard_format import ShardFormat, ShardInfo, ShardWriter
from bpe.data.journal import reached
from bpe.data.manifest import ShardEntry

#: The names of the sides, in the order in which files are finished.
TRAIN, VALIDATION = "train", "val"
#: The number of shards, so that sorting names of five digits gives their order.
MOST_SHARDS = 100_000


@dataclass(frozen=True, slots=True)
class Target:
    """Where shards are written, and how.

    Attributes:
        folder: the output folder.
        format: the format.
        dtype: of the ids.
        info: facts about the output that some formats store.
        split: whether there is a train/validation split.
        single: whether each side is one shard without a number in its name.
        name: the name of shards when there is no split.

    """

    folder: Path
    format: ShardFormat
    dtype: np.dtype[Any]
    info: ShardInfo
    split: bool
    single: bool = False
    name: str = "tokens"

    def stem(self, split: str | None, number: int) -> str:
        """The beginning of the names of a shard's files."""
        name = split or self.name
        if self.single:
            return name
        if number >= MOST_SHARDS:
            raise ValueError(f"the output has more than {MOST_SHARDS} shards; choose a larger shard_size")
        return f"{name}-{number:05}"


class Step:
    """The shards of one step, which are being written.

    Args:
        target: where.
        number: the number of the step, from 0.
        documents: how many documents each side has in earlier steps.

    Attributes:
        tokens: the number of ids in all sides.

    """

    def __init__(self, target: Target, number: int, documents: Mapping[str, int]) -> None:
        self.tokens = 0
        self._target, self._number, self._before = target, number, documents
        self._writers: dict[str, ShardWriter] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written."""
        return not self._writers

    def write(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        begins: bool,
        ends: bool,
        validation: NDArray[np.bool_] | None,
    ) -> None:
        """Write documents to their sides.

        Args:
            ids: of all documents, as for `ShardWriter.write`; so are the next three.
            lengths: int64, the number of ids of each.
            begins: whether the first document begins here.
            ends: whether the last document ends here.
            validation: which documents are for validation; None without a split.

        """
        if not len(lengths):
            return
        self.tokens += len(ids)
        if validation is None:
            self._writer("").write(ids, lengths, begins=begins, ends=ends)
            return
        of_ids = np.repeat(validation, lengths)
        for split, chosen in ((TRAIN, False), (VALIDATION, True)):
            some = validation == chosen
            if some.any():
                self._writer(split).write(ids[of_ids == chosen], lengths[some], begins=begins, ends=ends)

    def _writer(self, split: str) -> ShardWriter:
        writer = self._writers.get(split)
        if writer is None:
            target = self._target
            first = self._before.get(split, 0)
            info = ShardInfo(target.info.tokenizer, target.info.source, first)
            stem = target.stem(split or None, self._number)
            writer = self._writers[split] = target.format.writer(target.folder, stem, target.dtype, info=info)
        return writer

    def finish(self) -> list[dict[str, Any]]:
        """Finish all shards, and return their records, as the journal and the manifest have them."""
        records = []
        for split in sorted(self._writers):
            writer = self._writers[split]
            reached("finish")
            files = writer.finish()
            reached("finished")
            stem = self._target.stem(split or None, self._number)
            records.append(asdict(ShardEntry(stem, writer.documents, writer.tokens, tuple(files), split or None)))
        return records

    def discard(self) -> None:
        """Remove what is not finished."""
        for writer in self._writers.values():
            with suppress(OSError):
                writer.discard()
