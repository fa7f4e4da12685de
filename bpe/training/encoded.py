"""Words as ids of a tokenizer, to go on training from.

Not here: the training (`extend.py`, `superwords.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpe.encode.engine import Engine
from bpe.vocab.spec import TokenizerSpec

#: Words of at least this many bytes on average are cut before they are encoded, in groups of GROUP bytes.
LONG_WORDS = 32
GROUP = 1 << 22


def encoded_groups(
    spec: TokenizerSpec, blob: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """(The ids, their offsets) of words by a tokenizer's merges alone, a group of GROUP bytes or more at a time.

    Long words of a byte model, such as lines, are cut between bytes that no token has side by side. No merge reaches
    across, so the ids are the same, and the parts repeat: the word cache finds them.
    """
    engine = Engine(
        replace(spec, pretokenizer=None, normalizer=None, special_tokens={}, token_flags={}, template=None, dropout=0.0)
    )
    cut = spec.model == "byte" and spec.end_of_word is None and not spec.ignore_merges
    if not cut or offsets[-1] < LONG_WORDS * (len(offsets) - 1):
        batch = engine.encode_words(blob, offsets)
        yield batch.ids, batch.offsets
        return
    within, sizes = _byte_pairs(spec), np.diff(spec.vocabulary.offsets)
    first = 0
    while first < len(offsets) - 1:
        last = max(int(np.searchsorted(offsets, offsets[first] + GROUP)), first + 1)
        last = min(last, len(offsets) - 1)
        text, bounds = blob[offsets[first] : offsets[last]], offsets[first : last + 1] - offsets[first]
        cuts = np.ones(len(text) + 1, dtype=np.bool_)
        cuts[1:-1] = ~within[text[:-1].astype(np.uint16) << 8 | text[1:]]
        cuts[bounds] = True
        parts = np.flatnonzero(cuts)
        ids, known = engine.kernel.encode_spans(text, parts[:-1], parts[1:])
        if known:
            yield ids, np.searchsorted(np.cumsum(sizes[ids]), bounds, "right")
        else:  # some byte has no token
            batch = engine.encode_words(text, bounds)
            yield batch.ids, batch.offsets
        first = last


def _byte_pairs(spec: TokenizerSpec) -> NDArray[np.bool_]:
    """Which pairs of bytes, as 256 * left + right, some token has side by side."""
    blob, offsets = np.frombuffer(spec.vocabulary.blob, dtype=np.uint8), spec.vocabulary.offsets
    pairs = blob[:-1].astype(np.uint16) << 8 | blob[1:]
    inside = np.ones(len(pairs), dtype=np.bool_)
    inside[offsets[(offsets > 0) & (offsets < len(blob))] - 1] = False
    found = np.zeros(1 << 16, dtype=np.bool_)
    found[pairs[inside]] = True
    return found
