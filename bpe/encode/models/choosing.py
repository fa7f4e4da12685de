"""The engine of a tokenizer, by its model."""

from __future__ import annotations

from bpe.encode import _encoder as core
from bpe.encode.engine import Engine
from bpe.encode.models.boundless import BoundlessEngine
from bpe.encode.models.picky import PickyEngine
from bpe.vocab.spec import TokenizerSpec


def engine_of_spec(spec: TokenizerSpec, cache_memory: int = core.CACHE_MEMORY) -> Engine:
    """The engine of a tokenizer, whatever its model is."""
    if spec.events is not None:
        return PickyEngine(spec, cache_memory)
    if spec.word_merges is not None:
        return BoundlessEngine(spec, cache_memory)
    return Engine(spec, cache_memory=cache_memory)
