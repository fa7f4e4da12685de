"""Pieces that are one byte again and again: merged as runs of equal tokens, with the ids of merging pair by pair."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

import bpe


def merge_pair_by_pair(ids: list[int], results: dict[tuple[int, int], tuple[int, int]]) -> list[int]:
    """Merge the pair with the best rank, the leftmost first, until there is none."""
    while True:
        ranked = [(*results[pair], i) for i, pair in enumerate(itertools.pairwise(ids)) if pair in results]
        if not ranked:
            return ids
        _, result, i = min(ranked)
        ids = [*ids[:i], result, *ids[i + 2 :]]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from("ab ")), min_size=1, max_size=8),
    st.integers(1, 40),
    st.sets(st.integers(65, 300), min_size=1, max_size=3),
)
def test_runs_of_one_byte(runs: list[tuple[int, str]], n_merges: int, sizes: set[int]) -> None:
    corpus = [char * size for size, char in runs]
    tok = bpe.train(texts=corpus, vocab_size=256 + n_merges, pretokenizer=None)
    rows = zip(tok.spec.merges.tolist(), tok.spec.merge_results.tolist(), strict=True)
    results = {(left, right): (rank, result) for rank, ((left, right), result) in enumerate(rows)}
    for char in "ab c":
        for size in sizes:
            ids = merge_pair_by_pair(tok.encode(char).tolist() * size, results)
            assert tok.encode(char * size).tolist() == ids
            assert tok.count_tokens(char * size) == len(ids)
