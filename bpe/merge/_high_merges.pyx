"""Applying the merges of a superword vocabulary's second stage, the high ones, to tokens of its first, the low ones.

When no low merge is left to apply, a row of low tokens is what the high merges go on from. Every token is a row of low
tokens, its leaves. A high merge joins the last leaf of its left part and the first leaf of its right part; two
neighbouring low tokens that no high merge joins in this way stay apart, so the row is cut there, into *segments*:

    low tokens   By| the| way|,| he| said|.
    segments     By the way|, he said|.            if " said" and "." are joined by no high merge
    tokens       By the way|, he| said|.

A segment is one or two tokens long on average and seldom more than ten. Exact if every token has one merge and no high
merge makes a low token, which `ordered` says.

Cost: one look-up in a Bloom filter for each pair of low tokens, one in a table for each that is joined, and as many
again for what merging makes new neighbours. They take most of the time, so a block of tokens takes each step together.
"""

import numpy as np

from bpe.base._cpu cimport follow_vector_level
from bpe.base._ids cimport Ids, reserve
from bpe.base._interrupts cimport end_watch
from bpe.base._memory cimport grown
from bpe.base._types cimport token_t
from bpe.merge._long_merge cimport merge_windows
from bpe.merge._merge_table cimport Merges, MergeTable
from bpe.merge._merging cimport (
    SHORT,
    Row,
    Scratch,
    free_scratch,
    merge_in_passes,
    merge_row,
    merge_with_heap,
    row_of_symbols,
    tokens_of,
)
from bpe.merge._origins cimport Origins
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

cdef extern from "bpe/merge/_high_merges.h" nogil:
    enum:
        NEVER "BPE_NEVER"
        LINE "BPE_LINE"
        FEW "BPE_FEW"
        BLOCK "BPE_BLOCK"
        TOKEN_BITS "BPE_TOKEN_BITS"
    ctypedef struct Block "bpe_high_block":
        token_t* tokens
        uint16_t* long_starts
        uint16_t* long_sizes
        size_t n_long
        size_t last
    void insert "bpe_high_insert"(HighTable* table, token_t left, token_t right, token_t result)
    bint is_joined "bpe_is_joined"(const HighTable* table, token_t left, token_t right)
    void merge_block "bpe_merge_block"(const HighTable* table, const token_t* low, size_t n, Block* block)
    size_t without_holes "bpe_without_holes"(const token_t* tokens, size_t n, token_t* out)
    void bpe_use_level_pairs(int level) noexcept

follow_vector_level(bpe_use_level_pairs)

cdef enum:
    FILTER_BITS = 8           # bits of the filter per pair, at least
    MAX_FILTER = 1 << 27      # bits of the filter, at most


