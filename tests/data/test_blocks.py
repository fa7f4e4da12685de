"""`Blocks`: rows and their fields against code that goes token by token; batches, states, errors."""

from __future__ import annotations

import itertools
import json
import pickle
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rows_reference import MemoryShards, listed, naive_bounds, naive_row, shards_of, tokens_of
from strategies import examples

from bpe.data import Blocks, Packed, TokenShards, collate, write_shards
from bpe.data.loaders._gather import gather, number_positions
from bpe.data.loaders.rows import Batches, BatchPlan

FIELDS = ("input_ids", "labels", "position_ids", "document_ids", "loss_mask", "cu_seqlens")

documents_of = st.lists(st.lists(st.integers(0, 60_000), max_size=9), max_size=12)

#: Arguments that are refused.
INVALID_ARGUMENTS = [
    ({"length": 0}, ValueError, "length is 0; it must be"),
    ({"length": 1.5}, TypeError, "length is 1.5, a float; it must be"),
    ({"seed": -1}, ValueError, "seed is -1; it must be at least 0"),
    ({"chunk": 0}, ValueError, "chunk is 0; it must be at least 1"),
    ({"pad_id": -1}, ValueError, "pad_id is -1; it must be at least 0"),
    ({"tail": "keep"}, ValueError, "tail is 'keep'; it must be one of 'drop', 'pad'"),
    ({"fields": ["ids"]}, ValueError, "fields has 'ids'; the fields are input_ids, labels, "),
    ({"fields": 3}, TypeError, "fields is 3, an int; it must be names of"),
    ({"mask_other_documents": 1}, TypeError, "mask_other_documents is 1, an int; it must be a bool"),
]


def rows_of(documents: list[list[int]], masks: Any, length: int, tail: str, mask_other: bool) -> list[Any]:
    """All rows in the order of the shards."""
    tokens = [token for document in tokens_of(documents, masks) for token in document]
    rows = []
    for start in range(0, max(len(tokens) - 1, 0), length):
        row = tokens[start : start + length + 1]
        if len(row) == length + 1 or tail == "pad":
            rows.append(naive_row(row, length, pad_id=9, mask_other=mask_other))
    return rows


@given(documents_of, st.integers(1, 8), st.sampled_from(["drop", "pad"]), st.booleans(), st.integers(0, 9), st.data())
def test_rows_equal_those_made_token_by_token(
    documents: list[list[int]], length: int, tail: Any, mask_other: bool, seed: int, data: st.DataObject
) -> None:
    masks = data.draw(st.none() | st.just([[i % 3 % 2 for i in range(len(d))] for d in documents]))
    shards: Any = MemoryShards(documents, masks)
    options: dict[str, Any] = {"tail": tail, "pad_id": 9, "mask_other_documents": mask_other}
    if tail == "drop" and 0 < sum(map(len, documents)) - 1 < length:
        with pytest.raises(ValueError, match="and a row needs length"):
            Blocks(shards, length, seed, fields=FIELDS, **options)
        return
    blocks = Blocks(shards, length, seed, fields=FIELDS, **options)
    expected = rows_of(documents, masks, length, tail, mask_other)
    got = [listed(row) for row in blocks]
    assert len(got) == len(blocks) == len(expected)
    key = json.dumps
    assert sorted(got, key=key) == sorted(expected, key=key)
    if not expected:
        return
    row_indices = data.draw(st.lists(st.integers(0, 3 * len(blocks) - 1), min_size=1, max_size=6))
    batch = blocks.read(np.array(row_indices))
    size = len(blocks)
    rows = [listed(blocks[divmod(row_index, size)]) for row_index in row_indices]
    assert [
        dict(zip(rows[0], each, strict=True)) for each in zip(*(batch[n].tolist() for n in rows[0]), strict=True)
    ] == rows
    assert batch["cu_seqlens"].dtype == np.int32
    assert batch["cu_seqlens"].tolist() == naive_bounds(rows)
    assert batch["max_seqlen"] == max(np.diff(naive_bounds(rows)))
    default = Blocks(shards, length, seed, **options)
    assert list(default[0]) == ["input_ids", "labels"]
    assert listed(default[0]) == {name: listed(blocks[0])[name] for name in ("input_ids", "labels")}


