"""CLIP's model input: rows of a fixed length, with a start and an end token around each text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpe.encode.engine import Engine
from bpe.encode.texts import listed_texts
from bpe.errors import check_int
from bpe.vocab.spec import TokenizerSpec


class ClipRows:
    """Encodes texts to CLIP's rows, for a spec with CLIP's start and end tokens. Immutable.

    As in OpenAI's code, the names of the two tokens are found in text as words. Of the other special tokens those that
    are flagged "ordinary" are found.
    """

    def __init__(self, spec: TokenizerSpec, cache_memory: int) -> None:
        added = {name: i for name, i in spec.special_tokens.items() if "ordinary" in spec.token_flags.get(name, ())}
        flags = {name: spec.token_flags[name] for name in added}
        self._ends = spec.clip or (0, 0)
        names = [(spec.vocabulary[number], number) for number in self._ends]
        self._engine = Engine(replace(spec, special_tokens=added, token_flags=flags), names, cache_memory)

    def rows(
        self, texts: Iterable[str], context_length: int, truncate: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The rows of texts, as `Tokenizer.clip_rows` describes them."""
        width = check_int("context_length", context_length, 2)
        batch = self._engine.encode_batch(listed_texts(texts), 1, self._engine.specials.always)
        lengths = batch.lengths + 2
        if not truncate and len(lengths) and lengths.max() > width:
            at = int(np.argmax(lengths > width))
            raise ValueError(
                f"text {at} has {lengths[at]} ids with start and end, more than context_length={width}; pass "
                "truncate=True to cut it, or a greater context_length"
            )
        lengths = np.minimum(lengths, width)
        rows = np.zeros((len(batch), width), dtype=np.int32)
        start, end = self._ends
        for row, ids, length in zip(rows, batch, lengths.tolist(), strict=True):
            row[0] = start
            row[1 : length - 1] = ids[: length - 2]
            row[length - 1] = end
        return rows, lengths