cdef class HighMerges:

    def __init__(self, low, high):
        """The merges of both stages, as two `MergeList`s; ValueError if the second does not only add to the first."""
        is_low = np.ones(high.limit, dtype=np.bool_)
        is_low[high.results] = False
        if not is_low[low.results].all() or not is_low[low.pairs].all():
            raise ValueError("a merge of the second stage makes a token of the first")
        if high.limit >= 1 << TOKEN_BITS or np.any(np.diff(high.results) <= 0):
            raise ValueError("the tokens of the second stage are not in the order of its merges, or there are too many")
        self.merges = MergeTable(high.pairs, high.results, high.ranks)
        self.origins = Origins(self.merges, np.flatnonzero(is_low).astype(np.uint32), high)
        if not self.origins.ordered:
            raise ValueError("a token has two merges, or one that ranks better than one of its parts")
        self.n = len(high.ranks)
        self.fill(high.pairs, high.results, high.limit)

    cdef fill(self, const int[:, ::1] pairs, const int[::1] results, Py_ssize_t limit):
        """Fill the table: every pair that has a merge, and every pair of leaves that a merge joins."""
        cdef size_t size = 2 * LINE, bits = 1024
        cdef Py_ssize_t i, n = results.shape[0]
        cdef uint64_t[::1] slots
        cdef uint32_t[::1] words
        cdef int[::1] first, last
        while size < <size_t>n * 2:
            size *= 2
        while bits < <size_t>n * FILTER_BITS and bits < MAX_FILTER:
            bits *= 2
        spacious = np.full(size + LINE, ~np.uint64(0), dtype=np.uint64)
        slots = spacious[-(spacious.ctypes.data // 8) % LINE :]  # at a cache line
        words = np.zeros(bits // 32, dtype=np.uint32)
        self.arrays = slots, words
        self.table.slots, self.table.last_line = &slots[0], <uint32_t>(size // LINE - 1)
        self.table.shift = 32 - (size // LINE - 1).bit_length()
        self.table.filter, self.table.filter_mask = &words[0], <uint32_t>(bits // 32 - 1)
        first = np.arange(limit, dtype=np.int32)
        last = np.arange(limit, dtype=np.int32)
        with nogil:
            for i in range(n):
                first[results[i]], last[results[i]] = first[pairs[i, 0]], last[pairs[i, 1]]
                insert(&self.table, pairs[i, 0], pairs[i, 1], results[i])
                insert(&self.table, last[pairs[i, 0]], first[pairs[i, 1]], NEVER)

    def merged(self, const token_t[::1] low):
        """The ids of a unit of these low tokens: a uint32 array."""
        cdef Ids out
        cdef Scratch scratch
        memset(&scratch, 0, sizeof(scratch))
        end_watch(&scratch.watch)
        out = Ids(data=NULL, n=0, room=0, lent=False)
        ids = np.empty(0, dtype=np.uint32)
        try:
            if low.shape[0]:
                with nogil:
                    self.merge(&low[0], low.shape[0], 0, True, &scratch, &out)
                ids = np.asarray(<token_t[:out.n]>out.data).copy()
        finally:
            free(out.data)
            free_scratch(&scratch)
        return ids

    cdef size_t merge(
        self, const token_t* low, size_t n, size_t known, bint ends, Scratch* scratch, Ids* out
    ) except? 0xFFFFFFFF nogil:
        """Append the ids of the segments of n low tokens; the number of tokens in them.

        The last segment may go on after them, and is left out, unless its unit ends.
        """
        cdef Block block
        cdef size_t at = 0, count, whole, done, start, end, i
        while at < n:
            count = min(n - at, <size_t>BLOCK)
            merge_block(&self.table, low + at, count, &block)
            whole = count if ends and at + count == n else block.last
            if whole == 0:                     # one segment
                end = self.segment_end(low, max(at + count, known), n)
                if end == n and not ends:
                    return at
                self.merge_segment(low + at, end - at, scratch, out)
                at = end
                continue
            reserve(out, count + 16)
            done = 0
            for i in range(block.n_long):
                start = block.long_starts[i]
                if start == whole:
                    break
                out.n += without_holes(block.tokens + done, start - done, out.data + out.n)
                done = start + block.long_sizes[i]
                self.merge_segment(low + at + start, done - start, scratch, out)
                reserve(out, count + 16)
            out.n += without_holes(block.tokens + done, whole - done, out.data + out.n)
            at += whole
        return at

    cdef size_t segment_end(self, const token_t* low, size_t end, size_t n) noexcept nogil:
        """The end of a segment that has the token before `end`."""
        while end < n and is_joined(&self.table, low[end - 1], low[end]):
            end += 1
        return end

    cdef int merge_segment(self, const token_t* low, size_t n, Scratch* scratch, Ids* out) except -1 nogil:
        """Append the ids of a segment of any length."""
        cdef const Merges* merges = &self.merges.merges
        cdef Row row
        reserve(out, n)
        if n <= SHORT:
            row_of_symbols(&row, merges, low, n)
            merge_row(merges, &row)
            out.n += tokens_of(&row, out.data + out.n)
            return 0
        scratch.symbols = <token_t*>grown(scratch.symbols, &scratch.symbols_room, n, sizeof(token_t))
        memcpy(scratch.symbols, low, n * sizeof(token_t))
        if merge_windows(merges, self.origins, NULL, NULL, n, scratch, out):
            return 0
        n = merge_in_passes(merges, scratch.symbols, n, scratch, out.n)
        return merge_with_heap(merges, scratch.symbols, n, scratch, out)