def test_rows_of_shards_on_disk(tmp_path: Path) -> None:
    documents = [[10 * i + k for k in range(i % 5)] for i in range(20)]
    masks = [[k % 2 for k in range(i % 5)] for i in range(20)]
    shards = shards_of(tmp_path, documents, masks)
    assert len(shards.shards) > 3
    blocks = Blocks(shards, 6, fields=FIELDS, tail="pad", pad_id=9)
    expected = rows_of(documents, masks, 6, "pad", False)
    assert sorted(json.dumps(listed(row)) for row in blocks) == sorted(map(json.dumps, expected))
    again = pickle.loads(pickle.dumps(blocks))
    assert again.fingerprint == blocks.fingerprint
    assert [listed(row) for row in again] == [listed(row) for row in blocks]
    assert repr(blocks).startswith("Blocks(TokenShards(")
    assert repr(blocks).endswith(f"length=6, seed=0, {len(blocks)} rows)")


def test_each_epoch_has_an_order_of_its_own() -> None:
    shards: Any = MemoryShards([list(range(400))])
    blocks = Blocks(shards, 4, seed=3)
    orders = [[int(blocks[epoch, i]["input_ids"][0]) for i in range(len(blocks))] for epoch in range(3)]
    assert all(sorted(order) == list(range(0, 396, 4)) for order in orders)
    assert len(set(map(tuple, orders))) == 3
    chunked = [int(row["input_ids"][0]) for row in Blocks(shards, 4, seed=3, chunk=3)]
    assert sum(b == a + 4 for a, b in itertools.pairwise(chunked)) >= 66


def test_indices_like_those_of_a_sequence() -> None:
    shards: Any = MemoryShards([list(range(41))])
    blocks = Blocks(shards, 4)
    assert listed(blocks[-1]) == listed(blocks[9]) == listed(blocks[0, 9]) == listed(blocks[np.int64(9)])
    assert [listed(row) for row in blocks.__getitems__([3, (0, 3)])] == [listed(blocks[3])] * 2
    assert list(blocks.__getitems__([])) == []
    for key in (10, -11, (0, 10), (-1, 0), 2**63, (2**70, 0)):
        with pytest.raises(IndexError, match=r"index is .*; there are 10 rows in each epoch, from 0"):
            blocks[key]
    for bad in ("0", 1.0, (1, 2, 3)):
        with pytest.raises(TypeError, match=r"it must be an int, or \(epoch, index\)"):
            blocks[bad]  # type: ignore[index]


def test_collate_makes_a_batch() -> None:
    shards: Any = MemoryShards([list(range(7)), list(range(20))])
    blocks = Blocks(shards, 4, fields=FIELDS)
    together, apart = collate(blocks.__getitems__([0, 1, 2])), collate([blocks[0], blocks[1], blocks[2]])
    assert together.keys() == apart.keys() == {*FIELDS, "max_seqlen"}
    for name, value in together.items():
        assert np.array_equal(value, apart[name])
    plain = Blocks(shards, 4)
    batch = collate(plain.__getitems__([0, 1]))
    assert batch.keys() == {"input_ids", "labels"}


def test_arrays_of_a_batch_are_apart() -> None:
    """Writing to one array changes no other, and not the shards."""
    shards: Any = MemoryShards([list(range(20))])
    blocks = Blocks(shards, 4)
    row = blocks[0]
    before = row["input_ids"].copy()
    row["labels"][:] = -100
    assert (row["input_ids"] == before).all()
    assert (blocks[0]["labels"] >= 0).all()


