"""Which tokens of a tokenizer are unreachable: encoding never produces them.

Encoding is above this room, so the caller passes it in. Not here: taking tokens away (`pruning.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bpe.vocab.spec import TokenizerSpec, has_text_marks
from bpe.vocab.symbols import symbol_tables, unk_id
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, SPECIAL


class PieceEncoder(Protocol):
    """What encodes single pretokens, as `bpe.encode.engine.Engine` does."""

    def piece_ids(self, piece: bytes) -> list[int]:
        """The ids of a pretoken."""
        ...


#: Makes what encodes with a tokenizer.
MakeEncoder = Callable[[TokenizerSpec], PieceEncoder]


def unreachable(spec: TokenizerSpec, make_encoder: MakeEncoder) -> NDArray[np.int64]:
    """The ids that no pretoken gives, ascending.

    A token stands in the ids of some pretoken just if merging its own symbols gives it alone, and, where words have an
    end-of-word mark, some token may stand behind it, and so on to the end of a word: whether merges cross the border
    of two tokens depends on these two alone.
    """
    return np.array(_Reach(spec, make_encoder).unreachable(), dtype=np.int64)


class _Reach:
    """Which tokens of a tokenizer stand in the ids of some pretoken."""

    def __init__(self, spec: TokenizerSpec, make_encoder: MakeEncoder) -> None:
        self.spec = spec
        self.encoder = make_encoder(spec)
        # The same merges on the symbols within a word, where no mark is.
        self.within = make_encoder(replace(spec, end_of_word=None, end_of_word_glued=False, ends_word=None))
        self.both = has_text_marks(spec)  # a token that ends words may be made of text within one
        self.mark = b"" if spec.end_of_word is None else spec.end_of_word.encode()
        self.inner, self.last, self.mark_id = symbol_tables(spec)
        self.unknown = spec.unk_token is not None and self._some_symbol_is_unknown()

    def unreachable(self) -> list[int]:
        """The tokens that stand in none, ascending."""
        vocabulary, ends = self.spec.vocabulary, self.spec.ends_word
        named = set(self.spec.special_tokens.values())
        if self.unknown:
            named.add(unk_id(self.spec))
        lost = [number for number, _ in vocabulary.items(SPECIAL) if number not in named]
        ending: list[tuple[int, bytes]] = []
        inside: list[tuple[int, bytes]] = []
        for number, token in vocabulary.items(ORDINARY):
            ends_words = not self.mark or (ends is not None and bool(ends[number]))
            (ending if ends_words else inside).append((number, token))
            if ends_words and self.both:
                inside.append((number, token))
        closing = [each for each in ending if self._stands_last(*each)]
        standing = [each for each in inside if self.within.piece_ids(each[1]) == [each[0]]]
        followed = self._followed(standing, sorted(closing, key=lambda each: len(each[1])))
        found = {number for number, _ in closing} | followed
        return sorted([*lost, *({number for number, _ in (*ending, *inside)} - found)])

    def _some_symbol_is_unknown(self) -> bool:
        if self.spec.model == "char":
            return True  # no alphabet has all of Unicode
        return bool((self.inner == NO_TOKEN).any() or (self.last == NO_TOKEN).any())

    def _stands_last(self, number: int, token: bytes) -> bool:
        """Whether a token ends some word: one that it is the whole of, or that has one token before a mark."""
        if number != self.mark_id:
            return self.encoder.piece_ids(token[: len(token) - len(self.mark)]) == [number]
        return self.unknown or any(
            self.encoder.piece_ids(before) == [other, number] for other, before in self.spec.vocabulary.items(ORDINARY)
        )

    def _followed(self, tokens: list[tuple[int, bytes]], closing: list[tuple[int, bytes]]) -> set[int]:
        """Of tokens within a word, those that others can stand behind up to the end of the word."""
        if self.unknown:
            return {number for number, _ in tokens}  # a symbol that takes part in no merge can
        found: set[int] = set()
        new, waiting = closing, tokens
        between = False
        while new and waiting:
            new = [each for each in waiting if any(self._side_by_side(*each, *other, between) for other in new)]
            found |= {number for number, _ in new}
            waiting = [each for each in waiting if each[0] not in found]
            between = True
        return found

    def _side_by_side(self, left: int, before: bytes, right: int, behind: bytes, between: bool) -> bool:
        """Whether no merge crosses the border of two tokens, the second at the end of a word or not."""
        if between:
            return self.within.piece_ids(before + behind) == [left, right]
        return self.encoder.piece_ids(before + behind[: len(behind) - len(self.mark)]) == [left, right]
