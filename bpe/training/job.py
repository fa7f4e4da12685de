"""`TrainingJob`: one call of `train`, or of a trainer of `bpe.research`: its resources, its counts, its result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import check_memory
from bpe.base.progress import progress_note
from bpe.base.threads import thread_count
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.reading import changed_error
from bpe.corpus.sources import Sources
from bpe.count.counting import count_into
from bpe.count.word_counts import UNITS, WordCounts, check_made_for
from bpe.pretokenize.pretokenizer import PretokenizerLike, as_pretokenizer
from bpe.tokenizer import Tokenizer
from bpe.training.checkpoint import Checkpoint, count_settings, identify_files
from bpe.training.config import TrainConfig, default_pretokenizer
from bpe.training.memory import make_excess_check
from bpe.vocab.editing import truncate
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training

#: What a training gives.
LearnedSpec: TypeAlias = tuple[TokenizerSpec, Training]


class TrainingJob:
    """One call of `train`.

    Args:
        config: its arguments.
        learn: learns merges from words: `learn_merges`, or a function that begins with other tokens.
        recorded: what else determines the result, as name → JSON value, for checkpoints.

    Attributes:
        config, learn: as given.
        max_memory: the most bytes that the process may have; None for no limit.
        threads: the number of threads.

    Raises:
        ValueError: for a `max_memory` below what the process has already.

    """

    def __init__(self, config: TrainConfig, learn: Learn, recorded: Mapping[str, Any] | None = None) -> None:
        self.config, self.learn = config, learn
        self.max_memory, self.threads = check_memory(config.max_memory), thread_count(config.threads)
        self._recorded = dict(recorded or {})
        self._own: list[WordCounts] = []  # which may be cleared

    def run(self, strategy: TrainingStrategy) -> Tokenizer | list[Tokenizer]:
        """Train, and make a tokenizer, or one of each size."""
        began = time.perf_counter()
        learned = strategy(self)
        if len(learned) > 1:
            return [Tokenizer(replace(spec, training=training)) for spec, training in learned]
        spec, training = learned[0]
        training = replace(training, seconds=time.perf_counter() - began)
        sizes = self.config.sizes
        if sizes:
            return [_at_size(spec, training, size) for size in sizes]
        return Tokenizer(replace(spec, training=training))

    def count(
        self,
        source: Sources | Iterable[TextLike] | None,
        given: object,
        *,
        pretokenizer: PretokenizerLike | None = "default",
        units: str = UNITS[0],
        recorded: Mapping[str, Any] | None = None,
        suffix: str = "",
    ) -> tuple[WordCounts, Checkpoint | None]:
        """The words of a corpus, and the checkpoint, which has them too.

        Args:
            source: the files or texts; None if counts are given.
            given: the counts that the caller gave, or None.
            pretokenizer: how texts are split into words; "default" for that of the config.
            units: what is split into words.
            recorded: what else determines the result, for the checkpoint.
            suffix: what follows the path of the checkpoint.

        """
        config = self.config
        words = self.as_given_counts(given, config.pretokenizer if pretokenizer == "default" else pretokenizer, units)
        saved = files = None
        if config.checkpoint is not None:
            files = identify_files(source)
            counting = {**(recorded or {}), **count_settings(words), **_document_options(source)}
            path = f"{os.fspath(config.checkpoint)}{suffix}" if suffix else config.checkpoint
            saved = Checkpoint(path, config.to_json() | self._recorded | counting, files, counting)
        known = None if saved is None else saved.counts()
        if known is not None:
            words = known
        elif given is None:
            count_into(
                words,
                source,
                self.threads,
                config.progress,
                utf8=config.chars,
                max_memory=self.max_memory,
                saving=saved if files is not None else None,
                excess=None if self.max_memory is None else make_excess_check(config, self.max_memory),
            )
        if saved is not None:
            with progress_note(config.progress, "write"):
                saved.begin(words)
        if words is not given:
            self._own.append(words)
        return words, saved

    def checkpoint(self, path: PathLike, recorded: Mapping[str, Any], counts: WordCounts) -> Checkpoint:
        """A checkpoint of merges that are learned from several counts; these have the settings of all."""
        options = self.config.to_json() | self._recorded | dict(recorded)
        saved = Checkpoint(path, options | count_settings(counts))
        saved.begin(counts)
        return saved

    def free_counts(self, counts: WordCounts) -> None:
        """Save the memory of counts that are not the caller's."""
        if any(counts is each for each in self._own):
            counts.clear()

    def as_given_counts(self, given: Any, pretokenizer: PretokenizerLike | None, units: str) -> WordCounts:
        """The counts given by the caller, checked, or empty ones to count a corpus with."""
        config, chosen = self.config, pretokenizer != "default"
        wanted = as_pretokenizer(pretokenizer if chosen else default_pretokenizer(config.chars))
        if isinstance(given, WordCounts):
            for name, requested, current in (
                ("pretokenizer", wanted if chosen else given.pretokenizer, given.pretokenizer),
                ("normalizer", given.normalizer if config.normalizer is None else config.normalizer, given.normalizer),
            ):
                if requested != current:
                    raise ValueError(
                        f"the counts were made with {name}={current!r}, but {name}={requested!r} is requested; leave "
                        "the argument out, or count again"
                    )
            check_made_for(given, config.special_tokens, units, config.reserved)
            return given
        words = WordCounts(wanted, config.normalizer, config.special_tokens)
        words.units = units
        if given is not None:
            words.update(given)
        return words


#: Learns merges from words: learn(job, words, config, the checkpoint) gives the tokenizer, its record, and the counts
#: of the merges.
Learn: TypeAlias = Callable[
    [TrainingJob, WordCounts, TrainConfig, Checkpoint | None], tuple[TokenizerSpec, Training, NDArray[np.int64]]
]
#: A kind of training: its result, or one for each size where they have no merges in common.
TrainingStrategy: TypeAlias = Callable[[TrainingJob], list[LearnedSpec]]


def _at_size(spec: TokenizerSpec, training: Training, size: int) -> Tokenizer:
    """The tokenizer that training to a smaller size gives, as part of a larger one."""
    removed = len(spec.vocabulary) - size
    if removed <= 0:
        return Tokenizer(replace(spec, training=training))
    merges = training.merges - removed
    curve = tuple(row for row in training.curve if row[0] <= merges)
    training = replace(training, stopped=None, merges=merges, curve=curve)
    return Tokenizer(replace(truncate(spec, size), training=training))


def check_unchanged(source: object, before: list[list[Any]] | None) -> None:
    """Raise OSError for files that were changed since `before`: both stages of a training read the same text."""
    for was, is_ in zip(before or (), identify_files(source) or (), strict=True):
        if was != is_:
            raise changed_error(was[0])


def _document_options(source: object) -> dict[str, Any]:
    """The options that turn files into documents, as a checkpoint records them; empty for texts and counts."""
    if not isinstance(source, Sources):
        return {}
    lines = source.keep_separator
    separator = source.separators[0].decode() if source.separators and not lines else None
    errors = {} if source.encoding_errors == "strict" else {"encoding_errors": source.encoding_errors}
    plan = source.plan()
    plain = all(file.format == "text" for file in source.files) and source.on_error == "raise" and plan["part"] is None
    if plain and not source.separator_ends:
        return {"separator": separator, "per_line": lines or None, **errors}
    return {"sources": {name: value for name, value in plan.items() if name != "files"}}
