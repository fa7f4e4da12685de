"""PickyBPE: training that deletes tokens which hardly occur any more once they are part of a longer one.

The events are those of the definition in docs/careful_training.md. Encoding is in `bpe/encode/models/picky.py`. Source:
Chizhov et al., "BPE Gets Picky" (EMNLP 2024, arXiv 2409.04599), and the authors' code.

Cost: three to five times the merges of plain training, in one thread, since a step depends on the deletions of the one
before. Each symbol of the distinct words takes some 30 bytes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import format_bytes, measure_memory
from bpe.base.progress import progress_note
from bpe.count.word_counts import WordCounts
from bpe.errors import pluralize, short_repr
from bpe.research._picky import PickyTrainer
from bpe.research.parity import is_positive
from bpe.tokenizer import Tokenizer
from bpe.training.config import CorpusOptions, TrainConfig
from bpe.training.job import SpecAndRecord, TrainingJob
from bpe.training.kernel_input import WordArrays, build_words, make_initial_tokens
from bpe.training.trainer import choose_vocab_limit, learn_merges, make_record, make_spec, run_merges
from bpe.vocab.events import Events
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import join_slices

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The memory for a training, in bytes, twice what Japanese takes: for each symbol of the distinct words, and beside.
BYTES_PER_SYMBOL, BASE_MEMORY = 60, 48 << 20


def train_picky(
    threshold: float = 0.9, *, vocab_size: int | None = None, **options: Unpack[CorpusOptions]
) -> Tokenizer:
    """Train a vocabulary without tokens that merges use up (PickyBPE).

    Right after each merge, both parts are looked at, the left one first. A part that a merge has made is deleted if at
    least `threshold` of its occurrences went into the merge. What is left of it is split into the tokens that it was
    made of, and its place in the vocabulary is free. It may be made again later.

    Encoding does merges and deletions in the order of the training, so no other program can read such a tokenizer: it
    is saved as model type `bpe.PickyBPE`. Source: Chizhov et al., "BPE Gets Picky" (2024, arXiv 2409.04599).

    Args:
        threshold: from this share of its occurrences on a token is deleted; above 0 and at most 1. The paper has 0.6 to
            0.9. With 1, only tokens that do not occur any more are deleted.
        vocab_size: the number of tokens that are not deleted.
        options: as for `bpe.train`; for byte models without an end-of-word mark and an unknown token.

    Raises:
        TypeError, ValueError, FormatError, OSError: as `bpe.train`; for another threshold, and several sizes.

    >>> import bpe
    >>> counts = {"lower": 9, "lowest": 8, "slowly": 1}
    >>> plain = bpe.train(counts=counts, vocab_size=259)
    >>> picky = bpe.research.train_picky(0.9, counts=counts, vocab_size=259)
    >>> [*plain.vocab()][256:], [*picky.vocab()][256:]
    ([b'lo', b'low', b'lowe'], [b'lowe', b'lower', b'st'])

    """
    if not is_positive(threshold) or threshold > 1:
        raise ValueError(
            f"threshold is {short_repr(threshold)}; it must be a number above 0 and at most 1, such as 0.9"
        )
    config = TrainConfig(vocab_size=vocab_size, **options)
    _check_options(config)
    job = TrainingJob(config, learn_merges, {"deletions": {"threshold": float(threshold)}})
    tokenizer = job.run(partial(_run_picky, float(threshold)))
    assert isinstance(tokenizer, Tokenizer)
    return tokenizer


def _check_options(config: TrainConfig) -> None:
    if config.is_char_model or config.end_of_word is not None or config.unk_token is not None:
        raise ValueError(
            "deletions are for byte models without an end-of-word mark and an unknown token; leave model, end_of_word "
            "and unk_token out"
        )
    if config.rules.tie_break == "first":
        raise ValueError(
            "tie_break is 'first'; with deletions it must be 'id', 'smallest' or 'greatest', since a split moves the "
            "first position of a pair"
        )
    if config.vocab_sizes:
        raise ValueError(
            f"vocab_size is {list(config.vocab_sizes)}; with deletions it must be one number, since a smaller "
            "vocabulary is no part of a larger one"
        )


def _run_picky(threshold: float, job: TrainingJob) -> list[SpecAndRecord]:
    """Learn merges and deletions."""
    config = job.config
    counts, checkpoint = job.count(config.make_corpus(), config.counts)
    start_time = time.perf_counter()
    with progress_note(config.progress, "index"):
        words = build_words(counts, config, job.threads)
        job.clear_own_counts(counts)
        initial = make_initial_tokens(words, config)
        n_words, corpus_size = len(words.counts), words.measure_corpus(config)
        vocab_limit = choose_vocab_limit(initial, config)
        if job.max_memory is not None:
            _check_memory(words, job.max_memory)
        learner = PickyTrainer(words, initial, config, threshold)
        del words
    run_merges(learner, config, vocab_limit, checkpoint, n_words)
    return [(_make_picky_spec(counts, config, learner), make_record(learner, n_words, start_time, corpus_size, config))]


def _check_memory(words: WordArrays, max_memory: int) -> None:
    needed = measure_memory() + BASE_MEMORY + BYTES_PER_SYMBOL * (words.n_symbols + len(words.counts))
    if needed > max_memory:
        raise ValueError(
            f"max_memory is {format_bytes(max_memory)}, but training with deletions tracks every pair, which for "
            f"{pluralize(words.n_symbols, 'symbol')} of distinct words may need {format_bytes(needed)}; raise it to "
            "that, or train on less text"
        )


def _make_picky_spec(counts: WordCounts, config: TrainConfig, learner: PickyTrainer) -> TokenizerSpec:
    """Make the tokenizer that a kernel has learned; tokens are numbered in their order, without the deleted ones."""
    blob, offsets, is_deleted = learner.list_tokens_and_deleted()
    n_kept_before, n_deleted_before = np.cumsum(~is_deleted), np.cumsum(is_deleted, dtype=np.int64)
    signed_ids = np.where(is_deleted, -n_deleted_before, n_kept_before - 1 + config.alphabet.first_id).astype(np.int32)
    kept_ids = np.flatnonzero(~is_deleted)
    text, bounds = join_slices(np.frombuffer(blob, dtype=np.uint8), offsets[kept_ids], np.diff(offsets)[kept_ids])
    no_merges: NDArray[np.int64] = np.empty((0, 4), dtype=np.int64)
    spec = make_spec(counts, config, text.tobytes(), bounds, np.zeros(len(kept_ids), dtype=np.bool_), no_merges)
    merges, deletions = learner.list_merges(), learner.list_deletions().astype(np.int32)
    deletions[:, 1] = signed_ids[deletions[:, 1]]
    return replace(spec, events=Events(signed_ids[merges[:, :2]], signed_ids[merges[:, 2]], deletions))
