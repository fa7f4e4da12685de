"""The metrics of tokenizers on corpora: `CorpusResult` and `TokenizerResult`; and which tokens save most (`Saving`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import cached_property
from bpe.base.offsets import compute_offsets
from bpe.errors import escape_unprintable, pluralize
from bpe.evaluation import metrics
from bpe.evaluation.adapters import Adapter
from bpe.evaluation.tallying import COLUMN_INDEX, Tally
from bpe.evaluation.vocabulary_metrics import MorphemeAlignment, Reachability, Shapes, find_shapes, measure_reachability

#: Metrics that are quotients of two sums over documents and so have intervals: (numerator, denominator) in COLUMNS.
RATIOS = {
    "bytes_per_token": ("bytes", "tokens"),
    "characters_per_token": ("characters", "tokens"),
    "fertility": ("tokens", "words"),
    "continued_words": ("cut_words", "aligned_words"),
    "split_characters": ("split_characters", "aligned_multibyte"),
    "digits_f1": ("number_f1", "aligned_numbers"),
}
#: The most tokens whose texts the other tokenizer encodes in one call.
_TOKENS_PER_CALL = 2000


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
        self.rows = [tally.sums.to_array() for tally in tallies]
        self._settings = settings

    @cached_property
    def sums(self) -> list[NDArray[np.float64]] | None:
        """For each tokenizer, sums of shape (resamples, columns); None for fewer than two documents."""
        resampled = metrics.resample(np.concatenate(self.rows, axis=1), self._settings.resamples, self._settings.seed)
        return None if resampled is None else np.split(resampled, len(self.rows), axis=1)

    def get_sums(self, index: int) -> NDArray[np.float64] | None:
        """Return the sums of one tokenizer."""
        return None if self.sums is None else self.sums[index]


@dataclass(frozen=True)
class Saving:
    """A token that takes the place of several tokens of another tokenizer.

    Attributes:
        text: the token.
        count: how often it occurs.
        instead: the tokens of the other tokenizer for the same text by itself.

    """

    text: str
    count: int
    instead: int

    @property
    def saved(self) -> int:
        """How many tokens it saves."""
        return self.count * (self.instead - 1)


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
        column_sums: NDArray[np.float64],
        documents: int,
        compute_resampled: Callable[[], NDArray[np.float64] | None],
        vocab: MeasuredVocabulary,
        settings: Settings,
    ) -> None:
        self.name, self.counts = name, counts
        self.sums = {column: float(column_sums[index]) for column, index in COLUMN_INDEX.items()}
        self.documents = documents
        self._compute_resampled = compute_resampled
        self._vocab, self._settings = vocab, settings
        self._baseline: CorpusResult = self

    def __repr__(self) -> str:
        return (
            f"<CorpusResult {escape_unprintable(self.name or 'all')}: {pluralize(int(self.sums['tokens']), 'token')}>"
        )

    @cached_property
    def resampled(self) -> NDArray[np.float64] | None:
        """Resampled sums, shape (resamples, columns); None for fewer than two documents."""
        return self._compute_resampled()

    def renyi_efficiency(self, alpha: float = metrics.ALPHA, vocab_size: int | None = None) -> float | None:
        """Return the Rényi efficiency for any order; without `vocab_size`, the tokens that occur are the vocabulary."""
        return metrics.efficiency(self.counts, vocab_size, alpha)

    def find_interval(self, name: str) -> list[float] | None:
        """Find the interval of a metric in RATIOS; None where there are too few documents."""
        if self.resampled is None:
            return None
        numerator, denominator = (self.resampled[:, COLUMN_INDEX[column]] for column in RATIOS[name])
        if not denominator.all():
            return None
        return metrics.percentile_interval(numerator / denominator, self._settings.confidence)

    def compare_with(self, baseline: CorpusResult) -> None:
        """Take the result of the first tokenizer on the same corpus as the one to compare with."""
        self._baseline = baseline
        self.__dict__.pop("_metrics", None)

    def savings(self, most: int = 10, baseline: CorpusResult | None = None) -> list[Saving]:
        """List the tokens that save most, compared with the first tokenizer or with `baseline`, the best first.

        Each is counted as the tokens that the other tokenizer has for its text by itself, so that the sum over all
        tokens differs from the difference between both numbers of tokens.

        Raises:
            ValueError: for tokens that the other tokenizer cannot encode.

        """
        baseline_result = self._baseline if baseline is None else baseline
        return find_savings(
            self.counts, self._vocab.adapter, baseline_result._vocab.adapter, self._vocab.shapes.is_whole, most
        )

    def _compare_length(self) -> dict[str, Any]:
        """Divide the number of tokens by that of the first tokenizer. Returns the ratio with its interval."""
        resampled, baseline_resampled = self.resampled, self._baseline.resampled
        relative = metrics.ratio(self.sums["tokens"], self._baseline.sums["tokens"])
        column, interval = COLUMN_INDEX["tokens"], None
        if (
            relative is not None
            and resampled is not None
            and baseline_resampled is not None
            and baseline_resampled[:, column].all()
        ):
            interval = metrics.percentile_interval(
                resampled[:, column] / baseline_resampled[:, column], self._settings.confidence
            )
        return {"normalized_sequence_length": relative, "normalized_sequence_length_interval": interval}

    @cached_property
    def _metrics(self) -> dict[str, Any]:
        sums, counts, settings, vocab = self.sums, self.counts, self._settings, self._vocab
        values: dict[str, Any] = {
            name: int(sums[name]) for name in ("tokens", "bytes", "characters", "words", "numbers")
        }
        values["documents"] = self.documents
        for name, (numerator, denominator) in RATIOS.items():
            values[name] = metrics.ratio(sums[numerator], sums[denominator])
            values[f"{name}_interval"] = None if values[name] is None else self.find_interval(name)
        self._add_complement(values)
        values |= self._compare_length()
        values["digits_precision"] = metrics.ratio(sums["right_cuts"], sums["number_cuts"])
        values["digits_recall"] = metrics.ratio(sums["right_cuts"], sums["aligned_ideal"])
        values |= {
            "renyi_efficiency": metrics.efficiency(counts, vocab.vocab_size, settings.alpha),
            "renyi_efficiency_observed": metrics.efficiency(counts, None, settings.alpha),
            "tokenization_scorer": metrics.efficiency(counts, None, metrics.SCORER_ALPHA),
            "shannon_efficiency": metrics.efficiency(counts, vocab.vocab_size, 1),
            "shannon_efficiency_observed": metrics.efficiency(counts, None, 1),
            "shannon_entropy": metrics.renyi_entropy(counts, 1),
            "percentile_mass": metrics.percentile_mass(counts),
            "used_tokens": int(np.count_nonzero(counts)),
            "utilisation": metrics.ratio(int(np.count_nonzero(counts)), vocab.vocab_size),
            "rare_tokens": int(vocab.vocab_size - np.count_nonzero(counts >= settings.rare)),
        }
        values |= vocab.shapes.measure_text(counts)
        values["frequency_by_rank"] = [list(row) for row in metrics.frequency_by_rank(counts)]
        return values

    @staticmethod
    def _add_complement(values: dict[str, Any]) -> None:
        """Add `single_token_words`: the words that are not cut."""
        share, interval = values["continued_words"], values["continued_words_interval"]
        values["single_token_words"] = None if share is None else 1 - share
        values["single_token_words_interval"] = None if interval is None else [1 - interval[1], 1 - interval[0]]

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics by name, not rounded."""
        return dict(self._metrics)

    def __getitem__(self, name: str) -> Any:
        """Return a metric by its name in `to_dict`."""
        if name not in self._metrics:
            raise KeyError(
                f"{name!r} is no metric; to_dict() has all of them, such as {', '.join(list(self._metrics)[:8])}"
            )
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the metrics."""
        return iter(self._metrics)


def find_savings(
    counts: NDArray[np.int64], adapter: Adapter, baseline: Adapter, is_whole: NDArray[np.bool_], max_savings: int
) -> list[Saving]:
    """Find the tokens that save most, the best first; fewer than `max_savings` if no others save anything.

    Args:
        counts: how often each token occurs, by id.
        adapter: the tokenizer.
        baseline: the tokenizer to compare with.
        is_whole: whether each token is whole characters; others are left out.
        max_savings: how many tokens to return, at most.

    Raises:
        ValueError: for tokens that the other tokenizer cannot encode.

    """
    tokens, best = adapter.tokens, list[Saving]()
    # No token saves more than it does where each byte is a token.
    bounds = np.where(is_whole & tokens.is_ordinary, counts * (tokens.lengths - 1), 0)
    order = np.argsort(-bounds, kind="stable")
    order = order[bounds[order] > 0]
    for start in range(0, len(order), _TOKENS_PER_CALL):
        if len(best) == max_savings and (not best or best[-1].saved >= bounds[order[start]]):
            break
        token_ids = order[start : start + _TOKENS_PER_CALL].tolist()
        texts = [tokens[token_id] for token_id in token_ids]
        ends = compute_offsets([len(text) for text in texts])
        _, offsets, _ = baseline.encode(b"".join(texts), ends[:-1], ends[1:])
        best += [
            Saving(text.decode("utf-8"), int(counts[token_id]), int(instead))
            for text, token_id, instead in zip(texts, token_ids, np.diff(offsets), strict=True)
            if instead > 1
        ]
        best = sorted(best, key=lambda saving: -saving.saved)[:max_savings]
    return best


class MeasuredVocabulary:
    """The vocabulary of a tokenizer, as metrics need it."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.vocab_size = adapter.vocab_size

    @cached_property
    def shapes(self) -> Shapes:
        """What its tokens look like."""
        return find_shapes(self.adapter.tokens)

    @cached_property
    def reachability(self) -> Reachability:
        """Which tokens encoding gives back."""
        return measure_reachability(self.adapter, self.shapes.is_whole)


