"""How a tokenizer.json spells tokens, and which ids in it are valid."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bpe.errors import FormatError, shown
from bpe.vocab.byte_letters import letter_bytes, to_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import unk_id
from bpe.vocab.vocabulary import ID_LIMIT, ORDINARY, Vocabulary, spelled_at


def known_id(number: object, where: str, vocabulary: Vocabulary) -> int:
    """Return `number` if it is the id of a token; raise FormatError otherwise."""
    if token_id(number, where) not in vocabulary:
        raise FormatError(f"no token has the id {number}; it must be the id of a token", where=where)
    assert isinstance(number, int)
    return number


def token_id(value: object, where: str) -> int:
    """Return `value` if it is a valid id; raise FormatError otherwise."""
    if type(value) is not int or not 0 <= value < ID_LIMIT:
        raise FormatError(f"{shown(value)} is not a token id; it must be an int from 0 to {ID_LIMIT - 1}", where=where)
    return value


@cache
def byte_by_letter() -> NDArray[np.int16]:
    """UTF-16 code unit → byte whose GPT-2 letter it is, or -1."""
    table = np.full(1 << 16, -1, dtype=np.int16)
    for letter, byte in letter_bytes().items():
        table[ord(letter)] = byte
    return table


def ending(vocabulary: Vocabulary, mark: str, glued: bool) -> NDArray[np.bool_]:
    """Which ordinary tokens end with the mark: bool, one per id.

    A mark that is glued to symbols is never a token by itself, so a token that is spelled like the mark is text.
    """
    tail, lengths = mark.encode(), vocabulary.lengths
    starts = vocabulary.offsets[1:] - len(tail)
    found: NDArray[np.bool_] = (vocabulary.kinds == ORDINARY) & (lengths >= len(tail) + glued)
    found[found] = spelled_at(np.frombuffer(vocabulary.blob, np.uint8), starts[found], lengths[found], tail)
    return found


def odd_ends(spec: TokenizerSpec) -> list[int] | None:
    """The ids of the tokens that end words; None if these are exactly the tokens that `ending` finds."""
    if spec.ends_word is None or np.array_equal(
        spec.ends_word, ending(spec.vocabulary, spec.end_of_word or "", spec.end_of_word_glued)
    ):
        return None
    return [int(number) for number in np.flatnonzero(spec.ends_word)]


def mark_text(spec: TokenizerSpec) -> str:
    """The spelling of the end-of-word mark in a file: in GPT-2's letters for a byte model."""
    mark = spec.end_of_word or ""
    return to_letters(mark.encode()) if spec.model == "byte" else mark


def from_text(model: str, token: str) -> bytes:
    """The bytes of an ordinary token in a file; ValueError for a character that is not one of GPT-2's letters."""
    if model == "char" or (token.isascii() and token.isprintable() and " " not in token):
        return token.encode()
    return token.translate(_BYTE_OF).encode("latin-1")


def spelled_all(model: str, names: Iterable[str]) -> list[bytes]:
    """For each name, the bytes of the ordinary token that a file would spell like it; b"" if there is none."""
    names = list(names)
    joined = "".join(names)
    if model == "char" or (joined.isascii() and joined.isprintable() and " " not in joined):
        return list(map(str.encode, names))  # `from_text` for each of 100,000 names takes five times as long
    return [from_text(model, name) if letter_bytes().keys() >= set(name) else b"" for name in names]


# Latin-1 characters that are not GPT-2 letters map to U+FFFF, so that encoding them as Latin-1 fails.
_BYTE_OF = dict.fromkeys(range(256), "\uffff") | {ord(letter): chr(byte) for letter, byte in letter_bytes().items()}


def names_by_id(spec: TokenizerSpec) -> dict[int, str]:
    """Id → name of the special tokens."""
    return {number: name for name, number in spec.special_tokens.items()}


def named_specials(spec: TokenizerSpec) -> dict[int, str]:
    """Id → name of the special tokens and the unknown token."""
    unk = {} if spec.unk_token is None else {unk_id(spec): spec.unk_token}
    return {**names_by_id(spec), **unk}


def ordinary_names(spec: TokenizerSpec) -> dict[int, str]:
    """The special tokens, and the unknown token, that are ordinary tokens too, by id: text can become them."""
    named = named_specials(spec)
    numbers = np.array(list(named), dtype=np.int64)
    ordinary = numbers[spec.vocabulary.kinds[numbers] == ORDINARY].tolist()
    return {number: named[number] for number in ordinary}


def is_unspelled(spec: TokenizerSpec, name: str) -> bool:
    """Whether encoding never produces this token: it is neither special nor spelled in GPT-2's letters."""
    named = name in spec.special_tokens or name == spec.unk_token
    return spec.model == "byte" and not named and not letter_bytes().keys() >= set(name)
