"""Normalizing a text that comes in chunks, with the result for the whole text, in bounded memory where possible.

Each step of a normalizer keeps back text that could still be changed by what follows it. Not here: what the normalizers
do, and where they let a text be cut (`bpe/text/normalizers.py`).
"""

from __future__ import annotations

from bpe.text.normalizers import Normalizer, Sequence, Strip


class Normalizing:
    """A normalizer as a chain of steps, for one text after another.

    Args:
        normalizer: what to do.
        cut_after: a text after which any step may cut; None: only where a step knows that it may.

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
        """How many characters wait for more."""
        return sum(len(step.held) for step in self._steps)

    def push(self, text: str, final: bool) -> str:
        """What can be said of the text that has come; with `final`, all of it, and then another text begins."""
        self._empty = self._empty and not text
        if final and self._empty:
            return ""  # nothing is done to a text that is empty
        for step in self._steps:
            text = step.push(text, final)
        self._empty = self._empty or final
        return text


def flat(normalizer: Normalizer) -> list[Normalizer]:
    """The steps of a normalizer, which are no sequences."""
    if not isinstance(normalizer, Sequence):
        return [normalizer]
    return [step for one in normalizer.normalizers for step in flat(one)]


class _Step:
    """A normalizer that is given parts of a text."""

    def __init__(self, normalizer: Normalizer, cut_after: str | None) -> None:
        self.held = ""
        self._normalizer = normalizer
        self._cut_after = cut_after
        self._tried = 0  # no place to cut at or before this
        self._whole = True  # all of the text so far is held

    def push(self, text: str, final: bool) -> str:
        self.held += text
        cut = len(self.held) if final else self._cut()
        ready, self.held = self.held[:cut], self.held[cut:]
        self._tried = max(len(self.held) - 1, 0)
        made = self._normalizer(ready) if ready or (final and self._whole) else ""
        self._whole = final or (self._whole and not ready)
        return made

    def _cut(self) -> int:
        cut = self._normalizer.last_cut(self.held, self._tried)
        if self._cut_after is not None:
            place = self.held.rfind(self._cut_after, max(self._tried - len(self._cut_after), 0))
            cut = max(cut, place + len(self._cut_after) if place >= 0 else 0)
        return cut


class _Stripping:
    """`Strip` of a text as a whole: white space is kept back until something follows it."""

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
