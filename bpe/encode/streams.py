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

from bpe.base.utf8 import Bytes, TextLike, check_utf8, to_bytes, unescape
from bpe.encode.engine import Engine
from bpe.errors import check_unicode, describe, short_repr
from bpe.pretokenize.pipeline import Segment
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, scanner_of
from bpe.text.normalizers import Normalizer, Strip

#: The number of bytes that are gathered before they are encoded.
PIECE = 1 << 18
_DECODER = codecs.getincrementaldecoder("utf-8")


def encode_stream(
    engine: Engine,
    chunks: Iterable[TextLike],
    allowed: frozenset[str],
    disallowed: frozenset[str],
    cut_after: str | None = None,
) -> Iterator[NDArray[np.uint32]]:
    """The ids of the joined chunks, as arrays that are not empty.

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
    return _encode_parts(engine, chunks, allowed, disallowed, cut_after)


def _encode_parts(
    engine: Engine,
    chunks: Iterable[TextLike],
    allowed: frozenset[str],
    disallowed: frozenset[str],
    cut_after: str | None,
) -> Iterator[NDArray[np.uint32]]:
    waiting = _SpecialsStream(engine, allowed, cut_after)
    longest = engine.specials.measure_longest(disallowed)
    came = 0
    before = b""  # the end of the text so far, where a disallowed token may begin
    parts = _as_bytes(chunks)
    for data in _check_parts(parts) if engine.spec.model == "char" else parts:
        if disallowed:
            seen = before + data
            engine.specials.refuse(seen, disallowed, came - len(before))
            came += len(data)
            before = seen[max(len(seen) - longest + 1, 0) :]
        waiting.data += data
        if len(waiting.data) >= waiting.enough:
            yield from waiting.take(final=False)
    yield from waiting.take(final=True)


def _as_bytes(chunks: Iterable[TextLike]) -> Iterator[bytes]:
    """The chunks as UTF-8. A surrogate pair that two chunks divide is joined."""
    half = ""
    for chunk in chunks:
        if isinstance(chunk, str):
            text = half + chunk
            half = text[-1] if text and 0xD800 <= ord(text[-1]) <= 0xDBFF else ""
            yield to_bytes(text[: len(text) - len(half)])
        else:
            yield to_bytes(half) + to_bytes(chunk)
            half = ""
    yield to_bytes(half)


def _check_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Pass the parts of a text on, and raise ValueError if they are not UTF-8."""
    decoder, came = _DECODER(), 0
    for data in parts:
        incomplete = decoder.getstate()[0]
        try:
            decoder.decode(data)
        except UnicodeDecodeError:
            check_utf8(incomplete + data, offset=came - len(incomplete))
        came += len(data)
        yield data
    incomplete = decoder.getstate()[0]
    check_utf8(incomplete, offset=came - len(incomplete))


class _SpecialsStream:
    """Text whose special tokens have not been found yet; one may begin at its end."""

    def __init__(self, engine: Engine, allowed: frozenset[str], cut_after: str | None) -> None:
        self.data = bytearray()
        self.enough = PIECE  # call `take` when there are this many bytes
        self._engine, self._allowed = engine, allowed
        #: Whether the whole text is needed: special tokens depend on the text beside them or are found in normalized
        #: text, or the pretokenizer is made of steps.
        steps = isinstance(engine.spec.pretokenizer, PipelinePretokenizer)
        self._whole = steps or not engine.specials.need_one_search(allowed)
        self._specials = engine.specials
        self._longest = engine.specials.measure_longest(allowed)
        self._segment = _SegmentStream(engine, cut_after)

    def take(self, final: bool) -> Iterator[NDArray[np.uint32]]:
        """The ids of as much as can be encoded whatever text follows; of everything, if the text ends here."""
        if self._whole:
            self.enough = sys.maxsize
            if final and len(ids := self._engine.encode(bytes(self.data), self._allowed)):
                yield ids
            return
        done = 0
        for start, end, name in self._specials.find(self.data, self._allowed) if self._allowed else ():
            if not final and start + self._longest > len(self.data):
                break
            yield from self._segment.push(bytes(self.data[done:start]), final=True)
            yield np.array([self._specials.ids[name]], dtype=np.uint32)
            done = end
        limit = len(self.data) if final else max(done, len(self.data) - self._longest + 1)
        yield from self._segment.push(bytes(self.data[done:limit]), final)
        del self.data[:limit]
        self.enough = max(PIECE, self._segment.held)


