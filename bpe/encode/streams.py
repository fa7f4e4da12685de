"""Encoding a stream of chunks in bounded memory, with the ids of the joined text.

The text passes through three stages, and each holds back what may depend on later text. Special tokens are found; the
text between them is normalized, step by step; and it is encoded up to the last safe split point
(`bpe/pretokenize/_safe_points.pyx`, `bpe/encode/_split_filter.pyx`). Memory holds one chunk and the longest text
between two safe split points: a word, or a run of digits, punctuation or white space; ideographs and Hangul are split
inside words too. A pretokenizer without a scanner needs all text between two special tokens at once, unless the caller
names a string to cut after.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import Bytes, TextLike, check_utf8, encode_losslessly, to_bytes
from bpe.encode.engine import Engine
from bpe.errors import check_unicode, describe, short_repr
from bpe.pretokenize.pipeline import Segment
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, get_scanner
from bpe.text.normalizers import Normalizer, Strip

#: The number of bytes that are gathered before they are encoded.
MIN_BUFFERED_BYTES = 1 << 18
_DECODER = codecs.getincrementaldecoder("utf-8")


def encode_stream(
    engine: Engine,
    chunks: Iterable[TextLike],
    allowed: frozenset[str],
    disallowed: frozenset[str],
    cut_after: str | None = None,
    min_bytes: int | None = None,
) -> Iterator[NDArray[np.uint32]]:
    """Encode the joined chunks; yields arrays that are not empty. The first ones need `min_bytes` of text, if given.

    Raises:
        TypeError: for a single text instead of chunks, or a chunk that is not a text; for a `cut_after` that is not a
            str.
        ValueError: for a `cut_after` that is empty or has surrogates; as `Tokenizer.encode`, when the invalid text is
            reached.

    """
    if isinstance(chunks, (str, bytes, bytearray, memoryview)) or not isinstance(chunks, Iterable):
        raise TypeError(f"chunks is {describe(chunks)}; it must be an iterable of str or bytes")
    if cut_after is not None and (not isinstance(cut_after, str) or not cut_after):
        raise (ValueError if cut_after == "" else TypeError)(
            f"cut_after is {short_repr(cut_after)}; it must be a str that is not empty, such as a newline, or None"
        )
    if cut_after is not None:
        check_unicode("cut_after", cut_after)
    stream = _SpecialsStream(engine, allowed, cut_after)
    stream.min_bytes = stream.min_bytes if min_bytes is None else min_bytes
    return _encode_parts(stream, engine, chunks, disallowed)


def _encode_parts(
    stream: _SpecialsStream, engine: Engine, chunks: Iterable[TextLike], disallowed: frozenset[str]
) -> Iterator[NDArray[np.uint32]]:
    max_name_bytes = engine.specials.measure_longest(disallowed)
    n_bytes = 0
    tail = b""  # the end of the text so far, where a disallowed token may begin
    parts = _as_bytes(chunks)
    for data in _check_parts(parts) if engine.spec.model == "char" else parts:
        if disallowed:
            data_with_tail = tail + data
            engine.specials.refuse(data_with_tail, disallowed, n_bytes - len(tail))
            n_bytes += len(data)
            tail = data_with_tail[max(len(data_with_tail) - max_name_bytes + 1, 0) :]
        stream.data += data
        if len(stream.data) >= stream.min_bytes:
            yield from stream.take(final=False)
    yield from stream.take(final=True)


def _as_bytes(chunks: Iterable[TextLike]) -> Iterator[bytes]:
    """Convert chunks to UTF-8. A surrogate pair that two chunks divide is joined."""
    high_surrogate = ""
    for chunk in chunks:
        if isinstance(chunk, str):
            text = high_surrogate + chunk
            high_surrogate = text[-1] if text and 0xD800 <= ord(text[-1]) <= 0xDBFF else ""
            yield to_bytes(text[: len(text) - len(high_surrogate)])
        else:
            yield to_bytes(high_surrogate) + to_bytes(chunk)
            high_surrogate = ""
    yield to_bytes(high_surrogate)


def _check_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Pass the parts of a text on, and raise ValueError if they are not UTF-8."""
    decoder, n_bytes = _DECODER(), 0
    for data in parts:
        incomplete = decoder.getstate()[0]
        try:
            decoder.decode(data)
        except UnicodeDecodeError:
            check_utf8(incomplete + data, offset=n_bytes - len(incomplete))
        n_bytes += len(data)
        yield data
    incomplete = decoder.getstate()[0]
    check_utf8(incomplete, offset=n_bytes - len(incomplete))


