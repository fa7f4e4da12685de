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
from typing import Any, NamedTuple, Protocol

import numpy as np

from bpe._version import __version__
from bpe.base.atomic_files import atomic_write
from bpe.base.utf8 import TextLike, to_bytes
from bpe.corpus.blocks import PathLike
from bpe.errors import describe, pluralize
from bpe.plots import measure_compression
from bpe.report import measures, vocabularies
from bpe.report.charts import draw_line_chart, pick_ranks
from bpe.report.panels import Panels, cut_beginning
from bpe.report.tokenizers import ReportedTokenizer, Tokenizers, name_tokenizers
from bpe.show.html import Heading, Html, make_columns, make_note, make_scroll_box, make_section, make_table, to_html
from bpe.show.metrics import Metrics, group_by_tokenizer

Texts = TextLike | Sequence[TextLike] | Mapping[str, TextLike | Sequence[TextLike]]

#: The bytes of text that are drawn as tokens: of a text at most and at least, and of all texts in all tokenizers.
_MAX_DRAWN_BYTES, _MIN_DRAWN_BYTES, _MAX_PAGE_BYTES = 4000, 300, 40_000
#: The bytes of each text, of all texts together, that the curve of compression by vocabulary size is measured on.
_CURVE_BYTES = 200_000


class Section(NamedTuple):
    """A section of the page.

    Attributes:
        name: the id of its element.
        title: its heading.
        body: HTML under the heading.

    """

    name: str
    title: str
    body: str


class EvaluationLike(Protocol):
    """What a report needs of an `Evaluation`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics by name."""


def write_page(
    path: PathLike,
    tokenizers: Tokenizers,
    evaluation: EvaluationLike | Mapping[str, Any] | None = None,
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
        ValueError: without a tokenizer, or for an evaluation of others: another number, order or size.
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
    tokenizers: Tokenizers, evaluation: EvaluationLike | Mapping[str, Any] | None = None, texts: Texts = ()
) -> str:
    """Return the page of `write_page` as a str."""
    tokenizers_by_name = name_tokenizers(tokenizers)
    documents_by_text = _name_texts(texts)
    evaluation_json: Mapping[str, Any] = {}
    if evaluation is not None:
        if not isinstance(evaluation, Mapping) and not hasattr(evaluation, "to_dict"):
            raise TypeError(
                f"evaluation is {describe(evaluation)}; it must be what bpe.evaluate returns, or its to_dict()"
            )
        evaluation_json = evaluation if isinstance(evaluation, Mapping) else evaluation.to_dict()
    metrics_by_name = group_by_tokenizer(evaluation_json, list(tokenizers_by_name)) if evaluation_json else {}
    for name, metrics in metrics_by_name.items():
        size, evaluated_size = tokenizers_by_name[name].vocab_size, metrics.get("vocab_size")
        if evaluated_size not in (None, size):
            raise ValueError(
                f"{name} has {pluralize(size, 'token')}, and in the evaluation {evaluated_size}; give the tokenizers "
                "that were evaluated, in the same order"
            )
    usage = Usage(tokenizers_by_name, documents_by_text, metrics_by_name, getattr(evaluation, "results", ()))
    metrics_by_name = metrics_by_name or usage.to_metrics()
    panels = Panels(tokenizers_by_name)
    script_counts_by_name = {
        name: vocabularies.count_scripts(tokenizer) for name, tokenizer in tokenizers_by_name.items()
    }
    summary = (
        _draw_overview(tokenizers_by_name)
        + _draw_verdicts(metrics_by_name, script_counts_by_name, documents_by_text)
        + measures.draw_metrics(metrics_by_name)
    )
    vocabulary_charts = _draw_charts(tokenizers_by_name, usage, documents_by_text)
    extremes = vocabularies.draw_extremes(tokenizers_by_name, usage.counts)
    differences = vocabularies.compare_vocabularies(tokenizers_by_name, usage.counts)
    sections = [
        Section("summary", "Summary", summary),
        Section("corpora", "Corpora", measures.draw_corpora(metrics_by_name)),
        Section("texts", "The same text in each tokenizer", "".join(_draw_texts(panels, documents_by_text, usage))),
        Section("vocabularies", "Vocabularies", vocabulary_charts + vocabularies.format_scripts(script_counts_by_name)),
        Section("tokens", "The longest and the rarest tokens", extremes),
        Section("differences", "What differs", differences),
    ]
    sections = [section for section in sections if section.body]
    return fill_frame(
        f"Tokenizer report: {', '.join(tokenizers_by_name)}",
        "".join(make_section(*section) for section in sections),
        panels.describe_tokens(),
        nav=_link_sections(sections),
    )


