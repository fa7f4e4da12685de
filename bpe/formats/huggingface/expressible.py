"""Which tokenizers Hugging Face's `tokenizers` can express, and why it cannot express others."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.encode.engine import Engine
from bpe.formats.huggingface.spelling import (
    find_dual_names,
    list_irregular_word_ends,
    map_all_special_ids,
    read_spellings,
    spell_end_of_word,
)
from bpe.formats.huggingface.steps import find_default_steps, write_normalizer, write_pre_tokenizer
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import Metaspace
from bpe.text.character_sets import WHITE_SPACE
from bpe.text.letters import map_letters_to_bytes
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import BYTE_NAMES, find_word_symbols
from bpe.vocab.vocabulary import AFTER_MERGING, NO_TOKEN, ORDINARY, SPECIAL, Vocabulary

if TYPE_CHECKING:
    from bpe.text.normalizers import Normalizer

CL100K, LLAMA3 = Pretokenizer("cl100k"), Pretokenizer("llama3")
#: The bytes of white space, and of white space that is no newline, as in the patterns of both.
_WHITE_SPACE = bytes({*WHITE_SPACE.encode()})
_BLANKS = bytes({*WHITE_SPACE.encode()} - {*b"\r\n"})
#: The type of a step that only models of sentencepiece have → why `tokenizers` cannot apply it.
_REASONS = {
    **dict.fromkeys(
        ("bpe.CharacterMap", "bpe.CharacterMapBeside"),
        "it has a character map of sentencepiece, which tokenizers applies to graphemes, and sentencepiece to the text",
    ),
    "bpe.DummyPrefix": "it puts a space before a text, but not before the user-defined pieces that it seeks, nor after "
    "a character map has left nothing of a text; tokenizers does",
}


def explain_different_ids(spec: TokenizerSpec, *, has_distinct_names: bool = False) -> str | None:
    """Say why Hugging Face's BPE model would give other ids than this tokenizer; None if the ids are equal.

    `has_distinct_names`: no special token is spelled like an ordinary one, as in every tokenizer read from a file.
    """
    if spec.clip is not None:
        return "it has the start and end token of CLIP's tokenize"
    if spec.n_merges_within_words is not None:
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
    dual_names = find_dual_names(spec)
    names = {token_id: name for token_id, name in map_all_special_ids(spec).items() if token_id not in dual_names}
    token_by_name = dict(zip(names.values(), read_spellings(spec.model, names.values()), strict=True))
    ordinary_ids = spec.vocabulary.find_ids({token for token in token_by_name.values() if token})
    ambiguous_names = [name for name, token in token_by_name.items() if token in ordinary_ids] if ordinary_ids else []
    if ambiguous_names:
        return f"its special token {min(ambiguous_names)!r} is spelled like an ordinary token"
    outside_vocab = find_ids_left_out_of_vocab(spec)
    possible_names = [
        name for token_id, name in names.items() if token_id not in outside_vocab and can_be_text(spec, name)
    ]
    return f"ordinary text can spell its special or unknown token {min(possible_names)!r}" if possible_names else None


def explain_refusal(spec: TokenizerSpec) -> str | None:
    """Say why `tokenizers` cannot load this tokenizer's file; None if it can."""
    reason = explain_different_ids(spec)
    if reason is not None:
        return reason
    parts: list[Any] = [write_normalizer(spec.normalizer), write_pre_tokenizer(spec.model == "byte", spec.pretokenizer)]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            type_name = str(part.get("type", ""))
            if type_name in _REASONS:
                return _REASONS[type_name]
            if type_name.startswith("bpe."):
                step = "a pretokenizer pattern" if type_name == "bpe.Regex" else f"the normalizer {type_name[4:]}"
                return f"it has {step} that tokenizers cannot apply, or applies differently"
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return None


