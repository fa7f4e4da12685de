"""A tokenizer's merges, and which way a piece is merged by them."""

from bpe.base._ids cimport Ids
from bpe.base._types cimport byte_t
from bpe.merge._merge_table cimport PairTable
from bpe.merge._merging cimport Alphabet, Scratch
from bpe.merge._origins cimport Origins

cdef class Merger:
    """The tables that merging needs; immutable."""

    cdef PairTable table
    cdef Origins origins
    cdef Alphabet alphabet
    cdef Alphabet unmarked    # the same for a part that is not the end of its word
    cdef bint small_ranks
    cdef object held          # the arrays that the alphabet points into

    cdef int merge(
        self, const byte_t* piece, Py_ssize_t size, bint earlier, Scratch* scratch, Ids* out, bint* unknown
    ) except -1 nogil
