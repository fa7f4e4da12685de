"""Parity-aware training: each merge is chosen by one language, and made in all (Foroutan et al., arXiv 2508.04796).

Each language has a trainer of its own, which tracks every pair of its words. A step asks one of them for its best pair
and lets all of them apply it, so that their tokens have the same numbers; each reports by how many tokens its text
became shorter. The first `global_merges` come from a plain trainer on the words of all languages.

Cost: plain training of each language with a list for every pair, two to four times plain training of all of them.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from bpe.base._team import Team
from bpe.base.memory_limits import format_bytes, measure_memory
from bpe.base.progress import progress_note
from bpe.base.utf8 import TextLike
from bpe.corpus.sources import Files, Sources
from bpe.count.word_counts import WordCounts, borrow_arrays, empty_like
from bpe.errors import ID_LIMIT, check_int, describe, get_log, short_repr
from bpe.research.seeds import Seeds, begin_with_seeds, make_seeded_job
from bpe.tokenizer import Tokenizer
from bpe.training._trainer import Trainer
from bpe.training.checkpoint import compute_fingerprint, describe_count_settings
from bpe.training.config import CountsLike, TrainConfig, TrainOptions
from bpe.training.extend import StartedTrainer, extend_spec, make_continuing_trainer
from bpe.training.job import SpecAndRecord, TrainingJob
from bpe.training.kernel_input import CorpusSize, WordArrays, build_words
from bpe.training.trainer import NO_PAIRS, ONLY_RARE_PAIRS, make_initial_spec, make_record, run_merges
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import UNUSED

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ParityOptions(TrainOptions, total=False):
    """The options of `train_parity` but `vocab_size`, for type checkers."""

    dev: Mapping[str, WordCounts] | None
    ratios: Mapping[str, float] | None
    global_merges: int
    window_size: int | None
    alpha: float
    seeds: Seeds | None
    files: Mapping[str, Files] | None
    texts: Mapping[str, Iterable[TextLike]] | None
    counts: Mapping[str, CountsLike] | None


@overload
def train_parity(*, vocab_size: int | None = None, **options: Unpack[ParityOptions]) -> Tokenizer: ...
@overload
def train_parity(*, vocab_size: Sequence[int], **options: Unpack[ParityOptions]) -> list[Tokenizer]: ...
def train_parity(
    *,
    dev: Mapping[str, WordCounts] | None = None,
    ratios: Mapping[str, float] | None = None,
    global_merges: int = 0,
    window_size: int | None = None,
    alpha: float = 2.0,
    seeds: Seeds | None = None,
    files: Mapping[str, Files] | None = None,
    texts: Mapping[str, Iterable[TextLike]] | None = None,
    counts: Mapping[str, CountsLike] | None = None,
    vocab_size: int | Sequence[int] | None = None,
    **options: Unpack[TrainOptions],
) -> Tokenizer | list[Tokenizer]:
    """Train a vocabulary where each merge helps the language that is encoded worst.

    The corpus is given by language. Each step chooses a language, and merges the most frequent pair of that language in
    the texts of all. The result is an ordinary tokenizer.

    The language of a step is, among those that have a pair left (of `min_frequency` or more):

    - without `ratios`, the one whose text has the most tokens: its text in `dev`, or, without `dev`, in the corpus,
      which a warning in the log advises against;
    - with `ratios`, the one with the smallest (tokens at the start / tokens now) / ratio, over its text in the corpus.

    Of several, the first in the mapping is taken.

    Args:
        dev: the counts of a text per language that says the same in all of them, to compare lengths by. The merges come
            from the corpus alone. A symbol outside the alphabet counts as one token.
        ratios: how well each language is to be compressed, relative to the others.
        global_merges: how many merges come first that are those of plain training on the counts of all languages.
        window_size: skip a language that made more than `alpha` / n of the last `window_size` steps, where n is the
            number of languages, unless every language did; the paper has 100. None, the default, skips none.
        alpha: see `window_size`.
        seeds: tokens that the vocabulary begins with.
        files: a mapping from the name of each language to its files; or
        texts: to its texts; or
        counts: to its `WordCounts`. Give exactly one of the three.
        vocab_size: the number of tokens of the result, or a list of such numbers.
        options: as for `bpe.train`; the rules without a veto function. Each language's counts have a checkpoint of
            their own, PATH.1, PATH.2, …

    Returns:
        A tokenizer, or one of each size.

    Raises:
        TypeError, ValueError, FormatError, OSError: as `bpe.train`; for other values than these.

    >>> import bpe
    >>> corpus = {"en": ["the cat and the hat"] * 9, "ko": ["고양이와 모자"]}
    >>> tok = bpe.research.train_parity(texts=corpus, vocab_size=266, ratios={"en": 1.0, "ko": 1.0})
    >>> plain = bpe.train(texts=corpus["en"] + corpus["ko"], vocab_size=266)
    >>> plain.count_tokens("고양이와 모자"), tok.count_tokens("고양이와 모자")
    (19, 13)

    """
    config = TrainConfig(files=files, texts=texts, counts=counts, vocab_size=vocab_size, **options)
    if config.rules.veto is not None:
        raise ValueError("rules has a veto function, which parity-aware training does not ask; use other rules")
    rule = ParityRule(dev, ratios, global_merges, window_size, alpha)
    if dev is None and ratios is None:
        get_log().warning(
            "neither dev nor ratios is given, so the language with the longest corpus chooses the merges, and other "
            "languages may be encoded worse than by plain training; give the word counts of a text that all languages "
            "have (dev), or the bytes that each needs for the same content (ratios)"
        )
    return make_seeded_job(config, seeds).run(partial(_run_parity, rule, seeds))


def _run_parity(rule: ParityRule, seeds: Seeds | None, job: TrainingJob) -> list[SpecAndRecord]:
    """Train on a corpus by language. Each language's counts have a checkpoint of their own, the merges another."""
    config, counts, checkpoint = job.config, {}, None
    for checkpoint_number, (name, (corpus, given_counts)) in enumerate(_split_corpus(rule, config).items(), 1):
        counts[name], _ = job.count(
            corpus, given_counts, extra_options={"language": name}, suffix=f".{checkpoint_number}"
        )
    words_by_language = _check_words(counts, rule, config)
    first_counts = next(iter(counts.values()))
    if config.checkpoint is not None:
        fingerprints = {
            name: {language: compute_fingerprint(language_counts) for language, language_counts in words.items()}
            for name, words in (("languages", counts), ("dev", rule.dev or {}))
        }
        checkpoint = job.open_checkpoint(config.checkpoint, {"parity": rule.to_json(), **fingerprints}, first_counts)
    spec, config = begin_with_seeds(seeds, make_initial_spec(first_counts, words_by_language, config), config)
    del words_by_language
    start_time, n_initial = time.perf_counter(), len(spec.merges)
    factory = _TrainerFactory(job, spec, config)
    with progress_note(config.progress, "index"):
        trainer, n_words, corpus_size = factory.start(counts, rule)
    run_merges(trainer, config, config.vocab_size, checkpoint, n_words)
    spec = extend_spec(spec, factory.ids, *trainer.list_tokens(), trainer.list_merges())
    return [(spec, make_record(trainer, n_words, start_time, corpus_size, config).after(n_initial))]


