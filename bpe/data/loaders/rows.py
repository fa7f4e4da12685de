"""Rows of ids in a seed's order, the batches of a training run, and the state to resume from.

A run reads one endless sequence of rows: those of epoch 0 in its order, those of epoch 1 in its own, and so on. Row
`index` of an epoch has the number `epoch * len(rows) + index` in it. A global batch is the next `size` rows of the
sequence; rank r of n takes the r-th of n equal parts. All ranks have equally many batches, and equally many rows in
each, or a rank would wait for the others without end: rows that the last batch of a run cannot divide equally are left
out. So the state of a run is one number, whatever the number of ranks and workers:

    rows        0 1 2 3 4 5 6 7 | 8 9 ...            batches of 4
    1 rank      [0 1 2 3] [4 5 6 7]
    2 ranks     [0 1][2 3] [4 5][6 7]                 rank 0 has the left part, rank 1 the right one
    2 workers   [0 1 2 3] of the first, [4 5 6 7] of the second, [8 9 10 11] of the first
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import make_lock
from bpe.data.loaders.spans import Batch, Fields, RowFormat, SpanReader
from bpe.errors import check_bool, check_choice, check_int, describe, pluralize, short_repr

if TYPE_CHECKING:
    from bpe.data.shards import TokenShards

Tail = Literal["drop", "pad"]
#: Of `State`. Another version is refused.
VERSION = 1
#: The limit of a row's number, epoch * len(rows) + index.
ROW_LIMIT = 1 << 63
#: Where a run is: version, fingerprint, seed, epoch, position (rows of the epoch that were consumed).
State = dict[str, Any]


class RowList(list[Batch]):
    """The rows of one batch, each a dict of views.

    Attributes:
        batch: the arrays that rows are views of, which `collate` takes as they are.

    """

    def __init__(self, batch: Batch) -> None:
        fields = cast("Fields", batch)
        arrays = [(name, value) for name, value in fields.items() if name not in ("cu_seqlens", "max_seqlen")]
        n_rows = len(arrays[0][1]) if arrays else 0
        super().__init__(cast("Batch", {name: value[i] for name, value in arrays}) for i in range(n_rows))
        self.batch = batch


class Rows(ABC):
    """Fixed-length rows of ids, in the order of a seed: a sequence for PyTorch, grain, or any loop.

    `rows[i]` is row i of epoch 0; `rows[epoch, i]` is row i of any epoch. A row is a dict of int64 arrays of `length`.

    Attributes:
        length: the positions of a row.
        seed: the seed of the order.
        fields: the names of a row's arrays, and "cu_seqlens" if batches have it.
        row_format: what a batch holds.

    """

    def __init__(self, row_format: RowFormat, seed: object) -> None:
        self.row_format = row_format
        self.length, self.fields = row_format.length, row_format.fields
        self.seed = check_int("seed", seed, 0)

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of all that decides the rows: the shards' content, the length, and how documents make rows."""

    @property
    @abstractmethod
    def tokenizer_fingerprints(self) -> frozenset[str]:
        """The fingerprints of the tokenizers that encoded the ids, as far as they are known."""

    @abstractmethod
    def read(self, numbers: NDArray[np.int64]) -> Batch:
        """Read the rows with these numbers, each `epoch * len(rows) + index`: int64 arrays (n, length)."""

    def __getitem__(self, key: int | tuple[int, int]) -> Batch:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[int | tuple[int, int]]) -> RowList:
        """Read the rows of several keys, each a dict of views of one batch: PyTorch's DataLoader calls this."""
        return RowList(self.read(self._parse_keys(keys)))

    def __iter__(self) -> Iterator[Batch]:
        return (self[index] for index in range(len(self)))

    def batches(
        self,
        size: int,
        *,
        rank: int = 0,
        world: int = 1,
        state: State | None = None,
        epochs: int | None = 1,
        drop_last: bool = False,
    ) -> Batches:
        """Iterate over batches: dicts of int64 arrays of shape (size / world, length).

        Args:
            size: the rows of a global batch, over all ranks. It may be another after resuming.
            rank: the part of each batch to yield, from 0 to `world` - 1.
            world: the number of parts, which must divide `size`.
            state: where to begin, from `Batches.state_dict`; None for the beginning.
            epochs: how many epochs the run has, counted from its beginning; None for a run without end. A batch may
                hold the last rows of one epoch and the first of the next. Only the last batch of a run may be smaller:
                of its n rows each rank has n // world, and up to world - 1 rows are left out.
            drop_last: whether to leave that smaller batch out.

        Raises:
            ValueError: for a state of other rows (its fingerprint), another seed or another version.

        """
        return Batches(self, BatchPlan(self, size, rank, world, epochs, drop_last), self.row_of_state(state))

    def row_of_state(self, state: Mapping[str, Any] | None) -> int:
        """Find the number of the next row of a run in this state; a state of other rows raises ValueError."""
        if state is None:
            return 0
        if not isinstance(state, Mapping) or not {"version", "fingerprint", "seed", "epoch", "position"} <= set(state):
            raise TypeError(f"state is {describe(state)}; it must be what state_dict() returned")
        if state["version"] != VERSION:
            raise ValueError(
                f"the state's version is {short_repr(state['version'])}; this release of bpe reads {VERSION}"
            )
        saved = state["fingerprint"]
        length = saved.partition("-")[2] if isinstance(saved, str) else ""
        if length.isdecimal() and len(length) < 20 and int(length) != self.length:
            raise ValueError(
                f"the state is of rows of length {length}, but these rows have length {self.length}: resume with the "
                "length of the run that saved it"
            )
        fingerprint = self._fingerprint_before(state["epoch"], state["position"])
        for name, expected in (("fingerprint", fingerprint), ("seed", self.seed)):
            if state[name] != expected:
                raise ValueError(
                    f"the state's {name} is {short_repr(state[name])}, but these rows have {expected!r}: resume with "
                    "the shards, the arguments and the seed of the run that saved it"
                )
        position = check_int("the state's position", state["position"], 0, max(len(self), 1) - 1)
        return check_int("the state's epoch", state["epoch"], 0) * len(self) + position

    def state_at(self, row: int) -> State:
        """Make the state of a run whose next row has this number."""
        epoch, position = divmod(row, max(len(self), 1))
        seed, fingerprint = self.seed, self._fingerprint_before(epoch, position)
        return {"version": VERSION, "fingerprint": fingerprint, "seed": seed, "epoch": epoch, "position": position}

    def _fingerprint_before(self, epoch: object, position: object) -> str:  # noqa: ARG002 (Mixture uses them)
        """Hash all that decides the rows of a run before this one; the numbers may be those of a damaged state."""
        return self.fingerprint

    def _parse_keys(self, keys: Sequence[int | tuple[int, int]]) -> NDArray[np.int64]:
        """Compute the numbers of keys: indices of epoch 0, or pairs of epoch and index."""
        pairs: list[Any] = list(keys)
        if set(map(type, keys)) != {tuple}:
            pairs = [key if isinstance(key, tuple) else (0, key) for key in keys]
        numbers = list(chain.from_iterable(pairs))
        if set(map(len, pairs)) != {2} or set(map(type, numbers)) != {int}:
            for key, pair in zip(keys, pairs, strict=True):
                if len(pair) != 2 or not all(type(part) is int or hasattr(part, "__index__") for part in pair):
                    raise TypeError(f"index is {describe(key)}; it must be an int, or (epoch, index)")
        n_rows = len(self)
        is_invalid: NDArray[np.bool_] = np.ones(len(keys), dtype=np.bool_)
        try:
            epochs, indices = np.array(numbers, dtype=np.int64).reshape(-1, 2).T
            is_invalid = (
                (epochs < 0) | (epochs >= ROW_LIMIT // max(n_rows, 1)) | (indices < -n_rows) | (indices >= n_rows)
            )
        except OverflowError:  # more than 64 bits
            pass
        for key in np.flatnonzero(is_invalid)[:1].tolist():
            raise IndexError(f"index is {short_repr(keys[key])}; there are {n_rows} rows in each epoch, from 0")
        return np.asarray(epochs * n_rows + indices % max(n_rows, 1), dtype=np.int64)

    def _split_by_epoch(
        self, row_numbers: NDArray[np.int64]
    ) -> Iterable[tuple[int, NDArray[np.int64], NDArray[np.bool_]]]:
        """Yield (epoch, its indices, a mask of the numbers that are of it)."""
        epochs, indices = np.divmod(row_numbers, max(len(self), 1))
        for epoch in dict.fromkeys(epochs.tolist()):
            in_epoch = epochs == epoch
            yield epoch, indices[in_epoch], in_epoch


class ShardRows(Rows):
    """Rows of the ids of one `TokenShards`.

    Raises:
        TypeError, ValueError: for shards that are none, or that do not record documents where these are needed.

    """

    def __init__(
        self, shards: TokenShards, row_format: RowFormat, seed: object, tail: Tail, *, by_document: bool
    ) -> None:
        if not hasattr(shards, "document_bounds"):
            raise TypeError(f"shards is {describe(shards)}; it must be a bpe.data.TokenShards: TokenShards(path)")
        for shard in getattr(shards, "shards", ()) if by_document else ():
            if not getattr(shard, "has_boundaries", True):
                raise ValueError(
                    f"{shard.name} does not record where documents begin, which Packed and the fields by document "
                    "need; open it with TokenShards(path, end_of_text=ID), the id that separates its documents"
                )
        super().__init__(row_format, seed)
        self.shards = shards
        self._tail: Tail = check_choice("tail", tail, ("drop", "pad"))
        self._reader = SpanReader(shards)

    @property
    def tokenizer_fingerprints(self) -> frozenset[str]:
        """The fingerprint of the shards' tokenizer, if it is known."""
        tokenizer_fingerprint = getattr(self.shards, "tokenizer_fingerprint", None)
        return frozenset() if tokenizer_fingerprint is None else frozenset({tokenizer_fingerprint})


def check_division(size: int, rank: int, world: int) -> tuple[int, int, int]:
    """Check the arguments `size`, `rank` and `world`: the ranks must get equal parts of a global batch."""
    size, world = check_int("size", size, 1, 1 << 31), check_int("world", world, 1, 1 << 31)
    rank = check_int("rank", rank, 0, world - 1)
    if size % world:
        raise ValueError(
            f"size is {size} and world is {world}; size counts the rows of all ranks together, so that it must be a "
            "multiple of world"
        )
    return size, rank, world


class BatchPlan:
    """Which rows of the sequence one rank reads: global batches of `size` rows, each divided among the ranks.

    Raises:
        TypeError, ValueError: for arguments that are no ints, out of range, or a `world` that does not divide `size`.

    """

    def __init__(self, rows: Rows, size: int, rank: int, world: int, epochs: int | None, drop_last: bool) -> None:
        self.size, self.rank, self.world = check_division(size, rank, world)
        if len(rows) == 0:
            raise ValueError(f"{rows!r} has no rows: there are fewer than length + 1 = {rows.length + 1} ids")
        self.end = None if epochs is None else check_int("epochs", epochs, 1) * len(rows)
        self.drop_last = check_bool("drop_last", drop_last)
        if self.count_batches(0) == 0:
            raise ValueError(
                f"the run has {pluralize(self.end or 0, 'row')}, too few for a batch of {self.size} rows on "
                f"{pluralize(self.world, 'rank')}: {self._advise()}"
            )

    def _advise(self) -> str:
        """Say what gives a batch to a run that has none."""
        if not self.drop_last:  # each rank needs a row
            return "reduce world, or raise epochs"
        if (self.end or 0) < self.world:
            return "reduce size and world, or raise epochs"
        return "reduce size, raise epochs, or pass drop_last=False"

    def count_batches(self, start: int) -> int | None:
        """Count the batches of a run from this row on; None if it has no end."""
        if self.end is None:
            return None
        n_full, n_left = divmod(max(self.end - start, 0), self.size)
        return n_full + (n_left >= self.world and not self.drop_last)

    def find_row_after(self, start: int, n_batches: int) -> int:
        """Find the number of the row after `n_batches` global batches."""
        next_row = start + n_batches * self.size
        return next_row if self.end is None else min(next_row, self.end)

    def part(self, start: int) -> tuple[int, int]:
        """Find the rows of this rank in the global batch that begins at a row: (the first, the one after the last)."""
        count = (self.size if self.end is None else min(self.size, self.end - start)) // self.world
        return start + count * self.rank, start + count * (self.rank + 1)


class Batches(Iterator[Batch]):
    """An iterator of batches that knows its state: of a run as a whole, the same on all ranks.

    Threads may share one; each batch is yielded once.

    >>> import tempfile
    >>> from bpe.data import Blocks, TokenShards, write_shards
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = write_shards([range(41)], folder.name)
    >>> rows = Blocks(TokenShards(folder.name), length=4)
    >>> batches = rows.batches(2)
    >>> next(batches)["input_ids"].tolist()
    [[4, 5, 6, 7], [16, 17, 18, 19]]
    >>> state = batches.state_dict()
    >>> state["epoch"], state["position"]
    (0, 2)
    >>> again = rows.batches(1, state=state)
    >>> next(batches)["input_ids"][0].tolist() == next(again)["input_ids"][0].tolist()
    True
    >>> del rows, batches, again; folder.cleanup()

    """

    def __init__(self, rows: Rows, plan: BatchPlan, start: int, worker: int = 0, workers: int = 1) -> None:
        self._rows, self._plan = rows, plan
        #: The number of the first row of the next global batch that this iterator takes part in.
        self.next_row = start + worker * plan.size
        self._step = workers * plan.size
        self._lock = make_lock(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=make_lock(self))

    def __iter__(self) -> Batches:
        return self

    def __len__(self) -> int:
        """Count the batches left. A run without end raises TypeError."""
        count = self._plan.count_batches(self.next_row)
        if count is None:
            raise TypeError("epochs is None, so that the run has no end")
        return -(-count * self._plan.size // self._step)

    def __next__(self) -> Batch:
        with self._lock:
            if self._plan.count_batches(self.next_row) == 0:
                raise StopIteration
            batch = self._rows.read(np.arange(*self._plan.part(self.next_row)))
            self.next_row += self._step  # after reading: an interrupted call can be made again
            return batch

    def at_end(self) -> bool:
        """Whether there is no batch left."""
        return self._plan.count_batches(self.next_row) == 0

    def state_dict(self) -> State:
        """Return the state after the batches yielded so far, for JSON: version, fingerprint, seed, epoch, position."""
        return self._rows.state_at(self._plan.find_row_after(self.next_row, 0))


def hash_values(length: int, *parts: object) -> str:
    """Hash values that JSON can hold, and add the length of rows, so that a state of another length is recognized.

    >>> hash_values(16, "Blocks", 3)
    '6492abe6f9ce1c2bb3cf0ffe9918ea83-16'
    """
    return f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}-{length}"


def keep_last(cache: dict[int, Any], key: int, value: Any, capacity: int) -> None:
    """Add to a cache that holds the last `capacity` items and that any number of threads use, none of which waits."""
    for old_key in list(cache)[: max(len(cache) + 1 - capacity, 0)]:
        cache.pop(old_key, None)  # another thread may have removed it
    cache[key] = value
