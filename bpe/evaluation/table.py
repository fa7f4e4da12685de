"""The results of tokenizers as a table of text, and as rows for data frames."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

from bpe.errors import escape_unprintable, short_repr
from bpe.evaluation.result import CorpusResult, TokenizerResult
from bpe.show.metrics import format_change

#: The rows of the table: (heading, metric, how it is written). ↑ means that higher is better, ↓ that lower is.
ROWS = (
    ("tokens ↓", "tokens", "d"),
    ("bytes per token ↑", "bytes_per_token", ".3f"),
    ("characters per token ↑", "characters_per_token", ".3f"),
    ("tokens relative to the first ↓", "normalized_sequence_length", ".3f"),
    ("tokens per word (fertility) ↓", "fertility", ".3f"),
    ("words that are cut ↓", "continued_words", "%"),
    ("words that are one token ↑", "single_token_words", "%"),
    ("Rényi efficiency ↑", "renyi_efficiency", ".4f"),
    ("Rényi efficiency, used tokens ↑", "renyi_efficiency_observed", ".4f"),
    ("Shannon efficiency ↑", "shannon_efficiency", ".4f"),
    ("percentile mass", "percentile_mass", ".4f"),
    ("vocabulary that is used ↑", "utilisation", "%"),
    ("rare tokens ↓", "rare_tokens", "d"),
    ("numbers in groups of three (F1) ↑", "digits_f1", ".4f"),
    ("characters that are split ↓", "split_characters", "%"),
    ("tokens of whole characters", "whole_character_tokens", "%"),
    ("tokens across characters", "crossing_tokens", "%"),
    ("tokens with a leading space", "leading_space_tokens", "%"),
    ("tokens with an inner space", "inner_space_tokens", "%"),
)
#: The metrics that are shown only on request.
_SELDOM_NEEDED = (
    "characters_per_token",
    "renyi_efficiency_observed",
    "shannon_efficiency",
    "percentile_mass",
    "rare_tokens",
    "whole_character_tokens",
    "crossing_tokens",
    "leading_space_tokens",
    "inner_space_tokens",
)
#: What a reader should know to judge the figures.
_EXPLANATION = (
    "What these figures say: with more bytes per token, a model reads the same text in fewer steps. Words that are cut "
    "and characters that are split are usually harder to learn. A high Rényi efficiency means that tokens are used "
    "evenly. A larger vocabulary nearly always takes fewer tokens, so compare vocabularies of one size."
)
_INTERVALS = "Figures in brackets are what other documents of the same kind would give, {:g} times of 100."
#: The metrics that have a table of their own, with a row for each corpus.
BY_CORPUS = ("bytes_per_token", "normalized_sequence_length", "fertility", "continued_words")
#: Rows of the vocabulary itself, which are the same for every corpus.
VOCABULARY_ROWS = (
    ("vocabulary", "vocab_size", "d"),
    ("unreachable tokens ↓", "unreachable_tokens", "d"),
    ("undecodable tokens", "undecodable_tokens", "d"),
    ("morphemes: cut words aligned ↑", "morphological_alignment", "%"),
    ("Gini over corpora ↓", "gini", ".4f"),
)


def format_value(value: Any, style: str) -> str:
    """Format a number as the table writes it; – for None.

    >>> format_value(0.12345, "%"), format_value(1234567, "d"), format_value(None, "d")
    ('12.35%', '1,234,567', '–')
    """
    if value is None:
        return "–"
    if style == "%":
        return f"{100 * value:.2f}%"
    return f"{value:,}" if style == "d" else f"{value:{style}}"


def format_with_interval(result: CorpusResult, name: str, style: str) -> str:
    """Format a metric with its interval, if it has one."""
    text, interval = format_value(result[name], style), result.to_dict().get(f"{name}_interval")
    if interval is None or interval[0] == interval[1]:
        return text
    return f"{text} [{format_value(interval[0], style)}, {format_value(interval[1], style)}]"


def align_columns(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Format rows of cells as lines; the first column to the left, the others to the right.

    If they need more than `width` columns, intervals go below their values, and then some columns below the others.

    >>> rows = [["", "a", "b"], ["bytes", "1.5 [1.2, 1.7]", "2.5"]]
    >>> print("\\n".join(align_columns(rows, 22)))
                    a    b
    bytes         1.5  2.5
           [1.2, 1.7]
    """
    widths = [max(measure_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    if width is not None and sum(widths) + 2 * len(widths) - 2 > width:
        folded_rows = _fold_intervals(rows)
        if len(folded_rows) > len(rows):
            return align_columns(folded_rows, width)
        if len(widths) > 2:
            n_columns = 2
            while sum(widths[: n_columns + 1]) + 2 * n_columns <= width:
                n_columns += 1
            parts = [row[:n_columns] for row in rows], [[row[0], *row[n_columns:]] for row in rows]
            return [*align_columns(parts[0], width), "", *align_columns(parts[1], width)]
    lines = []
    for row in rows:
        cells = [row[0] + " " * (widths[0] - measure_width(row[0]))]
        cells += [" " * (width - measure_width(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _fold_intervals(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Move intervals to rows of their own."""
    folded_rows = []
    for heading, *cells in rows[1:]:
        parts = [cell.partition(" [") for cell in cells]
        folded_rows.append([heading, *(value for value, _, _ in parts)])
        if any(interval for _, _, interval in parts):
            folded_rows.append(["", *(f"[{interval}" if interval else "" for _, _, interval in parts)])
    return [list(rows[0]), *folded_rows]


def measure_width(text: str) -> int:
    """Count the columns that a text takes on a terminal."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text if not unicodedata.combining(char))


def format_table(results: Sequence[TokenizerResult], width: int | None = None, *, show_all: bool = False) -> str:
    """Format the whole evaluation: all corpora together, then the metrics of BY_CORPUS, then the comparison.

    It fits in `width` columns, if that is possible. The metrics that are seldom needed are left out unless `show_all`.
    """
    corpora = list(results[0].corpora)
    dicts = [result.to_dict() for result in results]
    total = results[0].total
    rows = [["", *(result.name for result in results)]]
    for heading, name, style in VOCABULARY_ROWS:
        if any(values.get(name) is not None for values in dicts):
            rows.append([heading, *(format_value(values.get(name), style) for values in dicts)])
    n_more = 0
    for heading, name, style in ROWS:
        if _is_shown(name, results) and any(result.total[name] is not None for result in results):
            if name in _SELDOM_NEEDED and not show_all:
                n_more += 1
            else:
                rows.append([heading, *(format_with_interval(result.total, name, style) for result in results)])
    heading_lines = [
        f"{int(total.sums['bytes']):,} bytes, {int(total.sums['words']):,} words, "
        f"{total.documents:,} document{'' if total.documents == 1 else 's'}"
        + (f", {len(corpora)} {'corpus' if len(corpora) == 1 else 'corpora'}" if corpora else "")
    ]
    legend = "↑ higher is better, ↓ lower is better"
    if n_more:
        legend += f"; {n_more} more metrics: bpe evaluate --all, or to_dict() in Python"
    parts = ["\n".join([*heading_lines, "", *align_columns(rows, width)]), _wrap(legend, width)]
    if corpora:
        parts += [
            _format_by_corpus(results, heading, name, style, width)
            for heading, name, style in ROWS
            if name in BY_CORPUS and _is_shown(name, results)
        ]
    intervals = _INTERVALS.format(100 * results[0].settings.confidence)
    parts.append(_wrap(f"{_EXPLANATION} {intervals}", width))
    parts += ["\n".join(_wrap(line, width) for line in text.split("\n")) for text in compare_results(results)]
    if total.resampled is None and results[0].settings.resamples:
        parts.append(
            "No intervals: they need at least two documents (for files, --per-line or, for example, "
            "--separator '<|endoftext|>'; in Python bpe.Sources(path, per_line=True) or separator=)."
        )
    return escape_unprintable("\n\n".join(parts), keep="\n")  # the names of tokenizers and corpora are the caller's


def _wrap(line: str, width: int | None) -> str:
    return line if width is None else textwrap.fill(line, width)


def _is_shown(name: str, results: Sequence[TokenizerResult]) -> bool:
    """Return whether a metric is shown: with one tokenizer, there is nothing to compare with the first."""
    return name != "normalized_sequence_length" or len(results) > 1


def _format_by_corpus(
    results: Sequence[TokenizerResult], heading: str, name: str, style: str, width: int | None
) -> str:
    rows = [[heading, *(result.name for result in results)]]
    for corpus in results[0].corpora:
        cells = [format_with_interval(result.corpora[corpus], name, style) for result in results]
        rows.append([f"  {corpus}", *cells])
    return "\n".join(align_columns(rows, width))


def compare_results(results: Sequence[TokenizerResult]) -> list[str]:
    """Write sentences that compare each further tokenizer with the first one, in all and by corpus."""
    baseline, *compared = results
    texts = []
    for result in compared:
        pairs = [(name, baseline.corpora[name], result.corpora[name]) for name in baseline.corpora]
        lines = []
        for name, baseline_corpus, corpus in pairs or [("", baseline.total, result.total)]:
            relative = corpus["normalized_sequence_length"]
            if relative is None:
                continue
            interval = corpus["normalized_sequence_length_interval"]
            where = f"{name}: " if name else ""
            how_many = "as many tokens as" if relative == 1 else f"{''.join(format_change(relative, interval))} than"
            savings = _list_savings(baseline.name, baseline_corpus, result.name, corpus)
            lines.append(
                f"{where}{result.name} takes {how_many} {baseline.name}{_explain(baseline_corpus, corpus)}.{savings}"
            )
        if lines:
            texts.append("\n".join(lines))
    return texts


def _explain(baseline: CorpusResult, result: CorpusResult) -> str:
    """Explain what else differs: cut words, split characters, used tokens."""
    changes = []
    for name, meaning in (
        ("continued_words", "of the words are cut"),
        ("split_characters", "of the characters are split"),
    ):
        baseline_value, value = baseline[name], result[name]
        if baseline_value is not None and value is not None and abs(baseline_value - value) >= 0.005:
            sentence = f"{format_value(value, '%')} {meaning} instead of {format_value(baseline_value, '%')}"
            changes.append((abs(baseline_value - value), sentence))
    parts = [sentence for _, sentence in sorted(changes, reverse=True)]  # the greatest change first
    used_tokens = baseline["used_tokens"], result["used_tokens"]
    if abs(used_tokens[0] - used_tokens[1]) > 0.05 * max(used_tokens):
        parts.append(f"{used_tokens[1]:,} different tokens occur instead of {used_tokens[0]:,}")
    return ": " + ", ".join(parts) if parts else ""


def _list_savings(baseline_name: str, baseline: CorpusResult, name: str, result: CorpusResult) -> str:
    """List which tokens save most, of the tokenizer that takes fewer; empty if there are none."""
    (better_name, fewer), (_, more) = sorted(
        ((baseline_name, baseline), (name, result)), key=lambda named: named[1].sums["tokens"]
    )
    try:
        savings = fewer.savings(3, more)
    except ValueError:  # tokens that the other cannot encode
        savings = []
    examples = [
        f"{short_repr(saving.text, 30)} ({_format_times(saving.count)}, instead of {saving.instead} tokens)"
        for saving in savings
    ]
    return f" {better_name} saves most by {', '.join(examples)}." if savings else ""


def _format_times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def make_records(results: Sequence[TokenizerResult]) -> list[dict[str, Any]]:
    """Make a row for each tokenizer and corpus ("" for all together): their names, and the metrics that are numbers."""
    records = []
    for result in results:
        tokenizer_values = {
            name: value
            for name, value in result.to_dict().items()
            if _is_number(value) and not name.endswith("_interval")
        }
        for corpus in (result.total, *result.corpora.values()):
            row: dict[str, Any] = {"tokenizer": result.name, "corpus": corpus.name}
            row |= tokenizer_values if corpus is result.total else {"vocab_size": tokenizer_values["vocab_size"]}
            for name, value in corpus.to_dict().items():
                if name.endswith("_interval"):
                    stem = name.removesuffix("_interval")
                    row[f"{stem}_low"], row[f"{stem}_high"] = value or (None, None)
                elif _is_number(value):
                    row[name] = value
            records.append(row)
    columns = list(dict.fromkeys(name for row in records for name in row))
    return [{name: row.get(name) for name in columns} for row in records]


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
