"""`TrainingJob`: one call of `train`, or of a trainer of `bpe.research`: its counts, its memory, its result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import check_memory, format_bytes, measure_memory
from bpe.base.progress import progress_note
from bpe.base.threads import resolve_threads
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.reading import make_changed_error
from bpe.corpus.sources import Sources
from bpe.count.counting import MemoryCheck, fill_from_corpus
from bpe.count.word_counts import DOCUMENTS, WordCounts, check_counts_match
from bpe.errors import pluralize
from bpe.pretokenize.pretokenizer import PretokenizerLike, as_pretokenizer
from bpe.tokenizer import Tokenizer
from bpe.training.checkpoint import Checkpoint, describe_count_settings, identify_files
from bpe.training.config import TrainConfig, choose_default_pretokenizer
from bpe.training.kernel_input import WIDE_FROM_TOKENS, WordArrays
from bpe.vocab.editing import truncate
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training

#: What a training gives: a tokenizer, and the record of its training.
SpecAndRecord: TypeAlias = tuple[TokenizerSpec, Training]


class LearnedMerges(NamedTuple):
    """What learning merges from words gives.

    Attributes:
        spec: the tokenizer.
        record: the record of the training.
        merge_counts: int64: the count of each merge's pair when it was merged.

    """

    spec: TokenizerSpec
    record: Training
    merge_counts: NDArray[np.int64]


class TrainingJob:
    """One call of `train`.

    Args:
        config: its arguments.
        learn: the function behind the method `learn`: `learn_merges`, or one that begins with other tokens.
        extra_options: what else determines the result, as name → JSON value, for checkpoints.

    Attributes:
        config: as given.
        max_memory: the most bytes that the process may have; None for no limit.
        threads: the number of threads.

    Raises:
        ValueError: for a `max_memory` below what the process has already.

    """

    def __init__(
        self, config: TrainConfig, learn: LearnFunction, extra_options: Mapping[str, Any] | None = None
    ) -> None:
        self.config, self._learn = config, learn
        self.max_memory, self.threads = check_memory(config.max_memory), resolve_threads(config.threads)
        self._extra_options = dict(extra_options or {})
        self._owned_counts: list[WordCounts] = []  # which may be cleared

    def run(self, strategy: TrainingStrategy) -> Tokenizer | list[Tokenizer]:
        """Train by a strategy, and make a tokenizer, or one of each size."""
        start_time = time.perf_counter()
        results = strategy(self)
        if len(results) > 1:
            return [Tokenizer(replace(spec, training=training)) for spec, training in results]
        spec, training = results[0]
        training = replace(training, seconds=time.perf_counter() - start_time)
        if self.config.vocab_sizes:
            return [_truncate_to_size(spec, training, vocab_size) for vocab_size in self.config.vocab_sizes]
        return Tokenizer(replace(spec, training=training))

    def learn(self, counts: WordCounts, config: TrainConfig, checkpoint: Checkpoint | None) -> LearnedMerges:
        """Learn merges from words."""
        return self._learn(self, counts, config, checkpoint)

    def count(
        self,
        corpus: Sources | Iterable[TextLike] | None,
        given_counts: object,
        *,
        pretokenizer: PretokenizerLike | None = "default",
        units: str = DOCUMENTS,
        extra_options: Mapping[str, Any] | None = None,
        suffix: str = "",
    ) -> tuple[WordCounts, Checkpoint | None]:
        """Count the words of a corpus, or load them from the checkpoint: (the words, the checkpoint).

        Args:
            corpus: the files or texts; None if counts are given.
            given_counts: the counts that the caller gave, or None.
            pretokenizer: how texts are split into words; "default" for that of the config.
            units: what is split into words.
            extra_options: what else determines the result, for the checkpoint.
            suffix: what follows the path of the checkpoint.

        """
        config = self.config
        if pretokenizer == "default":
            pretokenizer = config.pretokenizer
        counts = self.prepare_counts(given_counts, pretokenizer, units)
        checkpoint = files = None
        if config.checkpoint is not None:
            files = identify_files(corpus)
            count_options = {
                **(extra_options or {}),
                **describe_count_settings(counts),
                **_list_document_options(corpus),
            }
            path = f"{os.fspath(config.checkpoint)}{suffix}" if suffix else config.checkpoint
            checkpoint = Checkpoint(
                path, config.to_json() | self._extra_options | count_options, files, count_options.keys()
            )
        saved_counts = None if checkpoint is None else checkpoint.load_counts()
        if saved_counts is not None:
            counts = saved_counts
        elif given_counts is None:
            fill_from_corpus(
                counts,
                corpus,
                self.threads,
                config.progress,
                requires_utf8=config.is_char_model,
                max_memory=self.max_memory,
                count_store=checkpoint if files is not None else None,
                memory_check=None if self.max_memory is None else make_memory_check(config, self.max_memory),
            )
        if checkpoint is not None:
            with progress_note(config.progress, "write"):
                checkpoint.record_counts(counts)
        if counts is not given_counts:
            self._owned_counts.append(counts)
        return counts, checkpoint

    def open_checkpoint(self, path: PathLike, extra_options: Mapping[str, Any], counts: WordCounts) -> Checkpoint:
        """Open a checkpoint of merges that are learned from several counts; `counts` have the settings of all."""
        options = self.config.to_json() | self._extra_options | dict(extra_options)
        checkpoint = Checkpoint(path, options | describe_count_settings(counts))
        checkpoint.record_counts(counts)
        return checkpoint

    def clear_own_counts(self, counts: WordCounts) -> None:
        """Clear counts that are not the caller's, to save memory."""
        if any(counts is owned for owned in self._owned_counts):
            counts.clear()

    def prepare_counts(self, given_counts: Any, pretokenizer: PretokenizerLike | None, units: str) -> WordCounts:
        """Check the counts that the caller gave, or make empty ones to count a corpus with."""
        config, is_named = self.config, pretokenizer != "default"
        pretokenizer = as_pretokenizer(pretokenizer if is_named else choose_default_pretokenizer(config.is_char_model))
        if isinstance(given_counts, WordCounts):
            current: dict[str, Any] = {"pretokenizer": given_counts.pretokenizer, "normalizer": given_counts.normalizer}
            requested = current | ({"pretokenizer": pretokenizer} if is_named else {})
            if config.normalizer is not None:
                requested["normalizer"] = config.normalizer
            for name, value in requested.items():
                if value != current[name]:
                    raise ValueError(
                        f"the counts were made with {name}={current[name]!r}, but {name}={value!r} is requested; leave "
                        "the argument out, or count again"
                    )
            check_counts_match(given_counts, config.special_tokens, units, config.reserved_names)
            return given_counts
        counts = WordCounts(pretokenizer, config.normalizer, config.special_tokens)
        counts.units = units
        if given_counts is not None:
            counts.update(given_counts)
        return counts


