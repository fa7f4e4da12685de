"""What a kernel asks of offsets that come from outside, before it reads by them."""

from libc.stdint cimport int64_t


cdef inline int check_spans(
    const int64_t[::1] starts, const int64_t[::1] ends, Py_ssize_t size, bint empty=True, bint ordered=False
) except -1:
    """Raise ValueError unless every `starts[i]:ends[i]` lies within `size` bytes.

    Empty spans are an error unless `empty`. If `ordered`, each must begin at or after the end of the one before it.
    """
    cdef Py_ssize_t i
    if starts.shape[0] != ends.shape[0]:
        raise ValueError(f"there are {starts.shape[0]} starts and {ends.shape[0]} ends; they must be as many")
    for i in range(starts.shape[0]):
        if not 0 <= starts[i] <= ends[i] <= size or (starts[i] == ends[i] and not empty):
            raise ValueError(
                f"span {i} is from {starts[i]} to {ends[i]}; it must be within the {size} bytes of the text"
                + ("" if empty else " and not empty")
            )
        if ordered and i and starts[i] < ends[i - 1]:
            raise ValueError(
                f"span {i} starts at {starts[i]}, before the end of the one before it, {ends[i - 1]}; spans must be in "
                "the order of the text, without overlaps"
            )
    return 0


cdef inline int check_offsets(const int64_t[::1] offsets, Py_ssize_t n, Py_ssize_t size) except -1:
    """Raise ValueError unless n strings lie within `size` bytes, one after the other."""
    cdef Py_ssize_t i
    cdef int64_t before = 0
    if offsets.shape[0] != n + 1:
        raise ValueError(f"there are {offsets.shape[0]} offsets for {n} strings; there must be one more than strings")
    for i in range(n + 1):
        if not before <= offsets[i] <= size:
            raise ValueError(
                f"offset {i} is {offsets[i]} after {before}; offsets must rise, up to the {size} bytes of all strings"
            )
        before = offsets[i]
    return 0
