"""Long pieces in linear time: which tokens may stand side by side, and the longest that fit."""

from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_table cimport Pairs, PairTable
from bpe.merge._merging cimport Alphabet, Ids, Scratch
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


cdef struct Edge:
    uint64_t step             # node << 32 | symbol, or all bits set where the edge is free
    uint32_t node             # where it leads
    uint32_t unused


cdef class Backtracker:
    """All tokens as a trie of symbols."""

    cdef Origins origins
    cdef PairTable table
    cdef Edge* edges
    cdef size_t mask
    cdef token_t* token_at    # of a node, or NO_TOKEN
    cdef uint32_t* parent
    cdef uint32_t n_nodes
    cdef uint32_t* node_of    # of a token, 0 for none

    cdef uint32_t step(self, uint32_t node, token_t symbol) noexcept nogil
    cdef uint32_t add(self, uint32_t node, token_t symbol) noexcept nogil
    cdef token_t longest(
        self, const token_t* symbols, const uint32_t* byte_ids, const byte_t* piece, Py_ssize_t n
    ) noexcept nogil
    cdef token_t shorter(self, token_t token) noexcept nogil
    cdef int encode_known(
        self, const token_t* symbols, const uint32_t* byte_ids, const byte_t* piece, Py_ssize_t n, Scratch* scratch,
        Ids* out,
    ) except -1 nogil
    cdef int encode(
        self, const Alphabet* alphabet, const byte_t* piece, Py_ssize_t size, Scratch* scratch, Ids* out
    ) except -1 nogil
