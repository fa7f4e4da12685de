"""Running the steps of a pipeline of pretokenizers, with the pretokens that `tokenizers` gives.

Text in, pretokens out, as one buffer of bytes with bounds. A pipeline runs in one of two ways: for ids on strings
alone, with the results of short pieces cached; for offsets also with the position that each character comes from. Both
run the steps of `bpe/pretokenize/steps.py` in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.base.offsets import offsets_of
from bpe.base.utf8 import byte_offsets, unescape
from bpe.pretokenize.segments import Segment
from bpe.pretokenize.steps import ByteLevel, Metaspace, Split, Step
from bpe.text.letters import from_letters, measure_utf8, to_letters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.text.matching import Deadline

#: What later steps make of pieces of up to this many characters is cached, in up to this many entries for each step.
_SHORT, _MOST_CACHED = 32, 1 << 15
#: The most steps that run by recursion.
_MOST_RECURSIVE = 100
#: The time limit for several steps: they take some microseconds for each piece of a text, and more on a busy machine.
_SECONDS_PER_CHARACTER = 1e-4


class Pipeline:
    """Some steps, and whether the text is spelled in GPT-2's letters.

    Args:
        steps: the steps, in order.
        letters: whether the text is spelled in letters before the first step (by a normalizer).
        timeout: the time limit in seconds for matching patterns on one text; None for the default.

    """

    def __init__(self, steps: tuple[Step, ...], letters: bool = False, timeout: float | None = None) -> None:
        self.steps = steps
        self._timeout = timeout
        #: Which steps spell the text in letters. A ByteLevel at the end need not: bytes come out either way.
        last = len(steps) - 1
        self._spells = [isinstance(step, ByteLevel) and i < last for i, step in enumerate(steps)]
        #: Whether pieces are spelled in letters after the last step.
        self._letters = letters or any(self._spells)
        firsts = [i for i, step in enumerate(steps) if isinstance(step, Metaspace) and step.prepend_scheme == "first"]
        #: Whether the pieces depend on where in the original text they begin.
        self.needs_origins = bool(firsts)
        self._first_step_only = firsts in ([], [0])
        self._cached: list[dict[str, tuple[str, ...]]] = [{} for _ in steps]

    # Ids --------------------------------------------------------------------------------------------------------------

    def split(self, text: str, first: bool, origins: NDArray[np.int64] | None = None) -> Segment:
        """The pretokens of a text between special tokens.

        Args:
            text: the normalized text.
            first: whether it begins where the original text does.
            origins: where in the original each of its characters begins; None if it is not normalized.

        """
        traces = first and self.needs_origins and not (self._first_step_only and origins is None)
        if traces or len(self.steps) > _MOST_RECURSIVE:
            return self.split_tracing(text, first, origins)
        if not text:
            return _join([], self._letters)
        found: list[str] = []
        self._run(text, 0, first, self._deadline(text), found)
        return _join(found, self._letters)

    def _deadline(self, text: str) -> Deadline:
        from bpe.text.matching import SECONDS, Deadline

        limit = SECONDS + _SECONDS_PER_CHARACTER * len(text) if self._timeout is None else self._timeout
        return Deadline(limit, len(text))

    def _run(self, text: str, level: int, first: bool, deadline: Deadline, found: list[str]) -> None:
        """Append the pieces of a text, from a step on."""
        if level == len(self.steps):
            found.append(text)
            return
        pieces = self._cut(text, level, first, deadline)
        if level + 1 == len(self.steps):
            found.extend(pieces)
            return
        cached = self._cached[level + 1]
        for piece in pieces:
            known = cached.get(piece)
            if known is None:
                inner: list[str] = []
                self._run(piece, level + 1, False, deadline, inner)
                known = tuple(inner)
                if len(piece) <= _SHORT:
                    if len(cached) >= _MOST_CACHED:
                        cached.clear()
                    cached[piece] = known
            found.extend(known)

    def _cut(self, text: str, level: int, first: bool, deadline: Deadline) -> list[str]:
        step = self.steps[level]
        if isinstance(step, Split):
            return step.split_within(text, deadline)
        pieces = step.pieces(step.edit(text, first)[0])
        return list(map(to_letters, pieces)) if self._spells[level] else pieces

    # Offsets ----------------------------------------------------------------------------------------------------------

    def split_tracing(self, text: str, first: bool, origins: NDArray[np.int64] | None = None) -> Segment:
        """The pretokens of a text, with the character that each byte comes from."""
        if not text:
            return _join([], self._letters, np.zeros(0, dtype=np.int64))
        deadline = self._deadline(text)
        pieces = [(text, np.arange(len(text), dtype=np.int64))]
        for step, spells in zip(self.steps, self._spells, strict=True):
            cut: list[tuple[str, NDArray[np.int64]]] = []
            for piece, sources in pieces:
                at = int(sources[0])
                here = first and (at if origins is None else int(origins[at])) == 0
                changed, added = step.edit(piece, here)
                if added:
                    sources = np.concatenate((np.repeat(sources[:1], added), sources))
                spans = step.find_spans_within(changed, deadline) if isinstance(step, Split) else step.spans(changed)
                cut += [(changed[start:end], sources[start:end]) for start, end in spans]
            if spells:
                cut = [(to_letters(piece), sources.repeat(measure_utf8(piece))) for piece, sources in cut]
            pieces = cut
        joined = "".join(piece for piece, _ in pieces)
        found = np.concatenate([np.zeros(0, dtype=np.int64), *(sources for _, sources in pieces)])
        if not self._letters:
            found = found.repeat(measure_utf8(joined))
        return _join([piece for piece, _ in pieces], self._letters, found)


def _join(pieces: list[str], letters: bool, sources: NDArray[np.int64] | None = None) -> Segment:
    """The pretokens that are these pieces."""
    text = "".join(pieces)
    bounds = offsets_of(list(map(len, pieces)))
    if letters:
        data = from_letters(text)
    else:
        data = unescape(text)
        if len(data) != len(text):
            bounds = byte_offsets(text)[bounds]
    segment = Segment(data)
    segment.starts, segment.ends, segment.sources = bounds[:-1], bounds[1:], sources
    return segment
