"""PyTorch: a sampler for datasets with `__getitems__`, whole batches from the workers of a DataLoader, collation.

PyTorch is imported inside the functions that need it. Two ways to use a DataLoader:

    sampler = RowSampler(rows, 64)                  # the main process says which rows; state for any number of workers
    DataLoader(rows, batch_sampler=sampler, collate_fn=torch_collate, num_workers=2)

    stream = torch_batches(rows, 64)                # each worker makes whole batches by itself
    DataLoader(stream, batch_size=None, num_workers=2)

Not here: the order of rows and the division among ranks (`rows.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from bpe.data.loaders.rows import Batches, Plan, Rows, State
from bpe.data.loaders.spans import Batch, collate
from bpe.errors import check_int, shown, typed

Key = tuple[int, int]

#: Why the stream of a `StreamingEncoder` has no state for any number of workers, and what to do.
STREAMED = (
    "the state of a StreamingEncoder belongs to each worker of each rank, which reads a part of the sources: save them "
    "with torchdata's StatefulDataLoader and resume with as many ranks and workers, or write shards (bpe encode), "
    "whose rows can be resumed with any number"
)


class RowSampler:
    """A batch sampler: for each batch, the keys `(epoch, index)` of one rank's rows.

    A DataLoader asks for batches ahead of training, so that the sampler does not know how many were used. Count them,
    and save `state_dict(consumed=...)`; torchdata's StatefulDataLoader does this by itself.

    Args:
        rows: `Blocks`, `Packed` or `Mixture`.
        size: the rows of a global batch, over all ranks. It may be another after resuming.
        rank: the part of each batch to yield, from 0 to `world` - 1.
        world: the number of parts, which must divide `size`.
        epochs: how many epochs the run has, counted from its beginning; None for a run without end.
        drop_last: whether to leave out the last batch of a run if it is smaller.

    >>> import tempfile
    >>> from bpe.data import Blocks, TokenShards, write_shards
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = write_shards([range(41)], folder.name)
    >>> sampler = RowSampler(Blocks(TokenShards(folder.name), length=4), 4)
    >>> list(sampler)
    [[(0, 0), (0, 1), (0, 2), (0, 3)], [(0, 4), (0, 5), (0, 6), (0, 7)], [(0, 8), (0, 9)]]
    >>> sampler.load_state_dict(sampler.state_dict(consumed=2))
    >>> list(sampler)
    [[(0, 8), (0, 9)]]
    >>> del sampler; folder.cleanup()

    """

    def __init__(
        self,
        rows: Rows,
        size: int,
        *,
        rank: int = 0,
        world: int = 1,
        epochs: int | None = 1,
        drop_last: bool = False,
    ) -> None:
        self._rows, self._plan = checked_rows(rows), Plan(rows, size, rank, world, epochs, drop_last)
        self._start = self._next = 0
        self._yielded = 0  # by the latest iteration

    def __iter__(self) -> Iterator[list[Key]]:
        self._next, self._yielded = self._start, 0
        n_rows = len(self._rows)
        while self._plan.batches_from(self._next) != 0:
            numbers = range(*self._plan.part(self._next))
            self._next = self._plan.row_after(self._next, 1)
            self._yielded += 1
            yield [divmod(number, n_rows) for number in numbers]

    def __len__(self) -> int:
        """The number of batches of the next iteration. A run without end raises TypeError."""
        count = self._plan.batches_from(self._start)
        if count is None:
            raise TypeError("epochs is None, so that the run has no end")
        return count

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration one epoch of this number, or the rest of it after `load_state_dict`."""
        epoch = check_int("epoch", epoch, 0)
        if self._start // len(self._rows) != epoch:
            self._start = self._next = epoch * len(self._rows)
            self._yielded = 0
        self._plan.end = (epoch + 1) * len(self._rows)

    def state_dict(self, consumed: int | None = None) -> State:
        """The state after `consumed` batches of the latest iteration; without it, after all that were yielded.

        The state is the same on all ranks: version, fingerprint, seed, epoch, position.

        Raises:
            ValueError: for more batches than the latest iteration yielded: `consumed` counts from its beginning, which
                after `load_state_dict` is not the beginning of the run.

        """
        if consumed is None:
            return self._rows.state_at(self._next)
        if check_int("consumed", consumed, 0) > self._yielded:
            raise ValueError(
                f"consumed is {consumed} batches, but the latest iteration has yielded {self._yielded}; count the "
                "batches since it began, not since step 0 of the run"
            )
        return self._rows.state_at(self._plan.row_after(self._start, consumed))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin the next iteration where this state was saved; ValueError for a state of other rows."""
        self._start = self._next = self._rows.number_of(state)
        self._yielded = 0


class WholeBatch(dict[str, Any]):
    """A batch of `torch_batches`. PyTorch's default collation recognizes the type, and calls `_stacked`."""


