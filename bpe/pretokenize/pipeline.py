"""Segments of prepared text, and the pipeline of pretokenizers that makes them step by step, as `tokenizers` does.

A pipeline gives the pretokens of a text as one buffer of bytes with bounds. It runs in one of two ways: for ids on
strings alone, with the results of short pieces cached; for offsets also with the position that each character comes
from. Both run the steps of `bpe/pretokenize/steps.py` in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import compute_byte_offsets, decode_losslessly, encode_losslessly
from bpe.pretokenize.steps import ByteLevel, Metaspace, Split, Step
from bpe.text.letters import measure_utf8, read_letters, spell_text_in_letters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.text.alignment import AlignedText, Convention
    from bpe.text.matching import Deadline

#: What later steps make of pieces of up to this many characters is cached, in up to this many entries for each step.
_MAX_CACHED_CHARS, _MAX_CACHED_PIECES = 32, 1 << 15
#: The most steps that run by recursion.
_MAX_RECURSIVE_STEPS = 100
#: The time limit for several steps: they take some microseconds for each piece of a text, and more on a busy machine.
_SECONDS_PER_CHARACTER = 1e-4


class PretokenFinder(Protocol):
    """Finds pretokens in prepared text."""

    def spans(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the starts and the ends of the pretokens."""
        ...


