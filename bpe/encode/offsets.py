"""Offsets: the span of text that each token stands for.

Joined, the tokens of a text are its pretokens, byte for byte. So the cumulative lengths of the tokens are positions in
the joined pretokens, whose positions in the text are known. If the pretokens drop nothing and each token is a part of
the text, the cumulative lengths are the offsets, and the pretokens are not needed. If a normalizer changes the text,
offsets are found in the normalized text, and `bpe/text/alignment.py` maps them to the given text.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import cached_property
from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import TextLike, compute_byte_offsets, decode_losslessly, find_utf8_error, to_bytes, to_plain_str
from bpe.encode import _offsets
from bpe.encode._fast_path import FastOffsetEncoder
from bpe.encode.engine import Engine
from bpe.errors import check_choice
from bpe.pretokenize.pipeline import Segment
from bpe.pretokenize.pretokenizer import PipelinePretokenizer
from bpe.text.alignment import Convention
from bpe.text.letters import measure_utf8, spell_text_in_letters
from bpe.vocab.spec import TokenizerSpec, text_can_spell_mark
from bpe.vocab.symbols import find_unk_id, find_word_symbols
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, SPECIAL

#: The most words whose lengths of tokens are kept, and the most bytes of one.
MAX_CACHED_WORDS, MAX_CACHED_BYTES = 1 << 16, 256
#: The unit of offsets.
Unit = Literal["char", "byte"]
#: Index of a token that ends after its pretoken → (number of the pretoken, start and end in its bytes).
_OverhangingTokens = dict[int, tuple[int, int, int]]
#: White space and the letter for a space, which `tokenizers` trims.
_WHITE_SPACE = (
    "Ġ\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)


class OffsetEncoder:
    """Encodes with offsets, using the tables of an `Engine`. Immutable."""

    def __init__(self, engine: Engine) -> None:
        spec = engine.spec
        self.engine = engine
        self._text_lengths = _measure_token_texts(spec)
        self._unk_id = NO_TOKEN if spec.unk_token is None else find_unk_id(spec)
        pretokenizer = spec.pretokenizer
        #: Whether a token that ends with the mark may come from text that spells the mark.
        self._text_can_spell_mark = text_can_spell_mark(spec)
        #: Whether lengths of tokens are found by merging again: they are not those of the tokens' names then.
        self._must_merge_again = _must_merge_again(engine)
        #: Whether bytes of a prefix or suffix become tokens, which stand for no text.
        self._has_affix_bytes = spec.byte_fallback and bool(spec.subword_prefix or spec.end_of_word_glued)
        self._word_lengths: dict[bytes, list[int]] = {}
        #: Whether every token is a part of the text: if their lengths sum to the text's, nothing was dropped.
        self._tokens_are_text = (
            spec.model == "byte"
            and spec.unk_token is None
            and spec.end_of_word is None
            and spec.normalizer is None
            and not (pretokenizer is not None and pretokenizer.add_prefix_space)
        )
        is_plain = not (self._must_merge_again or spec.byte_fallback or isinstance(pretokenizer, PipelinePretokenizer))
        encoder = engine.fast_encoder if self._tokens_are_text and is_plain else None
        #: Encodes texts without special tokens; None if it cannot.
        self.fast_encoder = None if encoder is None else FastOffsetEncoder(encoder, spec.vocabulary.lengths)

    def encode(
        self, text: TextLike, allowed: frozenset[str], unit: Unit
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Encode a text with the start and end of each token: (uint32, shape (n,); int64, shape (n, 2)).

        Args:
            text: the text.
            allowed: the special tokens to find.
            unit: "byte": offsets in the text's UTF-8; "char": in its characters. A token with only some bytes of a
                character has the whole character.

        """
        check_choice("unit", unit, ("char", "byte"))
        text = to_plain_str(text)
        if isinstance(self.engine.spec.pretokenizer, PipelinePretokenizer):
            return self.encode_with_word_numbers(text, allowed, unit, "whole")[:2]
        data = to_bytes(self.engine.check_text(text))
        if self._tokens_are_text:
            ids = self.engine.encode(data, allowed)
            spans = self._locate_parts(text, data, ids, unit)
            if spans is not None:
                return ids, spans
        return self._encode_by_pretokens(text, data, allowed, unit)

    def encode_with_word_numbers(
        self, text: TextLike, allowed: frozenset[str], unit: Unit, convention: Convention
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
        """Encode a text: ids, spans by a convention, and for each token the number of its pretoken.

        Special tokens count as pretokens, as in `tokenizers`.
        """
        ids, spans, word_numbers, special_texts = self.encode_untrimmed(text, allowed, unit, convention)
        if convention == "tokenizers":
            spans = self._trim_all(ids, spans, special_texts)
        return ids, spans, word_numbers

    def encode_untrimmed(
        self, text: TextLike, allowed: frozenset[str], unit: Unit, convention: Convention
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], dict[int, str]]:
        """Encode a text: ids, untrimmed spans, pretoken numbers, and by index the text of each special token."""
        text = to_plain_str(text)
        if unit == "char" and (columns := self._encode_unchanged_text(text, allowed)):
            return *columns, {}
        data = to_bytes(self.engine.check_text(text))
        return self._encode_segments(self.engine.prepare(data, allowed, convention), text, data, unit, convention)

    def locate_ids(self, text: str, ids: NDArray[np.uint32]) -> NDArray[np.int64] | None:
        """Find the spans in characters, as `tokenizers` gives them, of ids that are parts of a text; else None."""
        if self.fast_encoder is None:
            return None
        spans = self._locate_parts(text, to_bytes(text), ids, "char")
        return None if spans is None else self._trim_all(ids, spans, {})

    def encode_given_segments(self, segments: Iterable[Segment], text: str) -> NDArray[np.int64]:
        """Find the spans in characters, as `tokenizers` gives them, of the tokens of a prepared text."""
        ids, spans, _, special_texts = self._encode_segments(segments, text, to_bytes(text), "char", "tokenizers")
        return self._trim_all(ids, spans, special_texts)

    def _trim_all(
        self, ids: NDArray[np.uint32], spans: NDArray[np.int64], special_texts: dict[int, str]
    ) -> NDArray[np.int64]:
        """Trim spans as often as the post-processor does."""
        for prefix in self._trim_prefixes:
            spans = self.trim(ids, spans, special_texts, prefix)
        return spans

    def _encode_segments(
        self, segments: Iterable[Segment], text: TextLike, data: bytes, unit: Unit, convention: Convention
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], dict[int, str]]:
        """Encode a text that is prepared; returns the same as `encode_untrimmed`."""
        ids: list[NDArray[np.uint32]] = [np.empty(0, dtype=np.uint32)]
        spans: list[NDArray[np.int64]] = [np.empty((0, 2), dtype=np.int64)]
        all_word_numbers: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        special_texts: dict[int, str] = {}
        overhanging_spans: dict[int, tuple[int, int]] = {}
        n_ids = n_words = 0
        for segment in segments:
            if segment.token_id is not None:
                special_texts[n_ids] = decode_losslessly(segment.data)
            segment_ids, segment_spans, overhanging_tokens = self._encode_segment(segment)
            overhanging_spans |= {n_ids + index: (start, end) for index, (_, start, end) in overhanging_tokens.items()}
            ids.append(segment_ids)
            spans.append(_locate_characters(segment, segment_spans))
            starts, ends = segment.bounds()
            word_numbers = np.searchsorted(ends, segment_spans[:, 0], side="right")
            for index, (word_number, _, _) in overhanging_tokens.items():
                word_numbers[index] = word_number
            all_word_numbers.append(word_numbers + n_words)
            n_ids, n_words = n_ids + len(segment_ids), n_words + int((starts < ends).sum())
        all_spans = np.concatenate(spans)
        if unit == "char":
            all_spans = _convert_to_characters(all_spans, text, data)
        if overhanging_spans and convention == "tokenizers":
            all_spans[list(overhanging_spans)] = _find_spans_beyond(list(overhanging_spans.values()), data, unit)
        return np.concatenate(ids), all_spans, np.concatenate(all_word_numbers), special_texts

    def locate_parts(self, text: str, allowed: frozenset[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]] | None:
        """Encode a text whose tokens are parts of it: ids, untrimmed spans in characters; None for any other."""
        if self.fast_encoder is None:
            return None
        if not self.engine.specials.may_occur(text, allowed):
            return self.fast_encoder.encode(text, True)
        data = to_bytes(text)
        ids = self.engine.encode(data, allowed)
        spans = self._locate_parts(text, data, ids, "char")
        return None if spans is None else (ids, spans)

    def _locate_parts(
        self, text: TextLike, data: bytes, ids: NDArray[np.uint32], unit: Unit
    ) -> NDArray[np.int64] | None:
        """Find the spans of tokens that are all of a text, whose UTF-8 is `data`; None if they are not."""
        spans = _offsets.locate_in_bytes(ids, self.engine.spec.vocabulary.lengths, 0)
        if not len(ids) or spans[-1, 1] != len(data) or (unit == "char" and not _count_characters(text, data, spans)):
            return None
        return spans

    def _encode_unchanged_text(
        self, text: TextLike, allowed: frozenset[str]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]] | None:
        """Encode a text without special tokens whose tokens are parts of it: ids, spans in characters, and words.

        None for any other.
        """
        pretokenizer = self.engine.spec.pretokenizer
        if not self._tokens_are_text or self._must_merge_again or isinstance(pretokenizer, PipelinePretokenizer):
            return None
        data = to_bytes(self.engine.check_text(text))
        if self.engine.specials.may_occur(data, allowed):
            return None
        segment = Segment(data, finder=pretokenizer)
        starts, ends = segment.bounds()
        ids = self.engine.encode_segment(segment)
        spans = _offsets.locate_in_bytes(ids, self.engine.spec.vocabulary.lengths, 0)
        word_numbers = _offsets.number_words(spans, starts, ends, len(data))
        if word_numbers is None or not len(ids) or spans[-1, 1] != len(data):
            return None
        return (ids, spans, word_numbers) if _count_characters(text, data, spans) else None

    @cached_property
    def _trim_prefixes(self) -> tuple[bool, ...]:
        """For each time that the post-processor trims spans: whether a space is put before a text."""
        processor = self.engine.spec.post_processor
        return () if processor is None else processor.trims

    @cached_property
    def _space_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """By id: the number of spaces that a token begins and ends with, as `tokenizers` counts them."""
        spec = self.engine.spec
        counts = np.zeros((2, spec.vocabulary.limit), dtype=np.int64)
        for kind in (ORDINARY, SPECIAL):
            for token_id, token in spec.vocabulary.items(kind):
                in_letters = spec.model == "byte" and kind == ORDINARY  # no letter of a byte is white space
                counts[:, token_id] = count_spaces_around(
                    spell_text_in_letters(decode_losslessly(token)) if in_letters else token.decode()
                )
        return counts[0], counts[1]

    def trim(
        self, ids: NDArray[np.uint32], spans: NDArray[np.int64], special_texts: dict[int, str], prefix: bool
    ) -> NDArray[np.int64]:
        """Trim the spaces at the ends of spans, as `process_offsets` of `tokenizers` does."""
        n_leading, n_trailing = self._space_counts[0][ids], self._space_counts[1][ids]
        for index, text in special_texts.items():
            n_leading[index], n_trailing[index] = count_spaces_around(text)
        starts, ends = spans[:, 0], spans[:, 1]
        if prefix:
            n_leading = np.where((n_leading == 1) & ((np.arange(len(ids)) == 0) | (starts == 0)), 0, n_leading)
        starts = np.minimum(starts + n_leading, ends)
        trimmed_ends = np.where((n_trailing > 0) & (ends >= n_trailing), np.maximum(ends - n_trailing, starts), ends)
        return np.stack((starts, trimmed_ends), axis=1)

    def _encode_by_pretokens(
        self, text: TextLike, data: bytes, allowed: frozenset[str], unit: Unit
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Encode to ids and spans, by finding the pretoken that each token is a part of."""
        ids: list[NDArray[np.uint32]] = [np.empty(0, dtype=np.uint32)]
        spans: list[NDArray[np.int64]] = [np.empty((0, 2), dtype=np.int64)]
        for segment in self.engine.prepare(data, allowed, "whole"):
            segment_ids, segment_spans, _ = self._encode_segment(segment)
            assert segment.origin is not None
            ids.append(segment_ids)
            spans.append(segment.origin.locate_bytes(segment_spans))
        all_spans = np.concatenate(spans)
        return np.concatenate(ids), all_spans if unit == "byte" else _convert_to_characters(all_spans, text, data)

    def _encode_segment(self, segment: Segment) -> tuple[NDArray[np.uint32], NDArray[np.int64], _OverhangingTokens]:
        """Encode a segment: ids, their spans in its bytes, and the tokens that end after their pretoken."""
        if segment.token_id is not None:
            ids = np.array([segment.token_id], dtype=np.uint32)
            return ids, np.array([[0, len(segment.data)]], dtype=np.int64), {}
        starts, ends = segment.bounds()
        data = segment.data
        if not self._must_merge_again:
            ids = self.engine.encode_segment(segment)
            return ids, self._find_token_spans(ids, data, starts, ends), {}
        bounds = list(zip(starts.tolist(), ends.tolist(), strict=True))
        if dropout := self.engine.spec.dropout:
            merged_words = [self.engine.word_model.merge(data[start:end], dropout) for start, end in bounds]
            ids = np.array([token for tokens, _ in merged_words for token in tokens], dtype=np.uint32)
            lengths = [token_lengths for _, token_lengths in merged_words]
        else:
            ids = self.engine.encode_segment(segment)
            lengths = [self._measure_pretoken(data[start:end]) for start, end in bounds]
        letter_offsets = None
        if self.engine.word_model.counts_letters:
            letter_offsets = compute_offsets(measure_utf8(spell_text_in_letters(decode_losslessly(data))))
            bounds = list(zip(letter_offsets[starts].tolist(), letter_offsets[ends].tolist(), strict=True))
        span_list = [
            span
            for token_lengths, (start, end) in zip(lengths, bounds, strict=True)
            for span in _make_spans(token_lengths, start, end)
        ]
        spans = np.array(span_list, dtype=np.int64).reshape(-1, 2)
        if letter_offsets is not None:
            first_bytes = np.searchsorted(letter_offsets, spans[:, 0], "right") - 1
            last_bytes = np.searchsorted(letter_offsets, spans[:, 1])
            spans = np.stack((first_bytes, last_bytes), axis=1)
        return ids, spans, _find_overhanging_tokens(lengths, bounds) if self._has_affix_bytes else {}

    def _find_token_spans(
        self, ids: NDArray[np.uint32], data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Find the spans of tokens in the pretokens `data[starts[i]:ends[i]]`, by the tokens' own lengths."""
        if not len(ids):
            return np.zeros((0, 2), dtype=np.int64)
        bounds = compute_offsets(ends - starts)
        lengths = self._text_lengths[ids]
        is_unknown = ids == self._unk_id
        if not self.engine.spec.byte_fallback and is_unknown.any():
            lengths[is_unknown] = self._measure_unknown(data, starts, ends)
        if self._text_can_spell_mark:
            self._add_text_marks(lengths, ids, bounds)
        token_ends = np.cumsum(lengths)
        token_starts = token_ends - lengths
        last_words = np.searchsorted(bounds, token_ends, side="left") - 1
        first_words = np.where(lengths > 0, np.searchsorted(bounds, token_starts, side="right") - 1, last_words)
        # If `ends_word` is wrong.
        first_words, last_words = (np.minimum(words, len(starts) - 1) for words in (first_words, last_words))
        return np.stack(
            (
                starts[first_words] + token_starts - bounds[first_words],
                starts[last_words] + token_ends - bounds[last_words],
            ),
            axis=1,
        )

    def _measure_pretoken(self, word: bytes) -> list[int]:
        """Measure each token of a pretoken in bytes, counted from its start, as in `tokenizers`."""
        lengths = self._word_lengths.get(word)
        if lengths is None:
            lengths = self.engine.measure_tokens(word)
            if len(self._word_lengths) < MAX_CACHED_WORDS and len(word) <= MAX_CACHED_BYTES:
                self._word_lengths[word] = lengths
        return lengths

    def _add_text_marks(self, lengths: NDArray[np.int64], ids: NDArray[np.uint32], bounds: NDArray[np.int64]) -> None:
        """Add the mark's length to tokens that end with the mark but not at a word's end: it is text there."""
        spec, position, word = self.engine.spec, 0, 0
        assert spec.end_of_word is not None
        assert spec.ends_word is not None
        mark_size, unmarked_lengths, word_ends = len(spec.end_of_word.encode()), lengths.tolist(), bounds.tolist()
        for index, ends_with_mark in enumerate(spec.ends_word[ids].tolist()):
            while word_ends[word] <= position:
                word += 1
            if ends_with_mark and position + unmarked_lengths[index] < word_ends[word]:
                lengths[index] += mark_size
            position += int(lengths[index])

    def _measure_unknown(self, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Measure each unknown token in bytes, in order: of one symbol, or of fused neighbours."""
        inner_ids, last_ids = self.engine.symbols.inner_ids, self.engine.symbols.last_ids
        codes = np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
        bounds = np.arange(len(data) + 1)
        if self.engine.spec.model == "char":
            codes = np.frombuffer(data.decode().encode("utf-32-le"), dtype=np.uint32)
            bounds = compute_byte_offsets(data.decode())
        starts, ends = starts[starts < ends], ends[starts < ends]
        last_positions = np.searchsorted(bounds, ends) - 1
        token_ids = _look_up_tokens(inner_ids, codes)
        token_ids[last_positions] = _look_up_tokens(last_ids, codes[last_positions])
        word_numbers = np.searchsorted(starts, bounds[:-1], side="right") - 1
        is_unknown = (
            ((token_ids == NO_TOKEN) | (token_ids == self._unk_id))
            & (bounds[:-1] < ends[word_numbers])
            & (word_numbers >= 0)
        )
        unknown_positions = np.flatnonzero(is_unknown)
        lengths: NDArray[np.int64] = np.diff(bounds)[unknown_positions]
        if not self.engine.spec.fuse_unk:
            return lengths
        is_fused = (np.diff(unknown_positions) == 1) & (np.diff(word_numbers[unknown_positions]) == 0)
        return np.add.reduceat(lengths, np.flatnonzero(np.append(True, ~is_fused)))


def _locate_characters(segment: Segment, spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the spans of the text that spans of a segment's bytes come from, in whole characters."""
    assert segment.origin is not None
    char_of_byte, char_starts, char_ends = segment.find_char_of_byte(), spans[:, 0], spans[:, 1]
    if len(char_of_byte):
        is_empty = char_starts >= char_ends
        char_starts = char_of_byte[np.minimum(char_starts, len(char_of_byte) - 1)]
        char_ends = np.where(is_empty, char_starts, char_of_byte[np.maximum(char_ends - 1, 0)] + 1)
    return segment.origin.locate_characters(char_starts, char_ends)


def _make_spans(lengths: list[int], start: int, end: int) -> list[tuple[int, int]]:
    """Make the spans of the tokens of a pretoken from their lengths; none reaches beyond its end."""
    bounds = [min(start + length, end) for length in accumulate(lengths, initial=0)]
    return list(pairwise(bounds))


def _find_overhanging_tokens(lengths: list[list[int]], bounds: list[tuple[int, int]]) -> _OverhangingTokens:
    """Find the tokens that end after their pretoken, given all lengths and the pretokens' bounds."""
    overhanging_tokens: _OverhangingTokens = {}
    n_tokens = 0
    for word, (token_lengths, (start, end)) in enumerate(zip(lengths, bounds, strict=True)):
        for index, (token_start, token_end) in enumerate(pairwise(accumulate(token_lengths, initial=0)), n_tokens):
            if token_end > end - start:
                overhanging_tokens[index] = (word, token_start, token_end)
        n_tokens += len(token_lengths)
    return overhanging_tokens


def _find_spans_beyond(spans: list[tuple[int, int]], data: bytes, unit: Unit) -> list[tuple[int, int]]:
    """Find the spans that `tokenizers` gives to tokens that end after their pretoken.

    It finds no text for them, so it takes their bytes in the pretoken for bytes of the whole text.
    """
    if unit == "byte":
        return spans
    char_of_byte = [index for index, char in enumerate(decode_losslessly(data)) for _ in range(len(char.encode()))]
    text_spans = []
    for start, end in spans:
        if start >= len(char_of_byte):
            text_spans.append((start, end))
        elif end < len(char_of_byte):
            text_spans.append((char_of_byte[start], char_of_byte[end]))
        else:
            text_spans.append(
                (
                    char_of_byte[start],
                    1 + (char_of_byte[end - 1] if end <= len(char_of_byte) else char_of_byte[start] + 1),
                )
            )
    return text_spans


def count_spaces_around(text: str) -> tuple[int, int]:
    """Count the spaces that a token begins and ends with, as `tokenizers` does."""
    return len(text) - len(text.lstrip(_WHITE_SPACE)), len(text) - len(text.rstrip(_WHITE_SPACE))


def _must_merge_again(engine: Engine) -> bool:
    """Whether the text that a token stands for may have another length than its name.

    Byte tokens stand for one byte each; where no other rule changes lengths, that is enough.
    """
    spec = engine.spec
    if spec.subword_prefix is not None or spec.drop_unknown or _unknown_is_text(spec) or engine.merger.merges_unknown:
        return True
    has_special_rules = not engine.merger.can_split or spec.ignore_merges or spec.end_of_word is not None
    return spec.byte_fallback and has_special_rules


def _unknown_is_text(spec: TokenizerSpec) -> bool:
    """Whether text can become the unknown token, or a whole word of unknown symbols another token."""
    if spec.unk_token is None:
        return False
    return spec.ignore_merges or bool(spec.vocabulary.kinds[find_unk_id(spec)] == ORDINARY)


def _look_up_tokens(table: NDArray[np.uint32], codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Look symbols up in a table; NO_TOKEN for codes outside it."""
    tokens: NDArray[np.uint32] = np.append(table, np.uint32(NO_TOKEN))[np.minimum(codes, len(table))]
    return tokens


def _count_characters(text: TextLike, data: bytes, spans: NDArray[np.int64]) -> bool:
    """Convert spans of all bytes of a text to characters, in place, by counting those of its UTF-8, `data`.

    False where that may count differently: in bytes that are not UTF-8, and in a str with a surrogate pair, which is
    one character in UTF-8.
    """
    if not isinstance(text, str) and find_utf8_error(data) is not None:
        return False
    _offsets.convert_to_characters(data, spans)
    return not isinstance(text, str) or bool(spans[-1, 1] == len(text))


def _measure_token_texts(spec: TokenizerSpec) -> NDArray[np.int64]:
    """Measure the text that each token stands for in bytes, without the end-of-word mark: int64 by id."""
    lengths = spec.vocabulary.lengths.astype(np.int64)
    if spec.end_of_word is not None and spec.ends_word is not None:
        lengths -= spec.ends_word * len(spec.end_of_word.encode())
    byte_ids = find_word_symbols(spec).byte_ids
    if byte_ids is not None:
        lengths[byte_ids[byte_ids != NO_TOKEN]] = 1
    return lengths


def _convert_to_characters(spans: NDArray[np.int64], text: TextLike, data: bytes) -> NDArray[np.int64]:
    """Convert byte offsets to character offsets. A byte that is not UTF-8 counts as a character."""
    if data.isascii():
        return spans
    start_table, end_table = _find_character_bounds(text, data)
    is_empty = spans[:, 0] == spans[:, 1]
    starts = np.where(
        is_empty,
        np.searchsorted(start_table, spans[:, 0], side="left"),
        np.searchsorted(start_table, spans[:, 0], side="right") - 1,
    )
    ends = np.where(is_empty, starts, np.searchsorted(end_table, spans[:, 1], side="left"))
    return np.stack((starts, ends), axis=1)


def _find_character_bounds(text: TextLike, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the byte at which each character begins: a table to look up tokens' starts in, and one for their ends.

    They differ for a surrogate pair, two characters that are one in UTF-8: a token with any of its bytes has both.
    """
    escaped_text = text if isinstance(text, str) else decode_losslessly(data)
    codes = np.frombuffer(escaped_text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    widths = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    if not isinstance(text, str):
        widths[(codes >= 0xDC80) & (codes <= 0xDCFF)] = 1
        start_table = np.cumsum(widths) - widths
        return start_table, start_table
    is_high_surrogate = (codes >= 0xD800) & (codes <= 0xDBFF)
    is_low_surrogate = (codes >= 0xDC00) & (codes <= 0xDFFF)
    pair_positions = np.flatnonzero(is_high_surrogate[:-1] & is_low_surrogate[1:])
    widths[pair_positions], widths[pair_positions + 1] = 4, 0
    start_table = np.cumsum(widths) - widths
    end_table = start_table.copy()
    end_table[pair_positions + 1] = start_table[pair_positions]
    return start_table, end_table
