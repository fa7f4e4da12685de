"""Naive byte-pair encoding, the oracle of the tests: written to be read, it recounts everything at every step.

The tests compare the library with these functions. They are slow on purpose and share no code with the library.

A symbol is a str in a character model and bytes in a byte model; symbols with equal text are the same symbol. An
end-of-word mark is part of a symbol's text: `"</w>"` alone, or `"d</w>"`.

>>> words = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
>>> made = train({tuple(word): count for word, count in words.items()}, num_merges=3, tie_break="first")
>>> [(step.left + step.right, step.count) for step in made.steps]
[('ug', 20), ('un', 16), ('hug', 15)]
>>> encode_word(tuple("mug"), made.ranks)
('m', 'ug')
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Generic, TypeVar

import regex

Symbol = TypeVar("Symbol", str, bytes)

#: The rank of adjacent symbols that do not merge.
NOT_A_PAIR = float("inf")
#: Words of more symbols are merged with a heap.
MANY = 200

#: The patterns as their owners first published them.
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
O200K = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
CLIP = r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""


# Training -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step(Generic[Symbol]):
    """One merge: the pair and its count in the corpus at that time."""

    left: Symbol
    right: Symbol
    count: int


@dataclass(frozen=True)
class Trained(Generic[Symbol]):
    """The result of training.

    Attributes:
        steps: the merges in order.
        words: the words split into their final symbols, in order, with their counts.
        ids: token → id, in id order.

    """

    steps: list[Step[Symbol]]
    words: list[tuple[tuple[Symbol, ...], int]]
    ids: dict[Symbol, int]

    @property
    def ranks(self) -> dict[tuple[Symbol, Symbol], int]:
        """(left, right) → rank."""
        return {(step.left, step.right): rank for rank, step in enumerate(self.steps)}


def pair_counts(words: Iterable[tuple[tuple[Symbol, ...], int]]) -> dict[tuple[Symbol, Symbol], int]:
    """The count of each pair of adjacent symbols, in order of first occurrence.

    >>> pair_counts([(("a", "a", "a", "b"), 2)])
    {('a', 'a'): 4, ('a', 'b'): 2}
    """
    counts: dict[tuple[Symbol, Symbol], int] = {}
    for symbols, count in words:
        for pair in pairwise(symbols):
            counts[pair] = counts.get(pair, 0) + count
    return counts


def merge_all(symbols: tuple[Symbol, ...], left: Symbol, right: Symbol) -> tuple[Symbol, ...]:
    """A word with every occurrence of a pair merged, from left to right and without overlap.

    >>> merge_all(("a", "a", "a", "b"), "a", "a")
    ('aa', 'a', 'b')
    """
    merged: list[Symbol] = []
    at = 0
    while at < len(symbols):
        if at + 1 < len(symbols) and symbols[at] == left and symbols[at + 1] == right:
            merged.append(left + right)
            at += 2
        else:
            merged.append(symbols[at])
            at += 1
    return tuple(merged)


def first_of_equals(
    tied: Sequence[tuple[Symbol, Symbol]], tie_break: str, ids: Mapping[Symbol, int]
) -> tuple[Symbol, Symbol]:
    """Of pairs of equal counts, in order of first appearance, the one that a tie rule merges first."""
    if tie_break == "first":
        return tied[0]
    if tie_break == "smallest":
        return min(tied)
    if tie_break == "greatest":
        return max(tied)
    return min(tied, key=lambda pair: (ids[pair[0]], ids[pair[1]]))


def train(
    words: Mapping[tuple[Symbol, ...], int],
    *,
    num_merges: int | None = None,
    vocab_size: int | None = None,
    tie_break: str = "id",
    min_frequency: int = 1,
    length: Callable[[Symbol], int] = len,
    max_token_length: int | None = None,
    alphabet: Sequence[Symbol] | None = None,
    specials: Sequence[Symbol] = (),
    first_id: int = 0,
    veto: Callable[[Symbol, Symbol, int], object] | None = None,
) -> Trained[Symbol]:
    """Merge the most frequent pair, repeatedly.

    Args:
        words: each word as a tuple of symbols (with its end-of-word mark, if any) → count, in order of first
            appearance.
        num_merges: the number of merges after which training stops; or
        vocab_size: the vocabulary size at which it stops, special tokens included.
        tie_break: "first", "smallest", "greatest" or "id".
        min_frequency: the smallest count of a pair that is merged.
        length: the length of a token, for `max_token_length`.
        max_token_length: the length of the longest token that a merge may make.
        alphabet: the symbols in id order; None for those of the words, sorted.
        specials: tokens that have the first ids; no merge makes one.
        first_id: the smallest id.
        veto: asked as veto(left, right, count) for the best pair, which is refused for good where the result is true.

    """
    refused: set[tuple[Symbol, Symbol]] = set()
    if alphabet is None:
        found: set[Symbol] = set()
        for symbols in words:
            found.update(symbols)
        alphabet = sorted(found)
    split = list(words.items())
    ids: dict[Symbol, int] = {}
    for tokens in (specials, alphabet):
        for token in tokens:
            ids.setdefault(token, first_id + len(ids))
    steps: list[Step[Symbol]] = []
    while (num_merges is None or len(steps) < num_merges) and (vocab_size is None or len(ids) < vocab_size):
        candidates = {
            pair: count
            for pair, count in pair_counts(split).items()
            if count >= max(min_frequency, 1)
            and (max_token_length is None or length(pair[0] + pair[1]) <= max_token_length)
            and pair[0] + pair[1] not in specials
            and pair not in refused
        }
        if not candidates:
            break
        highest = max(candidates.values())
        tied = [pair for pair, count in candidates.items() if count == highest]
        left, right = first_of_equals(tied, tie_break, ids)
        if veto is not None and veto(left, right, highest):
            refused.add((left, right))
            continue
        steps.append(Step(left, right, highest))
        ids.setdefault(left + right, first_id + len(ids))
        split = [(merge_all(symbols, left, right), count) for symbols, count in split]
    return Trained(steps, split, ids)


def minbpe_merges(chunks: Sequence[bytes], num_merges: int) -> list[tuple[bytes, bytes]]:
    """The merges of minbpe's RegexTokenizer by its documentation, over all chunks, including repeated ones.

    Each step counts the adjacent pairs of all chunks in order and replaces the most frequent pair by a new id. Of pairs
    with equal counts it takes the one that occurs first (the first key of a dict with that count).

    >>> minbpe_merges([b"ab", b"cd", b"cd", b"ab"], 2)
    [(b'a', b'b'), (b'c', b'd')]
    """
    split = [list(chunk) for chunk in chunks]
    tokens = {byte: bytes([byte]) for byte in range(256)}
    merges: list[tuple[bytes, bytes]] = []
    while len(merges) < num_merges:
        counts: dict[tuple[int, int], int] = {}
        for ids in split:
            for pair in pairwise(ids):
                counts[pair] = counts.get(pair, 0) + 1
        if not counts:
            break
        left, right = max(counts, key=lambda pair: counts[pair])
        new = len(tokens)
        tokens[new] = tokens[left] + tokens[right]
        merges.append((tokens[left], tokens[right]))
        split = [_minbpe_merged(ids, left, right, new) for ids in split]
    return merges


def _minbpe_merged(ids: list[int], left: int, right: int, new: int) -> list[int]:
    merged: list[int] = []
    at = 0
    while at < len(ids):
        found = ids[at] == left and at + 1 < len(ids) and ids[at + 1] == right
        merged.append(new if found else ids[at])
        at += 1 + found
    return merged


def char_word(word: str, end_of_word: str | None = None, glued: bool = False) -> tuple[str, ...]:
    """A word's initial symbols in a character model.

    >>> char_word("hug", "</w>"), char_word("hug", "</w>", glued=True)
    (('h', 'u', 'g', '</w>'), ('h', 'u', 'g</w>'))
    """
    letters = tuple(word)
    if end_of_word is None or not letters:
        return letters
    return (*letters[:-1], letters[-1] + end_of_word) if glued else (*letters, end_of_word)


def byte_word(word: bytes) -> tuple[bytes, ...]:
    """A word's initial symbols in a byte model.

    >>> byte_word(b"hug")
    (b'h', b'u', b'g')
    """
    return tuple(word[i : i + 1] for i in range(len(word)))


def is_whole(token: bytes) -> bool:
    """Whether a token is whole characters."""
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def count_words(pieces: Iterable[Symbol]) -> dict[Symbol, int]:
    """The count of each word, in order of first appearance."""
    counts: dict[Symbol, int] = {}
    for piece in pieces:
        counts[piece] = counts.get(piece, 0) + 1
    return counts


def gpt2_byte_order() -> list[bytes]:
    """The 256 bytes in the order of the code points of GPT-2's letters for them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [bytes([byte]) for byte in (*printable, *(byte for byte in range(256) if byte not in printable))]


