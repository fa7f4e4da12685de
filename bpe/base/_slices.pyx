"""Copying many slices of one buffer to another: strings that are joined, or put in another order."""

from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t
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
