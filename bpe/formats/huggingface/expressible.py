"""What of a tokenizer Hugging Face's `tokenizers` can express."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from bpe.formats.huggingface.normalizers import write_normalizer
from bpe.formats.huggingface.pretokenizers import write_pre_tokenizer
from bpe.formats.huggingface.spelling import mark_text, odd_ends, spelled_all
from bpe.text import normalizers as n
from bpe.text.unicode import normalized
from bpe.vocab.byte_letters import letter_bytes
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import word_symbols
from bpe.vocab.vocabulary import NO_TOKEN

#: Normalizers that make no longer ASCII text of other text.
_COMPOSING = (n.NFC, n.NFD, type(None))


def differs(spec: TokenizerSpec, *, distinct: bool = False) -> str | None:
    """The reason why Hugging Face's BPE model would give other ids than this tokenizer; None if the ids are equal.

    `distinct` says that no special token is spelled like an ordinary one, as in every tokenizer read from a file.
    """
    names = set(spec.special_tokens) | ({spec.unk_token} if spec.unk_token is not None else set())
    if spec.clip is not None:
        return "it has the start and end token of CLIP's tokenize"
    if spec.word_merges is not None:
        return "it has merges across words (BoundlessBPE)"
    if spec.events is not None:
        return "it deletes tokens between merges (PickyBPE)"
    if spec.merge_ranks is not None:
        return "several of its merges share a rank"
    mark = None if spec.end_of_word is None else mark_text(spec)
    if mark is not None:
        if not spec.end_of_word_glued:
            return "its end-of-word mark is a symbol of its own"
        if spec.ignore_merges and spec.model == "byte":
            return (
                "it has ignore_merges and an end-of-word mark: this package looks words up with the mark, tokenizers "
                "without"
            )
        if odd_ends(spec) is not None:
            return "its tokens that end words are not those that end with the mark"
    if not distinct:
        spelled = dict(zip(names, spelled_all(spec.model, names), strict=True))
        ordinary = spec.vocabulary.ordinary_among({token for token in spelled.values() if token})
        same = [name for name, token in spelled.items() if token in ordinary] if ordinary else []
        if same:
            return f"its special token {min(same)!r} is spelled like an ordinary token"
    if distinct and spec.model == "char":
        return None  # `text_specials` has the special tokens that text can spell
    if not spec.ignore_merges:  # then text can become only such a name that needs no merge
        names = {name for name in names if len(name.removesuffix(mark) if mark else name) == 1}
        names -= set() if spec.fuse_unk else {spec.unk_token}
    own = {spec.vocabulary[number].decode() for number in spec.text_specials}
    names -= own
    if spec.model == "byte" and mark is None and isinstance(spec.normalizer, _COMPOSING):  # most of many names
        names = {name for name in names if len(name) == 1 or not name.isascii() or name not in spec.special_tokens}
    occurring = [name for name in names if _may_occur(spec, name)]
    return f"ordinary text can spell its special or unknown token {min(occurring)!r}" if occurring else None


def has_all_bytes(spec: TokenizerSpec) -> bool:
    """Whether all bytes have tokens, which a symbol outside a character model's alphabet becomes: none is unknown."""
    symbols = word_symbols(spec)
    tables = (symbols.inner, symbols.last) if spec.model == "byte" else (symbols.of_bytes,)
    return not any(table is None or NO_TOKEN in table for table in tables)


def spelled_specials(spec: TokenizerSpec, names: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    """The ids of special tokens, of those in the model's vocab, that their text can become as ordinary text."""
    prefix, mark = spec.subword_prefix or "", spec.end_of_word or ""

    def is_symbol(name: str) -> bool:
        ends = {name, name.removeprefix(prefix), name.removesuffix(mark), name.removeprefix(prefix).removesuffix(mark)}
        return any(len(end) == 1 for end in ends)

    return tuple(sorted(number for name, number in names if spec.ignore_merges or is_symbol(name)))


def outside_vocab(spec: TokenizerSpec, names: Mapping[int, str]) -> set[int]:
    """The special tokens of a character model that its vocab must lack, so that their text does not become them.

    `tokenizers` numbers such tokens after the vocab; none where these have other ids, or are tokens of merges.
    """
    added = {name: number for number, name in names.items() if name in spec.special_tokens and name != spec.unk_token}
    spelled = set(spelled_specials(spec, added.items())) - set(spec.text_specials)
    found = {number for number in added.values() if number >= min(spelled, default=spec.vocabulary.limit)}
    first = len(spec.vocabulary) - len(found)
    if found != set(range(first, first + len(found))) or found.intersection(spec.text_specials):
        return set()
    return set() if np.isin(spec.merges, list(found)).any() else found


def unreadable(spec: TokenizerSpec) -> str | None:
    """The reason why `tokenizers` rejects the file of this tokenizer; None if it loads it."""
    reason = differs(spec)
    if reason is not None:
        return reason
    parts: list[Any] = [None if spec.normalizer is None else write_normalizer(spec.normalizer)]
    parts.append(write_pre_tokenizer(spec.model == "byte", spec.pretokenizer))
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            kind = str(part.get("type", ""))
            if kind.startswith("bpe."):
                what = "a pretokenizer pattern" if kind == "bpe.Regex" else f"the normalizer {kind[4:]}"
                return f"it has {what} that tokenizers cannot apply, or applies differently"
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return None


def _may_occur(spec: TokenizerSpec, name: str) -> bool:
    """Whether the model may see the spelling of a special token, although special tokens are split off first."""
    if spec.model == "byte" and not _text_letters() >= set(name):
        return False  # the model sees only GPT-2's letters of the bytes that text has
    if name not in spec.special_tokens or not isinstance(spec.normalizer, _COMPOSING):
        return True
    if spec.normalizer is not None and len(name) == 1 and name in _composed(type(spec.normalizer).__name__):
        return True
    if spec.end_of_word is not None and name.endswith(mark_text(spec)):
        return True
    return spec.model == "byte" and not name.isascii()


@cache
def _text_letters() -> frozenset[str]:
    """GPT-2's letters of the bytes that UTF-8 has."""
    return frozenset(letter for letter, byte in letter_bytes().items() if byte not in (0xC0, 0xC1) and byte < 0xF5)


@cache
def _composed(form: str) -> frozenset[str]:
    """The characters that normalization to NFC or NFD makes of other text: é of e and U+0301, K of the Kelvin sign."""
    decomposed = {chr(code): normalized("NFD", chr(code)) for code in range(sys.maxunicode + 1)}
    changed = {char: text for char, text in decomposed.items() if text != char}
    if form == "NFD":
        return frozenset("".join(changed.values()))
    return frozenset(normalized("NFC", char) for char in changed)
