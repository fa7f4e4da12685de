"""StochasTok: tokens split at random, so that a model sees what its tokens are made of.

Source: Sims et al., "StochasTok: Improving Fine-Grained Subword Understanding in LLMs" (2025, arXiv 2506.01687).
"""

from __future__ import annotations

from typing import overload
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bpe.batch import TokenBatch, as_id_array
from bpe.decode.decoder import Ids
from bpe.errors import check_probability_and_seed
from bpe.merge.splitting import Splits
from bpe.tokenizer import Tokenizer, check_tokenizer


@overload
def stochastok(tok: Tokenizer, ids: TokenBatch, proportion: float = 0.1, *, seed: int | None = None) -> TokenBatch: ...
@overload
def stochastok(tok: Tokenizer, ids: Ids, proportion: float = 0.1, *, seed: int | None = None) -> NDArray[np.uint32]: ...
def stochastok(
    tok: Tokenizer, ids: Ids | TokenBatch, proportion: float = 0.1, *, seed: int | None = None
) -> TokenBatch | NDArray[np.uint32]:
    """Split tokens at random, so that a model sees what its tokens are made of.

    For n ids, a random token is drawn floor(proportion * n) times; if it can be split into two tokens of the
    vocabulary, a random such split replaces it. The text stays the same. Special tokens are not split. Unlike dropout,
    which encodes the text anew, it works on ids. The first call for a tokenizer finds the splits of all its tokens,
    which takes time linear in the bytes of the vocabulary.

    Args:
        tok: the tokenizer.
        ids: a list or an array of ids, or a `TokenBatch`.
        proportion: from 0 to 1; 0.1 is usual.
        seed: an int that decides the choices, the same on every machine; None for random choices. Text i of a batch is
            split with `seed + i`.

    Returns:
        A uint32 array of n to n + floor(proportion * n) ids; of a batch, a `TokenBatch` of these.

    Raises:
        TypeError, ValueError: for ids that are not integers or not in the vocabulary, for a proportion or a seed that
            are out of range, and for a tokenizer with a subword prefix.

    >>> import bpe
    >>> from bpe.research import stochastok
    >>> tok = bpe.train(texts=["low lower lowest"], vocab_size=262)
    >>> ids = tok.encode("lower lowest")
    >>> split = stochastok(tok, ids, 0.5, seed=1)
    >>> len(ids), len(split), tok.decode(split)
    (5, 7, 'lower lowest')

    """
    check_tokenizer(tok)
    proportion, seed_number = check_probability_and_seed("proportion", proportion, seed)
    if isinstance(ids, TokenBatch):
        if len(ids.ids):
            tok._decoder.check(ids.ids.astype(np.uint32, copy=False))
        return TokenBatch(*_find_splits(tok).sample(ids.ids, ids.offsets, proportion, seed_number))
    array = np.ascontiguousarray(as_id_array(ids), dtype=np.uint32)
    tok._decoder.check(array)
    return _find_splits(tok).sample(array, np.array([0, len(array)], dtype=np.int64), proportion, seed_number)[0]


#: The splits of each tokenizer that is alive.
_SPLITS: WeakKeyDictionary[Tokenizer, Splits] = WeakKeyDictionary()


def _find_splits(tok: Tokenizer) -> Splits:
    """Find the splits of a tokenizer, once."""
    splits = _SPLITS.get(tok)
    if splits is None:
        splits = _SPLITS[tok] = Splits(tok.spec)
    return splits
