"""Applying the merges of a superword vocabulary's second stage, the high ones, to tokens of its first, the low ones.

When no low merge is left to apply, a row of low tokens is what the high merges go on from. Every token is a row of low
tokens, its leaves. A high merge joins the last leaf of its left part and the first leaf of its right part; two
neighbouring low tokens that no high merge joins in this way stay apart, so the row is cut there, into *runs*:

    low tokens   By| the| way|,| he| said|.
    runs         By the way|, he said|.            if " said" and "." are joined by no high merge
    tokens       By the way|, he| said|.

A run is one or two tokens long on average and seldom more than ten. Exact if every token has one merge and no high
merge makes a low token; the constructor refuses other merges (`TokenTree.is_ordered`).

Cost: one look-up in a bucket's Bloom filter for each pair of low tokens, one in a slot for each that is joined, and as
many again for what merging makes new neighbours. So a block of tokens takes each step together, and sixteen runs
are merged at once.
"""

import numpy as np

from bpe.base._cpu cimport follow_vector_level
from bpe.base._id_array cimport as_array
from bpe.base._ids cimport Ids, reserve
from bpe.base._interrupts cimport end_watch
from bpe.base._memory cimport grow_array
from bpe.base._types cimport token_t
from bpe.merge._long_merge cimport merge_long_piece
from bpe.merge._merge_table cimport Merges, MergeTable
from bpe.merge._merging cimport (
    MAX_ROW_SYMBOLS, Row, Scratch, fill_row_from_symbols, free_scratch, merge_and_append_row, merge_in_passes,
    merge_with_heap,
)
from bpe.merge._token_tree cimport TokenTree
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from bpe.merge.tables import check_merges

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
    uint64_t make_key "bpe_high_key"(token_t left, token_t right)
    uint32_t hash_pair "bpe_high_hash"(token_t left, token_t right)
    uint32_t high_filter_bits "bpe_high_bits"(uint32_t hash)
    uint32_t find_high_slot "bpe_high_slot"(const HighTable* table, token_t left, token_t right, uint32_t pilot)
    bint is_joined "bpe_is_joined"(const HighTable* table, token_t left, token_t right)
    void merge_block "bpe_merge_block"(const HighTable* table, const token_t* low, size_t n, Block* block)
    size_t copy_without_breaks "bpe_copy_without_breaks"(const token_t* tokens, size_t n, token_t* out)
    void bpe_use_level_pairs(int level) noexcept

follow_vector_level(bpe_use_level_pairs)

cdef enum:
    MAX_BUCKET_PAIRS = 4      # pairs of a bucket on average, at most
    MAX_SLOTS_PER_PAIR = 16   # slots per pair, at most

cdef uint64_t FREE_SLOT = ~<uint64_t>0
cdef uint32_t N_PILOTS = 256  # pilots that a bucket may have; a pilot has 8 bits


cdef inline token_t get_left(uint64_t entry) noexcept nogil:
    return <token_t>(entry >> (TOKEN_BITS + RESULT_BITS))


cdef inline token_t get_right(uint64_t entry) noexcept nogil:
    return <token_t>(entry >> RESULT_BITS) & ((1 << TOKEN_BITS) - 1)


cdef inline uint32_t find_bucket(const HighTable* table, uint64_t entry) noexcept nogil:
    return hash_pair(get_left(entry), get_right(entry)) >> table.bucket_shift


cdef uint64_t[::1] list_entries(const int[:, ::1] pairs, const int[::1] results, Py_ssize_t limit):
    """List the entries of the table: every pair that has a merge, and every pair of leaves that a merge joins."""
    cdef Py_ssize_t i, n = results.shape[0]
    cdef int[::1] first_leaf = np.arange(limit, dtype=np.int32), last_leaf = np.arange(limit, dtype=np.int32)
    cdef uint64_t[::1] entries = np.empty(2 * n, dtype=np.uint64)
    for i in range(n):
        first_leaf[results[i]], last_leaf[results[i]] = first_leaf[pairs[i, 0]], last_leaf[pairs[i, 1]]
        entries[2 * i] = make_key(pairs[i, 0], pairs[i, 1]) | <uint32_t>results[i]
        entries[2 * i + 1] = make_key(last_leaf[pairs[i, 0]], first_leaf[pairs[i, 1]]) | <uint32_t>NEVER
    sorted_entries = np.sort(entries)                      # of two results of a pair, NEVER is the greater
    return sorted_entries[np.diff(sorted_entries >> np.uint64(RESULT_BITS), prepend=FREE_SLOT) != 0]