# Batches and states ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "world", "drop_last", "advice", "advised"),
    [
        (8, 4, False, "reduce world, or raise epochs", [{"world": 2}, {"epochs": 2}]),
        (8, 4, True, "reduce size and world, or raise epochs", [{"size": 2, "world": 2}, {"epochs": 4}]),
        (4, 2, True, "reduce size, raise epochs, or pass drop_last=False",
         [{"size": 2}, {"epochs": 2}, {"drop_last": False}]),
    ],
)  # fmt: skip
def test_a_run_without_a_batch_is_refused_with_advice_that_helps(
    size: int, world: int, drop_last: bool, advice: str, advised: list[dict[str, Any]]
) -> None:
    shards: Any = MemoryShards([list(range(5))])
    blocks, options = Blocks(shards, 2), {"size": size, "world": world, "drop_last": drop_last}
    with pytest.raises(ValueError, match=rf"the run has 2 rows, too few for a batch of .*: {advice}$"):
        blocks.batches(**options)
    for change in advised:
        assert len(list(blocks.batches(**{**options, **change}))) == 1


@examples(7)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(0, 9), st.booleans())
def test_every_row_once_per_epoch_whatever_the_ranks(
    n_rows: int, world: int, share: int, epochs: int, seed: int, drop_last: bool
) -> None:
    shards: Any = MemoryShards([list(range(2 * n_rows + 1))])
    blocks = Blocks(shards, 2, seed)
    size = world * share
    total = n_rows * epochs
    n_in_batches = total // size * size
    if n_in_batches == 0 and (drop_last or total < world):
        with pytest.raises(ValueError, match="too few for a batch of"):
            blocks.batches(size, world=world, epochs=epochs, drop_last=drop_last)
        return
    ranks = [list(blocks.batches(size, rank=r, world=world, epochs=epochs, drop_last=drop_last)) for r in range(world)]
    assert len({len(batches) for batches in ranks}) == 1
    got = [
        row for batches in zip(*ranks, strict=True) for batch in batches for row in batch["input_ids"][:, 0].tolist()
    ]
    expected = [int(blocks[epoch, i]["input_ids"][0]) for epoch in range(epochs) for i in range(n_rows)]
    assert (
        got
        == expected[: n_in_batches if drop_last else total // world * world if total % size >= world else n_in_batches]
    )
    assert all(len(batch["input_ids"]) == share for batches in ranks for batch in batches[:-1])
    assert len({len(batches[-1]["input_ids"]) for batches in ranks}) == 1
    assert len(ranks[0][-1]["input_ids"]) > 0


@examples(7)
@given(st.integers(2, 40), st.integers(0, 9), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=5))
def test_resumed_with_other_ranks_the_sequence_is_the_same(n_rows: int, seed: int, runs: list[tuple[int, int]]) -> None:
    """Several runs, each with another number of ranks and another size of batches, read one sequence."""
    shards: Any = MemoryShards([list(range(2 * n_rows + 1))])
    state, got = None, []
    for world, batches in runs:
        size = 6
        iterators = [
            Blocks(shards, 2, seed).batches(size, rank=rank, world=world, state=state, epochs=None)
            for rank in range(world)
        ]
        for _ in range(batches):
            got += [row for iterator in iterators for row in next(iterator)["input_ids"][:, 0].tolist()]
        states = [json.loads(json.dumps(iterator.state_dict())) for iterator in iterators]
        assert all(rank_state == states[0] for rank_state in states)
        state = states[0]
        assert set(state) == {"version", "fingerprint", "seed", "epoch", "position"}
    blocks = Blocks(shards, 2, seed)
    assert got == [int(blocks[divmod(i, n_rows)]["input_ids"][0]) for i in range(len(got))]


