"""The training kernel's arguments beside the words: the initial tokens, the rule for the next merge, tuning.

Not here: how they are computed (`trainer.py`, `extend.py`), and the words (`words.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: The kernel's symbols have 16 bits while there are fewer tokens than this, and then 32.
NARROW = 65000
#: The most strings of `NextMerge.forbidden`; the kernel has room for as many.
MOST_FORBIDDEN = 64
#: The number of characters that are joined with no other.
APART = 255
#: `Start.spelling` of words that are tokens already. 0 stands for bytes, 1 for characters.
ENCODED = 2


@dataclass(frozen=True)
class Tuning:
    """Parameters that change the kernel's speed and memory, never its result. Tests set them to reach every path.

    Attributes:
        ratio: the threshold of an epoch is the best count divided by this.
        dense: with at most this many tokens, pairs are counted in a table of all pairs.
        narrow: with at least this many tokens, symbols have 32 bits.
        least: the fewest symbols of the array that one thread processes.
        long_list: the fewest occurrences of a pair that one thread processes.
        threads: the number of threads, the caller's included; None: as many as `train` uses.
        memory: bytes for the lists, table and queue of pairs; None: what `max_memory` leaves.
        strict: never exceed `memory`. Always true with `max_memory`.

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
class NextMerge:
    """Which pair is merged next.

    Attributes:
        tie_break: the index of the rule in TIE_BREAKS.
        min_frequency: the least count of a pair that is merged.
        max_length: the most symbols of a token.
        max_words: the most parts that spaces divide a new token into; 0 for no limit.
        forbidden: strings that no new token contains.
        whole_characters: join no part of a character with anything but its next byte.
        scripts: a byte for each code point, the number of its script or 0; no new token has two numbers, and a
            character of APART is joined with no other. Empty: any.
        mark_size: the bytes of the end-of-word mark; the four rules above do not see the mark.
        veto: called as veto(left, right, count) with the bytes of the best pair; true if it must not be merged.
        every: track every pair, however rare, so that `Trainer.apply` finds it.
        disjoint: count occurrences of a pair that do not overlap: a run of three equal tokens has one pair, not two.

    """

    tie_break: int
    min_frequency: int = 1
    max_length: int = 0xFFFFFFFF
    max_words: int = 0
    forbidden: tuple[bytes, ...] = ()
    whole_characters: bool = False
    scripts: bytes = b""
    mark_size: int = 0
    veto: Callable[[bytes, bytes, int], object] | None = None
    every: bool = False
    disjoint: bool = False


@dataclass(frozen=True)
class Start:
    """The tokens that training starts from.

    Attributes:
        spelling: what words consist of: 0 for bytes, 1 for characters (UTF-8), ENCODED for uint32 tokens.
        tokens: (bytes, ends with the mark, takes part in no merge, length in symbols) of the initial tokens, in id
            order from 0. The length is 0 for tokens that neither a symbol nor a merge produces.
        inner: uint32 by byte or code point: the token of a symbol that is not a word's last, or NO_TOKEN. None if the
            words are encoded.
        last: the same for the last symbol of a word.
        mark: the token of an end-of-word mark to append to each word, else NO_TOKEN.

    """

    spelling: int
    tokens: list[tuple[bytes, bool, bool, int]]
    inner: NDArray[np.uint32] | None
    last: NDArray[np.uint32] | None
    mark: int
