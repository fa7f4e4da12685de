"""Which tokens of a tokenizer save most, compared with another one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import offsets_of
from bpe.evaluation.adapters import Adapter

#: How many tokens the other tokenizer encodes at once.
_TOGETHER = 2000


@dataclass(frozen=True)
class Saving:
    """A token that takes the place of several tokens of another tokenizer.

    Attributes:
        text: the token.
        count: how often it occurs.
        instead: the tokens of the other tokenizer for the same text by itself.

    """

    text: str
    count: int
    instead: int

    @property
    def saved(self) -> int:
        """How many tokens it saves."""
        return self.count * (self.instead - 1)


def savings(
    counts: NDArray[np.int64], adapter: Adapter, other: Adapter, whole: NDArray[np.bool_], most: int
) -> list[Saving]:
    """The tokens that save most, the first saves most; fewer than `most` if no others save anything.

    Args:
        counts: how often each token occurs, by id.
        adapter: the tokenizer.
        other: the one to compare with.
        whole: whether each token is whole characters; others are left out.
        most: how many tokens to return, at most.

    Raises:
        ValueError: for tokens that the other tokenizer cannot encode.

    """
    tokens, found = adapter.tokens, list[Saving]()
    bounds = np.where(
        whole & tokens.ordinary, counts * (tokens.lengths - 1), 0
    )  # each byte a token: none can save more
    order = np.argsort(-bounds, kind="stable")
    order = order[bounds[order] > 0]
    for first in range(0, len(order), _TOGETHER):
        if len(found) == most and (not found or found[-1].saved >= bounds[order[first]]):
            break
        token_ids = order[first : first + _TOGETHER].tolist()
        texts = [tokens[token_id] for token_id in token_ids]
        ends = offsets_of([len(text) for text in texts])
        _, offsets, _ = other.encode(b"".join(texts), ends[:-1], ends[1:])
        found += [
            Saving(text.decode("utf-8"), int(counts[token_id]), int(instead))
            for text, token_id, instead in zip(texts, token_ids, np.diff(offsets), strict=True)
            if instead > 1
        ]
        found = sorted(found, key=lambda each: -each.saved)[:most]
    return found
