"""The tokens of single symbols, and the unknown token. Merging starts from these.

Not here: the alphabet of a training (`bpe/training/alphabet.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY

#: The names of the tokens of bytes in vocabularies with byte fallback.
BYTE_NAMES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def unk_id(spec: TokenizerSpec) -> int:
    """The id of the unknown token; the spec must have one."""
    assert spec.unk_token is not None
    if spec.unk_token in spec.special_tokens:
        return spec.special_tokens[spec.unk_token]
    name = spec.unk_token.encode()
    for number, token in spec.vocabulary.items(longest=len(name), shortest=len(name)):
        if token == name:
            return number
    raise ValueError(f"unk_token {spec.unk_token!r} is not in the vocabulary; add it as a special token")


@dataclass(frozen=True)
class WordSymbols:
    """The tokens of single symbols by their position in a word: uint32 arrays by byte or code point, or NO_TOKEN.

    Attributes:
        inner: symbols before the last position of a word.
        last: symbols at the last position.
        mark: the token of an end-of-word mark that is a symbol of its own, or NO_TOKEN.
        first: symbols at the first position; `inner` unless the tokenizer has a subword prefix.
        only: the symbol of a word that has one; `last` unless the tokenizer has a subword prefix.
        of_bytes: with byte fallback, the tokens of bytes, shape (256,); else None.

    """

    inner: NDArray[np.uint32]
    last: NDArray[np.uint32]
    mark: int
    first: NDArray[np.uint32]
    only: NDArray[np.uint32]
    of_bytes: NDArray[np.uint32] | None

    @property
    def tables(self) -> tuple[NDArray[np.uint32], ...]:
        """All tables of symbols, and the mark: all tokens that single symbols become."""
        own = (self.inner, self.last, self.first, self.only, np.array([self.mark], dtype=np.uint32))
        return own if self.of_bytes is None else (*own, self.of_bytes)


def word_symbols(spec: TokenizerSpec) -> WordSymbols:
    """The tokens of the symbols of a tokenizer."""
    inner, last, mark = symbol_tables(spec)
    first, only = inner, last
    if spec.subword_prefix:
        first, only = symbol_tables(spec, prefixed=False)[:2]
    of_bytes = _byte_tokens(spec) if spec.byte_fallback else None
    return WordSymbols(inner, last, mark, first, only, of_bytes)


def symbol_tables(spec: TokenizerSpec, *, prefixed: bool = True) -> tuple[NDArray[np.uint32], NDArray[np.uint32], int]:
    """The tokens of single symbols.

    Returns:
        (table of the symbols inside a word, table of the last symbol of a word, token of the mark). The tables are
        uint32 arrays indexed by byte or code point. The third is the token of an end-of-word mark that is a symbol of
        its own. NO_TOKEN stands for no token. With a subword prefix, they are those of symbols after the first one of a
        word; without `prefixed`, those of the first one.

    """
    mark = b"" if spec.end_of_word is None else spec.end_of_word.encode()
    prefix = (spec.subword_prefix or "").encode() if prefixed else b""
    if spec.model == "char" and not mark and not prefix and (table := _table_of_characters(spec)) is not None:
        return table, table, NO_TOKEN
    glued = spec.end_of_word_glued
    ends_word = spec.ends_word if spec.ends_word is not None else np.zeros(spec.vocabulary.limit, dtype=np.bool_)
    inner: dict[int, int] = {}
    last: dict[int, int] = {}
    longest = (1 if spec.model == "byte" else 4) + len(mark) + len(prefix)  # bytes of a symbol
    tokens = {token: number for number, token in _own_tokens(spec, longest)}
    for token, number in tokens.items():
        if not token.startswith(prefix):
            continue
        symbol = token[len(prefix) :]
        if spec.subword_prefix:  # a token may be two symbols, with and without the mark
            roles = [(inner, symbol), (last, symbol.removesuffix(mark))] if symbol.endswith(mark) else [(inner, symbol)]
        elif mark and ends_word[number]:
            roles = [(last, symbol[: len(symbol) - len(mark)])]
        else:
            roles = [(inner, symbol)]
        for table_of_role, text in roles:
            code = _symbol_code(text, spec.model == "char")
            if code is not None:
                table_of_role[code] = number
    size = 256 if spec.model == "byte" else max([0, *inner, *last]) + 1
    tables = []
    for codes in (inner, last if glued else inner):
        table = np.full(size, NO_TOKEN, dtype=np.uint32)
        table[list(codes)] = list(codes.values())
        tables.append(table)
    own_mark = tokens.get(mark, NO_TOKEN) if mark and not glued else NO_TOKEN
    return tables[0], tables[1], own_mark


def _own_tokens(spec: TokenizerSpec, longest: int) -> Iterator[tuple[int, bytes]]:
    """(id, bytes) of the tokens that text can spell, of at most `longest` bytes."""
    yield from spec.vocabulary.items(ORDINARY, longest)
    for number in spec.text_specials:
        token = spec.vocabulary[number]
        if len(token) <= longest:
            yield number, token


def _byte_tokens(spec: TokenizerSpec) -> NDArray[np.uint32]:
    """The tokens of bytes, by byte. Of the ordinary tokens, only those that begin as these do become objects."""
    vocabulary = spec.vocabulary
    numbers = np.flatnonzero((vocabulary.kinds == ORDINARY) & (vocabulary.lengths == len(BYTE_NAMES[0])))
    first = np.frombuffer(vocabulary.blob, dtype=np.uint8)[vocabulary.offsets[numbers]]
    numbers = numbers[first == ord(BYTE_NAMES[0][0])]
    tokens = {vocabulary[number]: number for number in [*numbers.tolist(), *spec.text_specials]}
    return np.array([tokens.get(name.encode(), NO_TOKEN) for name in BYTE_NAMES], dtype=np.uint32)


def _table_of_characters(spec: TokenizerSpec) -> NDArray[np.uint32] | None:
    """The tokens that are one character, by code point; None if the vocabulary is not UTF-8.

    A large vocabulary has many short tokens, so no object is created for each.
    """
    vocabulary = spec.vocabulary
    blob = np.frombuffer(vocabulary.blob, dtype=np.uint8)
    numbers = np.flatnonzero((vocabulary.kinds == ORDINARY) & (vocabulary.lengths <= 4))
    starts, lengths = vocabulary.offsets[numbers], vocabulary.lengths[numbers].astype(np.int64)
    first = blob[starts]
    single = lengths == 1 + (first >= 0xC0).astype(np.int64) + (first >= 0xE0) + (first >= 0xF0)
    numbers, starts, lengths = numbers[single], starts[single], lengths[single]
    inside = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    try:
        characters = blob[np.repeat(starts, lengths) + inside].tobytes().decode()
        codes = np.frombuffer(characters.encode("utf-32-le"), dtype=np.uint32)
    except UnicodeError:
        return None
    if len(codes) != len(numbers):
        return None
    special = [(ord(text), number) for number in spec.text_specials if len(text := vocabulary[number].decode()) == 1]
    table = np.full(max([0, int(codes.max(initial=0)), *(code for code, _ in special)]) + 1, NO_TOKEN, dtype=np.uint32)
    table[codes] = numbers
    for code, number in special:
        table[code] = number
    return table


def _symbol_code(symbol: bytes, chars: bool) -> int | None:
    """The byte or code point of a token that is a single symbol; None for other tokens."""
    if not chars:
        return symbol[0] if len(symbol) == 1 else None
    if not 1 <= len(symbol) <= 4:
        return None
    try:
        text = symbol.decode()
    except UnicodeDecodeError:
        return None
    return ord(text) if len(text) == 1 else None
