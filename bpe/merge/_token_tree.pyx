"""The parts of each token of a vocabulary, and which two tokens may be adjacent.

What merging gives for a text is the only sequence of tokens in which every two adjacent tokens are a valid pair:
merging their joined bytes gives the two again. `is_valid_pair` checks this in a few steps, by undoing the merges of
both tokens. It requires that each token has one merge and ranks worse than its parts, as training ensures. The method
is that of GitHub's `bpe` crate. `_long_merge.pyx` merges long pieces with it.
"""

from bpe.base._memory cimport check_allocated
from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_table cimport Merges, MergeTable, find_pair
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    MAX_SIZE = 0x7FFFFFFF     # symbols of a token, at most


cdef class TokenTree:

    def __cinit__(self, MergeTable table not None, const uint32_t[::1] symbols, merges):
        """Find the parts of each token, and which tokens are reachable.

        Args:
            table: a table of the merges.
            symbols: the tokens of single symbols.
            merges: a `MergeList`; with `unreachable` None, these tokens are found here.

        `ordered` is whether merges have different ranks and results, and each ranks worse than those that made its
        parts; if not, nothing is known of tokens.

        """
        cdef const int[:, ::1] pairs = merges.pairs
        cdef const int[::1] results = merges.results, ranks = merges.ranks, unreachable
        cdef Py_ssize_t n = pairs.shape[0], i
        cdef token_t left_token, right_token, result
        cdef bint has_unreachable = merges.unreachable is not None
        self.limit = merges.limit
        self.parts = <TokenParts*>check_allocated(
            calloc(self.limit + 1, sizeof(TokenParts)), self.limit, b"tokens and their parts"
        )
        self.reachable = <byte_t*>check_allocated(calloc(self.limit + 1, 1), self.limit, b"tokens and their parts")
        with nogil:
            for i in range(symbols.shape[0]):
                self.reachable[symbols[i]] = 1
                self.parts[symbols[i]].size = 1
            self.ordered = True
            for i in range(n):
                if not self.ordered:
                    break
                left_token, right_token, result = <token_t>pairs[i, 0], <token_t>pairs[i, 1], <token_t>results[i]
                if self.parts[result].rank_plus_one or self.reachable[result] or (i and ranks[i] <= ranks[i - 1]):
                    self.ordered = False                   # two merges make it, or it is a symbol too; or ranks tie
                self.parts[result] = TokenParts(
                    left=left_token, right=right_token, rank_plus_one=<uint32_t>ranks[i] + 1, size=0
                )
            for i in range(n):
                if not self.ordered:
                    break
                left_token, right_token, result = <token_t>pairs[i, 0], <token_t>pairs[i, 1], <token_t>results[i]
                if self.parts[result].rank_plus_one <= max(
                    self.parts[left_token].rank_plus_one, self.parts[right_token].rank_plus_one
                ):
                    self.ordered = False
                if <uint64_t>self.parts[left_token].size + self.parts[right_token].size > MAX_SIZE:
                    self.ordered = False
                    break
                self.parts[result].size = self.parts[left_token].size + self.parts[right_token].size
                self.reachable[result] = has_unreachable or (
                    self.reachable[left_token] and self.reachable[right_token]
                    and is_valid_pair(&table.merges, self.parts, left_token, right_token, <uint64_t>ranks[i])
                )
        if has_unreachable and self.ordered:
            unreachable = merges.unreachable
            for i in range(unreachable.shape[0]):
                if <size_t>unreachable[i] < self.limit:
                    self.reachable[unreachable[i]] = 0

    def __dealloc__(self):
        free(self.parts)
        free(self.reachable)


cdef bint is_valid_pair(
    const Merges* merges, const TokenParts* parts, token_t left_token, token_t right_token, uint64_t rank_limit
) noexcept nogil:
    """Whether no merge of a rank below `rank_limit` would join symbols across the position between two tokens.

    Undo the merges of both tokens, the last one first: the part that is left at the position was there before. Of
    two merges of equal rank the left one was first. `rank_limit` is NO_TOKEN for any rank. O(depth of the tokens).

    Worked example: `low` is merged from lo + w, and later `er` from e + r. No merge may join low + er. Undo `er`: no
    merge before `er` may join low + e. Undo `low`: no merge before `low` may join w + e. Symbols remain: valid.
    """
    cdef const TokenParts* left_parts
    cdef const TokenParts* right_parts
    while True:
        if find_pair(merges, left_token, right_token) >> 32 < rank_limit:  # NO_MERGE >> 32 is no rank below any limit
            return False
        left_parts, right_parts = &parts[left_token], &parts[right_token]
        if left_parts.rank_plus_one > right_parts.rank_plus_one:
            rank_limit = left_parts.rank_plus_one - 1
            left_token = left_parts.right
        elif right_parts.rank_plus_one:
            rank_limit = right_parts.rank_plus_one         # a merge of equal rank to its left was first
            right_token = right_parts.left
        else:
            return True
