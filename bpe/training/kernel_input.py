"""The tokens that a training kernel starts from, and the limits of the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: The kernel's symbols have 16 bits while there are fewer tokens than this, and then 32.
NARROW = 65000
#: The most strings of `TrainConfig.forbidden`; the kernel has room for as many.
MOST_FORBIDDEN = 64
#: The number of characters that are joined with no other.
APART = 255
#: `InitialTokens.spelling` of words that are tokens already. 0 stands for bytes, 1 for characters.
ENCODED = 2


@dataclass(frozen=True)
class InitialTokens:
    """The tokens that training starts from.

    Attributes:
        spelling: what words consist of: 0 for bytes, 1 for characters (UTF-8), ENCODED for uint32 tokens.
        tokens: (bytes, ends with the mark, takes part in no merge, length in symbols) of the initial tokens, in id
            order from 0. The length is 0 for tokens that neither a symbol nor a merge produces.
        inner: uint32 by byte or code point: the token of a symbol that is not a word's last, or NO_TOKEN. None if the
            words are encoded.
        last: likewise for the last symbol of a word.
        mark: the token of an end-of-word mark to append to each word, else NO_TOKEN.

    """

    spelling: int
    tokens: list[tuple[bytes, bool, bool, int]]
    inner: NDArray[np.uint32] | None
    last: NDArray[np.uint32] | None
    mark: int
