"""Merging the threads' tables of word counts into one, by parts of the hashes of their words.

In every table the words of a part are in one range of the slots, but for some at its ends:

        part 0          part 1          part 2          part 3
    | . a . b c . | . d . . e f | f . . g . . | h . i . . j |       f: displaced from part 1, as its slots are full

So threads can enter the words of different parts at once, each in the range of its part. What is not in the range of
its part, or does not fit in there, waits until all parts are done; those are few. Both tables are read and written in
the order of their slots, so that merging takes a fraction of the time of counting.
"""

import numpy as np

from bpe.base._atomic cimport fetch_add
from bpe.base._memory cimport check_lock, grow_array, hash_key, prefetch
from bpe.base._types cimport byte_t
from bpe.count._word_table cimport (
    BATCH_WORDS, MAX_UNITS, LongKey, LongSlot, LongWord, Slot, WordTable, add_to_long_word, add_to_slot, count_units,
    find_long_slot, find_slot,
)
from libc.stdint cimport uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

cimport cython

cdef enum:
    FEW_WORDS = 1 << 15       # of all tables: they are not worth an estimate
    SAMPLED_PARTS = 64        # a sample of the words is one of so many parts

cdef struct Source:           # a table to merge
    const Slot* slots
    size_t n_slots
    const LongSlot* index
    size_t n_index
    const uint64_t* arena

cdef struct Range:            # the part of a table, or of an index, that a thread may change
    size_t begin
    size_t end
    size_t stop               # `end`, or 0 after the last one


