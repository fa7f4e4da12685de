"""Applying the merges of a superword vocabulary's second stage, the high ones, to tokens of its first, the low ones.

When no low merge is left to apply, a row of low tokens is what the high merges go on from. Every token is a row of low
tokens, its leaves. A high merge joins the last leaf of its left part and the first leaf of its right part; two
neighbouring low tokens that no high merge joins in this way stay apart, so the row is cut there, into *segments*:

    low tokens   By| the| way|,| he| said|.
    segments     By the way|, he said|.            if " said" and "." are joined by no high merge
    tokens       By the way|, he| said|.

A segment is one or two tokens long on average and seldom more than ten. Exact if every token has one merge and no high
merge makes a low token, which `ordered` says.

Cost: one look-up in a bucket's Bloom filter for each pair of low tokens, one in a slot for each that is joined, and as
many again for what merging makes new neighbours. So a block of tokens takes each step together, and sixteen segments
are merged at once.
"""

import numpy as np

from bpe.base._cpu cimport follow_vector_level
from bpe.base._id_array cimport as_array
from bpe.base._ids cimport Ids, reserve
from bpe.base._interrupts cimport end_watch
from bpe.base._memory cimport grow_array
from bpe.base._types cimport token_t
from bpe.merge._long_merge cimport merge_windows
from bpe.merge._merge_table cimport Merges, MergeTable
from bpe.merge._merging cimport (
    SHORT, Row, Scratch, append_row, free_scratch, merge_in_passes, merge_with_heap, row_of_symbols
)
from bpe.merge._token_tree cimport TokenTree
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from bpe.merge.checks import check_merges

cdef extern from "bpe/merge/_high_merges.h" nogil:
    enum:
        NEVER "BPE_NEVER"
        BLOCK "BPE_BLOCK"
        TOKEN_BITS "BPE_TOKEN_BITS"
        RESULT_BITS "BPE_RESULT_BITS"
    ctypedef struct Block "bpe_high_block":
        token_t* tokens
        uint16_t* long_starts
        uint16_t* long_sizes
        size_t n_long
        size_t last
    uint64_t key_of "bpe_high_key"(token_t left, token_t right)
    uint32_t hash_of "bpe_high_hash"(token_t left, token_t right)
    uint32_t filter_bits "bpe_high_bits"(uint32_t hash)
    uint32_t slot_of "bpe_high_slot"(const HighTable* table, token_t left, token_t right, uint32_t pilot)
    bint is_joined "bpe_is_joined"(const HighTable* table, token_t left, token_t right)
    void merge_block "bpe_merge_block"(const HighTable* table, const token_t* low, size_t n, Block* block)
    size_t without_holes "bpe_without_holes"(const token_t* tokens, size_t n, token_t* out)
    void bpe_use_level_pairs(int level) noexcept

follow_vector_level(bpe_use_level_pairs)

cdef enum:
    BUCKET = 4                # pairs of a bucket on average, at most
    SPACE = 16                # slots per pair, at most

cdef uint64_t FREE = ~<uint64_t>0
cdef uint32_t PILOTS = 256    # that a bucket may have; a pilot has 8 bits


cdef inline token_t left_of(uint64_t entry) noexcept nogil:
    return <token_t>(entry >> (TOKEN_BITS + RESULT_BITS))


cdef inline token_t right_of(uint64_t entry) noexcept nogil:
    return <token_t>(entry >> RESULT_BITS) & ((1 << TOKEN_BITS) - 1)


cdef inline uint32_t bucket_of(const HighTable* table, uint64_t entry) noexcept nogil:
    return hash_of(left_of(entry), right_of(entry)) >> table.bucket_shift


