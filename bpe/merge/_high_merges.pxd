"""Applying the merges of a vocabulary's second stage to tokens of its first."""

from bpe.base._ids cimport Ids
from bpe.base._types cimport token_t
from bpe.merge._merge_table cimport MergeTable
from bpe.merge._merging cimport Scratch
from bpe.merge._token_tree cimport TokenTree
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "bpe/merge/_high_merges.h" nogil:
    ctypedef struct HighTable "bpe_high_table":
        uint64_t* slots
        uint32_t* buckets
        int slot_shift
        int bucket_shift
    const token_t PRETOKEN_BREAK "BPE_PRETOKEN_BREAK"  # among low tokens: the end of a pretoken, which no merge crosses


cdef class HighMerges:
    """The tables; immutable."""

    cdef readonly Py_ssize_t n_merges
    cdef HighTable table      # the pairs that merge, and the pairs of low tokens that some token has side by side
    cdef tuple arrays         # the arrays that `table` points into
    cdef MergeTable merges    # the high merges, for rows of any length
    cdef TokenTree tree       # the tree of tokens, with low tokens as symbols

    cdef size_t merge(
        self,
        const token_t* low,    # IN (n,)
        size_t n,
        size_t* n_in_open_run,  # IN and OUT: low tokens at the start known to be one run, still open
        bint text_ends,        # whether their text ends after them
        Scratch* scratch,
        Ids* out,              # IN and OUT: the ids are appended
    ) except? 0xFFFFFFFF nogil
