"""A tokenizer's merges, and merging a piece by them."""

from bpe.base._ids cimport Ids
from bpe.base._types cimport byte_t
from bpe.merge._merge_table cimport MergeTable
from bpe.merge._merging cimport SymbolTokens, Row, Scratch
from bpe.merge._token_tree cimport TokenTree

cdef class Merger:
    """The tables for merging; immutable."""

    cdef readonly object merges   # a MergeList
    cdef object symbols           # a SymbolTables, whose arrays the symbol tokens point to
    cdef MergeTable table
    cdef TokenTree tree           # None until `build_tree`
    cdef Py_ssize_t has_tree      # whether it is there; atomic
    cdef bint knows_tokens        # whether a token's own symbols tell what it is merged from
    cdef SymbolTokens symbol_tokens
    cdef SymbolTokens inner_symbol_tokens  # those of a part that is not the end of its word
    cdef bytes prefix             # the prefix and the suffix that the symbol tokens point to
    cdef bytes suffix
    cdef bint ranks_fit_row
    cdef bint drops_after_merging  # symbols without a token separate the others, and are left out after merging
    cdef readonly bint merges_unknown  # whether a merge has a token that stands for symbols outside the alphabet
    cdef readonly bint can_split  # whether a word may be split where no merge crosses: no symbol depends on others

    cdef int build_tree(self) except -1 nogil
    cdef int merge(
        self, const byte_t* piece, Py_ssize_t size, bint is_inner, Scratch* scratch, Ids* out, bint* unknown
    ) except -1 nogil
    cdef int merge_between_unknown(self, Py_ssize_t n, Scratch* scratch, Ids* out) except -1 nogil
    cdef bint fits_row(self, const byte_t* piece, Py_ssize_t size) noexcept nogil
    cdef void merge_together(
        self,
        const byte_t** pieces,    # IN (n,): the pieces, which fit rows
        const Py_ssize_t* sizes,  # IN (n,): their bytes
        size_t n,
        Row* rows,                # OUT (n,): the merged pieces
    ) noexcept nogil
