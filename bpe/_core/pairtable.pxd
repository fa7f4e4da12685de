"""What two neighbouring tokens make: the table of merges that encoding looks pairs up in."""

from bpe._core.types cimport byte_t, token_t
from libc.stdint cimport uint16_t, uint32_t, uint64_t

cdef extern from "merging.h" nogil:
    const uint64_t NO_MERGE "BPE_NO_MERGE"
    ctypedef struct Slot "bpe_slot":
        uint64_t pair
        uint64_t merge
    const uint32_t NO_RANK "BPE_NO_RANK"
    ctypedef struct Bounds "bpe_bounds":
        uint16_t left
        uint16_t right
    ctypedef struct BytePair "bpe_byte_pair":
        uint32_t rank
        uint32_t made
        Bounds bounds
        uint32_t first
    ctypedef struct Pairs "bpe_pairs":
        const Slot* slots
        size_t mask
        const uint64_t* known
        size_t known_mask
        const BytePair* of_bytes
        const Bounds* bounds
    uint64_t pair_hash "bpe_pair_hash"(uint64_t pair)
    size_t known_word "bpe_known_word"(const Pairs* pairs, uint64_t hash)
    uint64_t known_bits "bpe_known_bits"(uint64_t hash)
    uint64_t find_pair "bpe_find_pair"(const Pairs* pairs, token_t left, token_t right)
    const BytePair* find_bytes "bpe_find_bytes"(const Pairs* pairs, const byte_t* bytes)


cdef extern from "rounds.h" nogil:
    const uint16_t NO_BOUND "BPE_NO_BOUND"
    uint16_t bound_of "bpe_bound_of"(uint32_t rank)


cdef class PairTable:
    """The table and the memory that it lies in; filled once, then only read."""

    cdef Pairs pairs
    cdef object held          # the arrays behind the pointers

    cdef allocate(self, Py_ssize_t n)
    cdef int fetch(self, token_t left, token_t right) noexcept nogil
    cdef int insert(self, token_t left, token_t right, uint64_t merge) noexcept nogil
