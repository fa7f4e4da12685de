"""How a tokenizer.json spells tokens and the end-of-word mark."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bpe.text.letters import map_letters_to_bytes, read_letters, spell_token_in_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import find_unk_id
from bpe.vocab.vocabulary import ORDINARY, Vocabulary, has_text_at

if TYPE_CHECKING:
    from numpy.typing import NDArray


@cache
def build_letter_table() -> NDArray[np.int16]:
    """Build the table from UTF-16 code units to the bytes whose GPT-2 letters they are, or -1."""
    table = np.full(1 << 16, -1, dtype=np.int16)
    for letter, byte in map_letters_to_bytes().items():
        table[ord(letter)] = byte
    return table


def find_word_ends(vocabulary: Vocabulary, mark: str, is_glued: bool) -> NDArray[np.bool_]:
    """Find the ordinary tokens that end with the mark: bool, one per id.

    A mark that is glued to symbols is never a token by itself, so a token that is spelled like the mark is text.
    """
    suffix, lengths = mark.encode(), vocabulary.lengths
    starts = vocabulary.offsets[1:] - len(suffix)
    ends_word: NDArray[np.bool_] = (vocabulary.kinds == ORDINARY) & (lengths >= len(suffix) + is_glued)
    ends_word[ends_word] = has_text_at(
        np.frombuffer(vocabulary.blob, np.uint8), starts[ends_word], lengths[ends_word], suffix
    )
    return ends_word


def list_irregular_word_ends(spec: TokenizerSpec) -> list[int] | None:
    """List the ids of the tokens that end words; None if `find_word_ends` finds exactly these tokens."""
    if spec.ends_word is None or np.array_equal(
        spec.ends_word, find_word_ends(spec.vocabulary, spec.end_of_word or "", spec.end_of_word_glued)
    ):
        return None
    return [int(token_id) for token_id in np.flatnonzero(spec.ends_word)]


def spell_end_of_word(spec: TokenizerSpec) -> str:
    """Spell the end-of-word mark as in a file: in GPT-2's letters for a byte model."""
    mark = spec.end_of_word or ""
    return spell_token_in_letters(mark.encode()) if spec.model == "byte" else mark


def read_spelling(symbol_type: str, token: str) -> bytes:
    """Return the bytes of an ordinary token in a file; ValueError for a character that is no letter of GPT-2's."""
    if symbol_type == "char" or (token.isascii() and token.isprintable() and " " not in token):
        return token.encode()
    return read_letters(token)


def read_spellings(symbol_type: str, names: Iterable[str]) -> list[bytes]:
    """Return for each name the bytes of the ordinary token that a file spells like it; b"" if there is none."""
    names = list(names)
    all_letters = "".join(names)
    if symbol_type == "char" or (all_letters.isascii() and all_letters.isprintable() and " " not in all_letters):
        return list(map(str.encode, names))  # `read_spelling` for each of 100,000 names takes five times as long
    return [read_spelling(symbol_type, name) if map_letters_to_bytes().keys() >= set(name) else b"" for name in names]


def map_special_ids(spec: TokenizerSpec) -> dict[int, str]:
    """Map the ids of the special tokens to their names."""
    return {token_id: name for name, token_id in spec.special_tokens.items()}


def map_all_special_ids(spec: TokenizerSpec) -> dict[int, str]:
    """Map the ids of the special tokens and the unknown token to their names."""
    unk = {} if spec.unk_token is None else {find_unk_id(spec): spec.unk_token}
    return {**map_special_ids(spec), **unk}


def find_dual_names(spec: TokenizerSpec) -> dict[int, str]:
    """Find the special tokens, and the unknown token, that are ordinary tokens too, by id: text can become them."""
    special_names = map_all_special_ids(spec)
    token_ids = np.array(list(special_names), dtype=np.int64)
    ordinary_ids = token_ids[spec.vocabulary.kinds[token_ids] == ORDINARY].tolist()
    return {token_id: special_names[token_id] for token_id in ordinary_ids}


def is_never_encoded(spec: TokenizerSpec, name: str) -> bool:
    """Whether encoding never produces this token: it is neither special nor spelled in GPT-2's letters."""
    is_special = name in spec.special_tokens or name == spec.unk_token
    return spec.model == "byte" and not is_special and not map_letters_to_bytes().keys() >= set(name)
