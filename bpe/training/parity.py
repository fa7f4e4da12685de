"""Parity-aware training: each merge is chosen by one language, and made in all.

Each language has a trainer of its own, which tracks every pair of its words. A step asks one of them for its best pair
and lets all of them apply it, so that their tokens have the same numbers; each reports by how many tokens its text
became shorter. The first `global_merges` come from a plain trainer on the words of all languages.

Not here: the rule for the next language, which `ParityAware` in `fair.py` documents; the merges (`_trainer.pyx`).

Cost: plain training of each language with a list for every pair, two to four times plain training of all of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpe.base._team import Team
from bpe.base.memory_limits import in_megabytes, resident
from bpe.base.progress import progress_note
from bpe.count.word_counts import WordCounts, arrays_of, empty_like
from bpe.training._trainer import Trainer
from bpe.training.extend import extended, start_trainer
from bpe.training.fair import ParityAware
from bpe.training.options import TrainOptions
from bpe.training.trainer import Execution, run_merges, training_of
from bpe.training.words import Extent
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ID_LIMIT, NONE

#: `Trainer.stop`: no pair is left, or only pairs below min_frequency.
NO_PAIRS, RARE = 1, 2


@dataclass
class Language:
    """One language of a parity-aware training.

    Attributes:
        trainer: of its words.
        compared: of its text in `ParityAware.dev`; None where the lengths of the corpus are compared.
        tokens: the length of the text that is compared, now.
        start: the same before the first merge.
        ratio: of `ParityAware.ratios`, or None.
        is_over: whether it has no pair left.

    """

    trainer: Trainer
    compared: Trainer | None
    tokens: int
    start: int
    ratio: float | None = None
    is_over: bool = False

    def need(self) -> float:
        """The higher, the sooner it is to have a merge."""
        return self.tokens if self.ratio is None else -(self.start / self.tokens / self.ratio)

    def apply(self, left: int, right: int) -> int:
        """Merge a pair; returns the number of its token."""
        token, removed = self.trainer.apply(left, right)
        if self.compared is not None:
            token, removed = self.compared.apply(left, right)
        self.tokens -= removed
        return token


class ParityTrainer:
    """The trainers of all languages in step: what `run_merges` drives, as it does one `Trainer`.

    Args:
        languages: the languages, new.
        fair: the options.
        min_frequency: merge no pair of a language that is rarer in it.
        plain: a trainer on the words of all languages, for the first `fair.global_merges`; None if there are none.

    """

    def __init__(
        self, languages: Sequence[Language], fair: ParityAware, min_frequency: int, plain: Trainer | None
    ) -> None:
        self.languages = languages
        self.stop = 0
        self._fair, self._least, self._plain = fair, min_frequency, plain
        self._rows: list[tuple[int, int, int, int]] = []
        self._rare = False  # whether a language had only pairs that are too rare
        self._recent: deque[int] = deque()
        self._picks = [0] * len(languages)  # of the recent ones, by language
        trainers = [each.trainer for each in languages]
        others = [each.compared for each in languages] + [plain]
        self._trainers = trainers
        self.teams: tuple[Team, ...] = tuple(each.team for each in [*trainers, *others] if each is not None)

    def run(self, most: int, most_tokens: int) -> list[tuple[int, int, int, int]]:
        """Learn up to `most` merges while there are fewer than `most_tokens` tokens, as `Trainer.run` does.

        The count of a merge is that in the language that chose it, or in all for the first `global_merges`.
        """
        before = len(self._rows)
        while len(self._rows) - before < most and self.n_tokens < most_tokens and not self.stop:
            pair = self._global_pair() if len(self._rows) < self._fair.global_merges else self._pair_of_language()
            if pair is not None:
                left, right, count = pair
                (token,) = {each.apply(left, right) for each in self.languages}  # the same in all
                self._rows.append((left, right, token, count))
        return self._rows[before:]

    def _global_pair(self) -> tuple[int, int, int] | None:
        assert self._plain is not None
        rows = self._plain.run(1, ID_LIMIT)
        if not rows:
            self.stop = self._plain.stop
            return None
        left, right, _, count = rows[0]
        return left, right, count

    def _pair_of_language(self) -> tuple[int, int, int] | None:
        """The best pair of the language that needs it most; None if it has none, and is over."""
        number = self._neediest()
        if number is None:
            self.stop = RARE if self._rare else NO_PAIRS
            return None
        language = self.languages[number]
        pair = language.trainer.best()
        if pair is None or pair[2] < self._least:
            language.is_over = True
            self._rare = self._rare or pair is not None
            return None
        if self._fair.window_size is not None:
            self._recent.append(number)
            self._picks[number] += 1
            if len(self._recent) > self._fair.window_size:
                self._picks[self._recent.popleft()] -= 1
        return pair

    def _neediest(self) -> int | None:
        """The language of the next merge; None if all are over."""
        left = [(each.need(), -i) for i, each in enumerate(self.languages) if not each.is_over]
        if not left:
            return None
        size = self._fair.window_size
        if size is not None:
            most = self._fair.alpha / len(self.languages)
            left = [(need, i) for need, i in left if self._picks[-i] / size <= most] or left
        return -max(left)[1]

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return self._trainers[0].n_tokens

    def merges(self) -> NDArray[np.int64]:
        """All merges learned: int64 (n, 4), each left, right, token, count."""
        return np.array(self._rows, dtype=np.int64).reshape(-1, 4)

    def removed(self) -> NDArray[np.int64]:
        """By how many tokens each merge made the corpus shorter: int64 (n,)."""
        removed: NDArray[np.int64] = np.sum([each.removed() for each in self._trainers], axis=0, dtype=np.int64)
        return removed

    def spell_token(self, token: int) -> bytes:
        """The bytes of a token."""
        return self._trainers[0].spell_token(token)

    def vocabulary(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]:
        """All tokens, as `Trainer.vocabulary` gives them."""
        return self._trainers[0].vocabulary()


def learn_fairly(
    counts: Mapping[str, WordCounts],
    fair: ParityAware,
    spec: TokenizerSpec,
    options: TrainOptions,
    execution: Execution,
) -> tuple[TokenizerSpec, Training]:
    """Learn merges that follow those of a tokenizer, up to `options.vocab_size` tokens, from words by language.

    The arguments as for `learn_more`.
    """
    assert options.vocab_size is not None
    began = time.perf_counter()
    more = options.vocab_size - len(spec.vocabulary)
    starter = _Starter(spec, options, more, execution)
    with progress_note(execution.progress, "index"):
        dev = fair.dev or {}
        starter.share_memory([*counts.values(), *dev.values()], [*counts.values()] if fair.global_merges else [])
        plain = None
        if fair.global_merges:
            plain, _, _ = starter.trainer(_together(counts), consume=True, every=False)
        languages, n_words, extents = [], 0, []
        for name, words in counts.items():
            trainer, words_of_it, extent = starter.trainer(words, consume=execution.consume, every=True)
            compared, length = None, extent
            if name in dev:
                compared, _, length = starter.trainer(dev[name], consume=False, every=True)
            ratio = None if fair.ratios is None else float(fair.ratios[name])
            languages.append(Language(trainer, compared, length.tokens, length.tokens, ratio))
            n_words += words_of_it
            extents.append(extent)
    together = ParityTrainer(languages, fair, options.min_frequency, plain)
    merges = run_merges(together, options, starter.target, execution, n_words)
    extent = Extent(sum(each.bytes for each in extents), sum(each.tokens for each in extents))
    return extended(spec, starter.ids, together), training_of(together, merges, n_words, began, extent, options)


def _together(counts: Mapping[str, WordCounts]) -> WordCounts:
    """The counts of all languages."""
    first = next(iter(counts.values()))
    merged = empty_like(first)
    for each in counts.values():
        merged.merge(each, any_documents=True)
    return merged


class _Starter:
    """Starts the trainers of a training, which share its memory."""

    def __init__(self, spec: TokenizerSpec, options: TrainOptions, more: int, execution: Execution) -> None:
        self.spec, self.options, self.more, self.execution = spec, options, more, execution
        self.ids: NDArray[np.int64] = np.flatnonzero(spec.vocabulary.kinds != NONE)
        self.target = len(spec.vocabulary) + more
        self._surplus = 1.0  # how many times the memory that it needs a trainer may take

    def share_memory(self, counts: Sequence[WordCounts], together: Sequence[WordCounts]) -> None:
        """Divide the memory that is left among trainers of each of these counts, and one of `together`.

        Raises:
            ValueError: for too little memory.

        """
        most = self.execution.max_memory
        if most is None:
            return
        needed = sum(map(_memory, counts)) + (_memory(*together) if together else 0)
        held = resident()
        if held + needed > most:
            raise ValueError(
                f"max_memory is {in_megabytes(most)}, but parity-aware training on these words needs "
                f"{in_megabytes(held + needed)}; raise it to that, or train on less text"
            )
        self._surplus = (most - held) / needed

    def trainer(self, counts: WordCounts, *, consume: bool, every: bool) -> tuple[Trainer, int, Extent]:
        """(A trainer of these words, their number, the length of their text)."""
        most = None
        if self.execution.max_memory is not None:
            most = resident() + int(_memory(counts) * self._surplus)
        options = self.options if not every else replace(self.options, min_frequency=1)
        execution = replace(self.execution, consume=consume, max_memory=most)
        trainer, self.ids, n_words, extent = start_trainer(
            counts, self.spec, options, self.more, execution, every=every
        )
        return trainer, n_words, extent


def _memory(*counts: WordCounts) -> int:
    """The memory in bytes that a trainer of every pair of these words needs; at least three times what it holds."""
    arrays = [arrays_of(each) for each in counts]
    return (48 << 20) + sum(32 * len(blob) + 32 * len(offsets) for blob, offsets, _ in arrays)


__all__ = ["Language", "ParityTrainer", "learn_fairly"]
