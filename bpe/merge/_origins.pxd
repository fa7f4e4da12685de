"""How each token is made, and which two may be adjacent."""

from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_table cimport Pairs, PairTable
from libc.stdint cimport uint32_t, uint64_t

cdef extern from *:
    """
    #define BPE_NO_LIMIT UINT64_MAX
    """
    const uint64_t NO_LIMIT "BPE_NO_LIMIT"

cdef struct Parts:            # what a token is made of
    uint32_t left
    uint32_t right
    uint32_t order            # 0 for a symbol, else the rank of its merge + 1
    uint32_t size             # in symbols

cdef class Origins:
    """Of which two tokens each token is made, and by which rank."""

    cdef Parts* parts
    cdef byte_t* reached      # whether merging a token's own symbols gives the token
    cdef size_t limit         # of the arrays: one more than the greatest id
    cdef readonly bint ordered

    cdef bint side_by_side(self, const Pairs* pairs, token_t a, token_t b, uint64_t limit) noexcept nogil
