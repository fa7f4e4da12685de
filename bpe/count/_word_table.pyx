"""The table of word counts: distinct byte strings, the count of each, and the position of its first occurrence.

Two hash tables with linear probing. A word of at most 15 bytes is stored in its slot; a longer one in an arena, which
an index of hashes points into. Each word keeps the smallest position at which it occurs, so tables filled from parts of
a corpus, in any order and by any thread, merge into one in the order of the corpus.

Measured, English from a file, one thread: 384 MB/s at first, 733 with keys in slots, prefetch and no branches on keys.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets, check_spans
from bpe.base._memory cimport (
    INLINE_BYTES, Key, add_overflows, check_allocated, hash_bytes, hash_key, load_key, near_key, prefetch,
)
from bpe.base._pages cimport grow_zeroed, release, trim_heap, allocate_zeroed
from bpe.base._types cimport byte_t, count_t
from bpe.corpus._file_reader cimport FileBlock, FileReader
from bpe.pretokenize._char_masks cimport Cursor
from bpe.pretokenize._safe_points cimport find_last_split_point
from bpe.pretokenize._scanner cimport MIN_ROOM, open_cursor, scan, scan_bounds
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    PREFETCH_AHEAD = 16       # words between the one that is prefetched and the one that is copied
    BATCH = 256               # pretokens scanned, hashed and prefetched before they are counted
    MAX_SPAN = 1 << 30        # bytes from the start of a batch to its last pretoken, so that offsets have 32 bits
    FREQUENT = 8              # words with this count are entered first when a table grows
    READ_BYTES = 1 << 22      # of a file that one call counts, and the rest of a block
    UNIT = 8                  # bytes of a unit of the arena

cdef const char* WORDS = b"slots of a table of word counts"

cdef struct Batch:            # pretokens that are about to be counted
    const byte_t* text        # `start` is relative to this
    Py_ssize_t readable       # bytes from `text` on that may be read
    uint64_t position         # of `text` in the corpus
    Py_ssize_t n
    uint32_t start[BATCH]     # ascending
    uint32_t size[BATCH]

cdef struct Slot:             # a word of at most 15 bytes; empty where key.hi is 0
    Key key
    count_t count
    uint64_t first            # the position of its first occurrence

cdef struct LongWord:         # a longer word in the arena; its bytes follow, padded to whole units
    count_t count
    uint64_t first
    size_t size

cdef struct LongSlot:         # an index entry; empty where unit is 0
    uint32_t hashed           # the upper half of the hash: selects the entry, and is compared before the bytes
    uint32_t unit             # the offset of its LongWord in the arena, in units of 8 bytes, plus 1

cdef struct LongKey:          # a longer word that is looked up or about to be counted
    const byte_t* word
    size_t size
    uint32_t hashed
    count_t count
    uint64_t position


cdef inline size_t units_of(size_t size) noexcept nogil:
    """The number of arena units that a word of `size` bytes takes."""
    return (sizeof(LongWord) + size + UNIT - 1) // UNIT


cdef inline Py_ssize_t scan_into(Batch* batch, Cursor* cursor) noexcept nogil:
    """Add the next pretokens that a scanner finds, if they have no gaps and fit; returns their number."""
    cdef uint32_t bounds[BATCH + 1]
    cdef uint32_t at = <uint32_t>(cursor.text + cursor.pos - batch.text)
    cdef Py_ssize_t found = scan_bounds(cursor, bounds, BATCH - batch.n), n = batch.n, i
    for i in range(found):
        batch.start[n + i] = at + bounds[i]
        batch.size[n + i] = bounds[i + 1] - bounds[i]
    batch.n += found
    return found


cdef inline LongKey long_key(const byte_t* word, size_t size, count_t count, uint64_t position) noexcept nogil:
    return LongKey(word, size, <uint32_t>(hash_bytes(word, size) >> 32), count, position)


cdef Py_ssize_t last_cut(void* scanner, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil:
    return find_last_split_point((<int*>scanner)[0], text, low, end)


cdef class WordTable:
    """Counts of distinct words. One thread at a time may fill it. `position` is a word's position in the corpus."""

    cdef Slot* slots          # `n_slots`, a power of two, at most 5 of 8 used
    cdef size_t n_slots
    cdef size_t n_short
    cdef LongSlot* index      # `n_index`, a power of two, at most half of them used
    cdef size_t n_index
    cdef size_t n_longs
    cdef uint64_t* arena      # LongWords
    cdef size_t arena_units
    cdef size_t arena_capacity
    cdef uint64_t seen_until  # all words counted so far occur before this position
    cdef readonly count_t total    # of all counts
    cdef bint overflowed           # a word was not counted since the last check
    cdef FileBlock block           # of the file that is counted

    def __cinit__(self, size_t slots=0):
        """An empty table with at least so many slots. It grows when 5 of 8 are used."""
        self.n_slots = 1 << 12
        while self.n_slots < slots:
            self.n_slots *= 2
        self.n_index = 1 << 8
        self.slots = <Slot*>check_allocated(allocate_zeroed(self.n_slots * sizeof(Slot)), self.n_slots, WORDS)
        self.index = <LongSlot*>check_allocated(allocate_zeroed(self.n_index * sizeof(LongSlot)), self.n_index, WORDS)

    def __dealloc__(self):
        release(self.slots, self.n_slots * sizeof(Slot))
        release(self.index, self.n_index * sizeof(LongSlot))
        release(self.arena, self.arena_capacity * UNIT)

    def __len__(self):
        return self.n_short + self.n_longs

    # Filling ----------------------------------------------------------------------------------------------------------

    def count_scanned(
        self, int scanner, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends, uint64_t position
    ):
        """Count the pretokens that a scanner finds in each `text[starts[i]:ends[i]]`; `text` is at `position`.

        The spans may be in any order, and overlap.
        """
        cdef Batch batch
        cdef Py_ssize_t i, size = text.shape[0]
        check_spans(starts, ends, size)
        if size == 0:
            return
        batch.n = 0
        with nogil:
            for i in range(starts.shape[0]):
                if i and starts[i] < ends[i - 1]:          # the pretokens of a batch ascend
                    self.count_batch(&batch)
                self.count_text(&batch, scanner, &text[0], starts[i], ends[i], size, position)
            self.count_batch(&batch)
        self.check()

    def count_file(self, int scanner, FileReader reader not None, uint64_t position):
        """Count the pretokens of some blocks of a file, which begins at `position`; returns the bytes that were read.

        Raises:
            FormatError: for the first block of the file that must be UTF-8 and is not.

        """
        cdef Batch batch
        cdef Py_ssize_t i, start, done = 0
        cdef FileBlock block = self.block
        if block is None:
            block = self.block = FileBlock()
        batch.n = 0
        with nogil:
            while done < READ_BYTES and reader.take(block, last_cut, <void*>&scanner):
                block.split(reader)
                for i in range(block.n_documents):
                    start = block.starts[i]
                    self.count_text(
                        &batch, scanner, block.data, start, start + block.sizes[i], block.capacity,
                        position + <uint64_t>block.offset,
                    )
                self.count_batch(&batch)
                done += block.size
        self.check()
        return done

    cdef int count_text(
        self, Batch* batch, int scanner, const byte_t* text, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size,
        uint64_t position,
    ) except -1 nogil:
        """Add the pretokens of `text[start:end]` to a batch, which is counted when it is full.

        `text` has `size` bytes that may be read, and is at `position` of the corpus.
        """
        cdef Cursor cursor
        open_cursor(&cursor, scanner, text, start, end)
        while cursor.pos < cursor.end:                 # a batch may hold pretokens of several documents
            if batch.n + MIN_ROOM > BATCH or text + cursor.pos - batch.text >= MAX_SPAN:
                self.count_batch(batch)
            if batch.n == 0:
                batch.text, batch.readable = text + cursor.pos, size - cursor.pos
                batch.position = position + <uint64_t>cursor.pos
            if not scan_into(batch, &cursor):
                self.count_scanned_singly(&cursor, size, position)
        return 0

    cdef int count_scanned_singly(self, Cursor* cursor, Py_ssize_t size, uint64_t position) except -1 nogil:
        """Count the next pretokens one by one: there are gaps between them, or sizes of over 32 bits."""
        cdef Py_ssize_t start[MIN_ROOM]
        cdef Py_ssize_t end[MIN_ROOM]
        cdef Py_ssize_t n = scan(cursor, start, end, MIN_ROOM), i
        for i in range(n):
            self.insert(cursor.text, start[i], end[i] - start[i], size, 1, position + <uint64_t>start[i])
        return 0

    def count_spans(
        self, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends, uint64_t position
    ):
        """Count the pretokens `text[starts[i]:ends[i]]`, in any order; `text` is at `position` of the corpus."""
        cdef Py_ssize_t i, size = text.shape[0]
        check_spans(starts, ends, size, False)
        if size == 0:
            return
        with nogil:
            for i in range(starts.shape[0]):
                self.insert(&text[0], starts[i], ends[i] - starts[i], size, 1, position + <uint64_t>starts[i])
        self.check()

    def add_arrays(
        self, const byte_t[::1] blob, const int64_t[::1] offsets, const int64_t[::1] counts,
        const uint64_t[::1] positions
    ):
        """Add `counts[i]` occurrences of word i, `blob[offsets[i]:offsets[i + 1]]`, the first at `positions[i]`."""
        cdef Py_ssize_t i, total = counts.shape[0], size = blob.shape[0]
        check_offsets(offsets, total, size)
        if positions.shape[0] != total:
            raise ValueError(f"there are {total} counts and {positions.shape[0]} positions; give one for each word")
        for i in range(total):
            if offsets[i] == offsets[i + 1] or counts[i] < 0:
                raise ValueError(
                    f"word {i} has {offsets[i + 1] - offsets[i]} bytes and the count {counts[i]}; a word has at least "
                    "one byte, and a count is at least 0"
                )
        with nogil:
            for i in range(total):
                self.insert(&blob[0], offsets[i], offsets[i + 1] - offsets[i], size, counts[i], positions[i])
        self.check()

    def absorb(self, list others, bint long_words):
        """Add other tables' words with their positions: either the long words or the short ones.

        Two threads may do both at once. The order of the tables does not matter.
        """
        cdef WordTable other
        for other in others:
            with nogil:
                if long_words:
                    self.absorb_long(other)
                else:
                    self.absorb_short(other)
        self.check()

    cdef int absorb_short(self, WordTable other) except -1 nogil:
        """Add another table's words of at most 15 bytes, and its total."""
        cdef size_t i
        cdef Slot* slot
        if not self.count_more(other.total):
            return 0
        self.seen_until = max(self.seen_until, other.seen_until)
        for i in range(other.n_slots):
            slot = &other.slots[i]
            if slot.key.hi != 0:
                self.insert_short(slot.key, hash_key(slot.key), slot.count, slot.first)
        return 0

    cdef int absorb_long(self, WordTable other) except -1 nogil:
        """Add another table's longer words."""
        cdef LongKey batch[BATCH]
        cdef size_t unit = 0
        cdef Py_ssize_t n = 0
        cdef LongWord* entry
        while unit < other.arena_units:
            entry = <LongWord*>(other.arena + unit)
            batch[n] = long_key(<byte_t*>(entry + 1), entry.size, entry.count, entry.first)
            unit += units_of(entry.size)
            n += 1
            if n == BATCH:
                self.insert_long_words(batch, n)
                n = 0
        return self.insert_long_words(batch, n)

    cdef int count_batch(self, Batch* batch) except -1 nogil:
        """Count the pretokens of a batch and empty it.

        The slots of all of them are prefetched before the first is looked up.
        """
        cdef Key keys[BATCH]
        cdef uint64_t hashes[BATCH]
        cdef LongKey longs[BATCH]
        cdef Py_ssize_t i, n = batch.n, n_longs
        cdef size_t mask = self.n_slots - 1
        cdef Slot* slots = self.slots
        cdef Slot* slot
        cdef bint ordered
        batch.n = 0
        if n == 0 or not self.count_more(n):
            return 0
        n_longs = self.hash_batch(batch, n, keys, hashes, longs)
        ordered = batch.position + batch.start[0] >= self.seen_until
        for i in range(n):
            slot = &slots[hashes[i] & mask]
            if slot.key.lo == keys[i].lo and slot.key.hi == keys[i].hi:
                slot.count += 1                        # cannot overflow: it is at most the total
                if not ordered:
                    slot.first = min(slot.first, batch.position + batch.start[i])
            elif keys[i].hi != 0:
                self.insert_short(keys[i], hashes[i], 1, batch.position + batch.start[i])
                slots = self.slots
                mask = self.n_slots - 1
        self.seen_until = max(self.seen_until, batch.position + batch.start[n - 1] + 1)
        return self.insert_long_words(longs, n_longs)

    cdef inline Py_ssize_t hash_batch(
        self, const Batch* batch, Py_ssize_t n, Key* keys, uint64_t* hashes, LongKey* longs
    ) noexcept nogil:
        """Compute the keys and hashes of n pretokens, and prefetch their slots; lists the long words in `longs`.

        Returns the number of long words.
        """
        cdef const Slot* slots = self.slots
        cdef size_t mask = self.n_slots - 1
        cdef bint near = batch.start[n - 1] + <Py_ssize_t>16 <= batch.readable
        cdef Py_ssize_t i, n_longs = 0
        for i in range(n):
            if batch.size[i] > INLINE_BYTES:
                longs[n_longs] = long_key(
                    batch.text + batch.start[i], batch.size[i], 1, batch.position + batch.start[i]
                )
                n_longs += 1
                keys[i].lo = 1                         # differs from every slot, also from an empty one
                keys[i].hi = hashes[i] = 0
                continue
            if near:
                keys[i] = near_key(batch.text + batch.start[i], batch.size[i])
            else:
                keys[i] = load_key(batch.text, batch.start[i], batch.size[i], batch.readable)
            hashes[i] = hash_key(keys[i])
            prefetch(&slots[hashes[i] & mask])
        return n_longs

    cdef int insert(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t size, Py_ssize_t end, count_t count, uint64_t position
    ) except -1 nogil:
        cdef Key key
        cdef LongKey word
        if size <= 0 or not self.count_more(count):        # the key of an empty word means an empty slot
            return 0
        self.seen_until = max(self.seen_until, position + 1)
        if size <= INLINE_BYTES:
            key = load_key(text, start, size, end)
            return self.insert_short(key, hash_key(key), count, position)
        word = long_key(text + start, size, count, position)
        return self.insert_long_words(&word, 1)

    cdef inline bint count_more(self, count_t count) noexcept nogil:
        """Add to the total; False, without adding, if it would exceed 2**63 - 1."""
        cdef long long total
        if add_overflows(self.total, count, &total):
            self.overflowed = True
            return False
        self.total = total
        return True

    cdef inline Slot* slot_of(self, Key key, uint64_t hashed) noexcept nogil:
        """The slot of a word of at most 15 bytes, or the empty slot to enter it in."""
        cdef size_t mask = self.n_slots - 1, at = hashed & mask
        while self.slots[at].key.hi != 0 and (self.slots[at].key.lo != key.lo or self.slots[at].key.hi != key.hi):
            at = (at + 1) & mask
        return &self.slots[at]

    cdef int insert_short(self, Key key, uint64_t hashed, count_t count, uint64_t position) except -1 nogil:
        cdef Slot* slot = self.slot_of(key, hashed)
        if slot.key.hi != 0:
            slot.count += count
            slot.first = min(slot.first, position)
            return 0
        slot[0] = Slot(key, count, position)
        self.n_short += 1
        if self.n_short * 8 > self.n_slots * 5:
            self.grow_slots()
        return 0

    cdef int grow_slots(self) except -1 nogil:
        cdef size_t i, at, larger = self.n_slots * 2
        cdef bint frequent
        cdef Slot* slots = <Slot*>check_allocated(allocate_zeroed(larger * sizeof(Slot)), larger, WORDS)
        for frequent in (True, False):                     # frequent words first, so that they get their first slot
            for i in range(self.n_slots):
                if self.slots[i].key.hi != 0 and (self.slots[i].count >= FREQUENT) == frequent:
                    at = hash_key(self.slots[i].key) & (larger - 1)
                    while slots[at].key.hi != 0:
                        at = (at + 1) & (larger - 1)
                    slots[at] = self.slots[i]
        release(self.slots, self.n_slots * sizeof(Slot))
        self.slots = slots
        self.n_slots = larger
        return 0

    cdef int insert_long_words(self, const LongKey* words, Py_ssize_t n) except -1 nogil:
        """Count long words. The index entries of all of them are prefetched, then the words in the arena."""
        cdef Py_ssize_t i
        cdef uint32_t unit
        for i in range(n):
            prefetch(&self.index[words[i].hashed & (self.n_index - 1)])
        for i in range(n):
            unit = self.index[words[i].hashed & (self.n_index - 1)].unit
            if unit != 0:
                prefetch(self.arena + unit - 1)
                prefetch(self.arena + unit + 7)
        for i in range(n):
            self.insert_long(&words[i])
        return 0

    cdef inline LongSlot* long_slot_of(self, const LongKey* word) noexcept nogil:
        """The index entry of a long word, or the empty entry to enter it in."""
        cdef size_t mask = self.n_index - 1, at = word.hashed & mask
        cdef const LongWord* entry
        while self.index[at].unit != 0:
            entry = <LongWord*>(self.arena + self.index[at].unit - 1)
            if self.index[at].hashed == word.hashed and entry.size == word.size:
                if memcmp(entry + 1, word.word, word.size) == 0:
                    break
            at = (at + 1) & mask
        return &self.index[at]

    cdef int insert_long(self, const LongKey* word) except -1 nogil:
        cdef LongSlot* slot = self.long_slot_of(word)
        cdef LongWord* entry
        if slot.unit != 0:
            entry = <LongWord*>(self.arena + slot.unit - 1)
            entry.count += word.count
            entry.first = min(entry.first, word.position)
            return 0
        entry = self.new_long(word.size)
        entry[0] = LongWord(word.count, word.position, word.size)
        memcpy(entry + 1, word.word, word.size)
        slot[0] = LongSlot(word.hashed, <uint32_t>(<uint64_t*>entry - self.arena) + 1)
        self.n_longs += 1
        if self.n_longs * 2 > self.n_index:
            self.grow_index()
        return 0

    cdef LongWord* new_long(self, size_t size) except NULL nogil:
        """Reserve space at the arena's end for a word of `size` bytes."""
        cdef size_t units = self.arena_units + units_of(size)
        cdef LongWord* entry
        if units > <size_t>0xFFFFFFFF:
            with gil:
                raise MemoryError(
                    "the words of more than 15 bytes take over 32 GiB; count the corpus in parts, or use a "
                    "pretokenizer that makes shorter words"
                )
        if units > self.arena_capacity:
            self.grow_arena(units)
        entry = <LongWord*>(self.arena + self.arena_units)
        self.arena_units = units
        return entry

    cdef int grow_arena(self, size_t units) except -1 nogil:
        """Make room for so many units, in whole pages: what threads free of the heap may stay with the process."""
        cdef size_t capacity = max(self.arena_capacity + self.arena_capacity // 2, units)
        self.arena = <uint64_t*>check_allocated(
            grow_zeroed(self.arena, self.arena_capacity * UNIT, capacity * UNIT), capacity * UNIT, b"bytes of words"
        )
        self.arena_capacity = capacity
        return 0

    cdef int grow_index(self) except -1 nogil:
        cdef size_t i, at, larger = self.n_index * 2
        cdef LongSlot* index = <LongSlot*>check_allocated(allocate_zeroed(larger * sizeof(LongSlot)), larger, WORDS)
        for i in range(self.n_index):
            if self.index[i].unit != 0:
                at = self.index[i].hashed & (larger - 1)
                while index[at].unit != 0:
                    at = (at + 1) & (larger - 1)
                index[at] = self.index[i]
        release(self.index, self.n_index * sizeof(LongSlot))
        self.index = index
        self.n_index = larger
        return 0

    cdef int check(self) except -1:
        if self.overflowed:
            self.overflowed = False
            raise ValueError(
                "the counts sum to more than 2**63 - 1, the largest sum supported; scale the counts down"
            )
        return 0

    # Reading ----------------------------------------------------------------------------------------------------------

    def get(self, bytes word):
        """The count of a word, 0 if it does not occur."""
        cdef Py_ssize_t size = len(word)
        cdef const byte_t* data = word
        cdef Key key
        cdef LongKey wanted
        cdef LongSlot* slot
        if 0 < size <= INLINE_BYTES:
            key = load_key(data, 0, size, size)
            return self.slot_of(key, hash_key(key)).count  # 0 in an empty slot
        wanted = long_key(data, size, 0, 0)
        slot = self.long_slot_of(&wanted)
        return (<LongWord*>(self.arena + slot.unit - 1)).count if slot.unit != 0 else 0

    @property
    def memory(self):
        """The bytes that the table takes."""
        return self.n_slots * sizeof(Slot) + self.n_index * sizeof(LongSlot) + self.arena_capacity * UNIT

    def arrays(self, size_t part=0, size_t parts=1):
        """The words in order of position: (uint8 blob, int64 offsets (n + 1,), int64 counts (n,), uint64 positions).

        Either all words, or those of part `part` of `parts`, into which their hashes divide them.
        """
        cdef Py_ssize_t n = self.words_in(part, parts, NULL, NULL), i
        positions = np.empty(n, dtype=np.uint64)
        which = np.empty(n, dtype=np.int64)                # a slot's index, or -1 - the unit of a longer word
        cdef uint64_t[::1] position = positions
        cdef int64_t[::1] at = which
        cdef LongWord* entry
        if n:
            with nogil:
                self.words_in(part, parts, &position[0], &at[0])
        order = np.argsort(positions, kind="stable")
        positions = positions[order]
        which = which[order]
        del order
        at = which
        offsets = np.zeros(n + 1, dtype=np.int64)
        counts = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] offset = offsets, count = counts
        with nogil:
            for i in range(n):
                prefetch(self.word_at(at[min(i + PREFETCH_AHEAD, n - 1)]))
                if at[i] >= 0:
                    offset[i + 1] = offset[i] + <int64_t>(self.slots[at[i]].key.hi >> 56)
                    count[i] = self.slots[at[i]].count
                else:
                    entry = <LongWord*>self.word_at(at[i])
                    offset[i + 1] = offset[i] + <int64_t>entry.size
                    count[i] = entry.count
        blob = np.empty(offset[n], dtype=np.uint8)
        cdef byte_t[::1] data = blob
        with nogil:
            for i in range(n):
                prefetch(self.word_at(at[min(i + PREFETCH_AHEAD, n - 1)]))
                memcpy(
                    &data[offset[i]], <byte_t*>self.word_at(at[i]) + (0 if at[i] >= 0 else sizeof(LongWord)),
                    offset[i + 1] - offset[i],
                )
        return blob, offsets, counts, positions

    cdef Py_ssize_t words_in(self, size_t part, size_t parts, uint64_t* positions, int64_t* which) noexcept nogil:
        """The number of words of a part. Writes their positions and items (see `word_at`) to arrays that are given."""
        cdef Py_ssize_t n = 0
        cdef size_t s, unit = 0
        cdef LongWord* entry
        for s in range(self.n_slots):
            if self.slots[s].key.hi == 0 or (parts > 1 and (hash_key(self.slots[s].key) >> 32) * parts >> 32 != part):
                continue
            if positions != NULL:
                positions[n] = self.slots[s].first
                which[n] = <int64_t>s
            n += 1
        while unit < self.arena_units:                     # in order of entry: nearly sorted by position
            entry = <LongWord*>(self.arena + unit)
            if parts == 1 or (hash_bytes(<byte_t*>(entry + 1), entry.size) >> 32) * parts >> 32 == part:
                if positions != NULL:
                    positions[n] = entry.first
                    which[n] = -<int64_t>unit - 1
                n += 1
            unit += units_of(entry.size)
        return n

    cdef inline const void* word_at(self, int64_t at) noexcept nogil:
        """The slot, or the word in the arena, of an item of `which`."""
        return <void*>&self.slots[at] if at >= 0 else <void*>(self.arena - 1 - at)


def give_memory_back():
    """Return the allocator's free memory to the system."""
    trim_heap()
