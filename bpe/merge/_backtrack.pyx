"""Merging a long piece in linear time: the longest token that fits, again and again, and back where it does not.

What merging makes of a text is the only row of tokens in which each two neighbours may stand side by side: merging
their own bytes, joined, gives the two again. That is checked in a few steps by taking both tokens apart, the one made
last first. So a text is encoded from its start: try the longest token, then shorter ones; where none may follow, mark
the place as one that leads nowhere, take the last token back and try a shorter one there. Each place is marked once
at most.

This needs ranks in order (a token's rank is worse than its parts') and one merge per token, as training makes them; the
method is that of GitHub's `bpe` crate. Other vocabularies go over a heap (`_merging.pyx`).
"""

from bpe.base._interrupts cimport look_if_due
from bpe.base._memory cimport grown
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._merge_table cimport NO_MERGE, Pairs, PairTable, find_pair, pair_hash
from bpe.merge._merging cimport Alphabet, Ids, Scratch, reserve
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cdef enum:
    LONGEST = 0x7FFFFFFF      # symbols of a token, and of all tokens of a trie together


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

        `ordered` says whether the vocabulary is one that backtracking serves; without it nothing is known of tokens.

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


cdef class Backtracker:

    def __cinit__(self, Origins origins, PairTable table, const uint32_t[::1] symbols, const int[::1] ids):
        """Build the trie of the symbols and of all tokens that are ever reached.

        Args:
            symbols: the tokens of single symbols, without NO_TOKEN.
            ids: the tokens that merges make, best rank first.

        """
        self.origins = origins
        self.table = table
        cdef Py_ssize_t i, k, n = ids.shape[0], total
        cdef uint32_t* first = NULL                        # where a token's symbols begin in `spelled`
        cdef uint32_t* spelled = NULL
        cdef token_t token
        cdef size_t size = 64
        self.node_of = <uint32_t*>calloc(origins.limit + 1, sizeof(uint32_t))
        first = <uint32_t*>calloc(origins.limit + 1, sizeof(uint32_t))
        if self.node_of == NULL or first == NULL:
            free(first)
            raise MemoryError("no memory for a trie of tokens")
        with nogil:
            total = 0
            for i in range(symbols.shape[0]):
                first[symbols[i]] = <uint32_t>total
                total += 1
            for i in range(n):
                token = <token_t>ids[i]
                first[token] = <uint32_t>total
                total = min(total + <Py_ssize_t>origins.parts[token].size, <Py_ssize_t>LONGEST)
            while size < <size_t>total * 2:
                size *= 2
            spelled = <uint32_t*>malloc((total + 1) * sizeof(uint32_t))
            self.edges = <Edge*>malloc(size * sizeof(Edge))
            self.token_at = <token_t*>malloc((total + 2) * sizeof(token_t))
            self.parent = <uint32_t*>calloc(total + 2, sizeof(uint32_t))
        if spelled == NULL or self.edges == NULL or self.token_at == NULL or self.parent == NULL or total >= LONGEST:
            free(first)
            free(spelled)
            raise MemoryError("no memory for a trie of tokens")
        with nogil:
            memset(self.edges, 0xFF, size * sizeof(Edge))
            self.mask = size - 1
            self.n_nodes = 2                               # 0 is none, 1 the root
            self.token_at[0] = self.token_at[1] = NO_TOKEN
            for i in range(symbols.shape[0]):
                token = symbols[i]
                spelled[first[token]] = token
                self.node_of[token] = self.add(1, token)
                self.token_at[self.node_of[token]] = token
            for i in range(n):
                token = <token_t>ids[i]
                total = origins.parts[origins.parts[token].left].size
                memcpy(spelled + first[token], spelled + first[origins.parts[token].left], total * sizeof(uint32_t))
                memcpy(
                    spelled + first[token] + total, spelled + first[origins.parts[token].right],
                    origins.parts[origins.parts[token].right].size * sizeof(uint32_t),
                )
                if not origins.reached[token]:
                    continue
                self.node_of[token] = self.node_of[origins.parts[token].left]
                for k in range(total, origins.parts[token].size):
                    self.node_of[token] = self.add(self.node_of[token], spelled[first[token] + k])
                self.token_at[self.node_of[token]] = token
        free(first)
        free(spelled)

    def __dealloc__(self):
        free(self.edges)
        free(self.token_at)
        free(self.parent)
        free(self.node_of)

    cdef uint32_t step(self, uint32_t node, token_t symbol) noexcept nogil:
        """The node that a symbol leads to, or 0."""
        cdef uint64_t step = <uint64_t>node << 32 | symbol
        cdef size_t at = pair_hash(step) & self.mask
        while self.edges[at].step != step:
            if self.edges[at].step == NO_MERGE:
                return 0
            at = (at + 1) & self.mask
        return self.edges[at].node

    cdef uint32_t add(self, uint32_t node, token_t symbol) noexcept nogil:
        """The same, a new node if there is none."""
        cdef uint64_t step = <uint64_t>node << 32 | symbol
        cdef size_t at = pair_hash(step) & self.mask
        while self.edges[at].step != NO_MERGE:
            if self.edges[at].step == step:
                return self.edges[at].node
            at = (at + 1) & self.mask
        self.edges[at].step = step
        self.edges[at].node = self.n_nodes
        self.token_at[self.n_nodes] = NO_TOKEN
        self.parent[self.n_nodes] = node
        self.n_nodes += 1
        return self.n_nodes - 1

    cdef token_t longest(
        self, const token_t* symbols, const uint32_t* byte_ids, const byte_t* piece, Py_ssize_t n
    ) noexcept nogil:
        """The longest token that n symbols begin with, or NO_TOKEN; the symbols are given, or the bytes they are."""
        cdef uint32_t node = 1
        cdef token_t found = NO_TOKEN
        cdef Py_ssize_t i
        for i in range(n):
            node = self.step(node, byte_ids[piece[i]] if symbols == NULL else symbols[i])
            if node == 0:
                break
            if self.token_at[node] != NO_TOKEN:
                found = self.token_at[node]
        return found

    cdef token_t shorter(self, token_t token) noexcept nogil:
        """The longest token that a token begins with, itself left out, or NO_TOKEN."""
        cdef uint32_t node = self.parent[self.node_of[token]]
        while node > 1 and self.token_at[node] == NO_TOKEN:
            node = self.parent[node]
        return self.token_at[node]

    cdef int encode(
        self, const Alphabet* alphabet, const byte_t* piece, Py_ssize_t size, Scratch* scratch, Ids* out
    ) except -1 nogil:
        """Append the ids of a piece of `size` bytes, which a plain alphabet spells; or of the `size` symbols of
        `scratch` if `piece` is NULL.

        A symbol that is no token of the trie (an unknown one) is an id by itself, and the text is encoded apart on
        both sides of it.
        """
        cdef const token_t* symbols = scratch.symbols if piece == NULL else NULL
        cdef Py_ssize_t start = 0, at
        if symbols == NULL:
            return self.encode_known(NULL, alphabet.inner, piece, size, scratch, out)
        for at in range(size):
            if symbols[at] < self.origins.limit and self.node_of[symbols[at]]:
                continue
            if at > start:
                self.encode_known(symbols + start, NULL, NULL, at - start, scratch, out)
            reserve(out, 1)
            out.data[out.n] = symbols[at]
            out.n += 1
            start = at + 1
        if size > start:
            self.encode_known(symbols + start, NULL, NULL, size - start, scratch, out)
        return 0

    cdef int encode_known(
        self, const token_t* symbols, const uint32_t* byte_ids, const byte_t* piece, Py_ssize_t n, Scratch* scratch,
        Ids* out,
    ) except -1 nogil:
        """The same for symbols that all are in the trie."""
        cdef Py_ssize_t at = 0, end
        cdef size_t base = out.n
        cdef token_t token, last
        cdef uint64_t* failed
        scratch.failed = <uint64_t*>grown(scratch.failed, &scratch.failed_room, n // 64 + 1, sizeof(uint64_t))
        failed = scratch.failed
        memset(failed, 0, (n // 64 + 1) * sizeof(uint64_t))
        token = self.longest(symbols, byte_ids, piece, n)
        while at < n:
            last = out.data[out.n - 1] if out.n > base else NO_TOKEN
            end = at + self.origins.parts[token].size
            if not failed[end >> 6] >> (end & 63) & 1 and (
                last == NO_TOKEN or self.origins.side_by_side(&self.table.pairs, last, token, NO_LIMIT)
            ):
                reserve(out, 1)
                out.data[out.n] = token
                out.n += 1
                scratch.work += end - at
                at = end
                look_if_due(&scratch.watch, out.n)
                if at < n:
                    if symbols != NULL:
                        token = self.longest(symbols + at, NULL, NULL, n - at)
                    else:
                        token = self.longest(NULL, byte_ids, piece + at, n - at)
                continue
            scratch.work += 1
            token = self.shorter(token)
            if token == NO_TOKEN and last == NO_TOKEN:     # only of tokens that are not what was said of them
                with gil:
                    raise ValueError("a text has no ids: the spec's `unreached` does not fit its merges; make it None")
            if token == NO_TOKEN:                          # nothing may follow here: take the last token back
                failed[at >> 6] |= <uint64_t>1 << (at & 63)
                out.n -= 1
                at -= self.origins.parts[last].size
                token = last
        return 0
