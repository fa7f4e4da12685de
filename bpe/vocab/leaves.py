"""Chooses tokens to remove or to exchange by how often they occur in a corpus.

A leaf is a token that a merge makes and that is a part of no other merge, so that it can go without another one. Not
here: counting (`bpe/training/prune.py`), and removing (`pruning.py`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from bpe.vocab.pruning import base_tokens, required_tokens
from bpe.vocab.spec import TokenizerSpec


def removable_tokens(spec: TokenizerSpec) -> dict[int, list[int]]:
    """The tokens that only merges make, in the order of their first merges: id → the indices of its merges."""
    fixed = base_tokens(spec) | required_tokens(spec).keys()
    made: defaultdict[int, list[int]] = defaultdict(list)
    for index, token in enumerate(spec.merge_results.tolist()):
        if token not in fixed:
            made[token].append(index)
    return dict(made)


def rarest_leaves(spec: TokenizerSpec, made: dict[int, list[int]], frequencies: NDArray[np.int64], n: int) -> list[int]:
    """The n tokens to remove, in order: each time the leaf with the lowest frequency.

    `made` is what `removable_tokens` gives, and n at most their number. Of equally frequent leaves the one with the
    latest merge goes first. What a removed token stood for is two tokens then: its frequency is added to those of the
    parts of its first merge.
    """
    merges, frequency = spec.merges.tolist(), frequencies.tolist()
    parts = {token: [part for i in indices for part in set(merges[i])] for token, indices in made.items()}
    uses: defaultdict[int, int] = defaultdict(int)
    for left, right in merges:
        for part in {left, right}:
            uses[part] += 1
    queue = [(frequency[token], -indices[0], token) for token, indices in made.items() if uses[token] == 0]
    heapq.heapify(queue)
    removed: list[int] = []
    while len(removed) < n:
        _, _, token = heapq.heappop(queue)
        removed.append(token)
        for part in merges[made[token][0]]:
            frequency[part] += frequency[token]
        for part in parts[token]:
            uses[part] -= 1
            if uses[part] == 0 and part in made:
                heapq.heappush(queue, (frequency[part], -made[part][0], part))
    return removed
