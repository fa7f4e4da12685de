"""The two long lists of a tokenizer.json, `vocab` and `merges`, read and written.

A kernel (`bpe/formats/_json_tokens.pyx`) reads those of usual files; `ParsedLists` reads any, and names the position of
what is invalid. Special tokens are removed from either before it becomes a `Vocabulary`.

The kernel joins the lines that are written, too, without an object for each and without the GIL. Writing 100,000
tokens takes 28 ms. With the positions of all slices in NumPy it took 64 ms, and stalled other threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import find_utf8_error
from bpe.errors import FormatError, short_repr
from bpe.formats import _json_tokens
from bpe.formats.huggingface.spelling import build_letter_table, read_spelling, read_spellings
from bpe.formats.schema import UNSUPPORTED, errors_at, parse_json, read_id
from bpe.text.letters import list_byte_letters, map_letters_to_bytes
from bpe.vocab.spec import SymbolType, TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, Vocabulary, join_slices

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NeedsParserError(Exception):
    """Raised for a file that the kernel does not read."""


#: JSON text: bytes, and the start and the end of the text in them.
Span = tuple[bytes, int, int]
#: Pairs of ids, and the merge results.
Merges: TypeAlias = "tuple[NDArray[np.int32], NDArray[np.int32]]"

#: The placeholders of the vocab and the merges for `json`. They are numbers, because JSON spells a number in one way.
PLACEHOLDERS = (8273645190382745101, 8273645190382745102)
_VOCAB_KEY, _MERGES_KEY = re.compile(rb'"vocab"\s*:\s*(?=\{)'), re.compile(rb'"merges"\s*:\s*(?=\[)')


def split_off_lists(data: bytes, parse_json: Callable[[bytes], Any]) -> tuple[dict[str, Any], Span, Span] | None:
    """Split the vocab and the merges off a tokenizer.json: returns the rest and two spans; None for an unusual file.

    `parse_json` parses the rest, with a placeholder number in place of each list; its errors are raised. If it finds
    the placeholders as fields of the model, then the lists are the values of these fields.
    """
    vocab = _VOCAB_KEY.search(data)
    if vocab is None:
        return None
    start, end = vocab.end(), _json_tokens.find_value_end(data, vocab.end())
    merges = None if end < 0 else _MERGES_KEY.search(data, end) or _MERGES_KEY.search(data, 0, vocab.start())
    if merges is None:
        return None
    spans = (start, end), (merges.end(), _json_tokens.find_value_end(data, merges.end()))
    placeholders = [str(number).encode() for number in (PLACEHOLDERS if spans[0] < spans[1] else PLACEHOLDERS[::-1])]
    (first, first_end), (second, second_end) = sorted(spans)
    if not first < first_end <= second < second_end:
        return None
    surrounding = data[:first], data[first_end:second], data[second_end:]
    if any(number in part for number in placeholders for part in surrounding):
        return None
    value = parse_json(b"".join([surrounding[0], placeholders[0], surrounding[1], placeholders[1], surrounding[2]]))
    model = value.get("model") if isinstance(value, dict) else None
    if not isinstance(model, dict) or (model.get("vocab"), model.get("merges")) != PLACEHOLDERS:
        return None
    return value, (data, *spans[0]), (data, *spans[1])


# Reading --------------------------------------------------------------------------------------------------------------


def read_lists(vocab: Span, merges: Span, symbol_type: SymbolType, prefix: str) -> KernelLists:
    """Read the lists with the kernel; raises NeedsParserError for lists that need `ParsedLists`.

    `prefix` is the continuing_subword_prefix, which the right part of a merge loses.
    """
    (data, start, end), (merges_data, merges_start, merges_end) = vocab, merges
    tokens = _json_tokens.read_vocab(data, start, build_letter_table()[:512] if symbol_type == "byte" else None)
    if tokens is None or tokens.end != end:
        raise NeedsParserError
    pairs = tokens.read_merges(merges_data, merges_start, len(prefix.encode()))
    if pairs is None or pairs[2] != merges_end:
        raise NeedsParserError
    if symbol_type == "char" and find_utf8_error(memoryview(data)[start:end]) is not None:
        raise NeedsParserError
    return KernelLists(symbol_type, tokens, *pairs[:2])


class KernelLists:
    """The vocab and the merges as the kernel read them.

    Attributes:
        non_letter_ids: token → id of the tokens of a byte model not spelled in GPT-2's letters, for example emoji in
            some published files. Encoding never produces them; decoding gives their own text.

    """

    def __init__(
        self,
        symbol_type: SymbolType,
        tokens: _json_tokens.VocabTokens,
        pairs: NDArray[np.int32],
        results: NDArray[np.int32],
    ) -> None:
        self._symbol_type, self._tokens, self._pairs, self._results = symbol_type, tokens, pairs, results
        self._removed: list[int] = []  # indices
        self.non_letter_ids: dict[str, int] = {}
        for string, token_id in tokens.other_tokens:
            token = parse_json(string)
            if not isinstance(token, str) or not token or token in self.non_letter_ids:
                raise NeedsParserError
            self.non_letter_ids[token] = token_id

    def __len__(self) -> int:
        return len(self._tokens)

    def _find_indices(self, tokens: Iterable[str]) -> list[int]:
        return list(map(self._tokens.find, read_spellings(self._symbol_type, tokens)))

    def find_ids(self, tokens: Iterable[str]) -> list[int | None]:
        """Find the id of each token, those that were removed included; None for a token that is not in the vocab."""
        tokens = list(tokens)
        ids = [int(self._tokens.token_ids[i]) if i >= 0 else None for i in self._find_indices(tokens)]
        if self.non_letter_ids:
            ids = [self.non_letter_ids.get(token, token_id) for token, token_id in zip(tokens, ids, strict=True)]
        return ids

    def remove(self, tokens: Collection[str]) -> None:
        """Remove tokens, which must be in the vocab."""
        self._removed += [index for index in self._find_indices(tokens) if index >= 0]
        if self.non_letter_ids:
            self.non_letter_ids = {token: i for token, i in self.non_letter_ids.items() if token not in tokens}

    def find_in_merges(self, tokens: Mapping[str, int]) -> set[str]:
        """Find which of these tokens of the vocab (token → id) some merge has or makes."""
        ids = np.array(list(tokens.values()), dtype=np.int32)
        is_in_merges = np.isin(ids, self._pairs) | np.isin(ids, self._results)
        return {token for token, is_merged in zip(tokens, is_in_merges.tolist(), strict=True) if is_merged}

    def build(self, special_ids: Mapping[str, int]) -> tuple[Vocabulary, Merges]:
        """Build the vocabulary of the remaining tokens and the special tokens, and the merges.

        Raises:
            NeedsParserError: for a repeated id or pair.

        """
        return self._build_vocabulary(special_ids), self._check_merges()

    def _build_vocabulary(self, special_ids: Mapping[str, int]) -> Vocabulary:
        blob, offsets, ids = self._tokens.blob, self._tokens.offsets, self._tokens.token_ids
        order = np.argsort(ids, kind="stable")
        if self._removed or np.any(order[1:] < order[:-1]):
            order = order[~np.isin(order, self._removed)]
            ids = ids[order]
            blob, offsets = join_slices(blob, offsets[order], np.diff(offsets)[order])
        if np.any(ids[1:] == ids[:-1]):
            raise NeedsParserError
        other_ids = {**special_ids, **self.non_letter_ids}
        by_id = {token_id: name.encode() for name, token_id in other_ids.items()}
        named_ids = np.array(list(by_id), dtype=np.int32)
        if not len(ids) or len(named_ids) < len(other_ids) or np.isin(named_ids, ids).any() or "" in other_ids:
            raise NeedsParserError
        return Vocabulary.from_sorted(blob.tobytes(), offsets, ids, by_id)

    def _check_merges(self) -> Merges:
        n_merges_by_result = np.bincount(self._results)  # equal pairs have one result
        pairs = self._pairs[n_merges_by_result[self._results] > 1].astype(np.int64)
        keys = np.sort(pairs[:, 0] << 32 | pairs[:, 1])
        if np.any(keys[1:] == keys[:-1]):
            raise NeedsParserError
        return self._pairs, self._results


class ParsedLists:
    """The vocab and the merges of any file, as `json` read them; the methods and attributes of `KernelLists`."""

    def __init__(self, vocab: dict[str, int], merges: list[Any], symbol_type: SymbolType, prefix: str) -> None:
        for token, token_id in vocab.items():
            read_id(token_id, f"model.vocab[{short_repr(token)}]")
        if "" in vocab:
            raise FormatError("a token is empty; it must have at least one character", where="model.vocab['']")
        self._symbol_type, self._vocab, self._merges, self._prefix = symbol_type, vocab, merges, prefix
        self._removed: set[str] = set()
        letters = map_letters_to_bytes().keys()
        self.non_letter_ids = (
            {} if symbol_type == "char" else {token: i for token, i in vocab.items() if not letters >= set(token)}
        )

    def __len__(self) -> int:
        return len(self._vocab)

    def find_ids(self, tokens: Iterable[str]) -> list[int | None]:
        """Find the id of each token, those that were removed included; None for a token that is not in the vocab."""
        return list(map(self._vocab.get, tokens))

    def remove(self, tokens: Collection[str]) -> None:
        """Remove tokens, which must be in the vocab."""
        self._removed.update(tokens)
        self.non_letter_ids = {token: i for token, i in self.non_letter_ids.items() if token not in tokens}

    def find_in_merges(self, tokens: Mapping[str, int]) -> set[str]:
        """Find which of these tokens some valid merge has or makes."""
        merged: set[Any] = set()
        for merge in self._merges:
            parts = merge.split(" ") if isinstance(merge, str) else merge
            if isinstance(parts, list) and set(map(type, parts)) == {str}:
                merged.update((*parts, "".join(parts)))
        return merged & tokens.keys()

    def build(self, special_ids: Mapping[str, int]) -> tuple[Vocabulary, Merges]:
        """Build the vocabulary of the remaining and the special tokens, and the merges; errors name the position."""
        excluded = self._removed | self.non_letter_ids.keys()
        vocab = {token: token_id for token, token_id in self._vocab.items() if token not in excluded}
        tokens = [(token_id, read_spelling(self._symbol_type, token)) for token, token_id in vocab.items()]
        other_ids = {**special_ids, **self.non_letter_ids}
        with errors_at("model.vocab"):
            vocabulary = Vocabulary(tokens, ((token_id, name.encode()) for name, token_id in other_ids.items()))
        return vocabulary, self._find_merges(vocab, special_ids)

    def _find_merges(self, vocab: Mapping[str, int], special_ids: Mapping[str, int]) -> Merges:
        merges: dict[tuple[int, int], int] = {}
        for i, merge in enumerate(self._merges):
            try:
                left, right = merge.split(" ") if type(merge) is str else merge
                pair, result = (vocab[left], vocab[right]), vocab[left + _strip_prefix(self._prefix, right)]
            except (KeyError, TypeError, ValueError, AttributeError):
                reason = _explain_invalid_merge(merge, vocab, special_ids, self._prefix)
                raise FormatError(reason, where=f"model.merges[{i}]") from None
            if type(merge) is dict or merges.setdefault(pair, result) != result or len(merges) != i + 1:
                reason = "it is not a pair" if type(merge) is dict else "it occurs twice; merges must be unique"
                raise FormatError(f"{short_repr(merge)}: {reason}", where=f"model.merges[{i}]")
        results = np.array(list(merges.values()), dtype=np.int32)
        return np.array(list(merges), dtype=np.int32).reshape(-1, 2), results


def _strip_prefix(prefix: str, right: str) -> str:
    """Remove as many bytes as the prefix has, whatever they are, from the right part of a merge.

    Raises:
        ValueError: if nothing or no whole character is left.

    """
    if not prefix:
        return right
    remainder = right.encode()[len(prefix.encode()) :]
    if not remainder:
        raise ValueError(f"{right!r} is no longer than the prefix {prefix!r}")
    return remainder.decode()


def _explain_invalid_merge(merge: object, vocab: Mapping[str, int], special_ids: Mapping[str, int], prefix: str) -> str:
    """Say what is wrong with a merge."""
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        return f'{short_repr(merge)} is not a merge; it must be ["left", "right"] or "left right"'
    left, right = pair
    try:
        result = left + _strip_prefix(prefix, right)
    except ValueError:
        return f"{short_repr(merge)}: its right part must be longer than the prefix {prefix!r}"
    for token, role in ((left, "left part"), (right, "right part"), (result, "product")):
        if token in special_ids:
            return f"{short_repr(merge)}: its {role} {token!r} is a special or the unknown token; {UNSUPPORTED}"
        if token not in vocab:
            return f"{short_repr(merge)}: its {role} {short_repr(token)} is not in the vocab; it must be"
    raise AssertionError(merge)


# Writing --------------------------------------------------------------------------------------------------------------


@cache
def _quote_letters() -> NDArray[np.uint8]:
    """Spell GPT-2's letter of each byte in UTF-8 for a JSON string: two bytes, or one and 0."""
    quoted_letters = (encode_basestring(letter)[1:-1].encode().ljust(2, b"\0") for letter in list_byte_letters())
    return np.array([list(letter) for letter in quoted_letters], dtype=np.uint8)


