"""Tokens as people see them: the part of `Tokenizer` behind `show`, `show_merges` and a notebook's card."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from bpe.base.forks import cached_property
from bpe.base.utf8 import TextLike, to_bytes
from bpe.encode.text_encoder import TextEncoder, TextOptions
from bpe.errors import check_int, counted
from bpe.vocab.fingerprint import fingerprint
from bpe.vocab.merge_tree import MergeTree
from bpe.vocab.spec import described_merges, described_model
from bpe.vocab.special_tokens import Allowed
from bpe.vocab.vocabulary import NO_TOKEN, SPECIAL

if TYPE_CHECKING:
    from bpe.show.html import Token
    from bpe.show.views import MergeSteps, TokenView

#: The most bytes of a text that `show_merges` takes: its time is quadratic in the longest word.
LONGEST = 10_000
#: How many special tokens, and how many of the longest tokens, a notebook's card shows.
SHOWN = 10


class Drawing:
    """Draws what a tokenizer makes of texts. Immutable.

    Args:
        texts: the tokenizer's part that encodes.

    """

    def __init__(self, texts: TextEncoder) -> None:
        self._texts, self._spec = texts, texts.engine.spec

    @cached_property
    def merge_tree(self) -> MergeTree:
        """How each token is made."""
        return MergeTree(self._spec)

    def tokens(self, ids: Iterable[int]) -> list[Token]:
        """Tokens by their ids, to be drawn."""
        return self._drawn((self._spec.vocabulary[number], number) for number in ids)

    def tokens_of(self, text: TextLike, allowed_special: Allowed = ()) -> list[Token]:
        """The tokens of a text, to be drawn."""
        return self._drawn(self._rows(text, allowed_special))

    def show(self, text: TextLike, allowed_special: Allowed, max_tokens: int) -> TokenView:
        """Draw the first `max_tokens` tokens of a text."""
        from bpe.show.views import TokenView

        rows = self._rows(text, allowed_special)
        limit = check_int("max_tokens", max_tokens, 1)
        return TokenView(self._drawn(rows[:limit]), len(rows), len(to_bytes(text)))

    def show_merges(self, text: TextLike) -> MergeSteps:
        """Draw the merges of a short text, step by step."""
        from bpe.show.views import MergeSteps

        if (size := len(to_bytes(text))) > LONGEST:
            raise ValueError(f"the text has {counted(size, 'byte')}; show_merges takes at most {LONGEST}")
        return MergeSteps(
            [
                (merge, self._drawn((data, None if i == NO_TOKEN else i) for data, i in tokens))
                for merge, tokens in self._texts.merge_steps(text)
            ]
        )

    def card(self) -> str:
        """The tokenizer's facts in HTML."""
        from bpe.show.html import Html, card, separate

        spec, lengths = self._spec, self._spec.vocabulary.lengths
        longest = np.argsort(-lengths.astype(np.int64), kind="stable")[:SHOWN]
        names = [f"{name} ({number})" for name, number in spec.special_tokens.items()]
        more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
        facts = {
            "model": described_model(spec),
            "vocabulary": f"{len(spec.vocabulary):,} tokens",
            "merges": described_merges(spec),
            "special tokens": ", ".join(names[:SHOWN] + more) or "none",
            "pretokenizer": "none" if spec.pretokenizer is None else spec.pretokenizer.name or repr(spec.pretokenizer),
            "normalizer": "none" if spec.normalizer is None else repr(spec.normalizer),
            "longest tokens": Html(separate(*(spec.vocabulary[i] for i in longest.tolist() if lengths[i]))),
            "fingerprint": fingerprint(spec)[:12],
        }
        return card("bpe.Tokenizer", facts)

    def _rows(self, text: TextLike, allowed_special: Allowed) -> list[tuple[bytes, int | None]]:
        """The tokens of a text with their ids; None for a symbol without an id."""
        vocabulary = self._spec.vocabulary
        try:
            ids = self._texts.encode(text, TextOptions(allowed_special))
        except ValueError:  # a symbol without an id; `tokens` raises for anything else
            special = {token: number for number, token in vocabulary.items(SPECIAL)}
            tokens = map(to_bytes, self._texts.tokens(text, False, allowed_special, ()))
            return [(token, vocabulary.ids.get(token, special.get(token))) for token in tokens]
        return [(vocabulary[number], number) for number in ids.tolist()]

    def _drawn(self, rows: Iterable[tuple[bytes, int | None]]) -> list[Token]:
        """Tokens with their ids and ranks, to be drawn."""
        from bpe.show.html import Token

        kinds, rank = self._spec.vocabulary.kinds, self.merge_tree.rank
        return [Token(data) if i is None else Token(data, i, rank(i), bool(kinds[i] == SPECIAL)) for data, i in rows]
