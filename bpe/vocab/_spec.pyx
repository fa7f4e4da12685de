"""Check the merges of a tokenizer against its vocabulary.

The other checks of a spec: `spec.py`.
"""

from bpe.base._bounds cimport check_offsets
from bpe.base._memory cimport low_bytes, prefetch
from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    PREFETCH_AHEAD = 12       # merges between prefetching the offsets of their tokens, then the tokens, and comparing


def find_wrong_merge(
    const int[:, ::1] merges, const int[::1] ids, const byte_t[::1] blob, const int64_t[::1] offsets,
    const uint8_t[::1] is_checked,
):
    """Find the first merge whose result is not spelled as its parts, one after the other; -1 if there is none.

    Token i is `blob[offsets[i]:offsets[i + 1]]`. A merge is checked if `is_checked` of all its three tokens;
    all ids are within these arrays.
    """
    cdef Py_ssize_t i, ahead, n = merges.shape[0], n_within = 0, limit = is_checked.shape[0]
    cdef const byte_t* end
    cdef const byte_t* joined
    cdef int64_t n_left, n_right
    cdef token_t left, right, result
    check_offsets(offsets, limit, blob.shape[0])
    if n and merges.shape[1] != 2:
        raise ValueError(f"merges have {merges.shape[1]} tokens; they must have 2")
    if blob.shape[0] == 0 or ids.shape[0] != n:
        return 0 if n else -1
    end = &blob[0] + blob.shape[0]
    with nogil:
        while n_within < n and max(
            max(<token_t>merges[n_within, 0], <token_t>merges[n_within, 1]), <token_t>ids[n_within]
        ) < <size_t>limit:
            n_within += 1
        for i in range(n_within):
            ahead = min(i + 2 * PREFETCH_AHEAD, n_within - 1)
            prefetch(&offsets[merges[ahead, 0]])
            prefetch(&offsets[merges[ahead, 1]])
            ahead = min(i + PREFETCH_AHEAD, n_within - 1)
            prefetch(&blob[0] + offsets[merges[ahead, 0]])
            prefetch(&blob[0] + offsets[merges[ahead, 1]])
            left, right, result = merges[i, 0], merges[i, 1], ids[i]
            if not is_checked[left] & is_checked[right] & is_checked[result]:
                continue
            n_left, n_right = offsets[left + 1] - offsets[left], offsets[right + 1] - offsets[right]
            joined = &blob[0] + offsets[result]
            if (
                offsets[result + 1] - offsets[result] != n_left + n_right
                or not are_equal(joined, &blob[0] + offsets[left], n_left, end)
                or not are_equal(joined + n_left, &blob[0] + offsets[right], n_right, end)
            ):
                break
        else:
            i = n_within if n_within < n else -1
    return i


cdef inline bint are_equal(const byte_t* a, const byte_t* b, Py_ssize_t size, const byte_t* end) noexcept nogil:
    """Whether two strings in a buffer with this end are equal; most are short."""
    cdef uint64_t a_word, b_word
    if size > 8 or max(a, b) > end - 8:
        return memcmp(a, b, size) == 0
    memcpy(&a_word, a, 8)
    memcpy(&b_word, b, 8)
    return (a_word ^ b_word) & low_bytes[8 + size] == 0