#: Texts: text i is `blob[starts[i] : starts[i] + lengths[i]]` of (blob, starts, lengths).
_Texts: TypeAlias = "tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]"


def write_lists(
    spec: TokenizerSpec, names: dict[int, str]
) -> tuple[list[bytes | memoryview], list[bytes | memoryview]]:
    """Write the lines of the vocab (the ordinary tokens, and these names of others) and the lines of the merges.

    Each is a list of parts, so that the megabytes of one are copied only once.
    """
    ids = np.append(np.flatnonzero(spec.vocabulary.kinds == ORDINARY), np.array(list(names), dtype=np.int64))
    ids.sort(kind="stable")  # linear, since most are in order
    blob, starts, lengths = _spell_tokens(spec, names)
    tokens, left, right = ((blob, starts[rows], lengths[rows]) for rows in (ids, *spec.merges.T))
    return (
        _finish_lines(_json_tokens.join_lines([b',\n      "', b'": ', b""], [tokens, ids])),
        _finish_lines(_json_tokens.join_lines([b',\n      ["', b'", "', b'"]'], [left, right])),
    )


def _finish_lines(lines: bytes) -> list[bytes | memoryview]:
    """Leave out the comma before the first line, and end the last one."""
    return [memoryview(lines)[1:], b"\n    "] if lines else []


