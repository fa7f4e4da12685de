"""A tokenizer as the page needs it: this package's, or one of another package, of which less is known.

Of a tokenizer of another package the page shows tokens, ids and counts; its merges, settings and training are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import lock_of
from bpe.base.offsets import offsets_of
from bpe.base.spelling import spell
from bpe.drawing import draw_ids, draw_text
from bpe.evaluation.adapters import Adapter, SimpleTokenizer, adapt
from bpe.show.html import Token
from bpe.tokenizer import Tokenizer
from bpe.vocab.spec import describe_model
from bpe.vocab.vocabulary import ORDINARY

#: What `write_page` and the playground take: as `bpe.evaluate`, also tokenizers of other packages.
Tokenizers = Tokenizer | SimpleTokenizer | Sequence[Any] | Mapping[str, Any]
#: What the script knows of a token: its spelling, its rank, and the two tokens that its merge joins.
Details = list[Any]
#: The longest spelling of a token that the details show.
_LONGEST = 80


class Subject:
    """A tokenizer of this package.

    Attributes:
        own: the tokenizer; None for one of another package.
        kind: what it is, in a few words.
        limit: one more than the greatest id.
        vocab_size: the number of tokens.
        lengths: the length of each token in bytes, by id; 0 for no token.
        ordinary: the ids of the tokens that are not special.

    """

    own: Tokenizer | None
    kind: str
    limit: int
    vocab_size: int
    lengths: NDArray[np.int64]
    ordinary: NDArray[np.int64]

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.own = self._own = tokenizer
        self.kind = describe_model(tokenizer.spec)
        self.limit, self.vocab_size = tokenizer.n_vocab, tokenizer.vocab_size
        self.lengths = tokenizer.token_byte_lengths.astype(np.int64)
        self.ordinary = np.flatnonzero(tokenizer.spec.vocabulary.kinds == ORDINARY)

    def token(self, number: int) -> bytes:
        """The bytes of a token."""
        return self._own.spec.vocabulary[number]

    def rows(self, text: bytes) -> list[Token]:
        """The tokens of a text, to be drawn."""
        return draw_text(self._own, text)

    def drawn(self, ids: Iterable[int]) -> list[Token]:
        """Tokens by their ids, to be drawn."""
        return draw_ids(self._own, ids)

    def count(self, documents: Sequence[bytes]) -> int:
        """The number of tokens of documents."""
        return sum(map(self._own.count_tokens, documents))

    def counts(self, documents: list[bytes]) -> tuple[NDArray[np.int64], int]:
        """How often each id occurs in documents, and the number of tokens, with those that have no id."""
        try:
            ids = self._own.encode_batch(documents).ids
        except ValueError:  # symbols without an id
            return np.zeros(self.limit, np.int64), sum(len(self._own.tokens(each)) for each in documents)
        return np.bincount(ids, minlength=self.limit), len(ids)

    def details(self, ids: Iterable[int]) -> dict[str, Details]:
        """By id, what the script knows of tokens and of their parts."""
        tree = self._own._merge_tree
        numbers = sorted(tree.with_parts(ids))
        return {str(i): [_spell(self.token(i)), tree.rank(i), *(tree.parts(i) or ())] for i in numbers}


class OtherSubject(Subject):
    """A tokenizer of another package, through its adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self.own, self._adapter = None, adapter
        self._lock = lock_of(self)  # the playground answers in several threads
        given = type(adapter.tokenizer)
        self.kind = f"{given.__module__.partition('.')[0]}.{given.__name__}"
        self.limit, self.vocab_size = adapter.limit, adapter.vocab_size
        self.lengths = adapter.tokens.lengths
        self.ordinary = np.flatnonzero(adapter.tokens.known)

    def token(self, number: int) -> bytes:
        """The bytes of a token."""
        return self._adapter.tokens[number]

    def rows(self, text: bytes) -> list[Token]:
        """The tokens of a text: where they stand in it if that is known, else as the vocabulary has them."""
        with self._lock:
            ids, _, sizes = self._adapter.encode(text, np.zeros(1, np.int64), np.array([len(text)]))
        spans = sizes if len(sizes) else self.lengths[ids]
        if int(spans.sum()) != len(text):
            return self.drawn(ids.tolist())
        bounds = pairwise(accumulate(spans.tolist(), initial=0))
        return [self._token(text[a:b], number) for (a, b), number in zip(bounds, ids.tolist(), strict=True)]

    def drawn(self, ids: Iterable[int]) -> list[Token]:
        """Tokens by their ids, to be drawn."""
        return [self._token(self.token(number), number) for number in ids]

    def _token(self, data: bytes, number: int) -> Token:
        return Token(data, number, None, not self._adapter.tokens.known[number])

    def count(self, documents: Sequence[bytes]) -> int:
        """The number of tokens of documents."""
        return self.counts(list(documents))[1]

    def counts(self, documents: list[bytes]) -> tuple[NDArray[np.int64], int]:
        """How often each id occurs in documents, and the number of tokens."""
        bounds = offsets_of([len(each) for each in documents])
        with self._lock:
            ids = self._adapter.encode(b"".join(documents), bounds[:-1], bounds[1:])[0]
        return np.bincount(ids, minlength=self.limit), len(ids)

    def details(self, ids: Iterable[int]) -> dict[str, Details]:
        """By id, what the script knows of tokens."""
        return {str(number): [_spell(self.token(number)), None] for number in sorted(ids)}


def make_subject(tokenizer: Any) -> Subject:
    """A tokenizer of this or of another package as the page needs it.

    Raises:
        TypeError: for anything else.

    >>> import bpe
    >>> make_subject(bpe.train(texts=["low"], vocab_size=257)).vocab_size
    257
    """
    return Subject(tokenizer) if isinstance(tokenizer, Tokenizer) else OtherSubject(adapt(tokenizer))


def name_subjects(tokenizers: Tokenizers) -> dict[str, Subject]:
    """Tokenizers by distinct names.

    Raises:
        TypeError: for anything but tokenizers.
        ValueError: without a tokenizer.

    """
    if isinstance(tokenizers, Mapping):
        named = {str(name): each for name, each in tokenizers.items()}
    else:
        several = list(tokenizers) if isinstance(tokenizers, (list, tuple)) else [tokenizers]
        named = {f"tokenizer {i}" if len(several) > 1 else "tokenizer": each for i, each in enumerate(several, 1)}
    if not named:
        raise ValueError("there is no tokenizer; give at least one")
    return {name: make_subject(each) for name, each in named.items()}


def _spell(token: bytes) -> str:
    spelled = spell(token[: 2 * _LONGEST])
    return spelled if len(spelled) <= _LONGEST else spelled[: _LONGEST - 1] + "…"
