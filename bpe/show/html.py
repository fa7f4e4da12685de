"""Tokens, cards, tables, sections and boxes as HTML, for notebooks and for the report. Pure functions of plain data.

Every string is escaped; no function takes HTML from outside this package. A token is a `<span>` with a background of
one of six colours; its pieces (`pieces.py`) that are not plain text are `<span>`s inside it, of the classes `x` (bytes
in hexadecimal), `b` and `p` (the base and another part of a grapheme cluster) and `k` (a label of a hidden
character). Spans have no padding, so that the letters of Arabic join across tokens.

The report's page: `bpe/report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from bpe.show.pieces import Piece, show_hidden, split_pieces

N_COLOURS = 6
#: The most bytes of a token that its title and tables spell in hexadecimal.
_MAX_HEX_BYTES = 32
_CLASSES = {"base": "b", "part": "p", "bytes": "x", "hidden": "k"}

#: For notebooks, whose theme is unknown: every background has its own text colour, black on a light colour. Cells of
#: tables name their class twice, to take precedence over Jupyter's rule that aligns all of them to the right.
STYLE = """
.bpe-tokens{white-space:break-spaces;unicode-bidi:plaintext;overflow-wrap:anywhere;line-height:1.9;font-size:1rem}
.bpe-tokens>span{color:#000;border-radius:2px;padding-block:1px}
.bpe-tokens>.c0{background:#afd7ff}.bpe-tokens>.c1{background:#ffd7af}.bpe-tokens>.c2{background:#afffaf}
.bpe-tokens>.c3{background:#ffafd7}.bpe-tokens>.c4{background:#ffffaf}.bpe-tokens>.c5{background:#d7d7ff}
.bpe-tokens .s{outline:2px solid #333;outline-offset:-2px}
.bpe-tokens .p,.bpe-tokens .x,.bpe-tokens .k{display:inline-block;unicode-bidi:isolate}
.bpe-tokens .x,.bpe-tokens .k{font:.75em/1.3 ui-monospace,monospace;color:#333;border:1px dotted #555;padding:0 2px;
margin:0 1px}
.bpe-card table{border-collapse:collapse;margin:.3em 0}
.bpe-card.bpe-card :is(th,td){text-align:start;padding:.1em .8em .1em 0;vertical-align:top;background:none}
.bpe-card.bpe-card td.n{text-align:end;font-variant-numeric:tabular-nums}
.bpe-card{border:1px solid #8888;border-radius:6px;padding:.5em .9em;max-width:60em;overflow:auto}
.bpe-card .bpe-tokens{line-height:1.6}
""".strip()


class DrawnToken(NamedTuple):
    """A token of a text, to be drawn.

    Attributes:
        data: its bytes.
        id: its id; None for a symbol that has none.
        rank: the rank of the best merge that makes it; None if no merge does.
        special: whether it is a special token.

    """

    data: bytes
    id: int | None = None
    rank: int | None = None
    special: bool = False


def to_html(text: str) -> str:
    """Write a name or a message as HTML: escaped, and with labels for hidden characters.

    >>> to_html("<b>\\u202e")
    '&lt;b&gt;U+202E'
    """
    return escape(show_hidden(text))


def add_style(body: str) -> str:
    """Add the style that HTML in a notebook needs."""
    return f"<style>{STYLE}</style>{body}"


def format_tokens(tokens: Sequence[DrawnToken], *, with_ids: bool = False) -> str:
    """Format the consecutive tokens of a text as spans, without a container.

    Each has a title with its id, bytes and rank, which a browser shows under the pointer.

    Args:
        tokens: the tokens.
        with_ids: give each its id as `data-i`, for the report's script.

    >>> print(format_tokens([DrawnToken(b"<b>", 3, 0)]))
    <span class="c0" title="id 3 · 3 bytes: 3c 62 3e · rank 0">&lt;b&gt;</span>
    """
    spans = []
    for i, (token, pieces) in enumerate(zip(tokens, split_pieces([token.data for token in tokens]), strict=True)):
        mark = f"c{i % N_COLOURS}{' s' * token.special}{' u' * (token.id is None)}"
        mark_id = f' data-i="{token.id}"' if with_ids and token.id is not None else ""
        title = escape(describe_token(token, pieces))
        spans.append(f'<span class="{mark}" title="{title}"{mark_id}>{"".join(map(format_piece, pieces))}</span>')
    return "".join(spans)


def format_piece(piece: Piece) -> str:
    """Format a piece of a token."""
    text = escape(piece.text)
    if piece.kind == "text":
        return text
    return f'<span class="{_CLASSES[piece.kind]}">{text}</span>' + "\n" * piece.breaks


def describe_token(token: DrawnToken, pieces: Sequence[Piece] = ()) -> str:
    """Describe a token's id, bytes and rank on one line, and the characters that it has parts of.

    >>> describe_token(DrawnToken(b" the", 262, 6))
    'id 262 · 4 bytes: 20 74 68 65 · rank 6'
    """
    n = len(token.data)
    details = ["no id" if token.id is None else f"id {token.id}", f"{n} byte{'s' * (n != 1)}: {to_hex(token.data)}"]
    if token.special:
        details.append("special token")
    elif token.rank is not None:
        details.append(f"rank {token.rank}")
    shared_characters = list(dict.fromkeys(piece.cluster for piece in pieces if piece.cluster))
    if shared_characters:
        details.append("part of " + " ".join(shared_characters[:4]))
    return " · ".join(details)


def to_hex(data: bytes) -> str:
    """Write bytes in hexadecimal; of many, the first 32.

    >>> to_hex("한".encode())
    'ed 95 9c'
    """
    return data[:_MAX_HEX_BYTES].hex(" ") + " …" * (len(data) > _MAX_HEX_BYTES)


def make_token_box(tokens: Sequence[DrawnToken], *, label: str = "") -> str:
    """Format the tokens of a text in a container of their own."""
    label_attributes = f' role="group" aria-label="{to_html(label)}"' if label else ""
    return f'<div class="bpe-tokens" dir="auto"{label_attributes}>{format_tokens(tokens)}</div>'


def format_separately(*tokens: bytes) -> str:
    """Format tokens that do not follow one another in a text, such as the longest ones, each by itself."""
    spans = []
    for i, token in enumerate(tokens):
        pieces = "".join(map(format_piece, split_pieces([token])[0])).replace("\n", "")
        spans.append(f'<span class="c{i % N_COLOURS}">{pieces}</span>')
    return f'<span class="bpe-tokens">{" ".join(spans)}</span>'


def make_table(head: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "") -> str:
    """Make a table; numbers are aligned, and an `Html` is taken as it is.

    >>> make_table(["id", "token"], [[3, "<"]])
    '<table><thead><tr><th scope="col">id</th><th scope="col">token</th></tr></thead><tbody><tr><td class="n">3</td><td>&lt;</td></tr></tbody></table>'
    """  # noqa: E501
    title = f"<caption>{to_html(caption)}</caption>" if caption else ""
    head_cells = "".join(f'<th scope="col">{to_html(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>{title}<thead><tr>{head_cells}</tr></thead><tbody>{body}</tbody></table>"


class Html(str):
    """A string of HTML that this package made, with everything from outside escaped."""

    __slots__ = ()


class Heading(str):
    """The name of a table's row, not yet escaped."""

    __slots__ = ()


def _cell(value: object) -> str:
    if isinstance(value, Html):
        return f"<td>{value}</td>"
    if isinstance(value, Heading):
        return f'<th scope="row">{to_html(value)}</th>'
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'<td class="n">{format_number(value)}</td>'
    return f"<td>{'' if value is None else to_html(str(value))}</td>"


def format_number(value: float) -> str:
    """Format a number for people: an integer with commas, any other with four significant digits.

    >>> [format_number(value) for value in (1234567, 3.14159, 12345.6, 0.00012345, float("nan"))]
    ['1,234,567', '3.142', '12,346', '0.0001234', 'none']
    """
    if isinstance(value, int):
        return f"{value:,}"
    if value != value:
        return "none"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def make_card(title: str, properties: Mapping[str, object], more: str = "") -> str:
    """Make a box with a title and a table of facts; `more` is HTML after the table."""
    values = {name: f"{value:,}" if isinstance(value, int) else value for name, value in properties.items()}
    rows = "".join(f"<tr>{_cell(Heading(name))}{_cell(value)}</tr>" for name, value in values.items())
    return add_style(f'<div class="bpe-card"><strong>{to_html(title)}</strong><table>{rows}</table>{more}</div>')


def make_token_table(tokens: Sequence[DrawnToken]) -> str:
    """List the tokens of a text in a table, for reading without a pointer and without colours."""
    rows = (
        [
            i,
            Html(format_separately(token.data)),
            "none" if token.id is None else token.id,
            to_hex(token.data),
            token.rank,
        ]
        for i, token in enumerate(tokens)
    )
    return make_table(["no.", "token", "id", "bytes", "rank"], rows)


def make_section(name: str, title: str, body: str) -> Html:
    """Make a section of a page with its heading."""
    return Html(f'<section id="{name}"><h2>{to_html(title)}</h2>{body}</section>')


def make_scroll_box(label: str, content: str, *, only_sideways: bool = False) -> Html:
    """Put content into a box that scrolls, also with the keyboard; `only_sideways` leaves the box as high."""
    css_class = "scroll whole" if only_sideways else "scroll"
    return Html(f'<div class="{css_class}" tabindex="0" role="group" aria-label="{to_html(label)}">{content}</div>')


def make_panel(title: str, *body: str) -> Html:
    """Make a box with a heading, for `make_columns`."""
    return Html(f'<div class="panel"><h3>{to_html(title)}</h3>{"".join(body)}</div>')


def make_columns(*panels: str) -> Html:
    """Put panels side by side, below each other on a phone."""
    return Html(f'<div class="columns">{"".join(panels)}</div>')


def make_note(text: str) -> Html:
    """Make a paragraph of explanation."""
    return Html(f'<p class="note">{to_html(text)}</p>')
