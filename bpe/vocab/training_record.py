"""What a tokenizer remembers of its training.

Not here: training itself (`bpe/training`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Training:
    """Facts about a training, in `Tokenizer.training` of a tokenizer that `train` or `extend` made.

    Attributes:
        stopped: why it ended before the requested size: "no pairs left" or "min_frequency"; None if it did not.
        merges: the number of merges.
        words: the number of distinct words that it learned from.
        seconds: how long it took, counting included.

    """

    stopped: str | None
    merges: int
    words: int
    seconds: float
