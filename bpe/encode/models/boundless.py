"""BoundlessBPE models: merges within words, and then merges of words that are one token.

The first level is an ordinary encoder in which some tokens have a second id, `first` + i, for where a whole pretoken is
that token. To the encoder these are words with an id of their own, so the word cache serves them. The second level
(`bpe/merge/_across_words.pyx`) merges runs of them by rank, and gives those that are left their first id again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import Bytes
from bpe.encode._encoder import CACHE_MEMORY, Encoder
from bpe.encode.models.encoder import BuiltEncoder, build_encoder
from bpe.merge._across_words import AcrossWordTable
from bpe.vocab.spec import TokenizerSpec, drop_merges_across_words
from bpe.vocab.vocabulary import UNUSED, Vocabulary, join_slices


@dataclass(frozen=True)
class SecondIds:
    """The tokens with a second id.

    Attributes:
        encoder: gives these ids.
        first_id: a pretoken that is the token `tokens[i]` has the id `first_id` + i; all other ids are below
            `first_id`.
        tokens: uint32. A token that merging its own bytes does not give never gets its second id.

    """

    encoder: Encoder
    first_id: int
    tokens: NDArray[np.uint32]

    def find_last_split(self, data: Bytes, start: int) -> int:
        """Find the last split point after a pretoken that has no second id, so that no run crosses it; else `start`."""
        end = self.encoder.find_last_split(data, start)
        while end > start:
            # Where the last pretoken begins, or earlier.
            pretoken_start = self.encoder.find_last_split(data[: end - 1], 0)
            if pretoken_start <= 0:
                return start
            ids = self.encoder.encode(bytes(data[pretoken_start:end]))[0]
            if len(ids) and int(ids[-1]) < self.first_id:
                return end
            end = pretoken_start
        return start


class AcrossWordMerger:
    """The second level: merges of words that are one token each."""

    def __init__(self, spec: TokenizerSpec, second_ids: SecondIds) -> None:
        assert spec.n_merges_within_words is not None
        self._pairs, self._results = (
            spec.merges[spec.n_merges_within_words :],
            spec.merge_results[spec.n_merges_within_words :],
        )
        self._second_ids = second_ids
        id_of_word = np.arange(spec.vocabulary.limit, dtype=np.int32)
        id_of_word[second_ids.tokens] = np.arange(len(second_ids.tokens), dtype=np.int32) + second_ids.first_id
        results = self._results.astype(np.int32)
        self._merger = AcrossWordTable(id_of_word[self._pairs], results, second_ids.first_id, second_ids.tokens)

    def merge(
        self, ids: NDArray[np.uint32], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Merge the words of each text `ids[offsets[i]:offsets[i + 1]]`: (ids, the number of ids of each)."""
        return self._merger.merge(np.asarray(ids, dtype=np.uint32), offsets)

    def find_unreachable(self, unreachable_words: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
        """Find the ids that encoding never produces, given those that the first level never does.

        A supertoken is produced if all its words are, and if a run of these words becomes it.
        """
        is_unreachable = np.zeros(limit, dtype=np.bool_)
        is_unreachable[unreachable_words] = True
        words_of_token: dict[int, list[int]] = {}
        for (left, right), token in zip(self._pairs.tolist(), self._results.tolist(), strict=True):
            words_of_token[token] = [word for part in (left, right) for word in words_of_token.get(part, [part])]
        if words_of_token:
            words = np.concatenate(list(words_of_token.values()))
            offsets = compute_offsets([len(token_words) for token_words in words_of_token.values()])
            indices = np.searchsorted(self._second_ids.tokens, words).astype(np.uint32)
            ids = indices + np.uint32(self._second_ids.first_id)
            merged_ids, lengths = self._merger.merge(ids, offsets)
            first_merged_ids = merged_ids[compute_offsets(lengths)[:-1]]
            tokens = np.array(list(words_of_token))
            is_unreachable[tokens] = (
                (lengths != 1)
                | (first_merged_ids != tokens)
                | np.logical_or.reduceat(is_unreachable[words], offsets[:-1])
            )
        return np.flatnonzero(is_unreachable)


def build_boundless(spec: TokenizerSpec, cache_memory: int) -> tuple[BuiltEncoder, SecondIds, AcrossWordMerger]:
    """Build the parts of the model of a tokenizer with merges across words."""
    single_words = np.setdiff1d(
        spec.merges[spec.n_merges_within_words :], spec.merge_results[spec.n_merges_within_words :]
    )
    built_encoder, second_ids = build_with_second_ids(spec, single_words, cache_memory)
    return built_encoder, second_ids, AcrossWordMerger(spec, second_ids)


def build_with_second_ids(
    spec: TokenizerSpec, tokens: NDArray[np.integer], cache_memory: int = CACHE_MEMORY
) -> tuple[BuiltEncoder, SecondIds]:
    """Build an encoder for the merges within words that gives some ordinary tokens a second id."""
    vocabulary, first_id = spec.vocabulary, spec.vocabulary.limit
    data = np.frombuffer(vocabulary.blob, dtype=np.uint8)
    token_bytes, offsets = join_slices(data, vocabulary.offsets[tokens], vocabulary.lengths[tokens])
    blob = token_bytes.tobytes()
    extended_vocabulary = Vocabulary.from_arrays(
        vocabulary.blob + blob,
        np.concatenate((vocabulary.offsets, offsets[1:] + vocabulary.offsets[-1])),
        np.concatenate((vocabulary.kinds, np.full(len(tokens), UNUSED, dtype=np.uint8))),
    )
    built_encoder = build_encoder(replace(drop_merges_across_words(spec), vocabulary=extended_vocabulary), cache_memory)
    encoder, second_ids = built_encoder.encoder, SecondIds(built_encoder.encoder, first_id, tokens.astype(np.uint32))
    has_second_id = np.zeros(first_id, dtype=np.uint8)
    has_second_id[second_ids.tokens] = 1
    unmerged = encoder.select_unmerged(np.concatenate((has_second_id, np.zeros(len(tokens), dtype=np.uint8))))
    if unmerged is None:
        bounds_and_ids = zip(pairwise(offsets.tolist()), second_ids.tokens.tolist(), strict=True)
        merged = np.flatnonzero(
            [encoder.encode_pretoken(blob[start:end]) == [token_id] for (start, end), token_id in bounds_and_ids]
        )
    else:
        has_second_id[unmerged] = 0
        merged = np.flatnonzero(has_second_id[second_ids.tokens])
    merged_words, bounds = join_slices(token_bytes, offsets[:-1][merged], np.diff(offsets)[merged])
    encoder.keep_pretokens_whole()
    ids = (merged + first_id).astype(np.uint32)
    encoder.set_unmerged_words(merged_words.tobytes(), bounds, ids, even_if_merged=True)
    encoder.finish()
    return built_encoder, second_ids