def _split_corpus(rule: ParityRule, config: TrainConfig) -> dict[str, tuple[Sources | Iterable[TextLike] | None, Any]]:
    """Split the corpus by language: name → (files or texts, counts)."""
    name = next(name for name in ("files", "texts", "counts") if getattr(config, name) is not None)
    mapping: Any = getattr(config, name)
    if not isinstance(mapping, Mapping) or not mapping:
        raise TypeError(f"{name} is {describe(mapping)}; it must map each language to its own {name}")
    mapping = dict(mapping)  # a copy: what is checked is what is used
    for language, corpus in mapping.items():
        if not isinstance(language, str):
            raise TypeError(f"{name} has the language {short_repr(language)}; the name of a language must be a str")
        if corpus is None:
            raise TypeError(f"{name} of {language!r} is None; it must map each language to its own {name}")
    rule.check_languages(mapping)
    configs = {language: replace(config, **{name: corpus}) for language, corpus in mapping.items()}
    return {
        language: (language_config.make_corpus(), language_config.counts)
        for language, language_config in configs.items()
    }


def _check_words(counts: Mapping[str, WordCounts], rule: ParityRule, config: TrainConfig) -> list[WordArrays]:
    """Check that all counts have the same settings, and build the words of each language."""
    first_name, settings = next(
        (name, describe_count_settings(language_counts)) for name, language_counts in counts.items()
    )
    for corpus_name, counts_by_language in (("the corpus", counts), ("dev", rule.dev or {})):
        for name, language_counts in counts_by_language.items():
            other_settings = describe_count_settings(language_counts)
            differing_name = next(
                (
                    setting
                    for setting in settings | other_settings
                    if other_settings.get(setting) != settings.get(setting)
                ),
                None,
            )
            if differing_name is not None:
                raise ValueError(
                    f"the counts of {name!r} in {corpus_name} were made with "
                    f"{differing_name}={short_repr(other_settings.get(differing_name))}, those of {first_name!r} "
                    f"with {short_repr(settings.get(differing_name))}; they must be made with the same settings: "
                    "count one of them again"
                )
    return [_build_words(name, language_counts, config) for name, language_counts in counts.items()]


