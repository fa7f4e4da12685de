"""Splits of tokens into two tokens of the vocabulary, and StochasTok, which splits at random.

Source: Sims et al., "StochasTok: Improving Fine-Grained Subword Understanding in LLMs" (2025), as its authors' code
does it. Dropout, which merges at random: `_dropout.pyx`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.merge._splits import split_randomly
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.vocabulary import ORDINARY


class Splits:
    """For each token, the pairs of tokens that spell the same, end to end; special tokens have none. Immutable.

    Attributes:
        offsets: int64 (limit + 1,): the splits of a token are `parts[offsets[token]:offsets[token + 1]]`.
        parts: uint32 (n, 2): the left and the right token of all splits, those with the shortest left token first.

    Raises:
        ValueError: for a tokenizer whose tokens are spelled otherwise inside a word.

    """

    def __init__(self, spec: TokenizerSpec) -> None:
        if spec.subword_prefix:
            raise ValueError(
                f"the tokenizer has the subword prefix {spec.subword_prefix!r}: two tokens end to end do not spell the "
                "whole one, so tokens cannot be split"
            )
        limit = spec.vocabulary.limit
        ends_word = np.zeros(limit, dtype=np.bool_) if spec.ends_word is None else spec.ends_word
        byte_names = {name.encode() for name in BYTE_NAMES} if spec.byte_fallback else set()
        tokens = [(token_id, token) for token_id, token in spec.vocabulary.items(ORDINARY) if token not in byte_names]
        inner_ids = {token: token_id for token_id, token in tokens if not ends_word[token_id]}
        last_ids = {token: token_id for token_id, token in tokens if ends_word[token_id]}
        counts = np.zeros(limit, dtype=np.int64)
        parts: list[int] = []
        for token_id, token in tokens:
            right_tokens = last_ids if ends_word[token_id] else inner_ids
            for position in range(1, len(token)):
                left = inner_ids.get(token[:position])
                if left is not None:
                    right = right_tokens.get(token[position:])
                    if right is not None:
                        parts += (left, right)
                        counts[token_id] += 1
        self.offsets = compute_offsets(counts)
        self.parts = np.array(parts, dtype=np.uint32).reshape(-1, 2)

    def sample(
        self, ids: NDArray[np.uint32], offsets: NDArray[np.int64], proportion: float, seed: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Split tokens of texts: floor(proportion * n) times, a random token of a text of n; (ids, offsets).

        The result depends on the arguments alone; text i has the random numbers of `seed + i`.
        """
        offsets = np.array(offsets)  # the caller's may change
        n_draws = np.floor(proportion * np.diff(offsets)).astype(np.int64)
        contiguous_ids = np.ascontiguousarray(ids, dtype=np.uint32)
        return split_randomly(contiguous_ids, offsets, n_draws, self.offsets, self.parts, seed & (2**64 - 1))