class Segment:
    """A special token, or text between special tokens in which the kernel merges pretokens.

    Attributes:
        data: the text, as the kernel takes it; of a special token, the text that it was found as.
        starts: pretoken i is `data[starts[i]:ends[i]]`; None where `bounds` finds them.
        ends: see `starts`.
        token_id: the id of a special token; None for text.
        char_of_byte: for each byte of `data`, the character of the normalized text that it comes from, if that is
            traced and steps of the pretokenizer may have changed it.
        finder: finds the pretokens; None if `data` is one.
        origin: where it comes from, if that is traced.

    """

    starts: NDArray[np.int64] | None = None
    ends: NDArray[np.int64] | None = None
    char_of_byte: NDArray[np.int64] | None = None
    origin: Origin | None = None

    def __init__(self, data: bytes, finder: PretokenFinder | None = None, token_id: int | None = None) -> None:
        self.data, self.finder, self.token_id = data, finder, token_id  # most segments have no other field

    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the starts and the ends of the pretokens."""
        if self.starts is None or self.ends is None:
            if self.finder is not None:
                self.starts, self.ends = self.finder.spans(self.data)
            else:
                bounds = np.array([0, len(self.data)] if self.data else [], dtype=np.int64)
                self.starts, self.ends = bounds[:1], bounds[1:]
        return self.starts, self.ends

    def pretokens(self) -> list[bytes]:
        """List the pretokens."""
        starts, ends = self.bounds()
        return [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def find_char_of_byte(self) -> NDArray[np.int64]:
        """Find the character of the part that each byte of a segment with an origin comes from: its index."""
        if self.char_of_byte is not None:
            return self.char_of_byte
        assert self.origin is not None
        part = self.origin.part if self.token_id is None else decode_losslessly(self.data)
        char_of_byte = np.arange(len(part)).repeat(measure_utf8(part))
        return np.concatenate((np.zeros(self.origin.n_added, dtype=np.int64), char_of_byte))


class Origin:
    """Where a segment comes from.

    Attributes:
        start: where the text between special tokens begins in the whole text, in bytes.
        stretch: that text.
        convention: the rule for the spans of text that the normalizer changed.
        aligned: the normalized text, with the spans of its characters in `stretch`; None if there is no normalizer.
        part: the part of the normalized text that was prepared.
        part_start: where that part begins, in characters.
        n_added: the bytes that were put before it.

    """

    __slots__ = ("aligned", "convention", "n_added", "part", "part_start", "start", "stretch")

    def __init__(
        self,
        start: int,
        stretch: bytes,
        convention: Convention = "whole",
        aligned: AlignedText | None = None,
        part: str = "",
        part_start: int = 0,
        n_added: int = 0,
    ) -> None:
        self.start, self.stretch, self.convention, self.aligned = start, stretch, convention, aligned
        self.part, self.part_start, self.n_added = part, part_start, n_added

    def locate_bytes(self, spans: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the spans of the text that the segment's bytes come from; whole characters with a normalizer."""
        if self.n_added:
            spans = np.maximum(spans - self.n_added, 0)
        if self.aligned is None:
            return spans + self.start if self.start else spans
        bounds = compute_byte_offsets(self.part)
        starts = np.searchsorted(bounds, spans[:, 0], side="right") - 1
        ends = np.searchsorted(bounds, spans[:, 1], side="left")
        starts = np.where(spans[:, 0] < spans[:, 1], starts, ends)
        if self.part_start:
            starts, ends = starts + self.part_start, ends + self.part_start
        return self._locate(*self.aligned.find_hull(starts, ends))

    def locate_characters(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the spans of the text that spans of the part's characters come from."""
        aligned, starts, ends = self.aligned, starts + self.part_start, ends + self.part_start
        if aligned is None:
            return self._locate(starts, ends)
        if self.convention == "whole":
            return self._locate(*aligned.find_hull(starts, ends))
        if not len(aligned.text):
            return np.zeros((0, 2), dtype=np.int64)
        original_starts = aligned.starts[np.minimum(starts, len(aligned.text) - 1)]
        return self._locate(original_starts, np.where(starts < ends, aligned.ends[ends - 1], original_starts))

    def _locate(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        bounds = compute_byte_offsets(decode_losslessly(self.stretch))
        spans = np.stack((bounds[starts], bounds[ends]), axis=1)
        return spans + self.start if self.start else spans


# Running steps --------------------------------------------------------------------------------------------------------


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
        last_index = len(steps) - 1
        self._spells_letters = [isinstance(step, ByteLevel) and i < last_index for i, step in enumerate(steps)]
        #: Whether pieces are spelled in letters after the last step.
        self._ends_in_letters = letters or any(self._spells_letters)
        first_only_steps = [
            i for i, step in enumerate(steps) if isinstance(step, Metaspace) and step.prepend_scheme == "first"
        ]
        #: Whether the pieces depend on where in the original text they begin.
        self.needs_origins = bool(first_only_steps)
        self._first_step_only = first_only_steps in ([], [0])
        self._caches: list[dict[str, tuple[str, ...]]] = [{} for _ in steps]

    # Ids --------------------------------------------------------------------------------------------------------------

    def split(self, text: str, begins_text: bool, origins: NDArray[np.int64] | None = None) -> Segment:
        """Split a text between special tokens into pretokens.

        Args:
            text: the normalized text.
            begins_text: whether it begins where the original text does.
            origins: where in the original each of its characters begins; None if it is not normalized.

        """
        needs_tracing = begins_text and self.needs_origins and not (self._first_step_only and origins is None)
        if needs_tracing or len(self.steps) > _MAX_RECURSIVE_STEPS:
            return self.split_tracing(text, begins_text, origins)
        if not text:
            return _make_segment([], self._ends_in_letters)
        pieces: list[str] = []
        self._run(text, 0, begins_text, self._make_deadline(text), pieces)
        return _make_segment(pieces, self._ends_in_letters)

    def _make_deadline(self, text: str) -> Deadline:
        from bpe.text.matching import BASE_SECONDS, Deadline

        limit = BASE_SECONDS + _SECONDS_PER_CHARACTER * len(text) if self._timeout is None else self._timeout
        return Deadline(limit, len(text))

    def _run(self, text: str, step_index: int, begins_text: bool, deadline: Deadline, all_pieces: list[str]) -> None:
        """Append the pieces of a text, from a step on."""
        if step_index == len(self.steps):
            all_pieces.append(text)
            return
        pieces = self._split_once(text, step_index, begins_text, deadline)
        if step_index + 1 == len(self.steps):
            all_pieces.extend(pieces)
            return
        cache = self._caches[step_index + 1]
        for piece in pieces:
            smaller_pieces = cache.get(piece)
            if smaller_pieces is None:
                new_pieces: list[str] = []
                self._run(piece, step_index + 1, False, deadline, new_pieces)
                smaller_pieces = tuple(new_pieces)
                if len(piece) <= _MAX_CACHED_CHARS:
                    if len(cache) >= _MAX_CACHED_PIECES:
                        cache.clear()
                    cache[piece] = smaller_pieces
            all_pieces.extend(smaller_pieces)

    def _split_once(self, text: str, step_index: int, begins_text: bool, deadline: Deadline) -> list[str]:
        step = self.steps[step_index]
        if isinstance(step, Split):
            return step.split_within(text, deadline)
        pieces = step.pieces(step.edit(text, begins_text)[0])
        return list(map(spell_text_in_letters, pieces)) if self._spells_letters[step_index] else pieces

    # Offsets ----------------------------------------------------------------------------------------------------------

    def split_tracing(self, text: str, begins_text: bool, origins: NDArray[np.int64] | None = None) -> Segment:
        """Split a text into pretokens, with the character that each byte comes from."""
        if not text:
            return _make_segment([], self._ends_in_letters, np.zeros(0, dtype=np.int64))
        deadline = self._make_deadline(text)
        pieces = [(text, np.arange(len(text), dtype=np.int64))]
        for step, spells_letters in zip(self.steps, self._spells_letters, strict=True):
            new_pieces: list[tuple[str, NDArray[np.int64]]] = []
            for piece, sources in pieces:
                position = int(sources[0])
                piece_begins_text = begins_text and (position if origins is None else int(origins[position])) == 0
                edited_text, n_added = step.edit(piece, piece_begins_text)
                if n_added:
                    sources = np.concatenate((np.repeat(sources[:1], n_added), sources))
                spans = (
                    step.find_spans_within(edited_text, deadline)
                    if isinstance(step, Split)
                    else step.spans(edited_text)
                )
                new_pieces += [(edited_text[start:end], sources[start:end]) for start, end in spans]
            if spells_letters:
                new_pieces = [
                    (spell_text_in_letters(piece), sources.repeat(measure_utf8(piece))) for piece, sources in new_pieces
                ]
            pieces = new_pieces
        joined_text = "".join(piece for piece, _ in pieces)
        char_of_byte = np.concatenate([np.zeros(0, dtype=np.int64), *(sources for _, sources in pieces)])
        if not self._ends_in_letters:
            char_of_byte = char_of_byte.repeat(measure_utf8(joined_text))
        return _make_segment([piece for piece, _ in pieces], self._ends_in_letters, char_of_byte)


def _make_segment(pieces: list[str], letters: bool, char_of_byte: NDArray[np.int64] | None = None) -> Segment:
    """Make a segment whose pretokens are these pieces."""
    text = "".join(pieces)
    bounds = compute_offsets(list(map(len, pieces)))
    if letters:
        data = read_letters(text)
    else:
        data = encode_losslessly(text)
        if len(data) != len(text):
            bounds = compute_byte_offsets(text)[bounds]
    segment = Segment(data)
    segment.starts, segment.ends, segment.char_of_byte = bounds[:-1], bounds[1:], char_of_byte
    return segment