def _build_words(name: str, counts: WordCounts, config: TrainConfig) -> WordArrays:
    try:
        return build_words(counts, config)
    except ValueError as error:
        raise ValueError(f"language {name!r}: {error}") from None


@dataclass(frozen=True)
class ParityRule:
    """How the language of a step is chosen; `train_parity` documents the values."""

    dev: Mapping[str, WordCounts] | None = None
    ratios: Mapping[str, float] | None = None
    global_merges: int = 0
    window_size: int | None = None
    alpha: float = 2.0

    def __post_init__(self) -> None:
        if self.dev is not None and self.ratios is not None:
            raise ValueError("dev and ratios are two ways to compare languages; give at most one of them")
        for name, value_type in (("dev", "WordCounts"), ("ratios", "a number")):
            mapping: Any = getattr(self, name)
            if mapping is None:
                continue
            if not isinstance(mapping, Mapping):
                raise TypeError(f"{name} is {describe(mapping)}; it must map each language to {value_type}")
            mapping = dict(mapping)
            object.__setattr__(self, name, mapping)
            for language, value in mapping.items():
                if name == "dev" and not isinstance(value, WordCounts):
                    raise TypeError(f"dev[{short_repr(language)}] is {describe(value)}; it must be a bpe.WordCounts")
                if name == "ratios" and not is_positive(value):
                    raise ValueError(
                        f"ratios[{short_repr(language)}] is {short_repr(value)}; it must be a number above 0"
                    )
        check_int("global_merges", self.global_merges, 0, ID_LIMIT)
        if self.window_size is not None:
            check_int("window_size", self.window_size, 1, 1 << 20)
        if not is_positive(self.alpha):
            raise ValueError(f"alpha is {short_repr(self.alpha)}; it must be a number above 0")

    def check_languages(self, languages: Mapping[str, Any]) -> None:
        """Raise ValueError unless dev and ratios have the languages of the corpus."""
        for name in ("dev", "ratios"):
            mapping = getattr(self, name)
            if mapping is not None and mapping.keys() != languages.keys():
                raise ValueError(
                    f"{name} has the languages {', '.join(map(repr, mapping))}, the corpus has "
                    f"{', '.join(map(repr, languages))}; they must be the same"
                )

    def to_json(self) -> dict[str, Any]:
        """Return what determines the result, beside the counts, as name → JSON value."""
        return {
            "dev": self.dev is not None,
            "ratios": None if self.ratios is None else {name: float(value) for name, value in self.ratios.items()},
            "global_merges": int(self.global_merges),
            "window_size": None if self.window_size is None else int(self.window_size),
            "alpha": float(self.alpha),
        }


def is_positive(value: object) -> bool:
    """Whether a value is a finite number above 0."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return is_number and 0 < value <= sys.float_info.max  # type: ignore[operator]


@dataclass
class Language:
    """One language of a parity-aware training.

    Attributes:
        trainer: the trainer of its words.
        dev_trainer: the trainer of its text in `ParityRule.dev`; None where the lengths of the corpus are compared.
        n_tokens: the length of the text that is compared, now.
        n_initial_tokens: the same before the first merge.
        ratio: its ratio in `ParityRule.ratios`, or None.
        is_exhausted: whether it has no pair left.

    """

    trainer: Trainer
    dev_trainer: Trainer | None
    n_tokens: int
    n_initial_tokens: int
    ratio: float | None = None
    is_exhausted: bool = False

    def compute_priority(self) -> float:
        """Compute the language's priority: the highest has the next merge."""
        return self.n_tokens if self.ratio is None else -(self.n_initial_tokens / self.n_tokens / self.ratio)

    def apply(self, left: int, right: int) -> int:
        """Merge a pair; returns the number of its token."""
        token, removed = self.trainer.apply(left, right)
        if self.dev_trainer is not None:
            token, removed = self.dev_trainer.apply(left, right)
        self.n_tokens -= removed
        return token


