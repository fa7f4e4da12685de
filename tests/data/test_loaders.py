"""PyTorch's loaders: every row once over any ranks and workers, resuming, fork and spawn, no process left behind.

All but the first tests need PyTorch, and skip without it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows_reference import MemoryShards, listed, shards_of

from bpe.data import Blocks, Mixture, Packed, RowSampler, collate, torch_batches, torch_collate

#: Warnings of others: of PyTorch where it counts fewer cores than workers, of torchdata, of Python about fork.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in ("This DataLoader will create", "'set_vital' is deprecated", ".*use of fork.*")
]
FIELDS = ("input_ids", "labels", "cu_seqlens")
N_ROWS = 53


def rows_of(seed: int = 1) -> Blocks:
    shards: Any = MemoryShards([list(range(2 * N_ROWS + 1))])
    return Blocks(shards, 2, seed)


def expected_ids(rows: Blocks, count: int, start: int = 0) -> list[int]:
    return [int(rows[divmod(i, len(rows))]["input_ids"][0]) for i in range(start, count)]


def first_ids(batches: Any) -> list[int]:
    return [row for batch in batches for row in batch["input_ids"][:, 0].tolist()]


# Without PyTorch ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_sampler_gives_each_rank_its_part(world: int) -> None:
    rows = rows_of()
    samplers = [RowSampler(rows, 6, rank=rank, world=world, epochs=2) for rank in range(world)]
    assert {len(sampler) for sampler in samplers} == {18}
    batches = list(zip(*samplers, strict=True))
    assert len(batches) == 18
    got = [key for parts in batches for part in parts for key in part]
    assert got == [divmod(i, N_ROWS) for i in range(2 * N_ROWS // world * world)]
    assert [len(part) for part in batches[0]] == [6 // world] * world
    assert [len(part) for part in batches[-1]] == [4 // world] * world


def test_the_sampler_resumes_where_training_was() -> None:
    """The sampler has yielded more than training has used; the state counts what was used."""
    rows = rows_of()
    sampler = RowSampler(rows, 6, world=2, epochs=None)
    iterator = iter(sampler)
    for _ in range(30):
        next(iterator)
    assert sampler.state_dict() == rows.state_at(180)
    state = json.loads(json.dumps(sampler.state_dict(consumed=11)))
    assert state == rows.state_at(66)
    assert (state["epoch"], state["position"]) == (1, 13)
    resumed = RowSampler(rows, 9, rank=1, world=3, epochs=None)
    resumed.load_state_dict(state)
    keys = iter(resumed)
    assert next(keys) == [divmod(i, N_ROWS) for i in range(69, 72)]
    next(keys)
    assert resumed.state_dict(consumed=0) == state
    assert resumed.state_dict(consumed=2) == rows.state_at(84)
    with pytest.raises(ValueError, match="the state's fingerprint is"):
        resumed.load_state_dict(state | {"fingerprint": "another"})
    with pytest.raises(TypeError, match="epochs is None, so that the run has no end"):
        len(resumed)


def test_more_consumed_batches_than_were_yielded_are_refused() -> None:
    rows = rows_of()
    sampler = RowSampler(rows, 6)
    keys = iter(sampler)
    for _ in range(3):
        next(keys)
    assert sampler.state_dict(consumed=3) == rows.state_at(18)
    with pytest.raises(ValueError, match="consumed is 4 batches, but the latest iteration has yielded 3; count the"):
        sampler.state_dict(consumed=4)
    sampler.load_state_dict(sampler.state_dict(consumed=2))
    with pytest.raises(ValueError, match="consumed is 2 batches, but the latest iteration has yielded 0"):
        sampler.state_dict(consumed=2)


def test_the_state_of_another_length_is_refused_by_name() -> None:
    rows = rows_of()
    state = rows.batches(2).state_dict()
    with pytest.raises(ValueError, match=rf"of rows of length {rows.length}, but these rows have length 3: resume"):
        Blocks(rows.shards, 3, rows.seed).batches(2, state=state)


def test_the_sampler_by_epochs() -> None:
    rows = rows_of()
    sampler = RowSampler(rows, 8)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        assert [key for batch in sampler for key in batch] == [(epoch, i) for i in range(N_ROWS)]
        assert sampler.state_dict() == rows.state_at((epoch + 1) * N_ROWS)
    sampler.load_state_dict(rows.state_at(N_ROWS + 50))
    sampler.set_epoch(1)
    assert list(sampler) == [[(1, 50), (1, 51), (1, 52)]]


def test_arguments_that_are_no_rows() -> None:
    with pytest.raises(TypeError, match="rows is 'folder', a str; it must be a Blocks, Packed or Mixture"):
        RowSampler("folder", 8)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match="source is 3, an int; it must be a Blocks, Packed, Mixture or StreamingEncoder"
    ):
        torch_batches(3, 8)


# With PyTorch ---------------------------------------------------------------------------------------------------------

CONTEXTS = [None, "fork", "spawn"]


def loader_of(
    torch: Any, kind: str, rows: Any, workers: int, context: str | None, persistent: bool = False, **options: Any
) -> tuple[Any, Any]:
    """(a DataLoader, what has its state)."""
    data: Any = torch.utils.data
    processes: dict[str, Any] = {"num_workers": workers, "multiprocessing_context": context if workers else None}
    processes["persistent_workers"] = persistent and workers > 0
    if kind == "sampler":
        sampler = RowSampler(rows, 6, **options)
        return data.DataLoader(rows, batch_sampler=sampler, collate_fn=torch_collate, **processes), sampler
    stream = torch_batches(rows, 6, **options)
    return data.DataLoader(stream, batch_size=None, **processes), stream


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="needs torch")


@pytest.mark.parametrize("kind", ["sampler", "stream"])
@pytest.mark.parametrize(("workers", "context"), [(0, None), (1, "fork"), (3, "fork"), (3, "spawn")])
def test_every_row_once_and_in_order(torch: Any, kind: str, workers: int, context: str | None) -> None:
    rows = rows_of()
    got = []
    for rank in range(2):
        loader, _ = loader_of(torch, kind, rows, workers, context, world=2, rank=rank)
        batches = list(loader)
        assert len(loader) == len(batches) == 9
        for batch in batches:
            assert batch["input_ids"].dtype == batch["labels"].dtype == torch.int64
            assert batch["input_ids"].is_contiguous()
        got.append([batch["input_ids"][:, 0].tolist() for batch in batches])
    together = [row for parts in zip(*got, strict=True) for part in parts for row in part]
    assert together == expected_ids(rows, N_ROWS // 2 * 2)


@pytest.mark.parametrize("kind", ["sampler", "stream"])
def test_resumed_with_other_ranks_and_workers(torch: Any, kind: str) -> None:
    rows = rows_of()
    state, got = None, []
    for world, workers, batches in ((1, 0, 4), (2, 3, 5), (3, 1, 6), (1, 2, 3)):
        parts: list[Any] = []
        states = []
        for rank in range(world):
            loader, keeper = loader_of(torch, kind, rows, workers, None, world=world, rank=rank, epochs=None)
            if state is not None:
                keeper.load_state_dict(state)
            iterator = iter(loader)
            parts.append([next(iterator)["input_ids"][:, 0].tolist() for _ in range(batches)])
            states.append(keeper.state_dict(consumed=batches))
            del iterator
        assert all(rank_state == states[0] for rank_state in states)
        state = json.loads(json.dumps(states[0]))
        got += [row for rank_state in zip(*parts, strict=True) for part in rank_state for row in part]
    assert got == expected_ids(rows, 6 * 18)


def test_default_collation_and_sequence_bounds(torch: Any) -> None:
    shards: Any = MemoryShards([[1, 2, 3], [4, 5, 6, 7]] * 3)
    rows = Blocks(shards, 4, fields=FIELDS)
    batch = next(iter(torch.utils.data.DataLoader(rows, batch_size=3)))
    assert batch.keys() == {"input_ids", "labels"}
    assert batch["input_ids"].shape == (3, 4)
    collated = next(iter(torch.utils.data.DataLoader(rows, batch_size=3, collate_fn=torch_collate)))
    assert torch.equal(batch["labels"], collated["labels"])
    assert collated["cu_seqlens"].dtype == torch.int32
    assert isinstance(collated["max_seqlen"], int)
    assert collated["cu_seqlens"].tolist() == collate(rows.__getitems__([0, 1, 2]))["cu_seqlens"].tolist()


def test_a_data_loader_that_stacks_batches_warns(torch: Any) -> None:
    stream = torch_batches(rows_of(), 6)
    with pytest.warns(UserWarning, match="pass batch_size=None to DataLoader"):
        stacked = next(iter(torch.utils.data.DataLoader(stream, batch_size=2)))
    assert stacked["input_ids"].dim() == 3
    batch = next(iter(torch.utils.data.DataLoader(stream, batch_size=None)))
    assert batch["input_ids"].dim() == 2
    with pytest.raises(ValueError, match=r"consumed is 1000000000 batches, but this iteration has \d+; count the"):
        stream.state_dict(consumed=10**9)


@pytest.mark.parametrize("workers", [0, 2])
def test_packed_and_mixed_rows(torch: Any, workers: int, tmp_path: Path) -> None:
    shards = shards_of(tmp_path, [[i] * (1 + i * 7 % 11) for i in range(40)])
    mixture = Mixture([Packed(shards, 7, fields=FIELDS, window=9), Blocks(shards, 7, fields=FIELDS)], [2, 1])
    loader, _ = loader_of(torch, "sampler", mixture, workers, "spawn")
    batches = list(loader)
    expected = list(mixture.batches(6))
    assert len(batches) == len(expected)
    for batch, expected_batch in zip(batches, expected, strict=True):
        assert {name: np.asarray(value).tolist() for name, value in batch.items()} == {
            name: np.asarray(value).tolist() for name, value in expected_batch.items()
        }


@pytest.mark.parametrize("kind", ["sampler", "stream"])
@pytest.mark.parametrize(("workers", "context"), [(0, None), (1, "fork"), (4, "fork"), (2, "spawn")])
def test_each_iteration_begins_where_it_was_put(torch: Any, kind: str, workers: int, context: str | None) -> None:
    """Also in workers that live on between the iterations."""
    rows = rows_of()
    loader, keeper = loader_of(torch, kind, rows, workers, context, persistent=True, epochs=2)
    expected = expected_ids(rows, 2 * N_ROWS)
    assert first_ids(loader) == expected
    keeper.load_state_dict(rows.state_at(60))
    assert first_ids(loader) == expected[60:]
    assert len(keeper) == 8
    assert keeper.state_dict(consumed=3) == rows.state_at(78)
    for epoch in (0, 1, 3):
        keeper.set_epoch(epoch)
        assert first_ids(loader) == expected_ids(rows, (epoch + 1) * N_ROWS, epoch * N_ROWS)
    keeper.load_state_dict(rows.state_at(4 * N_ROWS))
    assert first_ids(loader) == []  # the epoch of the latest set_epoch is over
    copied = pickle.loads(pickle.dumps(keeper)) if kind == "stream" else keeper
    keeper.set_epoch(0)
    assert len(list(copied)) == (0 if kind == "stream" else 9)  # a copy has a place of its own


@pytest.mark.parametrize("kind", ["sampler", "stream"])
@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_torchdata_resumes_at_the_end_of_a_run_with_nothing(
    torch: Any, kind: str, workers: int, persistent: bool
) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    rows = rows_of()

    def made() -> tuple[Any, Any]:
        options: dict[str, Any] = {"num_workers": workers, "persistent_workers": persistent}
        if kind == "sampler":
            options |= {"batch_sampler": RowSampler(rows, 6, epochs=2), "collate_fn": torch_collate}
            return stateful.StatefulDataLoader(rows, **options), options["batch_sampler"]
        stream = torch_batches(rows, 6, epochs=2)
        return stateful.StatefulDataLoader(stream, batch_size=None, **options), stream

    loader, _ = made()
    assert first_ids(loader) == expected_ids(rows, 2 * N_ROWS)
    state = loader.state_dict()
    again, keeper = made()
    again.load_state_dict(state)
    assert first_ids(again) == []
    keeper.set_epoch(2)
    assert first_ids(again) == expected_ids(rows, 3 * N_ROWS, 2 * N_ROWS)


@pytest.mark.parametrize("kind", ["sampler", "stream"])
@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata_saves_and_restores_the_state(torch: Any, kind: str, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    rows = rows_of()

    def made() -> Any:
        if kind == "sampler":
            sampler = RowSampler(rows, 6, epochs=2)
            return stateful.StatefulDataLoader(
                rows, batch_sampler=sampler, collate_fn=torch_collate, num_workers=workers
            )
        return stateful.StatefulDataLoader(torch_batches(rows, 6, epochs=2), batch_size=None, num_workers=workers)

    expected = expected_ids(rows, 2 * N_ROWS)
    for used in (0, 1, 7, 18):
        loader = made()
        iterator = iter(loader)
        for _ in range(used):
            next(iterator)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        del iterator
        again = made()
        again.load_state_dict(state)
        assert first_ids(again) == expected[6 * used :]


def test_a_worker_refuses_the_state_of_another(torch: Any) -> None:
    iterator = iter(torch_batches(rows_of(), 6))
    state = iterator.state_dict()
    with pytest.raises(ValueError, match="the state is of worker 1 of 2, and this is worker 0 of 1; to change"):
        iterator.load_state_dict(state | {"worker": 1, "workers": 2})


def test_grain_reads_rows() -> None:
    grain = pytest.importorskip("grain.python", reason="needs grain")
    rows = rows_of()
    data = grain.MapDataset.source(rows).batch(4)
    assert np.concatenate([data[i]["input_ids"][:, 0] for i in range(len(data))]).tolist() == expected_ids(rows, N_ROWS)


STARTS = """
import gc, multiprocessing, sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork.*")
warnings.filterwarnings("ignore", message="This DataLoader will create")
import numpy as np
import torch
from torch.utils.data import DataLoader
from bpe.data import Blocks, RowSampler, TokenShards, torch_batches, torch_collate