cdef uint64_t[::1] entries_of(const int[:, ::1] pairs, const int[::1] results, Py_ssize_t limit):
    """The entries of the table: every pair that has a merge, and every pair of leaves that a merge joins."""
    cdef Py_ssize_t i, n = results.shape[0]
    cdef int[::1] first = np.arange(limit, dtype=np.int32), last = np.arange(limit, dtype=np.int32)
    cdef uint64_t[::1] entries = np.empty(2 * n, dtype=np.uint64)
    for i in range(n):
        first[results[i]], last[results[i]] = first[pairs[i, 0]], last[pairs[i, 1]]
        entries[2 * i] = key_of(pairs[i, 0], pairs[i, 1]) | <uint32_t>results[i]
        entries[2 * i + 1] = key_of(last[pairs[i, 0]], first[pairs[i, 1]]) | <uint32_t>NEVER
    found = np.sort(entries)                               # of two results of a pair, NEVER is the greater
    return found[np.diff(found >> np.uint64(RESULT_BITS), prepend=FREE) != 0]


cdef class HighMerges:

    def __cinit__(self, low, high):
        """The merges of both stages, as two `MergeList`s; ValueError if the second does not only add to the first."""
        check_merges(high)
        is_low = np.ones(high.limit, dtype=np.bool_)
        is_low[high.results] = False
        if not is_low[low.results].all() or not is_low[low.pairs].all():
            raise ValueError("a merge of the second stage makes a token of the first")
        if high.limit >= (1 << TOKEN_BITS) - 1 or np.any(np.diff(high.results) <= 0):
            raise ValueError("the tokens of the second stage are not in the order of its merges, or there are too many")
        self.merges = MergeTable(high.pairs, high.results, high.ranks, high.limit)
        self.tree = TokenTree(self.merges, np.flatnonzero(is_low).astype(np.uint32), high)
        if not self.tree.ordered:
            raise ValueError("a token has two merges, or one that ranks better than one of its parts")
        self.n = len(high.ranks)
        fill(self, entries_of(high.pairs, high.results, high.limit))

    def merged(self, const token_t[::1] low):
        """The ids of a unit of these low tokens: a uint32 array. ValueError for an id outside the vocabulary."""
        cdef Ids out
        cdef Scratch scratch
        cdef size_t known = 0
        memset(&scratch, 0, sizeof(scratch))
        end_watch(&scratch.watch)
        out = Ids(data=NULL, n=0, capacity=0, lent=False)
        if low.shape[0] and np.max(low) >= self.tree.limit:
            raise ValueError(f"a low token has the id {np.max(low)}; ids are below {self.tree.limit}")
        try:
            if low.shape[0]:
                with nogil:
                    self.merge(&low[0], low.shape[0], &known, True, &scratch, &out)
            return as_array(&out)
        finally:
            free(out.data)
            free_scratch(&scratch)

    cdef size_t merge(
        self, const token_t* low, size_t n, size_t* known, bint ends, Scratch* scratch, Ids* out
    ) except? 0xFFFFFFFF nogil:
        """Append the ids of the segments of n low tokens; the number of tokens in them.

        There is a UNIT_BREAK between two units. Unless a text ends, the last segment may go on after them, and a block
        may still be filled: what is left of them waits for more. A block that is half full takes more than half of the
        time of a full one.
        """
        cdef Block block
        cdef size_t at = 0, count, whole, done, start, end, i
        while n - at >= BLOCK or (ends and at < n):
            count = min(n - at, <size_t>BLOCK)
            merge_block(&self.table, low + at, count, &block)
            whole = count if ends and at + count == n else block.last
            if whole == 0:                     # one segment
                end = segment_end(self, low, max(at + count, known[0]), n)
                if end == n and not ends:
                    known[0] = end - at
                    return at
                merge_segment(self, low + at, end - at, scratch, out)
                at, known[0] = end, 0
                continue
            reserve(out, count + 16)
            done = 0
            for i in range(block.n_long):
                start = block.long_starts[i]
                if start == whole:
                    break
                out.n += without_holes(block.tokens + done, start - done, out.data + out.n)
                done = start + block.long_sizes[i]
                merge_segment(self, low + at + start, done - start, scratch, out)
                reserve(out, count + 16)
            out.n += without_holes(block.tokens + done, whole - done, out.data + out.n)
            at, known[0] = at + whole, 0
        return at


