"""The metrics of an evaluation, as tables and charts: from the dict of `Evaluation.to_dict()`.

The dict is flat for one tokenizer; for several it has `"tokenizers"`, one such dict each; `"corpora"` has the metrics
of each named corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bpe.show.html import Heading, Html, format_number, make_card, make_table

Metrics = Mapping[str, Any]

_INTERVAL = "_interval"
#: The metrics that are shown first, with what they are called; any other is called by its key.
LABELS = {
    "vocab_size": "tokens in the vocabulary",
    "tokens": "tokens",
    "bytes": "bytes",
    "characters": "characters",
    "words": "words",
    "documents": "documents",
    "bytes_per_token": "bytes per token (higher is better)",
    "characters_per_token": "characters per token (higher is better)",
    "fertility": "tokens per word (lower is better)",
    "continued_words": "share of words that are cut (lower is better)",
    "split_characters": "share of characters that are cut (lower is better)",
    "renyi_efficiency": "Rényi efficiency (higher is better)",
    "utilisation": "share of the vocabulary that occurs",
    "unreachable_tokens": "tokens that encoding never produces",
    "gini": "Gini coefficient over corpora (lower is fairer)",
}


def group_by_tokenizer(evaluation: Metrics, names: Sequence[str] | None = None) -> dict[str, Metrics]:
    """Group the facts of an evaluation by tokenizer, under its own name or the given ones.

    Raises:
        ValueError: for more or fewer names than there are tokenizers, and for their own names in another order.

    """
    rows = evaluation.get("tokenizers") or [evaluation]
    own_names = [str(row.get("tokenizer", "")) for row in rows]
    names = own_names if names is None else list(names)
    if len(rows) != len(names):
        raise ValueError(
            f"the evaluation is of {len(rows)} tokenizers, the report of {len(names)}; they must be the same ones"
        )
    if names != own_names and sorted(names) == sorted(own_names):
        raise ValueError(
            f"the evaluation is of {', '.join(own_names)}, the report of {', '.join(names)}; give them in the same "
            "order"
        )
    return dict(zip(names, rows, strict=True))


def to_label(key: str) -> str:
    """Return the label of a metric.

    >>> to_label("bytes_per_token"), to_label("used_tokens")
    ('bytes per token (higher is better)', 'used tokens')
    """
    return LABELS.get(key, key.replace("_", " "))


def list_keys(metrics_by_name: Mapping[str, Metrics], *, main: bool) -> list[str]:
    """List the metrics that are numbers: those in LABELS, or the others."""
    number_keys = dict.fromkeys(
        key for metrics in metrics_by_name.values() for key, value in metrics.items() if _is_number(value)
    )
    return [key for key in (LABELS if main else number_keys) if key in number_keys and (key in LABELS) == main]


def format_metrics(metrics_by_name: Mapping[str, Metrics], keys: Sequence[str]) -> Html:
    """Format metrics, a row each, with their intervals; a column for each tokenizer or corpus."""
    rows = [
        [Heading(to_label(key)), *(format_metric(metrics, key) for metrics in metrics_by_name.values())] for key in keys
    ]
    return Html(make_table(["metric", *metrics_by_name], rows))


def list_corpora(metrics_by_name: Mapping[str, Metrics]) -> list[str]:
    """List the names of the corpora."""
    return list(dict.fromkeys(name for metrics in metrics_by_name.values() for name in metrics.get("corpora", ())))


def collect_bars(metrics_by_name: Mapping[str, Metrics], key: str) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Collect a metric by corpus and tokenizer, as (value, low, high); without named corpora, one group."""
    groups = {
        corpus: {name: metrics.get("corpora", {}).get(corpus, {}) for name, metrics in metrics_by_name.items()}
        for corpus in list_corpora(metrics_by_name)
    } or {"": dict(metrics_by_name)}
    return {
        corpus: {
            name: (float(value), *get_interval(metrics, key))
            for name, metrics in group.items()
            if _is_number(value := metrics.get(key))
        }
        for corpus, group in groups.items()
    }


def get_interval(metrics: Metrics, key: str) -> tuple[float, float]:
    """Return the interval of a metric; its value twice where there is none."""
    low, high = metrics.get(key + _INTERVAL) or (metrics[key], metrics[key])
    return float(low), float(high)


def has_interval(metrics: Metrics, key: str) -> bool:
    """Return whether a metric has an interval."""
    return bool(metrics.get(key + _INTERVAL))


def format_metric(metrics: Metrics, key: str) -> object:
    """Format a metric for a cell: as text, so that metrics with and without an interval begin at the same position."""
    value: Any = metrics.get(key)
    if not _is_number(value):
        return value
    if not has_interval(metrics, key):
        return format_number(value)
    low, high = get_interval(metrics, key)
    return f"{format_number(value)} ({format_number(low)} to {format_number(high)})"


def format_change(relative: float, interval: Sequence[float] | None) -> tuple[str, str]:
    """Format a number of tokens relative to another, and its interval: " [low, high]", or "" without one.

    >>> format_change(0.75, (0.7, 0.8)), format_change(1.5, None)
    (('25.0% fewer tokens', ' [20.0%, 30.0%]'), ('50.0% more tokens', ''))
    """
    change = f"{abs(relative - 1):.1%} {'more' if relative > 1 else 'fewer'} tokens"
    if interval is None:
        return change, ""
    low, high = sorted(bound - 1 if relative > 1 else 1 - bound for bound in interval)
    return change, f" [{low:.1%}, {high:.1%}{'' if low > 0 else ', which may be chance'}]"


def draw_evaluation(evaluation: Metrics) -> str:
    """Draw an evaluation for a notebook: the main metrics, those of each corpus, and all others to unfold."""
    metrics_by_name = group_by_tokenizer(evaluation)
    parts = [format_metrics(metrics_by_name, list_keys(metrics_by_name, main=True)), *_format_corpora(metrics_by_name)]
    more_keys = list_keys(metrics_by_name, main=False)
    if more_keys:
        more_table = format_metrics(metrics_by_name, more_keys)
        parts.append(f"<details><summary>{len(more_keys)} more metrics</summary>{more_table}</details>")
    return make_card("bpe.evaluation.Evaluation", {}, "".join(parts))


def _format_corpora(metrics_by_name: Mapping[str, Metrics]) -> Iterator[str]:
    corpora = list_corpora(metrics_by_name)
    for key in ("bytes_per_token", "fertility") if corpora else ():
        rows = [
            [
                Heading(corpus),
                *(
                    format_metric(metrics.get("corpora", {}).get(corpus, {}), key)
                    for metrics in metrics_by_name.values()
                ),
            ]
            for corpus in corpora
        ]
        yield make_table([to_label(key), *metrics_by_name], rows)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