@examples(11)
@given(st.integers(1, 60), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 70))
def test_workers_together_have_the_batches_of_one(
    n_rows: int, world: int, share: int, workers: int, drop_last: bool, start: int
) -> None:
    """Worker w of n makes every n-th batch; taken in turn, as a DataLoader does, they are those of one process."""
    assume(2 * n_rows >= (world * share if drop_last else world))
    shards: Any = MemoryShards([list(range(2 * n_rows + 1))])
    blocks = Blocks(shards, 2, 4)
    for rank in range(world):
        plan = BatchPlan(blocks, world * share, rank, world, 2, drop_last)
        single = [batch["labels"].tolist() for batch in Batches(blocks, plan, start)]
        parts = [Batches(blocks, plan, start, worker, workers) for worker in range(workers)]
        lengths = [len(part) for part in parts]
        by_worker = [[batch["labels"].tolist() for batch in part] for part in parts]
        assert lengths == [len(batches) for batches in by_worker]
        assert [batch for turn in zip_longest(*by_worker) for batch in turn if batch is not None] == single


def test_shards_that_do_not_record_documents(tmp_path: Path) -> None:
    write_shards([[1, 2, 9], [3, 4, 5, 9]], tmp_path, format="nanogpt")
    plain, divided = TokenShards(tmp_path), TokenShards(tmp_path, end_of_text=9)
    assert len(Blocks(plain, 3)) == 2
    for call in (lambda: Packed(plain, 3), lambda: Blocks(plain, 3, fields=["position_ids"])):
        with pytest.raises(ValueError, match=r"does not record where documents begin, .* end_of_text=ID"):
            call()
    assert Packed(divided, 3).statistics["documents"] == 2
    assert Blocks(divided, 3, fields=["document_ids"])[0]["document_ids"].shape == (3,)


def test_a_run_has_a_length_and_an_end() -> None:
    shards: Any = MemoryShards([list(range(41))])
    blocks = Blocks(shards, 4)
    batches = blocks.batches(4)
    assert len(batches) == 3
    assert [len(batch["labels"]) for batch in batches] == [4, 4, 2]
    assert len(batches) == 0
    assert next(batches, None) is None
    assert batches.state_dict() == blocks.state_at(10)
    assert len(blocks.batches(4, drop_last=True)) == 2
    # of the last two rows, four ranks would have 0, 1, 0 and 1, and a loss of nothing is NaN
    assert [[len(batch["labels"]) for batch in blocks.batches(4, rank=rank, world=4)] for rank in range(4)] == [
        [1, 1]
    ] * 4
    assert len(blocks.batches(4, epochs=2)) == 5
    with pytest.raises(TypeError, match="epochs is None, so that the run has no end"):
        len(blocks.batches(4, epochs=None))


def test_states_of_other_rows_are_refused() -> None:
    shards: Any = MemoryShards([list(range(41))])
    blocks = Blocks(shards, 4)
    state = blocks.batches(2).state_dict()
    other_shards: Any = MemoryShards([list(range(42))])
    for rows in (Blocks(other_shards, 4), Blocks(shards, 5), Blocks(shards, 4, chunk=2), Blocks(shards, 4, tail="pad")):
        with pytest.raises(ValueError, match=r"the state('s fingerprint| is of rows of length 4).*: resume with"):
            rows.batches(2, state=state)
    with pytest.raises(ValueError, match="the state's seed is 0, but these rows have 1: resume with"):
        Blocks(shards, 4, 1).batches(2, state=state)
    with pytest.raises(ValueError, match="the state's version is 2; this release of bpe reads 1"):
        blocks.batches(2, state=state | {"version": 2})
    with pytest.raises(ValueError, match="the state's position is 10; it must be from 0 to 9"):
        blocks.batches(2, state=state | {"position": 10})
    with pytest.raises(TypeError, match=r"state is .*; it must be what state_dict\(\) returned"):
        blocks.batches(2, state={"epoch": 1})
    assert Blocks(shards, 4, fields=FIELDS, mask_other_documents=True).batches(2, state=state) is not None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    INVALID_ARGUMENTS,
)
def test_invalid_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    shards: Any = MemoryShards([[1, 2, 3]])
    with pytest.raises(error, match=message):
        Blocks(shards, **arguments)


