"""The sections made from an evaluation: which tokenizer is better and by how much, all metrics, and bars by corpus.

The evaluation comes in as `bpe/show/metrics.py` has it: facts by tokenizer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations

from bpe.report.charts import draw_bar_chart
from bpe.show.html import Html, format_number, make_columns, make_scroll_box, to_html
from bpe.show.metrics import (
    Metrics,
    collect_bars,
    format_change,
    format_metrics,
    get_interval,
    has_interval,
    list_corpora,
    list_keys,
    to_label,
)

ALL_TEXTS = "all texts"


def draw_metrics(metrics_by_name: Mapping[str, Metrics], label: str = "metrics") -> Html:
    """Draw the main metrics, and the others to unfold; a column for each tokenizer."""
    main_keys, more_keys = (list_keys(metrics_by_name, main=main) for main in (True, False))
    main_table = (
        make_scroll_box(label, format_metrics(metrics_by_name, main_keys), only_sideways=True) if main_keys else ""
    )
    more_table = make_scroll_box(f"more {label}", format_metrics(metrics_by_name, more_keys)) if more_keys else ""
    unfolded = f"<details><summary>{len(more_keys)} more metrics</summary>{more_table}</details>" if more_table else ""
    return Html(main_table + unfolded)


def draw_corpora(metrics_by_name: Mapping[str, Metrics]) -> Html:
    """Draw bars by corpus, and all metrics; empty without named corpora. Only parallel corpora have premiums."""
    names = list_corpora(metrics_by_name)
    if not names:
        return Html("")
    charts = [
        draw_bar_chart(title, collect_bars(metrics_by_name, key), to_label(key))
        for key, title in (("bytes_per_token", "Bytes per token by corpus"), ("tokens", "Tokens by corpus"))
    ]
    for key, title in (
        ("premium", "Premium: tokens for the same content, relative to the reference"),
        ("relative_tokens_per_byte", "Tokens per byte, relative to the reference (the texts differ)"),
    ):
        ratios_by_name = {
            name: metrics[key] for name, metrics in metrics_by_name.items() if isinstance(metrics.get(key), dict)
        }
        if not ratios_by_name:
            continue
        groups = {
            corpus: {
                name: (float(ratio_by_corpus[corpus]),) * 3
                for name, ratio_by_corpus in ratios_by_name.items()
                if ratio_by_corpus.get(corpus) is not None
            }
            for corpus in names
        }
        charts.append(draw_bar_chart(title, groups, to_label(key)))
        break
    tables = []
    for corpus in names:
        corpus_metrics_by_name = {
            name: metrics["corpora"][corpus]
            for name, metrics in metrics_by_name.items()
            if corpus in metrics.get("corpora", {})
        }
        tables.append(f"<h3>{to_html(corpus)}</h3>{draw_metrics(corpus_metrics_by_name, f'metrics of {corpus}')}")
    return Html(
        f"{make_columns(*charts)}<details><summary>All metrics of each corpus</summary>{''.join(tables)}</details>"
    )


def write_verdicts(metrics_by_name: Mapping[str, Metrics]) -> Iterator[str]:
    """Write sentences that compare each two tokenizers: which needs fewer tokens for each corpus, and by how much."""
    names = list_corpora(metrics_by_name)
    for (a, all_metrics_a), (b, all_metrics_b) in combinations(metrics_by_name.items(), 2):
        for corpus in [*names, ""] if len(names) != 1 else names:
            metrics_a, metrics_b = (
                all_metrics.get("corpora", {}).get(corpus, {}) if corpus else all_metrics
                for all_metrics in (all_metrics_a, all_metrics_b)
            )
            if metrics_a.get("tokens") and metrics_b.get("tokens"):
                relative_interval = _get_relative_interval(metrics_b) if a == next(iter(metrics_by_name)) else None
                yield _write_verdict(corpus or ALL_TEXTS, (a, metrics_a), (b, metrics_b), relative_interval)


def _get_relative_interval(metrics: Metrics) -> tuple[float, float] | None:
    """Return the interval of the tokens relative to those of the first tokenizer, on the same documents."""
    key = "normalized_sequence_length"
    return get_interval(metrics, key) if has_interval(metrics, key) else None


def _write_verdict(
    corpus: str, a: tuple[str, Metrics], b: tuple[str, Metrics], relative_interval: tuple[float, float] | None = None
) -> str:
    """Write one sentence; `relative_interval` is the interval of the tokens of `b` relative to those of `a`."""
    (better_name, fewer_metrics), (worse_name, more_metrics) = sorted((a, b), key=lambda named: int(named[1]["tokens"]))
    if fewer_metrics["tokens"] == more_metrics["tokens"]:
        n_tokens = format_number(fewer_metrics["tokens"])
        return f"{corpus}: {better_name} and {worse_name} need the same number of tokens, {n_tokens}."
    if relative_interval is not None and better_name != b[0]:
        # A bound of 0 means samples without a token of `b`.
        low, high = (1 / bound if bound else math.inf for bound in relative_interval)
        relative_interval = low, high
    change, change_interval = format_change(fewer_metrics["tokens"] / more_metrics["tokens"], relative_interval)
    sentence = f"{corpus}: {better_name} needs {change} than {worse_name}{change_interval}"
    key = "bytes_per_token"
    if fewer_metrics.get(key) and more_metrics.get(key):
        sentence += f" ({fewer_metrics[key]:.3f} bytes per token, not {more_metrics[key]:.3f})"
    return sentence + "."
