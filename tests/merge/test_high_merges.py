"""The high merges of a superword vocabulary on rows of low tokens, beside merging by rank one pair at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import count, pairwise, product

import numpy as np
import pytest

from bpe.base._cpu import set_vector_level
from bpe.merge._across_words import AcrossWordTable
from bpe.merge._high_merges import HighMerges
from bpe.merge.tables import MergeList

#: Around the sizes of groups of runs, of words of bits and of blocks; and as many tokens as two blocks have.
SIZES = (1, 2, 3, 15, 16, 17, 23, 24, 25, 26, 63, 64, 65, 66, 1024, 1025, 2100)


@pytest.fixture(params=[0, 3])
def level(request: pytest.FixtureRequest) -> Iterator[int]:
    """A vector level that is set while the test runs."""
    yield set_vector_level(request.param)
    set_vector_level(3)


def merge_list(merges: dict[tuple[int, int], int], limit: int) -> MergeList:
    """These merges, best first."""
    pairs = np.array(list(merges), dtype=np.int32).reshape(-1, 2)
    results = np.array(list(merges.values()), dtype=np.int32)
    return MergeList(pairs, results, None, limit)


def high_merges(merges: dict[tuple[int, int], int], limit: int) -> HighMerges:
    """These merges of a vocabulary without low merges."""
    return HighMerges(merge_list({}, limit), merge_list(merges, limit))


@cache
def random_merges(n_low: int, n: int) -> dict[tuple[int, int], int]:
    """As many merges of random tokens as there are places; tokens below `n_low` are low."""
    chosen = random.Random(n)
    merges: dict[tuple[int, int], int] = {}
    while len(merges) < n:
        size = n_low + len(merges)
        merges.setdefault((chosen.randrange(size), chosen.randrange(size)), size)
    return merges


def merged(merges: dict[tuple[int, int], int], low: list[int]) -> list[int]:
    """The ids by the definition: the best pair again and again."""
    parts = list(low)
    while True:
        candidates = [(merges[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in merges]
        if not candidates:
            return parts
        result, at = min(candidates)
        parts[at : at + 2] = [result]


def leaves(parts: dict[int, tuple[int, int]], token: int) -> list[int]:
    """The low tokens that a token comes from."""
    return [leaf for part in parts[token] for leaf in leaves(parts, part)] if token in parts else [token]


@pytest.mark.parametrize(("n_low", "n"), [(3, 12), (40, 300), (2_000, 6_000)])
def test_ids_are_those_of_merging_by_rank(n_low: int, n: int) -> None:
    """Runs of all sizes: with few low tokens most pairs are joined, with many few."""
    merges = random_merges(n_low, n)
    parts = {result: pair for pair, result in merges.items()}
    high = high_merges(merges, n_low + n)
    chosen = random.Random(0)
    rows = []
    for size in SIZES:
        low: list[int] = []
        while len(low) < size:  # leaves of tokens, so that merges apply, and others between them
            low += leaves(parts, n_low + chosen.randrange(n))[:30] + chosen.choices(range(n_low), k=chosen.randrange(3))
        del low[size:]
        rows.append((np.array(low, dtype=np.uint32), merged(merges, low)))
    try:
        for level, (low_ids, expected) in product((0, 3), rows):
            set_vector_level(level)
            assert high.merge_pretoken(low_ids).tolist() == expected
    finally:
        set_vector_level(3)


@pytest.mark.parametrize("sizes", [(191 * [3], 18 * [24]), (15 * [24], 207 * [3]), (341 * [3],), (42 * [24],)])
def test_groups_of_segments_have_room(sizes: tuple[list[int], ...], level: int) -> None:
    """Groups take the most rows if one has a run that is much longer than its others."""
    merges = {(0, 1): 4, (2, 3): 5, (1, 0): 6, (3, 2): 7, (4, 4): 8, (5, 5): 9}
    low: list[int] = []
    for i, size in enumerate(size for some in sizes for size in some):
        low += [2 * (i % 2) + k % 2 for k in range(size)]  # 0 and 1 are apart from 2 and 3
    assert len(low) <= 1024
    assert high_merges(merges, 10).merge_pretoken(np.array(low, dtype=np.uint32)).tolist() == merged(merges, low)


def test_every_pair_has_a_slot_of_its_own() -> None:
    """A row of the two parts of any merge becomes its result, whatever number of merges fills the table."""
    for n in (1, 2, 51, 52, 1_000, 13_107, 13_108):  # 64 slots are filled by 51 pairs, 16,384 by 13,107
        merges = {(2 * i, 2 * i + 1): 2 * n + i for i in range(n)}
        high = high_merges(merges, 3 * n)
        for i in range(0, n, max(n // 50, 1)):
            assert high.merge_pretoken(np.array([2 * i, 2 * i + 1], dtype=np.uint32)).tolist() == [2 * n + i]
            assert high.merge_pretoken(np.array([2 * i + 1, 2 * i], dtype=np.uint32)).tolist() == [2 * i + 1, 2 * i]


def test_pairs_of_equal_hashes_are_refused() -> None:
    """Two pairs that no pilot tells apart: the slot's hash is one of left * 0xC2B2AE3D + right, modulo 2**32."""

    def bucket(left: int, right: int) -> int:
        mixed = (left * 0x9E3779B1 + right * 0x85EBCA6B) % 2**32
        return (mixed ^ mixed >> 15) * 0x2C1B3C6D % 2**32 >> 26

    step = next(i for i in count(1) if -i * 0xC2B2AE3D % 2**32 < 200_000)
    over = -step * 0xC2B2AE3D % 2**32
    left = next(i for i in count() if bucket(i, 0) == bucket(i + step, over))
    limit = max(left + step, over) + 3
    with pytest.raises(ValueError, match="two pairs of tokens have the same hashes"):
        high_merges({(left, 0): limit - 2, (left + step, over): limit - 1}, limit)


@pytest.mark.parametrize(
    ("pairs", "results"),
    [([[0, 1]], [-1]), ([[0, 1]], [10]), ([[0, 10]], [5]), ([[0, -5]], [5]), ([[0, 1], [1, 2]], [5]), ([[0]], [5])],
)
def test_merges_outside_the_vocabulary_are_refused(pairs: list[list[int]], results: list[int]) -> None:
    merges = MergeList(np.array(pairs, np.int32), np.array(results, np.int32), np.arange(len(results)), 10)
    with pytest.raises(ValueError, match=r"merges have ids from|have the shapes"):
        HighMerges(merge_list({}, 10), merges)
    with pytest.raises(ValueError, match="a low token has the id 10; ids are below 10"):
        high_merges({(0, 1): 5}, 10).merge_pretoken(np.array([0, 10], dtype=np.uint32))


def test_supermerges_of_unequal_numbers_are_refused() -> None:
    pairs, plain = np.array([[0, 1], [2, 3]], dtype=np.int32), np.arange(4, dtype=np.uint32)
    with pytest.raises(ValueError, match="there are 2 rows of 2 tokens, 1 results and 2 ranks"):
        AcrossWordTable(pairs, np.array([7], dtype=np.int32), 10, plain)
    with pytest.raises(ValueError, match="there are 2 rows of 1 tokens"):
        AcrossWordTable(pairs[:, :1].copy(), np.array([7, 8], dtype=np.int32), 10, plain)
