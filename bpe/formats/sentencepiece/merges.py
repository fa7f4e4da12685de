"""Merges and scores: sentencepiece merges the two symbols whose concatenation is the piece with the best score.

There is no list of merges in a model. It is recovered as for a rank file (`bpe/formats/tiktoken.py`): a piece's only
merge is the last one when its own characters are merged. Where that needs a merge with a worse score than the piece's
own, every split of every piece is listed with the piece's rank, which is sentencepiece's rule itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.errors import FormatError, short_repr
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import Vocabulary

#: The most pieces, and the most characters of a piece; published models have 262,144 of at most 93.
MAX_PIECES, MAX_CHARS = 1 << 24, 1024
#: The most steps to recover merges, about the sum of the squared lengths of the pieces; published models need 10**7.
MAX_STEPS = 10**9


def recover_scored_merges(tokens: dict[str, int], scores: Sequence[float]) -> list[list[str]] | None:
    """Recover one merge for each piece of several characters, best rank first.

    None if no list of one merge per piece gives sentencepiece's result.

    `tokens` maps pieces to ranks, and `scores` are their scores, descending.
    """
    product_scores = [score for token, score in zip(tokens, scores, strict=True) if len(token) > 1]
    if (
        any(score == next_score for score, next_score in pairwise(product_scores))
        or sum(len(token) ** 2 for token in tokens) > MAX_STEPS
    ):
        return None
    merges = []
    for token, rank in tokens.items():
        if len(token) == 1:
            continue
        parts = list(token)
        ranks = [tokens.get(token[index : index + 2], rank) for index in range(len(token) - 1)]
        while len(ranks) > 1:
            best = min(ranks)
            if best >= rank:
                return None  # a split that needs a worse piece, or none
            index = ranks.index(best)
            parts[index] += parts.pop(index + 1)
            del ranks[index]
            if index > 0:
                ranks[index - 1] = tokens.get(parts[index - 1] + parts[index], rank)
            if index < len(ranks):
                ranks[index] = tokens.get(parts[index] + parts[index + 1], rank)
        merges.append(parts)
    return merges


def check_characters(tokens: dict[str, int]) -> None:
    """Raise FormatError for a piece with a character that is no piece: a merge of it has no id."""
    missing_chars = {char for token in tokens if len(token) > 1 for char in token} - tokens.keys()
    if missing_chars:
        char = min(missing_chars)
        token = next(token for token in tokens if char in token)
        raise FormatError(
            f"piece {short_repr(token)} has the character {short_repr(char)}, which is not a piece; it must be one"
        )


def list_all_splits(
    spec: TokenizerSpec, pieces: Sequence[str], scores: Sequence[float], ids_by_score: Sequence[int]
) -> TokenizerSpec:
    """Return the spec with every split of every piece into two symbols or pieces, ranked by the score of the piece.

    `ids_by_score` has the ids of the pieces that are merged, best score first.
    """
    symbols = {pieces[token_id]: token_id for token_id in ids_by_score}
    rows: list[tuple[int, int, int, int]] = []
    rank, score = -1, math.nan
    for token_id in ids_by_score:
        token = pieces[token_id]
        splits = ((symbols.get(token[:i]), symbols.get(token[i:])) for i in range(1, len(token)))
        pairs = [(left, right) for left, right in splits if left is not None and right is not None]
        if pairs and scores[token_id] != score:
            rank, score = rank + 1, scores[token_id]
        rows += [(left, right, token_id, rank) for left, right in pairs]
    table = np.array(rows, dtype=np.int32).reshape(-1, 4)
    assert isinstance(spec.vocabulary, Vocabulary)
    return replace(
        spec,
        merges=np.ascontiguousarray(table[:, :2]),
        merge_results=np.ascontiguousarray(table[:, 2]),
        merge_ranks=None if rank == len(rows) - 1 else np.ascontiguousarray(table[:, 3]),  # None: all ranks differ
    )


def find_canonical_merges(spec: TokenizerSpec) -> list[list[str]] | None:
    """Find the one merge of each token that encoding uses, best rank first, in a model of characters.

    A tokenizer.json made from a model of sentencepiece lists all splits of a token one after the other; of these,
    encoding uses one, if `recover_scored_merges` finds it. None if it finds none, or if the tokenizer lacks it.
    """
    if spec.model != "char" or spec.merge_ranks is not None or spec.end_of_word or spec.subword_prefix:
        return None
    results = spec.merge_results.tolist()
    tokens = [spec.vocabulary[token_id].decode() for token_id in dict.fromkeys(results)]
    n_groups = sum(result != next_result for result, next_result in pairwise(results)) + bool(results)
    if n_groups != len(tokens):
        return None  # merges of one token have others between them
    merges = recover_scored_merges({token: rank for rank, token in enumerate(tokens)}, range(len(tokens)))
    names = [spec.vocabulary[token_id].decode() for token_id in range(spec.vocabulary.limit)]
    known_pairs = {(names[left], names[right]) for left, right in spec.merges.tolist()}
    return merges if merges is not None and all((left, right) in known_pairs for left, right in merges) else None


def make_scores(spec: TokenizerSpec) -> list[float]:
    """Make the score of each token: those of merge results descend with their ranks, and others are lower."""
    results = spec.merge_results.tolist()
    ranks = range(len(results)) if spec.merge_ranks is None else spec.merge_ranks.tolist()
    first_ranks = dict(zip(reversed(results), reversed(ranks), strict=True))
    last_rank = max(ranks, default=-1) + 1
    return [-float(first_ranks.get(token_id, last_rank + token_id)) for token_id in range(spec.vocabulary.limit)]
