"""One run of `train`: counting the corpus and learning, each kind of training with its checkpoints.

Not here: what the arguments mean (`train.py`), the merges (`trainer.py`, `extend.py`, `parity.py`, `picky`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.progress import ProgressLike, progress_note
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.reading import changed_error
from bpe.corpus.sources import Sources
from bpe.count.counting import count_into
from bpe.count.word_counts import UNITS, WordCounts, check_made_for
from bpe.errors import shown
from bpe.pretokenize.pretokenizer import PretokenizerLike, as_pretokenizer
from bpe.text.normalizers import Normalizer
from bpe.training.boundless import FIRST, WordPhase, learn_boundless, word_options
from bpe.training.checkpoint import Checkpoint, corpus_of, count_settings, fingerprint
from bpe.training.extend import learn_more, learn_more_with_counts
from bpe.training.fair import ParityAware
from bpe.training.options import OnMerge, TrainOptions, default_pretokenizer
from bpe.training.parity import learn_fairly
from bpe.training.picky.learning import learn_picky
from bpe.training.picky.option import PickyBPE
from bpe.training.runs import count_runs, from_counts
from bpe.training.seeds import Seeds, seeded
from bpe.training.superwords import SuperWords, stage_two
from bpe.training.trainer import Execution, excess_of, initial_spec, learn_with_counts
from bpe.training.words import Words, words_of
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ID_LIMIT

#: The argument `counts` of `train`; two counts for the two stages of superwords, a mapping of counts by language.
CountsLike = (
    WordCounts | Mapping[str, int] | Mapping[bytes, int] | Mapping[str, WordCounts] | tuple[WordCounts, WordCounts]
)


@dataclass(frozen=True)
class Corpus:
    """What a training learns from.

    Attributes:
        source: the files or texts; None if counts are given.
        words: the counts: those given, or empty ones to count the source with.
        given: the counts that the caller gave, or None.

    """

    source: Sources | Iterable[TextLike] | None
    words: WordCounts
    given: object


@dataclass(frozen=True)
class Run:
    """What the stages and languages of one call of `train` have in common."""

    on_merge: OnMerge | None
    progress: ProgressLike
    max_memory: int | None
    threads: int
    checkpoint: PathLike | None
    seeds: Seeds | None

    def learn(self, corpus: Corpus, options: TrainOptions) -> tuple[TokenizerSpec, Training]:
        """Train on a corpus."""
        words, saved = self.counted(corpus, options, {}, self.checkpoint)
        return self._learn(words, corpus.given, options, saved)[:2]

    def learn_picky(self, corpus: Corpus, deletions: PickyBPE, options: TrainOptions) -> tuple[TokenizerSpec, Training]:
        """Train on a corpus, with deletions."""
        words, saved = self.counted(corpus, options, {"deletions": deletions.to_json()}, self.checkpoint)
        return learn_picky(words, deletions, options, self.execution(words, corpus.given, saved))

    def learn_superwords(
        self,
        superwords: SuperWords,
        source: Sources | Iterable[TextLike] | None,
        counts: tuple[WordCounts, WordCounts] | None,
        settings: CountSettings,
    ) -> tuple[TokenizerSpec, Training]:
        """Train in two stages, on a corpus or on the counts of both."""
        recorded, options = {"superwords": superwords.to_json()}, settings.options
        first, second = counts or (None, None)
        before = _state(source)
        words = settings.of_stage(superwords, 1).counts(first)
        words, saved = self.counted(Corpus(source, words, first), options, recorded, self.checkpoint)
        small = replace(options, vocab_size=superwords.transition, sizes=())
        spec, one, _ = self._learn(words, first, small, saved)

        path = None if self.checkpoint is None else f"{os.fspath(self.checkpoint)}.stage2"
        words = settings.of_stage(superwords, 2).counts(second)
        words, saved = self.counted(Corpus(source, words, second), options, recorded, path)
        _check_state(source, before)
        spec, larger = stage_two(spec, words, superwords), superwords.vetoed(options)
        spec, two = learn_more(words, spec, larger, self.execution(words, second, saved))
        return spec, two.after(one.merges, one.curve, one.stopped)

    def learn_boundless(
        self,
        superwords: SuperWords,
        source: Sources | Iterable[TextLike] | None,
        counts: WordCounts | tuple[WordCounts, WordCounts] | None,
        settings: CountSettings,
    ) -> list[tuple[TokenizerSpec, Training]]:
        """Train within words, and then across words; a checkpoint has the first phase.

        Without a transition, each of several sizes has words, and so runs, of its own: there is a result for each.
        """
        recorded, options = {"superwords": superwords.to_json()}, settings.options
        first, second = counts if isinstance(counts, tuple) else (counts, None)
        before = _state(source)
        words = settings.of_stage(superwords, 1).counts(first)
        words, saved = self.counted(Corpus(source, words, first), options, recorded, self.checkpoint)
        phase = WordPhase(*self._learn(words, first, word_options(superwords, options), saved))
        if first is not None and second is None:  # the tokenizer that `count_words` needs for the second phase
            return [(replace(phase.spec, word_merges=len(phase.spec.merges)), phase.training)]
        execution, eligible = self.execution(words, first, saved), superwords.eligible

        def runs(spec: TokenizerSpec) -> Words:
            if second is not None:
                return from_counts(settings.of_stage(superwords, 2, spec.pretokenizer).counts(second), spec, eligible)
            specials = options.special_tokens
            found = count_runs(spec, eligible, source, specials, self.threads, self.progress, self.max_memory)
            _check_state(source, before)
            return found

        sizes = options.sizes if superwords.transition is None else ()
        return [
            learn_boundless(phase.at_size(size), superwords, replace(options, vocab_size=size), runs, execution)
            for size in sizes or [options.vocab_size or 0]
        ]

    def learn_fairly(
        self, corpora: Mapping[str, Corpus], fair: ParityAware, options: TrainOptions
    ) -> tuple[TokenizerSpec, Training]:
        """Train on a corpus by language. Each language's counts have a checkpoint of their own, the merges another."""
        counts: dict[str, WordCounts] = {}
        for number, (name, corpus) in enumerate(corpora.items(), 1):
            path = None if self.checkpoint is None else f"{os.fspath(self.checkpoint)}.{number}"
            counts[name], _ = self.counted(corpus, options, {"language": name}, path)
        parts = _checked(counts, fair, options)
        first = next(iter(counts.values()))
        saved = None
        if self.checkpoint is not None:
            prints = {
                name: {lang: fingerprint(each) for lang, each in words.items()}
                for name, words in (("languages", counts), ("dev", fair.dev or {}))
            }
            recorded = {"fair": fair.to_json(), **prints, **self._recorded()}
            saved = Checkpoint(self.checkpoint, options.to_json() | recorded | count_settings(first))
            saved.begin(first)
        spec, options = self._start(initial_spec(first, parts, options), options)
        del parts
        given = any(corpus.given is counts[name] for name, corpus in corpora.items())
        execution = self.execution(first, first if given else None, saved)
        spec, training = learn_fairly(counts, fair, spec, options, execution)
        return spec, training.after(len(spec.merges) - training.merges)

    def _learn(
        self, words: WordCounts, given: object, options: TrainOptions, saved: Checkpoint | None
    ) -> tuple[TokenizerSpec, Training, NDArray[np.int64]]:
        """Learn from words, after the seeds if there are any; also the count of each merge, of seeds FIRST."""
        execution = self.execution(words, given, saved)
        if self.seeds is None:
            return learn_with_counts(words, options, execution)
        spec, options = self._start(initial_spec(words, [words_of(words, options)], options), options)
        n_seeds = len(spec.merges)
        spec, training, counts = learn_more_with_counts(words, spec, options, execution)
        return spec, training.after(n_seeds), np.concatenate((np.full(n_seeds, FIRST), counts))

    def _start(self, spec: TokenizerSpec, options: TrainOptions) -> tuple[TokenizerSpec, TrainOptions]:
        """(A tokenizer without merges, with the seeds now; the options with its final vocab_size)."""
        seeds, size = self.seeds, options.vocab_size
        first = spec if seeds is None else seeded(spec, seeds, options)
        if options.num_merges is not None:
            size = min(len(spec.vocabulary) + options.num_merges, ID_LIMIT - options.first_id)
        return first, replace(options, vocab_size=size, num_merges=None)

    def _recorded(self) -> dict[str, Any]:
        return {} if self.seeds is None else {"seeds": self.seeds.to_json()}

    def execution(self, words: WordCounts, given: object, saved: Checkpoint | None) -> Execution:
        """How to train on these words, which may be cleared unless the caller gave them."""
        consume = words is not given
        return Execution(self.on_merge, self.progress, saved, consume, self.max_memory, self.threads)

    def counted(
        self,
        corpus: Corpus,
        options: TrainOptions,
        settings: dict[str, Any],
        path: PathLike | None,
    ) -> tuple[WordCounts, Checkpoint | None]:
        """The words of the corpus, unless they are given, and the checkpoint at `path`, which has them too."""
        saved, files, words, source = None, None, corpus.words, corpus.source
        if path is not None:
            files = _state(source)
            counting = settings | count_settings(words) | _cutting(source)
            saved = Checkpoint(path, options.to_json() | self._recorded() | counting, files, counting)
        known = None if saved is None else saved.counts()
        if known is not None:
            words = known
        elif corpus.given is None:
            saving = saved if files is not None else None
            count_into(
                words,
                source,
                self.threads,
                self.progress,
                utf8=options.chars,
                max_memory=self.max_memory,
                saving=saving,
                excess=None if self.max_memory is None else excess_of(options, self.max_memory),
            )
        if saved is not None:
            with progress_note(self.progress, "write"):
                saved.begin(words)
        return words, saved


