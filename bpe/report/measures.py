"""The sections made from an evaluation: which tokenizer is better and by how much, all metrics, and bars by corpus.

The evaluation comes in as `bpe/show/metrics.py` has it: facts by tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from bpe.report.charts import draw_bar_chart
from bpe.show.html import Html, format_number, make_columns, make_scroll_box, to_html
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

ALL_TEXTS = "all texts"


def draw_metrics(facts: Mapping[str, Facts], name: str = "metrics") -> Html:
    """Draw the main metrics, and the others to unfold; a column for each tokenizer."""
    main_keys, more_keys = (list_keys(facts, main=main) for main in (True, False))
    main_table = make_scroll_box(name, format_metrics(facts, main_keys), only_sideways=True) if main_keys else ""
    more_table = make_scroll_box(f"more {name}", format_metrics(facts, more_keys)) if more_keys else ""
    unfolded = f"<details><summary>{len(more_keys)} more metrics</summary>{more_table}</details>" if more_table else ""
    return Html(main_table + unfolded)


def draw_corpora(facts: Mapping[str, Facts]) -> Html:
    """Draw bars by corpus, and all metrics; empty without named corpora. Only parallel corpora have premiums."""
    names = list_corpora(facts)
    if not names:
        return Html("")
    charts = [
        draw_bar_chart(title, collect_bars(facts, key), to_label(key))
        for key, title in (("bytes_per_token", "Bytes per token by corpus"), ("tokens", "Tokens by corpus"))
    ]
    for key, title in (
        ("premium", "Premium: tokens for the same content, relative to the reference"),
        ("relative_tokens_per_byte", "Tokens per byte, relative to the reference (the texts differ)"),
    ):
        ratios = {
            name: corpus_facts[key] for name, corpus_facts in facts.items() if isinstance(corpus_facts.get(key), dict)
        }
        if not ratios:
            continue
        groups = {
            corpus: {
                name: (float(corpus_facts[corpus]),) * 3
                for name, corpus_facts in ratios.items()
                if corpus_facts.get(corpus) is not None
            }
            for corpus in names
        }
        charts.append(draw_bar_chart(title, groups, to_label(key)))
        break
    tables = []
    for corpus in names:
        corpus_facts = {
            name: tokenizer_facts["corpora"][corpus]
            for name, tokenizer_facts in facts.items()
            if corpus in tokenizer_facts.get("corpora", {})
        }
        tables.append(f"<h3>{to_html(corpus)}</h3>{draw_metrics(corpus_facts, f'metrics of {corpus}')}")
    return Html(
        f"{make_columns(*charts)}<details><summary>All metrics of each corpus</summary>{''.join(tables)}</details>"
    )


def write_verdicts(facts: Mapping[str, Facts]) -> Iterator[str]:
    """Write sentences that compare each two tokenizers: which needs fewer tokens for each corpus, and by how much."""
    names = list_corpora(facts)
    for (a, all_facts_a), (b, all_facts_b) in combinations(facts.items(), 2):
        for corpus in [*names, ""] if len(names) != 1 else names:
            facts_a, facts_b = (
                tokenizer_facts.get("corpora", {}).get(corpus, {}) if corpus else tokenizer_facts
                for tokenizer_facts in (all_facts_a, all_facts_b)
            )
            if facts_a.get("tokens") and facts_b.get("tokens"):
                relative = _get_relative_interval(facts_b) if a == next(iter(facts)) else None
                yield _write_verdict(corpus or ALL_TEXTS, (a, facts_a), (b, facts_b), relative)


def _get_relative_interval(facts: Facts) -> tuple[float, float] | None:
    """Return the interval of the tokens relative to those of the first tokenizer, on the same documents."""
    key = "normalized_sequence_length"
    return get_interval(facts, key) if has_interval(facts, key) else None


def _write_verdict(
    corpus: str, a: tuple[str, Facts], b: tuple[str, Facts], relative: tuple[float, float] | None = None
) -> str:
    """Write one sentence; `relative` is the interval of the tokens of `b` relative to those of `a`."""
    (better, fewer), (worse, more) = sorted((a, b), key=lambda named: int(named[1]["tokens"]))
    if fewer["tokens"] == more["tokens"]:
        return f"{corpus}: {better} and {worse} need the same number of tokens, {format_number(fewer['tokens'])}."
    share_saved = 1 - fewer["tokens"] / more["tokens"]
    sentence = f"{corpus}: {better} needs {share_saved:.1%} fewer tokens than {worse}"
    if relative is not None:
        shares = relative if better == b[0] else tuple(1 / bound for bound in relative)
        low, high = sorted(1 - share for share in shares)
        sentence += f" [{low:.1%}, {high:.1%}{'' if low > 0 else ', which may be chance'}]"
    key = "bytes_per_token"
    if fewer.get(key) and more.get(key):
        sentence += f" ({fewer[key]:.3f} bytes per token, not {more[key]:.3f})"
    return sentence + "."
