"""The tokens of single symbols, and the unknown token. Merging starts from these.

Not here: the alphabet of a training (`bpe/training/alphabet.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY


def unk_id(spec: TokenizerSpec) -> int:
    """The id of the unknown token; the spec must have one."""
    assert spec.unk_token is not None
    if spec.unk_token in spec.special_tokens:
        return spec.special_tokens[spec.unk_token]
    name = spec.unk_token.encode()
    for number, token in spec.vocabulary.items():
        if token == name:
            return number
    raise ValueError(f"unk_token {spec.unk_token!r} is not in the vocabulary; add it as a special token")


def symbol_tables(spec: TokenizerSpec) -> tuple[NDArray[np.uint32], NDArray[np.uint32], int]:
    """The tokens of single symbols.

    Returns:
        (table of the symbols inside a word, table of the last symbol of a word, token of the mark). The tables are
        uint32 arrays indexed by byte or code point. The third is the token of an end-of-word mark that is a symbol of
        its own. NO_TOKEN stands for no token.

    """
    mark = b"" if spec.end_of_word is None else spec.end_of_word.encode()
    glued = spec.end_of_word_glued
    ends_word = spec.ends_word if spec.ends_word is not None else np.zeros(spec.vocabulary.limit, dtype=np.bool_)
    inner: dict[int, int] = {}
    last: dict[int, int] = {}
    longest = (1 if spec.model == "byte" else 4) + len(mark)  # bytes of a symbol
    tokens = {token: number for number, token in spec.vocabulary.items(ORDINARY, longest)}
    for token, number in tokens.items():
        marked = bool(mark) and bool(ends_word[number])
        code = _symbol_code(token[: len(token) - len(mark)] if marked else token, spec.model == "char")
        if code is not None:
            (last if marked else inner)[code] = number
    size = 256 if spec.model == "byte" else max([0, *inner, *last]) + 1
    tables = []
    for codes in (inner, last if glued else inner):
        table = np.full(size, NO_TOKEN, dtype=np.uint32)
        table[list(codes)] = list(codes.values())
        tables.append(table)
    own_mark = tokens.get(mark, NO_TOKEN) if mark and not glued else NO_TOKEN
    return tables[0], tables[1], own_mark


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