# Encoding -----------------------------------------------------------------------------------------------------------


def encode_word(symbols: tuple[Symbol, ...], ranks: Mapping[tuple[Symbol, Symbol], int]) -> tuple[Symbol, ...]:
    """Merge the leftmost pair of the lowest rank, until no pair has a rank.

    >>> encode_word(("l", "o", "w"), {("o", "w"): 0, ("l", "ow"): 1})
    ('low',)
    """
    return tuple(merge_lowest(list(symbols), lambda left, right: ranks.get((left, right), NOT_A_PAIR)))


def merge_lowest(parts: list[Symbol], rank_of: Callable[[Symbol, Symbol], float]) -> list[Symbol]:
    """Merge the leftmost adjacent parts of the lowest rank, until all ranks are NOT_A_PAIR. It changes the list.

    After a merge, only the ranks of the pairs beside it are computed again, since no others can change.

    >>> merge_lowest(["a", "b", "a", "b"], lambda left, right: 0 if left + right == "ab" else NOT_A_PAIR)
    ['ab', 'ab']
    """
    if len(parts) > MANY:
        return merge_lowest_of_many(parts, rank_of)
    ranks = [rank_of(left, right) for left, right in pairwise(parts)]
    while ranks and (lowest := min(ranks)) != NOT_A_PAIR:
        at = ranks.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del ranks[at]
        for beside in (at - 1, at):
            if 0 <= beside < len(ranks):
                ranks[beside] = rank_of(parts[beside], parts[beside + 1])
    return parts