def fill_frame(title: str, body: str, data: object, *, nav: str = "", connect: bool = False) -> str:
    """Fill the page's frame: head, style and script around a body of HTML.

    Args:
        title: the title.
        body: HTML.
        data: what the script needs to know, as JSON.
        nav: HTML under the title.
        connect: whether the script may ask the page's own server.

    """
    style, script = _read_resource("page.css"), _read_resource("page.js")
    values = {
        "policy": make_policy(connect=connect),
        "version": __version__,
        "title": to_html(title),
        "style": style,
        "script": script,
        "nav": nav,
        "body": body,
        "data": escape_json(data),
    }
    return Template(_read_resource("page.html")).substitute(values)


def make_policy(*, connect: bool = False) -> str:
    """Make the content security policy of the page: its own style and script, and nothing else."""
    style, script = (
        b64encode(hashlib.sha256(_read_resource(name).encode()).digest()).decode() for name in ("page.css", "page.js")
    )
    own_server = "connect-src 'self'; form-action 'self'" if connect else "form-action 'none'"
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; base-uri 'none'; {own_server}"
    )


def escape_json(value: object) -> str:
    r"""Write JSON that can stand inside a `<script>` element.

    >>> escape_json("</script><!--")
    '"\\u003c/script\\u003e\\u003c!--"'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Usage:
    """How often each tokenizer uses each of its tokens: as an evaluation counted, or else in the texts of the page.

    Args:
        tokenizers_by_name: the tokenizers.
        documents_by_text: the documents of each text.
        metrics_by_name: what an evaluation found of each tokenizer; empty without one.
        results: the evaluation's results of each tokenizer, with their `counts`; empty without one.

    Attributes:
        counts: by tokenizer, how often each id occurs; int64, as long as the vocabulary's largest id needs.
        totals: by text and tokenizer, the number of tokens.
        sizes: by text, the number of bytes.

    """

    def __init__(
        self,
        tokenizers_by_name: Mapping[str, ReportedTokenizer],
        documents_by_text: Mapping[str, list[bytes]],
        metrics_by_name: Mapping[str, Metrics],
        results: Sequence[Any],
    ) -> None:
        self.sizes = {text_name: sum(map(len, documents)) for text_name, documents in documents_by_text.items()}
        self.counts = {
            name: np.zeros(tokenizer.limit, dtype=np.int64) for name, tokenizer in tokenizers_by_name.items()
        }
        self.totals: dict[str, dict[str, int]] = {text_name: {} for text_name in documents_by_text}
        n_texts = len(documents_by_text)
        corpora_by_text = {
            text_name: [_find_corpus(metrics, text_name, n_texts) for metrics in metrics_by_name.values()]
            for text_name in documents_by_text
        }
        for (name, tokenizer), result in zip(tokenizers_by_name.items(), results, strict=False):
            result_counts = result.counts[: tokenizer.limit]
            self.counts[name][: len(result_counts)] = result_counts
        for (name, tokenizer), (text_name, documents) in product(tokenizers_by_name.items(), documents_by_text.items()):
            if metrics_by_name and all(corpora_by_text[text_name]):
                corpus_metrics = _find_corpus(metrics_by_name[name], text_name, n_texts)
                self.totals[text_name][name] = corpus_metrics["tokens"]
                self.sizes[text_name] = corpus_metrics["bytes"]
                if results:
                    continue
            counts, self.totals[text_name][name] = tokenizer.count_tokens(documents)
            if not results:
                self.counts[name] += counts

    def to_metrics(self) -> dict[str, Any]:
        """Return tokens and bytes per token, in the form of an evaluation."""
        metrics_by_name = {}
        for name in self.counts:
            corpora = {
                text_name: self._make_metrics(self.sizes[text_name], totals[name])
                for text_name, totals in self.totals.items()
                if self.sizes[text_name]
            }
            total = self._make_metrics(sum(self.sizes.values()), sum(totals[name] for totals in self.totals.values()))
            metrics_by_name[name] = {**total, "corpora": corpora}
        return metrics_by_name

    @staticmethod
    def _make_metrics(n_bytes: int, n_tokens: int) -> dict[str, Any]:
        ratio = {"bytes_per_token": n_bytes / n_tokens} if n_tokens else {}
        return {"tokens": n_tokens, "bytes": n_bytes, **ratio}


def _find_corpus(metrics: Metrics, text_name: str, n_texts: int) -> Metrics:
    """Find the corpus of an evaluation for a text: of the same name, or the only one, without a name, for one text."""
    corpus_metrics: Metrics = (
        metrics.get("corpora", {}).get(text_name, {}) if n_texts != 1 or "corpora" in metrics else metrics
    )
    return corpus_metrics


def _name_texts(texts: Texts) -> dict[str, list[bytes]]:
    """Name texts and corpora; their documents as bytes."""
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        return {"text": [bytes(to_bytes(texts))]}
    if isinstance(texts, Mapping):
        return {str(name) or "text": _encode_documents(text) for name, text in texts.items()}
    text_list = list(texts)
    return {
        f"text {i}" if len(text_list) > 1 else "text": _encode_documents(text) for i, text in enumerate(text_list, 1)
    }


def _encode_documents(value: TextLike | Iterable[TextLike]) -> list[bytes]:
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return [bytes(to_bytes(value))]
    if not isinstance(value, Iterable):
        raise TypeError(f"a text is {describe(value)}; it must be str, bytes or a list of them")
    return [bytes(to_bytes(text)) for text in value]


def _draw_overview(tokenizers_by_name: Mapping[str, ReportedTokenizer]) -> Html:
    rows = [
        [Heading(name), tokenizer.kind, tokenizer.vocab_size, *_list_settings(tokenizer)]
        for name, tokenizer in tokenizers_by_name.items()
    ]
    head = ["tokenizer", "model", "tokens", "merges", "pretokenizer", "fingerprint"]
    foreign_names = [name for name, tokenizer in tokenizers_by_name.items() if tokenizer.native is None]
    explanation = (
        f"Of {', '.join(foreign_names)}, this page knows tokens and ids only, since another package encodes with it: "
        "merges, compression by vocabulary size, training and settings are left out. bpe.Tokenizer.load reads most "
        "packages' files."
    )
    return Html(
        make_scroll_box("the tokenizers", make_table(head, rows)) + (make_note(explanation) if foreign_names else "")
    )


def _list_settings(tokenizer: ReportedTokenizer) -> list[str | int]:
    """List the number of merges, the pretokenizer and the fingerprint."""
    native = tokenizer.native
    if native is None:
        return ["not known", "not known", "not known"]
    pretokenizer = "none" if native.pretokenizer is None else native.pretokenizer.name or "own pattern"
    return [len(native.merges), pretokenizer, native.fingerprint[:12]]


def _draw_verdicts(
    metrics_by_name: Mapping[str, Metrics],
    script_counts_by_name: Mapping[str, Mapping[str, int]],
    documents_by_text: Mapping[str, list[bytes]],
) -> Html:
    """List which tokenizer needs fewer tokens, and how many tokens each has for the script of each text."""
    items = [f"<li>{to_html(sentence)}</li>" for sentence in measures.write_verdicts(metrics_by_name)]
    for text_name, documents in documents_by_text.items() if len(script_counts_by_name) > 1 else ():
        sample = b" ".join(documents[:20])[:20_000].decode("utf-8", "ignore")
        script = vocabularies.find_script(sample)
        if script in next(iter(script_counts_by_name.values())):
            have = ", ".join(
                f"{name} has {script_counts[script]:,}" for name, script_counts in script_counts_by_name.items()
            )
            items.append(f"<li>{to_html(f'{text_name}: mostly {script}. Tokens with such letters: {have}.')}</li>")
    return Html(f"<ul>{''.join(items)}</ul>" if items else "")


def _draw_texts(panels: Panels, documents_by_text: Mapping[str, list[bytes]], usage: Usage) -> Iterable[str]:
    max_bytes = _MAX_PAGE_BYTES // max(1, len(documents_by_text) * len(usage.counts))
    max_bytes = max(_MIN_DRAWN_BYTES, min(_MAX_DRAWN_BYTES, max_bytes))
    if documents_by_text:
        yield make_note(
            "Each background is a token. Point at one, tap it, or move through them with Tab and the arrow keys for "
            "its id, bytes, rank and merges. Bytes in hexadecimal are of a character that several tokens share; a "
            "dotted line is under a part of a cluster of characters; labels in a box are hidden characters."
        )
    for text_name, documents in documents_by_text.items():
        yield f"<h3>{to_html(text_name)}</h3>"
        yield panels.draw(
            documents,
            max_bytes=max_bytes,
            text_name=text_name,
            totals=usage.totals[text_name],
            n_bytes=usage.sizes[text_name],
        )


def _draw_charts(
    tokenizers_by_name: Mapping[str, ReportedTokenizer], usage: Usage, documents_by_text: Mapping[str, list[bytes]]
) -> Html:
    figures = []
    sorted_counts = {name: np.sort(counts[counts > 0])[::-1] for name, counts in usage.counts.items()}
    if any(len(sorted_counts_of_name) for sorted_counts_of_name in sorted_counts.values()):
        ranks = {
            name: [(rank, int(sorted_counts_of_name[rank - 1])) for rank in pick_ranks(len(sorted_counts_of_name))]
            for name, sorted_counts_of_name in sorted_counts.items()
        }
        labels = ("rank by frequency", "occurrences in the texts")
        figures.append(draw_line_chart("Frequency by rank", ranks, labels, log_x=True, log_y=True))
    figures.append(vocabularies.draw_lengths(tokenizers_by_name))
    native_tokenizers = {
        name: tokenizer.native for name, tokenizer in tokenizers_by_name.items() if tokenizer.native is not None
    }
    share = _CURVE_BYTES // max(1, len(documents_by_text))
    sample = b"\n".join(
        cut_beginning(b"\n".join(_take_documents(documents, share)), share) for documents in documents_by_text.values()
    )
    if sample.strip() and native_tokenizers:
        ratios_by_size = {name: measure_compression(tokenizer, sample) for name, tokenizer in native_tokenizers.items()}
        title = "Compression by vocabulary size, by truncation"
        figures.append(draw_line_chart(title, ratios_by_size, ("vocabulary size", "bytes per token"), log_x=True))
    curves = {
        name: [(merges, ratio) for merges, _, ratio in tokenizer.spec.training.curve]
        for name, tokenizer in native_tokenizers.items()
        if tokenizer.spec.training is not None and tokenizer.spec.training.curve
    }
    if curves:
        figures.append(draw_line_chart("Training", curves, ("merges", "bytes per token of the corpus"), log_x=True))
    return make_columns(*(figure for figure in figures if figure))


def _take_documents(documents: Iterable[bytes], max_bytes: int) -> list[bytes]:
    """Take documents from the first on, until they have `max_bytes` bytes."""
    first_documents, size = [], 0
    for document in documents:
        first_documents.append(document[: max_bytes + 4])
        size += len(document)
        if size >= max_bytes:
            break
    return first_documents


def _link_sections(sections: Iterable[Section]) -> str:
    links = "".join(f'<li><a href="#{name}">{to_html(title)}</a></li>' for name, title, _ in sections)
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


@cache
def _read_resource(name: str) -> str:
    return (resources.files("bpe.report") / name).read_text(encoding="utf-8")
