"""Whole words that are a token whatever the merges say."""

from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport int64_t, uint32_t

cdef class WholeWords:
    """A hash table of whole words; of two with the same bytes, the first is found."""

    cdef uint32_t* slots      # index + 1 of a word by the hash of its bytes, 0 where empty
    cdef size_t mask
    cdef const byte_t[::1] blob
    cdef const int64_t[::1] offsets
    cdef const uint32_t[::1] ids

    cdef token_t find(self, const byte_t* word, Py_ssize_t size) noexcept nogil
