"""How each token is made: its best merge, and the tokens that this merge joins.

The merges of a given text: `bpe/encode/explain.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bpe.vocab.spec import TokenizerSpec


class MergeTree:
    """The best merge of each token, by id.

    >>> from bpe.vocab.vocabulary import Vocabulary
    >>> tokens = Vocabulary([(0, b"l"), (1, b"o"), (2, b"w"), (3, b"lo"), (4, b"low")])
    >>> merges = np.array([[0, 1], [3, 2]], np.int32)
    >>> tree = MergeTree(TokenizerSpec("byte", tokens, merges, np.array([3, 4], np.int32)))
    >>> tree.rank(4), tree.parts(4), tree.parts(0), sorted(tree.with_parts([4]))
    (1, (3, 2), None, [0, 1, 2, 3, 4])

    """

    def __init__(self, spec: TokenizerSpec) -> None:
        results, first = np.unique(spec.merge_results, return_index=True)
        self._merges = spec.merges
        self._ranks = spec.merge_ranks
        self._first = dict(zip(results.tolist(), first.tolist(), strict=True))

    def rank(self, number: int) -> int | None:
        """The rank of the best merge that makes a token; None if no merge does."""
        at = self._first.get(number)
        return at if at is None or self._ranks is None else int(self._ranks[at])

    def parts(self, number: int) -> tuple[int, int] | None:
        """The two tokens that this merge joins."""
        at = self._first.get(number)
        return None if at is None else (int(self._merges[at, 0]), int(self._merges[at, 1]))

    def with_parts(self, numbers: Iterable[int]) -> set[int]:
        """Tokens, and all tokens that they are made of."""
        found, waiting = set(), list(numbers)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting += self.parts(number) or ()
        return found
