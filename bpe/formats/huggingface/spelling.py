"""How a tokenizer.json spells tokens, and which tokenizers `tokenizers` can express."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import Metaspace
from bpe.text.letters import map_letters_to_bytes, read_letters, spell_token_in_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import BYTE_NAMES, find_unk_id, find_word_symbols
from bpe.vocab.vocabulary import AFTER_MERGING, NO_TOKEN, ORDINARY, SPECIAL, Vocabulary, has_text_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.text.normalizers import Normalizer


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


def spell_token(model: str, token: str) -> bytes:
    """Return the bytes of an ordinary token in a file; ValueError for a character that is no letter of GPT-2's."""
    if model == "char" or (token.isascii() and token.isprintable() and " " not in token):
        return token.encode()
    return read_letters(token)


def spell_all(model: str, names: Iterable[str]) -> list[bytes]:
    """Return for each name the bytes of the ordinary token that a file spells like it; b"" if there is none."""
    names = list(names)
    all_letters = "".join(names)
    if model == "char" or (all_letters.isascii() and all_letters.isprintable() and " " not in all_letters):
        return list(map(str.encode, names))  # `spell_token` for each of 100,000 names takes five times as long
    return [spell_token(model, name) if map_letters_to_bytes().keys() >= set(name) else b"" for name in names]


def map_special_ids(spec: TokenizerSpec) -> dict[int, str]:
    """Map the ids of the special tokens to their names."""
    return {token_id: name for name, token_id in spec.special_tokens.items()}


def _map_all_special_ids(spec: TokenizerSpec) -> dict[int, str]:
    """Map the ids of the special tokens and the unknown token to their names."""
    unk = {} if spec.unk_token is None else {find_unk_id(spec): spec.unk_token}
    return {**map_special_ids(spec), **unk}


def find_ordinary_names(spec: TokenizerSpec) -> dict[int, str]:
    """Find the special tokens, and the unknown token, that are ordinary tokens too, by id: text can become them."""
    special_names = _map_all_special_ids(spec)
    token_ids = np.array(list(special_names), dtype=np.int64)
    ordinary_ids = token_ids[spec.vocabulary.kinds[token_ids] == ORDINARY].tolist()
    return {token_id: special_names[token_id] for token_id in ordinary_ids}


def is_outside_letters(spec: TokenizerSpec, name: str) -> bool:
    """Whether encoding never produces this token: it is neither special nor spelled in GPT-2's letters."""
    is_special = name in spec.special_tokens or name == spec.unk_token
    return spec.model == "byte" and not is_special and not map_letters_to_bytes().keys() >= set(name)


# What `tokenizers` can express ----------------------------------------------------------------------------------------


def explain_difference(spec: TokenizerSpec, *, has_distinct_names: bool = False) -> str | None:
    """Say why Hugging Face's BPE model would give other ids than this tokenizer; None if the ids are equal.

    `has_distinct_names`: no special token is spelled like an ordinary one, as in every tokenizer read from a file.
    """
    if spec.clip is not None:
        return "it has the start and end token of CLIP's tokenize"
    if spec.word_merges is not None:
        return "it has merges across words (BoundlessBPE)"
    if spec.events is not None:
        return "it deletes tokens between merges (PickyBPE)"
    if spec.merge_ranks is not None:
        return "several of its merges share a rank"
    if spec.drop_unknown == AFTER_MERGING:
        return "it leaves out bytes without a token after merging, tokenizers before"
    end_of_word = None if spec.end_of_word is None else spell_end_of_word(spec)
    if end_of_word is not None:
        if not spec.end_of_word_glued:
            return "its end-of-word mark is a symbol of its own"
        if spec.ignore_merges and spec.model == "byte":
            return (
                "it has ignore_merges and an end-of-word mark: this package looks words up with the mark, tokenizers "
                "without"
            )
        if list_irregular_word_ends(spec) is not None:
            return "its tokens that end words are not those that end with the mark"
    if has_distinct_names:
        return None
    dual_names = find_ordinary_names(spec)
    names = {token_id: name for token_id, name in _map_all_special_ids(spec).items() if token_id not in dual_names}
    token_of = dict(zip(names.values(), spell_all(spec.model, names.values()), strict=True))
    ordinary_ids = spec.vocabulary.find_ids({token for token in token_of.values() if token})
    shared_names = [name for name, token in token_of.items() if token in ordinary_ids] if ordinary_ids else []
    if shared_names:
        return f"its special token {min(shared_names)!r} is spelled like an ordinary token"
    outside_vocab = find_outside_vocab(spec)
    if not spec.fuse_unk and not spec.ignore_merges and spec.unk_token is not None:
        outside_vocab.add(find_unk_id(spec))  # its text becomes the unknown token in either case
    possible_names = [
        name for token_id, name in names.items() if token_id not in outside_vocab and can_be_text(spec, name)
    ]
    return f"ordinary text can spell its special or unknown token {min(possible_names)!r}" if possible_names else None


