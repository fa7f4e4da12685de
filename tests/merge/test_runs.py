"""Pieces of a few runs of one byte each: merged as runs of equal tokens, with the ids of merging pair by pair."""

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


def list_results(tok: bpe.Tokenizer) -> dict[tuple[int, int], tuple[int, int]]:
    """List the merges of a tokenizer: pair → (rank, result)."""
    rows = zip(tok.spec.merges.tolist(), tok.spec.merge_results.tolist(), strict=True)
    return {(left, right): (rank, result) for rank, ((left, right), result) in enumerate(rows)}


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from("ab ")), min_size=1, max_size=8),
    st.integers(1, 40),
    st.sets(st.integers(65, 300), min_size=1, max_size=3),
)
def test_runs_of_one_byte(runs: list[tuple[int, str]], n_merges: int, sizes: set[int]) -> None:
    corpus = [char * size for size, char in runs]
    tok = bpe.train(texts=corpus, vocab_size=256 + n_merges, pretokenizer=None)
    results = list_results(tok)
    for char in "ab c":
        for size in sizes:
            ids = merge_pair_by_pair(tok.encode(char).tolist() * size, results)
            assert tok.encode(char * size).tolist() == ids
            assert tok.count_tokens(char * size) == len(ids)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from("ab ")), min_size=1, max_size=12),
    st.integers(1, 60),
    st.lists(st.tuples(st.integers(1, 150), st.sampled_from("ab c")), min_size=1, max_size=10),
)
def test_several_runs(runs: list[tuple[int, str]], n_merges: int, parts: list[tuple[int, str]]) -> None:
    """Merges learned from runs side by side join the ends of runs; up to eight runs are merged as runs."""
    tok = bpe.train(
        texts=["".join(char * size for size, char in runs)] * 2, vocab_size=256 + n_merges, pretokenizer=None
    )
    text = "".join(char * size for size, char in parts)
    ids = merge_pair_by_pair([tok.encode(char)[0].item() for char in text], list_results(tok))
    assert tok.encode(text).tolist() == ids
    assert tok.count_tokens(text) == len(ids)


def test_long_runs_of_two_brackets() -> None:
    """Nested brackets and what is around them: the ids of a piece in parts, where no token crosses their ends."""
    tok = bpe.train(texts=["((((((((" * 4, "))))))))" * 4, "x"], vocab_size=270, pretokenizer=None)
    opened, closed = tok.encode("(" * 100_001).tolist(), tok.encode(")" * 100_001).tolist()
    assert tok.encode("(" * 100_001 + ")" * 100_001).tolist() == opened + closed
    assert tok.encode("x" + "(" * 100_001 + "x").tolist() == [*tok.encode("x"), *opened, *tok.encode("x")]
