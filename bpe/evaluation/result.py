"""The metrics of tokenizers on corpora: `CorpusResult` and `TokenizerResult`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import cached_property
from bpe.errors import pluralize
from bpe.evaluation import metrics
from bpe.evaluation.adapters import Adapter
from bpe.evaluation.grouping import interval, resample
from bpe.evaluation.morphemes import Alignment
from bpe.evaluation.reachability import Reachability, reachability
from bpe.evaluation.savings import Saving, savings
from bpe.evaluation.shapes import Shapes, find_shapes
from bpe.evaluation.tallying import INDEX, Tally

#: Metrics that are quotients of two sums over documents, and therefore have intervals: (part, whole) in COLUMNS.
RATIOS = {
    "bytes_per_token": ("bytes", "tokens"),
    "characters_per_token": ("characters", "tokens"),
    "fertility": ("tokens", "words"),
    "continued_words": ("cut_words", "aligned_words"),
    "split_characters": ("split_characters", "aligned_multibyte"),
    "digits_f1": ("number_f1", "aligned_numbers"),
}


@dataclass(frozen=True)
class Settings:
    """The options of an evaluation.

    Attributes:
        alpha: the order of the Rényi entropy.
        rare: tokens with fewer occurrences are rare.
        resamples, confidence, seed: of the intervals.
        reference: the corpus that the others are compared with; None for the first.
        parallel: whether the corpora say the same, document by document.

    """

    alpha: float = metrics.ALPHA
    rare: int = 10
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0
    reference: str | None = None
    parallel: bool = False


class ResampledSums:
    """Resampled sums of a corpus for all tokenizers at once, so that they are compared on the same documents."""

    def __init__(self, tallies: Sequence[Tally], settings: Settings) -> None:
        self.rows = [one.groups.rows() for one in tallies]
        self._settings = settings

    @cached_property
    def sums(self) -> list[NDArray[np.float64]] | None:
        """For each tokenizer, sums of shape (resamples, columns); None for fewer than two documents."""
        drawn = resample(np.concatenate(self.rows, axis=1), self._settings.resamples, self._settings.seed)
        return None if drawn is None else np.split(drawn, len(self.rows), axis=1)

    def of(self, index: int) -> NDArray[np.float64] | None:
        """The sums of one tokenizer."""
        return None if self.sums is None else self.sums[index]


class CorpusResult:
    """The metrics of one tokenizer on one corpus, or on all.

    Attributes:
        name: the name of the corpus; "" for all corpora together, and for the only one.
        counts: int64, by id: how often each token occurs.
        sums: float64: the sums over all documents, by the names in `tallying.COLUMNS`.
        documents: the number of documents.

    """

    def __init__(
        self,
        name: str,
        counts: NDArray[np.int64],
        totals: NDArray[np.float64],
        documents: int,
        draws: Callable[[], NDArray[np.float64] | None],
        vocab: Vocab,
        settings: Settings,
    ) -> None:
        self.name, self.counts = name, counts
        self.sums = {column: float(totals[index]) for column, index in INDEX.items()}
        self.documents = documents
        self._draws = draws
        self._vocab, self._settings = vocab, settings
        self._baseline: CorpusResult = self

    def __repr__(self) -> str:
        return f"<CorpusResult {self.name or 'all'}: {pluralize(int(self.sums['tokens']), 'token')}>"

    @cached_property
    def draws(self) -> NDArray[np.float64] | None:
        """Resampled sums, shape (resamples, columns); None for fewer than two documents."""
        return self._draws()

    def renyi_efficiency(self, alpha: float = metrics.ALPHA, vocab_size: int | None = None) -> float | None:
        """The Rényi efficiency for any order; `vocab_size` None takes the tokens that occur as the vocabulary."""
        return metrics.efficiency(self.counts, vocab_size, alpha)

    def interval_of(self, name: str) -> list[float] | None:
        """The interval of a metric in RATIOS; None where there are too few documents."""
        if self.draws is None:
            return None
        part, whole = (self.draws[:, INDEX[column]] for column in RATIOS[name])
        if not whole.all():
            return None
        return interval(part / whole, self._settings.confidence)

    def compare_with(self, baseline: CorpusResult) -> None:
        """Take the result of the first tokenizer on the same corpus as the one to compare with."""
        self._baseline = baseline
        self.__dict__.pop("_metrics", None)

    def savings(self, most: int = 10, baseline: CorpusResult | None = None) -> list[Saving]:
        """The tokens that save most, compared with the first tokenizer, or with `baseline`; the first saves most.

        Each is counted as the tokens that the other tokenizer has for its text by itself, so that the sum over all
        tokens differs from the difference between both numbers of tokens.

        Raises:
            ValueError: for tokens that the other tokenizer cannot encode.

        """
        other = self._baseline if baseline is None else baseline
        return savings(self.counts, self._vocab.adapter, other._vocab.adapter, self._vocab.shapes.whole, most)

    def _relative(self) -> dict[str, Any]:
        """The number of tokens relative to that of the first tokenizer, with its interval."""
        own, other = self.draws, self._baseline.draws
        found = metrics.ratio(self.sums["tokens"], self._baseline.sums["tokens"])
        column, range_ = INDEX["tokens"], None
        if found is not None and own is not None and other is not None and other[:, column].all():
            range_ = interval(own[:, column] / other[:, column], self._settings.confidence)
        return {"normalized_sequence_length": found, "normalized_sequence_length_interval": range_}

    @cached_property
    def _metrics(self) -> dict[str, Any]:
        sums, counts, settings, vocab = self.sums, self.counts, self._settings, self._vocab
        found: dict[str, Any] = {
            name: int(sums[name]) for name in ("tokens", "bytes", "characters", "words", "numbers")
        }
        found["documents"] = self.documents
        for name, (part, whole) in RATIOS.items():
            found[name] = metrics.ratio(sums[part], sums[whole])
            found[f"{name}_interval"] = None if found[name] is None else self.interval_of(name)
        self._add_complement(found)
        found |= self._relative()
        found["digits_precision"] = metrics.ratio(sums["right_cuts"], sums["number_cuts"])
        found["digits_recall"] = metrics.ratio(sums["right_cuts"], sums["aligned_ideal"])
        found |= {
            "renyi_efficiency": metrics.efficiency(counts, vocab.size, settings.alpha),
            "renyi_efficiency_observed": metrics.efficiency(counts, None, settings.alpha),
            "tokenization_scorer": metrics.efficiency(counts, None, metrics.SCORER_ALPHA),
            "shannon_efficiency": metrics.efficiency(counts, vocab.size, 1),
            "shannon_efficiency_observed": metrics.efficiency(counts, None, 1),
            "shannon_entropy": metrics.renyi_entropy(counts, 1),
            "percentile_mass": metrics.percentile_mass(counts),
            "used_tokens": int(np.count_nonzero(counts)),
            "utilisation": metrics.ratio(int(np.count_nonzero(counts)), vocab.size),
            "rare_tokens": int(vocab.size - np.count_nonzero(counts >= settings.rare)),
        }
        found |= vocab.shapes.in_text(counts)
        found["frequency_by_rank"] = [list(row) for row in metrics.frequency_by_rank(counts)]
        return found

    @staticmethod
    def _add_complement(found: dict[str, Any]) -> None:
        """Add `single_token_words`: the words that are not cut."""
        cut, range_ = found["continued_words"], found["continued_words_interval"]
        found["single_token_words"] = None if cut is None else 1 - cut
        found["single_token_words_interval"] = None if range_ is None else [1 - range_[1], 1 - range_[0]]

    def to_dict(self) -> dict[str, Any]:
        """The metrics by name, not rounded."""
        return dict(self._metrics)

    def __getitem__(self, name: str) -> Any:
        """A metric by its name in `to_dict`."""
        if name not in self._metrics:
            raise KeyError(
                f"{name!r} is no metric; to_dict() has all of them, such as {', '.join(list(self._metrics)[:8])}"
            )
        return self._metrics[name]


class Vocab:
    """The vocabulary of a tokenizer, as metrics need it."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.size = adapter.vocab_size

    @cached_property
    def shapes(self) -> Shapes:
        """What its tokens look like."""
        return find_shapes(self.adapter.tokens)

    @cached_property
    def reachability(self) -> Reachability:
        """Which tokens encoding gives back."""
        return reachability(self.adapter, self.shapes.whole)


