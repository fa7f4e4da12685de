"""Models: what turns pretokens into ids, whatever kind of model a tokenizer has.

A model is composed of parts, so that the engine asks for a part and never for a kind: every model has an encoder that
turns pretokens into ids; one with merges across words (`boundless.py`) also marks words that are one token, and has a
second step on the ids of a text; one with deletions (`picky.py`) has a merger of events in place of one of merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bpe.base.fast_dataclasses import dataclass
from bpe.base.offsets import compute_offsets
from bpe.encode._encoder import CACHE_MEMORY, Encoder
from bpe.encode.models.encoder import BuiltEncoder, build_encoder
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, join_slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.encode.models.boundless import AcrossWordMerger, SecondIds
    from bpe.encode.models.picky import EventTables


@dataclass(frozen=True)
class ModelParts:
    """The parts of a model.

    Attributes:
        built_encoder: the encoder, and what it was made of.
        second_ids: the tokens that have another id where a whole pretoken is that token; None if there are none.
        across_word_merger: the step on ids that merges words; None if all merges are within words.
        events: the merges and deletions of a PickyBPE model; None for any other.

    """

    built_encoder: BuiltEncoder
    second_ids: SecondIds | None = None
    across_word_merger: AcrossWordMerger | None = None
    events: EventTables | None = None


def build_model(
    spec: TokenizerSpec, unmerged_words: Sequence[tuple[bytes, int]] = (), cache_memory: int = CACHE_MEMORY
) -> ModelParts:
    """Build the model of a tokenizer; the arguments are those of `Engine`."""
    if spec.n_merges_within_words is not None:
        from bpe.encode.models.boundless import build_boundless

        built_encoder, second_ids, across_word_merger = build_boundless(spec, cache_memory)
        return ModelParts(built_encoder, second_ids, across_word_merger)
    if spec.events is not None:
        from bpe.encode.models.picky import build_picky

        built_encoder, events = build_picky(spec, cache_memory)
        return ModelParts(built_encoder, events=events)
    built_encoder = build_encoder(spec, cache_memory, may_have_two_stages=not unmerged_words)
    if spec.ignore_merges:
        token_ids, vocabulary = np.flatnonzero(_find_unmerged_tokens(spec, built_encoder.encoder)), spec.vocabulary
        data = np.frombuffer(vocabulary.blob, dtype=np.uint8)
        starts, ends = vocabulary.offsets[token_ids], vocabulary.offsets[token_ids + 1]
        tokens, offsets = join_slices(data, starts, ends - starts)
        # With a glued mark, a word is looked up without it: merging the word's symbols never gives that token.
        built_encoder.encoder.set_unmerged_words(
            tokens.tobytes(), offsets, token_ids.astype(np.uint32), even_if_merged=spec.end_of_word_glued
        )
    elif unmerged_words:
        offsets = compute_offsets([len(word) for word, _ in unmerged_words])
        ids = np.array([token_id for _, token_id in unmerged_words], dtype=np.uint32)
        blob = b"".join(word for word, _ in unmerged_words)
        built_encoder.encoder.set_unmerged_words(blob, offsets, ids, even_if_merged=True)
    built_encoder.encoder.finish()
    return ModelParts(built_encoder)


def _find_unmerged_tokens(spec: TokenizerSpec, encoder: Encoder) -> NDArray[np.bool_]:
    """Find, with `ignore_merges`, the ordinary tokens whose bytes may be merged to another id: bool by id."""
    vocabulary, unmerged = spec.vocabulary, spec.unmerged
    is_ordinary: NDArray[np.bool_] = vocabulary.kinds == ORDINARY
    if spec.end_of_word_glued:
        return is_ordinary
    if unmerged is None:
        unmerged = encoder.select_unmerged(is_ordinary.astype(np.uint8))
    if unmerged is None:
        return is_ordinary
    is_unmerged = np.zeros(vocabulary.limit, dtype=np.bool_)
    is_unmerged[unmerged] = True
    return is_unmerged
