"""`combine`: two vocabularies in one, without a corpus.

The first vocabulary keeps its ids and merges, and each token of the second that can be reached from them gets one merge
after those of the first. So encoding does with a word first all that the first vocabulary does, and then joins
neighbouring tokens.

Learning more tokens from a corpus instead: `extend.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.base.threads import resolve_threads
from bpe.errors import check_int, describe, pluralize, short_repr
from bpe.formats.huggingface.expressible import has_all_bytes
from bpe.tokenizer import Tokenizer
from bpe.training.encoded import encode_in_groups
from bpe.training.extend import check_extendable, check_size
from bpe.vocab.editing import NO_ID
from bpe.vocab.spec import TokenizerSpec, check_supported
from bpe.vocab.symbols import find_word_symbols
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, SPECIAL, Vocabulary

#: Texts around a token in which the pretokenizer of the first tokenizer may leave it whole.
_CONTEXTS = (("", ""), ("x", ""), ("", "x"), ("x", "x"))
#: The most parts of a lost token that its reason lists.
_MAX_LISTED_PARTS = 6
#: Greater than all ids.
_NO_MERGE = NO_TOKEN


@dataclass(frozen=True)
class LostToken:
    """A token of the second vocabulary that the combination does not have.

    Attributes:
        id: its id in the second vocabulary.
        token: its bytes.
        reason: why it is lost.

    """

    id: int
    token: bytes
    reason: str

    def __str__(self) -> str:
        return f"{self.id} {short_repr(self.token)}: {self.reason}"


class Combination(NamedTuple):
    """What `combine` returns.

    Attributes:
        tokenizer: the combined tokenizer.
        new_ids: int32, by id of the second vocabulary: the id in `tokenizer`, or -1 for a lost token.
        lost: the lost tokens, in the order of their ids.

    """

    tokenizer: Tokenizer
    new_ids: NDArray[np.int32]
    lost: tuple[LostToken, ...]

    def __repr__(self) -> str:
        # Of large vocabularies, the ids and the lost tokens would fill many pages.
        ids, tokens = pluralize(len(self.new_ids), "id"), pluralize(len(self.lost), "token")
        return f"Combination(tokenizer={self.tokenizer!r}, new_ids=<{ids}>, lost=<{tokens}>)"


def combine(a: Tokenizer, b: Tokenizer, *, vocab_size: int | None = None) -> Combination:
    """Add the tokens of another vocabulary to a tokenizer, without a corpus; its ids and merges stay.

    The new tokens come in the order in which `b` merges them, after the symbols that only `b` has. Where all merges so
    far make exactly two tokens of a token's text, the merge of these two is added: `b`'s own merge, unless the merges
    of `a` cut the text elsewhere. Where they make more, the token is tried again after the others, until none can be
    added any more. New merges rank below all others, and new ids follow the largest id of `a`.

    This holds for every text whose symbols `a` knows: it becomes the tokens that `a` gives, with some neighbours
    joined, so never more of them. The text of every new token becomes that token, as one pretoken. How the result
    encodes other texts of `b` is not promised: the merges of `a` come first. Rules that `a` was trained with, such as
    `split_digits`, do not hold for the tokens of `b`.

    Args:
        a: the first tokenizer; the result has its pretokenizer, normalizer, special tokens and other settings.
        b: the second. It may have another pretokenizer; a token that the preparation of `a` never leaves whole is lost.
        vocab_size: the most tokens of the result, those of `a` included; None for all that can be added.

    Returns:
        (the combined tokenizer, the new id of each id of `b`, the tokens of `b` that are lost, with the reasons).

    Raises:
        TypeError: for what is no `Tokenizer`.
        ValueError: for tokenizers of which one has bytes and the other characters as symbols, or that mark the end of
            words differently; for kinds of models that cannot be extended; for a size smaller than that of `a`.

    >>> import bpe
    >>> a = bpe.train(texts=["the then"] * 3, vocab_size=258)
    >>> b = bpe.train(texts=["hen hens the"] * 3, vocab_size=260)
    >>> tok, new_ids, lost = combine(a, b)
    >>> a.tokens("hens then"), tok.tokens("hens then")
    ([b'he', b'n', b's', b' ', b'the', b'n'], [b'hen', b's', b' ', b'the', b'n'])
    >>> [str(token) for token in lost]
    []

    """
    _check_pair(a, b)
    spec, other = a.spec, b.spec
    n_free = None
    if vocab_size is not None:
        check_size(a, check_int("vocab_size", vocab_size, 1))
        n_free = vocab_size - a.vocab_size
    additions = _Additions(spec.vocabulary.limit, n_free)
    new_ids, reasons = _match_tokens(spec, other)
    candidate_ids = [i for i in _order_tokens(other) if new_ids[i] == NO_ID and i not in reasons]
    if spec.pretokenizer != other.pretokenizer or spec.normalizer != other.normalizer or _joins_words(other):
        reasons |= _find_divided(a, other, candidate_ids)
    candidates = [_Candidate(i, other.vocabulary[i], _ends_word(other, i)) for i in candidate_ids if i not in reasons]
    symbol_ids = set(_list_symbols(other))
    additions.add_symbols([candidate for candidate in candidates if candidate.id in symbol_ids])
    longer = [candidate for candidate in candidates if candidate.id not in symbol_ids]
    _split_candidates(additions.extend(spec), longer)
    additions.join_all(longer)
    combined = additions.extend(spec)
    for candidate in candidates:
        new_ids[candidate.id] = candidate.new_id
        if candidate.new_id == NO_ID:
            reasons[candidate.id] = _explain_loss(combined, candidate, is_full=additions.is_full)
    if combined.drop_unknown and has_all_bytes(combined):
        combined = replace(combined, drop_unknown=False)
    lost = tuple(LostToken(i, other.vocabulary[i], reasons[i]) for i in sorted(reasons))
    return Combination(Tokenizer(combined), new_ids, lost)


def _check_pair(a: Tokenizer, b: Tokenizer) -> None:
    """Raise TypeError or ValueError for tokenizers that cannot be combined."""
    for name, tokenizer in (("a", a), ("b", b)):
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"{name} is {describe(tokenizer)}; it must be a bpe.Tokenizer")
    check_extendable(a)
    check_supported(b.spec, "combining")
    for setting in ("model", "end_of_word", "end_of_word_glued", "subword_prefix"):
        first, second = getattr(a.spec, setting), getattr(b.spec, setting)
        if first != second:
            raise ValueError(
                f"{setting} of a is {first!r}, and of b {second!r}; only tokenizers with the same symbols can be "
                "combined: train one of them anew, or use bpe.extend with a corpus"
            )


# The tokens of the second vocabulary ----------------------------------------------------------------------------------


@dataclass
class _Candidate:
    """A token to add.

    Attributes:
        id: its id in the second vocabulary.
        token: its bytes.
        ends_word: whether it ends with the end-of-word mark.
        parts: the tokens that its text becomes under all merges so far; none if they do not spell it.
        new_id: its id in the combination, or NO_ID.

    """

    id: int
    token: bytes
    ends_word: bool
    parts: list[int] = field(default_factory=list)
    new_id: int = NO_ID


def _match_tokens(spec: TokenizerSpec, other: TokenizerSpec) -> tuple[NDArray[np.int32], dict[int, str]]:
    """Match tokens of `other` with those of `spec`: the ids in `spec` by id, and reasons why some cannot be added."""
    ids, special = spec.vocabulary.id_of_token, {token for _, token in spec.vocabulary.items(SPECIAL)}
    new_ids, reasons = np.full(other.vocabulary.limit, NO_ID, dtype=np.int32), {}
    addable_ids = set(_order_tokens(other))
    for token_id, token in other.vocabulary.items():
        if other.vocabulary.kinds[token_id] == SPECIAL:
            existing_id = spec.special_tokens.get(token.decode(errors="replace"))
            if existing_id is None:
                reasons[token_id] = "it is a special token; add it with tok.with_tokens(special=[...])"
            else:
                new_ids[token_id] = existing_id
        elif token in special:
            reasons[token_id] = "a has a special token of this name"
        elif token not in ids:
            if token_id not in addable_ids:
                reasons[token_id] = "it is neither a symbol of b nor the result of a merge"
        elif _ends_word(spec, ids[token]) != _ends_word(other, token_id):
            reasons[token_id] = "a has a token of the same text at the other position in words"
        else:
            new_ids[token_id] = ids[token]
    return new_ids, reasons


def _order_tokens(spec: TokenizerSpec) -> list[int]:
    """List the tokens that text becomes, in the order to add them: symbols, then the results of merges by rank."""
    ids = dict.fromkeys([*_list_symbols(spec), *spec.merge_results.tolist()])
    if spec.ignore_merges:  # whole words, which need no merge
        ids |= dict.fromkeys(token_id for token_id, _ in spec.vocabulary.items(ORDINARY))
    return [token_id for token_id in ids if spec.vocabulary.kinds[token_id] == ORDINARY]


def _list_symbols(spec: TokenizerSpec) -> list[int]:
    """List the tokens of single symbols, by id; the tokens of bytes of `byte_fallback` are none."""
    symbols = find_word_symbols(spec)
    tables = symbols.tables if symbols.byte_ids is None else symbols.tables[:-1]
    ids = np.unique(np.concatenate(tables))
    return [int(token_id) for token_id in ids[ids != NO_TOKEN]]


def _ends_word(spec: TokenizerSpec, token_id: int) -> bool:
    return spec.ends_word is not None and bool(spec.ends_word[token_id])


def _joins_words(spec: TokenizerSpec) -> bool:
    return spec.n_merges_within_words is not None


def _find_divided(a: Tokenizer, other: TokenizerSpec, token_ids: Iterable[int]) -> dict[int, str]:
    """Find the tokens that the normalizer and pretokenizer of `a` leave whole in none of some contexts, with reasons.

    Parts of characters at the ends of tokens are not considered, because the rest of the character may be any.
    """
    reasons: dict[int, str] = {}
    mark = b"" if other.end_of_word is None else other.end_of_word.encode()
    for token_id in token_ids:
        token = other.vocabulary[token_id]
        text = (token[: len(token) - len(mark)] if _ends_word(other, token_id) else token).decode(errors="ignore")
        if not text or any(_is_whole(a, before + text + after, text) for before, after in _CONTEXTS):
            continue
        pretokens = [p for p in a._engine.iterate_pretokens(text, frozenset()) if isinstance(p, bytes)]
        reasons[token_id] = f"a prepares its text as {_list_parts(pretokens)}, not as one pretoken that has it"
    return reasons


def _is_whole(a: Tokenizer, text: str, part: str) -> bool:
    """Whether a pretoken of a text contains a part of the text."""
    data = part.encode()
    return any(
        isinstance(pretoken, bytes) and data in pretoken for pretoken in a._engine.iterate_pretokens(text, frozenset())
    )


def _split_candidates(spec: TokenizerSpec, candidates: list[_Candidate]) -> None:
    """Set the parts of the candidates to the tokens that a tokenizer makes of their text, if they spell it."""
    spec = replace(spec, unk_token=None, fuse_unk=False, byte_fallback=False, drop_unknown=False, ignore_merges=False)
    inner_spec = replace(spec, end_of_word=None, end_of_word_glued=False, ends_word=None)
    mark = b"" if spec.end_of_word is None else spec.end_of_word.encode()
    vocabulary = spec.vocabulary
    for word_spec, ends_word in ((spec, True), (inner_spec, False)) if mark else ((spec, False),):
        group = [candidate for candidate in candidates if candidate.ends_word == ends_word]
        words = [candidate.token[: len(candidate.token) - len(mark) * ends_word] for candidate in group]
        blob = np.frombuffer(b"".join(words), dtype=np.uint8)
        offsets = compute_offsets(np.array(list(map(len, words)), dtype=np.int64))
        index = 0
        for ids, bounds in encode_in_groups(word_spec, blob, offsets, resolve_threads(None)):
            id_list = ids.tolist()
            for start, end in pairwise(bounds.tolist()):
                candidate, parts = group[index], id_list[start:end]
                index += 1
                if NO_TOKEN not in parts and b"".join(vocabulary[i] for i in parts) == candidate.token:
                    candidate.parts = parts


# The tokens that are added --------------------------------------------------------------------------------------------


class _Additions:
    """New tokens and the merges that make them, in the order of their ids.

    Args:
        first_id: the first new id.
        n_free: how many tokens may be added; None for any number.

    """

    def __init__(self, first_id: int, n_free: int | None) -> None:
        self._first_id, self._n_free = first_id, n_free
        self._tokens: list[bytes] = []
        self._ends_word: list[bool] = []
        self._results: dict[tuple[int, int], int] = {}  # ascending, so that a result is also the merge's priority

    @property
    def is_full(self) -> bool:
        """Whether no more tokens may be added."""
        return self._n_free is not None and len(self._tokens) >= self._n_free

    def add_symbols(self, candidates: list[_Candidate]) -> None:
        """Add tokens of single symbols, as many as there may be."""
        for candidate in candidates:
            if not self.is_full:
                self._add(candidate)

    def join_all(self, candidates: list[_Candidate]) -> None:
        """Add each candidate that becomes two tokens, in rounds until a round adds none."""
        n_before = -1
        while len(self._tokens) > n_before:
            n_before, remaining = len(self._tokens), []
            for candidate in candidates:
                candidate.parts = self._merge(candidate.parts)
                if len(candidate.parts) == 2 and not self.is_full:
                    left, right = candidate.parts
                    self._add(candidate)
                    self._results[left, right] = candidate.new_id
                else:
                    remaining.append(candidate)
            candidates = remaining

    def _add(self, candidate: _Candidate) -> None:
        candidate.new_id = self._first_id + len(self._tokens)
        self._tokens.append(candidate.token)
        self._ends_word.append(candidate.ends_word)

    def _merge(self, ids: list[int]) -> list[int]:
        """Apply the new merges to tokens, the first one first, each from left to right."""
        while len(ids) > 1:
            result = min(self._results.get(pair, _NO_MERGE) for pair in pairwise(ids))
            if result == _NO_MERGE:
                break
            merged_ids: list[int] = []
            for token_id in ids:
                if merged_ids and self._results.get((merged_ids[-1], token_id)) == result:
                    merged_ids[-1] = result
                else:
                    merged_ids.append(token_id)
            ids = merged_ids
        return ids

    def extend(self, spec: TokenizerSpec) -> TokenizerSpec:
        """Add the new tokens and merges to a tokenizer."""
        old, n_tokens = spec.vocabulary, len(self._tokens)
        ends = old.offsets[-1] + np.cumsum(list(map(len, self._tokens)), dtype=np.int64)
        vocabulary = Vocabulary.from_arrays(
            old.blob + b"".join(self._tokens),
            np.append(old.offsets, ends),
            np.append(old.kinds, np.full(n_tokens, ORDINARY, dtype=np.uint8)),
        )
        ranks, n_merges = spec.merge_ranks, len(self._results)
        if ranks is not None:
            first_rank = int(ranks[-1]) + 1 if len(ranks) else 0
            ranks = np.append(ranks, np.arange(first_rank, first_rank + n_merges, dtype=np.int32))
        pairs = np.array(list(self._results), dtype=np.int32).reshape(n_merges, 2)
        return replace(
            spec,
            vocabulary=vocabulary,
            merges=np.concatenate((spec.merges, pairs)),
            merge_results=np.append(spec.merge_results, np.array(list(self._results.values()), dtype=np.int32)),
            merge_ranks=ranks,
            ends_word=None
            if spec.ends_word is None
            else np.append(spec.ends_word, np.array(self._ends_word, np.bool_)),
            training=spec.training if not n_tokens else None,
        )


def _explain_loss(spec: TokenizerSpec, candidate: _Candidate, *, is_full: bool) -> str:
    """Say why a candidate was not added to the combined tokenizer."""
    if is_full and len(candidate.parts) <= 2:
        return "vocab_size is reached"
    if not candidate.parts:
        return "it has a symbol that is no token"
    parts = [spec.vocabulary[token_id] for token_id in candidate.parts]
    return f"its text becomes {pluralize(len(parts), 'token')}, {_list_parts(parts)}"


def _list_parts(parts: list[bytes]) -> str:
    """List the first few parts of a token."""
    more = ", …" if len(parts) > _MAX_LISTED_PARTS else ""
    return ", ".join(map(short_repr, parts[:_MAX_LISTED_PARTS])) + more
