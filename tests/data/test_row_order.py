"""The order of rows: a permutation, equal to a plain implementation and to golden vectors, even and invertible."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe.data.loaders.order import WINDOW, RowOrder, make_round_keys, permute

WORD = 2**64


def mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def plain_keys(*words: int) -> list[int]:
    h = 0
    for word in words:
        h = mix((h + word + 0x9E3779B97F4A7C15) % WORD)
    return [mix((h + r * 0x9E3779B97F4A7C15) % WORD) for r in range(1, 9)]


def plain(i: int, n: int, round_keys: list[int]) -> int:
    """The permutation as the module's docstring describes it."""
    if n == 1:
        return 0
    bits = max((n - 1).bit_length(), 6)
    low = bits - bits // 2
    while True:
        left, right = i >> low, i & (2**low - 1)
        for r in range(8):
            if r % 2 == 0:
                left ^= mix(right ^ round_keys[r]) & (2 ** (bits // 2) - 1)
            else:
                right ^= mix(left ^ round_keys[r]) & (2**low - 1)
        i = left << low | right
        if i < n:
            return i


GOLDEN = [
    (10, (0, 0), range(10), [1, 4, 9, 2, 0, 3, 8, 7, 6, 5]),
    (10**12, (42, 3), [0, 1, 2, 12345, 10**12 - 1],
     [56100093526, 544099597578, 870410107357, 286153978669, 598017610909]),
    (2**63 - 1, (2**63 - 1, 1), [0, 1, 2, 2**62],
     [2756586753918435597, 6334904111471414084, 8068163432532625484, 4920731436277903920]),
]  # fmt: skip


@pytest.mark.parametrize(("n", "numbers", "indices", "expected"), GOLDEN)
def test_golden_vectors(n: int, numbers: tuple[int, int], indices: list[int], expected: list[int]) -> None:
    assert permute(np.array(indices), n, make_round_keys(*numbers)).tolist() == expected
    assert [plain(i, n, plain_keys(*numbers)) for i in indices] == expected


def test_golden_keys() -> None:
    assert make_round_keys(0, 0)[:2] == [0x238275BC38FCBE91, 0xF89A2566B5822C54]
    assert make_round_keys(42, 3)[:2] == [0x77B243EFCEE10967, 0x30EBBB8306D77E38]


@given(st.integers(1, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 1000), st.data())
def test_equals_the_plain_implementation_and_has_an_inverse(n: int, seed: int, epoch: int, data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, n - 1), max_size=5))
    round_keys = make_round_keys(seed, epoch)
    assert round_keys == plain_keys(seed, epoch)
    result = permute(np.array(indices, dtype=np.int64), n, round_keys)
    assert result.tolist() == [plain(i, n, round_keys) for i in indices]
    assert permute(result, n, round_keys, inverse=True).tolist() == indices


@given(st.integers(1, 300), st.integers(1, 9), st.integers(0, 99), st.integers(0, 3))
def test_each_row_once_and_chunks_stay_together(n: int, chunk: int, seed: int, epoch: int) -> None:
    rows = RowOrder(n, seed, chunk).rows(np.arange(n), epoch).tolist()
    assert sorted(rows) == list(range(n))
    inside = [(a, b) for a, b in itertools.pairwise(rows) if a // chunk == b // chunk]
    assert all(b == a + 1 for a, b in inside)
    assert len(inside) == n - -(-n // chunk)


def test_the_same_whatever_is_read_together() -> None:
    """The window of consecutive indices that is kept changes no row."""
    order = RowOrder(3 * WINDOW, seed=5, chunk=3)
    all_rows = [RowOrder(3 * WINDOW, seed=5, chunk=3).rows(np.arange(3 * WINDOW), epoch) for epoch in (0, 1)]
    rng = np.random.default_rng(0)
    start = 0
    for step in range(300):
        size = int(rng.integers(1, 200))
        start = 0 if step % 50 == 0 else int(rng.integers(0, 3 * WINDOW - 200)) if step % 7 == 0 else start + size
        indices = np.arange(start, min(start + size, 3 * WINDOW))
        if step % 5 == 0:
            rng.shuffle(indices)
        epoch = int(step % 20 > 10)
        assert (order.rows(indices, epoch) == all_rows[epoch][indices]).all()
    assert pickle.loads(pickle.dumps(order)) == order


def test_seeds_epochs_and_streams_differ() -> None:
    indices = np.arange(1000)
    orders = [RowOrder(1000, 0), RowOrder(1000, 1), RowOrder(1000, 0, salt=(1,)), RowOrder(1000, 0, salt=(2,))]
    results = [order.rows(indices, epoch).tobytes() for order in orders for epoch in (0, 1)]
    assert len(set(results)) == len(results)


def test_orders_of_few_rows_are_about_equally_likely() -> None:
    """Chi-squared of 6 orders with 180 seeds: 20.5 has a probability of 0.001."""
    n_by_order = Counter(tuple(permute(np.arange(3), 3, make_round_keys(seed, 0)).tolist()) for seed in range(180))
    assert sum((count - 30) ** 2 / 30 for count in n_by_order.values()) < 20.5
    assert len(n_by_order) == 6


def test_places_are_not_correlated() -> None:
    """Neighbours in the order are as far apart as in a random one: n / 3 on average."""
    n = 100_000
    rows = RowOrder(n, 7).rows(np.arange(n), 0)
    assert abs(np.abs(np.diff(rows)).mean() * 3 / n - 1) < 0.02


def test_an_index_outside_is_an_error() -> None:
    for index in (-1, 5):
        with pytest.raises(IndexError, match=rf"index {index} is outside 0 to 4"):
            RowOrder(5, 0).rows(np.array([index]), 0)
    assert RowOrder(0, 0).rows(np.arange(0), 0).tolist() == []
