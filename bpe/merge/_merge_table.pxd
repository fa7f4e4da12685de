"""The table of merges, by their two tokens."""

from bpe.base._types cimport token_t
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "bpe/merge/_short_merge.h" nogil:
    const uint64_t NO_MERGE "BPE_NO_MERGE"
    ctypedef struct Merges "bpe_merges":
        const uint64_t* slots
        size_t mask
        int token_bits
        int index_bits
        uint32_t first_result
        const uint64_t* merges
        const uint64_t* pairs
        const uint64_t* filter
        size_t filter_mask
        const uint64_t* byte_pair_merges
    uint64_t pair_hash "bpe_pair_hash"(uint64_t pair)
    uint64_t make_pair_key "bpe_pair_key"(const Merges* merges, uint64_t pair)
    size_t find_slot "bpe_find_slot"(const Merges* merges, uint64_t pair, uint64_t hash)
    size_t get_filter_word "bpe_filter_word"(const Merges* merges, uint64_t hash)
    uint64_t filter_bits "bpe_filter_bits"(uint64_t hash)
    uint64_t get_merge "bpe_get_merge"(const Merges* merges, uint64_t merge_index)
    uint64_t find_pair "bpe_find_pair"(const Merges* merges, token_t left, token_t right)


cdef class MergeTable:
    """The table and its memory; complete when it is constructed, and then only read."""

    cdef Merges merges
    cdef uint64_t* block      # all memory: the slots, the filter, and the three arrays below
    cdef uint64_t* byte_pair_merges  # filled by `index_bytes`
    cdef uint64_t* pairs      # NULL, or as in `merges`
    cdef uint64_t* ranks_and_results  # NULL, or `merges.merges`
    cdef size_t block_size    # bytes

    cdef int prefetch_slot(self, token_t left, token_t right) noexcept nogil
    cdef int insert(self, token_t left, token_t right, uint64_t merge_index) noexcept nogil
