"""Normalization of a text that arrives in chunks, with the same result as for the whole text.

Each step of a normalizer holds back text whose result depends on what follows, so memory is bounded where the
normalizer allows it.
"""

from __future__ import annotations

from bpe.text.normalizers import Normalizer, Sequence, Strip


class Normalizing:
    """A normalizer as a chain of incremental steps. It can be used for one text after another.

    Args:
        normalizer: the normalizer.
        cut_after: a string after which every step may split the text; None: only at the steps' own split points.

    >>> from bpe.text.normalizers import NFC, Strip
    >>> steps = Normalizing(Sequence(NFC(), Strip()))
    >>> [steps.push(" e", False), steps.push("\\u0301x ", False), steps.push(" ", True)]
    ['', 'éx', '']
    """

    def __init__(self, normalizer: Normalizer, cut_after: str | None = None) -> None:
        self._steps = [_Stripping(one) if isinstance(one, Strip) else _Step(one, cut_after) for one in flat(normalizer)]
        self._empty = True

    @property
    def held(self) -> int:
        """The number of characters held back."""
        return sum(len(step.held) for step in self._steps)

    def push(self, text: str, final: bool) -> str:
        """Add a chunk; return the normalized text that no later chunk can change. `final` marks the last chunk."""
        self._empty = self._empty and not text
        if final and self._empty:
            return ""  # an empty text is not normalized
        for step in self._steps:
            text = step.push(text, final)
        self._empty = self._empty or final
        return text


def flat(normalizer: Normalizer) -> list[Normalizer]:
    """The steps of a normalizer, with nested sequences expanded."""
    if not isinstance(normalizer, Sequence):
        return [normalizer]
    return [step for one in normalizer.normalizers for step in flat(one)]


class _Step:
    """A normalizer applied to a text in parts, split where `last_cut` allows it."""

    def __init__(self, normalizer: Normalizer, cut_after: str | None) -> None:
        self.held = ""
        self._normalizer = normalizer
        self._cut_after = cut_after
        self._searched = 0  # no split point at or before this position of the held text
        self._nothing_passed = True  # all of the text so far is held

    def push(self, text: str, final: bool) -> str:
        self.held += text
        cut = len(self.held) if final else self._cut()
        ready, self.held = self.held[:cut], self.held[cut:]
        self._searched = max(len(self.held) - 1, 0)
        result = self._normalizer(ready) if ready or (final and self._nothing_passed) else ""
        self._nothing_passed = final or (self._nothing_passed and not ready)
        return result

    def _cut(self) -> int:
        cut = self._normalizer.last_cut(self.held, self._searched)
        if self._cut_after is not None:
            found = self.held.rfind(self._cut_after, max(self._searched - len(self._cut_after), 0))
            cut = max(cut, found + len(self._cut_after) if found >= 0 else 0)
        return cut


class _Stripping:
    """`Strip` applied to a text in parts: white space is held back until other text follows it."""

    def __init__(self, strip: Strip) -> None:
        self.held = ""
        self._left = Strip(left=strip.left, right=False)
        self._right = Strip(left=False, right=True)
        self._at_end = Strip(left=False, right=strip.right)
        self._begun = False

    def push(self, text: str, final: bool) -> str:
        if not self._begun:
            text = self._left(self.held + text)
            self.held = ""
        text = self.held + text
        ready = (self._at_end if final else self._right)(text)
        self.held = "" if final else text[len(ready) :]
        self._begun = not final and (self._begun or bool(ready))
        return ready
