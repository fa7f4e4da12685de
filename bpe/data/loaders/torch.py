"""PyTorch: a sampler for datasets with `__getitems__`, whole batches from the workers of a DataLoader, collation.

PyTorch is imported inside the functions that need it. Two ways to use a DataLoader:

    sampler = RowSampler(rows, 64)                  # the main process says which rows; state for any number of workers
    DataLoader(rows, batch_sampler=sampler, collate_fn=torch_collate, num_workers=2)

    stream = torch_batches(rows, 64)                # each worker makes whole batches by itself
    DataLoader(stream, batch_size=None, num_workers=2)

One rule holds for both, in any number of processes: an iteration begins where the latest `set_epoch` or
`load_state_dict` put it, at first at the beginning of the run, and it ends with the run. After a state that was saved
at the end of a run there is nothing more until `set_epoch`. `rows.py` divides the rows among ranks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cache
from typing import Any, cast

import numpy as np

from bpe.data.loaders.rows import ROW_LIMIT, Batches, BatchPlan, Rows, State, check_division
from bpe.data.loaders.spans import Batch, collate
from bpe.errors import check_int, describe, short_repr

Key = tuple[int, int]

#: Why the stream of a `StreamingEncoder` has no state for any number of workers, and what to do.
STREAMED_STATE_ADVICE = (
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
        self._rows, self._plan = check_rows(rows), BatchPlan(rows, size, rank, world, epochs, drop_last)
        self._start = self._next = 0
        self._yielded = 0  # by the latest iteration

    def __iter__(self) -> Iterator[list[Key]]:
        self._next, self._yielded = self._start, 0
        n_rows = len(self._rows)
        while self._plan.count_batches(self._next) != 0:
            row_numbers = range(*self._plan.part(self._next))
            self._next = self._plan.find_row_after(self._next, 1)
            self._yielded += 1
            yield [divmod(row_number, n_rows) for row_number in row_numbers]

    def __len__(self) -> int:
        """Count the batches of the next iteration. A run without end raises TypeError."""
        count = self._plan.count_batches(self._start)
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
        """Return the state after `consumed` batches of the latest iteration; without it, after all that were yielded.

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
        return self._rows.state_at(self._plan.find_row_after(self._start, consumed))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin the next iteration where this state was saved; ValueError for a state of other rows."""
        self._start = self._next = self._rows.row_of_state(state)
        self._yielded = 0


class CollatedBatch(dict[str, Any]):
    """A batch of `torch_batches`. PyTorch's default collation recognizes the type, and calls `_stack_batches`."""


