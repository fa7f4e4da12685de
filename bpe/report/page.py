"""`write_page`: the report as one HTML file that needs nothing else.

The page's frame, style and script are `page.html`, `page.css` and `page.js` beside this file. A content security policy
names the style and the script by their SHA-256, so that a browser runs and loads nothing else, whatever the texts hold.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import product
from string import Template
from typing import Any, Protocol

import numpy as np

from bpe._version import __version__
from bpe.base.atomic_files import atomic_write
from bpe.base.utf8 import TextLike, to_bytes
from bpe.corpus.blocks import PathLike
from bpe.errors import describe
from bpe.plots import measure_compression
from bpe.report import measures, vocabularies
from bpe.report.charts import line_chart, pick_ranks
from bpe.report.panels import Panels, cut_beginning
from bpe.report.subjects import Subject, Tokenizers, name_subjects
from bpe.show.html import Heading, Html, columns, note, scroll, section, table, to_html
from bpe.show.metrics import Facts, by_tokenizer

Texts = TextLike | Sequence[TextLike] | Mapping[str, TextLike | Sequence[TextLike]]

#: The bytes of text that are drawn as tokens: of a text at most and at least, and of all texts in all tokenizers.
_MOST_DRAWN, _LEAST_DRAWN, _DRAWN_IN_ALL = 4000, 300, 40_000
#: The bytes of each text, of all texts together, that the curve of compression by vocabulary size is measured on.
_MEASURED = 200_000


class Evaluated(Protocol):
    """What a report needs of an `Evaluation`."""

    def to_dict(self) -> dict[str, Any]:
        """The metrics by name."""


def write_page(
    path: PathLike,
    tokenizers: Tokenizers,
    evaluation: Evaluated | Mapping[str, Any] | None = None,
    texts: Texts = (),
) -> None:
    """Write a report on tokenizers as one HTML page, which needs no network and can be read without JavaScript.

    Args:
        path: the file to write; it appears whole or not at all.
        tokenizers: one, a list of them, or several by name: all that `bpe.evaluate` takes. Of tokenizers of other
            packages, merges and settings are left out.
        evaluation: what `bpe.evaluate` returned for the same tokenizers in the same order, or its `to_dict()`; None
            leaves out the intervals and all metrics but the number of tokens.
        texts: the texts to draw: a str or bytes, several, or by name a text or the documents of a corpus. The beginning
            of each is drawn. If the evaluation has a corpus of the same name, its counts are used and the beginning of
            the text is enough; otherwise pass the whole text, which is counted.

    Raises:
        TypeError: for anything but tokenizers.
        ValueError: without a tokenizer, or for an evaluation of another number of tokenizers.
        OSError: if the file cannot be written.

    >>> import bpe, bpe.report, tempfile, pathlib
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "report.html"
    ...     bpe.report.write_page(path, {"small": tok}, texts="lowest & lower")
    ...     "<h1>Tokenizer report: small</h1>" in path.read_text()
    True

    """
    page = page_html(tokenizers, evaluation, texts)
    with atomic_write(path) as file:
        file.write(page.encode())


def page_html(
    tokenizers: Tokenizers, evaluation: Evaluated | Mapping[str, Any] | None = None, texts: Texts = ()
) -> str:
    """The page of `write_page` as a str."""
    named = name_subjects(tokenizers)
    corpora = _name_texts(texts)
    values = {} if evaluation is None else evaluation if isinstance(evaluation, Mapping) else evaluation.to_dict()
    facts = by_tokenizer(values, list(named)) if values else {}
    usage = Usage(named, corpora, facts, getattr(evaluation, "results", ()))
    facts = facts or usage.facts()
    panels = Panels(named)
    scripts = {name: vocabularies.count_scripts(each) for name, each in named.items()}
    sections = [
        section(
            "summary", "Summary", _overview(named), _verdicts(facts, scripts, corpora), measures.draw_metrics(facts)
        ),
        section("corpora", "Corpora", measures.draw_corpora(facts)),
        section("texts", "The same text in each tokenizer", *_draw_texts(panels, corpora, usage)),
        section("vocabularies", "Vocabularies", _charts(named, usage, corpora), vocabularies.format_scripts(scripts)),
        section("tokens", "The longest and the rarest tokens", vocabularies.list_extremes(named, usage.counts)),
        section("differences", "What differs", vocabularies.compare_vocabularies(named, usage.counts)),
    ]
    body = "".join(sections)
    return frame(f"Tokenizer report: {', '.join(named)}", body, panels.details(), nav=_nav(sections))


def frame(title: str, body: str, data: object, *, nav: str = "", connect: bool = False) -> str:
    """A whole page: its head, style and script around a body of HTML.

    Args:
        title: the title.
        body: HTML.
        data: what the script needs to know, as JSON.
        nav: HTML under the title.
        connect: whether the script may ask the page's own server.

    """
    style, script = _resource("page.css"), _resource("page.js")
    values = {
        "policy": policy(connect=connect),
        "version": __version__,
        "title": to_html(title),
        "style": style,
        "script": script,
        "nav": nav,
        "body": body,
        "data": escape_json(data),
    }
    return Template(_resource("page.html")).substitute(values)


def policy(*, connect: bool = False) -> str:
    """The content security policy of the page: its own style and script, and nothing else."""
    style, script = (
        b64encode(hashlib.sha256(_resource(name).encode()).digest()).decode() for name in ("page.css", "page.js")
    )
    own = "connect-src 'self'; form-action 'self'" if connect else "form-action 'none'"
    return f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; base-uri 'none'; {own}"


def escape_json(value: object) -> str:
    r"""JSON that can stand inside a `<script>` element.

    >>> escape_json("</script><!--")
    '"\\u003c/script\\u003e\\u003c!--"'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Usage:
    """How often each tokenizer uses each of its tokens: as an evaluation counted, or else in the texts of the page.

    Args:
        tokenizers: by name.
        texts: by name, the documents.
        facts: by tokenizer, what an evaluation found; empty without one.
        results: the evaluation's results of each tokenizer, with their `counts`; empty without one.

    Attributes:
        counts: by tokenizer, how often each id occurs; int64, as long as the vocabulary's largest id needs.
        totals: by text and tokenizer, the number of tokens.
        sizes: by text, the number of bytes.

    """

    def __init__(
        self,
        tokenizers: Mapping[str, Subject],
        texts: Mapping[str, list[bytes]],
        facts: Mapping[str, Facts],
        results: Sequence[Any],
    ) -> None:
        self.sizes = {name: sum(map(len, documents)) for name, documents in texts.items()}
        self.counts = {name: np.zeros(each.limit, dtype=np.int64) for name, each in tokenizers.items()}
        self.totals: dict[str, dict[str, int]] = {text: {} for text in texts}
        known = {text: [_find_corpus(each, text, len(texts)) for each in facts.values()] for text in texts}
        for (name, each), result in zip(tokenizers.items(), results, strict=False):
            counted = result.counts[: each.limit]
            self.counts[name][: len(counted)] = counted
        for (name, each), (text, documents) in product(tokenizers.items(), texts.items()):
            if facts and all(known[text]):
                found = _find_corpus(facts[name], text, len(texts))
                self.totals[text][name], self.sizes[text] = found["tokens"], found["bytes"]
                if results:
                    continue
            counts, self.totals[text][name] = each.counts(documents)
            if not results:
                self.counts[name] += counts

    def facts(self) -> dict[str, Any]:
        """Tokens and bytes per token, in the form of an evaluation."""
        found = {}
        for name in self.counts:
            corpora = {
                text: self._ratio(self.sizes[text], totals[name])
                for text, totals in self.totals.items()
                if self.sizes[text]
            }
            whole = self._ratio(sum(self.sizes.values()), sum(each[name] for each in self.totals.values()))
            found[name] = {**whole, "corpora": corpora}
        return found

    @staticmethod
    def _ratio(size: int, tokens: int) -> dict[str, Any]:
        ratio = {"bytes_per_token": size / tokens} if tokens else {}
        return {"tokens": tokens, "bytes": size, **ratio}


