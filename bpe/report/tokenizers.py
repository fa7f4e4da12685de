"""A tokenizer as the page needs it: of this package, or of another one, which shows less about itself.

Of a tokenizer of another package the page shows tokens, ids and counts; its merges, settings and training are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import make_lock
from bpe.base.offsets import compute_offsets
from bpe.base.spelling import spell
from bpe.drawing import draw_ids, draw_text
from bpe.evaluation.adapters import Adapter, NativeAdapter, SimpleTokenizer, adapt
from bpe.show.html import DrawnToken
from bpe.tokenizer import Tokenizer
from bpe.vocab.spec import describe_model

#: What `write_page` and the playground take: as `bpe.evaluate`, also tokenizers of other packages.
Tokenizers = Tokenizer | SimpleTokenizer | Sequence[Any] | Mapping[str, Any]
#: What the script knows of a token: its spelling, its rank, and the two tokens that its merge joins.
Details = list[Any]
#: The longest spelling of a token that the details show.
_MAX_SPELLING = 80


class ReportedTokenizer:
    """A tokenizer, through the adapter that an evaluation takes.

    Attributes:
        native: the tokenizer; None for one of another package.
        kind: what it is, in a few words.
        limit: one more than the greatest id.
        vocab_size: the number of tokens.
        lengths: the length of each token in bytes, by id; 0 for no token.
        ordinary_ids: the ids of the tokens that are not special.

    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._lock = make_lock(self)  # the playground answers in several threads
        self.native: Tokenizer | None = adapter.tokenizer if isinstance(adapter, NativeAdapter) else None
        tokenizer_type = type(adapter.tokenizer)
        module = tokenizer_type.__module__.partition(".")[0]
        self.kind = f"{module}.{tokenizer_type.__name__}" if self.native is None else describe_model(self.native.spec)
        self.limit, self.vocab_size = adapter.limit, adapter.vocab_size
        self.lengths = adapter.tokens.lengths
        self.ordinary_ids = np.flatnonzero(adapter.tokens.is_ordinary)

    def get_token(self, token_id: int) -> bytes:
        """Return the bytes of a token."""
        return self._adapter.tokens[token_id]

    def draw_text(self, text: bytes) -> list[DrawnToken]:
        """List the tokens of a text to draw: as parts of the text if their sizes fit it, else as in the vocabulary."""
        if self.native is not None:
            return draw_text(self.native, text)
        with self._lock:
            encoded = self._adapter.encode(text, np.zeros(1, np.int64), np.array([len(text)]))
        sizes, ids = encoded.measure_tokens(self._adapter), encoded.ids.tolist()
        if int(sizes.sum()) != len(text):
            return self.draw_ids(ids)
        bounds = pairwise(accumulate(sizes.tolist(), initial=0))
        return [self._make_token(text[a:b], token_id) for (a, b), token_id in zip(bounds, ids, strict=True)]

    def draw_ids(self, ids: Iterable[int]) -> list[DrawnToken]:
        """List tokens to draw by their ids."""
        if self.native is not None:
            return draw_ids(self.native, ids)
        return [self._make_token(self.get_token(token_id), token_id) for token_id in ids]

    def _make_token(self, data: bytes, token_id: int) -> DrawnToken:
        return DrawnToken(data, token_id, None, not self._adapter.tokens.is_ordinary[token_id])

    def count_tokens(self, documents: Sequence[bytes]) -> tuple[NDArray[np.int64], int]:
        """Count each id in documents, and all tokens, with those that have no id."""
        if self.native is not None:
            try:
                ids = self.native.encode_batch(documents).ids
            except ValueError:  # symbols without an id
                return np.zeros(self.limit, np.int64), sum(len(self.native.tokens(document)) for document in documents)
        else:
            bounds = compute_offsets([len(document) for document in documents])
            with self._lock:
                ids = self._adapter.encode(b"".join(documents), bounds[:-1], bounds[1:]).ids
        return np.bincount(ids, minlength=self.limit), len(ids)

    def describe_tokens(self, ids: Iterable[int]) -> dict[str, Details]:
        """Describe tokens for the page's script, by id; of a tokenizer of this package, their parts too."""
        if self.native is None:
            return {str(token_id): [_spell_shortened(self.get_token(token_id)), None] for token_id in sorted(ids)}
        tree = self.native._merge_tree
        with_parts = sorted(tree.collect_parts(ids))
        return {
            str(i): [_spell_shortened(self.get_token(i)), tree.find_rank(i), *(tree.find_parts(i) or ())]
            for i in with_parts
        }


def name_tokenizers(tokenizers: Tokenizers) -> dict[str, ReportedTokenizer]:
    """Tokenizers by distinct names.

    Raises:
        TypeError: for anything but tokenizers.
        ValueError: without a tokenizer.

    """
    if isinstance(tokenizers, Mapping):
        by_name = {str(name): tokenizer for name, tokenizer in tokenizers.items()}
    else:
        tokenizer_list = list(tokenizers) if isinstance(tokenizers, (list, tuple)) else [tokenizers]
        by_name = {
            f"tokenizer {i}" if len(tokenizer_list) > 1 else "tokenizer": tokenizer
            for i, tokenizer in enumerate(tokenizer_list, 1)
        }
    if not by_name:
        raise ValueError("there is no tokenizer; give at least one")
    return {name: ReportedTokenizer(adapt(tokenizer, name)) for name, tokenizer in by_name.items()}


def _spell_shortened(token: bytes) -> str:
    spelling = spell(token[: 2 * _MAX_SPELLING])
    return spelling if len(spelling) <= _MAX_SPELLING else spelling[: _MAX_SPELLING - 1] + "…"
