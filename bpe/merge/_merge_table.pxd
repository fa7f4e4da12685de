"""What two neighbouring tokens make: the table of merges that encoding looks pairs up in."""

from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport uint64_t

cdef extern from "bpe/merge/_short_merge.h" nogil:
    const uint64_t NO_MERGE "BPE_NO_MERGE"
    ctypedef struct Slot "bpe_slot":
        uint64_t pair
        uint64_t merge
    ctypedef struct Pairs "bpe_pairs":
        const Slot* slots
        size_t mask
        const uint64_t* known
        size_t known_mask
        const uint64_t* of_bytes
    uint64_t pair_hash "bpe_pair_hash"(uint64_t pair)
    size_t known_word "bpe_known_word"(const Pairs* pairs, uint64_t hash)
    uint64_t known_bits "bpe_known_bits"(uint64_t hash)
    uint64_t find_pair "bpe_find_pair"(const Pairs* pairs, token_t left, token_t right)
    uint64_t find_bytes "bpe_find_bytes"(const Pairs* pairs, const byte_t* bytes)


cdef class PairTable:
    """The table and the memory that it lies in; filled once, then only read."""

    cdef Pairs pairs
    cdef object held          # the arrays behind the pointers

    cdef allocate(self, Py_ssize_t n)
    cdef int fetch(self, token_t left, token_t right) noexcept nogil
    cdef int insert(self, token_t left, token_t right, uint64_t merge) noexcept nogil
