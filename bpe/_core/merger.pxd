"""A tokenizer's merges, and which way a piece is merged by them."""

from bpe._core.backtrack cimport Backtracker, Origins
from bpe._core.merging cimport Alphabet, Ids, Scratch
from bpe._core.pairtable cimport PairTable
from bpe._core.types cimport byte_t

cdef class Merger:
    """The tables that merging needs; immutable but for what is built late."""

    cdef PairTable table
    cdef Origins origins
    cdef Backtracker tracker  # built when a long piece comes
    cdef Alphabet alphabet
    cdef Alphabet unmarked    # the same for a part that is not the end of its word
    cdef bint small_ranks
    cdef object held          # the arrays that the alphabet points into
    cdef object ids, symbols

    cdef int merge(
        self, const byte_t* piece, Py_ssize_t size, bint earlier, Scratch* scratch, Ids* out, bint* unknown
    ) except -1 nogil
    cdef int merge_long(
        self, const byte_t* piece, Py_ssize_t size, Py_ssize_t n, Scratch* scratch, Ids* out
    ) except -1 nogil
    cdef int build_tracker(self) except -1