def _add_resampled(
    results: Sequence[CorpusResult], sums_by_corpus: Sequence[NDArray[np.float64]], settings: Settings
) -> NDArray[np.float64] | None:
    """Add up the resampled sums of all corpora; a corpus of fewer than two documents counts as it is."""
    if all(result.resampled is None for result in results):
        return None
    total = np.zeros((settings.resamples, len(COLUMN_INDEX)))
    for result, column_sums in zip(results, sums_by_corpus, strict=True):
        total += column_sums if result.resampled is None else result.resampled
    return total


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
        alignment: MorphemeAlignment | None,
    ) -> None:
        self.name, self.tokenizer = adapter.name, adapter.tokenizer
        self.measured_vocab = vocab = MeasuredVocabulary(adapter)
        self.alignment = alignment
        self.settings = settings
        results: list[CorpusResult] = []
        sums_by_corpus: list[NDArray[np.float64]] = []
        for name, (tally, resampled_sums) in tallies.items():
            column_sums = resampled_sums.rows[index].sum(axis=0)
            sums_by_corpus.append(column_sums)
            compute_resampled = partial(resampled_sums.get_sums, index)
            results.append(
                CorpusResult(
                    name,
                    tally.counts,
                    column_sums,
                    tally.sums.n_documents,
                    compute_resampled,
                    self.measured_vocab,
                    settings,
                )
            )
        counts = np.sum([result.counts for result in results], axis=0)
        documents = sum(result.documents for result in results)
        compute_resampled = partial(_add_resampled, results, sums_by_corpus, settings)
        self.total = CorpusResult(
            "", counts, np.sum(sums_by_corpus, axis=0), documents, compute_resampled, vocab, settings
        )
        self.corpora = {} if list(tallies) == [""] else {result.name: result for result in results}
        self.counts = self.total.counts

    def __repr__(self) -> str:
        return (
            f"<TokenizerResult {escape_unprintable(self.name)}: {pluralize(int(self.total.sums['tokens']), 'token')}>"
        )

    def __getitem__(self, name: str) -> Any:
        """Return a metric of all corpora together by its name, or the result of a corpus by its name."""
        if name in self.corpora:
            return self.corpora[name]
        if name in self.total.to_dict():
            return self.total[name]
        corpora = f" and no corpus; the corpora are {', '.join(self.corpora)}" if self.corpora else ""
        raise KeyError(f"{name!r} is no metric{corpora}; to_dict() has all metrics")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the metrics, without those of the corpora."""
        return iter(self.total)

    def __contains__(self, name: str) -> bool:
        return name in self.corpora or name in self.total

    def costs(self) -> dict[str, float]:
        """Return the tokens per byte of each corpus."""
        return {
            name: result.sums["tokens"] / result.sums["bytes"]
            for name, result in self.corpora.items()
            if result.sums["bytes"]
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics by name, not rounded; those of each corpus under "corpora"."""
        values: dict[str, Any] = {"tokenizer": self.name, "vocab_size": self.measured_vocab.vocab_size}
        values |= self.total.to_dict()
        values |= self.measured_vocab.reachability.to_dict()
        values |= self.measured_vocab.shapes.to_dict()
        if self.alignment is not None:
            values |= self.alignment.to_dict()
        if self.corpora:
            values |= self._compare_corpora()
            values["corpora"] = {name: result.to_dict() for name, result in self.corpora.items()}
        return values

    def _compare_corpora(self) -> dict[str, Any]:
        """Return the metrics that compare the corpora."""
        costs = self.costs()
        values: dict[str, Any] = {"gini": metrics.gini(list(costs.values())) if len(costs) > 1 else None}
        values["parallel"] = self.settings.parallel
        tokens = {name: result.sums["tokens"] for name, result in self.corpora.items()}
        reference = self.settings.reference or next(iter(tokens))
        values["relative_tokens_per_byte"] = metrics.premiums(costs, reference)
        values["gini_parallel"] = values["premium"] = None
        if self.settings.parallel:
            values["gini_parallel"] = metrics.gini(list(tokens.values()))
            values["premium"] = metrics.premiums(tokens, reference)
        return values
