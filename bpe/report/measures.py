"""The sections made from an evaluation: which tokenizer is better and by how much, all metrics, and bars by corpus.

The evaluation comes in as `bpe/show/metrics.py` has it: facts by tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from bpe.report.charts import bar_chart
from bpe.show.html import Html, columns, number, scroll, to_html
from bpe.show.metrics import (
    Facts,
    collect_bars,
    format_metrics,
    get_interval,
    has_interval,
    list_corpora,
    list_keys,
    to_label,
)

ALL = "all texts"


def draw_metrics(facts: Mapping[str, Facts], name: str = "metrics") -> Html:
    """The main metrics, and the others to unfold; a column for each tokenizer."""
    main, others = (list_keys(facts, main=main) for main in (True, False))
    shown = scroll(name, format_metrics(facts, main), whole=True) if main else ""
    more = scroll(f"more {name}", format_metrics(facts, others)) if others else ""
    unfolded = f"<details><summary>{len(others)} more metrics</summary>{more}</details>" if more else ""
    return Html(shown + unfolded)


def draw_corpora(facts: Mapping[str, Facts]) -> Html:
    """Bars by corpus, and all metrics; empty without named corpora. Only parallel corpora have premiums."""
    names = list_corpora(facts)
    if not names:
        return Html("")
    charts = [
        bar_chart(title, collect_bars(facts, key), to_label(key))
        for key, title in (("bytes_per_token", "Bytes per token by corpus"), ("tokens", "Tokens by corpus"))
    ]
    for key, title in (
        ("premium", "Premium: tokens for the same content, relative to the reference"),
        ("relative_tokens_per_byte", "Tokens per byte, relative to the reference (the texts differ)"),
    ):
        ratios = {name: each[key] for name, each in facts.items() if isinstance(each.get(key), dict)}
        if not ratios:
            continue
        groups = {
            corpus: {name: (float(each[corpus]),) * 3 for name, each in ratios.items() if each.get(corpus) is not None}
            for corpus in names
        }
        charts.append(bar_chart(title, groups, to_label(key)))
        break
    tables = []
    for corpus in names:
        each = {name: found["corpora"][corpus] for name, found in facts.items() if corpus in found.get("corpora", {})}
        tables.append(f"<h3>{to_html(corpus)}</h3>{draw_metrics(each, f'metrics of {corpus}')}")
    return Html(f"{columns(*charts)}<details><summary>All metrics of each corpus</summary>{''.join(tables)}</details>")


def write_verdicts(facts: Mapping[str, Facts]) -> Iterator[str]:
    """Sentences that compare the tokenizers: of each two, which needs fewer tokens for each corpus, and by how much."""
    names = list_corpora(facts)
    for (a, first), (b, second) in combinations(facts.items(), 2):
        for corpus in [*names, ""] if len(names) != 1 else names:
            ours, theirs = (each.get("corpora", {}).get(corpus, {}) if corpus else each for each in (first, second))
            if ours.get("tokens") and theirs.get("tokens"):
                relative = _interval(theirs) if a == next(iter(facts)) else None
                yield _verdict(corpus or ALL, (a, ours), (b, theirs), relative)


def _interval(facts: Facts) -> tuple[float, float] | None:
    """The interval of the tokens relative to those of the first tokenizer, on the same documents."""
    key = "normalized_sequence_length"
    return get_interval(facts, key) if has_interval(facts, key) else None


def _verdict(
    corpus: str, a: tuple[str, Facts], b: tuple[str, Facts], relative: tuple[float, float] | None = None
) -> str:
    """One sentence; `relative` is the interval of the tokens of `b` relative to those of `a`."""
    (better, fewer), (worse, more) = sorted((a, b), key=lambda each: int(each[1]["tokens"]))
    if fewer["tokens"] == more["tokens"]:
        return f"{corpus}: {better} and {worse} need the same number of tokens, {number(fewer['tokens'])}."
    saved = 1 - fewer["tokens"] / more["tokens"]
    said = f"{corpus}: {better} needs {saved:.1%} fewer tokens than {worse}"
    if relative is not None:
        shares = relative if better == b[0] else tuple(1 / each for each in relative)
        low, high = sorted(1 - share for share in shares)
        said += f" [{low:.1%}, {high:.1%}{'' if low > 0 else ', which may be chance'}]"
    key = "bytes_per_token"
    if fewer.get(key) and more.get(key):
        said += f" ({fewer[key]:.3f} bytes per token, not {more[key]:.3f})"
    return said + "."
