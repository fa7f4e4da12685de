"""Naive PickyBPE, the oracle of the tests, written from the definition in docs/careful_training.md.

Every step counts all pairs and tokens anew; a text is encoded by doing all events, one after the other.

>>> made = learn({b"abcd": 9, b"abce": 1}, 2, 0.9)
>>> made.events
[(b'a', b'b', 10), (b'ab', b'c', 10), b'ab', (b'abc', b'd', 9), b'abc', (b'a', b'b', 1)]
>>> encoded(b"abcabcd", made.events)
[b'ab', b'c', b'abcd']

"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

#: A merge (left, right, count), or the token that is deleted.
Event = tuple[bytes, bytes, int] | bytes


@dataclass
class TrainedModel:
    """The events of a training in order, the tokens that are not deleted, and those made, in the order of the first."""

    events: list[Event] = field(default_factory=list)
    live: set[bytes] = field(default_factory=set)
    made: list[bytes] = field(default_factory=list)


def merge(word: list[bytes], left: bytes, right: bytes) -> list[bytes]:
    """A word with every occurrence of a pair merged, from left to right."""
    result: list[bytes] = []
    index = 0
    while index < len(word):
        if word[index : index + 2] == [left, right]:
            result.append(left + right)
            index += 2
        else:
            result.append(word[index])
            index += 1
    return result


def split(word: list[bytes], token: bytes, parts: list[bytes]) -> list[bytes]:
    """A word with every occurrence of a token split."""
    return [part for symbol in word for part in (parts if symbol == token else [symbol])]


def find_parts(token: bytes, first_parts: dict[bytes, tuple[bytes, bytes]], live: set[bytes]) -> list[bytes]:
    """The tokens that a deleted token is split into."""
    if len(token) == 1 or token in live:
        return [token]
    return [part for half in first_parts[token] for part in find_parts(half, first_parts, live)]


def learn(
    words: dict[bytes, int],
    size: int,
    threshold: float,
    *,
    specials: tuple[bytes, ...] = (),
    least: int = 1,
    longest: int | None = None,
    tie_break: str = "id",
    num_merges: int | None = None,
    veto: Callable[[bytes, bytes, int], object] | None = None,
) -> TrainedModel:
    """Learn until so many tokens beside the bytes are not deleted, or so many merges were made.

    A best pair that `veto` is true for is refused for good.
    """
    state = [([bytes([byte]) for byte in word], count) for word, count in words.items()]
    ids = {bytes([byte]): byte for byte in list_letters()}
    result = TrainedModel()
    first_parts: dict[bytes, tuple[bytes, bytes]] = {}
    merges = 0
    refused: set[tuple[bytes, bytes]] = set()
    while len(result.live) < size if num_merges is None else merges < num_merges:
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, count in state:
            for pair in pairwise(word):
                pairs[pair] += count
        allowed = [
            pair
            for pair, count in pairs.items()
            if count >= least and b"".join(pair) not in specials and len(b"".join(pair)) <= (longest or 1 << 30)
            if pair not in refused
        ]
        if not allowed:
            break
        max_count = max(pairs[pair] for pair in allowed)
        best = [pair for pair in allowed if pairs[pair] == max_count]
        if tie_break == "id":
            left, right = min(best, key=lambda pair: (find_id(pair[0], ids), find_id(pair[1], ids)))
        else:
            left, right = (min if tie_break == "smallest" else max)(best)
        if veto is not None and veto(left, right, max_count):
            refused.add((left, right))
            continue
        merges += 1
        token = left + right
        if token not in first_parts:
            first_parts[token] = (left, right)
            ids[token] = 256 + len(result.made)
            result.made.append(token)
        result.events.append((left, right, max_count))
        result.live.add(token)
        before = sum(word.count(token) * count for word, count in state)
        state = [(merge(word, left, right), count) for word, count in state]
        made = sum(word.count(token) * count for word, count in state) - before
        for part in dict.fromkeys((left, right)):
            remaining = sum(word.count(part) * count for word, count in state)
            if len(part) > 1 and made / (made + remaining) >= threshold:
                result.live.discard(part)
                result.events.append(part)
                parts = find_parts(part, first_parts, result.live)
                state = [(split(word, part, parts), count) for word, count in state]
    return result


def list_letters() -> list[int]:
    """The bytes in the order of their ids in a byte-level tokenizer."""
    return [*range(33, 127), *range(161, 173), *range(174, 256), *range(33), *range(127, 161), 173]


def find_id(token: bytes, ids: dict[bytes, int]) -> int:
    """The number of a token by the order in which tokens are made, bytes first."""
    return list_letters().index(token[0]) if len(token) == 1 else ids[token]


def encode(word: bytes, events: list[Event]) -> list[bytes]:
    """A word after all events."""
    state = [bytes([byte]) for byte in word]
    live: set[bytes] = set()
    first_parts: dict[bytes, tuple[bytes, bytes]] = {}
    for event in events:
        if isinstance(event, bytes):
            live.discard(event)
            state = split(state, event, find_parts(event, first_parts, live))
        else:
            left, right, _ = event
            first_parts.setdefault(left + right, (left, right))
            live.add(left + right)
            state = merge(state, left, right)
    return state
