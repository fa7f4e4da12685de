"""The values of pieces: from a cache, or by merging."""

from bpe.base._types cimport byte_t
from bpe.encode._chunk cimport EARLIER
from bpe.encode._whole_words cimport WholeWords
from bpe.encode._word_cache cimport Cache
from bpe.encode._workspace cimport Workspace
from bpe.merge._merger cimport Merger
from libc.stdint cimport uint64_t

cdef class Values:
    """What the ids of a piece come from. Immutable when the whole words are in."""

    cdef Merger merger
    cdef WholeWords whole     # None where there are none
    cdef bint marked          # the end of a word is marked, in one way or the other

    cdef int look_up(self, Workspace space) except -1 nogil
    cdef int find_other(self, Workspace space, size_t i, uint64_t* value) except -1 nogil
    cdef int work_out(
        self, Workspace space, const byte_t* word, Py_ssize_t size, int part, uint64_t lo, uint64_t hi, uint64_t* value
    ) except -1 nogil  # no `except? 0`, which takes the GIL at each 0


cdef inline int merge_piece(
    Values values, Workspace space, const byte_t* piece, Py_ssize_t size, int part
) except -1 nogil:
    """Emit the ids that merging makes of a piece, which is not empty."""
    return values.merger.merge(piece, size, part == EARLIER, &space.scratch, &space.out, &space.unknown)


cdef inline Cache* cache_of(Values values, Workspace space, int part) noexcept nogil:
    """The cache for pieces, or for parts of them that have no mark where the last ones have."""
    return &space.earlier if values.marked and part == EARLIER else &space.cache