def _find_corpus(facts: Facts, text: str, n_texts: int) -> Facts:
    """What an evaluation found for a text: its corpus of that name, or of one text, its only corpus without a name."""
    found: Facts = facts.get("corpora", {}).get(text, {}) if n_texts != 1 or "corpora" in facts else facts
    return found


def _name_texts(texts: Texts) -> dict[str, list[bytes]]:
    """Each text's or corpus's documents as bytes, by name."""
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        return {"text": [bytes(to_bytes(texts))]}
    if isinstance(texts, Mapping):
        return {str(name) or "text": _documents(each) for name, each in texts.items()}
    several = list(texts)
    return {f"text {i}" if len(several) > 1 else "text": _documents(each) for i, each in enumerate(several, 1)}


def _documents(value: TextLike | Iterable[TextLike]) -> list[bytes]:
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return [bytes(to_bytes(value))]
    if not isinstance(value, Iterable):
        raise TypeError(f"a text is {describe(value)}; it must be str, bytes or a list of them")
    return [bytes(to_bytes(each)) for each in value]


def _overview(tokenizers: Mapping[str, Subject]) -> Html:
    rows = [[Heading(name), each.kind, each.vocab_size, *_settings(each)] for name, each in tokenizers.items()]
    head = ["tokenizer", "model", "tokens", "merges", "pretokenizer", "fingerprint"]
    others = [name for name, each in tokenizers.items() if each.native is None]
    said = (
        f"Of {', '.join(others)}, this page knows tokens and ids only, since another package encodes with it: merges, "
        "compression by vocabulary size, training and settings are left out. bpe.Tokenizer.load reads most packages' "
        "files."
    )
    return Html(scroll("the tokenizers", table(head, rows)) + (note(said) if others else ""))


