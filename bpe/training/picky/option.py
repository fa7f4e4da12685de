"""`PickyBPE`: the option `deletions` of `bpe.train`.

Not here: what it does to a training (`_learner.pyx`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpe.errors import shown
from bpe.training.options import TrainOptions


@dataclass(frozen=True)
class PickyBPE:
    """Delete tokens that merges use up: the argument `deletions` of `bpe.train`.

    Right after each merge, both parts are looked at, the left one first. A part that a merge has made is deleted if at
    least `threshold` of its occurrences went into the merge. What is left of it is split into the tokens that it was
    made of, and its place in the vocabulary is free. It may be made again later.

    Encoding does merges and deletions in the order of the training, so no other program can read such a tokenizer: it
    is saved as model type `bpe.PickyBPE`. Source: Chizhov et al., "BPE Gets Picky" (2024, arXiv 2409.04599).

    Attributes:
        threshold: from this share of its occurrences on a token is deleted; above 0 and at most 1. The paper has 0.6 to
            0.9. With 1, only tokens that do not occur any more are deleted.

    Raises:
        ValueError: for another threshold.

    >>> import bpe
    >>> counts = {"lower": 9, "lowest": 8, "slowly": 1}
    >>> plain = bpe.train(counts=counts, vocab_size=259)
    >>> picky = bpe.train(counts=counts, vocab_size=259, deletions=bpe.PickyBPE(0.9))
    >>> [*plain.vocab()][256:], [*picky.vocab()][256:]
    ([b'lo', b'low', b'lowe'], [b'lowe', b'lower', b'st'])

    """

    threshold: float = 0.9

    def __post_init__(self) -> None:
        given: Any = self.threshold
        number = isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool)
        if not number or not math.isfinite(given) or not 0 < given <= 1:
            raise ValueError(f"threshold is {shown(given)}; it must be a number above 0 and at most 1, such as 0.9")
        object.__setattr__(self, "threshold", float(given))

    def to_json(self) -> dict[str, Any]:
        """What determines the result, as name → JSON value."""
        return {"threshold": self.threshold}


def check_with_deletions(options: TrainOptions, others: dict[str, object]) -> None:
    """Check that the other options of a training go together with deletions.

    Args:
        options: the options of every training.
        others: name → value of those that are classes; None where not given.

    Raises:
        ValueError: for options that do not.

    """
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise ValueError(f"deletions and {given[0]} are given, which do not go together; leave one of them out")
    if options.model != "byte" or options.end_of_word is not None or options.unk_token is not None:
        raise ValueError(
            "deletions are for byte models without an end-of-word mark and an unknown token; leave model, end_of_word "
            "and unk_token out"
        )
    if options.tie_break == "first":
        raise ValueError(
            "tie_break is 'first'; with deletions it must be 'id', 'smallest' or 'greatest', since a split moves the "
            "first position of a pair"
        )
    if options.sizes:
        raise ValueError(
            f"vocab_size is {list(options.sizes)}; with deletions it must be one number, since a smaller vocabulary is "
            "no part of a larger one"
        )


__all__ = ["PickyBPE", "check_with_deletions"]