def _spell_tokens(spec: TokenizerSpec, names: dict[int, str]) -> _Texts:
    """Spell the tokens, by id, as between the quotes of JSON strings; `names` has the texts of other tokens."""
    vocabulary = spec.vocabulary
    if spec.model == "byte":
        blob, bounds = _json_tokens.spell_letters(vocabulary.blob, vocabulary.offsets, _quote_letters())
        starts, lengths = bounds[:-1].copy(), np.diff(bounds)
    else:
        ordinary_ids = np.flatnonzero(vocabulary.kinds == ORDINARY)
        texts = [_quote(token.decode()) for _, token in vocabulary.items(ORDINARY)]
        blob, bounds = np.frombuffer(b"".join(texts), dtype=np.uint8), compute_offsets(list(map(len, texts)))
        starts, lengths = np.zeros((2, vocabulary.limit), dtype=np.int64)
        starts[ordinary_ids], lengths[ordinary_ids] = bounds[:-1], np.diff(bounds)
    quoted_names, other_ids = list(map(_quote, names.values())), list(names)
    bounds = compute_offsets(list(map(len, quoted_names))) + len(blob)
    starts[other_ids], lengths[other_ids] = bounds[:-1], np.diff(bounds)
    names_blob = np.frombuffer(b"".join(quoted_names), dtype=np.uint8)
    return np.concatenate((blob, names_blob)), starts, lengths


def _quote(text: str) -> bytes:
    """Spell a text as between the quotes of a JSON string."""
    return encode_basestring(text)[1:-1].encode()
