"""What merging makes: the best merge of each token, and the unreachable tokens, which encoding never produces.

The encoder belongs to a higher layer, so the caller passes it in. The merges of a text: `bpe/encode/explain.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bpe.base.fast_dataclasses import replace
from bpe.vocab.spec import TokenizerSpec, check_supported, text_can_spell_mark
from bpe.vocab.symbols import find_unk_id, find_word_symbols
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, SPECIAL


class MergeTree:
    """The best merge of each token, by id.

    >>> from bpe.vocab.vocabulary import Vocabulary
    >>> tokens = Vocabulary([(0, b"l"), (1, b"o"), (2, b"w"), (3, b"lo"), (4, b"low")])
    >>> merges = np.array([[0, 1], [3, 2]], np.int32)
    >>> tree = MergeTree(TokenizerSpec("byte", tokens, merges, np.array([3, 4], np.int32)))
    >>> tree.find_rank(4), tree.find_parts(4), tree.find_parts(0), sorted(tree.collect_parts([4]))
    (1, (3, 2), None, [0, 1, 2, 3, 4])

    """

    def __init__(self, spec: TokenizerSpec) -> None:
        results, first_merges = np.unique(spec.merge_results, return_index=True)
        self._merges = spec.merges
        self._ranks = spec.merge_ranks
        self._first_merges = dict(zip(results.tolist(), first_merges.tolist(), strict=True))

    def find_rank(self, token_id: int) -> int | None:
        """Find the rank of the best merge that makes a token; None if no merge does."""
        merge_index = self._first_merges.get(token_id)
        return merge_index if merge_index is None or self._ranks is None else int(self._ranks[merge_index])

    def find_parts(self, token_id: int) -> tuple[int, int] | None:
        """Find the two tokens that the best merge of a token joins; None if no merge makes it."""
        merge_index = self._first_merges.get(token_id)
        return None if merge_index is None else (int(self._merges[merge_index, 0]), int(self._merges[merge_index, 1]))

    def collect_parts(self, ids: Iterable[int]) -> set[int]:
        """Collect tokens, and all tokens that they are made of."""
        collected_ids, pending_ids = set[int](), list(ids)
        while pending_ids:
            token_id = pending_ids.pop()
            if token_id not in collected_ids:
                collected_ids.add(token_id)
                pending_ids += self.find_parts(token_id) or ()
        return collected_ids


# Unreachable tokens ---------------------------------------------------------------------------------------------------


class PretokenEncoder(Protocol):
    """Encodes single pretokens, as `bpe.encode.engine.Engine` does."""

    def encode_pretoken(self, piece: bytes) -> list[int]:
        """Encode a pretoken."""
        ...


#: Creates the encoder of a tokenizer.
MakeEncoder = Callable[[TokenizerSpec], PretokenEncoder]

#: A token: its id and its bytes.
IdAndBytes = tuple[int, bytes]


def find_unreachable(spec: TokenizerSpec, make_encoder: MakeEncoder) -> NDArray[np.int64]:
    """Find the ids that no pretoken encodes to, ascending.

    Without an end-of-word mark, a token is reachable if and only if encoding its own bytes gives that token. With a
    mark, a token inside words must also have a successor, which must have a successor, and so on to a token that ends
    words. Checking adjacent pairs is enough: whether a merge crosses the boundary of two tokens depends on these two
    tokens only.

    Raises:
        ValueError: for a tokenizer with a subword prefix, whose tokens are not spelled as their text.

    """
    check_supported(spec, "finding unreachable tokens")
    if spec.subword_prefix:
        raise ValueError(
            f"the tokenizer has the subword prefix {spec.subword_prefix!r}; unreachable tokens can be found only where "
            "tokens are spelled as text"
        )
    return np.array(_ReachabilityFinder(spec, make_encoder).find_unreachable(), dtype=np.int64)


def merging_suffices(spec: TokenizerSpec, make_encoder: MakeEncoder) -> bool:
    """Whether `ignore_merges` is known to change no id: merging makes each ordinary token of the token's own bytes."""
    if spec.end_of_word is not None or spec.subword_prefix:
        return False
    if spec.ignore_merges and spec.unmerged is not None:
        return len(spec.unmerged) == 0
    unreachable = find_unreachable(replace(spec, ignore_merges=False, unmerged=None), make_encoder)
    return not bool(np.any(spec.vocabulary.kinds[unreachable] == ORDINARY))