if __name__ == "__main__":
    rows = Blocks(TokenShards(sys.argv[1]), 4)
    for start in range(int(sys.argv[3])):
        if start % 2:
            loader = DataLoader(torch_batches(rows, 6), batch_size=None, num_workers=2,
                                multiprocessing_context=sys.argv[2])
        else:
            loader = DataLoader(rows, batch_sampler=RowSampler(rows, 6), collate_fn=torch_collate, num_workers=2,
                                multiprocessing_context=sys.argv[2])
        iterator = iter(loader)
        count = len(next(iterator)["input_ids"])
        if start % 4 < 2:
            count += sum(len(batch["input_ids"]) for batch in iterator)
            assert count == len(rows), count
        del iterator, loader
        gc.collect()
    assert multiprocessing.active_children() == []
    print("done")
"""


@pytest.mark.parametrize(("context", "starts"), [("fork", 34), ("spawn", 6)])
def test_forty_starts_leave_nothing_behind(torch: Any, context: str, starts: int, tmp_path: Path) -> None:
    """No deadlock, no warning, no process: half of the loaders are dropped in the middle of an epoch."""
    shards_of(tmp_path / "shards", [list(range(100))])
    (tmp_path / "starts.py").write_text(STARTS)
    process = subprocess.run(
        [sys.executable, str(tmp_path / "starts.py"), str(tmp_path / "shards"), context, str(starts)],
        capture_output=True, text=True, timeout=600, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (process.stdout, process.stderr, process.returncode) == ("done\n", "", 0)
    assert listed(Blocks(shards_of(tmp_path / "other", [list(range(9))]), 4)[0])
    assert multiprocessing.active_children() == []
