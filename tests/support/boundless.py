"""Naive BoundlessBPE and its SuperBPE variant, the oracle of the tests, written from the definition.

Source: Schmidt et al., "Boundless Byte Pair Encoding" (2025), and "Faster Superword Tokenization" (2026). Every step
counts everything again. Documents are lists of pretokens, as bytes; a token is its bytes.

>>> documents = [[b"by", b" the", b" way", b",", b" by", b" the", b" sea"]] * 3
>>> made = train(documents, 268, None, lambda token: token.isascii() and token.strip().isalpha())
>>> [left + right for left, right, _ in made.word_merges][-3:], [left + right for left, right, _ in made.super_merges]
([b' sea', b' wa', b' way'], [b' by the'])
>>> encode([b" by", b" the", b" the"], made)
[b' by the', b' the']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reference import merge_all

Symbols = tuple[bytes, ...]
Merge = tuple[bytes, bytes, int]  # left, right, the count at that time


@dataclass(frozen=True)
class TrainedModel:
    """The merges of both phases, with their counts."""

    word_merges: list[Merge]
    super_merges: list[Merge]


def count_pairs(words: Iterable[tuple[Symbols, int]]) -> dict[tuple[bytes, bytes], int]:
    """The count of each pair, without overlap: each run of equal pairs is read from the left.

    >>> pair_counts([((b"a", b"a", b"a", b"b"), 2)])
    {(b'a', b'a'): 2, (b'a', b'b'): 2}
    """
    counts: dict[tuple[bytes, bytes], int] = {}
    for symbols, count in words:
        for pair in set(pairwise(symbols)):
            position = n_adjacent = 0
            while position + 1 < len(symbols):
                if (symbols[position], symbols[position + 1]) == pair:
                    n_adjacent += 1
                    position += 1
                position += 1
            counts[pair] = counts.get(pair, 0) + n_adjacent * count
    return dict(sorted(counts.items()))


def learn(
    words: dict[Symbols, int],
    max_merges: int,
    taken_tokens: Iterable[bytes],
    least: int = 1,
    refused: Callable[[bytes, bytes], bool] = lambda left, right: False,
) -> tuple[list[Merge], dict[Symbols, int]]:
    """Up to `max_merges` merges, and the words after them. None makes a token of `taken_tokens`, or is `refused`."""
    known_tokens, merges = set(taken_tokens), []
    while len(merges) < max_merges:
        counts = count_pairs(words.items())
        candidates = [
            (-count, pair)
            for pair, count in counts.items()
            if pair[0] + pair[1] not in known_tokens and count >= least and not refused(*pair)
        ]
        if not candidates:
            break
        negative, (left, right) = min(candidates)
        merges.append((left, right, -negative))
        known_tokens.add(left + right)
        new_words: dict[Symbols, int] = {}
        for symbols, count in words.items():
            after = merge_all(symbols, left, right)
            new_words[after] = new_words.get(after, 0) + count
        words = new_words
    return merges, words


def merge(symbols: Symbols, merges: Sequence[Merge]) -> Symbols:
    """The symbols after all merges, in order."""
    for left, right, _ in merges:
        symbols = merge_all(symbols, left, right)
    return symbols


def find_runs(documents: Iterable[list[Symbols]], eligible: Callable[[bytes], bool]) -> list[Symbols]:
    """The maximal runs of two or more pretokens that are one eligible token each; pretokens are given as tokens."""
    all_runs: list[Symbols] = []
    for document in documents:
        run: list[bytes] = []
        for tokens in [*document, ()]:
            if len(tokens) == 1 and eligible(tokens[0]):
                run.append(tokens[0])
                continue
            all_runs += [tuple(run)] if len(run) > 1 else []
            run = []
    return all_runs


def train(
    documents: Sequence[Sequence[bytes]],
    size: int,
    transition: int | None,
    eligible: Callable[[bytes], bool],
    specials: Sequence[bytes] = (),
    least: int = 1,
    seeds: Sequence[tuple[bytes, bytes]] = (),
    refused: Callable[[bytes, bytes], bool] = lambda left, right: False,
) -> TrainedModel:
    """Train to `size` tokens, the special tokens and 256 bytes included; the SuperBPE variant with a `transition`.

    The merges of `seeds` are made first, and keep their places. Those that are `refused` are not learned.
    """
    base = 256 + len(specials)
    seed_merges = [(left, right, 1 << 62) for left, right in seeds]
    words: dict[Symbols, int] = {}
    for document in documents:
        for word in document:
            symbols = tuple(bytes([byte]) for byte in word)
            words[symbols] = words.get(symbols, 0) + 1
    seeded: dict[Symbols, int] = {}
    for symbols, count in words.items():
        after = merge(symbols, seed_merges)
        seeded[after] = seeded.get(after, 0) + count
    max_merges = (size if transition is None else transition) - base - len(seed_merges)
    known_tokens = {*specials, *(left + right for left, right in seeds)}
    word_merges = seed_merges + learn(seeded, max_merges, known_tokens, least, refused)[0]

    cut = [[merge(tuple(bytes([byte]) for byte in word), word_merges) for word in document] for document in documents]
    counted: dict[Symbols, int] = {}
    for run in find_runs(cut, eligible):
        counted[run] = counted.get(run, 0) + 1
    taken_tokens = {
        *specials,
        *(left + right for left, right, _ in word_merges),
        *(bytes([byte]) for byte in range(256)),
    }
    if transition is not None:
        more = size - base - len(word_merges)
        return TrainedModel(word_merges, learn(counted, more, taken_tokens, least, refused)[0])

    replayed: list[Merge] = []
    supers: list[Merge] = []
    while base + len(replayed) + len(supers) < size:
        following = word_merges[len(replayed)] if len(replayed) < len(word_merges) else None
        best, after = learn(counted, 1, taken_tokens, least, refused)
        if best and (following is None or best[0][2] > following[2]):
            counted = after
            taken_tokens.add(best[0][0] + best[0][1])
            supers += best
        elif following is not None:
            replayed.append(following)
        else:
            break
    return TrainedModel(replayed, supers)


def encode(pretokens: Iterable[bytes], trained: TrainedModel) -> list[bytes]:
    """The tokens of one text, given as its pretokens."""
    words = [merge(tuple(bytes([byte]) for byte in word), trained.word_merges) for word in pretokens]
    all_tokens: list[bytes] = []
    run: list[bytes] = []
    for tokens in [*words, ()]:
        if len(tokens) == 1:
            run += tokens
        else:
            all_tokens += [*merge(tuple(run), trained.super_merges), *tokens]
            run = []
    return all_tokens
