"""The tree of tokens, and the check of merges against a vocabulary, each compared with a naive twin."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bpe.merge._merge_table import MergeTable
from bpe.merge._token_tree import TokenTree
from bpe.merge.tables import MergeList
from bpe.vocab._spec import find_wrong_merge

Merge = tuple[int, int, int]


def is_ordered(symbols: list[int], merges: list[Merge], ranks: list[int]) -> bool:
    """Whether merges have different ranks and results, and each ranks worse than those that made its parts."""
    rank_of_token = dict.fromkeys(symbols, -1)
    for (_, _, result), rank in zip(merges, ranks, strict=True):
        if result in rank_of_token:
            return False
        rank_of_token[result] = rank
    has_equal_ranks = len(set(ranks)) < len(ranks)
    return not has_equal_ranks and all(
        rank > max(rank_of_token.get(left, -1), rank_of_token.get(right, -1))
        for (left, right, _), rank in zip(merges, ranks, strict=True)
    )


def make_tree(symbols: list[int], merges: list[Merge], ranks: list[int], limit: int, *, is_known: bool) -> TokenTree:
    array = np.array(merges, dtype=np.int32).reshape(-1, 3)
    pairs, results = np.ascontiguousarray(array[:, :2]), np.ascontiguousarray(array[:, 2])
    rank_array, unmerged = np.array(ranks, dtype=np.int32), np.zeros(0, dtype=np.int32)
    merge_list = MergeList(pairs, results, rank_array, limit, unmerged if is_known else None)
    table = MergeTable(pairs, results, rank_array, limit)
    return TokenTree(table, np.array(symbols, dtype=np.uint32), merge_list)


@pytest.mark.parametrize("seed", range(8))
def test_order_of_random_merges(seed):
    """Mostly in order, and some with a token made twice, made of itself, or made after it was merged."""
    rng, n_ordered = random.Random(seed), 0
    for _ in range(200):
        limit = rng.randrange(8, 40)
        symbols, results = list(range(4)), list(range(4, limit))
        merges = [(rng.randrange(result), rng.randrange(result), result) for result in results]
        if rng.random() < 0.7:
            index = rng.randrange(len(merges))
            left, right, result = merges[index]
            merges[index] = rng.choice(
                [
                    (rng.randrange(limit), right, result),
                    (left, rng.randrange(limit), result),
                    (left, right, rng.randrange(limit)),
                ]
            )
        if rng.random() < 0.3:
            rng.shuffle(merges)
        merges = merges[: rng.randrange(len(merges) + 1)]
        ranks = sorted(rng.sample(range(100), len(merges)))
        if ranks and rng.random() < 0.2:
            ranks[-1] = ranks[len(ranks) // 2]
            ranks.sort()
        expected = is_ordered(symbols, merges, ranks)
        n_ordered += expected
        for is_known in (False, True):
            assert make_tree(symbols, merges, ranks, limit, is_known=is_known).is_ordered == expected
    assert 20 < n_ordered < 180


def test_tokens_with_too_many_symbols():
    """Each token is twice as long as the one before: after 31 merges, its length does not fit 31 bits."""
    merges = [(token, token, token + 1) for token in range(31)]
    for n, expected in ((30, True), (31, False)):
        assert make_tree([0], merges[:n], list(range(n)), 32, is_known=True).is_ordered == expected


# Spelling -------------------------------------------------------------------------------------------------------------


def find_wrong(merges: list[Merge], tokens: list[bytes], is_checked: list[int]) -> int:
    for index, ids in enumerate(merges):
        if not all(0 <= token_id < len(tokens) for token_id in ids):
            return index
        left, right, result = (tokens[token_id] for token_id in ids)
        if all(is_checked[token_id] for token_id in ids) and left + right != result:
            return index
    return -1


@pytest.mark.parametrize("seed", range(8))
def test_merges_that_are_spelled_otherwise_are_found(seed):
    """Tokens of 0 to 40 bytes, in any order, so that short ones begin or end the buffer too."""
    rng, n_right = random.Random(seed), 0
    for _ in range(200):
        tokens = [bytes(rng.choices(b"ab", k=rng.choice((0, 1, 2, 7, 8, 9, 20)))) for _ in range(12)]
        merges = []
        for _ in range(rng.randrange(1, 60)):
            left, right = rng.randrange(len(tokens)), rng.randrange(len(tokens))
            tokens.append(tokens[left] + tokens[right])
            merges.append((left, right, len(tokens) - 1))
        order = list(range(len(tokens)))
        rng.shuffle(order)
        new_id = {old: new for new, old in enumerate(order)}
        tokens = [tokens[old] for old in order]
        merges = [(new_id[left], new_id[right], new_id[result]) for left, right, result in merges]
        is_checked = [int(rng.random() < 0.99) for _ in tokens]
        change = rng.randrange(4)
        if change == 1:
            index = rng.randrange(len(merges))
            merges[index] = (*merges[index][:2], rng.choice((-1, len(tokens), 2**31 - 1, rng.randrange(len(tokens)))))
        elif change == 2:
            index = rng.randrange(len(tokens))
            tokens[index] = tokens[index][:-1] + b"c" if rng.random() < 0.5 else tokens[index] + b"a"
        blob, offsets = b"".join(tokens), np.cumsum([0, *map(len, tokens)], dtype=np.int64)
        array = np.array(merges, dtype=np.int32)
        index = find_wrong_merge(
            np.ascontiguousarray(array[:, :2]),
            np.ascontiguousarray(array[:, 2]),
            blob,
            offsets,
            np.array(is_checked, dtype=np.uint8),
        )
        if blob:
            expected = find_wrong(merges, tokens, is_checked)
            n_right += expected < 0
            assert index == expected
    assert 20 < n_right < 190


def test_merges_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="merges have 3 tokens; they must have 2"):
        find_wrong_merge(
            np.zeros((1, 3), dtype=np.int32), np.zeros(1, dtype=np.int32), b"a", np.array([0, 1]), np.ones(1, np.uint8)
        )
