"""The tokens of single symbols, and the unknown token. Merging starts from these.

The alphabet of a training: `bpe/training/kernel_input.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.base._slices import find_short_slices
from bpe.base.fast_dataclasses import dataclass
from bpe.text.letters import read_letters_or_utf8
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, SPECIAL, has_text_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The names of the tokens of bytes in vocabularies with byte fallback.
BYTE_NAMES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def find_unk_id(spec: TokenizerSpec) -> int:
    """Find the id of the unknown token; the spec must have one."""
    assert spec.unk_token is not None
    if spec.unk_token in spec.special_tokens:
        return spec.special_tokens[spec.unk_token]
    name = spec.unk_token.encode()
    for token_id, token in spec.vocabulary.items(SPECIAL, max_length=len(name), min_length=len(name)):
        if token == name:
            return token_id
    token_bytes = read_letters_or_utf8(spec.unk_token) if spec.model == "byte" else name
    if token_bytes in spec.vocabulary.id_of_token:
        return spec.vocabulary.id_of_token[token_bytes]
    raise ValueError(f"unk_token {spec.unk_token!r} is not in the vocabulary; add it as a special token")


@dataclass(frozen=True)
class WordSymbols:
    """The tokens of single symbols by their position in a word: uint32 arrays by byte or code point, or NO_TOKEN.

    Attributes:
        inner_ids: symbols before the last position of a word.
        last_ids: symbols at the last position.
        mark_id: the token of an end-of-word mark that is a symbol of its own, or NO_TOKEN.
        first_ids: symbols at the first position; `inner_ids` unless the tokenizer has a subword prefix.
        only_ids: the symbol of a word that has one; `last_ids` unless the tokenizer has a subword prefix.
        byte_ids: with byte fallback, the tokens of bytes, shape (256,); else None.

    """

    inner_ids: NDArray[np.uint32]
    last_ids: NDArray[np.uint32]
    mark_id: int
    first_ids: NDArray[np.uint32]
    only_ids: NDArray[np.uint32]
    byte_ids: NDArray[np.uint32] | None

    @property
    def tables(self) -> tuple[NDArray[np.uint32], ...]:
        """All tables of symbols, and the mark: all tokens that single symbols become."""
        tables = (
            self.inner_ids,
            self.last_ids,
            self.first_ids,
            self.only_ids,
            np.array([self.mark_id], dtype=np.uint32),
        )
        return tables if self.byte_ids is None else (*tables, self.byte_ids)


def find_word_symbols(spec: TokenizerSpec) -> WordSymbols:
    """Find the tokens of the symbols of a tokenizer."""
    inner_ids, last_ids, mark_id = build_symbol_tables(spec)
    first_ids, only_ids = inner_ids, last_ids
    if spec.subword_prefix:
        first_ids, only_ids = build_symbol_tables(spec, prefixed=False)[:2]
    byte_ids = _find_byte_tokens(spec) if spec.byte_fallback else None
    return WordSymbols(inner_ids, last_ids, mark_id, first_ids, only_ids, byte_ids)


def build_symbol_tables(
    spec: TokenizerSpec, *, prefixed: bool = True
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], int]:
    """Build tables of the tokens of single symbols.

    Returns:
        (table of the symbols inside a word, table of the last symbol of a word, token of the mark). The tables are
        uint32 arrays indexed by byte or code point. The third is the token of an end-of-word mark that is a symbol of
        its own. NO_TOKEN stands for no token. With a subword prefix, they are those of symbols after the first one of a
        word; without `prefixed`, those of the first one.

    """
    mark = b"" if spec.end_of_word is None else spec.end_of_word.encode()
    prefix = (spec.subword_prefix or "").encode() if prefixed else b""
    is_char_model, is_glued = spec.model == "char", spec.end_of_word_glued
    blob = np.frombuffer(spec.vocabulary.blob, np.uint8)
    max_bytes = (4 if is_char_model else 1) + len(mark) + len(prefix)  # bytes of a symbol
    ids, starts, lengths = _find_short_tokens(spec, max_bytes)
    mark_ids = ids[has_text_at(blob, starts, lengths, mark) & (lengths == len(mark))] if mark and not is_glued else []
    has_prefix = has_text_at(blob, starts, lengths, prefix)
    ids, starts, lengths = ids[has_prefix], starts[has_prefix] + len(prefix), lengths[has_prefix] - len(prefix)
    is_inner, is_last = np.ones(len(ids), dtype=np.bool_), np.zeros(len(ids), dtype=np.bool_)
    if spec.subword_prefix:  # a token may be two symbols, with and without the mark
        is_last = has_text_at(blob, starts + lengths - len(mark), lengths, mark)
    elif mark and spec.ends_word is not None:
        is_last = spec.ends_word[ids]
        is_inner = ~is_last
    inner_symbols = _decode_symbols(blob, ids[is_inner], starts[is_inner], lengths[is_inner], is_char_model)
    last_symbols = _decode_symbols(blob, ids[is_last], starts[is_last], lengths[is_last] - len(mark), is_char_model)
    size = (
        256 if not is_char_model else 1 + max(int(codes.max(initial=0)) for codes, _ in (inner_symbols, last_symbols))
    )
    tables = []
    for codes, ids in (inner_symbols, last_symbols if is_glued else inner_symbols):
        table = np.full(size, NO_TOKEN, dtype=np.uint32)
        table[codes] = ids
        tables.append(table)
    return tables[0], tables[1], int(mark_ids[-1]) if len(mark_ids) else NO_TOKEN


def _find_short_tokens(
    spec: TokenizerSpec, max_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find the (ids, starts, lengths) of the ordinary tokens of at most `max_bytes` bytes.

    A large vocabulary has many short tokens, so no object is created for each.
    """
    vocabulary = spec.vocabulary
    ids = find_short_slices(vocabulary.offsets, max_bytes)
    ids = ids[vocabulary.kinds[ids] == ORDINARY]
    starts = vocabulary.offsets[ids]
    return ids, starts, vocabulary.offsets[ids + 1] - starts


