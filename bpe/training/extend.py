"""`extend`: extend an existing vocabulary with tokens learned from word counts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import measure_memory
from bpe.base.offsets import compute_offsets
from bpe.base.progress import ProgressLike, progress_note
from bpe.count.word_counts import DOCUMENTS, WordCounts, check_counts_match
from bpe.errors import ID_LIMIT, check_int, describe, pluralize
from bpe.tokenizer import Tokenizer
from bpe.training._trainer import Trainer
from bpe.training.checkpoint import Checkpoint
from bpe.training.config import OnMerge, TrainConfig
from bpe.training.encoded import ArraySpool, encode_in_groups
from bpe.training.job import LearnedMerges, TrainingJob
from bpe.training.kernel_input import (
    NO_SYMBOL_COUNTS,
    SYMBOL_LIMIT,
    TOKEN_SYMBOLS,
    CorpusSize,
    InitialTokens,
    WordArrays,
    build_words,
    list_digit_codes,
)
from bpe.training.merge_rules import MergeRules
from bpe.training.superwords import SuperWords, make_second_stage_base
from bpe.training.trainer import learn_merges, make_record, make_trainer, run_merges
from bpe.vocab.spec import TokenizerSpec, check_supported, text_can_spell_mark
from bpe.vocab.symbols import find_word_symbols
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, SPECIAL, UNUSED, Vocabulary


def extend(
    tok: Tokenizer,
    counts: WordCounts | Mapping[str, int] | Mapping[bytes, int],
    vocab_size: int,
    *,
    min_frequency: int = 1,
    superwords: SuperWords | None = None,
    rules: MergeRules | None = None,
    split_digits: bool = False,
    on_merge: OnMerge | None = None,
    progress: ProgressLike = False,
) -> Tokenizer:
    """Extend an existing vocabulary with tokens learned from word counts; its ids and merges stay.

    Each word is encoded by `tok`, and merging continues from those ids. A word without any new token keeps its ids.
    With the counts and the options that `tok` was trained with, the result equals that of one training to
    `vocab_size`. Symbols that `tok` does not know take part in no merge. A pair whose bytes are already a token of
    `tok`, produced by another merge, is not merged.

    Args:
        tok: the tokenizer to extend; it is not changed.
        counts: the words to learn from, a `WordCounts` or a mapping. For texts and files, count them with
            `bpe.count_words(..., pretokenizer=tok.pretokenizer, normalizer=tok.normalizer,
            special_tokens=tok.special_tokens)`.
        vocab_size: the number of tokens of the result, those of `tok` included. New ids follow the largest id of `tok`.
        min_frequency: merge no pair that occurs fewer times than this.
        superwords: learn tokens that reach across words: `counts` are those of its `count_words(2, ...)`, the result
            has its pretokenizer, and its `transition` and `first_pretokenizer` are ignored.
        rules: as for `bpe.train`; tokens of `tok` that break them stay.
        split_digits: as for `bpe.train`.
        on_merge: called after each new merge as for `bpe.train`; step counts from 1.
        progress: as for `bpe.train`.

    Raises:
        TypeError, ValueError: for invalid arguments, counts that were made with another pretokenizer or normalizer or
            without the special tokens of `tok`, a size smaller than that of `tok`, or a tokenizer with both
            `ignore_merges` and an end-of-word mark, since a new token would change words that do not contain its pair.

    >>> import bpe
    >>> counts = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    >>> tok = bpe.train(counts=counts, model="char", num_merges=2)
    >>> longer = bpe.extend(tok, counts, vocab_size=tok.vocab_size + 1)
    >>> tok.tokens("hugs bun"), longer.tokens("hugs bun")
    (['h', 'ug', 's', 'b', 'un'], ['hug', 's', 'b', 'un'])
    >>> longer == bpe.train(counts=counts, model="char", num_merges=3)
    True

    """
    check_extendable(tok)
    check_int("vocab_size", vocab_size, 1)
    spec = tok.spec
    config = TrainConfig(
        counts=counts,
        vocab_size=vocab_size,
        model=spec.model,
        min_frequency=min_frequency,
        end_of_word=spec.end_of_word,
        rules=rules,
        split_digits=split_digits,
        on_merge=on_merge,
        threads=1,
        progress=progress,
    )
    check_size(tok, vocab_size)
    if superwords is not None:
        if not isinstance(superwords, SuperWords):
            raise TypeError(f"superwords is {describe(superwords)}; it must be a bpe.SuperWords or None")
        spec, config = replace(spec, pretokenizer=superwords.get_pretokenizer(2)), superwords.limit_config(config)
    word_counts = as_counts(counts, spec, DOCUMENTS if superwords is None else superwords.units)
    if superwords is not None:
        spec = make_second_stage_base(spec, word_counts, superwords)
    job = TrainingJob(config, learn_merges)
    learned = continue_merges(job, word_counts, spec, config, None)
    return Tokenizer(replace(learned.spec, training=learned.record))


def continue_merges(
    job: TrainingJob, counts: WordCounts, spec: TokenizerSpec, config: TrainConfig, checkpoint: Checkpoint | None
) -> LearnedMerges:
    """Learn merges that follow those of a tokenizer, up to `config.vocab_size` tokens.

    Words are encoded by the tokenizer's merges alone, whatever its pretokenizer is. The rest is as in `learn_merges`.
    """
    start_time = time.perf_counter()
    n_new = config.vocab_size - len(spec.vocabulary)
    with progress_note(config.progress, "index"):
        trainer, ids, n_words, corpus_size = make_continuing_trainer(
            job, counts, spec, config, n_new, max_memory=job.max_memory
        )
    run_merges(trainer, config, len(ids) + n_new, checkpoint, n_words)
    record = make_record(trainer, n_words, start_time, corpus_size, config)
    return LearnedMerges(
        extend_spec(spec, ids, *trainer.list_tokens(), trainer.list_merges()), record, trainer.list_merges()[:, 3]
    )


def check_extendable(tok: Tokenizer) -> None:
    """Raise an error for what is no tokenizer, and for one whose ids a new token could change."""
    if not isinstance(tok, Tokenizer):
        raise TypeError(f"tok is {describe(tok)}; it must be a bpe.Tokenizer")
    spec = tok.spec
    if spec.ignore_merges and spec.end_of_word is not None:
        raise ValueError(
            f"the tokenizer has ignore_merges and the end-of-word mark {spec.end_of_word!r}, so it cannot be extended: "
            "a new token would also replace whole words that do not contain its pair; load it without ignore_merges"
        )
    check_supported(spec, "extending")
    if spec.n_merges_within_words is not None:
        raise ValueError(
            "the tokenizer has merges across words, so it cannot be extended: a new word token would change which "
            "words they join; train a new tokenizer"
        )
    if spec.subword_prefix:
        raise ValueError(
            f"the tokenizer has the subword prefix {spec.subword_prefix!r}, so it cannot be extended: training makes "
            "tokens that are spelled as their text; train a new tokenizer"
        )
    if text_can_spell_mark(spec):
        raise ValueError(
            f"the tokenizer cannot be extended: tokens with {spec.end_of_word!r} stand both for the mark at a word's "
            "end and for text that spells it, which training distinguishes; train a new tokenizer with another "
            "end_of_word"
        )


def check_size(tok: Tokenizer, vocab_size: int) -> None:
    """Raise ValueError for a size below that of the tokenizer, or one that needs ids above the limit."""
    if vocab_size < tok.vocab_size:
        raise ValueError(
            f"vocab_size is {vocab_size}, but the tokenizer has {pluralize(tok.vocab_size, 'token')}; it must be at "
            "least that: tok.truncate_vocab makes a vocabulary smaller"
        )
    max_size = ID_LIMIT - tok.spec.vocabulary.limit + tok.vocab_size
    if vocab_size > max_size:
        raise ValueError(f"vocab_size is {vocab_size}; it must be at most {max_size}, since ids are below {ID_LIMIT}")


def as_counts(
    counts: WordCounts | Mapping[str, int] | Mapping[bytes, int], spec: TokenizerSpec, units: str = DOCUMENTS
) -> WordCounts:
    """Convert counts to `WordCounts` of these units with the tokenizer's pretokenizer, normalizer, special tokens."""
    if not isinstance(counts, WordCounts):
        converted = WordCounts(spec.pretokenizer, spec.normalizer)
        converted.update(counts)
        return converted
    for name in ("pretokenizer", "normalizer"):
        expected, actual = getattr(spec, name), getattr(counts, name)
        if expected != actual:
            raise ValueError(
                f"the counts were made with {name}={actual!r}, but the tokenizer has {expected!r}; count with "
                f"bpe.count_words(..., {name}=tok.{name})"
            )
    check_counts_match(counts, spec.special_tokens, units)
    return counts


