"""The table of word counts: distinct byte strings, how often each occurs, and where each was seen first.

Keys of at most 15 bytes lie in the slots themselves; longer ones in an arena, found by hash. Each word keeps the
smallest place at which it was seen, so that tables filled from parts of a corpus, in any order and on any thread,
merge into one whose order is that of the corpus. Not here: what a word is (scan, pretokenizers) and files
(`bpe/counting.py`).
"""

import numpy as np

from bpe._core.memory cimport INLINE_BYTES, Key, add_overflows, grown, hash_bytes, hash_key, load_key, prefetch
from bpe._core.scan cimport Cursor, begin, scan
from bpe._core.types cimport byte_t, count_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

cdef enum:
    BATCH = 256               # pieces scanned, hashed and prefetched before they are counted
    AHEAD = 8                 # slots prefetched ahead where tables are merged

cdef struct Slot:             # a word of at most 15 bytes; empty where key.hi is 0
    Key key
    count_t count
    uint64_t first            # the place of its first occurrence

cdef struct LongWord:
    uint64_t hash
    size_t offset             # its bytes in the arena
    size_t size
    count_t count
    uint64_t first


cdef class WordTable:
    """Counts of distinct words. Filled by one thread at a time; `place` grows along the corpus."""

    cdef Slot* slots          # `n_slots`, a power of two, at most half of them used
    cdef size_t n_slots
    cdef size_t n_short
    cdef LongWord* longs
    cdef size_t n_longs
    cdef size_t longs_room
    cdef uint32_t* long_index   # index + 1 into `longs`, 0 where empty; `n_long_slots`, a power of two
    cdef size_t n_long_slots
    cdef byte_t* arena
    cdef size_t arena_size
    cdef size_t arena_room
    cdef readonly count_t total    # of all counts
    cdef bint overflowed           # a word was refused since the last check

    def __cinit__(self):
        self.n_slots = 1 << 12
        self.n_long_slots = 1 << 8
        self.slots = <Slot*>calloc(self.n_slots, sizeof(Slot))
        self.long_index = <uint32_t*>calloc(self.n_long_slots, sizeof(uint32_t))
        if self.slots == NULL or self.long_index == NULL:
            raise MemoryError("no memory for a table of word counts")

    def __dealloc__(self):
        free(self.slots)
        free(self.long_index)
        free(self.longs)
        free(self.arena)

    def __len__(self):
        return self.n_short + self.n_longs

    # Filling ----------------------------------------------------------------------------------------------------------

    def count_scanned(self, int scanner, const byte_t[::1] text, Py_ssize_t start, Py_ssize_t end, uint64_t place):
        """Count the pretokens that a scanner finds in `text[start:end]`, which lies at `place` of the corpus."""
        cdef Py_ssize_t starts[BATCH]
        cdef Py_ssize_t ends[BATCH]
        cdef Py_ssize_t n = BATCH, limit = end
        cdef Cursor cursor
        cdef const byte_t* data
        if end > text.shape[0] or start >= end:
            return
        data = &text[0]
        with nogil:
            begin(&cursor, scanner, data, start, end)
            while n == BATCH:
                n = scan(&cursor, starts, ends, BATCH)
                self.count_batch(data, starts, ends, n, limit, place - <uint64_t>start)
        self.check()

    def count_spans(self, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends, uint64_t place):
        """Count the pretokens that lie at the given byte offsets of a text, which lies at `place` of the corpus."""
        cdef Py_ssize_t first[BATCH]
        cdef Py_ssize_t last[BATCH]
        cdef Py_ssize_t i, n, done = 0, total = starts.shape[0], size = text.shape[0]
        if total == 0:
            return
        with nogil:
            while done < total:
                n = min(<Py_ssize_t>BATCH, total - done)
                for i in range(n):
                    first[i] = starts[done + i]
                    last[i] = ends[done + i]
                self.count_batch(&text[0], first, last, n, size, place)
                done += n
        self.check()

    def add(self, bytes word, count_t count, uint64_t place):
        """Add `count` occurrences of one word, first seen at `place`. The word is not empty."""
        cdef const byte_t* data = word
        cdef Py_ssize_t size = len(word)
        with nogil:
            self.insert(data, 0, size, size, count, place)
        self.check()

    def add_arrays(self, const byte_t[::1] blob, const int64_t[::1] offsets, const int64_t[::1] counts, uint64_t place):
        """Add word i, `blob[offsets[i]:offsets[i + 1]]`, `counts[i]` times, first seen at `place + i`."""
        cdef Py_ssize_t i, total = counts.shape[0], size = blob.shape[0]
        if total == 0:
            return
        with nogil:
            for i in range(total):
                self.insert(&blob[0], offsets[i], offsets[i + 1] - offsets[i], size, counts[i], place + <uint64_t>i)
        self.check()

    def absorb(self, WordTable other):
        """Add another table's words, each at the place it has there; the order of absorbing does not matter."""
        cdef size_t i
        cdef LongWord* entry
        with nogil:
            for i in range(other.n_slots):
                if i + AHEAD < other.n_slots and other.slots[i + AHEAD].key.hi != 0:
                    prefetch(&self.slots[hash_key(other.slots[i + AHEAD].key) & (self.n_slots - 1)])
                if other.slots[i].key.hi != 0:
                    self.insert_short(
                        other.slots[i].key, hash_key(other.slots[i].key), other.slots[i].count, other.slots[i].first
                    )
            for i in range(other.n_longs):
                if i + AHEAD < other.n_longs:
                    prefetch(&self.long_index[other.longs[i + AHEAD].hash & (self.n_long_slots - 1)])
                entry = &other.longs[i]
                self.insert_long(other.arena + entry.offset, entry.size, entry.hash, entry.count, entry.first)
        self.check()

    cdef int count_batch(
        self, const byte_t* text, const Py_ssize_t* starts, const Py_ssize_t* ends, Py_ssize_t n,
        Py_ssize_t text_end, uint64_t place,
    ) except -1 nogil:
        """Count n pieces; what they need of the table is prefetched for all of them before the first is looked up."""
        cdef Key keys[BATCH]
        cdef uint64_t hashes[BATCH]
        cdef Py_ssize_t longer[BATCH]
        cdef Py_ssize_t i, k, size, n_longer = 0
        cdef uint32_t entry
        for i in range(n):
            size = ends[i] - starts[i]
            if size <= INLINE_BYTES:
                keys[i] = load_key(text, starts[i], size, text_end)
                hashes[i] = hash_key(keys[i])
                prefetch(&self.slots[hashes[i] & (self.n_slots - 1)])
            else:
                hashes[i] = hash_bytes(text + starts[i], size)
                prefetch(&self.long_index[hashes[i] & (self.n_long_slots - 1)])
                longer[n_longer] = i
                n_longer += 1
        for k in range(n_longer):                      # index, entry, bytes: each is fetched while the others are
            entry = self.long_index[hashes[longer[k]] & (self.n_long_slots - 1)]
            if entry != 0:
                prefetch(&self.longs[entry - 1])
        for k in range(n_longer):
            entry = self.long_index[hashes[longer[k]] & (self.n_long_slots - 1)]
            if entry != 0:
                prefetch(self.arena + self.longs[entry - 1].offset)
        for i in range(n):
            size = ends[i] - starts[i]
            if size <= INLINE_BYTES:
                self.insert_short(keys[i], hashes[i], 1, place + <uint64_t>starts[i])
            else:
                self.insert_long(text + starts[i], size, hashes[i], 1, place + <uint64_t>starts[i])
        return 0

    cdef int insert(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t size, Py_ssize_t end, count_t count, uint64_t place
    ) except -1 nogil:
        cdef Key key
        if size <= INLINE_BYTES:
            key = load_key(text, start, size, end)
            return self.insert_short(key, hash_key(key), count, place)
        return self.insert_long(text + start, size, hash_bytes(text + start, size), count, place)

    cdef inline bint count_more(self, count_t count) noexcept nogil:
        """Add to the total; False, and nothing added, where it would exceed 2**63 - 1."""
        cdef long long total
        if add_overflows(self.total, count, &total):
            self.overflowed = True
            return False
        self.total = total
        return True

    cdef int insert_short(self, Key key, uint64_t hashed, count_t count, uint64_t place) except -1 nogil:
        cdef size_t mask = self.n_slots - 1, at = hashed & mask
        cdef Slot* slot = &self.slots[at]
        if not self.count_more(count):
            return 0
        while slot.key.hi != 0:
            if slot.key.lo == key.lo and slot.key.hi == key.hi:
                slot.count += count                # at most the total, which has been checked
                if place < slot.first:
                    slot.first = place
                return 0
            at = (at + 1) & mask
            slot = &self.slots[at]
        slot.key = key
        slot.count = count
        slot.first = place
        self.n_short += 1
        if self.n_short * 2 > self.n_slots:
            self.grow_slots()
        return 0

    cdef int grow_slots(self) except -1 nogil:
        cdef size_t i, at, larger = self.n_slots * 2
        cdef Slot* slots = <Slot*>calloc(larger, sizeof(Slot))
        if slots == NULL:
            with gil:
                raise MemoryError(f"no memory for {larger} slots of a table of word counts")
        for i in range(self.n_slots):
            if self.slots[i].key.hi != 0:
                at = hash_key(self.slots[i].key) & (larger - 1)
                while slots[at].key.hi != 0:
                    at = (at + 1) & (larger - 1)
                slots[at] = self.slots[i]
        free(self.slots)
        self.slots = slots
        self.n_slots = larger
        return 0

    cdef int insert_long(
        self, const byte_t* word, Py_ssize_t size, uint64_t hashed, count_t count, uint64_t place
    ) except -1 nogil:
        cdef size_t mask = self.n_long_slots - 1, at = hashed & mask
        cdef LongWord* entry
        if not self.count_more(count):
            return 0
        while self.long_index[at] != 0:
            entry = &self.longs[self.long_index[at] - 1]
            if (
                entry.hash == hashed and entry.size == <size_t>size
                and memcmp(self.arena + entry.offset, word, size) == 0
            ):
                entry.count += count
                if place < entry.first:
                    entry.first = place
                return 0
            at = (at + 1) & mask
        self.longs = <LongWord*>grown(self.longs, &self.longs_room, self.n_longs + 1, sizeof(LongWord))
        self.arena = <byte_t*>grown(self.arena, &self.arena_room, self.arena_size + size, 1)
        entry = &self.longs[self.n_longs]
        entry.hash = hashed
        entry.offset = self.arena_size
        entry.size = size
        entry.count = count
        entry.first = place
        memcpy(self.arena + self.arena_size, word, size)
        self.arena_size += size
        self.n_longs += 1
        self.long_index[at] = <uint32_t>self.n_longs
        if self.n_longs * 2 > self.n_long_slots:
            self.grow_long_index()
        return 0

    cdef int grow_long_index(self) except -1 nogil:
        cdef size_t i, at, larger = self.n_long_slots * 2
        cdef uint32_t* index = NULL
        if self.n_longs < <size_t>0x7FFFFFFF:
            index = <uint32_t*>calloc(larger, sizeof(uint32_t))
        if index == NULL:
            with gil:
                raise MemoryError(f"no memory for {larger} slots of a table of word counts")
        for i in range(self.n_longs):
            at = self.longs[i].hash & (larger - 1)
            while index[at] != 0:
                at = (at + 1) & (larger - 1)
            index[at] = <uint32_t>(i + 1)
        free(self.long_index)
        self.long_index = index
        self.n_long_slots = larger
        return 0

    cdef int check(self) except -1:
        if self.overflowed:
            self.overflowed = False
            raise ValueError(
                "the counts sum to more than 2**63 - 1, the most that counts can be together; scale them down"
            )
        return 0

    # Reading ----------------------------------------------------------------------------------------------------------

    def get(self, bytes word):
        """The count of a word, 0 if it was never seen."""
        cdef Py_ssize_t size = len(word)
        cdef const byte_t* data = word
        cdef size_t at
        cdef uint64_t hashed
        cdef Key key
        if 0 < size <= INLINE_BYTES:
            key = load_key(data, 0, size, size)
            at = hash_key(key) & (self.n_slots - 1)
            while self.slots[at].key.hi != 0:
                if self.slots[at].key.lo == key.lo and self.slots[at].key.hi == key.hi:
                    return self.slots[at].count
                at = (at + 1) & (self.n_slots - 1)
        elif size:
            hashed = hash_bytes(data, size)
            at = hashed & (self.n_long_slots - 1)
            while self.long_index[at] != 0:
                entry = &self.longs[self.long_index[at] - 1]
                if entry.size == <size_t>size and memcmp(self.arena + entry.offset, data, size) == 0:
                    return entry.count
                at = (at + 1) & (self.n_long_slots - 1)
        return 0

    def arrays(self):
        """All words by first place: (uint8 blob, int64 offsets (n + 1,), int64 counts (n,), uint64 places (n,))."""
        cdef Py_ssize_t n = self.n_short + self.n_longs, i, k = 0
        cdef size_t s
        places = np.empty(n, dtype=np.uint64)
        which = np.empty(n, dtype=np.int64)                # a slot's index, or -1 - the index of a long word
        cdef uint64_t[::1] place = places
        cdef int64_t[::1] at = which
        for s in range(self.n_slots):
            if self.slots[s].key.hi != 0:
                place[k] = self.slots[s].first
                at[k] = <int64_t>s
                k += 1
        for s in range(self.n_longs):
            place[k] = self.longs[s].first
            at[k] = -1 - <int64_t>s
            k += 1
        order = np.argsort(places, kind="stable")
        places = places[order]
        which = which[order]
        at = which
        offsets = np.zeros(n + 1, dtype=np.int64)
        counts = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] offset = offsets, count = counts
        for i in range(n):
            if at[i] >= 0:
                offset[i + 1] = offset[i] + <int64_t>(self.slots[at[i]].key.hi >> 56)
                count[i] = self.slots[at[i]].count
            else:
                offset[i + 1] = offset[i] + <int64_t>self.longs[-1 - at[i]].size
                count[i] = self.longs[-1 - at[i]].count
        blob = np.empty(offset[n], dtype=np.uint8)
        cdef byte_t[::1] data = blob
        cdef LongWord* entry
        for i in range(n):
            if at[i] >= 0:
                memcpy(&data[offset[i]], &self.slots[at[i]].key, offset[i + 1] - offset[i])
            else:
                entry = &self.longs[-1 - at[i]]
                memcpy(&data[offset[i]], self.arena + entry.offset, entry.size)
        return blob, offsets, counts, places
