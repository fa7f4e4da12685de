"""The parts that every section of the page is made of: sections, boxes that scroll, paragraphs."""

from __future__ import annotations

from bpe.show.html import Html, to_html


def section(name: str, title: str, *body: str) -> Html:
    """A section of the page with its heading; empty if it has no body."""
    content = "".join(body)
    return Html(f'<section id="{name}"><h2>{to_html(title)}</h2>{content}</section>' if content else "")


def scroll(label: str, content: str, *, whole: bool = False) -> Html:
    """Content in a box that scrolls, also with the keyboard; if it is `whole`, only sideways."""
    kind = "scroll whole" if whole else "scroll"
    return Html(f'<div class="{kind}" tabindex="0" role="group" aria-label="{to_html(label)}">{content}</div>')


def panel(title: str, *body: str) -> Html:
    """A box with a heading, beside others."""
    return Html(f'<div class="panel"><h3>{to_html(title)}</h3>{"".join(body)}</div>')


def columns(*panels: str) -> Html:
    """Panels side by side, below each other on a phone."""
    return Html(f'<div class="columns">{"".join(panels)}</div>')


def note(text: str) -> Html:
    """A paragraph of explanation."""
    return Html(f'<p class="note">{to_html(text)}</p>')