class ParityTrainer:
    """The trainers of all languages in step: what `run_merges` drives, as it does one `Trainer`.

    Args:
        languages: the languages, new.
        rule: how the language of a step is chosen.
        min_frequency: merge no pair of a language that is rarer in it.
        global_trainer: a trainer on the words of all languages, for the first `rule.global_merges`; None for none.

    """

    def __init__(
        self, languages: Sequence[Language], rule: ParityRule, min_frequency: int, global_trainer: Trainer | None
    ) -> None:
        self.languages = languages
        self.stop_reason = 0
        self._rule, self._min_frequency, self._global_trainer = rule, min_frequency, global_trainer
        self._merges: list[tuple[int, int, int, int]] = []
        self._has_rare_pairs = False  # whether a language had only pairs that are too rare
        self._recent: deque[int] = deque()
        self._picks = [0] * len(languages)  # of the recent ones, by language
        trainers = [language.trainer for language in languages]
        other_trainers = [language.dev_trainer for language in languages] + [global_trainer]
        self._trainers = trainers
        self.teams: tuple[Team, ...] = tuple(
            trainer.team for trainer in [*trainers, *other_trainers] if trainer is not None
        )

    def run(self, max_merges: int, max_tokens: int) -> list[tuple[int, int, int, int]]:
        """Learn up to `max_merges` merges while there are fewer than `max_tokens` tokens, as `Trainer.run` does.

        The count of a merge is that in the language that chose it, or in all for the first `global_merges`.
        """
        n_before = len(self._merges)
        while len(self._merges) - n_before < max_merges and self.n_tokens < max_tokens and not self.stop_reason:
            pair = (
                self._take_global_pair() if len(self._merges) < self._rule.global_merges else self._take_language_pair()
            )
            if pair is not None:
                left, right, count = pair
                (token,) = {language.apply(left, right) for language in self.languages}  # the same in all
                self._merges.append((left, right, token, count))
        return self._merges[n_before:]

    def _take_global_pair(self) -> tuple[int, int, int] | None:
        assert self._global_trainer is not None
        merges = self._global_trainer.run(1, ID_LIMIT)
        if not merges:
            self.stop_reason = self._global_trainer.stop_reason
            return None
        left, right, _, count = merges[0]
        return left, right, count

    def _take_language_pair(self) -> tuple[int, int, int] | None:
        """Take the best pair of the language that needs a merge most; None if that language is exhausted now."""
        index = self._choose_language()
        if index is None:
            self.stop_reason = ONLY_RARE_PAIRS if self._has_rare_pairs else NO_PAIRS
            return None
        language = self.languages[index]
        pair = language.trainer.find_best_pair()
        if pair is None or pair[2] < self._min_frequency:
            language.is_exhausted = True
            self._has_rare_pairs = self._has_rare_pairs or pair is not None
            return None
        if self._rule.window_size is not None:
            self._recent.append(index)
            self._picks[index] += 1
            if len(self._recent) > self._rule.window_size:
                self._picks[self._recent.popleft()] -= 1
        return pair

    def _choose_language(self) -> int | None:
        """Choose the language of the next merge; None if all are exhausted."""
        priorities = {
            i: language.compute_priority() for i, language in enumerate(self.languages) if not language.is_exhausted
        }
        candidates = list(priorities)
        if not candidates:
            return None
        window_size = self._rule.window_size
        if window_size is not None:
            max_share = self._rule.alpha / len(self.languages)
            candidates = [i for i in candidates if self._picks[i] / window_size <= max_share] or candidates
        return max(candidates, key=lambda i: (priorities[i], -i))

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return self._trainers[0].n_tokens

    def list_merges(self) -> NDArray[np.int64]:
        """List all merges learned: int64 (n, 4), each left, right, token, count."""
        return np.array(self._merges, dtype=np.int64).reshape(-1, 4)

    def list_removed_counts(self) -> NDArray[np.int64]:
        """List by how many tokens each merge made the corpus shorter: int64 (n,)."""
        removed: NDArray[np.int64] = np.sum(
            [trainer.list_removed_counts() for trainer in self._trainers], axis=0, dtype=np.int64
        )
        return removed

    def get_token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token."""
        return self._trainers[0].get_token_bytes(token)

    def list_tokens(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]:
        """List all tokens, as `Trainer.list_tokens` does."""
        return self._trainers[0].list_tokens()


def _merge_counts(counts: Mapping[str, WordCounts]) -> WordCounts:
    """Merge the counts of all languages."""
    first = next(iter(counts.values()))
    merged = empty_like(first)
    for language_counts in counts.values():
        merged.merge(language_counts, any_documents=True)
    return merged


class _TrainerFactory:
    """Starts the trainers of a training, which share its memory.

    Attributes:
        ids: the ids of all tokens of the tokenizer that they continue from.

    """

    def __init__(self, job: TrainingJob, spec: TokenizerSpec, config: TrainConfig) -> None:
        self._job, self._spec, self._config = job, spec, config
        self.ids: NDArray[np.int64] = np.flatnonzero(spec.vocabulary.kinds != UNUSED)
        self._memory_factor = 1.0  # a trainer may take this many times the memory that it needs

    def start(self, counts: Mapping[str, WordCounts], rule: ParityRule) -> tuple[ParityTrainer, int, CorpusSize]:
        """Start the trainers of all languages: (the trainer of them all, the number of words, the corpus's size)."""
        dev = rule.dev or {}
        self._share_memory([*counts.values(), *dev.values()], [*counts.values()] if rule.global_merges else [])
        global_trainer = None
        if rule.global_merges:
            global_trainer = self._start_trainer(_merge_counts(counts), track_all_pairs=False).trainer
        languages, n_words, n_bytes, n_tokens = [], 0, 0, 0
        for name, language_counts in counts.items():
            started = self._start_trainer(language_counts)
            dev_trainer, length = None, started.corpus_size.n_tokens
            if name in dev:
                dev_started = self._start_trainer(dev[name])
                dev_trainer, length = dev_started.trainer, dev_started.corpus_size.n_tokens
            ratio = None if rule.ratios is None else float(rule.ratios[name])
            languages.append(Language(started.trainer, dev_trainer, length, length, ratio))
            n_words += started.n_words
            n_bytes += started.corpus_size.n_bytes
            n_tokens += started.corpus_size.n_tokens
        parity_trainer = ParityTrainer(languages, rule, self._config.min_frequency, global_trainer)
        return parity_trainer, n_words, CorpusSize(n_bytes, n_tokens)

    def _share_memory(self, counts: Sequence[WordCounts], merged_counts: Sequence[WordCounts]) -> None:
        """Divide the memory that is left among trainers of each of these counts, and one of `merged_counts`.

        Raises:
            ValueError: for too little memory.

        """
        max_memory = self._job.max_memory
        if max_memory is None:
            return
        needed = sum(map(_estimate_trainer_memory, counts)) + (
            _estimate_trainer_memory(*merged_counts) if merged_counts else 0
        )
        resident_bytes = measure_memory()
        if resident_bytes + needed > max_memory:
            raise ValueError(
                f"max_memory is {format_bytes(max_memory)}, but parity-aware training on these words needs "
                f"{format_bytes(resident_bytes + needed)}; raise it to that, or train on less text"
            )
        self._memory_factor = (max_memory - resident_bytes) / needed

    def _start_trainer(self, counts: WordCounts, *, track_all_pairs: bool = True) -> StartedTrainer:
        """Start a trainer of these words."""
        max_memory = (
            None
            if self._job.max_memory is None
            else measure_memory() + int(_estimate_trainer_memory(counts) * self._memory_factor)
        )
        config = replace(self._config, min_frequency=1) if track_all_pairs else self._config
        n_new = config.vocab_size - len(self._spec.vocabulary)
        return make_continuing_trainer(
            self._job, counts, self._spec, config, n_new, max_memory=max_memory, track_all_pairs=track_all_pairs
        )


def _estimate_trainer_memory(*counts: WordCounts) -> int:
    """Estimate the bytes that a trainer of every pair of these words needs: at least three times what it holds."""
    arrays = [borrow_arrays(language_counts) for language_counts in counts]
    return (48 << 20) + sum(32 * len(blob) + 32 * len(offsets) for blob, offsets, _ in arrays)
