"""`Training`: the facts about its training that a tokenizer keeps.

Not here: training itself (`bpe/training`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Training:
    """Facts about a training: `Tokenizer.training` of a tokenizer that `train` or `extend` returned.

    Attributes:
        stopped: why training stopped before the requested size: "no pairs left" or "min_frequency"; None if it reached
            that size.
        merges: the number of merges.
        words: the number of distinct words in the corpus.
        seconds: the time that training took, including counting.

    """

    stopped: str | None
    merges: int
    words: int
    seconds: float