class WorkerBatches(Iterator[Batch]):
    """The batches of one worker, with the state that torchdata's StatefulDataLoader saves for each worker."""

    def __init__(self, stream: BatchStream, worker: int, workers: int) -> None:
        self._stream, self._worker = stream, {"worker": worker, "workers": workers}
        self._batches = stream.make_batches(worker, workers, None)

    def __iter__(self) -> WorkerBatches:
        return self

    def __next__(self) -> Batch:
        return cast("Batch", CollatedBatch(next(self._batches)))

    def state_dict(self) -> State:
        """Return the state of this worker."""
        return {**self._batches.state_dict(), **self._worker}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the worker of this number was; ValueError for another number of workers."""
        for name, expected in self._worker.items():
            if state.get(name) != expected:
                raise ValueError(
                    f"the state is of worker {state.get('worker')} of {state.get('workers')}, and this is worker "
                    f"{self._worker['worker']} of {self._worker['workers']}; to change the number of workers, use "
                    "bpe.data.RowSampler, or state_dict(consumed=) of the dataset (for rows of shards, not for a "
                    "StreamingEncoder)"
                )
        self._batches = self._stream.make_batches(**self._worker, state=state)
        # StatefulDataLoader then begins a new iteration if the state was saved at the end of one.
        self._stream.set_next_iteration(ended=self._batches.at_end())


class BatchStream:
    """Whole batches, divided among the workers of a DataLoader; `torch_batches` makes it an IterableDataset.

    Where the next iteration begins lies in memory that the worker processes share, since those of a DataLoader with
    `persistent_workers=True` are started once.
    """

    def __init__(self, source: Any, options: dict[str, Any], shared: Any = None) -> None:
        import torch

        self._source, self._options = source, options
        self._plan: Any = None  # a StreamingEncoder has no numbered rows
        if isinstance(source, Rows):
            self._plan = BatchPlan(source, **options)
        else:
            _check_stream(**options)
        if shared is None:
            # the row to begin with, the row after the last one (-1: without end), whether the run has ended
            end = None if self._plan is None else self._plan.end
            shared = torch.tensor([0, -1 if end is None else end, 0])
        self._shared = shared
        with suppress(RuntimeError):  # no shared memory: then there are no workers either
            self._shared.share_memory_()

    def set_next_iteration(self, start: int | None = None, end: int | None = None, *, ended: bool = False) -> None:
        """Set where the next iteration begins and ends, in all processes."""
        for index, value in enumerate((start, end, int(ended))):
            if value is not None:
                self._shared[index] = value

    def _find_start(self) -> tuple[int, Any]:
        """Find the row with which the next iteration begins, and the plan with its end."""
        start, end, ended = self._shared.tolist()
        plan = copy(self._plan)
        plan.end = None if end < 0 else end
        if ended:
            start = end if end >= 0 else ROW_LIMIT
        return start, plan

    def __iter__(self) -> WorkerBatches:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        return WorkerBatches(self, worker, workers)

    def make_batches(self, worker: int, workers: int, state: Mapping[str, Any] | None) -> Any:
        """Yield the batches of one worker, from its state or else from the beginning of the next iteration."""
        if not isinstance(self._source, Rows):
            rank, world = self._options["rank"] * workers + worker, self._options["world"] * workers
            size, epochs = self._options["size"] // self._options["world"], self._options["epochs"]
            ended = state is None and bool(self._shared[2])
            return self._source.batches(size, rank=rank, world=world, state=state, epochs=epochs, ended=ended)
        start, plan = self._find_start()
        if state is not None:  # where this worker was
            start = self._source.row_of_state(state) - worker * plan.size
        return Batches(self._source, plan, start, worker, workers)

    def __len__(self) -> int:
        """Count the batches of the next iteration. Streams and runs without end raise TypeError."""
        count: int | None = None
        if isinstance(self._source, Rows):
            start, plan = self._find_start()
            count = plan.count_batches(start)
        if count is None:
            raise TypeError("the number of batches is unknown, or without end")
        return count

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration one epoch of this number, or the rest of it after `load_state_dict`.

        A `StreamingEncoder` has one order; it begins again.
        """
        if not isinstance(self._source, Rows):
            check_int("epoch", epoch, 0)
            self.set_next_iteration()
            return
        n_rows = len(self._source)
        epoch = check_int("epoch", epoch, 0, ROW_LIMIT // n_rows - 2)
        start, _ = self._find_start()
        self.set_next_iteration(start if start // n_rows == epoch else epoch * n_rows, (epoch + 1) * n_rows)

    def state_dict(self, consumed: int = 0) -> State:
        """Return the state after `consumed` batches of the latest iteration, for any number of workers and ranks.

        A `StreamingEncoder` has none: ValueError unless `consumed` is 0, for which the state is empty.

        Raises:
            ValueError: for more batches than the run has left.

        """
        if not isinstance(self._source, Rows):
            if consumed:
                raise ValueError(f"consumed is {short_repr(consumed)}; {STREAMED_STATE_ADVICE}")
            return {}  # StatefulDataLoader asks for it, and saves the state of each worker beside it
        start, plan = self._find_start()
        batches_left = plan.count_batches(start)
        if check_int("consumed", consumed, 0) > (consumed if batches_left is None else batches_left):
            raise ValueError(
                f"consumed is {consumed} batches, but this iteration has {batches_left}; count the batches since it "
                "began, not since step 0 of the run"
            )
        return self._source.state_at(plan.find_row_after(start, consumed))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin the next iteration where this state was saved; ValueError for a state of other rows."""
        if isinstance(self._source, Rows):
            self.set_next_iteration(self._source.row_of_state(state))
        elif state:
            raise ValueError(f"state is {short_repr(state)}; {STREAMED_STATE_ADVICE}")


def _check_stream(*, size: int, rank: int, world: int, epochs: int | None, drop_last: bool) -> None:
    """Check the arguments for a `StreamingEncoder`."""
    check_division(size, rank, world)
    if epochs is not None:
        check_int("epochs", epochs, 1)
    if drop_last:
        raise ValueError("drop_last is True, but source is a StreamingEncoder, whose last rows are not known before")
    if world > 1 and epochs is not None:
        raise ValueError(
            f"epochs is {epochs} and world is {world}; each rank of a StreamingEncoder reads its own documents and has "
            "another number of batches, so that the others would wait for it without end: pass epochs=None, with which "
            "each rank begins its part again, and stop after a number of steps; or write shards (bpe encode)"
        )


def torch_batches(
    source: Any,
    size: int,
    *,
    rank: int = 0,
    world: int = 1,
    epochs: int | None = 1,
    drop_last: bool = False,
) -> Any:
    """Make an IterableDataset of whole batches for `DataLoader(..., batch_size=None)`; each worker makes its own.

    With `Blocks`, `Packed` or `Mixture`, worker w of n makes every n-th batch, so that the DataLoader yields the same
    batches in the same order with any number of workers. Count the batches that training used, and save
    `state_dict(consumed=...)`; `load_state_dict` before the next iteration. With a `StreamingEncoder`, each worker of
    each rank reads its part of the sources, and torchdata's StatefulDataLoader saves their states: resuming needs as
    many ranks and workers, since their number decides which documents follow each other in a row.

    The arguments are those of `RowSampler`. With a `StreamingEncoder`, the ranks have different numbers of batches, so
    that several need `epochs=None`: each begins its part again, and training stops after a number of steps.
    `drop_last` is refused there.

    Raises:
        TypeError, ValueError: for arguments that are out of range or do not fit the source.

    """
    options = {"size": size, "rank": rank, "world": world, "epochs": epochs, "drop_last": drop_last}
    if not isinstance(source, Rows) and not hasattr(source, "groups"):
        raise TypeError(f"source is {describe(source)}; it must be a Blocks, Packed, Mixture or StreamingEncoder")
    return _make_iterable_class()(source, options)


def torch_collate(rows: Sequence[Batch]) -> dict[str, Any]:
    """Make a batch of tensors of rows from a dataset: `collate_fn` for a DataLoader. See `bpe.data.collate`.

    Unlike PyTorch's own, it does not copy rows that one call of `__getitems__` returned.
    """
    import torch

    return {name: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in collate(rows).items()}


def check_rows(rows: object) -> Rows:
    """Check the argument `rows`; TypeError if it is no dataset of this package."""
    if not isinstance(rows, Rows):
        raise TypeError(f"rows is {describe(rows)}; it must be a Blocks, Packed or Mixture")
    return rows


@cache
def _make_iterable_class() -> Any:
    """Make `BatchStream` a subclass of PyTorch's IterableDataset, which a DataLoader recognizes."""
    from torch.utils.data import IterableDataset
    from torch.utils.data._utils.collate import default_collate_fn_map

    default_collate_fn_map[CollatedBatch] = _stack_batches

    class TorchBatches(BatchStream, IterableDataset):  # type: ignore[misc]
        def __reduce__(self) -> tuple[Any, ...]:
            return _rebuild, (self._source, self._options, self._shared)

    return TorchBatches


def _stack_batches(batches: list[CollatedBatch], **_: Any) -> Any:
    """Collate several whole batches, which a DataLoader does by default: warn, because the arrays become 3-D."""
    from torch.utils.data import default_collate

    warnings.warn(
        f"DataLoader stacks {len(batches)} batches of torch_batches, so that its tensors have 3 dimensions; pass "
        "batch_size=None to DataLoader to receive them as they are",
        stacklevel=2,
    )
    return default_collate([dict(batch) for batch in batches])


def _rebuild(source: Any, options: dict[str, Any], shared: Any) -> Any:
    return _make_iterable_class()(source, options, shared)
