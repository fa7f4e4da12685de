"""The parts of each token, and which two tokens may be adjacent."""

from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_table cimport Merges
from libc.stdint cimport uint32_t, uint64_t

cdef struct TokenParts:       # the two tokens that a token was merged from
    uint32_t left
    uint32_t right
    uint32_t rank_plus_one    # 0 for a symbol, else the rank of its merge + 1
    uint32_t size             # in symbols

cdef class TokenTree:
    """The parts of all tokens."""

    cdef TokenParts* parts
    cdef byte_t* merges_to_itself  # whether merging a token's own symbols gives the token
    cdef size_t limit         # the length of the arrays: the largest id + 1
    cdef readonly bint is_ordered


cdef bint is_valid_pair(
    const Merges* merges, const TokenParts* parts, token_t left_token, token_t right_token, uint64_t rank_limit
) noexcept nogil
