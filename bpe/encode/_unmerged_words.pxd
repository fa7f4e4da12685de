"""Words that are one token whatever the merges say."""

from bpe.base._string_index cimport StringIndex
from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport uint32_t

cdef class UnmergedWords:
    """The unmerged words; of two with the same bytes, the first is found."""

    cdef StringIndex words
    cdef const uint32_t[::1] ids

    cdef token_t find(self, const byte_t* word, Py_ssize_t size) noexcept nogil