cdef class HighMerges:

    def __cinit__(self, low, high):
        """Take the merges of both stages, two `MergeList`s; ValueError if the second does not only add to the first."""
        check_merges(high)
        is_low = np.ones(high.limit, dtype=np.bool_)
        is_low[high.results] = False
        if not is_low[low.results].all() or not is_low[low.pairs].all():
            raise ValueError("a merge of the second stage makes a token of the first")
        if high.limit >= (1 << TOKEN_BITS) - 1 or np.any(np.diff(high.results) <= 0):
            raise ValueError("the tokens of the second stage are not in the order of its merges, or there are too many")
        self.merges = MergeTable(high.pairs, high.results, high.ranks, high.limit)
        self.tree = TokenTree(self.merges, np.flatnonzero(is_low).astype(np.uint32), high)
        if not self.tree.is_ordered:
            raise ValueError("a token has two merges, or one that ranks better than one of its parts")
        self.n_merges = len(high.results)
        build_table(self, list_entries(high.pairs, high.results, high.limit))

    def merge_pretoken(self, const token_t[::1] low):
        """Merge a pretoken of these low tokens: a uint32 array. ValueError for an id outside the vocabulary."""
        cdef Ids out
        cdef Scratch scratch
        cdef size_t n_in_open_run = 0
        memset(&scratch, 0, sizeof(scratch))
        end_watch(&scratch.watch)
        out = Ids(data=NULL, n=0, capacity=0, lent=False)
        if low.shape[0] and np.max(low) >= self.tree.limit:
            raise ValueError(f"a low token has the id {np.max(low)}; ids are below {self.tree.limit}")
        try:
            if low.shape[0]:
                with nogil:
                    self.merge(&low[0], low.shape[0], &n_in_open_run, True, &scratch, &out)
            return as_array(&out)
        finally:
            free(out.data)
            free_scratch(&scratch)

    cdef size_t merge(
        self, const token_t* low, size_t n, size_t* n_in_open_run, bint text_ends, Scratch* scratch, Ids* out
    ) except? 0xFFFFFFFF nogil:
        """Append the ids of the runs of n low tokens; returns the number of tokens in them.

        There is a PRETOKEN_BREAK between two pretokens. Unless a text ends, the last run may go on after them, and a
        block may still be filled: what is left of them waits for more. A block that is half full takes more than half
        of the time of a full one.
        """
        cdef Block block
        cdef size_t position = 0, n_block, n_whole, n_written, start, end, i
        while n - position >= BLOCK or (text_ends and position < n):
            n_block = min(n - position, <size_t>BLOCK)
            merge_block(&self.table, low + position, n_block, &block)
            n_whole = n_block if text_ends and position + n_block == n else block.last
            if n_whole == 0:                   # one run
                end = find_run_end(self, low, max(position + n_block, n_in_open_run[0]), n)
                if end == n and not text_ends:
                    n_in_open_run[0] = end - position
                    return position
                merge_run(self, low + position, end - position, scratch, out)
                position, n_in_open_run[0] = end, 0
                continue
            reserve(out, n_block + 16)
            n_written = 0
            for i in range(block.n_long):
                start = block.long_starts[i]
                if start == n_whole:
                    break
                out.n += copy_without_breaks(block.tokens + n_written, start - n_written, out.data + out.n)
                n_written = start + block.long_sizes[i]
                merge_run(self, low + position + start, n_written - start, scratch, out)
                reserve(out, n_block + 16)
            out.n += copy_without_breaks(block.tokens + n_written, n_whole - n_written, out.data + out.n)
            position, n_in_open_run[0] = position + n_whole, 0
        return position


