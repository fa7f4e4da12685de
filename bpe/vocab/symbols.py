"""Which tokens single symbols are, and the unknown token: what merging starts from.

Not here: the alphabet of a training (`bpe/training/alphabet.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY


def unk_id(spec: TokenizerSpec) -> int:
    """The id of the unknown token, which the spec has."""
    assert spec.unk_token is not None
    if spec.unk_token in spec.special_tokens:
        return spec.special_tokens[spec.unk_token]
    name = spec.unk_token.encode()
    for number, token in spec.vocabulary.items():
        if token == name:
            return number
    raise ValueError(f"unk_token {spec.unk_token!r} is not in the vocabulary; it must be there as a special token")


def symbol_tables(spec: TokenizerSpec) -> tuple[NDArray[np.uint32], NDArray[np.uint32], int]:
    """The tokens that single symbols are.

    Returns:
        (uint32 by byte or code point: the token of a symbol before the last place of a word; the same for the last
        place; the token of a mark that is a symbol of its own). NO_TOKEN where there is none.

    """
    mark = b"" if spec.end_of_word is None else spec.end_of_word.encode()
    glued = spec.end_of_word_glued
    marked_is_token = spec.ends_word if spec.ends_word is not None else np.zeros(spec.vocabulary.limit, dtype=np.bool_)
    inner: dict[int, int] = {}
    last: dict[int, int] = {}
    most = (1 if spec.model == "byte" else 4) + len(mark)  # bytes of a symbol
    tokens = {token: number for number, token in spec.vocabulary.items(ORDINARY, most)}
    for token, number in tokens.items():
        marked = bool(mark) and bool(marked_is_token[number])
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
    """The byte or code point that a token is, if it is a single one."""
    if not chars:
        return symbol[0] if len(symbol) == 1 else None
    if not 1 <= len(symbol) <= 4:
        return None
    try:
        text = symbol.decode()
    except UnicodeDecodeError:
        return None
    return ord(text) if len(text) == 1 else None
