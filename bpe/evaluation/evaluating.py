"""`bpe.evaluate`: checks arguments, and measures tokenizers on corpora in one pass; `Evaluation`, which it returns."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from bpe.base.progress import ProgressLike, check_progress, progress_bar
from bpe.base.threads import resolve_threads
from bpe.base.utf8 import TextLike
from bpe.batch import load_pyarrow
from bpe.corpus.sources import Files
from bpe.errors import check_bool, check_choice, check_int, describe, escape_unprintable, short_repr
from bpe.evaluation import table
from bpe.evaluation._tally import BY_CHARACTERS, BY_SCRIPT, BY_SPACES
from bpe.evaluation.adapters import Adapter, adapt
from bpe.evaluation.corpora import name_corpora
from bpe.evaluation.metrics import ALPHA
from bpe.evaluation.result import ResampledSums, Settings, TokenizerResult
from bpe.evaluation.tallying import tally_corpus
from bpe.evaluation.vocabulary_metrics import Morphemes, check_morphemes, compare_boundaries

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What a word is, by name.
WORD_RULES = {"script": BY_SCRIPT, "spaces": BY_SPACES, "characters": BY_CHARACTERS}
Words = Literal["script", "spaces", "characters"]


class Evaluation(Sequence[TokenizerResult]):
    """How good tokenizers are on corpora: a sequence of `TokenizerResult`, one for each tokenizer.

    Attributes:
        results: the same as a list.
        corpora: the names of the corpora; empty for a single unnamed one.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> evaluation = bpe.evaluate(tok, texts=["low lowest", "slow"])
    >>> evaluation["bytes_per_token"], evaluation["fertility"], evaluation.to_dict()["continued_words"]
    (2.3333333333333335, 2.0, 0.6666666666666666)

    """

    def __init__(self, results: list[TokenizerResult], settings: Settings) -> None:
        self.results, self.settings = results, settings
        self.corpora = list(results[0].corpora)
        for result in results:
            result.total.compare_with(results[0].total)
            for name, corpus in result.corpora.items():
                corpus.compare_with(results[0].corpora[name])

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[TokenizerResult]:
        return iter(self.results)

    def __getitem__(self, key: Any) -> Any:
        """Return a tokenizer's result by index or name; with one tokenizer, also a metric or a corpus by name."""
        if not isinstance(key, str):
            return self.results[key]
        for result in self.results:
            if result.name == key:
                return result
        if len(self.results) == 1:
            return self.results[0][key]
        raise KeyError(
            f"{short_repr(key)} is no tokenizer; there are {', '.join(result.name for result in self.results)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics by name, not rounded; of several tokenizers, {"tokenizers": [one such dict each]}.

        With named corpora, "corpora" has the same metrics for each, and "gini", "premium" and others compare them. An
        interval of a metric is `name_interval`: [low, high]. What is undefined is None.
        """
        if len(self.results) == 1:
            return self.results[0].to_dict()
        return {"tokenizers": [result.to_dict() for result in self.results]}

    def _repr_html_(self) -> str:
        """Draw tables of the metrics, for notebooks."""
        from bpe.show.metrics import draw_evaluation

        return draw_evaluation(self.to_dict())

    def plot(self, metric: str = "bytes_per_token", ax: Axes | None = None) -> Axes:
        """Plot a metric of each tokenizer and corpus as bars with intervals, with matplotlib (the extra `plot`).

        Args:
            metric: its name in `to_dict`.
            ax: the axes to draw on; None for new ones.

        Raises:
            ModuleNotFoundError: without matplotlib.
            ValueError: for a metric that is not there, or is no number.

        """
        from bpe.plots import plot_bars
        from bpe.show.metrics import collect_bars, group_by_tokenizer, to_label

        bars = collect_bars(group_by_tokenizer(self.to_dict()), metric)
        if not any(bars.values()):
            raise ValueError(f"metric is {short_repr(metric)}; it must be the name of a number in to_dict()")
        return plot_bars(bars, to_label(metric), ax)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each tokenizer and corpus ("" for all together); needs pandas.

        Raises:
            ModuleNotFoundError: without pandas.

        """
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        return pd.DataFrame(table.make_records(self))

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` with a row for each tokenizer and corpus; needs the extra `arrow`.

        Raises:
            ModuleNotFoundError: without pyarrow.

        """
        return load_pyarrow().Table.from_pylist(table.make_records(self))

    def __str__(self) -> str:
        """Format a table for people, with intervals in brackets."""
        return table.format_table(self)

    def __repr__(self) -> str:
        corpora = f", {', '.join(self.corpora)}" if self.corpora else ""
        names = ", ".join(result.name for result in self.results)
        return escape_unprintable(f"<bpe.evaluation.Evaluation of {names}{corpora}>")


def evaluate(
    tokenizers: Any,
    corpora: Files | Iterable[TextLike] | Mapping[str, Files | Iterable[TextLike]] | None = None,
    *,
    files: Files | Mapping[str, Files] | None = None,
    texts: Iterable[TextLike] | Mapping[str, Iterable[TextLike]] | None = None,
    words: Words = "script",
    morphemes: Morphemes | None = None,
    reference: str | None = None,
    parallel: bool = False,
    alpha: float = ALPHA,
    rare: int = 10,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = False,
) -> Evaluation:
    """Measure how good one or several tokenizers are for texts, in one pass over the text.

    Exactly one of `corpora`, `files` and `texts` is given. Special tokens in the text are ordinary text. A dropout of
    a tokenizer's own is left out.

    Args:
        tokenizers: a tokenizer, a list of them, or a mapping of names to them: `bpe.Tokenizer`, tokenizers of the
            packages tokenizers, transformers and tiktoken, and any object with `encode_batch` and `vocab`.
        corpora: a mapping of names, such as languages, to corpora: a str is a path (or a glob, or a directory), as are
            `pathlib.Path` and `bpe.Sources`; any other iterable holds texts. Or one corpus without a name.
        files: paths or `bpe.Sources`, as for `bpe.train`; or a mapping of names to them.
        texts: an iterable of texts (str or bytes) or an Arrow array of strings; or a mapping of names to them.
        words: "script" takes words between white space, and single characters of Chinese, Japanese, Thai, Lao,
            Khmer, Burmese, Tibetan and other scripts without spaces between words; "spaces" and "characters" take one
            of the two for all text.
        morphemes: words with their morphemes, {"unhappy": ["un", "happy"]} or lists alone, to compare with.
        reference: the corpus that the others are compared with; None for the first one.
        parallel: whether the corpora say the same, document by document; only then there are premiums.
        alpha: the order of the Rényi entropy.
        rare: tokens of the vocabulary that occur less often are rare.
        resamples: how often documents are drawn anew for intervals; 0 for no intervals.
        confidence: the share of the resampled values that an interval holds.
        seed: decides what is drawn, the same on every machine.
        threads: how many to use; None is one per core.
        progress: as for `bpe.train`.

    Raises:
        TypeError, ValueError: for arguments that are none of these.
        FormatError, OSError: for files that cannot be read.

    >>> import bpe
    >>> small = bpe.train(texts=["low lower lowest 낮은"] * 3, vocab_size=260)
    >>> large = bpe.train(texts=["low lower lowest 낮은"] * 3, vocab_size=270)
    >>> evaluation = bpe.evaluate([small, large], {"en": ["low", "slower"], "ko": ["낮은", "높은"]})
    >>> [result["ko"]["bytes_per_token"] for result in evaluation]
    [1.0, 1.7142857142857142]

    """
    check_progress(progress)
    adapters = adapt_all(tokenizers)
    named_corpora = name_corpora(corpora, files, texts)
    names = [corpus.name for corpus in named_corpora]
    if reference is not None and reference not in names:
        known = f"it must be one of the corpora, {', '.join(names)}" if any(names) else "the only corpus has no name"
        raise ValueError(f"reference is {short_repr(reference)}; {known}")
    word_rule = WORD_RULES[check_choice("words", words, ("script", "spaces", "characters"))]
    settings = Settings(
        alpha=_check_number("alpha", alpha, 0, math.inf),
        rare=check_int("rare", rare, 1),
        resamples=check_int("resamples", resamples, 0, 1_000_000),
        confidence=_check_number("confidence", confidence, 0, 1),
        seed=check_int("seed", seed, 0),
        reference=reference,
        parallel=check_bool("parallel", parallel),
    )
    word_morphemes = None if morphemes is None else check_morphemes(morphemes)
    sizes = [corpus.size for corpus in named_corpora]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with progress_bar(progress, "encode", total, "B") as advance:
        tallies = [
            tally_corpus(corpus, adapters, word_rule, resolve_threads(threads), advance) for corpus in named_corpora
        ]
    if parallel:
        _check_parallel(
            {
                name: tallies_of_corpus[0].sums.n_documents
                for name, tallies_of_corpus in zip(names, tallies, strict=True)
            }
        )
    resampled_by_corpus = [ResampledSums(tallies_of_corpus, settings) for tallies_of_corpus in tallies]
    results = []
    for index, adapter in enumerate(adapters):
        tally_by_corpus = {
            name: (tallies_of_corpus[index], resampled_sums)
            for name, tallies_of_corpus, resampled_sums in zip(names, tallies, resampled_by_corpus, strict=True)
        }
        alignment = None if word_morphemes is None else compare_boundaries(adapter, word_morphemes)
        results.append(TokenizerResult(adapter, index, tally_by_corpus, settings, alignment))
    return Evaluation(results, settings)


def adapt_all(tokenizers: Any) -> list[Adapter]:
    """Adapt one or several tokenizers, with distinct names.

    Raises:
        TypeError, ValueError: for objects that are no tokenizers; for none.

    """
    if isinstance(tokenizers, Mapping):
        adapters = [adapt(tokenizer, str(name)) for name, tokenizer in tokenizers.items()]
    elif isinstance(tokenizers, (list, tuple)):
        adapters = [adapt(tokenizer) for tokenizer in tokenizers]
    else:
        adapters = [adapt(tokenizers)]
    if not adapters:
        raise ValueError("tokenizers is empty; give at least one")
    names = {adapter.name for adapter in adapters}
    names_so_far: set[str] = set()
    for adapter in adapters:
        name, number = adapter.name, 1
        while adapter.name in names_so_far or (number > 1 and adapter.name in names):
            number += 1
            adapter.name = f"{name} ({number})"
        names_so_far.add(adapter.name)
    return adapters


def _check_parallel(n_documents_by_corpus: Mapping[str, int]) -> None:
    """Raise ValueError unless there are several corpora with equally many documents."""
    if len(n_documents_by_corpus) < 2 or len(set(n_documents_by_corpus.values())) > 1:
        sizes = ", ".join(f"{name} has {n}" for name, n in n_documents_by_corpus.items())
        problem = "there is one corpus" if len(n_documents_by_corpus) < 2 else f"of the documents {sizes}"
        raise ValueError(
            f"parallel is True, but {problem}; parallel corpora are at least two, and say the same document by document"
        )


def _check_number(name: str, value: Any, minimum: float, maximum: float) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number:
        raise TypeError(f"{name} is {describe(value)}; it must be a number above {minimum:g}, and at most {maximum:g}")
    if not minimum < value <= maximum:
        raise ValueError(
            f"{name} is {short_repr(value)}; it must be a number above {minimum:g}, and at most {maximum:g}"
        )
    return math.inf if value > sys.float_info.max else float(value)
