"""`extend`: a vocabulary that is there, and more tokens behind it, learned from word counts.

Not here: training from the beginning (`bpe/training.py`); making a vocabulary smaller (`bpe/pruning.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpe._core.trainer import Trainer
from bpe.encoding import NO_TOKEN, symbol_tables
from bpe.errors import counted, typed
from bpe.learning import (
    OnMerge,
    Start,
    TieBreak,
    TrainOptions,
    make_trainer,
    replay,
    run_merges,
    training_of,
    words_of,
)
from bpe.progress import ProgressLike, check_progress
from bpe.spec import TokenizerSpec, has_text_marks
from bpe.tokenizer import Tokenizer
from bpe.vocabulary import ID_LIMIT, NONE, ORDINARY, SPECIAL, Vocabulary
from bpe.wordcounts import WordCounts


def extend(
    tok: Tokenizer,
    counts: WordCounts | Mapping[str, int] | Mapping[bytes, int],
    vocab_size: int,
    *,
    tie_break: TieBreak = "id",
    min_frequency: int = 1,
    max_token_length: int | None = None,
    on_merge: OnMerge | None = None,
    progress: ProgressLike = False,
) -> Tokenizer:
    """Learn more tokens for a vocabulary. Its ids and merges stay; the new ones follow them.

    The words are encoded as `tok` encodes them, and merging goes on from there. A word without any new token keeps its
    ids. With the counts and the options that `tok` was trained with, the result is the same as training straight to
    `vocab_size`. Symbols that `tok` does not know take part in no merge.

    Args:
        tok: the tokenizer to begin with; it is not changed.
        counts: the words to learn from, a `WordCounts` or a mapping. For texts and files, count them with
            `bpe.count_words(..., pretokenizer=tok.pretokenizer, normalizer=tok.normalizer)`.
        vocab_size: the number of tokens in the end, those of `tok` included. New ids follow the greatest id of `tok`.
        tie_break: as for `bpe.train`.
        min_frequency: merge no pair that occurs less often.
        max_token_length: make no token of more symbols than this; longer ones that `tok` has stay.
        on_merge: called after each new merge as for `bpe.train`; step counts from 1.
        progress: as for `bpe.train`.

    Raises:
        TypeError, ValueError: for arguments that are wrong, counts that were made with another pretokenizer or
            normalizer, a size smaller than `tok` has, or a tokenizer of a rank file that no training makes.

    >>> import bpe
    >>> counts = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    >>> tok = bpe.train(counts=counts, model="char", num_merges=2)
    >>> longer = bpe.extend(tok, counts, vocab_size=tok.vocab_size + 1)
    >>> tok.tokens("hugs bun"), longer.tokens("hugs bun")
    (['h', 'ug', 's', 'b', 'un'], ['hug', 's', 'b', 'un'])
    >>> longer == bpe.train(counts=counts, model="char", num_merges=3)
    True

    """
    if not isinstance(tok, Tokenizer):
        raise TypeError(f"tok is {typed(tok)}; it must be a bpe.Tokenizer")
    check_progress(progress)
    spec = tok.spec
    options = TrainOptions(
        vocab_size=vocab_size,
        model=spec.model,
        tie_break=tie_break,
        min_frequency=min_frequency,
        max_token_length=max_token_length,
    )
    _check_size(tok, vocab_size)
    if spec.merge_ranks is not None:
        raise ValueError(
            "several merges of this tokenizer share a rank, as no training makes them, so that there is no going on "
            "from them; extend a tokenizer that was trained"
        )
    if has_text_marks(spec):
        raise ValueError(
            f"tokens of this tokenizer that end with {spec.end_of_word!r} are made both by the mark at a word's end "
            "and by text that spells it, and training tells these apart; train anew with another end_of_word"
        )
    began = time.perf_counter()
    trainer, ids, n_words = _begun(_as_counts(counts, spec), spec, options, vocab_size - tok.vocab_size)
    made = run_merges(trainer, 0, options, len(ids) + vocab_size - tok.vocab_size, on_merge, progress)
    longer = _extended(spec, ids, trainer)
    return Tokenizer(longer, training_of(trainer, made, len(longer.vocabulary), n_words, began))


def _check_size(tok: Tokenizer, vocab_size: int) -> None:
    if vocab_size < tok.vocab_size:
        raise ValueError(
            f"vocab_size is {vocab_size}, but the tokenizer has {counted(tok.vocab_size, 'token')}; it must be at "
            "least that: tok.truncate_vocab makes a vocabulary smaller"
        )
    most = ID_LIMIT - tok.spec.vocabulary.limit + tok.vocab_size
    if vocab_size > most:
        raise ValueError(f"vocab_size is {vocab_size}; it must be at most {most}, since ids are below {ID_LIMIT}")


def _as_counts(counts: WordCounts | Mapping[str, int] | Mapping[bytes, int], spec: TokenizerSpec) -> WordCounts:
    """The counts, which must be of words as the tokenizer makes them."""
    if not isinstance(counts, WordCounts):
        made = WordCounts(spec.pretokenizer, spec.normalizer)
        made.update(counts)
        return made
    for name in ("pretokenizer", "normalizer"):
        ours, theirs = getattr(spec, name), getattr(counts, name)
        if ours != theirs:
            raise ValueError(
                f"the counts were made with {name}={theirs!r}, but the tokenizer has {ours!r}; count with "
                f"bpe.count_words(..., {name}=tok.{name})"
            )
    return counts


def _begun(
    counts: WordCounts, spec: TokenizerSpec, options: TrainOptions, more: int
) -> tuple[Trainer, NDArray[np.int64], int]:
    """(A trainer that has made the tokenizer's merges and is to make some more, the ids of its tokens, how many words).

    The kernel numbers tokens from 0 without gaps; the numbers are in the order of the ids.
    """
    vocabulary = spec.vocabulary
    words = words_of(counts, options)
    ids = np.flatnonzero(vocabulary.kinds != NONE)
    numbers = np.full(vocabulary.limit, NO_TOKEN, dtype=np.uint32)
    numbers[ids] = np.arange(len(ids), dtype=np.uint32)
    ends = spec.ends_word if spec.ends_word is not None else np.zeros(vocabulary.limit, dtype=np.bool_)
    inner, last, mark = symbol_tables(spec)
    start = Start(
        [(token, bool(ends[number]), vocabulary.kinds[number] == SPECIAL) for number, token in vocabulary.items()],
        _numbered(inner, numbers, len(words.inner)),
        _numbered(last, numbers, len(words.inner)),
        mark if mark == NO_TOKEN else int(numbers[mark]),
    )
    trainer = make_trainer(words, options, start, len(spec.merges) + more)
    made = numbers[np.column_stack((spec.merges, spec.merge_ids))]
    replay(trainer, made.astype(np.int64))
    return trainer, ids, len(words.counts)  # the words' arrays are gone then: the merges need the memory


def _numbered(table: NDArray[np.uint32], numbers: NDArray[np.uint32], symbols: int) -> NDArray[np.uint32]:
    """A table of symbols that has numbers for ids, as long as the kernel wants it."""
    found = np.full(symbols, NO_TOKEN, dtype=np.uint32)
    known = np.flatnonzero(table != NO_TOKEN)
    found[known] = numbers[table[known]]
    return found


def _extended(spec: TokenizerSpec, ids: NDArray[np.int64], trainer: Trainer) -> TokenizerSpec:
    """The tokenizer with the tokens and the merges that a trainer has made."""
    old = spec.vocabulary
    blob, offsets, ends = trainer.vocabulary()
    ids = np.concatenate((ids, np.arange(len(ends) - len(ids), dtype=np.int64) + old.limit))
    lengths = np.zeros(old.limit + len(ends) - len(old) + 1, dtype=np.int64)
    lengths[ids + 1] = np.diff(offsets)
    kinds = np.concatenate((old.kinds, np.full(len(ends) - len(old), ORDINARY, dtype=np.uint8)))
    ends_word = None
    if spec.ends_word is not None:
        ends_word = np.zeros(len(kinds), dtype=np.bool_)
        ends_word[ids] = ends
    merges = ids[trainer.merges()[:, :3]].astype(np.int32)
    return replace(
        spec,
        vocabulary=Vocabulary.from_arrays(blob, np.cumsum(lengths), kinds),
        merges=np.ascontiguousarray(merges[:, :2]),
        merge_ids=np.ascontiguousarray(merges[:, 2]),
        ends_word=ends_word,
        unreached=None,
    )
