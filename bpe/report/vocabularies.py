"""What the vocabularies hold: lengths, scripts, the rarest and the longest tokens, and what differs between two."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from operator import itemgetter

import numpy as np
import regex
from numpy.typing import NDArray

from bpe.report.charts import draw_column_chart
from bpe.report.panels import draw_examples
from bpe.report.tokenizers import ReportedTokenizer
from bpe.show.html import Heading, Html, format_number, make_columns, make_note, make_panel, make_scroll_box, make_table
from bpe.vocab.comparing import compare_settings

#: Of each tokenizer, by name: how often each id occurs in the texts.
CountsByName = Mapping[str, NDArray[np.int64]]

#: The tokens that each list shows.
_N_LISTED = 20
#: The last column of the histogram of lengths is of this length and more.
_HISTOGRAM_BYTES = 16
#: Scripts that have a row of their own. A token belongs to the first that it has a letter of.
SCRIPTS = {
    "Korean": r"\p{Hangul}",
    "Japanese kana": r"[\p{Hiragana}\p{Katakana}]",
    "Han": r"\p{Han}",
    "Latin": r"\p{Latin}",
    "Cyrillic": r"\p{Cyrillic}",
    "Arabic": r"\p{Arabic}",
    "Hebrew": r"\p{Hebrew}",
    "Greek": r"\p{Greek}",
    "Devanagari": r"\p{Devanagari}",
    "Thai": r"\p{Thai}",
    "other letters": r"\p{L}",
    "digits": r"\p{N}",
    "emoji": r"\p{Emoji_Presentation}",
}
_SCRIPT = regex.compile("|".join(f"(?P<g{i}>{pattern})" for i, pattern in enumerate(SCRIPTS.values())))
_PARTIAL, _OTHER = "parts of characters", "punctuation, space and others"


def draw_lengths(tokenizers_by_name: Mapping[str, ReportedTokenizer]) -> Html:
    """Draw how many tokens have each length."""
    series = {}
    for name, tokenizer in tokenizers_by_name.items():
        lengths = tokenizer.lengths
        counts = np.bincount(np.minimum(lengths[lengths > 0], _HISTOGRAM_BYTES), minlength=_HISTOGRAM_BYTES + 1)
        series[name] = [int(n) for n in counts[1 : _HISTOGRAM_BYTES + 1]]
    groups = [*map(str, range(1, _HISTOGRAM_BYTES)), f"{_HISTOGRAM_BYTES}+"]
    return draw_column_chart("Length of tokens", groups, series, ("bytes in a token", "tokens"))


def count_scripts(tokenizer: ReportedTokenizer) -> dict[str, int]:
    """Count the tokens of the vocabulary with letters of each script.

    >>> import bpe
    >>> from bpe.report.tokenizers import name_tokenizers
    >>> tok = name_tokenizers(bpe.train(counts={"한": 2}, vocab_size=258))["tokenizer"]
    >>> {name: n for name, n in count_scripts(tok).items() if n and name in ("Korean", "parts of characters")}
    {'Korean': 1, 'parts of characters': 129}
    """
    names = list(SCRIPTS)
    n_tokens = dict.fromkeys([*names, _OTHER, _PARTIAL], 0)
    for token in map(tokenizer.get_token, tokenizer.ordinary_ids.tolist()):
        text = token.decode("utf-8", "replace")
        if "\ufffd" in text and "\ufffd".encode() not in token:
            n_tokens[_PARTIAL] += 1
        else:
            match = _SCRIPT.search(text)
            n_tokens[_OTHER if match is None else names[match.lastindex - 1]] += 1
    return n_tokens


def find_script(text: str) -> str:
    """Find the script that most characters of a text belong to.

    >>> find_script("한국어 abc"), find_script("1 + 1")
    ('Korean', 'digits')
    """
    names = list(SCRIPTS)
    n_characters: dict[str, int] = {}
    for match in _SCRIPT.finditer(text):
        name = names[match.lastindex - 1]
        n_characters[name] = n_characters.get(name, 0) + 1
    return max(n_characters.items(), key=itemgetter(1), default=(_OTHER, 0))[0]


def format_scripts(script_counts_by_name: Mapping[str, Mapping[str, int]]) -> Html:
    """Format the numbers of tokens of each script in each vocabulary."""
    rows = [
        [Heading(script), *(script_counts[script] for script_counts in script_counts_by_name.values())]
        for script in next(iter(script_counts_by_name.values()))
        if any(script_counts[script] for script_counts in script_counts_by_name.values())
    ]
    caption = "tokens of the vocabulary, by the first script that they hold"
    return make_scroll_box(
        "tokens by script",
        make_table(["letters of", *script_counts_by_name], rows, caption=caption),
        only_sideways=True,
    )


def draw_extremes(tokenizers_by_name: Mapping[str, ReportedTokenizer], counts_by_name: CountsByName) -> Html:
    """List the longest tokens of each vocabulary, and the rarest in the texts."""
    panels = []
    for name, tokenizer in tokenizers_by_name.items():
        lengths, counts = tokenizer.lengths, counts_by_name[name]
        longest_ids = [
            token_id for token_id in np.argsort(-lengths, kind="stable")[:_N_LISTED].tolist() if lengths[token_id]
        ]
        ordinary_ids = tokenizer.ordinary_ids
        used_ids = ordinary_ids[counts[ordinary_ids] > 0]
        rarest_ids = used_ids[np.argsort(counts[used_ids], kind="stable")[:_N_LISTED]].tolist()
        n_unused = len(ordinary_ids) - len(used_ids)
        share = f"{n_unused / max(1, len(ordinary_ids)):.1%}"
        unused_tokens = f"{format_number(n_unused)} of {format_number(len(ordinary_ids))} ordinary tokens ({share})"
        panels.append(
            make_panel(
                name,
                "<h4>Longest</h4>",
                make_scroll_box(f"{name}: longest tokens", draw_examples(tokenizer, longest_ids, counts)),
                "<h4>Rarest that occur</h4>",
                make_scroll_box(f"{name}: rarest tokens", draw_examples(tokenizer, rarest_ids, counts)),
                make_note(f"{unused_tokens} occur in none of the texts."),
            )
        )
    return make_columns(*panels)


def compare_vocabularies(tokenizers_by_name: Mapping[str, ReportedTokenizer], counts_by_name: CountsByName) -> Html:
    """Compare each two vocabularies: how many tokens they share, and what only one of them has."""
    parts = []
    for (a, tokenizer_a), (b, tokenizer_b) in combinations(tokenizers_by_name.items(), 2):
        ids_by_token_a, ids_by_token_b = _map_tokens_to_ids(tokenizer_a), _map_tokens_to_ids(tokenizer_b)
        shared_tokens = ids_by_token_a.keys() & ids_by_token_b.keys()
        panels = []
        for name, tokenizer, ids_by_token in ((a, tokenizer_a, ids_by_token_a), (b, tokenizer_b, ids_by_token_b)):
            counts = counts_by_name[name]
            only_ids = np.array(
                sorted(token_id for token, token_id in ids_by_token.items() if token not in shared_tokens),
                dtype=np.int64,
            )
            most_used_ids = only_ids[np.argsort(-counts[only_ids], kind="stable")[:_N_LISTED]].tolist()
            title = f"Only in {name}: {format_number(len(only_ids))}"
            panels.append(
                make_panel(
                    title, make_scroll_box(f"tokens only in {name}", draw_examples(tokenizer, most_used_ids, counts))
                )
            )
        setting_differences = (
            compare_settings(tokenizer_a.native.spec, tokenizer_b.native.spec, (a, b))
            if tokenizer_a.native and tokenizer_b.native
            else []
        )
        rows = [[Heading(difference.field), difference.message] for difference in setting_differences]
        summary = make_note(
            f"{a} and {b} share {format_number(len(shared_tokens))} tokens. Those that only one has are listed by "
            "their use."
        )
        parts += [summary, make_columns(*panels)]
        if rows:
            parts.append(make_scroll_box(f"settings of {a} and {b}", make_table(["setting", "difference"], rows)))
    return Html("".join(parts))


def _map_tokens_to_ids(tokenizer: ReportedTokenizer) -> dict[bytes, int]:
    """Map the ordinary tokens to their ids."""
    return {tokenizer.get_token(token_id): token_id for token_id in tokenizer.ordinary_ids.tolist()}