def _add_draws(
    results: Sequence[CorpusResult], totals: Sequence[NDArray[np.float64]], settings: Settings
) -> NDArray[np.float64] | None:
    """The sums of all corpora: each is resampled by itself; one that cannot be counts as it is."""
    parts = [result.draws for result in results]
    if all(part is None for part in parts):
        return None
    found = np.zeros((settings.resamples, len(INDEX)))
    for part, total in zip(parts, totals, strict=True):
        found += total if part is None else part
    return found


class TokenizerResult:
    """The metrics of one tokenizer.

    Attributes:
        name: the name of the tokenizer.
        tokenizer: the tokenizer.
        total: the `CorpusResult` of all corpora together.
        corpora: name → `CorpusResult`; empty for a single unnamed corpus.
        counts: int64, by id: how often each token occurs in all corpora.

    """

    def __init__(
        self,
        adapter: Adapter,
        index: int,
        tallies: Mapping[str, tuple[Tally, ResampledSums]],
        settings: Settings,
        alignment: Alignment | None,
    ) -> None:
        self.name, self.tokenizer = adapter.name, adapter.tokenizer
        self.vocab = Vocab(adapter)
        self.alignment = alignment
        self.settings = settings
        results: list[CorpusResult] = []
        totals: list[NDArray[np.float64]] = []

        for name, (one, draws) in tallies.items():
            totals.append(draws.rows[index].sum(axis=0))
            own = partial(draws.of, index)
            results.append(CorpusResult(name, one.counts, totals[-1], one.groups.documents, own, self.vocab, settings))
        first, *others = [result.counts for result in results]
        counts = sum(others, first)
        documents = sum(result.documents for result in results)
        total = np.sum(totals, axis=0)
        self.total = CorpusResult(
            "", counts, total, documents, partial(_add_draws, results, totals, settings), self.vocab, settings
        )
        self.corpora = {} if list(tallies) == [""] else {result.name: result for result in results}
        self.counts = self.total.counts

    def __repr__(self) -> str:
        return f"<TokenizerResult {self.name}: {pluralize(int(self.total.sums['tokens']), 'token')}>"

    def __getitem__(self, name: str) -> Any:
        """A metric of all corpora together by its name, or the result of a corpus by its name."""
        if name in self.corpora:
            return self.corpora[name]
        if name in self.total.to_dict():
            return self.total[name]
        corpora = f" and no corpus; the corpora are {', '.join(self.corpora)}" if self.corpora else ""
        raise KeyError(f"{name!r} is no metric{corpora}; to_dict() has all metrics")

    def costs(self) -> dict[str, float]:
        """The tokens of each corpus per byte."""
        return {
            name: result.sums["tokens"] / result.sums["bytes"]
            for name, result in self.corpora.items()
            if result.sums["bytes"]
        }

    def to_dict(self) -> dict[str, Any]:
        """The metrics by name, not rounded; those of each corpus under "corpora"."""
        found: dict[str, Any] = {"tokenizer": self.name, "vocab_size": self.vocab.size}
        found |= self.total.to_dict()
        found |= self.vocab.reachability.to_dict()
        found |= self.vocab.shapes.to_dict()
        if self.alignment is not None:
            found |= self.alignment.to_dict()
        if self.corpora:
            found |= self._compare_corpora()
            found["corpora"] = {name: result.to_dict() for name, result in self.corpora.items()}
        return found

    def _compare_corpora(self) -> dict[str, Any]:
        """What compares the corpora."""
        costs = self.costs()
        found: dict[str, Any] = {"gini": metrics.gini(list(costs.values())) if len(costs) > 1 else None}
        found["parallel"] = self.settings.parallel
        tokens = {name: result.sums["tokens"] for name, result in self.corpora.items()}
        reference = self.settings.reference or next(iter(tokens))
        found["relative_tokens_per_byte"] = metrics.premiums(costs, reference)
        found["gini_parallel"] = found["premium"] = None
        if self.settings.parallel:
            found["gini_parallel"] = metrics.gini(list(tokens.values()))
            found["premium"] = metrics.premiums(tokens, reference)
        return found
