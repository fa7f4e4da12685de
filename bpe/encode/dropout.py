"""BPE-dropout: encode a text with random merges left out, which makes trained models more robust.

Source: Provilkov, Emelianenko and Voita, "BPE-Dropout" (ACL 2020). The merging: `bpe/merge/_dropout.pyx`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bpe.base.threads import in_order
from bpe.base.utf8 import TextLike
from bpe.batch import TokenBatch
from bpe.encode.engine import Around, Engine, surrounded
from bpe.encode.texts import Policy, arrow_groups, listed_texts
from bpe.errors import check_sampling, shown
from bpe.merge._dropout import Dropout
from bpe.vocab.spec import TokenizerSpec, check_defined
from bpe.vocab.vocabulary import NO_TOKEN

_WORD = 2**64 - 1
_WHOLE = 2**53


class DropoutEncoder:
    """Encodes with dropout, using the tables of an `Engine`. Immutable.

    `ignore_merges` has no effect here, as in Hugging Face's `tokenizers`: a word that is a token is merged like any
    other, since otherwise dropout would hardly change anything.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._core = Dropout(engine.merger)

    def encode(self, text: TextLike, allowed: frozenset[str], dropout: float, seed: int) -> NDArray[np.uint32]:
        """The ids of one text. They depend only on the text, the probability and the seed."""
        parts: list[NDArray[np.uint32]] = []
        state = seed & _WORD
        for segment in self._engine.prepare(text, allowed):
            if segment.token_id is not None:
                parts.append(np.array([segment.token_id], dtype=np.uint32))
                continue
            data, (starts, ends) = segment.data, segment.bounds()
            ids, state, known = self._core.encode(data, starts, ends, int(dropout * _WHOLE), state)
            if not known and self._engine.spec.drop_unknown:
                ids = ids[ids != NO_TOKEN]
            elif not known:
                self._engine.refuse_unknown(data)
            parts.append(ids)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)

    def encode_batch(
        self,
        texts: Iterable[TextLike],
        threads: int,
        policy: Policy,
        sampling: tuple[float, int],
        around: Around,
    ) -> TokenBatch:
        """The ids of many texts; text i is encoded with the seed + i."""
        documents = arrow_groups(texts)
        listed = listed_texts(texts) if documents is None else [text for each in documents for text in each.texts()]
        allowed = self._engine.specials.check_texts(listed, *policy)
        dropout, seed = sampling

        def encode_row(index: int) -> NDArray[np.uint32]:
            return surrounded(self.encode(listed[index], allowed, dropout, seed + index), around)

        return TokenBatch.from_lists(in_order(encode_row, range(len(listed)), min(threads, len(listed) or 1)))


def check_dropout(spec: TokenizerSpec, dropout: float, seed: int | None) -> tuple[float, int]:
    """The arguments `dropout` and `seed`, if the tokenizer can be used with dropout; a random seed for None.

    Raises:
        TypeError, ValueError: for invalid arguments, and for merges across words or deletions.

    """
    check_defined(spec, f"dropout={shown(dropout)}", across_words=False)
    return check_sampling("dropout", dropout, seed)
