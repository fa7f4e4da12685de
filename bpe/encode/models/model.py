"""Models: what turns pretokens into ids, whatever kind of model a tokenizer has.

A model is composed of parts, so that the engine asks for a part and never for a kind: every model has a kernel that
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
from bpe.encode.models.kernel import BuiltKernel, build_kernel
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
        built_kernel: the kernel, and what it was made of.
        second_ids: the tokens that have another id where a whole pretoken is that token; None if there are none.
        across_word_merger: the step on ids that merges words; None if all merges are within words.
        events: the merges and deletions of a PickyBPE model; None for any other.

    """

    built_kernel: BuiltKernel
    second_ids: SecondIds | None = None
    across_word_merger: AcrossWordMerger | None = None
    events: EventTables | None = None


def build_model(
    spec: TokenizerSpec, whole_words: Sequence[tuple[bytes, int]] = (), cache_memory: int = CACHE_MEMORY
) -> ModelParts:
    """Build the model of a tokenizer; the arguments are those of `Engine`."""
    if spec.n_merges_within_words is not None:
        from bpe.encode.models.boundless import build_boundless

        built_kernel, second_ids, across_word_merger = build_boundless(spec, cache_memory)
        return ModelParts(built_kernel, second_ids, across_word_merger)
    if spec.events is not None:
        from bpe.encode.models.picky import build_picky

        built_kernel, events = build_picky(spec, cache_memory)
        return ModelParts(built_kernel, events=events)
    built_kernel = build_kernel(spec, cache_memory, may_have_superwords=not whole_words)
    if spec.ignore_merges:
        token_ids, vocabulary = np.flatnonzero(_find_unmerged_tokens(spec, built_kernel.kernel)), spec.vocabulary
        blob = np.frombuffer(vocabulary.blob, dtype=np.uint8)
        tokens, offsets = join_slices(blob, vocabulary.offsets[token_ids], vocabulary.lengths[token_ids])
        # With a glued mark, a word is looked up without it: merging the word's symbols never gives that token.
        enter_all = spec.end_of_word_glued
        built_kernel.kernel.set_whole_words(tokens.tobytes(), offsets, token_ids.astype(np.uint32), enter_all)
    elif whole_words:
        offsets = compute_offsets([len(word) for word, _ in whole_words])
        ids = np.array([token_id for _, token_id in whole_words], dtype=np.uint32)
        built_kernel.kernel.set_whole_words(b"".join(word for word, _ in whole_words), offsets, ids, True)
    built_kernel.kernel.finish()
    return ModelParts(built_kernel)


def _find_unmerged_tokens(spec: TokenizerSpec, kernel: Encoder) -> NDArray[np.bool_]:
    """Find, with `ignore_merges`, the ordinary tokens whose bytes may be merged to another id: bool by id."""
    vocabulary, unreachable = spec.vocabulary, spec.unreachable
    is_ordinary: NDArray[np.bool_] = vocabulary.kinds == ORDINARY
    if spec.end_of_word_glued:
        return is_ordinary
    if unreachable is None:
        unreachable = kernel.select_unreachable(is_ordinary.astype(np.uint8))
    if unreachable is None:
        return is_ordinary
    is_unmerged = np.zeros(vocabulary.limit, dtype=np.bool_)
    is_unmerged[unreachable] = True
    return is_unmerged
