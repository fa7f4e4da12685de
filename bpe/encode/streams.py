"""Encoding a text that comes in chunks, in bounded memory, to the ids of the whole text.

The text goes through three steps, and each keeps back what may depend on text to come. Special tokens are found; the
text between them is normalized (`bpe/text/streaming.py`); that is encoded up to the last place where it may be cut
(`bpe/pretokenize/_safe_points.pyx`, `bpe/encode/_split_filter.pyx`). The memory needed is that of a chunk and of the
longest stretch without such
a place: a word, but for ideographs and Hangul, or a run of anything but letters. A pretokenizer without a scanner
needs each stretch between special tokens as a whole, which is the whole text if there are none, unless the
caller says where it may be cut.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import Bytes, TextLike, check_utf8, to_bytes, unescape
from bpe.encode.engine import Engine
from bpe.errors import check_unicode, shown, typed
from bpe.pretokenize.pretokenizer import prepared, scanner_of
from bpe.text.streaming import Normalizing

#: So many bytes are gathered before they are encoded.
PIECE = 1 << 18
_DECODER = codecs.getincrementaldecoder("utf-8")


def encode_stream(
    engine: Engine,
    chunks: Iterable[TextLike],
    allowed: frozenset[str],
    disallowed: frozenset[str],
    cut_after: str | None = None,
) -> Iterator[NDArray[np.uint32]]:
    """The ids of the chunks joined, as arrays that are not empty.

    Raises:
        TypeError: for chunks that are one text, or a chunk that is none; for a `cut_after` that is no str.
        ValueError: for a `cut_after` that is empty or no Unicode; as `Tokenizer.encode` does, once the text that is
            wrong has come.

    """
    if isinstance(chunks, (str, bytes, bytearray, memoryview)) or not isinstance(chunks, Iterable):
        raise TypeError(f"chunks is {typed(chunks)}; it must be an iterable of str or bytes")
    if cut_after is not None and (not isinstance(cut_after, str) or not cut_after):
        raise (ValueError if cut_after == "" else TypeError)(
            f"cut_after is {shown(cut_after)}; it must be a str that is not empty, such as a newline, or None"
        )
    if cut_after is not None:
        check_unicode("cut_after", cut_after)
    return _encoded(engine, chunks, allowed, disallowed, cut_after)


def _encoded(
    engine: Engine,
    chunks: Iterable[TextLike],
    allowed: frozenset[str],
    disallowed: frozenset[str],
    cut_after: str | None,
) -> Iterator[NDArray[np.uint32]]:
    waiting = _Waiting(engine, allowed, cut_after)
    longest = engine.specials.longest(disallowed)
    came = 0
    before = b""  # the end of what has come, where a disallowed token may have begun
    parts = _as_bytes(chunks)
    for data in _checked(parts) if engine.spec.model == "char" else parts:
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
    """The chunks as UTF-8; the halves of a surrogate pair that a cut parted are joined."""
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


def _checked(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a text, which must be UTF-8."""
    decoder, came = _DECODER(), 0
    for data in parts:
        held = decoder.getstate()[0]
        try:
            decoder.decode(data)
        except UnicodeDecodeError:
            check_utf8(held + data, offset=came - len(held))
        came += len(data)
        yield data
    held = decoder.getstate()[0]
    check_utf8(held, offset=came - len(held))


class _Waiting:
    """Text that has come, in which a special token may have begun."""

    def __init__(self, engine: Engine, allowed: frozenset[str], cut_after: str | None) -> None:
        self.data = bytearray()
        self.enough = PIECE  # so many bytes are worth trying
        self._engine, self._allowed = engine, allowed
        #: Whether tokens are found that what stands beside them decides on, or that are sought in normalized text; then
        #: the whole text is waited for.
        self._whole = not engine.specials.plain(allowed)
        self._specials = engine.specials
        self._longest = engine.specials.longest(allowed)
        self._stretch = _Stretch(engine, cut_after)

    def take(self, final: bool) -> Iterator[NDArray[np.uint32]]:
        """The ids of as much as can be encoded whatever comes; of everything, if this is the end."""
        if self._whole:
            self.enough = sys.maxsize
            if final and len(ids := self._engine.encode(bytes(self.data), self._allowed)):
                yield ids
            return
        done = 0
        for start, end, name in self._specials.find(self.data, self._allowed) if self._allowed else ():
            if not final and start + self._longest > len(self.data):
                break
            yield from self._stretch.push(bytes(self.data[done:start]), final=True)
            yield np.array([self._specials.ids[name]], dtype=np.uint32)
            done = end
        limit = len(self.data) if final else max(done, len(self.data) - self._longest + 1)
        yield from self._stretch.push(bytes(self.data[done:limit]), final)
        del self.data[:limit]
        self.enough = max(PIECE, self._stretch.held)


class _Stretch:
    """Text between special tokens on its way: normalized, cut, encoded."""

    def __init__(self, engine: Engine, cut_after: str | None) -> None:
        spec = engine.spec
        self._engine = engine
        self._scanner = scanner_of(spec.pretokenizer)
        self._pretokenizer = spec.pretokenizer
        self._cut_after = None if cut_after is None else cut_after.encode()
        self._normalizing = None if spec.normalizer is None else Normalizing(spec.normalizer, cut_after)
        self._begin()

    def _begin(self) -> None:
        self._data = bytearray()  # normalized, not encoded yet
        self._uncut = 0  # no place to cut at or before this
        self._begun = False
        self._decoder = _DECODER("surrogateescape")

    @property
    def held(self) -> int:
        """How many bytes, or characters, wait for more."""
        return len(self._data) + (0 if self._normalizing is None else self._normalizing.held)

    def push(self, data: Bytes, final: bool) -> Iterator[NDArray[np.uint32]]:
        """The ids of what can be encoded now; of everything, if the stretch ends here."""
        if self._normalizing is not None:
            data = unescape(self._normalizing.push(self._decoder.decode(data, final), final))
        if len(data) and not self._begun:
            self._begun = True
            data = prepared(data, None, self._pretokenizer)
        self._data += data
        cut = len(self._data) if final else self._cut()
        yield from self._encode(bytes(self._data[:cut]))
        del self._data[:cut]
        self._uncut = max(len(self._data) - 4, 0)  # a character there may not be whole yet
        if final:
            self._begin()

    def _cut(self) -> int:
        """Where what has come may be cut whatever follows; 0 if nowhere."""
        if self._scanner is not None:
            cut = self._engine.last_cut(memoryview(self._data), self._uncut)
            return cut if cut > self._uncut else 0
        if self._cut_after is None:
            return 0
        place = self._data.rfind(self._cut_after, max(self._uncut - len(self._cut_after), 0))
        return place + len(self._cut_after) if place >= 0 else 0

    def _encode(self, data: bytes) -> Iterator[NDArray[np.uint32]]:
        if data and len(ids := self._engine.encode_segment(data)):
            yield ids