class _SpecialsStream:
    """Text whose special tokens have not been found yet; one may begin at its end."""

    def __init__(self, engine: Engine, allowed: frozenset[str], cut_after: str | None) -> None:
        self.data = bytearray()
        self.min_bytes = MIN_BUFFERED_BYTES  # call `take` when there are this many bytes
        self._engine, self._allowed = engine, allowed
        #: Whether the whole text is needed: special tokens depend on the text beside them or are found in normalized
        #: text, or the pretokenizer is made of steps.
        is_pipeline = isinstance(engine.spec.pretokenizer, PipelinePretokenizer)
        self._needs_all = is_pipeline or not engine.specials.one_search_suffices(allowed)
        self._specials = engine.specials
        self._longest = engine.specials.measure_longest(allowed)
        self._segment = _SegmentStream(engine, cut_after)

    def take(self, final: bool) -> Iterator[NDArray[np.uint32]]:
        """Encode as much as can be encoded whatever text follows; everything, if the text ends here."""
        if self._needs_all:
            self.min_bytes = sys.maxsize
            if final and len(ids := self._engine.encode(bytes(self.data), self._allowed)):
                yield ids
            return
        text_start = 0
        for start, end, name in self._specials.find(self.data, self._allowed):
            if not final and start + self._longest > len(self.data):
                break
            yield from self._segment.push(bytes(self.data[text_start:start]), final=True)
            yield np.array([self._specials.ids[name]], dtype=np.uint32)
            text_start = end
        limit = len(self.data) if final else max(text_start, len(self.data) - self._longest + 1)
        yield from self._segment.push(bytes(self.data[text_start:limit]), final)
        del self.data[:limit]
        self.min_bytes = max(MIN_BUFFERED_BYTES, self._segment.n_held)


class _SegmentStream:
    """The text between two special tokens: normalizes it, finds split points and encodes it."""

    def __init__(self, engine: Engine, cut_after: str | None) -> None:
        spec = engine.spec
        self._engine = engine
        self._scanner = get_scanner(spec.pretokenizer)
        self._pretokenizer = spec.pretokenizer
        self._cut_after = None if cut_after is None else cut_after.encode()
        self._normalizer_stream = None if spec.normalizer is None else NormalizerStream(spec.normalizer, cut_after)
        self._begin()

    def _begin(self) -> None:
        self._data = bytearray()  # normalized, not encoded yet
        self._search_start = 0  # there is no split point up to here
        self._has_text = False
        self._decoder = _DECODER("surrogateescape")

    @property
    def n_held(self) -> int:
        """The number of bytes, or characters, that are held back."""
        return len(self._data) + (0 if self._normalizer_stream is None else self._normalizer_stream.n_held)

    def push(self, data: Bytes, final: bool) -> Iterator[NDArray[np.uint32]]:
        """Add text, and encode what is final; everything, if a special token or the end of the text follows."""
        if self._normalizer_stream is not None:
            data = encode_losslessly(self._normalizer_stream.push(self._decoder.decode(data, final), final))
        if len(data) and not self._has_text:
            self._has_text = True
            data = data if self._pretokenizer is None else self._pretokenizer.edit_for_scanner(data)
        self._data += data
        split_point = len(self._data) if final else self._find_split()
        yield from self._encode(bytes(self._data[:split_point]))
        del self._data[:split_point]
        self._search_start = max(len(self._data) - 4, 0)  # the last character may be incomplete
        if final:
            self._begin()

    def _find_split(self) -> int:
        """Find the last position where the text may be cut whatever follows it; 0 if there is none."""
        if self._scanner is not None:
            split_point = self._engine.find_last_split(memoryview(self._data), self._search_start)
            return split_point if split_point > self._search_start else 0
        if self._cut_after is None:
            return 0
        index = self._data.rfind(self._cut_after, max(self._search_start - len(self._cut_after), 0))
        return index + len(self._cut_after) if index >= 0 else 0

    def _encode(self, data: bytes) -> Iterator[NDArray[np.uint32]]:
        if data and len(ids := self._engine.encode_segment(Segment(data, finder=self._pretokenizer))):
            yield ids


