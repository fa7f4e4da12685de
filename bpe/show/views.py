"""What `Tokenizer.show` and `bpe.plots.show_merges` return: objects that a notebook or a terminal draws.

They hold plain data. `repr` of one is text for a terminal; `_repr_html_` is HTML for a notebook.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex

from bpe.errors import pluralize
from bpe.show.html import DrawnToken, add_style, make_token_box, make_token_table, to_html
from bpe.show.terminal import render, use_colour

#: The most tokens that the table under the coloured tokens lists.
_MAX_LISTED_TOKENS = 500


@dataclass(frozen=True, repr=False)
class TokenView:
    """The tokens of a text, drawn in colours.

    Attributes:
        tokens: those that are drawn, in order.
        n_tokens: the number of tokens of the whole text.
        n_bytes: the number of bytes of the whole text.

    """

    tokens: Sequence[DrawnToken]
    n_tokens: int
    n_bytes: int

    def __repr__(self) -> str:
        """Render the tokens on coloured backgrounds, or separated by `|` where stdout shows no colours (see `text`)."""
        return self.text(colour=use_colour(sys.stdout))

    def text(self, *, colour: bool) -> str:
        """Render the tokens as a str for a terminal.

        Args:
            colour: whether to draw coloured backgrounds; otherwise `|` separates tokens and a space is `·`.

        """
        text_of_tokens = render([token.data for token in self.tokens], colour=colour)
        return (
            text_of_tokens
            if self._n_undrawn == 0
            else f"{text_of_tokens}\n… and {pluralize(self._n_undrawn, 'more token')}"
        )

    def html(self) -> str:
        """Render the tokens as HTML, with a table of ids, bytes and ranks to unfold."""
        ratio = f", {self.n_bytes / self.n_tokens:.2f} bytes per token" if self.n_tokens else ""
        summary = f"{pluralize(self.n_tokens, 'token')}, {pluralize(self.n_bytes, 'byte')}{ratio}"
        note = f"<p>Only the first {pluralize(len(self.tokens), 'token')} are drawn.</p>" if self._n_undrawn else ""
        rows = make_token_table(self.tokens[:_MAX_LISTED_TOKENS])
        return add_style(
            f'<div class="bpe-card">{make_token_box(self.tokens, label="tokens")}{note}'
            f"<details><summary>{summary}</summary>{rows}</details></div>"
        )

    @property
    def _n_undrawn(self) -> int:
        return self.n_tokens - len(self.tokens)

    def _repr_html_(self) -> str:
        return self.html()


@dataclass(frozen=True, repr=False)
class MergeSteps:
    """A text after each merge of a tokenizer that changes it: in a notebook, a slider through the steps.

    Attributes:
        steps: (merge, tokens): what was merged, empty for the first step, and the text's tokens afterwards.

    """

    steps: Sequence[tuple[str, Sequence[DrawnToken]]]

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        """Render a header and one line for each step."""
        colour = use_colour(sys.stdout)
        width = max([len("merge"), *(len(merge) for merge, _ in self.steps)])
        lines = (
            f"{index:>4}  {merge:<{width}}  {render([token.data for token in tokens], colour=colour)}"
            for index, (merge, tokens) in enumerate(self.steps)
        )
        return "\n".join([f"step  {'merge':<{width}}  tokens", *lines])

    def html(self) -> str:
        """Render the steps as HTML, each with a radio button; the arrow keys move through them, without a script."""
        name = f"bpe-steps-{token_hex(4)}"  # several outputs share a page
        last_index = len(self.steps) - 1
        inputs, panels, rules = [], [], []
        for i, (merge, tokens) in enumerate(self.steps):
            checked_attribute = " checked" * (i == 0)
            step = f"step {i} of {last_index}"
            inputs.append(f'<input type="radio" name="{name}" id="{name}-{i}" aria-label="{step}"{checked_attribute}>')
            heading = f"{step}: {to_html(merge)}" if merge else f"{step}: before the first merge"
            panels.append(
                f'<div class="step n{i}"><p>{heading}; {pluralize(len(tokens), "token")}</p>'
                f"{make_token_box(tokens)}</div>"
            )
            rules.append(f".{name}>#{name}-{i}:checked~.n{i}")
        style = f".{name}>.step{{display:none}}{','.join(rules)}{{display:block}}"
        return add_style(
            f'<style>{style}</style><div class="bpe-card {name}" role="group" aria-label="merges, step by step">'
            f"{''.join(inputs)}{''.join(panels)}</div>"
        )

    def _repr_html_(self) -> str:
        return self.html()
