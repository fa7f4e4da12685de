"""The kernels' table of merges against a dict, and the twin of the kernels against itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import example, given
from hypothesis import strategies as st

from bpe.merge._merge_table import MergeTable
from bpe.vocab.vocabulary import NO_TOKEN

TOKENS = st.integers(0, 30) | st.integers(0, 2**31 - 1)


@given(
    st.dictionaries(st.tuples(TOKENS, TOKENS), TOKENS, max_size=100),
    st.integers(0, 2**25),
    st.booleans(),
    st.sampled_from([0, 2**31]),
)
@example({(0, 2**20): 5, (2**11, 0): 6}, 0, False, 0)
def test_merge_table_returns_the_inserted_merges(
    hooks: Any, merges: dict[tuple[int, int], int], first: int, regular: bool, limit: int
) -> None:
    """Whether tokens fit a key or not, whether the indices of merges say their ranks and results or not."""
    pairs = np.array(list(merges), dtype=np.int32).reshape(-1, 2)
    ids = np.array(list(merges.values()), dtype=np.int32)
    ranks = np.arange(len(ids), dtype=np.int32)
    if regular:
        ids = ranks + np.int32(first)
    else:
        ranks = ranks[::-1] // 2
    limit = max(limit, int(pairs.max(initial=0)) + 1)
    tokens = {*range(8), *pairs.ravel().tolist(), limit - 1, NO_TOKEN}
    for given_ranks, all_ranks in ((ranks.copy(), ranks.tolist()), (None, range(len(ids)))):
        table = MergeTable(pairs, ids, given_ranks, limit)
        expected = dict(zip(merges, zip(all_ranks, ids.tolist(), strict=True), strict=True))
        for left in tokens:
            for right in tokens:
                assert hooks.merge_of(table, left, right) == expected.get((left, right))


def test_keys_that_pairs_share(hooks: Any) -> None:
    """Tokens of 31 bits: a key has 30 bits for each with few merges, fewer with many."""
    rng = np.random.default_rng(5)
    pairs = rng.integers(0, 2**31, (5000, 2)).astype(np.int32)
    pairs[1000:2000] = pairs[:1000] ^ np.array([1, 1 << 25], dtype=np.int32)
    ranks = np.arange(5000, dtype=np.int32)
    table = MergeTable(pairs, ranks, ranks, 2**31)
    for rank, (left, right) in enumerate(pairs.tolist()):
        assert hooks.merge_of(table, left, right) == (rank, rank)
        assert hooks.merge_of(table, left ^ 2, right ^ 1 << 26) is None


def test_of_a_pair_given_twice_the_better_rank_counts(hooks: Any) -> None:
    pairs = np.array([[1, 2], [3, 4], [1, 2], [1, 2]], dtype=np.int32)
    ids, ranks = np.array([7, 8, 9, 10], dtype=np.int32), np.array([5, 1, 2, 3], dtype=np.int32)
    for limit in (11, 2**31):
        assert hooks.merge_of(MergeTable(pairs, ids, ranks, limit), 1, 2) == (2, 9)
        assert hooks.merge_of(MergeTable(pairs, ids, np.arange(4, dtype=np.int32), limit), 1, 2) == (0, 7)


def test_a_merge_table_is_filled_once(hooks: Any) -> None:
    pairs, ids = np.array([[1, 2]], dtype=np.int32), np.array([3], dtype=np.int32)
    table = MergeTable(pairs, ids, ids, 4)
    table.__init__(pairs[:, ::-1].copy(), ids, ids, 4)  # type: ignore[misc]
    assert (hooks.merge_of(table, 1, 2), hooks.merge_of(table, 2, 1)) == ((3, 3), None)
    with pytest.raises(ValueError, match="each merge must have two tokens"):
        MergeTable(pairs, ids[:0], ids, 4)


@given(
    st.dictionaries(st.sampled_from(["aa", "ab", "ba", "aab", "aba", "abab", "aaaa"]), st.integers(0, 3)),
    st.text("ab", max_size=40),
)
def test_the_oracle_merges_long_words_like_short_ones(ranks: dict[str, int], text: str) -> None:
    """Even with equal ranks: the leftmost pair first."""

    def rank(left: str, right: str) -> float:
        return ranks.get(left + right, reference.NOT_A_PAIR)

    assert len(text) < reference.MANY
    expected = reference.merge_lowest(list(text), rank)
    assert reference.merge_lowest_of_many(list(text), rank) == expected