# Normalization --------------------------------------------------------------------------------------------------------


class NormalizerStream:
    """A normalizer as a chain of incremental steps. It can be used for one text after another.

    Args:
        normalizer: the normalizer.
        cut_after: a string after which every step may split the text; None: only at the steps' own split points.

    >>> from bpe.text.normalizers import NFC, Sequence, Strip
    >>> steps = NormalizerStream(Sequence(NFC(), Strip()))
    >>> [steps.push(" e", False), steps.push("\\u0301x ", False), steps.push(" ", True)]
    ['', 'éx', '']
    """

    def __init__(self, normalizer: Normalizer, cut_after: str | None = None) -> None:
        steps = normalizer.flat_steps()
        self._steps = [
            _StripStream(step) if isinstance(step, Strip) else _StepStream(step, cut_after) for step in steps
        ]
        self._is_empty = True

    @property
    def n_held(self) -> int:
        """The number of characters held back."""
        return sum(len(step.held_text) for step in self._steps)

    def push(self, text: str, final: bool) -> str:
        """Add a chunk; return the normalized text that no later chunk can change. `final` marks the last chunk."""
        self._is_empty = self._is_empty and not text
        if final and self._is_empty:
            return ""  # an empty text is not normalized
        for step in self._steps:
            text = step.push(text, final)
        self._is_empty = self._is_empty or final
        return text


class _StepStream:
    """A normalizer applied to a text in parts, split where `find_last_split` allows it."""

    def __init__(self, normalizer: Normalizer, cut_after: str | None) -> None:
        self.held_text = ""
        self._normalizer = normalizer
        self._cut_after = cut_after
        self._search_start = 0  # no split point at or before this position of the held text
        self._holds_all_text = True  # all of the text so far is held

    def push(self, text: str, final: bool) -> str:
        self.held_text += text
        split_point = len(self.held_text) if final else self._find_split()
        final_text, self.held_text = self.held_text[:split_point], self.held_text[split_point:]
        self._search_start = max(len(self.held_text) - 1, 0)
        result = self._normalizer(final_text) if final_text or (final and self._holds_all_text) else ""
        self._holds_all_text = final or (self._holds_all_text and not final_text)
        return result

    def _find_split(self) -> int:
        split_point = self._normalizer.find_last_split(self.held_text, self._search_start)
        if self._cut_after is not None:
            index = self.held_text.rfind(self._cut_after, max(self._search_start - len(self._cut_after), 0))
            split_point = max(split_point, index + len(self._cut_after) if index >= 0 else 0)
        return split_point


class _StripStream:
    """`Strip` applied to a text in parts: white space is held back until other text follows it."""

    def __init__(self, strip: Strip) -> None:
        self.held_text = ""
        self._strip_left = Strip(left=strip.left, right=False)
        self._strip_right = Strip(left=False, right=True)
        self._strip_end = Strip(left=False, right=strip.right)
        self._has_text = False

    def push(self, text: str, final: bool) -> str:
        if not self._has_text:
            text = self._strip_left(self.held_text + text)
            self.held_text = ""
        text = self.held_text + text
        final_text = (self._strip_end if final else self._strip_right)(text)
        self.held_text = "" if final else text[len(final_text) :]
        self._has_text = not final and (self._has_text or bool(final_text))
        return final_text