def has_all_bytes(spec: TokenizerSpec) -> bool:
    """Whether every byte has a token.

    Then no symbol is unknown: one outside a character model's alphabet becomes byte tokens.
    """
    symbols = find_word_symbols(spec)
    tables = (symbols.inner_ids, symbols.last_ids) if spec.model == "byte" else (symbols.byte_ids,)
    return not any(table is None or NO_TOKEN in table for table in tables)


def can_be_text(spec: TokenizerSpec, name: str) -> bool:
    """Whether ordinary text can become this special token without a merge.

    It can if the token is one symbol, or a whole word with `ignore_merges`.
    """
    if spec.model == "byte" and not _list_text_letters() >= set(name):
        return False  # the model sees only GPT-2's letters of the bytes that text has
    prefix, mark = spec.subword_prefix or "", "" if spec.end_of_word is None else spell_end_of_word(spec)
    stems = {name, name.removeprefix(prefix), name.removesuffix(mark), name.removeprefix(prefix).removesuffix(mark)}
    if any(len(end) == 1 for end in stems) or (spec.byte_fallback and name in BYTE_NAMES):
        return True
    return spec.ignore_merges and (spec.model == "char" or _may_be_word(spec, name))


def find_outside_vocab(spec: TokenizerSpec) -> set[int]:
    """Find the special tokens that the vocab of a file must lack, so that their text does not become them.

    `tokenizers` numbers such tokens after the vocab; none where these have other ids.
    """
    kinds = spec.vocabulary.kinds
    special_names = {
        token_id: name
        for name, token_id in spec.special_tokens.items()
        if kinds[token_id] == SPECIAL and name != spec.unk_token
    }
    first_id = min(
        (token_id for token_id, name in special_names.items() if can_be_text(spec, name)), default=spec.vocabulary.limit
    )
    outside_vocab = {token_id for token_id in special_names if token_id >= first_id}
    if outside_vocab != set(range(len(spec.vocabulary) - len(outside_vocab), len(spec.vocabulary))):
        return set()
    return set() if np.isin(spec.merges, list(outside_vocab)).any() else outside_vocab


def _may_be_word(spec: TokenizerSpec, name: str) -> bool:
    """Whether a word may be spelled like a special token, although special tokens are split off first.

    False for an ASCII name that is split off wherever it occurs, if no normalizer or pretokenizer can produce it.
    """
    return (
        spec.end_of_word is not None
        or not name.isascii()
        or name not in spec.special_tokens
        or "single_word" in spec.token_flags.get(name, ())
        or not _makes_no_ascii_words(spec.normalizer)
        or _replaces_spaces_by_ascii(spec.pretokenizer)
    )


def _replaces_spaces_by_ascii(pretokenizer: Pretokenizer | None) -> bool:
    """Whether a pretokenizer replaces white space by another ASCII character."""
    steps = pretokenizer.steps if isinstance(pretokenizer, PipelinePretokenizer) else ()
    return any(isinstance(step, Metaspace) and step.replacement.isascii() for step in steps)


@cache
def _list_text_letters() -> frozenset[str]:
    """List GPT-2's letters of the bytes that UTF-8 has."""
    return frozenset(
        letter for letter, byte in map_letters_to_bytes().items() if byte not in (0xC0, 0xC1) and byte < 0xF5
    )


def _makes_no_ascii_words(normalizer: Normalizer | None) -> bool:
    """Whether a normalizer never turns other text into two or more ASCII characters."""
    if normalizer is None:
        return True
    from bpe.text import normalizers

    return isinstance(normalizer, (normalizers.NFC, normalizers.NFD))