def test_invalid_arguments_of_batches() -> None:
    shards: Any = MemoryShards([[1, 2, 3]])
    with pytest.raises(
        TypeError, match=r"shards is 'folder', a str; it must be a bpe.data.TokenShards: TokenShards\(path\)"
    ):
        Blocks("folder")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size is 3 and world is 2; size counts the rows of all ranks together"):
        Blocks(shards, 1).batches(3, world=2)
    with pytest.raises(ValueError, match="rank is 2; it must be from 0 to 1"):
        Blocks(shards, 1).batches(2, rank=2, world=2)
    with pytest.raises(ValueError, match=r"length is 1024, but .* has 3 ids, .*; pass length=2 or less, or tail='pad'"):
        Blocks(shards)
    empty: Any = MemoryShards([])
    with pytest.raises(ValueError, match=r"has no rows: there are fewer than length \+ 1 = 1025 ids"):
        Blocks(empty).batches(2)


# The kernel -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "uint32", "int64"])
def test_gather_copies_ids_of_any_type(dtype: str) -> None:
    inputs, labels = np.full((2, 3), -1), np.full((2, 3), -1)
    spans = np.array([[0, 0, 2, 4], [1, 1, 0, 1], [1, 3, 9, 1]])
    gather(np.arange(10, dtype=dtype), spans, inputs, labels)
    assert inputs.tolist() == [[2, 3, 4], [-1, 0, -1]]
    assert labels.tolist() == [[3, 4, 5], [0, -1, 9]]


@pytest.mark.parametrize(
    "span",
    [[-1, 0, 0, 1], [2, 0, 0, 1], [0, -1, 0, 1], [0, 4, 0, 1], [0, 2, 0, 3], [0, 0, -1, 1], [0, 0, 10, 1], [0, 0, 8, 3],
     [0, 0, 0, 0], [0, 0, 0, -5], [0, 0, 2**63 - 1, 4], [0, 0, 0, 2**63 - 1], [0, 2**63 - 1, 0, 1]],
)  # fmt: skip
def test_gather_refuses_what_is_outside(span: list[int]) -> None:
    inputs, labels = np.zeros((2, 3), dtype=np.int64), np.zeros((2, 3), dtype=np.int64)
    with pytest.raises(IndexError, match="is not in 10 ids, 2 rows of 3"):
        gather(np.arange(10, dtype=np.uint16), np.array([[0, 0, 0, 1], span]), inputs, labels)
    assert not inputs.any()
    with pytest.raises(ValueError, match="inputs and labels the same shape"):
        gather(np.arange(10, dtype=np.uint16), np.array([[0, 0, 0, 1]]), inputs, labels[:1])


def test_numbering_gives_padding_a_span_of_its_own() -> None:
    positions, documents = np.full((4, 3), 9), np.full((4, 3), 9)
    spans = np.array([[2, 0, 4, 8], [0, 0, 1, 5], [0, 1, 1, 6], [3, 0, 3, 7], [3, 3, 1, 8]])
    number_positions(spans, positions, documents)  # rows in any order; the last span is a row's last label alone
    assert positions.tolist() == [[0, 0, 0], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    assert documents.tolist() == [[5, 6, -1], [-1, -1, -1], [8, 8, 8], [7, 7, 7]]


@pytest.mark.parametrize(
    "span",
    [[-1, 0, 1, 0], [2, 0, 1, 0], [0, -1, 1, 0], [0, 4, 1, 0], [0, 2, 3, 0], [0, 0, 0, 0], [0, 0, -5, 0],
     [0, 0, 2**63 - 1, 0], [0, 2**63 - 1, 1, 0], [0, 2, 1, 0], [0, 0, 1, 0], [1, 1, 1, 0]],
)  # fmt: skip
def test_numbering_refuses_what_is_outside(span: list[int]) -> None:
    positions, documents = np.full((2, 3), 9), np.full((2, 3), 9)
    with pytest.raises(IndexError, match="is not in 2 rows of 3"):
        number_positions(np.array([[0, 0, 1, 5], span]), positions, documents)
    assert (positions == 9).all()
    with pytest.raises(ValueError, match="positions and documents the same shape"):
        number_positions(np.array([[0, 0, 1, 5]]), positions, documents[:1])
