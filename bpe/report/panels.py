"""A text in several tokenizers, side by side: a box of coloured tokens for each, and what the script needs.

Only the first part of a text is drawn; all of it is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bpe.errors import pluralize
from bpe.report.subjects import Details, Subject
from bpe.show.html import (
    Html,
    Token,
    columns,
    format_tokens,
    list_tokens,
    note,
    number,
    scroll,
    separate,
    table,
    to_hex,
    to_html,
)

#: The tokens that the table under a panel lists.
_LISTED = 200


def cut_beginning(text: bytes, most: int) -> bytes:
    """At most `most` bytes from the beginning of a text, cut at white space if there is some, else at a character.

    >>> cut_beginning(b"one two three", 9), cut_beginning("한국".encode(), 4).decode()
    (b'one two', '한')
    """
    if len(text) <= most:
        return text
    cut = max(text.rfind(b" ", most // 2, most + 1), text.rfind(b"\n", most // 2, most + 1))
    if cut < 0:
        cut = most
        while cut > max(0, most - 4) and text[cut] & 0xC0 == 0x80:
            cut -= 1
    return text[:cut]


class Panels:
    """Makes the panels of one page, and collects the details of all tokens that they show.

    Args:
        tokenizers: by name.

    """

    def __init__(self, tokenizers: Mapping[str, Subject]) -> None:
        self._tokenizers = tokenizers
        self._seen: dict[str, set[int]] = {name: set() for name in tokenizers}

    def of(
        self,
        documents: Sequence[bytes],
        *,
        most: int,
        text: str = "",
        totals: Mapping[str, int] | None = None,
        n_bytes: int | None = None,
    ) -> Html:
        """A panel for each tokenizer.

        Args:
            documents: the text, as documents that are encoded by themselves, or the beginning of it.
            most: how many bytes of it to draw.
            text: its name, where the page has several, for screen readers.
            totals: the number of tokens of the whole text in each tokenizer; None to count those of `documents`.
            n_bytes: the number of bytes of the whole text; None for those of `documents`.

        """
        size = sum(map(len, documents)) if n_bytes is None else n_bytes
        parts: list[bytes] = []
        for document in documents:
            left = most - sum(map(len, parts))
            if left <= 0:
                break
            parts.append(cut_beginning(document, left))
        made = []
        for index, (name, tokenizer) in enumerate(self._tokenizers.items()):
            rows = [tokenizer.draw_text(part) for part in parts]
            drawn_size = sum(map(len, parts))
            if totals is not None:
                total = totals[name]
            else:
                total = sum(map(len, rows)) if drawn_size == size else tokenizer.counts(documents)[1]
            made.append(self._panel(index, name, rows, text, total, size, drawn_size))
        return columns(*made)

    def _panel(
        self, index: int, name: str, rows: Sequence[Sequence[Token]], text: str, total: int, size: int, drawn_size: int
    ) -> str:
        tokens = [token for row in rows for token in row]
        self._seen[name].update(token.id for token in tokens if token.id is not None)
        said = f"{plural(total, 'token')} · {plural(size, 'byte')}"
        if total:
            said += f" · {size / total:.3f} bytes per token"
        cut = f"The first {number(drawn_size)} of {number(size)} bytes are drawn; all are counted."
        listed = f"the first {_LISTED} tokens" if len(tokens) > _LISTED else "the tokens"
        label = f"{name}, {text}" if text else name
        boxes = [format_tokens(row, ids=True) + "\n" * (not row[-1].data.endswith(b"\n")) for row in rows if row]
        return (
            f'<div class="panel"><h4>{to_html(name)}</h4>'
            f"{note(said)}"
            f'<div class="bpe-tokens" dir="auto" tabindex="0" role="group" data-tokens="{index}" '
            f'aria-label="{to_html(label)}: the tokens">{"".join(boxes)}</div>{note(cut) if drawn_size < size else ""}'
            f"<details><summary>As a table: {listed}</summary>"
            f"{scroll(f'{label}: table of tokens', list_tokens(tokens[:_LISTED]))}</details></div>"
        )

    def details(self) -> dict[str, dict[str, Details]]:
        """By a tokenizer's number and by id: the spelling, rank and parts of every token shown, and of their parts."""
        seen = enumerate(self._seen.items())
        return {str(index): self._tokenizers[name].details(ids) for index, (name, ids) in seen}


def plural(value: int, noun: str) -> str:
    """A number with commas, and a noun.

    >>> plural(1, "token"), plural(12345, "byte")
    ('1 token', '12,345 bytes')
    """
    return pluralize(value, noun).replace(str(value), number(value), 1)


def examples(tokenizer: Subject, ids: Iterable[int], counts: NDArray[np.int64]) -> Html:
    """A table of tokens that do not follow one another, with how often each occurs: `counts`, by id."""
    rows = [
        [Html(separate(token.data)), token.id, to_hex(token.data), int(counts[token.id])]
        for token in tokenizer.draw_ids(ids)
    ]
    return Html(table(["token", "id", "bytes", "occurrences"], rows))