def _checked(counts: Mapping[str, WordCounts], fair: ParityAware, options: TrainOptions) -> list[Words]:
    """The words of all languages, after checking that they, and the texts to compare, were counted alike."""
    first, settings = next((name, count_settings(each)) for name, each in counts.items())
    for kind, each in (("the corpus", counts), ("dev", fair.dev or {})):
        for name, words in each.items():
            ours = count_settings(words)
            wrong = next((setting for setting in settings | ours if ours.get(setting) != settings.get(setting)), None)
            if wrong is not None:
                raise ValueError(
                    f"the counts of {name!r} in {kind} were made with {wrong}={shown(ours.get(wrong))}, those of "
                    f"{first!r} with {shown(settings.get(wrong))}; they must be made with the same settings: count "
                    "one of them again"
                )
    return [_words_of(name, words, options) for name, words in counts.items()]


def _words_of(name: str, counts: WordCounts, options: TrainOptions) -> Words:
    try:
        return words_of(counts, options)
    except ValueError as error:
        raise ValueError(f"language {name!r}: {error}") from None


def _state(source: object) -> list[list[Any]] | None:
    """What tells whether files were changed; None for texts, counts and pipes."""
    return corpus_of(source) if isinstance(source, Sources) else None


def _check_state(source: object, before: list[list[Any]] | None) -> None:
    """Raise OSError for files that were changed since `before`: both stages of a training read the same text."""
    for was, is_ in zip(before or (), _state(source) or (), strict=True):
        if was != is_:
            raise changed_error(was[0])


