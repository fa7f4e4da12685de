"""The units of superword pretokenizers that the kernel finds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpe.pretokenize.patterns import NUMBERS, UNDIVIDED, UNIT_PATTERNS
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import DIGIT_GROUPS, ByteLevel, Digits, Split
from bpe.text.character_sets import DIGIT, N_CLASSES, NUMBER, codes, find_character_classes

#: The steps of published files, and another spelling of the same pattern.
_STEPS = (Digits(), Split(DIGIT_GROUPS), ByteLevel(use_regex=False))
_STEPS_AS_PATTERN = r"[^\p{N}]+|\p{N}(?:(?!(?:\d{3})+(?!\d))\p{N})*"


class Units(NamedTuple):
    """How the kernel divides a text: UNDIVIDED, NUMBERS or SIGNS, and the classes of characters (uint8) or None."""

    kind: int
    classes: NDArray[np.uint8] | None


def find_units(pretokenizer: Pretokenizer | None) -> Units | None:
    """Find the units that a pretokenizer divides a text into; None if the kernel does not find them.

    >>> find_units(None)
    Units(kind=0, classes=None)
    >>> find_units(Pretokenizer("gpt2")) is None
    True

    """
    if pretokenizer is None:
        return Units(UNDIVIDED, None)
    if isinstance(pretokenizer, PipelinePretokenizer):
        if pretokenizer.steps != _STEPS or pretokenizer.letters:
            return None
        is_number = np.zeros(N_CLASSES, dtype=np.uint8)
        is_number[[code for code in codes("NUMERIC") if code < N_CLASSES]] = NUMBER
        classes = is_number | (find_character_classes() & np.uint8(DIGIT))
        return Units(NUMBERS, classes) if np.all(classes[classes & DIGIT > 0] & NUMBER) else None
    if pretokenizer.add_prefix_space:
        return None
    pattern = pretokenizer.pattern
    if pattern == _STEPS_AS_PATTERN:
        return Units(NUMBERS, find_character_classes())
    if pattern in UNIT_PATTERNS and pretokenizer.gaps == "keep":
        return Units(UNIT_PATTERNS[pattern], find_character_classes())
    return None


def is_number(units: Units, char: str) -> bool:
    """Whether a character is a number to a pretokenizer that divides text at numbers."""
    code = ord(char)
    return units.classes is not None and code < N_CLASSES and bool(units.classes[code] & NUMBER)
