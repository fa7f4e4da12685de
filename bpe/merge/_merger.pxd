"""A tokenizer's merges, and which way a piece is merged by them."""

from bpe.base._types cimport byte_t
from bpe.merge._backtrack cimport Backtracker, Origins
from bpe.merge._merge_table cimport PairTable
from bpe.merge._merging cimport Alphabet, Ids, Scratch

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
