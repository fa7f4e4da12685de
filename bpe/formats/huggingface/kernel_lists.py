"""The vocab and the merges of a tokenizer.json as the kernel reads them (`bpe/formats/_json_tokens.pyx`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import utf8_error
from bpe.formats import _json_tokens as jsontokens
from bpe.formats.huggingface.spelling import byte_by_letter, spelled_all
from bpe.formats.json_fields import load
from bpe.vocab.spec import Model
from bpe.vocab.vocabulary import Vocabulary, end_to_end


class UnusualError(Exception):
    """Raised by the fast path for a file that it does not support."""


@dataclass(frozen=True)
class Located:
    """Where the vocab and the merges are in a file: the start and the end of each."""

    data: bytes
    vocab: tuple[int, int]
    merges: tuple[int, int]

    def lists(self, byte: bool) -> KernelLists:
        """The lists, of a byte model or a character model; raises UnusualError for lists that need `json`."""
        (start, end), (merges_start, merges_end) = self.vocab, self.merges
        tokens = jsontokens.read_vocab(self.data, start, byte_by_letter()[:512] if byte else None)
        pairs = None if tokens is None or tokens.end != end else tokens.merges(self.data, merges_start)
        if tokens is None or pairs is None or pairs[2] != merges_end:
            raise UnusualError
        if not byte and utf8_error(memoryview(self.data)[start:end]) is not None:
            raise UnusualError
        return KernelLists("byte" if byte else "char", tokens, *pairs[:2])


class KernelLists:
    """The vocab and the merges as the kernel read them. Tokens can be removed from the vocab."""

    def __init__(
        self, model: Model, tokens: jsontokens.VocabTokens, pairs: NDArray[np.int32], results: NDArray[np.int32]
    ) -> None:
        self._model, self.tokens, self.pairs, self.results = model, tokens, pairs, results
        self._removed: dict[int, int] = {}  # the removed tokens: index → id
        self.others: dict[str, int] = {}  # the tokens that are not spelled in GPT-2's letters
        for string, number in tokens.others:
            token = load(string)
            if not isinstance(token, str) or not token or token in self.others:
                raise UnusualError
            self.others[token] = number

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self.others or self.tokens.find(*spelled_all(self._model, [token])) >= 0

    def ids_of(self, tokens: Iterable[str]) -> list[int | None]:
        """The id of each token, those that were removed included; None for a token that is not in the vocab."""
        found = map(self.tokens.find, spelled_all(self._model, tokens))
        return [int(self.tokens.numbers[index]) if index >= 0 else None for index in found]

    def pop_all(self, tokens: Iterable[str]) -> list[int | None]:
        """Remove distinct tokens; returns the id of each, or None for a token that is not in the vocab."""
        tokens = list(tokens)
        numbers: list[int | None] = [None] * len(tokens)
        for i, index in enumerate(map(self.tokens.find, spelled_all(self._model, tokens))):
            if index >= 0 and index not in self._removed:
                numbers[i] = self._removed[index] = int(self.tokens.numbers[index])
        if self.others:
            numbers = [self.others.pop(token, number) for token, number in zip(tokens, numbers, strict=True)]
        return numbers

    def vocabulary(self, special: dict[str, int]) -> Vocabulary:
        """The vocabulary of the remaining tokens and the special tokens; raises UnusualError for a repeated id."""
        blob, offsets, numbers = self.tokens.blob, self.tokens.offsets, self.tokens.numbers
        removed = np.array(list(self._removed.values()), dtype=np.int32)
        if np.isin(removed, self.pairs).any() or np.isin(removed, self.results).any():
            raise UnusualError
        order = np.argsort(numbers, kind="stable")
        if len(removed) or np.any(order[1:] < order[:-1]):
            order = order[~np.isin(order, list(self._removed))]
            numbers = numbers[order]
            blob, offsets = end_to_end(blob, offsets[order], np.diff(offsets)[order])
        if np.any(numbers[1:] == numbers[:-1]):
            raise UnusualError
        by_id = {number: name.encode() for name, number in special.items()}
        own = np.array(list(by_id), dtype=np.int32)
        if not len(numbers) or len(own) < len(special) or np.isin(own, numbers).any() or "" in special:
            raise UnusualError
        return Vocabulary.from_sorted(blob.tobytes(), offsets, numbers, by_id)

    def merges(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(pairs of ids, merge results); raises UnusualError for a repeated pair."""
        keys = np.sort(self.pairs[:, 0].astype(np.int64) << 32 | self.pairs[:, 1])
        if np.any(keys[1:] == keys[:-1]):
            raise UnusualError
        return self.pairs, self.results
