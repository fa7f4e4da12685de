"""Offsets: which part of a text each of its tokens is.

The bytes of each token follow those of the token before. So the sums of the tokens' lengths are places in the pretokens
laid end to end, and it is known where each pretoken lies in the text. If the pretokens leave nothing out and the tokens
are the text's own bytes, the sums themselves are the places, and the pretokens are not needed. If a normalizer changes
the text, places are found in the changed text first, and then `bpe/text/alignment.py` tells what they were made from.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import TextLike, byte_offsets, escape, to_bytes, unescape
from bpe.encode import _offsets as tokenspans
from bpe.encode.engine import Engine
from bpe.errors import check_choice
from bpe.pretokenize.pretokenizer import prepared
from bpe.vocab.spec import TokenizerSpec, has_text_marks
from bpe.vocab.symbols import unk_id
from bpe.vocab.vocabulary import NO_TOKEN

#: What offsets count.
Unit = Literal["char", "byte"]


class OffsetEncoder:
    """Encodes with offsets beside an `Engine`. Immutable."""

    def __init__(self, engine: Engine) -> None:
        spec = engine.spec
        self._engine = engine
        self._lengths = _text_lengths(spec)
        self._unk = NO_TOKEN if spec.unk_token is None else unk_id(spec)
        pretokenizer = spec.pretokenizer
        #: Whether some tokens that end words may be part of one, made of characters that spell the mark.
        self._spelled_like_text = has_text_marks(spec)
        #: Whether tokens are the text's own bytes, so that they lie end to end if they have as many together.
        self._own_bytes = (
            spec.model == "byte"
            and spec.unk_token is None
            and spec.end_of_word is None
            and spec.normalizer is None
            and not (pretokenizer is not None and pretokenizer.add_prefix_space)
        )

    def encode(
        self, text: TextLike, allowed: frozenset[str], unit: Unit
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids of a text and where each begins and ends: (uint32, shape (n,); int64, shape (n, 2)).

        Args:
            text: the text.
            allowed: the special tokens to find.
            unit: "byte": offsets in the text's UTF-8; "char": in its characters, of which a token has all that it has a
                byte of.

        """
        check_choice("unit", unit, ("char", "byte"))
        data = to_bytes(self._engine.checked(text))
        if self._own_bytes and (unit == "byte" or _has_whole_characters(text)):
            ids = self._engine.encode(data, allowed)
            lengths = self._engine.spec.vocabulary.lengths
            spans = tokenspans.in_bytes(ids, lengths, 0)
            if len(ids) and spans[-1, 1] == len(data):
                if unit == "char":
                    tokenspans.to_characters(data, spans)
                return ids, spans
        return self._encode_by_pretokens(text, data, allowed, unit)

    def _encode_by_pretokens(
        self, text: TextLike, data: bytes, allowed: frozenset[str], unit: Unit
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The same where each token's place has to be sought in the pretoken that it is of."""
        ids: list[NDArray[np.uint32]] = [np.empty(0, dtype=np.uint32)]
        spans: list[NDArray[np.int64]] = [np.empty((0, 2), dtype=np.int64)]
        at = 0
        for piece, special in self._engine.specials.pieces(data, allowed):
            if special is not None:
                ids.append(np.array([special], dtype=np.uint32))
                spans.append(np.array([[at, at + len(piece)]], dtype=np.int64))
            else:
                found, places = self._encode_segment(bytes(piece), self._engine.specials.late(allowed))
                ids.append(found)
                spans.append(places + at)
            at += len(piece)
        every = np.minimum(np.concatenate(spans), len(data))  # where tokens overlap, as `tokenizers` lets them, less
        return np.concatenate(ids), every if unit == "byte" else _in_characters(every, text, data)

    def _encode_segment(self, piece: bytes, late: frozenset[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The same for a stretch in which there are no special tokens but those sought in normalized text."""
        normalizer = self._engine.spec.normalizer
        if normalizer is None:
            return self._encode_normalized(piece)
        made = normalizer.aligned(escape(piece))
        ids, spans = self._encode_late(unescape(made.text), late)
        places = byte_offsets(made.text)
        first = np.searchsorted(places, spans[:, 0], side="right") - 1
        behind = np.searchsorted(places, spans[:, 1], side="left")
        first = np.where(spans[:, 0] < spans[:, 1], first, behind)
        before = byte_offsets(escape(piece))
        starts, ends = made.hull(first, behind)
        return ids, np.stack((before[starts], before[ends]), axis=1)

    def _encode_late(self, text: bytes, late: frozenset[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The same for one that is normalized, cut at the special tokens in it."""
        if not late:
            return self._encode_normalized(text)
        ids: list[NDArray[np.uint32]] = [np.empty(0, dtype=np.uint32)]
        spans: list[NDArray[np.int64]] = [np.empty((0, 2), dtype=np.int64)]
        at = 0
        for piece, special in self._engine.specials.late_pieces(text, late):
            found, places = np.array([special or 0], dtype=np.uint32), np.array([[0, len(piece)]], dtype=np.int64)
            if special is None:
                found, places = self._encode_normalized(bytes(piece))
            ids.append(found)
            spans.append(places + at)
            at += len(piece)
        return np.concatenate(ids), np.minimum(np.concatenate(spans), len(text))

    def _encode_normalized(self, piece: bytes) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The same for a stretch of normalized text without special tokens."""
        pretokenizer = self._engine.spec.pretokenizer
        data = bytes(prepared(piece, None, pretokenizer))
        ids = self._engine.encode_segment(data)
        if pretokenizer is None:
            starts, ends = np.zeros(1, dtype=np.int64), np.array([len(data)], dtype=np.int64)
        else:
            starts, ends = pretokenizer.spans(data)
        bounds = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(ends - starts)))
        lengths = self._lengths[ids]
        unknown = ids == self._unk
        if unknown.any():
            lengths[unknown] = self._unknown_lengths(data, starts, ends)
        if self._spelled_like_text:
            self._add_text_marks(lengths, ids, bounds)
        behind = np.cumsum(lengths)
        before = behind - lengths
        last = np.searchsorted(bounds, behind, side="left") - 1
        first = np.where(lengths > 0, np.searchsorted(bounds, before, side="right") - 1, last)
        first, last = np.minimum(first, len(starts) - 1), np.minimum(last, len(starts) - 1)  # if `ends_word` is wrong
        spans = np.stack((starts[first] + before - bounds[first], starts[last] + behind - bounds[last]), axis=1)
        return ids, np.maximum(spans - (len(data) - len(piece)), 0)

    def _add_text_marks(self, lengths: NDArray[np.int64], ids: NDArray[np.uint32], bounds: NDArray[np.int64]) -> None:
        """Add the end-of-word mark to the lengths of tokens whose mark is text: all that do not end at a word's end."""
        spec, at, word = self._engine.spec, 0, 0
        assert spec.end_of_word is not None
        assert spec.ends_word is not None
        mark, listed, behind = len(spec.end_of_word.encode()), lengths.tolist(), bounds.tolist()
        for place, marked in enumerate(spec.ends_word[ids].tolist()):
            while behind[word] <= at:
                word += 1
            if marked and at + listed[place] < behind[word]:
                lengths[place] += mark
            at += int(lengths[place])

    def _unknown_lengths(self, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many bytes each unknown token stands for, in order: a symbol, or neighbours that became one."""
        inner, last, _ = self._engine.symbols
        codes = np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
        bounds = np.arange(len(data) + 1)
        if self._engine.spec.model == "char":
            codes = np.frombuffer(data.decode().encode("utf-32-le"), dtype=np.uint32)
            bounds = byte_offsets(data.decode())
        starts, ends = starts[starts < ends], ends[starts < ends]
        lasts = np.searchsorted(bounds, ends) - 1
        tokens = _looked_up(inner, codes)
        tokens[lasts] = _looked_up(last, codes[lasts])
        word = np.searchsorted(starts, bounds[:-1], side="right") - 1
        unknown = ((tokens == NO_TOKEN) | (tokens == self._unk)) & (bounds[:-1] < ends[word]) & (word >= 0)
        found = np.flatnonzero(unknown)
        lengths: NDArray[np.int64] = np.diff(bounds)[found]
        if not self._engine.spec.fuse_unk:
            return lengths
        joined = (np.diff(found) == 1) & (np.diff(word[found]) == 0)
        return np.add.reduceat(lengths, np.flatnonzero(np.append(True, ~joined)))


def _looked_up(table: NDArray[np.uint32], codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The tokens of symbols; NO_TOKEN beyond the table's end."""
    tokens: NDArray[np.uint32] = np.append(table, np.uint32(NO_TOKEN))[np.minimum(codes, len(table))]
    return tokens


def _has_whole_characters(text: TextLike) -> bool:
    """Whether a text's characters are those of its UTF-8: no surrogates, no bytes that are none."""
    try:
        if isinstance(text, str):
            return text.isascii() or bool(text.encode())
        return bool(str(text, "utf-8"))
    except UnicodeError:
        return False


def _text_lengths(spec: TokenizerSpec) -> NDArray[np.int64]:
    """How many bytes of text each token stands for, an end-of-word mark left out: int64 by id."""
    lengths = spec.vocabulary.lengths.astype(np.int64)
    if spec.end_of_word is not None and spec.ends_word is not None:
        lengths -= spec.ends_word * len(spec.end_of_word.encode())
    return lengths


def _in_characters(spans: NDArray[np.int64], text: TextLike, data: bytes) -> NDArray[np.int64]:
    """Byte offsets as offsets in the characters of the text, a byte that is not UTF-8 being one."""
    if data.isascii():
        return spans
    first, behind = _character_places(text, data)
    empty = spans[:, 0] == spans[:, 1]
    starts = np.where(
        empty, np.searchsorted(first, spans[:, 0], side="left"), np.searchsorted(first, spans[:, 0], side="right") - 1
    )
    ends = np.where(empty, starts, np.searchsorted(behind, spans[:, 1], side="left"))
    return np.stack((starts, ends), axis=1)


def _character_places(text: TextLike, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each character of a text begins in its bytes, as first sought for a token's start, then for its end.

    They differ for a surrogate pair, two characters that are one in UTF-8: a token of any of its bytes has both.
    """
    escaped = text if isinstance(text, str) else escape(data)
    codes = np.frombuffer(escaped.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    widths = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    if not isinstance(text, str):
        widths[(codes >= 0xDC80) & (codes <= 0xDCFF)] = 1
        behind = np.cumsum(widths)
        return behind - widths, behind - widths
    high = (codes >= 0xD800) & (codes <= 0xDBFF)
    low = (codes >= 0xDC00) & (codes <= 0xDFFF)
    pairs = np.flatnonzero(high[:-1] & low[1:])
    widths[pairs], widths[pairs + 1] = 4, 0
    places = np.cumsum(widths) - widths
    behind = places.copy()
    behind[pairs + 1] = places[pairs]
    return places, behind
