"""Words that one thread has worked out, for the caches of others."""

from bpe.base._ids cimport Ids
from bpe.base._types cimport byte_t, token_t
from bpe.encode._word_cache cimport Cache
from libc.stdint cimport uint32_t, uint64_t

cdef struct Word:
    uint64_t lo               # its keys; of a long word, the hash
    uint64_t hi
    uint32_t size             # in bytes
    uint32_t at               # where a long word's bytes begin in `bytes`
    uint32_t first            # where its ids begin in `ids`
    uint32_t n

cdef struct Words:
    Word* words
    size_t n
    size_t room
    Ids ids
    byte_t* bytes
    size_t n_bytes
    size_t bytes_room
    const Cache* known        # the cache that has them, since its thread has worked them out


cdef int note(
    Words* words, const byte_t* word, Py_ssize_t size, uint64_t lo, uint64_t hi, const token_t* ids, size_t n
) except -1 nogil

cdef bint copy_words(Words* copy, const Words* words) noexcept nogil

cdef void free_words(Words* words) noexcept nogil

cdef int learn(Cache* cache, const Words* words) except -1 nogil
