"""The content of the encoder's tables, computed from a vocabulary: seeds of the word cache, pairs of characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.merge.tables import MergeList, TokenBytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Kinds of seeds, and the longest word that is one.
NO_SEED, SEED, EARLIER_SEED = 0, 1, 2
MIDDLE_WORD = 16


def _odd_tokens(merges: MergeList, ends_word: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which tokens have an end-of-word mark elsewhere than at their end: no text is encoded to them."""
    odd = np.zeros(merges.limit, dtype=np.bool_)
    left, right = merges.pairs.T
    more = merges.results[(ends_word[left] != 0) | (ends_word[right] != ends_word[merges.results])]
    while len(more):  # as often as such tokens are merged again, which is hardly ever
        odd[more] = True
        more = merges.results[(odd[left] | odd[right]) & ~odd[merges.results]]
    return odd


def seed_kinds(merges: MergeList, tokens: TokenBytes, reachable: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Which tokens are words on their own (SEED), or parts that do not end a word (EARLIER_SEED): uint8 (limit,).

    Only words of up to 16 bytes that do not end in 0xFF have a key. `reachable` tells which tokens merging their own
    bytes gives.
    """
    sizes, chosen = np.diff(tokens.offsets), reachable != 0
    kinds = np.full(merges.limit, SEED, dtype=np.uint8)
    if tokens.ends_word is not None:
        sizes = sizes - np.where(tokens.ends_word, tokens.mark_size, 0)
        chosen &= ~_odd_tokens(merges, tokens.ends_word)
        kinds[tokens.ends_word == 0] = EARLIER_SEED
    chosen &= (sizes > 0) & (sizes <= MIDDLE_WORD)
    last = np.frombuffer(tokens.blob, dtype=np.uint8)[(tokens.offsets[:-1] + sizes - 1)[chosen]]
    chosen[chosen] = last != 0xFF
    return np.where(chosen, kinds, NO_SEED).astype(np.uint8)


def pairs_of_merges(pairs: NDArray[np.int32], blob: bytes, offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The pair of characters around each merge, as by `_pairs_between`.

    The pairs inside a token are those inside its two parts and the one between them, so these are all pairs inside
    tokens.
    """
    left, right = pairs.T
    return _pairs_between(blob, offsets[left], offsets[left + 1], offsets[right], offsets[right + 1])


def pairs_in_words(blob: bytes, offsets: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.uint8]:
    """All pairs of characters inside some of the words `blob[offsets[i]:offsets[i + 1]]`."""
    starts, ends = offsets[words], offsets[words + 1]
    sizes = ends - starts
    which = np.repeat(np.arange(len(words)), sizes)
    at = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[which]
    inside = at > starts[which]
    at, which = at[inside], which[inside]
    return _pairs_between(blob, starts[which], at, at, ends[which])


def _pairs_between(
    blob: bytes,
    starts: NDArray[np.int64],
    first_ends: NDArray[np.int64],
    seconds: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """The bytes of both characters where `blob[starts:first_ends]` and `blob[seconds:ends]` meet: uint8 (n, 6).

    Only pairs of characters of three bytes, as far as the two strings have them. Bytes that they do not have are 0.
    """
    data = np.frombuffer(blob + bytes(3), dtype=np.uint8)
    met = (starts < first_ends) & (seconds < ends)
    met[met] = data[seconds[met]] & 0xF0 == 0xE0
    starts, first_ends, seconds, ends = starts[met], first_ends[met], seconds[met], ends[met]
    six = np.zeros((len(starts), 6), dtype=np.uint8)
    for i in range(3):
        has = first_ends - starts > i
        six[has, 2 - i] = data[(first_ends - 1 - i)[has]]
        has = ends - seconds > i
        six[has, 3 + i] = data[(seconds + i)[has]]
    tails = six[:, 1:3]
    wide = ((tails & 0xC0 == 0x80) | (tails == 0)).all(axis=1) & ((six[:, 0] & 0xF0 == 0xE0) | (six[:, 0] == 0))
    found: NDArray[np.uint8] = six[wide & (six[:, 2] != 0)]
    return found