#: A function that learns merges from words, called as learn(job, counts, config, checkpoint); see `TrainingJob.learn`.
LearnFunction: TypeAlias = Callable[[TrainingJob, WordCounts, TrainConfig, Checkpoint | None], LearnedMerges]
#: A kind of training: its result, or one for each size where they have no merges in common.
TrainingStrategy: TypeAlias = Callable[[TrainingJob], list[SpecAndRecord]]


def _truncate_to_size(spec: TokenizerSpec, training: Training, vocab_size: int) -> Tokenizer:
    """Make the tokenizer of training to a smaller size, from that of a larger one."""
    n_removed = len(spec.vocabulary) - vocab_size
    if n_removed <= 0:
        return Tokenizer(replace(spec, training=training))
    n_merges = training.merges - n_removed
    curve = tuple(row for row in training.curve if row[0] <= n_merges)
    training = replace(training, stopped=None, merges=n_merges, curve=curve)
    return Tokenizer(replace(truncate(spec, vocab_size), training=training))


def check_unchanged(corpus: object, files_before: list[list[Any]] | None) -> None:
    """Raise OSError for files that were changed since `files_before`: both stages of a training read the same text."""
    for old_file, new_file in zip(files_before or (), identify_files(corpus) or (), strict=True):
        if old_file != new_file:
            raise make_changed_error(old_file[0])