class WorkerBatches(Iterator[Batch]):
    """The batches of one worker, with the state that torchdata's StatefulDataLoader saves for each worker."""

    def __init__(self, begin: Callable[[Mapping[str, Any] | None], Any], worker: int, workers: int) -> None:
        self._begin, self._worker = begin, {"worker": worker, "workers": workers}
        self._batches = begin(None)

    def __iter__(self) -> WorkerBatches:
        return self

    def __next__(self) -> Batch:
        return WholeBatch(next(self._batches))

    def state_dict(self) -> State:
        """The state of this worker."""
        return {**self._batches.state_dict(), **self._worker}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the worker of this number was; ValueError for another number of workers."""
        for name, own in self._worker.items():
            if state.get(name) != own:
                raise ValueError(
                    f"the state is of worker {state.get('worker')} of {state.get('workers')}, and this is worker "
                    f"{self._worker['worker']} of {self._worker['workers']}; to change the number of workers, use "
                    "bpe.data.RowSampler, or state_dict(consumed=) of the dataset (for rows of shards, not for a "
                    "StreamingEncoder)"
                )
        self._batches = self._begin(state)


class BatchStream:
    """Whole batches, divided among the workers of a DataLoader; `torch_batches` makes it an IterableDataset."""

    def __init__(self, source: Any, options: dict[str, Any]) -> None:
        self._source, self._options = source, options
        if isinstance(source, Rows):
            self._plan = Plan(source, **options)
        self._start = 0

    def __iter__(self) -> WorkerBatches:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        return WorkerBatches(lambda state: self._begin(worker, workers, state), worker, workers)

    def _begin(self, worker: int, workers: int, state: Mapping[str, Any] | None) -> Any:
        if not isinstance(self._source, Rows):
            part = self._options["rank"] * workers + worker, self._options["world"] * workers
            return self._source.batches(self._options["size"] // self._options["world"], part=part, state=state)
        if state is not None:  # where this worker was
            return Batches(
                self._source, self._plan, self._source.number_of(state) - worker * self._plan.size, worker, workers
            )
        return Batches(self._source, self._plan, self._start, worker, workers)

    def __len__(self) -> int:
        """The number of batches of the next iteration. Streams and runs without end raise TypeError."""
        count = self._plan.batches_from(self._start) if isinstance(self._source, Rows) else None
        if count is None:
            raise TypeError("the number of batches is unknown, or without end")
        return count

    def state_dict(self, consumed: int = 0) -> State:
        """The state after `consumed` batches of the latest iteration, for any number of workers and ranks.

        A `StreamingEncoder` has none: ValueError unless `consumed` is 0, for which the state is empty.

        Raises:
            ValueError: for more batches than the run has left.

        """
        if not isinstance(self._source, Rows):
            if consumed:
                raise ValueError(f"consumed is {shown(consumed)}; {STREAMED}")
            return {}  # StatefulDataLoader asks for it, and saves the state of each worker beside it
        left = self._plan.batches_from(self._start)
        if check_int("consumed", consumed, 0) > (consumed if left is None else left):
            raise ValueError(
                f"consumed is {consumed} batches, but this iteration has {left}; count the batches since it began, "
                "not since step 0 of the run"
            )
        return self._source.state_at(self._plan.row_after(self._start, consumed))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin the next iteration where this state was saved; ValueError for a state of other rows."""
        if isinstance(self._source, Rows):
            self._start = self._source.number_of(state)
        elif state:
            raise ValueError(f"state is {shown(state)}; {STREAMED}")


def torch_batches(
    source: Any,
    size: int,
    *,
    rank: int = 0,
    world: int = 1,
    epochs: int | None = 1,
    drop_last: bool = False,
) -> Any:
    """An IterableDataset of whole batches for `DataLoader(..., batch_size=None)`; each worker makes its own.

    With `Blocks`, `Packed` or `Mixture`, worker w of n makes every n-th batch, so that the DataLoader yields the same
    batches in the same order with any number of workers. Count the batches that training used, and save
    `state_dict(consumed=...)`; `load_state_dict` before the next iteration. With a `StreamingEncoder`, each worker of
    each rank reads its part of the sources, and torchdata's StatefulDataLoader saves their states: resuming needs as
    many ranks and workers, since their number decides which documents follow each other in a row.

    The arguments are those of `RowSampler`. With a `StreamingEncoder`, `epochs` and `drop_last` have no effect: it
    reads its sources once, and yields no smaller batch.
    """
    options = {"size": size, "rank": rank, "world": world, "epochs": epochs, "drop_last": drop_last}
    if not isinstance(source, Rows) and not hasattr(source, "pieces"):
        raise TypeError(f"source is {typed(source)}; it must be a Blocks, Packed, Mixture or StreamingEncoder")
    return _iterable_class()(source, options)


def torch_collate(rows: Sequence[Batch]) -> Batch:
    """One batch of tensors, of rows from a dataset: `collate_fn` for a DataLoader. See `bpe.data.collate`.

    Unlike PyTorch's own, it does not copy rows that one call of `__getitems__` returned.
    """
    import torch

    return {name: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in collate(rows).items()}


def checked_rows(rows: object) -> Rows:
    """The argument `rows`; TypeError if it is no dataset of this package."""
    if not isinstance(rows, Rows):
        raise TypeError(f"rows is {typed(rows)}; it must be a Blocks, Packed or Mixture")
    return rows


@cache
def _iterable_class() -> Any:
    """`BatchStream` as a subclass of PyTorch's IterableDataset, which a DataLoader recognizes."""
    from torch.utils.data import IterableDataset
    from torch.utils.data._utils.collate import default_collate_fn_map

    default_collate_fn_map[WholeBatch] = _stacked

    class TorchBatches(BatchStream, IterableDataset):  # type: ignore[misc]
        def __reduce__(self) -> tuple[Any, ...]:
            return _rebuild, (self._source, self._options, self._start)

    return TorchBatches


def _stacked(batches: list[WholeBatch], **_: Any) -> Any:
    """Collate several whole batches, which a DataLoader does by default: warn, because the arrays become 3-D."""
    from torch.utils.data import default_collate

    warnings.warn(
        f"DataLoader stacks {len(batches)} batches of torch_batches, so that its tensors have 3 dimensions; pass "
        "batch_size=None to DataLoader to receive them as they are",
        stacklevel=2,
    )
    return default_collate([dict(batch) for batch in batches])


def _rebuild(source: Any, options: dict[str, Any], start: int) -> Any:
    stream = _iterable_class()(source, options)
    stream._start = start
    return stream