class _SegmentStream:
    """The text between two special tokens: normalizes it, finds split points and encodes it."""

    def __init__(self, engine: Engine, cut_after: str | None) -> None:
        spec = engine.spec
        self._engine = engine
        self._scanner = scanner_of(spec.pretokenizer)
        self._pretokenizer = spec.pretokenizer
        self._cut_after = None if cut_after is None else cut_after.encode()
        self._normalizing = None if spec.normalizer is None else StreamNormalizer(spec.normalizer, cut_after)
        self._begin()

    def _begin(self) -> None:
        self._data = bytearray()  # normalized, not encoded yet
        self._searched = 0  # there is no split point up to here
        self._started = False
        self._decoder = _DECODER("surrogateescape")

    @property
    def held(self) -> int:
        """The number of bytes, or characters, that are held back."""
        return len(self._data) + (0 if self._normalizing is None else self._normalizing.held)

    def push(self, data: Bytes, final: bool) -> Iterator[NDArray[np.uint32]]:
        """The ids of what can be encoded now; of everything, if a special token or the end of the text follows."""
        if self._normalizing is not None:
            data = unescape(self._normalizing.push(self._decoder.decode(data, final), final))
        if len(data) and not self._started:
            self._started = True
            data = data if self._pretokenizer is None else self._pretokenizer.put_prefix(data)
        self._data += data
        cut = len(self._data) if final else self._find_split()
        yield from self._encode(bytes(self._data[:cut]))
        del self._data[:cut]
        self._searched = max(len(self._data) - 4, 0)  # the last character may be incomplete
        if final:
            self._begin()

    def _find_split(self) -> int:
        """The last position where the text may be cut whatever follows it; 0 if there is none."""
        if self._scanner is not None:
            cut = self._engine.find_last_split(memoryview(self._data), self._searched)
            return cut if cut > self._searched else 0
        if self._cut_after is None:
            return 0
        found = self._data.rfind(self._cut_after, max(self._searched - len(self._cut_after), 0))
        return found + len(self._cut_after) if found >= 0 else 0

    def _encode(self, data: bytes) -> Iterator[NDArray[np.uint32]]:
        if data and len(ids := self._engine.encode_segment(Segment(data, splitter=self._pretokenizer))):
            yield ids


# Normalization --------------------------------------------------------------------------------------------------------


class StreamNormalizer:
    """A normalizer as a chain of incremental steps. It can be used for one text after another.

    Args:
        normalizer: the normalizer.
        cut_after: a string after which every step may split the text; None: only at the steps' own split points.

    >>> from bpe.text.normalizers import NFC, Sequence, Strip
    >>> steps = StreamNormalizer(Sequence(NFC(), Strip()))
    >>> [steps.push(" e", False), steps.push("\\u0301x ", False), steps.push(" ", True)]
    ['', 'éx', '']
    """

    def __init__(self, normalizer: Normalizer, cut_after: str | None = None) -> None:
        steps = normalizer.flat_steps()
        self._steps = [
            _StripNormalizerStream(one) if isinstance(one, Strip) else _StepStream(one, cut_after) for one in steps
        ]
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


class _StepStream:
    """A normalizer applied to a text in parts, split where `find_last_split` allows it."""

    def __init__(self, normalizer: Normalizer, cut_after: str | None) -> None:
        self.held = ""
        self._normalizer = normalizer
        self._cut_after = cut_after
        self._searched = 0  # no split point at or before this position of the held text
        self._nothing_passed = True  # all of the text so far is held

    def push(self, text: str, final: bool) -> str:
        self.held += text
        cut = len(self.held) if final else self._find_split()
        ready, self.held = self.held[:cut], self.held[cut:]
        self._searched = max(len(self.held) - 1, 0)
        result = self._normalizer(ready) if ready or (final and self._nothing_passed) else ""
        self._nothing_passed = final or (self._nothing_passed and not ready)
        return result

    def _find_split(self) -> int:
        cut = self._normalizer.find_last_split(self.held, self._searched)
        if self._cut_after is not None:
            found = self.held.rfind(self._cut_after, max(self._searched - len(self._cut_after), 0))
            cut = max(cut, found + len(self._cut_after) if found >= 0 else 0)
        return cut


class _StripNormalizerStream:
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
