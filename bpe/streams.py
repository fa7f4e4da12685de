"""Encoding a text that comes in chunks, in bounded memory, to the ids of the whole.

What has come is encoded up to the last place where a text may be cut (`_core/cutting`) and no special token can be
under way; the rest waits for more. Memory is that of a chunk and of the longest stretch without such a place: a word, a
run of anything but letters. A normalizer, or a pretokenizer without a scanner, is given each stretch between special
tokens as a whole, which is the whole text where there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from bpe._core.cutting import last_cut
from bpe.encoding import Encoder
from bpe.errors import shown
from bpe.pretokenize import prepared, scanner_of
from bpe.text import TextLike, check_utf8, to_bytes

#: So many bytes are gathered before they are encoded.
PIECE = 1 << 18


def encode_stream(
    encoder: Encoder, chunks: Iterable[TextLike], allowed: frozenset[str], disallowed: frozenset[str]
) -> Iterator[NDArray[np.uint32]]:
    """The ids of the chunks joined, as arrays that are not empty.

    Raises:
        TypeError: for chunks that are one text, or a chunk that is none.
        ValueError: as `Tokenizer.encode` does, once the text that is wrong has come.

    """
    if isinstance(chunks, (str, bytes, bytearray, memoryview)) or not isinstance(chunks, Iterable):
        raise TypeError(f"chunks is {shown(chunks)}, a {type(chunks).__name__}; it must be an iterable of str or bytes")
    return _encoded(encoder, chunks, allowed, disallowed)


def _encoded(
    encoder: Encoder, chunks: Iterable[TextLike], allowed: frozenset[str], disallowed: frozenset[str]
) -> Iterator[NDArray[np.uint32]]:
    waiting = _Waiting(encoder, allowed)
    longest = max((len(name.encode()) for name in disallowed), default=1)
    came = 0
    before = b""  # the end of what has come, where a disallowed token may have begun
    for data in _as_bytes(chunks):
        if disallowed:
            seen = before + data
            encoder.specials.refuse(seen, disallowed, came - len(before))
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


class _Waiting:
    """Text that has come and is not encoded yet."""

    def __init__(self, encoder: Encoder, allowed: frozenset[str]) -> None:
        self.data = bytearray()
        self.enough = PIECE  # so many bytes are worth trying
        self._encoder = encoder
        self._pattern = encoder.specials.pattern(allowed) if allowed else None
        self._longest = max((len(name.encode()) for name in allowed), default=1)
        self._searched = 0  # no special token begins before this
        self._uncut = 0  # no place to cut at or before this
        self._inside = False  # text of the same stretch between special tokens has been encoded
        spec = encoder.spec
        self._scanner = scanner_of(spec.pretokenizer) if spec.normalizer is None else None
        self._checked = spec.model == "char"

    def take(self, final: bool) -> Iterator[NDArray[np.uint32]]:
        """The ids of as much as can be encoded whatever comes; of everything, if this is the end."""
        done = 0
        while self._pattern is not None:
            match = self._pattern.search(self.data, self._searched)
            if match is None or (not final and match.start() + self._longest > len(self.data)):
                break
            yield from self._encode(self.data[done : match.start()])
            yield np.array([self._encoder.specials.ids[match[0].decode()]], dtype=np.uint32)
            self._inside = False
            self._searched = done = self._uncut = match.end()
        limit = len(self.data)
        if not final:
            limit = max(done, limit - self._longest + 1)  # a special token may have begun behind it
            self._searched = limit
            cut = 0
            if self._scanner is not None:
                cut = last_cut(self._scanner, memoryview(self.data)[:limit], max(self._uncut, done))
            limit = cut if cut > max(self._uncut, done) else done
        yield from self._encode(self.data[done:limit])
        self._inside = self._inside or limit > done
        del self.data[:limit]
        self._searched = max(self._searched - limit, 0)
        self._uncut = max(self._searched - 4, 0)  # a character there may not be whole yet
        self.enough = max(PIECE, 2 * len(self.data))

    def _encode(self, piece: bytearray) -> Iterator[NDArray[np.uint32]]:
        if not piece:
            return
        spec, data = self._encoder.spec, bytes(piece)
        if self._checked:
            check_utf8(data)
        if not self._inside:
            data = bytes(prepared(data, spec.normalizer, spec.pretokenizer))
        ids = self._encoder._encode_segment(data)
        if len(ids):
            yield ids
