"""`Mixture`: shares of the weights, each dataset in its own order, pure in the index, states."""

from __future__ import annotations

import json
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_reference import MemoryShards, listed, naive_bounds, shards_of
from strategies import examples

from bpe.data import Blocks, Mixture, Packed, TokenShards, write_shards
from bpe.data.loaders.mixture import ROUND, divide_round
from bpe.data.loaders.order import make_round_keys, permute

FIELDS = ("input_ids", "labels", "document_ids", "cu_seqlens")


def dataset(first_token: int, n_rows: int, seed: int = 0, length: int = 2) -> Blocks:
    """Rows whose ids are from `first` on."""
    shards: Any = MemoryShards([list(range(first_token, first_token + length * n_rows + 1))])
    return Blocks(shards, length, seed, fields=FIELDS)


def plain_owners(weights: list[float], seed: int, count: int) -> list[int]:
    """The datasets of the first rows, as the module's docstring describes them."""
    counts = divide_round(weights, len(weights)).tolist()
    slots = [index for index, size in enumerate(counts) for _ in range(size)]
    owners: list[int] = []
    while len(owners) < count:
        owners += [
            slots[i] for i in permute(np.arange(ROUND), ROUND, make_round_keys(seed, len(owners) // ROUND)).tolist()
        ]
    return owners[:count]


@examples(4)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(0, 5),
    st.booleans(),
)
def test_rows_are_those_of_the_datasets_in_order(given: list[tuple[int, int]], seed: int, first: bool) -> None:
    datasets = [dataset(1000 * k, n_rows, k) for k, (n_rows, _) in enumerate(given)]
    weights = [float(weight) for _, weight in given]
    mixture = Mixture(datasets, weights, seed, stopping="first_exhausted" if first else "all_exhausted")
    owners = plain_owners(weights, seed, 2 * len(mixture) + 1)
    n_taken = [0] * len(datasets)
    expected = []
    for owner in owners:
        expected.append(int(datasets[owner][divmod(n_taken[owner], len(datasets[owner]))]["input_ids"][0]))
        n_taken[owner] += 1
    size = len(mixture)
    if size:
        batch = mixture.read(np.arange(2 * size))
        assert batch["input_ids"][:, 0].tolist() == expected[: 2 * size]
        rows = [listed(mixture[divmod(i, size)]) for i in range(min(2 * size, 5))]
        assert (
            naive_bounds([row | {"position_ids": [0, 1]} for row in rows])
            == mixture.read(np.arange(len(rows)))["cu_seqlens"].tolist()
        )
    counts = [[owners[:end].count(k) for k in range(len(datasets))] for end in (size - 1, size, size + 1)]
    sizes = [len(dataset_rows) for dataset_rows in datasets]
    if first:  # one row more would repeat one
        assert all(count <= n for count, n in zip(counts[1], sizes, strict=True))
        assert any(count > n for count, n in zip(counts[2], sizes, strict=True))
    else:  # one row less would leave one out
        assert all(count >= n for count, n in zip(counts[1], sizes, strict=True))
        assert any(count < n for count, n in zip(counts[0], sizes, strict=True))


def test_shares_are_exact() -> None:
    assert divide_round([1, 1], 2).tolist() == [ROUND // 2] * 2
    assert divide_round([1, 1, 1], 3).tolist() == [5462, 5461, 5461]
    assert divide_round([0.7, 0.2, 0.1], 3).tolist() == [11469, 3277, 1638]
    mixture = Mixture([dataset(0, 9000), dataset(20_000, 9000)], [0.9, 0.1])
    owners, _ = mixture.sources(np.arange(ROUND))
    assert abs(np.bincount(owners) / ROUND - [0.9, 0.1]).max() < 1 / ROUND


def test_by_default_the_weights_are_the_sizes() -> None:
    mixture = Mixture([dataset(0, 30), dataset(1000, 10)])
    assert mixture.weights == (30, 10)
    assert 30 <= len(mixture) <= 40


def test_a_run_resumes_with_other_ranks() -> None:
    def made() -> Mixture:
        packed = Packed(MemoryShards([[7] * 3, [8] * 2] * 9), 2, 4, fields=FIELDS)  # type: ignore[arg-type]
        inner = Mixture([dataset(100, 12), packed], [1, 2], 5)
        return Mixture([dataset(0, 20, 1), inner], [1, 3], 2, stopping="all_exhausted")

    uninterrupted = [row for batch in made().batches(4, epochs=2) for row in batch["input_ids"].tolist()]
    iterator = made().batches(4, epochs=2)
    got = [row for _ in range(3) for row in next(iterator)["input_ids"].tolist()]
    state = json.loads(json.dumps(iterator.state_dict()))
    copy = pickle.loads(pickle.dumps(made()))
    ranks = [copy.batches(6, rank=r, world=3, epochs=2, state=state) for r in range(3)]
    for parts in zip(*ranks, strict=True):
        got += [row for part in parts for row in part["input_ids"].tolist()]
    assert got == uninterrupted
    with pytest.raises(ValueError, match="the state's fingerprint is"):
        Mixture([dataset(0, 20, 1), dataset(100, 12)], [1, 3]).batches(4, state=state)


def test_shards_of_two_tokenizers_are_refused(tmp_path: Path) -> None:
    rows = []
    for name in ("a", "b", "a", None):
        folder = tmp_path / str(len(rows))
        written = write_shards([range(9)], folder)
        replace(written, tokenizer={} if name is None else {"fingerprint": name * 64}).write(folder)
        rows.append(Blocks(TokenShards(folder), 2))
    assert rows[0].shards.tokenizer_fingerprint == "a" * 64
    assert Mixture([rows[0], rows[2], rows[3]]).tokenizer_fingerprints == {"a" * 64}
    with pytest.raises(ValueError, match=r"are ids of two tokenizers, with the fingerprints a{12}… and b{12}…"):
        Mixture([Mixture([rows[0], rows[2]]), rows[1]])


def test_invalid_arguments() -> None:
    good = dataset(0, 9)
    with pytest.raises(ValueError, match=r"the length of Blocks.* is 3, and that of Blocks.* is 2; give both the same"):
        Mixture([good, dataset(0, 9, length=3)], [1, 1])
    with pytest.raises(ValueError, match=r"the fields of Blocks.* is \('input_ids',\), and that of "):
        Mixture([good, Blocks(good.shards, 2, fields=["input_ids"])], [1, 1])
    with pytest.raises(TypeError, match="datasets has 3, an int; each must be a Blocks, Packed or Mixture"):
        Mixture([good, 3], [1, 1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="has no rows; leave it out"):
        Mixture([good, dataset(0, 0)], [1, 1])
    with pytest.raises(ValueError, match="datasets is empty; it must have at least one dataset"):
        Mixture([])
    for weights in ([1], [1, -1], [0, 1], [1, float("nan")], [1, float("inf")], ["1", 1]):
        with pytest.raises(ValueError, match="it must have a positive number for each of 2 datasets"):
            Mixture([good, good], weights)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the weight 1e-09 is less than one part in 16384 of all weights; raise it"):
        Mixture([good, good], [1, 1e-9])
    with pytest.raises(ValueError, match="stopping is 'never'; it must be one of"):
        Mixture([good], stopping="never")  # type: ignore[arg-type]


def test_threads_that_read_share_the_caches(tmp_path: Path) -> None:
    """Grain reads with threads; each evicts what another is about to use."""
    shards = shards_of(tmp_path, [[i] * (1 + i % 9) for i in range(150)])
    packed = Packed(shards, 7, window=40)
    mixture = Mixture([packed, Blocks(shards, 7)], [1, 1], stopping="all_exhausted")
    row_indices = np.random.default_rng(1).integers(0, 40 * len(mixture), (30, 4))
    expected = [mixture.read(row)["labels"].tolist() for row in row_indices]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda row: mixture.read(row)["labels"].tolist(), row_indices))
    finally:
        sys.setswitchinterval(interval)
    assert got == expected


# Weights that change --------------------------------------------------------------------------------------------------


def same_ids(first_id: int, n_rows: int, seed: int) -> Blocks:
    """Many rows of one id."""
    shards: Any = MemoryShards([[first_id] * (2 * n_rows + 1)])
    return Blocks(shards, 2, seed, fields=FIELDS)


@pytest.mark.parametrize("stopping", ["first_exhausted", "all_exhausted"])
@pytest.mark.parametrize("change", [1, 700, ROUND, ROUND + 5000])
def test_weights_change_at_a_row(change: int, stopping: Any) -> None:
    """The rows before are those of the old weights; after it the shares are the new ones, and no row is left out."""
    datasets = [same_ids(1, 24_000, 1), same_ids(2, 46_000, 2), same_ids(3, 19_000, 3)]
    mixture = Mixture(datasets, {0: [3, 1, 0.5], change: [1, 5, 2]}, 7, stopping=stopping)
    old = Mixture(datasets, [3, 1, 0.5], 7, stopping=stopping)
    owners, rows = mixture.sources(np.arange(len(mixture) + 1))
    old_owners, old_rows = old.sources(np.arange(change))
    assert owners[:change].tolist() == old_owners.tolist()
    assert rows[:change].tolist() == old_rows.tolist()
    for owner in range(3):
        taken = rows[owners == owner].tolist()
        assert taken == list(range(len(taken)))
    shares = np.bincount(owners[change : change + ROUND], minlength=3)
    assert shares.tolist() == divide_round([1, 5, 2], 3).tolist()
    sizes = [len(dataset) for dataset in datasets]
    counts, longer = (np.bincount(part, minlength=3).tolist() for part in (owners[:-1], owners))
    if stopping == "first_exhausted":
        assert all(count <= size for count, size in zip(counts, sizes, strict=True))
        assert any(count > size for count, size in zip(longer, sizes, strict=True))
    else:
        before = np.bincount(owners[:-2], minlength=3).tolist()
        assert all(count >= size for count, size in zip(counts, sizes, strict=True))
        assert any(count < size for count, size in zip(before, sizes, strict=True))


def test_weights_change_when_a_run_resumes_and_a_dataset_is_added() -> None:
    first, second, third = dataset(0, 90, 1), dataset(1000, 90, 2), dataset(2000, 90, 3)
    old = Mixture([first, second], [3, 1], 4)
    iterator = old.batches(4)
    got = [row for _ in range(5) for row in next(iterator)["input_ids"].tolist()]
    state = json.loads(json.dumps(iterator.state_dict()))
    changed = Mixture([first, second, third], {20: [1, 1, 2], 0: [3, 1, 0]}, 4)
    assert changed.weights == {0: (3, 1, 0), 20: (1, 1, 2)}
    resumed = changed.batches(4, state=state)
    got += [row for batch in resumed for row in batch["input_ids"].tolist()]
    assert got == [
        row for batch in pickle.loads(pickle.dumps(changed)).batches(4) for row in batch["input_ids"].tolist()
    ]
    assert {row[0] // 1000 for row in got[:20]} == {0, 1}
    assert {row[0] // 1000 for row in got[20:]} == {0, 1, 2}
    # Where the new weights hold already, a state of the old ones is refused, and the other way round.
    later = old.batches(24)
    next(later)
    with pytest.raises(ValueError, match="the state's fingerprint is"):
        changed.batches(4, state=later.state_dict())
    with pytest.raises(ValueError, match="the state's fingerprint is"):
        old.batches(4, state=changed.state_at(24))
    assert old.row_of_state(changed.state_at(20)) == 20


def test_invalid_changes_of_weights() -> None:
    datasets = [dataset(0, 9), dataset(50, 9)]
    cases: list[tuple[Any, type[Exception], str]] = [
        ({5: [1, 1]}, ValueError, r"weights has lists from the rows \[5\]; it must have one from row 0"),
        ({}, ValueError, r"weights has lists from the rows \[\]; it must have one from row 0"),
        ({0: [1, 1], -4: [1, 1]}, ValueError, r"a row of weights is -4"),
        ({0: [1, 1], "a": [1, 1]}, TypeError, r"a row of weights is 'a'"),
        ({0: [0, 0], 3: [1, 1]}, ValueError, r"weights is \[0, 0\]; it must have a positive number for each"),
        ({0: [1, 1], 3: [0, 1]}, ValueError, r"weights is \[0, 1\]; it must have a positive number for each"),
        ({0: None}, TypeError, r"weights is None; it must be a list of numbers, one for each dataset"),
        ({0: {0: 1, 1: 2}}, TypeError, r"weights is .*a dict; it must be a list of numbers"),
        (3, TypeError, r"weights is 3, an int; it must be a list of numbers"),
        ({3, 1}, TypeError, r"weights is .*a set; it must be a list of numbers"),
        (b"ab", TypeError, r"weights is b'ab', a bytes; it must be a list of numbers"),
        ([10**400, 1], ValueError, r"a weight is greater than 1e\+300; divide all weights by the same number"),
        ([1e308, 1e308], ValueError, r"a weight is greater than 1e\+300"),
    ]
    for weights, error, message in cases:
        with pytest.raises(error, match=message):
            Mixture(datasets, weights)


@pytest.mark.parametrize("type_", [np.int64, np.uint8, np.float32, Fraction])
def test_weights_are_numbers_of_any_type(type_: Any) -> None:
    datasets = [dataset(0, 9), dataset(50, 9)]
    expected = Mixture(datasets, {0: [3, 1], 5: [1, 2]})
    given = Mixture(datasets, {np.int64(5): [type_(1), type_(2)], 0: [type_(3), type_(1)]})  # type: ignore[dict-item]
    assert given.fingerprint == expected.fingerprint
    assert len(given) == len(expected)


def test_a_change_of_weights_at_the_largest_row_is_never_reached() -> None:
    datasets = [dataset(0, 9), dataset(50, 9)]
    assert len(Mixture(datasets, {0: [1, 1], 2**63 - 1: [1, 9]})) == len(Mixture(datasets, [1, 1]))