def merge_lowest_of_many(parts: list[Symbol], rank_of: Callable[[Symbol, Symbol], float]) -> list[Symbol]:
    """What `merge_lowest` does, in O(n log n) instead of O(n²): a heap finds the lowest rank, and links the neighbours.

    >>> merge_lowest_of_many(["a", "b", "a", "b"], lambda left, right: 0 if left + right == "ab" else NOT_A_PAIR)
    ['ab', 'ab']
    """
    n = len(parts)
    before, after = [at - 1 for at in range(n)], [at + 1 for at in range(n)]
    ranks = [*(rank_of(left, right) for left, right in pairwise(parts)), NOT_A_PAIR]
    heap = [(rank, at) for at, rank in enumerate(ranks) if rank != NOT_A_PAIR]
    heapify(heap)
    gone = [False] * n
    while heap:
        rank, at = heappop(heap)
        if gone[at] or ranks[at] != rank:
            continue  # this pair has changed since
        right = after[at]
        parts[at] += parts[right]
        gone[right] = True
        after[at] = after[right]
        if after[at] < n:
            before[after[at]] = at
        for beside in (before[at], at):
            if beside >= 0:
                following = after[beside]
                ranks[beside] = rank_of(parts[beside], parts[following]) if following < n else NOT_A_PAIR
                if ranks[beside] != NOT_A_PAIR:
                    heappush(heap, (ranks[beside], beside))
    return [part for part, left_out in zip(parts, gone, strict=True) if not left_out]


def tiktoken_encode(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """A pretoken's ids by tiktoken's rule: a pair's rank is its merged token's rank; a pretoken in `ranks` is one id.

    >>> tiktoken_encode(b"abc", {b"a": 0, b"b": 1, b"c": 2, b"ab": 3})
    [3, 2]
    """
    if piece in ranks:
        return [ranks[piece]]
    parts = merge_lowest(list(byte_word(piece)), lambda left, right: ranks.get(left + right, NOT_A_PAIR))
    return [ranks[part] for part in parts]


# CLIP ---------------------------------------------------------------------------------------------------------------


class Clip:
    """CLIP's tokenizer, as in worked example F.

    Args:
        lines: the merge list; its first line is a header.
        repair: `ftfy.fix_text`, or None to leave text as it is.

    """

    def __init__(self, lines: Sequence[str], repair: Callable[[str], str] | None = None) -> None:
        merges = [(line.split()[0], line.split()[1]) for line in lines[1 : 49152 - 256 - 2 + 1]]
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in printable]
        self.letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
        symbols = list(self.letters.values())
        tokens = [*symbols, *(symbol + "</w>" for symbol in symbols), *(left + right for left, right in merges)]
        self.ids = {token: i for i, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.pattern = regex.compile(CLIP, regex.IGNORECASE)
        self.repair = repair
        self._cache: dict[str, list[int]] = {token: [self.ids[token]] for token in ("<|startoftext|>", "<|endoftext|>")}

    def clean(self, text: str) -> str:
        """Text as CLIP cleans it: repaired, entities unescaped twice, white space collapsed, lowercased."""
        if self.repair is not None:
            text = self.repair(text)
        text = html.unescape(html.unescape(text)).strip()
        return str(regex.sub(r"\s+", " ", text)).strip().lower()

    def words(self, text: str) -> Iterator[str]:
        """The words of a cleaned text."""
        return (match[0] for match in self.pattern.finditer(text))

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        ids: list[int] = []
        for word in self.words(self.clean(text)):
            if word not in self._cache:
                letters = "".join(self.letters[byte] for byte in word.encode())
                symbols = encode_word((*letters[:-1], letters[-1] + "</w>"), self.ranks)
                self._cache[word] = [self.ids[symbol] for symbol in symbols]
            ids += self._cache[word]
        return ids

    def clip_rows(self, texts: Sequence[str], context_length: int = 77) -> tuple[list[list[int]], list[int]]:
        """One row per text, truncated to fit: start, ids, end, zeros. Also returns the lengths without padding."""
        start, end = self.ids["<|startoftext|>"], self.ids["<|endoftext|>"]
        rows = [[start, *self.encode(text)[: context_length - 2], end] for text in texts]
        return [row + [0] * (context_length - len(row)) for row in rows], [len(row) for row in rows]


# Whole texts --------------------------------------------------------------------------------------------------------


def split_specials(text: str, specials: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Split a text at its special tokens: (text, False) and (name, True). The longest name at a position is taken."""
    at = done = 0
    while at < len(text):
        found = max((name for name in specials if text.startswith(name, at)), key=len, default=None)
        if found is None:
            at += 1
            continue
        if at > done:
            yield text[done:at], False
        yield found, True
        at = done = at + len(found)
    if done < len(text):
        yield text[done:], False
