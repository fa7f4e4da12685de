"""The classes of characters by which the kernel divides text into units."""

from __future__ import annotations

from functools import cache

import numpy as np
import regex
from numpy.typing import NDArray

from bpe.text.character_sets import codes

#: The bits of a class.
DIGIT, NUMBER, LETTER, SPACE = 1, 2, 4, 8
#: The number of code points that have a class. All later ones have none in Unicode 16, which the patterns follow.
N_CLASSES = 0x40000


@cache
def character_classes() -> NDArray[np.uint8]:
    """The classes of code points, as the `regex` package has them; those that are not in Unicode 16 have none."""
    text = np.arange(N_CLASSES, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    classes = np.zeros(N_CLASSES, dtype=np.uint8)
    for expression, bit in (
        (r"\d+", DIGIT),
        (r"\p{N}+", NUMBER),
        (r"\p{L}+", LETTER),
        (r"\p{White_Space}+", SPACE),
    ):
        for match in regex.finditer(expression, text):
            classes[slice(*match.span())] |= bit
    classes[[code for code in codes("UNASSIGNED") if code < N_CLASSES]] = 0
    classes.flags.writeable = False
    return classes
