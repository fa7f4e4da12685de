"""The content of the encoder's tables, computed from a vocabulary: seeds of the word cache, pairs of characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.merge.tables import MergeList, TokenBytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Kinds of seeds, and the longest word that is one.
NO_SEED, SEED, EARLIER_SEED = 0, 1, 2
MAX_KEYED_BYTES = 16


def _find_irregular_tokens(merges: MergeList, ends_word: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Find the tokens that have an end-of-word mark elsewhere than at their end: no text is encoded to them."""
    is_irregular = np.zeros(merges.limit, dtype=np.bool_)
    left, right = merges.pairs.T
    irregular_tokens = merges.results[(ends_word[left] != 0) | (ends_word[right] != ends_word[merges.results])]
    while len(irregular_tokens):  # as often as such tokens are merged again, which is hardly ever
        is_irregular[irregular_tokens] = True
        irregular_tokens = merges.results[(is_irregular[left] | is_irregular[right]) & ~is_irregular[merges.results]]
    return is_irregular


def classify_seeds(merges: MergeList, tokens: TokenBytes, reachable: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Classify tokens: words on their own (SEED), or parts that do not end a word (EARLIER_SEED): uint8 (limit,).

    Only words of up to 16 bytes that do not end in 0xFF have a key. `reachable` tells which tokens merging their own
    bytes gives.
    """
    sizes, is_seed = np.diff(tokens.offsets), reachable != 0
    kinds = np.full(merges.limit, SEED, dtype=np.uint8)
    if tokens.ends_word is not None:
        sizes = sizes - np.where(tokens.ends_word, tokens.mark_size, 0)
        is_seed &= ~_find_irregular_tokens(merges, tokens.ends_word)
        kinds[tokens.ends_word == 0] = EARLIER_SEED
    is_seed &= (sizes > 0) & (sizes <= MAX_KEYED_BYTES)
    last_bytes = np.frombuffer(tokens.blob, dtype=np.uint8)[(tokens.offsets[:-1] + sizes - 1)[is_seed]]
    is_seed[is_seed] = last_bytes != 0xFF
    return np.where(is_seed, kinds, NO_SEED).astype(np.uint8)


def list_merge_pairs(pairs: NDArray[np.int32], blob: bytes, offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
    """List the pair of characters around each merge, as `_list_pairs_between` does.

    The pairs inside a token are those inside its two parts and the one between them, so these are all pairs inside
    tokens.
    """
    # Most merges are of other characters: what their right token begins with tells it for a sixth of the time.
    starts_wide_char = np.frombuffer(blob + b"\0", dtype=np.uint8)[offsets[:-1]] & 0xF0 == 0xE0
    left, right = pairs[starts_wide_char[pairs[:, 1]]].T
    return _list_pairs_between(blob, offsets[left], offsets[left + 1], offsets[right], offsets[right + 1])


def list_word_pairs(blob: bytes, offsets: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.uint8]:
    """List all pairs of characters inside some of the words `blob[offsets[i]:offsets[i + 1]]`."""
    starts, ends = offsets[words], offsets[words + 1]
    sizes = ends - starts
    word_indices = np.repeat(np.arange(len(words)), sizes)
    positions = np.arange(len(word_indices)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[word_indices]
    is_inside = positions > starts[word_indices]
    positions, word_indices = positions[is_inside], word_indices[is_inside]
    return _list_pairs_between(blob, starts[word_indices], positions, positions, ends[word_indices])


def _list_pairs_between(
    blob: bytes,
    starts: NDArray[np.int64],
    first_ends: NDArray[np.int64],
    second_starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """List the characters that meet where `blob[second_starts:ends]` follows `blob[starts:first_ends]`: uint8 (n, 6).

    Only pairs of characters of three bytes, as far as the two strings have them. Bytes that they do not have are 0.
    """
    data = np.frombuffer(blob + bytes(3), dtype=np.uint8)
    is_pair = (starts < first_ends) & (second_starts < ends)
    is_pair[is_pair] = data[second_starts[is_pair]] & 0xF0 == 0xE0
    starts, first_ends, second_starts, ends = (bound[is_pair] for bound in (starts, first_ends, second_starts, ends))
    pair_bytes = np.zeros((len(starts), 6), dtype=np.uint8)
    for i in range(3):
        has_byte = first_ends - starts > i
        pair_bytes[has_byte, 2 - i] = data[(first_ends - 1 - i)[has_byte]]
        has_byte = ends - second_starts > i
        pair_bytes[has_byte, 3 + i] = data[(second_starts + i)[has_byte]]
    first_tails = pair_bytes[:, 1:3]
    is_three_byte_pair = ((first_tails & 0xC0 == 0x80) | (first_tails == 0)).all(axis=1) & (
        (pair_bytes[:, 0] & 0xF0 == 0xE0) | (pair_bytes[:, 0] == 0)
    )
    pairs: NDArray[np.uint8] = pair_bytes[is_three_byte_pair & (pair_bytes[:, 2] != 0)]
    return pairs
