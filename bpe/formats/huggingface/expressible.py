"""What of a tokenizer Hugging Face's `tokenizers` can express."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.formats.huggingface.spelling import mark_text, named_specials, odd_ends, ordinary_names, spelled_all
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import Metaspace
from bpe.vocab.byte_letters import letter_bytes
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import BYTE_NAMES, unk_id, word_symbols
from bpe.vocab.vocabulary import AFTER_MERGING, NO_TOKEN, SPECIAL

if TYPE_CHECKING:
    from bpe.text.normalizers import Normalizer


def differs(spec: TokenizerSpec, *, distinct: bool = False) -> str | None:
    """The reason why Hugging Face's BPE model would give other ids than this tokenizer; None if the ids are equal.

    `distinct` says that no special token is spelled like an ordinary one, as in every tokenizer read from a file.
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
    if distinct:
        return None
    own = ordinary_names(spec)
    names = {number: name for number, name in named_specials(spec).items() if number not in own}
    spelled = dict(zip(names.values(), spelled_all(spec.model, names.values()), strict=True))
    ordinary = spec.vocabulary.find_ids({token for token in spelled.values() if token})
    same = [name for name, token in spelled.items() if token in ordinary] if ordinary else []
    if same:
        return f"its special token {min(same)!r} is spelled like an ordinary token"
    outside = outside_vocab(spec)
    if not spec.fuse_unk and not spec.ignore_merges and spec.unk_token is not None:
        outside.add(unk_id(spec))  # its text becomes the unknown token in either case
    occurring = [name for number, name in names.items() if number not in outside and can_be_text(spec, name)]
    return f"ordinary text can spell its special or unknown token {min(occurring)!r}" if occurring else None


def has_all_bytes(spec: TokenizerSpec) -> bool:
    """Whether all bytes have tokens, which a symbol outside a character model's alphabet becomes: none is unknown."""
    symbols = word_symbols(spec)
    tables = (symbols.inner, symbols.last) if spec.model == "byte" else (symbols.of_bytes,)
    return not any(table is None or NO_TOKEN in table for table in tables)


def can_be_text(spec: TokenizerSpec, name: str) -> bool:
    """Whether text can become a special token of the model's vocab without a merge: a symbol, or a word."""
    if spec.model == "byte" and not _text_letters() >= set(name):
        return False  # the model sees only GPT-2's letters of the bytes that text has
    prefix, mark = spec.subword_prefix or "", "" if spec.end_of_word is None else mark_text(spec)
    ends = {name, name.removeprefix(prefix), name.removesuffix(mark), name.removeprefix(prefix).removesuffix(mark)}
    if any(len(end) == 1 for end in ends) or (spec.byte_fallback and name in BYTE_NAMES):
        return True
    return spec.ignore_merges and (spec.model == "char" or _may_be_word(spec, name))


def outside_vocab(spec: TokenizerSpec) -> set[int]:
    """The special tokens that the vocab of a file must lack, so that their text does not become them.

    `tokenizers` numbers such tokens after the vocab; none where these have other ids.
    """
    kinds = spec.vocabulary.kinds
    added = {
        number: name
        for name, number in spec.special_tokens.items()
        if kinds[number] == SPECIAL and name != spec.unk_token
    }
    first = min((number for number, name in added.items() if can_be_text(spec, name)), default=spec.vocabulary.limit)
    found = {number for number in added if number >= first}
    if found != set(range(len(spec.vocabulary) - len(found), len(spec.vocabulary))):
        return set()
    return set() if np.isin(spec.merges, list(found)).any() else found


def unreadable(spec: TokenizerSpec) -> str | None:
    """The reason why `tokenizers` rejects the file of this tokenizer; None if it loads it."""
    from bpe.formats.huggingface.normalizers import write_normalizer
    from bpe.formats.huggingface.pretokenizers import write_pre_tokenizer

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


def _may_be_word(spec: TokenizerSpec, name: str) -> bool:
    """Whether a word may be spelled like a special token, although special tokens are split off first.

    Not one of ASCII that is found wherever its text occurs, and that nothing makes of other text.
    """
    return (
        spec.end_of_word is not None
        or not name.isascii()
        or name not in spec.special_tokens
        or "single_word" in spec.token_flags.get(name, ())
        or not composes_at_most(spec.normalizer)
        or _puts_ascii(spec.pretokenizer)
    )


def _puts_ascii(pretokenizer: Pretokenizer | None) -> bool:
    """Whether a pretokenizer replaces white space by another ASCII character."""
    steps = pretokenizer.steps if isinstance(pretokenizer, PipelinePretokenizer) else ()
    return any(isinstance(step, Metaspace) and step.replacement.isascii() for step in steps)


@cache
def _text_letters() -> frozenset[str]:
    """GPT-2's letters of the bytes that UTF-8 has."""
    return frozenset(letter for letter, byte in letter_bytes().items() if byte not in (0xC0, 0xC1) and byte < 0xF5)


def composes_at_most(normalizer: Normalizer | None) -> bool:
    """Whether a normalizer makes no ASCII text of more than one character of other text."""
    if normalizer is None:
        return True
    from bpe.text import normalizers as n

    return isinstance(normalizer, (n.NFC, n.NFD))
