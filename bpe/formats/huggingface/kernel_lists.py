"""The vocab and the merges of a tokenizer.json as the kernel reads them (`bpe/formats/_json_tokens.pyx`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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


#: JSON text: bytes, and the start and the end of the text in them.
Span = tuple[bytes, int, int]

#: The placeholders of the vocab and the merges for `json`. They are numbers, because JSON spells a number in one way.
PLACEHOLDERS = (8273645190382745101, 8273645190382745102)
_VOCAB, _MERGES = re.compile(rb'"vocab"\s*:\s*(?=\{)'), re.compile(rb'"merges"\s*:\s*(?=\[)')


def divided(data: bytes, load: Callable[[bytes], Any]) -> tuple[dict[str, Any], Span, Span] | None:
    """A tokenizer.json without its long lists, its vocab and its merges; None for an unusual or invalid file.

    `load` reads the rest as JSON, with a placeholder number in place of each list; its errors are raised. If it finds
    the placeholders as fields of the model, then the lists are the values of these fields.
    """
    vocab = _VOCAB.search(data)
    if vocab is None:
        return None
    start, end = vocab.end(), jsontokens.value_end(data, vocab.end())
    merges = None if end < 0 else _MERGES.search(data, end) or _MERGES.search(data, 0, vocab.start())
    if merges is None:
        return None
    found = (start, end), (merges.end(), jsontokens.value_end(data, merges.end()))
    numbers = [str(number).encode() for number in (PLACEHOLDERS if found[0] < found[1] else PLACEHOLDERS[::-1])]
    (first, first_end), (second, second_end) = sorted(found)
    if not first < first_end <= second < second_end:
        return None
    rest = data[:first], data[first_end:second], data[second_end:]
    if any(number in part for number in numbers for part in rest):
        return None
    value = load(b"".join([rest[0], numbers[0], rest[1], numbers[1], rest[2]]))
    model = value.get("model") if isinstance(value, dict) else None
    if not isinstance(model, dict) or (model.get("vocab"), model.get("merges")) != PLACEHOLDERS:
        return None
    return value, (data, *found[0]), (data, *found[1])


@dataclass(frozen=True)
class Located:
    """The vocab and the merges of a file as JSON."""

    vocab: Span
    merges: Span

    def lists(self, byte: bool, prefix: str | None) -> KernelLists:
        """The lists, of a byte model or a character model; raises UnusualError for lists that need `json`.

        `prefix` is the continuing_subword_prefix, which the right part of a merge loses.
        """
        (data, start, end), (merges_data, merges_start, merges_end) = self.vocab, self.merges
        tokens = jsontokens.read_vocab(data, start, byte_by_letter()[:512] if byte else None)
        if tokens is None or tokens.end != end:
            raise UnusualError
        pairs = tokens.merges(merges_data, merges_start, len((prefix or "").encode()))
        if pairs is None or pairs[2] != merges_end:
            raise UnusualError
        if not byte and utf8_error(memoryview(data)[start:end]) is not None:
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

    def restore(self, token: str) -> None:
        """Put a token back that was removed."""
        del self._removed[self.tokens.find(*spelled_all(self._model, [token]))]

    def merged(self, numbers: Iterable[int]) -> set[int]:
        """The subset of these ids that some merge has or makes."""
        ids = np.array(list(numbers), dtype=np.int32)
        return set(ids[np.isin(ids, self.pairs) | np.isin(ids, self.results)].tolist())

    def vocabulary(self, special: dict[str, int]) -> Vocabulary:
        """The vocabulary of the remaining tokens and the special tokens; raises UnusualError for a repeated id."""
        blob, offsets, numbers = self.tokens.blob, self.tokens.offsets, self.tokens.numbers
        removed = np.array(list(self._removed.values()), dtype=np.int32)
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
        times_made = np.bincount(self.results)  # equal pairs have one result
        pairs = self.pairs[times_made[self.results] > 1].astype(np.int64)
        keys = np.sort(pairs[:, 0] << 32 | pairs[:, 1])
        if np.any(keys[1:] == keys[:-1]):
            raise UnusualError
        return self.pairs, self.results
