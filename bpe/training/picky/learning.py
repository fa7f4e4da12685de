"""Learning with deletions: sets up the kernel `_learner.pyx`, and builds the tokenizer from its result.

Not here: driving a kernel, checkpoints included (`bpe/training/trainer.py`), and the option (`option.py`).
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import in_megabytes, resident
from bpe.base.progress import progress_note
from bpe.count.word_counts import WordCounts
from bpe.errors import counted
from bpe.training.options import TrainOptions
from bpe.training.picky._learner import PickyLearner
from bpe.training.picky.option import PickyBPE
from bpe.training.trainer import Execution, next_merge, run_merges, start_of, tokenizer_spec, training_of
from bpe.training.words import Extent, Words, words_of
from bpe.vocab.events import Events
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import end_to_end

#: The memory for a training, in bytes, twice what Japanese takes: for each symbol of the distinct words, and beside.
PER_SYMBOL, AT_LEAST = 60, 48 << 20


def learn_picky(
    counts: WordCounts, deletions: PickyBPE, options: TrainOptions, execution: Execution
) -> tuple[TokenizerSpec, Training]:
    """Learn merges and deletions from word counts, in one thread: a step depends on the deletions of the one before.

    Raises:
        ValueError: as `learn`, or for a `max_memory` that the training may not fit in.

    """
    began = time.perf_counter()
    with progress_note(execution.progress, "index"):
        learner, target, n_words, extent = _start(counts, deletions, options, execution)
    merges = run_merges(learner, options, target, execution, n_words)
    return _spec(counts, options, learner), training_of(learner, merges, n_words, began, extent, options)


def _start(
    counts: WordCounts, deletions: PickyBPE, options: TrainOptions, execution: Execution
) -> tuple[PickyLearner, int, int, Extent]:
    """(The kernel, the most tokens of the result, the number of words, the corpus's length)."""
    words = words_of(counts, options)
    if execution.consume:
        counts.clear()
    start, target = start_of(words, options)
    if execution.max_memory is not None:
        _check_memory(words, execution.max_memory)
    learner = PickyLearner(words, start, next_merge(options, every=True), deletions.threshold)
    return learner, target, len(words.counts), words.extent(options)


def _check_memory(words: Words, max_memory: int) -> None:
    needed = resident() + AT_LEAST + PER_SYMBOL * (words.symbols + len(words.counts))
    if needed > max_memory:
        raise ValueError(
            f"max_memory is {in_megabytes(max_memory)}, but training with deletions tracks every pair, which for "
            f"{counted(words.symbols, 'symbol')} of distinct words may need {in_megabytes(needed)}; raise it to that, "
            "or train on less text"
        )


def _spec(counts: WordCounts, options: TrainOptions, learner: PickyLearner) -> TokenizerSpec:
    """The tokenizer that a kernel has learned: its tokens are numbered in their order, without the deleted ones."""
    blob, offsets, deleted = learner.vocabulary()
    kept_before, deleted_before = np.cumsum(~deleted), np.cumsum(deleted, dtype=np.int64)
    numbers = np.where(deleted, -deleted_before, kept_before - 1 + options.first_id).astype(np.int32)
    kept = np.flatnonzero(~deleted)
    text, bounds = end_to_end(np.frombuffer(blob, dtype=np.uint8), offsets[kept], np.diff(offsets)[kept])
    none: NDArray[np.int64] = np.empty((0, 4), dtype=np.int64)
    spec = tokenizer_spec(counts, options, text.tobytes(), bounds, np.zeros(len(kept), dtype=np.bool_), none)
    merges, removals = learner.merges(), learner.deletions().astype(np.int32)
    removals[:, 1] = numbers[removals[:, 1]]
    return replace(spec, events=Events(numbers[merges[:, :2]], numbers[merges[:, 2]], removals))


__all__ = ["learn_picky"]