def _cutting(source: object) -> dict[str, Any]:
    """The options for splitting files into documents, as a checkpoint records them; empty for texts and counts."""
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


@dataclass(frozen=True)
class CountSettings:
    """The arguments of `train` that say how text is made words."""

    options: TrainOptions
    pretokenizer: PretokenizerLike | None
    normalizer: Normalizer | None
    units: str = UNITS[0]

    def of_stage(
        self, superwords: SuperWords, stage: int, pretokenizer: PretokenizerLike | None = None
    ) -> CountSettings:
        """The settings of a stage of a training with superwords, or with this pretokenizer."""
        chosen = superwords.of_stage(stage) if pretokenizer is None else pretokenizer
        return replace(self, pretokenizer=chosen, units=superwords.units(stage))

    def counts(self, counts: CountsLike | None) -> WordCounts:
        """The counts given by the caller, or empty ones with these settings."""
        chosen = self.pretokenizer != "default"
        cutting = as_pretokenizer(self.pretokenizer if chosen else default_pretokenizer(self.options.chars))
        if isinstance(counts, WordCounts):
            for name, requested, current in (
                ("pretokenizer", cutting if chosen else counts.pretokenizer, counts.pretokenizer),
                ("normalizer", counts.normalizer if self.normalizer is None else self.normalizer, counts.normalizer),
            ):
                if requested != current:
                    raise ValueError(
                        f"the counts were made with {name}={current!r}, but {name}={requested!r} is requested; leave "
                        "the argument out, or count again"
                    )
            check_made_for(counts, self.options.special_tokens, self.units, self.options.reserved)
            return counts
        words = WordCounts(cutting, self.normalizer, self.options.special_tokens)
        words.units = self.units
        if counts is not None:
            words.update(counts)  # type: ignore[arg-type]  # a tuple raises TypeError there
        return words
