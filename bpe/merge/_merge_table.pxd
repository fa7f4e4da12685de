"""The table of merges, by their two tokens."""

from bpe.base._types cimport token_t
from libc.stdint cimport uint64_t

cdef extern from "bpe/merge/_short_merge.h" nogil:
    const uint64_t NO_MERGE "BPE_NO_MERGE"
    ctypedef struct Slot "bpe_slot":
        uint64_t pair
        uint64_t merge
    ctypedef struct Merges "bpe_merges":
        const Slot* slots
        size_t mask
        const uint64_t* filter
        size_t filter_mask
        const uint64_t* of_bytes
    uint64_t pair_hash "bpe_pair_hash"(uint64_t pair)
    size_t filter_word "bpe_filter_word"(const Merges* merges, uint64_t hash)
    uint64_t filter_bits "bpe_filter_bits"(uint64_t hash)
    uint64_t find_pair "bpe_find_pair"(const Merges* merges, token_t left, token_t right)


cdef class MergeTable:
    """The table and its memory; filled once, then only read."""

    cdef Merges merges
    cdef list arrays          # that `merges` points into

    cdef allocate(self, Py_ssize_t n)
    cdef int prefetch_slot(self, token_t left, token_t right) noexcept nogil
    cdef int insert(self, token_t left, token_t right, uint64_t merge) noexcept nogil
