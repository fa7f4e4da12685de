"""What two neighbouring tokens make: the table of merges that encoding looks pairs up in."""

from bpe._core.memory cimport mix
from bpe._core.types cimport NO_TOKEN, byte_t, token_t
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #define BPE_NO_MERGE UINT64_MAX
    """
    const uint64_t NO_MERGE "BPE_NO_MERGE"   # a free slot of the table; as a merge, none

cdef struct Slot:
    uint64_t pair             # left << 32 | right, or NO_MERGE where the slot is free
    uint64_t merge            # rank << 32 | id of the token that they make

cdef struct Pairs:
    const Slot* slots         # open addressing, a power of two of them, at most half of them used
    size_t mask
    const uint64_t* known     # a bit per hash of a pair that has a merge: most pairs have none, and this stays near
    size_t known_mask
    const uint64_t* of_bytes  # the merge of two bytes, by the first << 8 | the second; NULL in a character model


cdef inline uint64_t pair_hash(uint64_t pair) noexcept nogil:
    return mix(pair ^ <uint64_t>0xA0761D6478BD642F, <uint64_t>0x9E3779B97F4A7C15)


cdef inline uint64_t find_pair(const Pairs* pairs, token_t left, token_t right) noexcept nogil:
    """What two tokens make: rank << 32 | id, or NO_MERGE."""
    cdef uint64_t pair = <uint64_t>left << 32 | right, hashed = pair_hash(pair)
    cdef size_t at = hashed >> 32 & pairs.known_mask
    if not pairs.known[at >> 6] >> (at & 63) & 1:
        return NO_MERGE
    at = hashed & pairs.mask
    while pairs.slots[at].pair != pair:
        if pairs.slots[at].pair == NO_MERGE:
            return NO_MERGE
        at = (at + 1) & pairs.mask
    return pairs.slots[at].merge


cdef class PairTable:
    """The table and the memory that it lies in; filled once, then only read."""

    cdef Pairs pairs
    cdef object held          # the arrays behind the pointers

    cdef allocate(self, Py_ssize_t n)
    cdef int insert(self, token_t left, token_t right, uint64_t merge) noexcept nogil