cdef int fill(HighMerges merges, uint64_t[::1] entries) except -1:
    """Build the table of some entries; ValueError if two pairs have the same hashes."""
    cdef Py_ssize_t n = entries.shape[0], i
    cdef size_t n_buckets = 64, n_slots = 64
    cdef uint64_t[::1] slots
    cdef uint32_t[::1] buckets
    cdef bint placed = False
    while n_buckets * BUCKET < <size_t>n:
        n_buckets *= 2
    while n_slots * 4 < <size_t>n * 5:
        n_slots *= 2
    merges.table.bucket_shift = 33 - n_buckets.bit_length()
    buckets = np.empty(n, dtype=np.uint32)
    for i in range(n):
        buckets[i] = bucket_of(&merges.table, entries[i])
    sizes = np.bincount(buckets, minlength=n_buckets)
    entries = np.asarray(entries)[np.lexsort((buckets, -sizes[buckets]))]
    buckets = np.zeros(n_buckets, dtype=np.uint32)
    merges.table.buckets = &buckets[0]
    while not placed:
        if n_slots > <size_t>n * SPACE + 64:
            raise ValueError("two pairs of tokens have the same hashes")
        slots = np.full(n_slots, FREE, dtype=np.uint64)
        merges.table.slots, merges.table.slot_shift = &slots[0], 33 - n_slots.bit_length()
        placed = place(merges, entries)
        n_slots *= 2
    merges.arrays = slots, buckets
    return 0


cdef bint place(HighMerges merges, const uint64_t[::1] entries) noexcept nogil:
    """Give every entry a slot; False if this fails. Those of large buckets come first."""
    cdef Py_ssize_t start = 0, end, i, n = entries.shape[0]
    cdef uint32_t bucket, word
    while start < n:
        bucket, end = bucket_of(&merges.table, entries[start]), start + 1
        while end < n and bucket_of(&merges.table, entries[end]) == bucket:
            end += 1
        word = pilot_of(merges, entries, start, end)
        if word == PILOTS:
            return False
        for i in range(start, end):
            word |= filter_bits(hash_of(left_of(entries[i]), right_of(entries[i])))
        merges.table.buckets[bucket] = word
        start = end
    return True


cdef uint32_t pilot_of(HighMerges merges, const uint64_t[::1] entries, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    """Enter the pairs of a bucket; the pilot that sends all to free slots, or PILOTS if there is none."""
    cdef Py_ssize_t i
    cdef uint32_t pilot, at
    for pilot in range(PILOTS):
        for i in range(start, end):
            at = slot_of(&merges.table, left_of(entries[i]), right_of(entries[i]), pilot)
            if merges.table.slots[at] != FREE:
                break
            merges.table.slots[at] = entries[i]
        else:
            return pilot
        for i in range(start, i):
            merges.table.slots[slot_of(&merges.table, left_of(entries[i]), right_of(entries[i]), pilot)] = FREE
    return PILOTS


cdef size_t segment_end(HighMerges merges, const token_t* low, size_t end, size_t n) noexcept nogil:
    """The end of a segment that has the token before `end`."""
    while end < n and is_joined(&merges.table, low[end - 1], low[end]):
        end += 1
    return end


cdef int merge_segment(HighMerges high, const token_t* low, size_t n, Scratch* scratch, Ids* out) except -1 nogil:
    """Append the ids of a segment of any length."""
    cdef const Merges* merges = &high.merges.merges
    cdef Row row
    if n <= SHORT:
        row_of_symbols(&row, merges, low, n)
        return append_row(merges, &row, out)
    scratch.symbols = <token_t*>grow_array(scratch.symbols, &scratch.symbols_capacity, n, sizeof(token_t))
    memcpy(scratch.symbols, low, n * sizeof(token_t))
    if merge_windows(merges, high.tree, NULL, NULL, n, scratch, out):
        return 0
    n = merge_in_passes(merges, scratch.symbols, n, scratch, out.n)
    return merge_with_heap(merges, scratch.symbols, n, scratch, out, NULL)