def _settings(tokenizer: Subject) -> list[str | int]:
    """The number of merges, the pretokenizer and the fingerprint."""
    own = tokenizer.native
    if own is None:
        return ["not known", "not known", "not known"]
    pretokenizer = "none" if own.pretokenizer is None else own.pretokenizer.name or "own pattern"
    return [len(own.merges), pretokenizer, own.fingerprint[:12]]


def _verdicts(
    facts: Mapping[str, Any], scripts: Mapping[str, Mapping[str, int]], corpora: Mapping[str, list[bytes]]
) -> Html:
    """Which tokenizer needs fewer tokens, by how much; and how many tokens each has for the script of each corpus."""
    items = [f"<li>{to_html(said)}</li>" for said in measures.write_verdicts(facts)]
    for corpus, documents in corpora.items() if len(scripts) > 1 else ():
        sample = b" ".join(documents[:20])[:20_000].decode("utf-8", "ignore")
        script = vocabularies.find_script(sample)
        if script in next(iter(scripts.values())):
            have = ", ".join(f"{name} has {each[script]:,}" for name, each in scripts.items())
            items.append(f"<li>{to_html(f'{corpus}: mostly {script}. Tokens with such letters: {have}.')}</li>")
    return Html(f"<ul>{''.join(items)}</ul>" if items else "")


def _draw_texts(panels: Panels, corpora: Mapping[str, list[bytes]], usage: Usage) -> Iterable[str]:
    most = _DRAWN_IN_ALL // max(1, len(corpora) * len(usage.counts))
    most = max(_LEAST_DRAWN, min(_MOST_DRAWN, most))
    if corpora:
        yield note(
            "Each background is a token. Point at one, tap it, or move through them with Tab and the arrow keys for "
            "its id, bytes, rank and merges. Bytes in hexadecimal are of a character that several tokens share; a "
            "dotted line is under a part of a cluster of characters; labels in a box are hidden characters."
        )
    for name, documents in corpora.items():
        yield f"<h3>{to_html(name)}</h3>"
        yield panels.of(documents, most=most, text=name, totals=usage.totals[name], n_bytes=usage.sizes[name])


def _charts(tokenizers: Mapping[str, Subject], usage: Usage, corpora: Mapping[str, list[bytes]]) -> Html:
    figures = []
    ordered = {name: np.sort(counts[counts > 0])[::-1] for name, counts in usage.counts.items()}
    if any(len(each) for each in ordered.values()):
        ranks = {
            name: [(rank, int(each[rank - 1])) for rank in pick_ranks(len(each))] for name, each in ordered.items()
        }
        labels = ("rank by frequency", "occurrences in the texts")
        figures.append(line_chart("Frequency by rank", ranks, labels, log_x=True, log_y=True))
    figures.append(vocabularies.draw_lengths(tokenizers))
    own = {name: each.native for name, each in tokenizers.items() if each.native is not None}
    share = _MEASURED // max(1, len(corpora))
    sample = b"\n".join(cut_beginning(b"\n".join(_first(documents, share)), share) for documents in corpora.values())
    if sample.strip() and own:
        sizes = {name: measure_compression(each, sample) for name, each in own.items()}
        title = "Compression by vocabulary size, by truncation"
        figures.append(line_chart(title, sizes, ("vocabulary size", "bytes per token"), log_x=True))
    curves = {
        name: [(merges, ratio) for merges, _, ratio in each.spec.training.curve]
        for name, each in own.items()
        if each.spec.training is not None and each.spec.training.curve
    }
    if curves:
        figures.append(line_chart("Training", curves, ("merges", "bytes per token of the corpus"), log_x=True))
    return columns(*(figure for figure in figures if figure))


def _first(documents: Iterable[bytes], most: int) -> list[bytes]:
    """The first documents, until they have `most` bytes."""
    found, size = [], 0
    for document in documents:
        found.append(document[: most + 4])
        size += len(document)
        if size >= most:
            break
    return found


def _nav(sections: Sequence[str]) -> str:
    """Links to the sections that are there."""
    links = []
    for each in filter(None, sections):
        name = each.split('"', 2)[1]
        title = each.split("<h2>", 1)[1].split("</h2>", 1)[0]
        links.append(f'<li><a href="#{name}">{title}</a></li>')
    return f'<nav aria-label="Sections"><ul>{"".join(links)}</ul></nav>'


@cache
def _resource(name: str) -> str:
    return (resources.files("bpe.report") / name).read_text(encoding="utf-8")
