"""The slices of a buffer: copying many to another one (strings that are joined, or put in another order), checks."""

import numpy as np

from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


def copy_slices(
    const byte_t[::1] blob,        # IN
    const int64_t[::1] starts,     # IN (n,)
    const int64_t[::1] sizes,      # IN (n,)
    const int64_t[::1] targets,    # IN (n,)
    byte_t[::1] out,               # OUT
):
    """Copy each slice `blob[starts[i]:starts[i] + sizes[i]]` to `out[targets[i]:]`.

    Raises:
        ValueError: for a slice that does not lie within `blob`, or does not fit within `out`; nothing is copied then.

    """
    cdef Py_ssize_t i, n = starts.shape[0], size = blob.shape[0], capacity = out.shape[0]
    cdef bint fits
    if sizes.shape[0] != n or targets.shape[0] != n:
        raise ValueError(f"there are {n} starts, {sizes.shape[0]} sizes and {targets.shape[0]} targets; give as many")
    for i in range(n):
        fits = 0 <= sizes[i] <= min(size, capacity)
        if not fits or not (0 <= starts[i] <= size - sizes[i] and 0 <= targets[i] <= capacity - sizes[i]):
            raise ValueError(
                f"slice {i} has {sizes[i]} bytes from {starts[i]} on, for {targets[i]}; it must lie within the {size} "
                f"bytes of blob, and fit within the {capacity} bytes of out"
            )
    if size == 0 or capacity == 0:
        return
    with nogil:
        for i in range(n):
            memcpy(&out[0] + targets[i], &blob[0] + starts[i], sizes[i])


def find_short_slices(const int64_t[::1] offsets, Py_ssize_t max_size):
    """Find the slices from `offsets[i]` to `offsets[i + 1]` that have 1 to `max_size` bytes: int64, ascending.

    For a few of many slices: no array of all sizes is made, which takes three times as long.
    """
    cdef Py_ssize_t i, n_found = 0, n = max(offsets.shape[0] - 1, 0)
    cdef int64_t[::1] found
    cdef uint64_t limit = max(max_size, <Py_ssize_t>0)
    for i in range(n):                                     # without a branch: one subtraction says both
        n_found += <uint64_t>offsets[i + 1] - <uint64_t>offsets[i] - 1 < limit
    found = indices = np.zeros(n_found, dtype=np.int64)
    n_found = 0
    for i in range(n):
        if n_found == found.shape[0]:
            break
        if <uint64_t>offsets[i + 1] - <uint64_t>offsets[i] - 1 < limit:
            found[n_found] = i
            n_found += 1
    return indices


def divides_buffer(const int64_t[::1] offsets, Py_ssize_t size, const uint8_t[::1] has_bytes):
    """Whether offsets divide a buffer of `size` bytes into slices, those that have bytes and others, which are empty.

    Slice i is from `offsets[i]` to `offsets[i + 1]`; it has bytes where `has_bytes[i]` is not 0.
    """
    cdef Py_ssize_t i, n = has_bytes.shape[0]
    if offsets.shape[0] != n + 1 or offsets[0] != 0 or offsets[n] != size:
        return False
    for i in range(n):
        if offsets[i] > offsets[i + 1] or (offsets[i] < offsets[i + 1]) != (has_bytes[i] != 0):
            return False
    return True
