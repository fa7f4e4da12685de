"""How each token of a vocabulary is made, and which two tokens may be adjacent.

What merging makes of a text is the only sequence of tokens in which each two neighbours may be adjacent: merging their
bytes, joined, gives the two again. That is checked in a few steps by taking both tokens apart, the one made last first.
It needs ranks in order (a token's rank is worse than its parts') and one merge per token, as training makes them; the
method is that of GitHub's `bpe` crate. `_long_merge.pyx` merges long pieces by it.
"""

from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_table cimport NO_MERGE, Pairs, PairTable, find_pair
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    LONGEST = 0x7FFFFFFF      # symbols of a token


cdef class Origins:

    def __cinit__(
        self, PairTable table, const uint32_t[::1] symbols, const int[:, ::1] merges, const int[::1] ids,
        const int[::1] ranks, limit, const int[::1] unreached,
    ):
        """Note the parts of each token, and which tokens are ever reached.

        Args:
            symbols: the tokens of single symbols, without NO_TOKEN.
            merges, ids, ranks: merge i joins `merges[i]` to `ids[i]` by the rank `ranks[i]`.
            limit: one more than the greatest id.
            unreached: the tokens that merging their own symbols does not give, or None: they are found out then.

        `ordered` says whether the ranks are in order; if not, nothing is known of tokens.

        """
        cdef Py_ssize_t n = merges.shape[0], i
        cdef token_t a, b, made
        cdef bint known = unreached is not None
        self.limit = limit
        self.parts = <Parts*>calloc(self.limit + 1, sizeof(Parts))
        self.reached = <byte_t*>calloc(self.limit + 1, 1)
        if self.parts == NULL or self.reached == NULL:
            raise MemoryError(f"no memory for the parts of {limit} tokens")
        with nogil:
            for i in range(symbols.shape[0]):
                self.reached[symbols[i]] = 1
                self.parts[symbols[i]].size = 1
            self.ordered = True
            for i in range(n):
                if not self.ordered:
                    break
                a, b, made = <token_t>merges[i, 0], <token_t>merges[i, 1], <token_t>ids[i]
                if self.parts[made].order or self.reached[made] or (i and ranks[i] <= ranks[i - 1]):
                    self.ordered = False                   # two merges make it, or it is a symbol too; or ranks tie
                self.parts[made] = Parts(left=a, right=b, order=<uint32_t>ranks[i] + 1, size=0)
            for i in range(n):
                if not self.ordered:
                    break
                a, b, made = <token_t>merges[i, 0], <token_t>merges[i, 1], <token_t>ids[i]
                if self.parts[a].order >= self.parts[made].order or self.parts[b].order >= self.parts[made].order:
                    self.ordered = False
                if <uint64_t>self.parts[a].size + self.parts[b].size > LONGEST:
                    self.ordered = False
                    break
                self.parts[made].size = self.parts[a].size + self.parts[b].size
                self.reached[made] = known or (
                    self.reached[a] and self.reached[b] and self.side_by_side(&table.pairs, a, b, <uint64_t>ranks[i])
                )

        if known and self.ordered:
            for i in range(unreached.shape[0]):
                if <size_t>unreached[i] < self.limit:
                    self.reached[unreached[i]] = 0

    def __dealloc__(self):
        free(self.parts)
        free(self.reached)

    cdef bint side_by_side(self, const Pairs* pairs, token_t a, token_t b, uint64_t limit) noexcept nogil:
        """Whether no merge of a rank below `limit` is made across the border of two tokens while they come about.

        Going back in time, the token made last is taken apart; its part at the border stood there before. Of two equal
        tokens the left one was made first. Worked example: for `ab|c` with the merges (b, c) 0 and (a, b) 1, a + b is
        undone, and b|c would have merged before it: they may not stand side by side.
        """
        cdef uint64_t merge
        cdef const Parts* left
        cdef const Parts* right
        while True:
            merge = find_pair(pairs, a, b)
            if merge != NO_MERGE and merge >> 32 < limit:
                return False
            left, right = &self.parts[a], &self.parts[b]
            if left.order > right.order:
                limit = left.order - 1
                a = left.right
            elif right.order:
                limit = right.order                        # a merge of the same rank to its left comes first
                b = right.left
            else:
                return True