cdef int build_table(HighMerges merges, uint64_t[::1] entries) except -1:
    """Build the table of some entries; ValueError if two pairs have the same hashes."""
    cdef Py_ssize_t n = entries.shape[0], i
    cdef size_t n_buckets = 64, n_slots = 64
    cdef uint64_t[::1] slots
    cdef uint32_t[::1] buckets
    cdef bint placed = False
    while n_buckets * MAX_BUCKET_PAIRS < <size_t>n:
        n_buckets *= 2
    while n_slots * 4 < <size_t>n * 5:
        n_slots *= 2
    merges.table.bucket_shift = 33 - n_buckets.bit_length()
    buckets = np.empty(n, dtype=np.uint32)
    for i in range(n):
        buckets[i] = find_bucket(&merges.table, entries[i])
    sizes = np.bincount(buckets, minlength=n_buckets)
    entries = np.asarray(entries)[np.lexsort((buckets, -sizes[buckets]))]
    buckets = np.zeros(n_buckets, dtype=np.uint32)
    merges.table.buckets = &buckets[0]
    while not placed:
        if n_slots > <size_t>n * MAX_SLOTS_PER_PAIR + 64:
            raise ValueError("two pairs of tokens have the same hashes")
        slots = np.full(n_slots, FREE_SLOT, dtype=np.uint64)
        merges.table.slots, merges.table.slot_shift = &slots[0], 33 - n_slots.bit_length()
        placed = place_entries(merges, entries)
        n_slots *= 2
    merges.arrays = slots, buckets
    return 0


cdef bint place_entries(HighMerges merges, const uint64_t[::1] entries) noexcept nogil:
    """Give every entry a slot; False if this fails. Those of large buckets come first."""
    cdef Py_ssize_t start = 0, end, i, n = entries.shape[0]
    cdef uint32_t bucket, word
    while start < n:
        bucket, end = find_bucket(&merges.table, entries[start]), start + 1
        while end < n and find_bucket(&merges.table, entries[end]) == bucket:
            end += 1
        word = choose_pilot(merges, entries, start, end)
        if word == N_PILOTS:
            return False
        for i in range(start, end):
            word |= high_filter_bits(hash_pair(get_left(entries[i]), get_right(entries[i])))
        merges.table.buckets[bucket] = word
        start = end
    return True


cdef uint32_t choose_pilot(
    HighMerges merges, const uint64_t[::1] entries, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    """Enter the pairs of a bucket; returns the pilot that sends all to free slots, or N_PILOTS if there is none."""
    cdef Py_ssize_t i
    cdef uint32_t pilot, slot
    for pilot in range(N_PILOTS):
        for i in range(start, end):
            slot = find_high_slot(&merges.table, get_left(entries[i]), get_right(entries[i]), pilot)
            if merges.table.slots[slot] != FREE_SLOT:
                break
            merges.table.slots[slot] = entries[i]
        else:
            return pilot
        for i in range(start, i):
            slot = find_high_slot(&merges.table, get_left(entries[i]), get_right(entries[i]), pilot)
            merges.table.slots[slot] = FREE_SLOT
    return N_PILOTS


cdef size_t find_run_end(HighMerges merges, const token_t* low, size_t end, size_t n) noexcept nogil:
    """Find the end of a run that has the token before `end`."""
    while end < n and is_joined(&merges.table, low[end - 1], low[end]):
        end += 1
    return end


cdef int merge_run(HighMerges high, const token_t* low, size_t n, Scratch* scratch, Ids* out) except -1 nogil:
    """Append the ids of a run of any length."""
    cdef const Merges* merges = &high.merges.merges
    cdef Row row
    if n <= MAX_ROW_SYMBOLS:
        fill_row_from_symbols(&row, merges, low, n)
        return merge_and_append_row(merges, &row, out)
    scratch.symbols = <token_t*>grow_array(scratch.symbols, &scratch.symbols_capacity, n, sizeof(token_t))
    memcpy(scratch.symbols, low, n * sizeof(token_t))
    if merge_long_piece(merges, high.tree, NULL, NULL, n, scratch, out):
        return 0
    n = merge_in_passes(merges, scratch.symbols, n, scratch, out.n)
    return merge_with_heap(merges, scratch.symbols, n, scratch, out, NULL)