class _ReachabilityFinder:
    """Finds the tokens that occur in the ids of some pretoken."""

    def __init__(self, spec: TokenizerSpec, make_encoder: MakeEncoder) -> None:
        spec = replace(spec, dropout=0.0)
        self.spec = spec
        self.encoder = make_encoder(spec)
        # Encodes text inside a word, which has no end-of-word mark; what merging makes of tokens changes with that.
        inner_spec = replace(spec, end_of_word=None, end_of_word_glued=False, ends_word=None, unmerged=None)
        self.inner_encoder = make_encoder(inner_spec)
        self.text_marks = text_can_spell_mark(spec)
        self.mark = b"" if spec.end_of_word is None else spec.end_of_word.encode()
        self.symbols = find_word_symbols(spec)
        self.inner_ids, self.last_ids = self.symbols.inner_ids, self.symbols.last_ids
        self.mark_id = self.symbols.mark_id
        self.unk_may_occur = spec.unk_token is not None and self._alphabet_is_incomplete()

    def find_unreachable(self) -> list[int]:
        """Find the unreachable tokens, ascending."""
        vocabulary, ends = self.spec.vocabulary, self.spec.ends_word
        named_ids = set(self.spec.special_tokens.values())
        if self.unk_may_occur:
            named_ids.add(find_unk_id(self.spec))
        unnamed_ids = [token_id for token_id, _ in vocabulary.items(SPECIAL) if token_id not in named_ids]
        final_tokens: list[IdAndBytes] = []  # tokens that end words
        inner_tokens: list[IdAndBytes] = []  # tokens inside words; with `text_marks`, some are both
        byte_tokens = self._find_byte_tokens()
        for token_id, token in vocabulary.items(ORDINARY):
            if token_id in byte_tokens:
                continue
            ends_word = not self.mark or (ends is not None and bool(ends[token_id]))
            (final_tokens if ends_word else inner_tokens).append((token_id, token))
            if ends_word and self.text_marks:
                inner_tokens.append((token_id, token))
        reachable_final_tokens = [token for token in final_tokens if self._ends_some_word(*token)]
        stable_inner_tokens = [
            token for token in inner_tokens if self.inner_encoder.encode_pretoken(token[1]) == [token[0]]
        ]
        followed_ids = self._find_followed_ids(
            stable_inner_tokens, sorted(reachable_final_tokens, key=lambda token: len(token[1]))
        )
        reachable_ids = {token_id for token_id, _ in reachable_final_tokens} | followed_ids
        unused_ids = {token_id for token_id, is_reachable in byte_tokens.items() if not is_reachable}
        return sorted(
            [*unnamed_ids, *unused_ids, *({token_id for token_id, _ in (*final_tokens, *inner_tokens)} - reachable_ids)]
        )

    def _find_byte_tokens(self) -> dict[int, bool]:
        """Find the tokens of bytes, and whether some symbol outside the alphabet has that byte."""
        if self.symbols.byte_ids is None:
            return {}
        inner_bytes, last_bytes = (
            set(np.flatnonzero(table != NO_TOKEN).tolist()) for table in (self.inner_ids, self.last_ids)
        )
        tokens: dict[int, bool] = {}
        for byte, token_id in enumerate(self.symbols.byte_ids.tolist()):
            if token_id != NO_TOKEN:
                if byte < 0x80:
                    may_occur = byte not in inner_bytes & last_bytes
                else:
                    may_occur = byte not in (0xC0, 0xC1) and byte <= 0xF4  # others are in no UTF-8
                tokens[token_id] = may_occur or tokens.get(token_id, False)
        return tokens

    def _alphabet_is_incomplete(self) -> bool:
        if self.symbols.byte_ids is not None and not (self.symbols.byte_ids == NO_TOKEN).any():
            return False  # every symbol has a token, or its bytes have
        if self.spec.model == "char":
            return True  # no alphabet has all of Unicode
        return bool((self.inner_ids == NO_TOKEN).any() or (self.last_ids == NO_TOKEN).any())

    def _ends_some_word(self, token_id: int, token: bytes) -> bool:
        """Whether a token ends some word: it is a whole word, or it is the mark and some token can precede it."""
        if token_id != self.mark_id:
            return self.encoder.encode_pretoken(token[: len(token) - len(self.mark)]) == [token_id]
        return self.unk_may_occur or any(
            self.encoder.encode_pretoken(text) == [first_id, token_id]
            for first_id, text in self.spec.vocabulary.items(ORDINARY)
        )

    def _find_followed_ids(self, tokens: list[IdAndBytes], final_tokens: list[IdAndBytes]) -> set[int]:
        """Find the tokens inside words that a chain of successors connects to a token of `final_tokens`.

        Each pass finds the tokens that a token of the previous pass can follow.
        """
        if self.unk_may_occur:
            # An unknown symbol takes part in no merge: it can follow any token.
            return {token_id for token_id, _ in tokens}
        followed_ids: set[int] = set()
        successors, candidates = final_tokens, tokens
        is_inside_word = False  # whether the successors are tokens inside words
        while successors and candidates:
            successors = [
                token
                for token in candidates
                if any(self._is_valid_pair(token, right, is_inside_word) for right in successors)
            ]
            followed_ids |= {token_id for token_id, _ in successors}
            candidates = [token for token in candidates if token[0] not in followed_ids]
            is_inside_word = True
        return followed_ids

    def _is_valid_pair(self, left: IdAndBytes, right: IdAndBytes, is_inside_word: bool) -> bool:
        """Whether `right` can follow `left` in encoded text: no merge crosses their boundary.

        `is_inside_word` says whether `right` is inside a word or ends one.
        """
        expected_ids = [left[0], right[0]]
        if is_inside_word:
            return self.inner_encoder.encode_pretoken(left[1] + right[1]) == expected_ids
        return self.encoder.encode_pretoken(left[1] + right[1][: len(right[1]) - len(self.mark)]) == expected_ids