class StartedTrainer(NamedTuple):
    """A trainer that starts from encoded words.

    Attributes:
        trainer: the trainer.
        ids: all ids of the tokenizer.
        n_words: the number of distinct words.
        corpus_size: the bytes and tokens of the corpus.

    """

    trainer: Trainer
    ids: NDArray[np.int64]
    n_words: int
    corpus_size: CorpusSize


def make_continuing_trainer(
    job: TrainingJob,
    counts: WordCounts,
    spec: TokenizerSpec,
    config: TrainConfig,
    n_new: int,
    *,
    max_memory: int | None,
    track_all_pairs: bool = False,
) -> StartedTrainer:
    """Make a trainer that starts from the words as the tokenizer encodes them.

    The kernel numbers tokens from 0 without gaps, in the order of their ids. With `track_all_pairs`, the kernel tracks
    every pair.
    """
    vocabulary = spec.vocabulary
    ids = np.flatnonzero(vocabulary.kinds != UNUSED)
    words = build_words(counts, config, job.threads)
    job.clear_own_counts(counts)
    excluded_ids = _find_digit_tokens(vocabulary, config)
    byte_tokens = find_word_symbols(spec).byte_ids
    if byte_tokens is not None:
        excluded_ids += byte_tokens[byte_tokens != NO_TOKEN].tolist()
    n_bytes = words.measure_corpus(config).n_bytes
    words = _encode_words(words, spec, ids, excluded_ids, job.threads, max_memory)
    n_tokens = int(np.dot(np.diff(words.offsets) // 4, words.counts))
    is_word_end = spec.ends_word if spec.ends_word is not None else np.zeros(vocabulary.limit, dtype=np.bool_)
    lengths = _count_token_symbols(spec)
    is_reserved = (vocabulary.kinds == SPECIAL) | _find_unproduced_parts(spec, lengths)
    tokens = [
        (token, bool(is_word_end[token_id]), bool(is_reserved[token_id]), int(lengths[token_id]))
        for token_id, token in vocabulary.items()
    ]
    initial_tokens = InitialTokens(TOKEN_SYMBOLS, tokens, None, None, NO_TOKEN)
    trainer = make_trainer(
        words,
        config,
        initial_tokens,
        n_new,
        max_memory=max_memory,
        threads=job.threads,
        track_all_pairs=track_all_pairs,
    )
    # Returning frees the arrays of `words`.
    return StartedTrainer(trainer, ids, len(words.counts), CorpusSize(n_bytes, n_tokens))


def _encode_words(
    words: WordArrays,
    spec: TokenizerSpec,
    ids: NDArray[np.int64],
    excluded_ids: list[int],
    threads: int,
    max_memory: int | None,
) -> WordArrays:
    """Encode the words by the tokenizer, as uint32 token numbers.

    NO_TOKEN stands for an unknown symbol, and for the tokens in `excluded_ids`. Numbers that take much of
    `max_memory` are written to a temporary file, since the words, and then the symbols, are in memory too.
    """
    vocabulary = spec.vocabulary
    token_numbers = np.full(vocabulary.limit + 1, NO_TOKEN, dtype=np.uint32)  # the last entry is for unknown symbols
    token_numbers[ids] = np.arange(len(ids), dtype=np.uint32)
    token_numbers[:-1][vocabulary.kinds == SPECIAL] = NO_TOKEN
    token_numbers[excluded_ids] = NO_TOKEN
    tokens = ArraySpool(None if max_memory is None else max(max_memory - measure_memory(), 0) // 4)
    lengths = [np.zeros(1, dtype=np.int64)]
    for word_ids, bounds in encode_in_groups(spec, words.blob, words.offsets, threads):
        tokens.append(token_numbers[np.minimum(word_ids, np.uint32(vocabulary.limit))])
        lengths.append(np.diff(bounds))
    offsets = np.cumsum(np.concatenate(lengths))
    if offsets[-1] + len(offsets) > SYMBOL_LIMIT:
        raise ValueError(
            f"the distinct words have {offsets[-1]} tokens; at most {SYMBOL_LIMIT} fit: extend with fewer words"
        )
    blob, is_mapped = tokens.take_all()
    return WordArrays(blob, 4 * offsets, words.counts, NO_SYMBOL_COUNTS, NO_SYMBOL_COUNTS, len(blob) // 4, is_mapped)


def _count_token_symbols(spec: TokenizerSpec) -> NDArray[np.int64]:
    """Count the symbols, by id, of each token that is a symbol or the result of a merge; 0 for the others."""
    vocabulary = spec.vocabulary
    occurs = np.zeros(vocabulary.limit, dtype=np.bool_)
    occurs[spec.merge_results] = True
    for table in find_word_symbols(spec).tables:
        occurs[table[table != NO_TOKEN]] = True
    starts_symbol = np.ones(len(vocabulary.blob), dtype=np.int64)
    if spec.model == "char":
        starts_symbol[:] = np.frombuffer(vocabulary.blob, dtype=np.uint8) & 0xC0 != 0x80
    n_before = compute_offsets(starts_symbol)
    lengths = n_before[vocabulary.offsets[1:]] - n_before[vocabulary.offsets[:-1]]
    if spec.ends_word is not None and spec.end_of_word is not None:  # a separate mark is one symbol, a glued mark none
        size = len(spec.end_of_word) if spec.model == "char" else len(spec.end_of_word.encode())
        lengths = lengths - spec.ends_word * (size - (not spec.end_of_word_glued))
    return np.where(occurs, np.clip(lengths, 1, 0xFFFFFFFF), 0)


def _find_digit_tokens(vocabulary: Vocabulary, config: TrainConfig) -> list[int]:
    """Find the tokens that are one digit, with `split_digits`: they take part in no new merge."""
    digits = {chr(code).encode() for code in list_digit_codes(config)}
    return [token_id for token_id, token in vocabulary.items(ORDINARY, 3) if token in digits] if digits else []


def _find_unproduced_parts(spec: TokenizerSpec, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Find the tokens that are parts of a merge but neither a symbol nor the result of one, as a mask.

    They take part in no new merge: once produced, they would make merges apply that never applied before.
    """
    is_unproduced = np.zeros(spec.vocabulary.limit, dtype=np.bool_)
    is_unproduced[spec.merges.ravel()] = True
    is_unproduced[lengths > 0] = False
    return is_unproduced


def extend_spec(
    spec: TokenizerSpec,
    ids: NDArray[np.int64],
    blob: bytes,
    offsets: NDArray[np.int64],
    is_word_end: NDArray[np.bool_],
    merge_rows: NDArray[np.int64],
) -> TokenizerSpec:
    """Add what a trainer has learned to a tokenizer with these ids; the rest is as for `make_spec`."""
    vocabulary = spec.vocabulary
    ids = np.concatenate((ids, np.arange(len(is_word_end) - len(ids), dtype=np.int64) + vocabulary.limit))
    lengths = np.zeros(vocabulary.limit + len(is_word_end) - len(vocabulary) + 1, dtype=np.int64)
    lengths[ids + 1] = np.diff(offsets)
    kinds = np.concatenate((vocabulary.kinds, np.full(len(is_word_end) - len(vocabulary), ORDINARY, dtype=np.uint8)))
    ends_word = None
    if spec.ends_word is not None:
        ends_word = np.zeros(len(kinds), dtype=np.bool_)
        ends_word[ids] = is_word_end
    merges = ids[merge_rows[:, :3]].astype(np.int32)
    ranks = spec.merge_ranks
    if ranks is not None:
        first_rank = int(ranks[-1]) + 1 if len(ranks) else 0
        if first_rank + len(merges) > ID_LIMIT:
            raise ValueError(
                f"the last rank is {first_rank - 1}; {pluralize(len(merges), 'more merge')} would exceed the limit of "
                f"ranks, {ID_LIMIT - 1}: extend by fewer tokens"
            )
        ranks = np.concatenate((ranks, np.arange(first_rank, first_rank + len(merges), dtype=np.int32)))
    return replace(
        spec,
        vocabulary=Vocabulary.from_arrays(blob, np.cumsum(lengths), kinds),
        merges=np.concatenate((spec.merges, merges[:, :2])),
        merge_results=np.concatenate((spec.merge_results, merges[:, 2])),
        merge_ranks=ranks,
        ends_word=ends_word,
        unmerged=None,
    )
