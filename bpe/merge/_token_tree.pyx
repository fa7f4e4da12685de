"""The parts of each token of a vocabulary, and which two tokens may be adjacent.

What merging gives for a text is the only sequence of tokens in which every two adjacent tokens are a valid pair:
merging their joined bytes gives the two again. `is_valid_pair` checks this in a few steps, by undoing the merges of
both tokens. It requires that each token has one merge and ranks worse than its parts, as training ensures. The method
is that of GitHub's `bpe` crate. `_long_merge.pyx` merges long pieces with it.
"""

from bpe.base._memory cimport check_allocated, prefetch
from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_table cimport Merges, MergeTable, find_pair
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    MAX_SIZE = 0x7FFFFFFF     # symbols of a token, at most
    PREFETCH_AHEAD = 16       # merges between prefetching the parts of their tokens and reading them


cdef class TokenTree:

    def __cinit__(self, MergeTable table not None, const uint32_t[::1] symbols, merges):
        """Find the parts of each token, and which tokens merge to themselves.

        Args:
            table: a table of the merges.
            symbols: the tokens of single symbols.
            merges: a `MergeList`; with `unmerged` None, these tokens are found here.

        `is_ordered` is whether merges have different ranks and results, and each ranks worse than those that made its
        parts; if not, nothing is known of tokens.

        """
        cdef const int[:, ::1] pairs = merges.pairs
        cdef const int[::1] results = merges.results, ranks = merges.rank_array, unmerged
        cdef Py_ssize_t n = pairs.shape[0], i, ahead
        cdef bint has_unmerged = merges.unmerged is not None
        self.limit = merges.limit
        self.parts = <TokenParts*>check_allocated(
            calloc(self.limit + 1, sizeof(TokenParts)), self.limit, b"tokens and their parts"
        )
        self.merges_to_itself = <byte_t*>check_allocated(
            calloc(self.limit + 1, 1), self.limit, b"tokens and their parts"
        )
        with nogil:
            for i in range(symbols.shape[0]):
                self.merges_to_itself[symbols[i]] = 1
                self.parts[symbols[i]].size = 1
            self.is_ordered = True
            for i in range(n):
                ahead = min(i + PREFETCH_AHEAD, n - 1)
                prefetch(&self.parts[pairs[ahead, 0]])
                prefetch(&self.parts[pairs[ahead, 1]])
                if (i and ranks[i] <= ranks[i - 1]) or not add_merge(
                    self, &table.merges, pairs[i, 0], pairs[i, 1], results[i], ranks[i], has_unmerged
                ):
                    self.is_ordered = False
                    break
        if has_unmerged and self.is_ordered:
            unmerged = merges.unmerged
            for i in range(unmerged.shape[0]):
                if <size_t>unmerged[i] < self.limit:
                    self.merges_to_itself[unmerged[i]] = 0

    def __dealloc__(self):
        free(self.parts)
        free(self.merges_to_itself)


cdef inline bint add_merge(
    TokenTree tree, const Merges* merges, token_t left_token, token_t right_token, token_t result, uint32_t rank,
    bint is_unmerged_known,
) noexcept nogil:
    """Add the parts of a token, after those of all better ranks.

    False if it is a symbol, has parts already, or was a part of a token itself before: `right`, which a token without
    parts does not use, marks those.
    """
    cdef TokenParts* left = &tree.parts[left_token]
    cdef TokenParts* right = &tree.parts[right_token]
    cdef TokenParts* made = &tree.parts[result]
    if left.size == 0 and left.rank_plus_one == 0:
        left.right = 1
    if right.size == 0 and right.rank_plus_one == 0:
        right.right = 1
    if made.rank_plus_one or made.size or made.right or <uint64_t>left.size + right.size > MAX_SIZE:
        return False
    made[0] = TokenParts(left=left_token, right=right_token, rank_plus_one=rank + 1, size=left.size + right.size)
    tree.merges_to_itself[result] = is_unmerged_known or (
        tree.merges_to_itself[left_token] and tree.merges_to_itself[right_token]
        and is_valid_pair(merges, tree.parts, left_token, right_token, rank)
    )
    return True


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
