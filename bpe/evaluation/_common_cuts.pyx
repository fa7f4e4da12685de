"""Where blocks of text may end for several tokenizers at once.

A block ends where each of the tokenizers allows a cut, next to white space; it is then encoded for one after the other,
while it is in the cache.
"""

from bpe.base._memory cimport check_allocated
from bpe.base._types cimport byte_t
from bpe.encode._encoder cimport Encoder
from libc.stdlib cimport calloc, free

cdef enum:
    LOOKAHEAD_BYTES = 64      # bytes that show whether a position is a cut whatever follows
    MAX_TRIES = 64            # positions that are looked at for a cut


cdef inline bint is_white(byte_t byte) noexcept nogil:
    return byte == 32 or 9 <= byte <= 13


cdef bint is_cut(const Encoders* encoders, const byte_t* text, Py_ssize_t position) noexcept nogil:
    """Whether all tokenizers allow a cut; `LOOKAHEAD_BYTES` bytes after it can be read."""
    cdef Py_ssize_t i, end, split, sure_end = position + LOOKAHEAD_BYTES - 1
    for i in range(encoders.n):
        if (<Encoder>encoders.kernels[i]).find_last_split_in(text, position - 1, sure_end) < position:
            return False                                   # as nearly everywhere
        end, split = position, 0
        while split < position:
            end += 1
            split = (<Encoder>encoders.kernels[i]).find_last_split_in(text, position - 1, end)
        if split != position:
            return False
    return True


cdef Py_ssize_t find_block_end(void* encoders, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil:
    """The last position found after `low` where all tokenizers allow a cut of `text[:end]`, next to white space."""
    cdef Py_ssize_t position, n_tried = 0
    for position in range(end - LOOKAHEAD_BYTES, low, -1):
        if is_white(text[position - 1]) or is_white(text[position]):
            if is_cut(<const Encoders*>encoders, text, position):
                return position
            n_tried += 1
            if n_tried == MAX_TRIES:
                break
    return low


cdef class CommonCuts:
    """Where text may be cut for several tokenizers, and between words.

    Args:
        encoders: their `Encoder`s, at least one.

    """

    def __cinit__(self, encoders):
        cdef Encoder encoder
        cdef Py_ssize_t i
        self.kernels = tuple(encoders)
        self.encoders.n = len(self.kernels)
        self.encoders.kernels = <void**>check_allocated(
            calloc(self.encoders.n + 1, sizeof(void*)), self.encoders.n, b"addresses"
        )
        if not self.kernels:
            raise ValueError("encoders is empty; there must be at least one")
        for i in range(self.encoders.n):
            encoder = self.kernels[i]
            self.encoders.kernels[i] = <void*>encoder

    def __dealloc__(self):
        free(self.encoders.kernels)

    def find_last(self, const byte_t[::1] text, Py_ssize_t low):
        """The last position found after `low` where the text may be cut, whatever follows it; else `low`."""
        low = max(low, <Py_ssize_t>0)
        if text.shape[0] <= low:
            return low
        with nogil:
            low = find_block_end(&self.encoders, &text[0], low, text.shape[0])
        return low