def _list_document_options(corpus: object) -> dict[str, Any]:
    """List the options that turn files into documents, as a checkpoint records them; none for texts and counts."""
    if not isinstance(corpus, Sources):
        return {}
    per_line = corpus.keep_separator
    separator = corpus.separators[0].decode() if corpus.separators and not per_line else None
    errors = {} if corpus.encoding_errors == "strict" else {"encoding_errors": corpus.encoding_errors}
    plan = corpus.plan()
    is_plain = (
        all(file.format == "text" for file in corpus.files) and corpus.on_error == "raise" and plan["part"] is None
    )
    if is_plain and not corpus.separator_ends:
        return {"separator": separator, "per_line": per_line or None, **errors}
    return {"sources": {name: value for name, value in plan.items() if name != "files"}}


# Memory ---------------------------------------------------------------------------------------------------------------

#: The least memory, in bytes, for lists and tables of pairs. With less, pairs would be recounted too often.
MIN_PAIR_MEMORY = 1 << 24
#: An estimate from a sample may be too high by this factor; only a larger excess ends counting.
SAMPLING_ERROR = 1.1


def compute_pair_memory(words: WordArrays, max_memory: int, n_initial: int, max_tokens: int) -> int:
    """Compute the bytes that are left for lists and tables of pairs.

    Args:
        words: the words.
        max_memory: the most bytes that the process may have.
        n_initial: the number of tokens that training starts from.
        max_tokens: the most tokens of the result.

    Raises:
        ValueError: if the symbols do not fit in `max_memory`.

    """
    resident_bytes = measure_memory()
    word_bytes = words.memory
    n_cells = words.n_symbols + 2 * len(words.counts) + 1
    symbol_size = 2 if max_tokens < WIDE_FROM_TOKENS else 4
    if n_initial < WIDE_FROM_TOKENS <= max_tokens:
        symbol_size = 2 + 4  # both arrays exist while symbols are widened
    symbol_bytes = n_cells * symbol_size
    # The process already has the words: `_estimate_memory` adds them to the rest.
    needed = _estimate_memory(resident_bytes - word_bytes, word_bytes, len(words.counts), symbol_bytes)
    if needed > max_memory:
        # With a higher limit less is spilled, so up to `word_bytes` more of the words is in memory. An eighth is for
        # what differs from run to run: the heaps of threads, and freed memory that the system has not taken back.
        suggested = (needed + needed // 8 + word_bytes >> 20) + 1 << 20
        raise ValueError(
            f"max_memory is {format_bytes(max_memory)}, but {pluralize(len(words.counts), 'distinct word')} of "
            f"{pluralize(words.n_symbols, 'symbol')} need {format_bytes(suggested)}; raise it to that (saved counts, "
            "also in a checkpoint, are not counted again), or train on less text"
        )
    return (max_memory - resident_bytes + word_bytes - symbol_bytes) // 2


def _estimate_memory(other_bytes: int, word_bytes: int, n_words: int, symbol_bytes: int) -> int:
    """Estimate the bytes that training needs: `other_bytes`, the words, and the symbols of the kernel."""
    # With the order of the words, and while they are sorted.
    layout_bytes = max(symbol_bytes + 8 * n_words, 18 * n_words)
    return other_bytes + max(word_bytes + layout_bytes, 2 * MIN_PAIR_MEMORY + symbol_bytes)


def make_memory_check(config: TrainConfig, max_memory: int) -> MemoryCheck:
    """Make a function that tells, while words are counted, whether training on them needs more than `max_memory`."""
    other_bytes = measure_memory()
    bytes_per_symbol = 2 if (config.vocab_size or config.num_merges or 0) < WIDE_FROM_TOKENS else 6

    def check_words(blob: NDArray[np.uint8], offsets: NDArray[np.int64], sampling_factor: int) -> str | None:
        n_words = sampling_factor * (len(offsets) - 1)
        n_symbols = sampling_factor * int(np.count_nonzero(blob & 0xC0 != 0x80) if config.is_char_model else len(blob))
        word_bytes = sampling_factor * len(blob) + 16 * n_words
        needed = _estimate_memory(other_bytes, word_bytes, n_words, bytes_per_symbol * (n_symbols + 2 * n_words))
        if needed - other_bytes < SAMPLING_ERROR * (max_memory - other_bytes):
            return None
        return (
            f"max_memory is {format_bytes(max_memory)}, but the words counted so far, about {n_words} of "
            f"{n_symbols} symbols, need {format_bytes(needed + word_bytes)}; raise it beyond that (a checkpoint "
            "keeps the counts so far), or train on less text"
        )

    return check_words
