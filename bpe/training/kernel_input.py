"""What the training kernel is given beside the words: the first tokens, the rule for the next merge, its tuning.

Not here: how these are worked out (`trainer.py`, `extend.py`), and the words (`words.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: The kernel's symbols have 16 bits while there are fewer tokens than this.
NARROW = 65000
#: What the kernel is given as words that are encoded already, where 0 stands for bytes and 1 for characters.
ENCODED = 2


@dataclass(frozen=True)
class Tuning:
    """How the kernel works, never what comes of it. Tests choose values that force each of its paths.

    Attributes:
        ratio: the threshold of an epoch is the best count divided by this.
        dense: up to so many tokens, pairs are counted in a table of all pairs.
        narrow: from so many tokens on, symbols take 32 bits.
        least: symbols that make a part of the array worth a thread of its own.
        long_list: occurrences that make a part of a list worth a thread of its own.
        threads: the caller's, and those that help it.
        memory: bytes for lists, table and queue in place of those that `max_memory` leaves; None for those.
        strict: whether the kernel never takes more than `memory`; with `max_memory` it never does.

    """

    ratio: int = 1000
    dense: int = 768
    narrow: int = NARROW
    least: int = 1 << 19
    long_list: int = 1 << 13
    threads: int | None = None
    memory: int | None = None
    strict: bool = False


@dataclass(frozen=True)
class MergeRule:
    """Which pair is merged next, as the kernel takes it.

    Attributes:
        tie_break: the index of the rule in TIE_BREAKS.
        min_frequency: the least count of a pair that is merged.
        max_length: the most symbols of a token.

    """

    tie_break: int
    min_frequency: int = 1
    max_length: int = 0xFFFFFFFF


@dataclass(frozen=True)
class Start:
    """What training begins with.

    Attributes:
        spelling: what the bytes of words are: bytes, characters (UTF-8), or tokens (ENCODED).
        tokens: (bytes, ends with the mark, takes part in no merge, length in symbols) of the tokens that there are, in
            id order from 0. Of length 0 are those that neither a symbol nor a merge makes.
        inner: uint32 by byte or code point: the token of a symbol before the last place of a word, or NO_TOKEN. None
            where the words are encoded: their bytes are then those of uint32 tokens.
        last: the same for the last place.
        mark: the token of a mark that is a symbol of its own and that words do not have yet, else NO_TOKEN.

    """

    spelling: int
    tokens: list[tuple[bytes, bool, bool, int]]
    inner: NDArray[np.uint32] | None
    last: NDArray[np.uint32] | None
    mark: int