#: UTF-8: the bytes of a character, the lead byte without the character's bits, and the code points that take as many.
_UTF8 = ((1, 0, 0, 0x80), (2, 0xC0, 0x80, 0x800), (3, 0xE0, 0x800, 0x10000), (4, 0xF0, 0x10000, 0x110000))


def _decode_symbols(
    blob: NDArray[np.uint8],
    token_ids: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    is_char_model: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find those of the tokens `token_ids` whose text is a single symbol: (bytes or code points, tokens)."""
    symbols = np.full(len(token_ids), -1, dtype=np.int64)
    for size, lead, min_code, code_limit in _UTF8 if is_char_model else ((1, 0, 0, 256),):
        tokens = np.flatnonzero(lengths == size)
        tokens = tokens[blob[starts[tokens]] >= lead]
        codes = blob[starts[tokens]].astype(np.int64) - lead
        for i in range(1, size):
            next_bytes = blob[starts[tokens] + i]
            codes = np.where(next_bytes & 0xC0 == 0x80, codes << 6 | next_bytes & 0x3F, -1)
        is_valid = (codes >= min_code) & (codes < code_limit) & ~((codes >= 0xD800) & (codes < 0xE000))
        symbols[tokens[is_valid]] = codes[is_valid]
    return symbols[symbols >= 0], token_ids[symbols >= 0]


def _find_byte_tokens(spec: TokenizerSpec) -> NDArray[np.uint32]:
    """Find the tokens of bytes, by byte. Of the ordinary tokens, only those that begin as these do become objects."""
    vocabulary = spec.vocabulary
    ids = np.flatnonzero((vocabulary.kinds == ORDINARY) & (vocabulary.lengths == len(BYTE_NAMES[0])))
    first_bytes = np.frombuffer(vocabulary.blob, dtype=np.uint8)[vocabulary.offsets[ids]]
    ids = ids[first_bytes == ord(BYTE_NAMES[0][0])]
    tokens = {vocabulary[token_id]: token_id for token_id in ids.tolist()}
    return np.array([tokens.get(name.encode(), NO_TOKEN) for name in BYTE_NAMES], dtype=np.uint32)
