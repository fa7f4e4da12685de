"""Words that are tokens, which every word table but the first has from the start."""

from bpe.base._types cimport byte_t, token_t
from bpe.encode._unmerged_words cimport UnmergedWords
from bpe.encode._word_cache cimport SharedWordTable
from bpe.merge._merger cimport Merger
from libc.stdint cimport int64_t, uint8_t


cdef class CacheSeeds:
    """The tokens that are words, or parts of words, on their own."""

    cdef bint are_chosen
    cdef byte_t[::1] kinds    # for each token: NO_SEED, or the table that it is entered in
    cdef size_t n_seeds
    cdef const byte_t[::1] blob
    cdef const int64_t[::1] offsets
    cdef const uint8_t[::1] ends
    cdef bint marks_word_ends
    cdef Py_ssize_t mark_size
    cdef Merger merger
    cdef UnmergedWords unmerged_words  # words that are no seeds, or None

    cdef int choose(self) except -1
    cdef int sow(self, SharedWordTable table) noexcept nogil
