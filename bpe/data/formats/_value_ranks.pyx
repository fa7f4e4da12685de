"""Numbers to their ranks by frequency: a dictionary of distinct numbers, and indices of 16 bits, without the GIL."""

import numpy as np

from bpe.base._memory cimport check_allocated
from libc.stdint cimport uint16_t, uint32_t
from libc.stdlib cimport calloc, free

cdef enum:
    MAX_DISTINCT = 1 << 16
    MAX_RANKED_COUNT = 4095   # numbers that are more frequent are 128 of 2**19 at most, and are in their own order
    TABLE_ENTRIES = 8         # of the table of counts for each number, at most


def rank_values(const uint32_t[::1] values not None):
    """Rank numbers by how often they occur: (the distinct numbers, uint32; the index of each number in them, uint16).

    Equally frequent numbers are in ascending order. Cost: linear, also in the largest number.

    Returns:
        None for more than 65,536 distinct numbers, or more than half as many as there are; for no numbers; and where
        the largest is more than eight times their number.

    Example:
        >>> rank_values(np.array([7, 5, 5, 5], dtype=np.uint32))
        (array([5, 7], dtype=uint32), array([1, 0, 0, 0], dtype=uint16))

    """
    cdef Py_ssize_t n = values.shape[0], n_distinct = 0, i
    cdef Py_ssize_t[MAX_RANKED_COUNT + 1] starts           # of the numbers of a count, in the order of their ranks
    cdef uint32_t* ranks = NULL                            # first counts
    cdef uint32_t largest = 0
    for i in range(n):
        largest = max(largest, values[i])
    if n == 0 or n > 0xFFFFFFFF or largest > TABLE_ENTRIES * n:
        return None
    ranks = <uint32_t*>check_allocated(calloc(largest + 1, sizeof(uint32_t)), largest + 1, b"counts")
    try:
        with nogil:
            n_distinct = count_values(&values[0], n, ranks, largest, starts)
        if n_distinct > min(MAX_DISTINCT, n // 2):
            return None
        dictionary, indices = np.empty(n_distinct, dtype=np.uint32), np.empty(n, dtype=np.uint16)
        fill_ranks(values, ranks, largest, starts, dictionary, indices)
        return dictionary, indices
    finally:
        free(ranks)


cdef Py_ssize_t count_values(
    const uint32_t* values, Py_ssize_t n, uint32_t* counts, uint32_t largest, Py_ssize_t* starts
) noexcept nogil:
    """Count numbers, and find where those of each count start among the ranks; returns how many are distinct."""
    cdef Py_ssize_t n_before = 0, n_equal, i
    for i in range(n):
        counts[min(values[i], largest)] += 1               # another thread may write to the numbers
    for i in range(MAX_RANKED_COUNT + 1):
        starts[i] = 0
    for i in range(<Py_ssize_t>largest + 1):
        starts[min(counts[i], <uint32_t>MAX_RANKED_COUNT)] += 1
    for i in range(MAX_RANKED_COUNT, 0, -1):
        n_equal, starts[i] = starts[i], n_before
        n_before += n_equal
    return n_before


cdef int fill_ranks(
    const uint32_t[::1] values, uint32_t* ranks, uint32_t largest, Py_ssize_t* starts, uint32_t[::1] dictionary,
    uint16_t[::1] indices,
) except -1:
    """Write the dictionary, and replace counts by ranks and numbers by these."""
    cdef Py_ssize_t i, count
    with nogil:
        for i in range(<Py_ssize_t>largest + 1):
            count = min(ranks[i], <uint32_t>MAX_RANKED_COUNT)
            if count:
                ranks[i] = <uint32_t>starts[count]
                dictionary[starts[count]] = <uint32_t>i
                starts[count] += 1
        for i in range(values.shape[0]):
            indices[i] = <uint16_t>ranks[min(values[i], largest)]
    return 0
