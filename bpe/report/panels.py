"""A text in several tokenizers, side by side: a box of coloured tokens for each, and what the script needs.

Only the first part of a text is drawn; all of it is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bpe.errors import pluralize
from bpe.report.tokenizers import Details, ReportedTokenizer
from bpe.show.html import (
    DrawnToken,
    Html,
    format_number,
    format_separately,
    format_tokens,
    make_columns,
    make_note,
    make_scroll_box,
    make_table,
    make_token_table,
    to_hex,
    to_html,
)

#: The tokens that the table under a panel lists.
_MAX_LISTED_TOKENS = 200


def cut_beginning(text: bytes, max_bytes: int) -> bytes:
    """Cut a text to at most `max_bytes` bytes, at white space if there is some, else at a character.

    >>> cut_beginning(b"one two three", 9), cut_beginning("한국".encode(), 4).decode()
    (b'one two', '한')
    """
    if len(text) <= max_bytes:
        return text
    cut = max(text.rfind(b" ", max_bytes // 2, max_bytes + 1), text.rfind(b"\n", max_bytes // 2, max_bytes + 1))
    if cut < 0:
        cut = max_bytes
        while cut > max(0, max_bytes - 4) and text[cut] & 0xC0 == 0x80:
            cut -= 1
    return text[:cut]


class Panels:
    """Makes the panels of one page, and collects the details of all tokens that they show.

    Args:
        tokenizers_by_name: the tokenizers.

    """

    def __init__(self, tokenizers_by_name: Mapping[str, ReportedTokenizer]) -> None:
        self._tokenizers_by_name = tokenizers_by_name
        self._drawn_ids: dict[str, set[int]] = {name: set() for name in tokenizers_by_name}

    def draw(
        self,
        documents: Sequence[bytes],
        *,
        max_bytes: int,
        text_name: str = "",
        totals: Mapping[str, int] | None = None,
        n_bytes: int | None = None,
    ) -> Html:
        """Draw a panel for each tokenizer.

        Args:
            documents: the text, as documents that are encoded by themselves, or the beginning of it.
            max_bytes: how many bytes of the text to draw.
            text_name: the name of the text, where the page has several, for screen readers.
            totals: the number of tokens of the whole text in each tokenizer; None to count those of `documents`.
            n_bytes: the number of bytes of the whole text; None for those of `documents`.

        """
        size = sum(map(len, documents)) if n_bytes is None else n_bytes
        parts: list[bytes] = []
        for document in documents:
            remaining = max_bytes - sum(map(len, parts))
            if remaining <= 0:
                break
            parts.append(cut_beginning(document, remaining))
        panels = []
        for index, (name, tokenizer) in enumerate(self._tokenizers_by_name.items()):
            rows = [tokenizer.draw_text(part) for part in parts]
            drawn_size = sum(map(len, parts))
            if totals is not None:
                total = totals[name]
            else:
                total = sum(map(len, rows)) if drawn_size == size else tokenizer.count_tokens(documents)[1]
            panels.append(self._draw_panel(index, name, rows, text_name, total, size, drawn_size))
        return make_columns(*panels)

    def _draw_panel(
        self,
        index: int,
        name: str,
        rows: Sequence[Sequence[DrawnToken]],
        text_name: str,
        total: int,
        size: int,
        drawn_size: int,
    ) -> str:
        tokens = [token for row in rows for token in row]
        self._drawn_ids[name].update(token.id for token in tokens if token.id is not None)
        summary = f"{format_count(total, 'token')} · {format_count(size, 'byte')}"
        if total:
            summary += f" · {size / total:.3f} bytes per token"
        explanation = (
            f"The first {format_number(drawn_size)} of {format_number(size)} bytes are drawn; all are counted."
        )
        which_tokens = f"the first {_MAX_LISTED_TOKENS} tokens" if len(tokens) > _MAX_LISTED_TOKENS else "the tokens"
        label = f"{name}, {text_name}" if text_name else name
        table = make_token_table(tokens[:_MAX_LISTED_TOKENS])
        boxes = [format_tokens(row, with_ids=True) + "\n" * (not row[-1].data.endswith(b"\n")) for row in rows if row]
        return (
            f'<div class="panel"><h4>{to_html(name)}</h4>'
            f"{make_note(summary)}"
            f'<div class="bpe-tokens" dir="auto" tabindex="0" role="group" data-tokens="{index}" '
            f'aria-label="{to_html(label)}: the tokens">{"".join(boxes)}</div>'
            f"{make_note(explanation) if drawn_size < size else ''}"
            f"<details><summary>As a table: {which_tokens}</summary>"
            f"{make_scroll_box(f'{label}: table of tokens', table)}</details></div>"
        )

    def describe_tokens(self) -> dict[str, dict[str, Details]]:
        """Describe every token drawn, and their parts: spelling, rank and parts, by the tokenizer's index and by id."""
        ids_by_index = enumerate(self._drawn_ids.items())
        return {str(index): self._tokenizers_by_name[name].describe_tokens(ids) for index, (name, ids) in ids_by_index}


def format_count(value: int, noun: str) -> str:
    """Format a number with commas, and a noun.

    >>> format_count(1, "token"), format_count(12345, "byte")
    ('1 token', '12,345 bytes')
    """
    return pluralize(value, noun).replace(str(value), format_number(value), 1)


def draw_examples(tokenizer: ReportedTokenizer, ids: Iterable[int], counts: NDArray[np.int64]) -> Html:
    """Draw a table of tokens that do not follow one another, with how often each occurs: `counts`, by id."""
    rows = [
        [Html(format_separately(token.data)), token.id, to_hex(token.data), int(counts[token.id])]
        for token in tokenizer.draw_ids(ids)
    ]
    return Html(make_table(["token", "id", "bytes", "occurrences"], rows))
