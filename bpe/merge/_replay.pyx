"""Encoding with a PickyBPE model: its events, merges and deletions, done in order in one piece.

Two arrays have the token that begins at each symbol of the piece and the one that ends there, or NO_TOKEN:

    symbol    0    1    2    3               symbol    0    1    2    3
    begins   low    -    -   er    split     begins   lo    -    w   er
    ends      -    -   low   er   low →      ends      -   lo    w   er

A queue holds, for each pair of neighbours and for each token, the next event that concerns it, by (event, position).
What an event makes is concerned by later events only. An entry is out of date if its pair or token is no longer at its
position; if it has come back, the entry is right again, since no event concerned it in between. So the queue does
what going through all events does, each at all its occurrences from left to right.

Cost: O(log n) for each merge and each split of a piece of n symbols.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._ids cimport Ids, reserve
from bpe.base._interrupts cimport count_work, poll_if_due
from bpe.base._memory cimport grow_array
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._merge_queue cimport pop, push
from bpe.merge._merge_table cimport NO_MERGE, find_pair
from bpe.merge._merger cimport Merger
from bpe.merge._merging cimport IDS_PER_STEP, SymbolTokens, Scratch, check_length, write_symbols
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from bpe.merge.tables import check_events, build_event_table

cdef struct Event:
    uint32_t left             # the pair that is merged, or the token that is split
    uint32_t right            # NO_TOKEN for a split
    uint32_t result           # the token, or the number of the split
    uint32_t next             # the next event of the same pair or token, or NO_TOKEN


cdef class EventMerger(Merger):
    """The tables of a PickyBPE model; immutable."""

    cdef list arrays                  # the memory of what follows
    cdef const uint32_t* n_symbols    # the symbols of each token
    cdef Event* events
    cdef const uint32_t* first_split  # the first split of each token, or NO_TOKEN
    cdef const int64_t* offsets       # where the parts of each split begin
    cdef const int32_t* parts

    def __cinit__(self, merges, symbols, events):
        """Make the tables of a `MergeList`, whose ranks are the indices of events, a `SymbolTables` and an `EventList`.
        """
        cdef const int32_t[::1] parts = events.parts
        cdef const int64_t[::1] offsets = events.offsets
        self.knows_tokens = False                          # merging may change a token, whatever its own bytes become
        check_offsets(offsets, len(events.tokens), parts.shape[0])
        check_events(merges, symbols, events)
        table, first = build_event_table(merges, events)
        n_symbols_array = np.append(np.asarray(events.n_symbols), events.n_symbols.dtype.type(0))
        part_array = np.append(np.asarray(events.parts), events.parts.dtype.type(0))
        offset_array = np.array(offsets)
        self.arrays = [table, first, n_symbols_array, part_array, offset_array]
        cdef uint32_t[:, ::1] rows = table
        cdef const uint32_t[::1] first_split = first, n_symbols_view = n_symbols_array
        cdef const int32_t[::1] all_parts = part_array
        cdef const int64_t[::1] all_offsets = offset_array
        self.events, self.first_split, self.n_symbols = <Event*>&rows[0, 0], &first_split[0], &n_symbols_view[0]
        self.parts, self.offsets = &all_parts[0], &all_offsets[0]

    cdef int queue_pair(
        self, Scratch* scratch, const token_t* begins, size_t position, size_t n, uint64_t min_event
    ) except -1 nogil:
        """Queue the next event of the pair at a position, after the event `min_event` - 1."""
        cdef token_t left = begins[position]
        cdef size_t next_position = position + self.n_symbols[left]
        cdef uint64_t merge
        cdef uint32_t event
        if next_position >= n or begins[next_position] == NO_TOKEN:
            return 0
        merge = find_pair(&self.table.merges, left, begins[next_position])
        if merge == NO_MERGE:
            return 0
        event = <uint32_t>(merge >> 32)
        while event < min_event:
            event = self.events[event].next
        return push(&scratch.queue, <uint64_t>event << 32 | position) if event != NO_TOKEN else 0

    cdef int queue_token(self, Scratch* scratch, token_t token, size_t position, uint64_t min_event) except -1 nogil:
        """Queue the next split of the token at a position."""
        cdef uint32_t event = self.first_split[token]
        while event < min_event:
            event = self.events[event].next
        return push(&scratch.queue, <uint64_t>event << 32 | position) if event != NO_TOKEN else 0

    cdef int apply_event(
        self, Scratch* scratch, token_t* begins, token_t* ends, size_t position, size_t n, uint32_t event_index
    ) except -1 nogil:
        """Do an event at a position, if it still has the pair or token; queue what follows."""
        cdef const Event* event = &self.events[event_index]
        cdef size_t next_position = position + self.n_symbols[event.left]
        cdef uint64_t min_event = <uint64_t>event_index + 1
        cdef int64_t i
        if begins[position] != event.left:
            return 0
        if event.right != NO_TOKEN:
            if next_position >= n or begins[next_position] != event.right:
                return 0
            begins[next_position] = ends[next_position - 1] = NO_TOKEN
            begins[position] = ends[position + self.n_symbols[event.result] - 1] = event.result
            self.queue_token(scratch, event.result, position, min_event)
            self.queue_pair(scratch, begins, position, n, min_event)
        else:
            for i in range(self.offsets[event.result + 1] - 1, self.offsets[event.result] - 1, -1):
                next_position -= self.n_symbols[self.parts[i]]  # from the right, so that the next token is known
                begins[next_position] = ends[next_position + self.n_symbols[self.parts[i]] - 1] = <token_t>self.parts[i]
                self.queue_token(scratch, begins[next_position], next_position, min_event)
                self.queue_pair(scratch, begins, next_position, n, min_event)
        if position > 0 and ends[position - 1] != NO_TOKEN:
            self.queue_pair(scratch, begins, position - self.n_symbols[ends[position - 1]], n, min_event)
        return 0

    cdef bint fits_row(self, const byte_t* piece, Py_ssize_t size) noexcept nogil:
        """Return False: rows are merged by rank."""
        return False

    cdef int merge(
        self, const byte_t* piece, Py_ssize_t size, bint is_inner, Scratch* scratch, Ids* out, bint* unknown
    ) except -1 nogil:
        cdef const SymbolTokens* symbol_tokens = &self.inner_symbol_tokens if is_inner else &self.symbol_tokens
        cdef Py_ssize_t unknown_offset = -1, position
        cdef Py_ssize_t n = write_symbols(symbol_tokens, piece, size, scratch, &unknown_offset)
        cdef uint64_t entry
        cdef token_t* begins
        cdef token_t* ends
        unknown[0] |= unknown_offset >= 0
        check_length(n)
        scratch.symbols = <token_t*>grow_array(scratch.symbols, &scratch.symbols_capacity, 2 * n, sizeof(token_t))
        begins, ends = scratch.symbols, scratch.symbols + n
        scratch.queue.n = 0
        for position in range(n):
            ends[position] = begins[position]
            if begins[position] != NO_TOKEN:
                self.queue_pair(scratch, begins, position, n, 0)
        count_work(&scratch.watch, n)
        while scratch.queue.n > 0:
            entry = pop(&scratch.queue)
            count_work(&scratch.watch, IDS_PER_STEP)
            poll_if_due(&scratch.watch, out.n)
            self.apply_event(scratch, begins, ends, <uint32_t>entry, n, <uint32_t>(entry >> 32))
        reserve(out, n)
        position = 0
        while position < n:
            out.data[out.n] = begins[position]
            out.n += 1
            position += self.n_symbols[begins[position]] if begins[position] != NO_TOKEN else 1
        return 0
