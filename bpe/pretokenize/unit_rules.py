"""The units of superword pretokenizers that the kernel finds, and the classes of characters that it needs for that.

Not here: the scan (`_piece_scanner.pyx`).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from bpe.pretokenize.patterns import SUPERBPE_UNITS, SUPERBPE_V2_UNITS
from bpe.pretokenize.pretokenizer import Pretokenizer, Steps
from bpe.pretokenize.steps import DIGIT_GROUPS, ByteLevel, Digits, Split
from bpe.text.character_sets import codes

#: What divides a text, as in `_piece_scanner.pyx`.
UNDIVIDED, NUMBERS, SIGNS = 0, 1, 2
_DIGIT, _NUMBER, _LETTER, _SPACE = 1, 2, 4, 8
#: The number of code points that have a class. All later ones have none in Unicode 16, which the patterns follow.
_CLASSES = 0x40000
#: The steps of published files, and another spelling of the same pattern.
_STEPS = (Digits(), Split(DIGIT_GROUPS), ByteLevel(use_regex=False))
_ONE_PATTERN = r"[^\p{N}]+|\p{N}(?:(?!(?:\d{3})+(?!\d))\p{N})*"


class Units(NamedTuple):
    """How the kernel divides a text: UNDIVIDED, NUMBERS or SIGNS, and the classes of characters (uint8) or None."""

    kind: int
    classes: NDArray[np.uint8] | None


def units_of(pretokenizer: Pretokenizer | None) -> Units | None:
    """The units that a pretokenizer divides a text into; None if the kernel does not find them.

    >>> units_of(None)
    Units(kind=0, classes=None)
    >>> units_of(Pretokenizer("gpt2")) is None
    True

    """
    if pretokenizer is None:
        return Units(UNDIVIDED, None)
    if isinstance(pretokenizer, Steps):
        if pretokenizer.steps != _STEPS or pretokenizer.letters:
            return None
        numbers = np.zeros(_CLASSES, dtype=np.uint8)
        numbers[[code for code in codes("NUMERIC") if code < _CLASSES]] = _NUMBER
        classes = numbers | (_classes() & np.uint8(_DIGIT))
        return Units(NUMBERS, classes) if np.all(classes[classes & _DIGIT > 0] & _NUMBER) else None
    if pretokenizer.add_prefix_space:
        return None
    pattern = pretokenizer.pattern
    if pattern == _ONE_PATTERN or (pattern == SUPERBPE_UNITS and pretokenizer.gaps == "keep"):
        return Units(NUMBERS, _classes())
    if pattern == SUPERBPE_V2_UNITS and pretokenizer.gaps == "keep":
        return Units(SIGNS, _classes())
    return None


def is_number(units: Units, char: str) -> bool:
    """Whether a character is a number to a pretokenizer that divides text at numbers."""
    code = ord(char)
    return units.classes is not None and code < _CLASSES and bool(units.classes[code] & _NUMBER)


@cache
def _classes() -> NDArray[np.uint8]:
    """The classes of code points, as the `regex` package has them; those that are not in Unicode 16 have none."""
    text = np.arange(_CLASSES, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    classes = np.zeros(_CLASSES, dtype=np.uint8)
    for expression, bit in (
        (r"\d+", _DIGIT),
        (r"\p{N}+", _NUMBER),
        (r"\p{L}+", _LETTER),
        (r"\p{White_Space}+", _SPACE),
    ):
        for match in regex.finditer(expression, text):
            classes[slice(*match.span())] |= bit
    classes[[code for code in codes("UNASSIGNED") if code < _CLASSES]] = 0
    classes.flags.writeable = False
    return classes
