"""Segments: what preparation makes of a text, and where in the text it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from bpe.base.utf8 import byte_offsets, escape
from bpe.text.letters import measure_utf8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.text.alignment import Aligned, Convention


class Splitter(Protocol):
    """Finds pretokens in prepared text."""

    def spans(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The starts and the ends of the pretokens."""
        ...


class Segment:
    """A special token, or text between special tokens in which the kernel merges pretokens.

    Attributes:
        data: the text, as the kernel takes it; of a special token, the text that it was found as.
        starts: pretoken i is `data[starts[i]:ends[i]]`; None where `bounds` finds them.
        ends: see `starts`.
        token_id: the id of a special token; None for text.
        sources: for each byte of `data`, the character of the normalized text that it comes from, if that is traced and
            steps of the pretokenizer may have changed it.
        splitter: finds the pretokens; None if `data` is one.
        origin: where it comes from, if that is traced.

    """

    starts: NDArray[np.int64] | None = None
    ends: NDArray[np.int64] | None = None
    sources: NDArray[np.int64] | None = None
    origin: Origin | None = None

    def __init__(self, data: bytes, splitter: Splitter | None = None, token_id: int | None = None) -> None:
        self.data, self.splitter, self.token_id = data, splitter, token_id  # most segments have no other field

    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The starts and the ends of the pretokens."""
        if self.starts is None or self.ends is None:
            if self.splitter is not None:
                self.starts, self.ends = self.splitter.spans(self.data)
            else:
                whole = np.array([0, len(self.data)] if self.data else [], dtype=np.int64)
                self.starts, self.ends = whole[:1], whole[1:]
        return self.starts, self.ends

    def pretokens(self) -> list[bytes]:
        """The pretokens."""
        starts, ends = self.bounds()
        return [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def find_sources(self) -> NDArray[np.int64]:
        """For each byte of a segment with an origin, the index of the character of its part that it comes from."""
        if self.sources is not None:
            return self.sources
        assert self.origin is not None
        part = self.origin.part if self.token_id is None else escape(self.data)
        sources = np.arange(len(part)).repeat(measure_utf8(part))
        return np.concatenate((np.zeros(self.origin.n_added, dtype=np.int64), sources))


class Origin:
    """Where a segment comes from.

    Attributes:
        start: where the text between special tokens begins in the whole text, in bytes.
        piece: that text.
        convention: the rule for the spans of text that the normalizer changed.
        aligned: the normalized text, with the spans of its characters in `piece`; None if there is no normalizer.
        part: the part of the normalized text that was prepared.
        part_start: where that part begins, in characters.
        n_added: the bytes that were put before it.

    """

    __slots__ = ("aligned", "convention", "n_added", "part", "part_start", "piece", "start")

    def __init__(
        self,
        start: int,
        piece: bytes,
        convention: Convention = "whole",
        aligned: Aligned | None = None,
        part: str = "",
        part_start: int = 0,
        n_added: int = 0,
    ) -> None:
        self.start, self.piece, self.convention, self.aligned = start, piece, convention, aligned
        self.part, self.part_start, self.n_added = part, part_start, n_added

    def locate_bytes(self, spans: NDArray[np.int64]) -> NDArray[np.int64]:
        """The spans of the text that spans of the segment's bytes come from; whole characters with a normalizer."""
        if self.n_added:
            spans = np.maximum(spans - self.n_added, 0)
        if self.aligned is None:
            return spans + self.start if self.start else spans
        bounds = byte_offsets(self.part)
        first = np.searchsorted(bounds, spans[:, 0], side="right") - 1
        end = np.searchsorted(bounds, spans[:, 1], side="left")
        first = np.where(spans[:, 0] < spans[:, 1], first, end)
        if self.part_start:
            first, end = first + self.part_start, end + self.part_start
        return self._locate(*self.aligned.find_hull(first, end))

    def locate_characters(self, first: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        """The spans of the text that spans of the part's characters come from."""
        aligned, first, end = self.aligned, first + self.part_start, end + self.part_start
        if aligned is None:
            return self._locate(first, end)
        if self.convention == "whole":
            return self._locate(*aligned.find_hull(first, end))
        if not len(aligned.text):
            return np.zeros((0, 2), dtype=np.int64)
        starts = aligned.starts[np.minimum(first, len(aligned.text) - 1)]
        return self._locate(starts, np.where(first < end, aligned.ends[end - 1], starts))

    def _locate(self, first: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        bounds = byte_offsets(escape(self.piece))
        found = np.stack((bounds[first], bounds[end]), axis=1)
        return found + self.start if self.start else found
