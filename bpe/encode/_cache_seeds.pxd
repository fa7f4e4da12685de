"""Words that are tokens: what every cache knows before any text has come."""

from bpe.base._types cimport byte_t, token_t
from bpe.encode._whole_words cimport WholeWords
from bpe.encode._word_cache cimport Cache
from bpe.merge._origins cimport Origins
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef struct Seed:             # a token on its way into a cache, or none where that is NULL
    Cache* cache
    uint64_t lo               # keys
    uint64_t hi
    token_t token
    bint middle


cdef class Seeds:
    """Which tokens are words, or parts of words, by themselves."""

    cdef byte_t[::1] kinds    # of each token: whether caches know it, and which
    cdef size_t counts[2][2]  # for the cache of words and that of earlier parts: short ones and middle ones
    cdef const byte_t[::1] blob
    cdef const int64_t[::1] offsets
    cdef const uint8_t[::1] ends
    cdef bint marked
    cdef Py_ssize_t mark_size

    cdef byte_t[::1] odd_tokens(self, size_t limit, const int[:, ::1] merges, const int[::1] ids)
    cdef int choose(self, Origins origins, const byte_t[::1] odd) noexcept
    cdef int leave_out(self, WholeWords words) noexcept
    cdef const byte_t* word_of(self, token_t token) noexcept nogil
    cdef Py_ssize_t size_of(self, token_t token) noexcept nogil
    cdef int sow(self, Cache* cache, Cache* earlier) except -1 nogil
    cdef int fetch(self, Seed* seed, token_t token) noexcept nogil