cdef Range find_range(size_t n, size_t part, size_t parts) noexcept nogil:
    return Range(n // parts * part, n // parts * (part + 1), n // parts * (part + 1) & (n - 1))


cdef class TableMerge:
    """Other tables that are merged into one: `merge_part` for each part, in any thread, and then `finish`.

    Args:
        table: the table, which must not be used in between.
        others: the other tables, which are not changed.
        parts: how many parts there are: a power of two from 2 to 256.

    Raises:
        ValueError: for counts that sum to more than 2**63 - 1.

    """

    cdef WordTable table
    cdef list others              # whose memory `sources` and `late_long_words` point into
    cdef Source* sources
    cdef size_t n_sources, sources_capacity
    cdef readonly size_t parts
    cdef Slot* late_words         # that wait until all parts are done
    cdef LongKey* late_long_words
    cdef size_t n_late, late_capacity, n_late_long, late_long_capacity
    cdef cython.pythread_type_lock lock    # held while those are added to; never acquired while holding the GIL

    def __cinit__(self, WordTable table not None, list others not None, size_t parts):
        cdef WordTable other
        cdef size_t n_units = table.arena_units
        check_lock(&self.lock)
        if parts not in (2, 4, 8, 16, 32, 64, 128, 256):
            raise ValueError(f"there are {parts} parts; it must be a power of two from 2 to 256")
        self.table, self.others, self.parts = table, others, parts
        self.sources = <Source*>grow_array(NULL, &self.sources_capacity, len(others), sizeof(Source))
        for other in others:
            table.count_more(other.total)
            table.check_overflow()
            table.counted_until = max(table.counted_until, other.counted_until)
            n_units += other.arena_units
            self.sources[self.n_sources] = Source(
                other.slots, other.n_slots, other.index, other.n_index, other.arena
            )
            self.n_sources += 1
        n_short, n_long = estimate_distinct_words([table, *others])
        table.reserve(n_short, n_long, min(n_units, <size_t>MAX_UNITS))

    def __dealloc__(self):
        free(self.sources)
        free(self.late_words)
        free(self.late_long_words)

    def merge_part(self, size_t part):
        """Enter the words of a part; different parts may be entered at once."""
        cdef size_t i
        if part >= self.parts:
            raise ValueError(f"part {part} does not exist; there are {self.parts} parts")
        with nogil:
            for i in range(self.n_sources):
                self.merge_short(&self.sources[i], part)
                self.merge_long(&self.sources[i], part)

    cdef int merge_short(self, const Source* source, size_t part) except -1 nogil:
        """Enter a table's words of at most 15 bytes."""
        cdef Range target = find_range(self.table.n_slots, part, self.parts)
        cdef Range range_of_source = find_range(source.n_slots, part, self.parts)
        cdef size_t i, first, n_new = 0
        cdef uint64_t word_hash
        cdef const Slot* word
        cdef Slot* slot
        for i in range(range_of_source.begin, range_of_source.end):
            word = &source.slots[i]
            if word.key.hi == 0:
                continue
            word_hash = hash_key(word.key)
            first = word_hash >> self.table.shift
            slot = NULL
            if target.begin <= first < target.end:
                slot = find_slot(self.table, word.key, word_hash, target.stop)
            if slot == NULL:
                self.add_late(word)
            elif slot.key.hi != 0:
                add_to_slot(slot, word.count, word.first_position)
            else:
                slot[0] = word[0]
                n_new += 1
        fetch_add(&self.table.n_short, n_new)
        return 0

    cdef int merge_long(self, const Source* source, size_t part) except -1 nogil:
        """Enter a table's longer words."""
        cdef Range range_of_source = find_range(source.n_index, part, self.parts)
        cdef LongKey batch[BATCH_WORDS]
        cdef Py_ssize_t n = 0
        cdef size_t i
        for i in range(range_of_source.begin, range_of_source.end):
            if source.index[i].unit == 0:
                continue
            batch[n].word = <const byte_t*>(source.arena + source.index[i].unit - 1)
            batch[n].word_hash = source.index[i].word_hash
            prefetch(batch[n].word)
            n += 1
            if n == BATCH_WORDS:
                self.enter_long_words(batch, n, part)
                n = 0
        return self.enter_long_words(batch, n, part)

    cdef int enter_long_words(self, LongKey* batch, Py_ssize_t n, size_t part) except -1 nogil:
        """Enter n long words; `word` of each points to its LongWord."""
        cdef Range target = find_range(self.table.n_index, part, self.parts)
        cdef size_t first
        cdef Py_ssize_t i
        cdef const LongWord* entry
        cdef LongSlot* slot
        for i in range(n):
            first = batch[i].word_hash >> self.table.index_shift
            if self.table.index[first].unit != 0:
                prefetch(self.table.arena + self.table.index[first].unit - 1)
            entry = <const LongWord*>batch[i].word
            batch[i].word, batch[i].size = <const byte_t*>(entry + 1), entry.size
            batch[i].count, batch[i].position = entry.count, entry.first_position
        for i in range(n):
            first = batch[i].word_hash >> self.table.index_shift
            slot = NULL
            if target.begin <= first < target.end:
                slot = find_long_slot(self.table, &batch[i], target.stop)
            if slot != NULL and slot.unit != 0:
                add_to_long_word(<LongWord*>(self.table.arena + slot.unit - 1), batch[i].count, batch[i].position)
            elif slot == NULL or not self.write_long_word(slot, &batch[i]):
                self.add_late_long(&batch[i])
        return 0

    cdef bint write_long_word(self, LongSlot* slot, const LongKey* word) noexcept nogil:
        """Write a new word to the arena, and its index entry; False if the arena has no room."""
        cdef size_t n_units = count_units(word.size), unit = fetch_add(&self.table.arena_units, n_units)
        cdef LongWord* entry = <LongWord*>(self.table.arena + unit)
        if unit + n_units > self.table.arena_capacity:      # nor has it for what other threads add meanwhile
            fetch_add(&self.table.arena_units, -n_units)
            return False
        entry[0] = LongWord(word.count, word.position, word.size)
        memcpy(entry + 1, word.word, word.size)
        slot[0] = LongSlot(word.word_hash, unit + 1)
        fetch_add(&self.table.n_long_words, 1)
        return True

    cdef int add_late(self, const Slot* word) except -1 nogil:
        with self.lock:
            self.late_words = <Slot*>grow_array(self.late_words, &self.late_capacity, self.n_late + 1, sizeof(Slot))
            self.late_words[self.n_late] = word[0]
            self.n_late += 1
        return 0

    cdef int add_late_long(self, const LongKey* word) except -1 nogil:
        with self.lock:
            self.late_long_words = <LongKey*>grow_array(
                self.late_long_words, &self.late_long_capacity, self.n_late_long + 1, sizeof(LongKey)
            )
            self.late_long_words[self.n_late_long] = word[0]
            self.n_late_long += 1
        return 0

    def finish(self):
        """Enter the words that had to wait."""
        cdef size_t i
        with nogil:
            for i in range(self.n_late):
                self.table.insert_short(
                    self.late_words[i].key, hash_key(self.late_words[i].key), self.late_words[i].count,
                    self.late_words[i].first_position,
                )
            self.table.insert_long_words(self.late_long_words, self.n_late_long)
            self.n_late = self.n_late_long = 0


cdef tuple estimate_distinct_words(list tables):
    """Estimate how many different short and long words some tables have together, by those of one part."""
    cdef WordTable table
    cdef size_t n_short = 0, n_long = 0
    for table in tables:
        n_short += table.n_short
        n_long += table.n_long_words
    if n_short + n_long <= FEW_WORDS:
        return n_short, n_long
    short_samples, long_samples = [], []
    for table in tables:
        short_sample, long_sample = sample_hashes(table)
        short_samples.append(short_sample)
        long_samples.append(long_sample)
    n_short = min(len(np.unique(np.concatenate(short_samples))) * SAMPLED_PARTS * 17 // 16, n_short)
    n_long = min(len(np.unique(np.concatenate(long_samples))) * SAMPLED_PARTS * 17 // 16, n_long)
    return n_short, n_long


cdef tuple sample_hashes(WordTable table):
    """The hashes of a table's words in part 0: (of short words, of long ones)."""
    short_hashes = np.empty(table.n_slots // SAMPLED_PARTS, dtype=np.uint64)
    long_hashes = np.empty(table.n_index // SAMPLED_PARTS, dtype=np.uint64)
    cdef uint64_t[::1] short_words = short_hashes, long_words = long_hashes
    cdef Py_ssize_t i, n_short = 0, n_long = 0
    for i in range(short_words.shape[0]):
        if table.slots[i].key.hi != 0:
            short_words[n_short] = hash_key(table.slots[i].key)
            n_short += 1
    for i in range(long_words.shape[0]):
        if table.index[i].unit != 0:
            long_words[n_long] = table.index[i].word_hash
            n_long += 1
    return short_hashes[:n_short], long_hashes[:n_long]
