"""The engine of a tokenizer, by its model."""

from __future__ import annotations

from bpe.encode import _encoder as core
from bpe.encode.engine import Engine
from bpe.vocab.spec import TokenizerSpec


def engine_of_spec(spec: TokenizerSpec, cache_memory: int = core.CACHE_MEMORY) -> Engine:
    """The engine of a tokenizer, whatever its model is."""
    if spec.events is not None:
        from bpe.encode.models.picky import PickyEngine

        return PickyEngine(spec, cache_memory)
    if spec.word_merges is not None:
        from bpe.encode.models.boundless import BoundlessEngine

        return BoundlessEngine(spec, cache_memory)
    return Engine(spec, cache_memory=cache_memory)
