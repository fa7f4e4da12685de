"""StochasTok: splitting tokens at random into two tokens of the vocabulary.

A text's tokens are a linked list in two arrays, so that a random one is found, and split, in constant time:

    index      0    1    2    3               index      0    1    2    3
    token     the  low   er   -    split 1    token     the   l    er   ow
    next       1    2    -    -   ---------→  next       1    3    -    2

The next random number decides which index is tried: each of the present tokens is equally likely, whatever their order.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._random cimport next_random
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef int64_t split_text(
    uint32_t* tokens,         # IN OUT (n + draws,)
    uint32_t* next_index,     # OUT (n + draws,)
    int64_t n,
    int64_t draws,
    const int64_t* first,     # IN (n_ids + 1,): the splits of a token are from first[token] to before first[token + 1]
    const uint32_t* parts,    # IN (n_splits, 2)
    int64_t n_ids,
    uint64_t state,
) noexcept nogil:
    """Try to split a random token `draws` times; returns how many tokens there are then."""
    cdef int64_t i, index, split, _draw
    cdef uint32_t token
    for i in range(n):
        next_index[i] = <uint32_t>(i + 1)              # the last one's is never followed
    for _draw in range(draws):
        index = <int64_t>(next_random(&state) % <uint64_t>n)
        token = tokens[index]
        if token >= n_ids or first[token] == first[token + 1]:
            continue
        split = first[token] + <int64_t>(next_random(&state) % <uint64_t>(first[token + 1] - first[token]))
        tokens[index], tokens[n] = parts[2 * split], parts[2 * split + 1]
        next_index[n] = next_index[index]
        next_index[index] = <uint32_t>n
        n += 1
    return n


def split_randomly(
    const uint32_t[::1] ids,           # IN (offsets[-1],)
    const int64_t[::1] offsets,        # IN (n + 1,): of the texts
    const int64_t[::1] draws,          # IN (n,): how often a token of a text is tried
    const int64_t[::1] first,          # IN (n_ids + 1,)
    const uint32_t[:, ::1] parts,      # IN (first[-1], 2)
    uint64_t seed,                     # text i takes seed + i
):
    """Split tokens of texts at random; returns (uint32 ids, int64 offsets (n + 1,))."""
    cdef int64_t text, i, index, n, n_texts = draws.shape[0], n_ids = first.shape[0] - 1, n_written = 0
    cdef int64_t total = 0, longest = 1
    check_offsets(offsets, n_texts, ids.shape[0])
    check_offsets(first, n_ids, parts.shape[0])
    if parts.shape[1] != 2:
        raise ValueError(f"a split has {parts.shape[1]} parts; it must have 2")
    for text in range(n_texts):
        n = offsets[text + 1] - offsets[text]
        if not 0 <= draws[text] <= 0xFFFFFFFF - n or (draws[text] and not n):
            raise ValueError(
                f"text {text} has {n} tokens and {draws[text]} draws; there must be a token to draw from, and fewer "
                "than 2**32 tokens and draws together"
            )
        total += n + draws[text]
        longest = max(longest, n + draws[text])
    split_ids, split_offsets = np.empty(total, dtype=np.uint32), np.zeros(n_texts + 1, dtype=np.int64)
    cdef uint32_t[::1] tokens = np.empty(longest, dtype=np.uint32), next_index = np.empty(longest, dtype=np.uint32)
    cdef uint32_t[::1] out = split_ids
    cdef int64_t[::1] out_offsets = split_offsets
    with nogil:
        for text in range(n_texts):
            n = offsets[text + 1] - offsets[text]
            for i in range(n):
                tokens[i] = ids[offsets[text] + i]
            n = split_text(
                &tokens[0], &next_index[0], n, draws[text], &first[0], &parts[0, 0] if parts.shape[0] else NULL, n_ids,
                seed + <uint64_t>text,
            )
            index = 0
            for i in range(n):
                out[n_written + i] = tokens[index]
                index = next_index[index]
            n_written += n
            out_offsets[text + 1] = n_written
    return split_ids[:n_written].copy(), split_offsets