def gives_ids_of_llama3(spec: TokenizerSpec) -> bool:
    """Whether a tokenizer whose pattern is cl100k gives the same ids with Llama 3's, which other programs know.

    Of white space that ends a text, Llama 3's makes two pretokens, divided after the last newline; cl100k makes one.
    Ids are the same if no token reaches across, and if merging makes each token of white space that is looked up.

    The tokenizer must be one of which `explain_different_ids` gives None.
    """
    if spec.pretokenizer != CL100K or spec.model != "byte" or not has_all_bytes(spec):
        return False
    if spec.end_of_word is not None or spec.dropout:
        return False
    vocabulary, newlines = spec.vocabulary, np.isin(np.frombuffer(spec.vocabulary.blob, np.uint8), list(b"\r\n"))
    starts = np.flatnonzero(newlines) + 1
    ends = vocabulary.offsets[np.searchsorted(vocabulary.offsets, starts - 1, side="right")]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if start < end and not vocabulary.blob[start:end].strip(_BLANKS):
            return False
    if not spec.ignore_merges or (spec.unmerged is not None and not len(spec.unmerged)):
        return True
    engine = Engine(replace(spec, ignore_merges=False, unmerged=None))
    tokens = ((token_id, token) for token_id, token in vocabulary.items(ORDINARY) if not token.strip(_WHITE_SPACE))
    return all(engine.encode_pretoken(token) == [token_id] for token_id, token in tokens)


def has_all_bytes(spec: TokenizerSpec) -> bool:
    """Whether every byte has a token.

    Then no symbol is unknown: one outside a character model's alphabet becomes byte tokens.
    """
    symbols = find_word_symbols(spec)
    tables = (symbols.inner_ids, symbols.last_ids) if spec.model == "byte" else (symbols.byte_ids,)
    return not any(table is None or NO_TOKEN in table for table in tables)


def can_be_text(spec: TokenizerSpec, name: str) -> bool:
    """Whether ordinary text can become this special token without a merge.

    It can if the token is one symbol, or a whole word with `ignore_merges`, unless `_is_unknown_anyway`.
    """
    if _is_unknown_anyway(spec, name):
        return False
    if spec.model == "byte" and not _list_text_letters() >= set(name):
        return False  # the model sees only GPT-2's letters of the bytes that text has
    prefix, mark = spec.subword_prefix or "", "" if spec.end_of_word is None else spell_end_of_word(spec)
    stems = {name, name.removeprefix(prefix), name.removesuffix(mark), name.removeprefix(prefix).removesuffix(mark)}
    if any(len(end) == 1 for end in stems) or (spec.byte_fallback and name in BYTE_NAMES):
        return True
    return spec.ignore_merges and (spec.model == "char" or _may_be_word(spec, name))


def _is_unknown_anyway(spec: TokenizerSpec, name: str) -> bool:
    """Whether this is the unknown token, and its text gives its id whether or not it is also an ordinary token.

    A special and an ordinary token then give equal results, and the files of both are equal: it is read as special.
    """
    if name != spec.unk_token or spec.fuse_unk or spec.ignore_merges or spec.byte_fallback:
        return False
    if spec.end_of_word is not None and name.endswith(spell_end_of_word(spec)):
        return False  # an ordinary token is decoded without the mark
    return spec.model == "char" or (name.isascii() and name.isprintable())


def settle(spec: TokenizerSpec) -> TokenizerSpec:
    """Give a tokenizer that has lost tokens the fields with which its tokenizer.json is read; no id or text changes."""
    spec = _settle_special_tokens(spec)
    if spec.decoder is not None and spec.decoder == find_default_steps(spec):
        return replace(spec, decoder=None)
    return spec


def _settle_special_tokens(spec: TokenizerSpec) -> TokenizerSpec:
    """Make the special tokens that text can no longer become special alone."""
    merged_ids = {*spec.merges.ravel().tolist(), *spec.merge_results.tolist()}
    names = {
        token_id: name
        for token_id, name in find_dual_names(spec).items()
        if token_id not in merged_ids and not can_be_text(spec, name)
    }
    if not names:
        return spec
    ends_word, vocabulary = spec.ends_word, spec.vocabulary
    if ends_word is not None:
        ends_word = ends_word.copy()
        ends_word[list(names)] = False
    ordinary_tokens = ((token_id, token) for token_id, token in vocabulary.items(ORDINARY) if token_id not in names)
    special_tokens = dict(vocabulary.items(SPECIAL)) | {token_id: name.encode() for token_id, name in names.items()}
    return replace(spec, vocabulary=Vocabulary(ordinary_tokens, special_tokens.items()), ends_word=ends_word)


def find_ids_left_out_of_vocab(spec: TokenizerSpec) -> set[int]:
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
