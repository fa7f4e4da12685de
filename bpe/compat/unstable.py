"""Finds what the last tokens of a text may become: tiktoken's `encode_with_unstable` and `_encode_bytes`.

The tokens of the last word are unstable, because more text may be merged with them. (Several words of white space at
the end are unstable together: patterns such as `\\s*[\\r\\n]` may join these words.) For each position in the unstable
bytes, every token that begins with the bytes from there on is tried as the one that crosses the end of the text.

The rules, with their imperfections, are those of tiktoken's `_encode_unstable_native`. Cost: one encoding for each such
token, of which cl100k has 45,000 where the text ends with a space.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import cached_property
from bpe.base.utf8 import find_utf8_error
from bpe.batch import TokenBatch
from bpe.encode.engine import Engine
from bpe.vocab.special_tokens import SPACES
from bpe.vocab.vocabulary import NO_TOKEN

#: The bytes of tokens that count as white space.
_BLANK_BYTES = b" \n\t"


class Completer:
    """Encodes with unstable tokens, for one tokenizer. Immutable.

    Args:
        engine: the engine of the tokenizer.
        lengths: the length of each token in bytes, by id.
        is_ordinary: whether an id is a token that is not special, by id.
        tokens: the tokens that are not special, in ascending order.

    """

    def __init__(
        self, engine: Engine, lengths: NDArray[np.uint32], is_ordinary: NDArray[np.bool_], tokens: list[bytes]
    ) -> None:
        self._engine = engine
        self._lengths = lengths
        self._is_ordinary = is_ordinary
        self._tokens = tokens

    def encode_piece(self, data: bytes) -> list[int]:
        """Encode bytes that are not split into words."""
        ids = self._engine.encode_pretoken(data)
        if NO_TOKEN in ids:
            self._engine.raise_for_unknown(data)
        return ids

    @cached_property
    def _merging_engine(self) -> Engine:
        """An engine for bytes that are not split into words, which does not look the bytes up as a token."""
        spec = replace(self._engine.spec, pretokenizer=None, ignore_merges=False, unmerged=None)
        return Engine(spec, cache_memory=0)

    def encode_bytes(self, data: bytes) -> list[int]:
        """Encode bytes. From the last word before the first byte that is not UTF-8, all is merged as one piece."""
        try:
            data.decode()
        except UnicodeDecodeError as error:
            stable_ids, unstable_bytes = self._split_off_unstable(data[: error.start], frozenset())
            return stable_ids + self.encode_piece(unstable_bytes + data[error.start :])
        ids: list[int] = self._engine.encode(data).tolist()
        return ids

    def encode_with_completions(self, text: bytes, allowed: frozenset[str]) -> tuple[list[int], list[list[int]]]:
        """Encode a text to stable ids, and the sequences of ids that may follow them, in ascending order."""
        ids, unstable_bytes = self._split_off_unstable(text, allowed)
        if not unstable_bytes:
            return ids, []
        ids_by_token = self._engine.spec.vocabulary.id_of_token
        completions: set[tuple[int, ...]] = {(ids_by_token[token],) for token in self._find_by_prefix(unstable_bytes)}
        valid_texts: list[bytes] = []
        invalid_texts: list[bytes] = []
        for position in range(1, len(unstable_bytes)):
            for token in self._find_by_prefix(unstable_bytes[position:]):
                text_after = unstable_bytes[:position] + token
                is_valid = text_after.isascii() or find_utf8_error(text_after) is None
                (valid_texts if is_valid else invalid_texts).append(text_after)
        completions |= self._truncate_ids(self._engine.encode_batch(valid_texts, 1), len(unstable_bytes))
        if invalid_texts:
            completions |= self._truncate_ids(self._merging_engine.encode_batch(invalid_texts, 1), len(unstable_bytes))
        last_char = _find_last_char(unstable_bytes)
        if last_char in SPACES and len(last_char) < len(unstable_bytes):
            parts = unstable_bytes[: -len(last_char)], last_char
            completions.add(tuple(np.concatenate(list(map(self._merging_engine.encode, parts))).tolist()))
        return ids, [list(completion) for completion in sorted(completions)]

    def _split_off_unstable(self, text: bytes, allowed: frozenset[str]) -> tuple[list[int], bytes]:
        """Split a text into its stable ids and the bytes of the others."""
        ids = self._engine.encode(text, allowed).tolist()
        *_, last_segment = [None, *self._engine.prepare(text, allowed)]
        if last_segment is None or last_segment.token_id is not None:
            return ids, b""  # no text, or a special token at its end
        pieces = last_segment.pretokens()
        if not pieces:
            return ids, b""  # the pattern matches nothing there
        n_unstable = len(self.encode_piece(pieces[-1]))
        if self._is_blank(ids[-n_unstable]):
            while n_unstable < len(ids) and self._is_blank(ids[-n_unstable - 1]):
                n_unstable += 1
        vocabulary = self._engine.spec.vocabulary
        return ids[:-n_unstable], b"".join(vocabulary[token_id] for token_id in ids[-n_unstable:])

    def _is_blank(self, token_id: int) -> bool:
        """Whether a token is not special and only white space."""
        return bool(self._is_ordinary[token_id]) and not self._engine.spec.vocabulary[token_id].strip(_BLANK_BYTES)

    def _find_by_prefix(self, prefix: bytes) -> list[bytes]:
        """Find the tokens that begin with these bytes."""
        stem = prefix.rstrip(b"\xff")
        end = bisect_left(self._tokens, stem[:-1] + bytes([stem[-1] + 1])) if stem else len(self._tokens)
        return self._tokens[bisect_left(self._tokens, prefix) : end]

    def _truncate_ids(self, batch: TokenBatch, n_bytes: int) -> set[tuple[int, ...]]:
        """Return the ids of each text, up to the token that reaches `n_bytes`."""
        ends = np.cumsum(self._lengths[batch.ids], dtype=np.int64)
        starts = np.concatenate(([0], ends))[batch.offsets[:-1]]  # of each text, in the bytes of all of them
        stops = np.minimum(np.searchsorted(ends, starts + n_bytes) + 1, batch.offsets[1:])
        ids = batch.ids.tolist()
        bounds = zip(batch.offsets[:-1].tolist(), stops.tolist(), strict=True)
        return {tuple(ids[start:end]) for start, end in bounds}


def _find_last_char(data: bytes) -> bytes:
    """Return the bytes of the last character; b"" where they are not UTF-8."""
    for size in range(1, min(4, len(data)) + 1):
        if find_utf8_error(data[-size:]) is None:
            return data[-size:]  # the shortest suffix that is UTF-8 is one character
    return b""
