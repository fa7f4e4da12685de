"""What the vocabularies hold: lengths, scripts, the rarest and the longest tokens, and what differs between two."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from operator import itemgetter

import numpy as np
import regex
from numpy.typing import NDArray

from bpe.report.charts import column_chart
from bpe.report.panels import examples
from bpe.report.subjects import Subject
from bpe.show.html import Heading, Html, columns, note, number, panel, scroll, table
from bpe.vocab.comparing import compare_settings

Counts = Mapping[str, NDArray[np.int64]]

#: The tokens that each list shows.
_SHOWN = 20
#: The last column of the histogram of lengths is of this length and more.
_LONGEST = 16
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
_PARTIAL, _REST = "parts of characters", "punctuation, space and others"


def draw_lengths(tokenizers: Mapping[str, Subject]) -> Html:
    """How many tokens have each length."""
    series = {}
    for name, tokenizer in tokenizers.items():
        lengths = tokenizer.lengths
        found = np.bincount(np.minimum(lengths[lengths > 0], _LONGEST), minlength=_LONGEST + 1)
        series[name] = [int(n) for n in found[1 : _LONGEST + 1]]
    groups = [*map(str, range(1, _LONGEST)), f"{_LONGEST}+"]
    return column_chart("Length of tokens", groups, series, ("bytes in a token", "tokens"))


def count_scripts(tokenizer: Subject) -> dict[str, int]:
    """How many tokens of the vocabulary have letters of each script.

    >>> import bpe
    >>> from bpe.report.subjects import name_subjects
    >>> tok = name_subjects(bpe.train(counts={"한": 2}, vocab_size=258))["tokenizer"]
    >>> {name: n for name, n in count_scripts(tok).items() if n and name in ("Korean", "parts of characters")}
    {'Korean': 1, 'parts of characters': 129}
    """
    names = list(SCRIPTS)
    found = dict.fromkeys([*names, _REST, _PARTIAL], 0)
    for token in map(tokenizer.token, tokenizer.ordinary.tolist()):
        text = token.decode("utf-8", "replace")
        if "\ufffd" in text and "\ufffd".encode() not in token:
            found[_PARTIAL] += 1
        else:
            match = _SCRIPT.search(text)
            found[_REST if match is None else names[match.lastindex - 1]] += 1
    return found


def find_script(text: str) -> str:
    """The script that most characters of a text belong to.

    >>> find_script("한국어 abc"), find_script("1 + 1")
    ('Korean', 'digits')
    """
    names = list(SCRIPTS)
    found: dict[str, int] = {}
    for match in _SCRIPT.finditer(text):
        name = names[match.lastindex - 1]
        found[name] = found.get(name, 0) + 1
    return max(found.items(), key=itemgetter(1), default=(_REST, 0))[0]


def format_scripts(scripts: Mapping[str, Mapping[str, int]]) -> Html:
    """The tokens of each script in each vocabulary."""
    rows = [
        [Heading(script), *(each[script] for each in scripts.values())]
        for script in next(iter(scripts.values()))
        if any(each[script] for each in scripts.values())
    ]
    caption = "tokens of the vocabulary, by the first script that they hold"
    return scroll("tokens by script", table(["letters of", *scripts], rows, caption=caption), whole=True)


def list_extremes(tokenizers: Mapping[str, Subject], counts: Counts) -> Html:
    """The longest tokens of each vocabulary, and the rarest in the texts."""
    panels = []
    for name, tokenizer in tokenizers.items():
        lengths, uses = tokenizer.lengths, counts[name]
        longest = [i for i in np.argsort(-lengths, kind="stable")[:_SHOWN].tolist() if lengths[i]]
        ordinary = tokenizer.ordinary
        used = ordinary[uses[ordinary] > 0]
        rarest = used[np.argsort(uses[used], kind="stable")[:_SHOWN]].tolist()
        unused = len(ordinary) - len(used)
        part = f"{unused / max(1, len(ordinary)):.1%}"
        said = f"{number(unused)} of {number(len(ordinary))} ordinary tokens ({part}) occur in none of the texts."
        panels.append(
            panel(
                name,
                "<h4>Longest</h4>",
                scroll(f"{name}: longest tokens", examples(tokenizer, longest, uses)),
                "<h4>Rarest that occur</h4>",
                scroll(f"{name}: rarest tokens", examples(tokenizer, rarest, uses)),
                note(said),
            )
        )
    return columns(*panels)


def compare_vocabularies(tokenizers: Mapping[str, Subject], counts: Counts) -> Html:
    """For each two vocabularies: how many tokens they share, and what only one of them has."""
    made = []
    for (a, first), (b, second) in combinations(tokenizers.items(), 2):
        ours, theirs = _ids(first), _ids(second)
        shared = ours.keys() & theirs.keys()
        panels = []
        for name, tokenizer, tokens in ((a, first, ours), (b, second, theirs)):
            uses = counts[name]
            only = np.array(sorted(i for token, i in tokens.items() if token not in shared), dtype=np.int64)
            most_used = only[np.argsort(-uses[only], kind="stable")[:_SHOWN]].tolist()
            title = f"Only in {name}: {number(len(only))}"
            panels.append(panel(title, scroll(f"tokens only in {name}", examples(tokenizer, most_used, uses))))
        settings = (
            compare_settings(first.native.spec, second.native.spec, (a, b)) if first.native and second.native else []
        )
        rows = [[Heading(each.field), each.message] for each in settings]
        said = note(f"{a} and {b} share {number(len(shared))} tokens. Those that only one has are listed by their use.")
        made += [said, columns(*panels)]
        if rows:
            made.append(scroll(f"settings of {a} and {b}", table(["setting", "difference"], rows)))
    return Html("".join(made))


def _ids(tokenizer: Subject) -> dict[bytes, int]:
    """The ordinary tokens with their ids."""
    return {tokenizer.token(i): i for i in tokenizer.ordinary.tolist()}
