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
    PREFETCH_DISTANCE = 16    # words between the one that is prefetched and the one that is copied
    BATCH_WORDS = 256         # pretokens scanned, hashed and prefetched before they are counted
    MAX_SPAN = 1 << 30        # bytes from the start of a batch to its last pretoken, so that offsets have 32 bits
    FREQUENT_COUNT = 8        # words with this count are entered first when a table grows
    READ_BYTES = 1 << 22      # of a file that one call counts, and the rest of a block
    UNIT_BYTES = 8            # bytes of a unit of the arena
    FILE_POSITION_BITS = 36   # of the positions of one file (`FIRST_SEEN_PER_BLOCK` in `counting.py`)

cdef const char* SLOTS_NAME = b"slots of a table of word counts"

cdef struct Batch:            # pretokens that are about to be counted
    const byte_t* text        # `start` is relative to this
    Py_ssize_t readable       # bytes from `text` on that may be read
    uint64_t position         # of `text` in the corpus
    Py_ssize_t n
    uint32_t start[BATCH_WORDS]  # ascending
    uint32_t size[BATCH_WORDS]

cdef struct Slot:             # a word of at most 15 bytes; empty where key.hi is 0
    Key key
    count_t count
    uint64_t first_position   # the position of its first occurrence

cdef struct LongWord:         # a longer word in the arena; its bytes follow, padded to whole units
    count_t count
    uint64_t first_position
    size_t size

cdef struct LongSlot:         # an index entry; empty where unit is 0
    uint32_t word_hash        # the upper half of the hash: selects the entry, and is compared before the bytes
    uint32_t unit             # the offset of its LongWord in the arena, in units of 8 bytes, plus 1

cdef struct LongKey:          # a longer word that is looked up or about to be counted
    const byte_t* word
    size_t size
    uint32_t word_hash
    count_t count
    uint64_t position


cdef inline size_t count_units(size_t size) noexcept nogil:
    """Count the arena units that a word of `size` bytes takes."""
    return (sizeof(LongWord) + size + UNIT_BYTES - 1) // UNIT_BYTES


cdef inline Py_ssize_t scan_into(Batch* batch, Cursor* cursor) noexcept nogil:
    """Add the next pretokens that a scanner finds, if they have no gaps and fit; returns their number."""
    cdef uint32_t bounds[BATCH_WORDS + 1]
    cdef uint32_t batch_offset = <uint32_t>(cursor.text + cursor.pos - batch.text)
    cdef Py_ssize_t n_found = scan_bounds(cursor, bounds, BATCH_WORDS - batch.n), n = batch.n, i
    for i in range(n_found):
        batch.start[n + i] = batch_offset + bounds[i]
        batch.size[n + i] = bounds[i + 1] - bounds[i]
    batch.n += n_found
    return n_found


cdef inline LongKey make_long_key(const byte_t* word, size_t size, count_t count, uint64_t position) noexcept nogil:
    return LongKey(word, size, <uint32_t>(hash_bytes(word, size) >> 32), count, position)


cdef Py_ssize_t find_last_cut(void* scanner, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil:
    return find_last_split_point((<int*>scanner)[0], text, low, end)


cdef class WordTable:
    """Counts of distinct words. One thread at a time may fill it. `position` is a word's position in the corpus."""

    cdef Slot* slots          # `n_slots`, a power of two, at most 5 of 8 used
    cdef size_t n_slots
    cdef size_t n_short
    cdef LongSlot* index      # `n_index`, a power of two, at most half of them used
    cdef size_t n_index
    cdef size_t n_long_words
    cdef uint64_t* arena      # LongWords
    cdef size_t arena_units
    cdef size_t arena_capacity
    cdef uint64_t counted_until  # all words counted so far occur before this position
    cdef readonly count_t total    # of all counts
    cdef bint overflowed           # a word was not counted since the last check
    cdef FileBlock block           # of the file that is counted

    def __cinit__(self, size_t slots=0):
        """Make an empty table with at least so many slots, which grows when 5 of 8 are used."""
        self.n_slots = 1 << 12
        while self.n_slots < slots:
            self.n_slots *= 2
        self.n_index = 1 << 8
        self.slots = <Slot*>check_allocated(allocate_zeroed(self.n_slots * sizeof(Slot)), self.n_slots, SLOTS_NAME)
        self.index = <LongSlot*>check_allocated(
            allocate_zeroed(self.n_index * sizeof(LongSlot)), self.n_index, SLOTS_NAME
        )

    def __dealloc__(self):
        release(self.slots, self.n_slots * sizeof(Slot))
        release(self.index, self.n_index * sizeof(LongSlot))
        release(self.arena, self.arena_capacity * UNIT_BYTES)

    def __len__(self):
        return self.n_short + self.n_long_words

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
        self.check_overflow()

    def count_file(self, int scanner, FileReader reader not None, uint64_t position):
        """Count the pretokens of some blocks of files; returns the bytes that were read.

        The first file begins at `position`, each other one 2**FILE_POSITION_BITS after the one before.

        Raises:
            FormatError: for the first block of the file that must be UTF-8 and is not.

        """
        cdef Batch batch
        cdef Py_ssize_t i, start, n_read = 0
        cdef FileBlock block = self.block
        if block is None:
            block = self.block = FileBlock()
        batch.n = 0
        with nogil:
            while n_read < READ_BYTES and reader.take(block, find_last_cut, <void*>&scanner):
                block.split(reader)
                for i in range(block.n_documents):
                    start = block.starts[i]
                    self.count_text(
                        &batch, scanner, block.data, start, start + block.sizes[i], block.capacity,
                        position + (<uint64_t>block.file_number << FILE_POSITION_BITS) + <uint64_t>block.offset,
                    )
                self.count_batch(&batch)
                n_read += block.size
        self.check_overflow()
        return n_read

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
            if batch.n + MIN_ROOM > BATCH_WORDS or text + cursor.pos - batch.text >= MAX_SPAN:
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
        self.check_overflow()

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
        self.check_overflow()

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
        self.check_overflow()

    cdef int absorb_short(self, WordTable other) except -1 nogil:
        """Add another table's words of at most 15 bytes, and its total."""
        cdef size_t i
        cdef Slot* slot
        if not self.count_more(other.total):
            return 0
        self.counted_until = max(self.counted_until, other.counted_until)
        for i in range(other.n_slots):
            slot = &other.slots[i]
            if slot.key.hi != 0:
                self.insert_short(slot.key, hash_key(slot.key), slot.count, slot.first_position)
        return 0

    cdef int absorb_long(self, WordTable other) except -1 nogil:
        """Add another table's longer words."""
        cdef LongKey batch[BATCH_WORDS]
        cdef size_t unit = 0
        cdef Py_ssize_t n = 0
        cdef LongWord* entry
        while unit < other.arena_units:
            entry = <LongWord*>(other.arena + unit)
            batch[n] = make_long_key(<byte_t*>(entry + 1), entry.size, entry.count, entry.first_position)
            unit += count_units(entry.size)
            n += 1
            if n == BATCH_WORDS:
                self.insert_long_words(batch, n)
                n = 0
        return self.insert_long_words(batch, n)

    cdef int count_batch(self, Batch* batch) except -1 nogil:
        """Count the pretokens of a batch and empty it.

        The slots of all of them are prefetched before the first is looked up.
        """
        cdef Key keys[BATCH_WORDS]
        cdef uint64_t hashes[BATCH_WORDS]
        cdef LongKey long_keys[BATCH_WORDS]
        cdef Py_ssize_t i, n = batch.n, n_long_keys
        cdef size_t mask = self.n_slots - 1
        cdef Slot* slots = self.slots
        cdef Slot* slot
        cdef bint in_order
        batch.n = 0
        if n == 0 or not self.count_more(n):
            return 0
        n_long_keys = self.hash_batch(batch, n, keys, hashes, long_keys)
        in_order = batch.position + batch.start[0] >= self.counted_until
        for i in range(n):
            slot = &slots[hashes[i] & mask]
            if slot.key.lo == keys[i].lo and slot.key.hi == keys[i].hi:
                slot.count += 1                        # cannot overflow: it is at most the total
                if not in_order:
                    slot.first_position = min(slot.first_position, batch.position + batch.start[i])
            elif keys[i].hi != 0:
                self.insert_short(keys[i], hashes[i], 1, batch.position + batch.start[i])
                slots = self.slots
                mask = self.n_slots - 1
        self.counted_until = max(self.counted_until, batch.position + batch.start[n - 1] + 1)
        return self.insert_long_words(long_keys, n_long_keys)

    cdef inline Py_ssize_t hash_batch(
        self, const Batch* batch, Py_ssize_t n, Key* keys, uint64_t* hashes, LongKey* long_keys
    ) noexcept nogil:
        """Compute the keys and hashes of n pretokens, and prefetch their slots; lists the long words in `long_keys`.

        Returns the number of long words.
        """
        cdef const Slot* slots = self.slots
        cdef size_t mask = self.n_slots - 1
        cdef bint can_overread = batch.start[n - 1] + <Py_ssize_t>16 <= batch.readable
        cdef Py_ssize_t i, n_long_keys = 0
        for i in range(n):
            if batch.size[i] > INLINE_BYTES:
                long_keys[n_long_keys] = make_long_key(
                    batch.text + batch.start[i], batch.size[i], 1, batch.position + batch.start[i]
                )
                n_long_keys += 1
                keys[i].lo = 1                         # differs from every slot, also from an empty one
                keys[i].hi = hashes[i] = 0
                continue
            if can_overread:
                keys[i] = near_key(batch.text + batch.start[i], batch.size[i])
            else:
                keys[i] = load_key(batch.text, batch.start[i], batch.size[i], batch.readable)
            hashes[i] = hash_key(keys[i])
            prefetch(&slots[hashes[i] & mask])
        return n_long_keys

    cdef int insert(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t size, Py_ssize_t end, count_t count, uint64_t position
    ) except -1 nogil:
        cdef Key key
        cdef LongKey word
        if size <= 0 or not self.count_more(count):        # the key of an empty word means an empty slot
            return 0
        self.counted_until = max(self.counted_until, position + 1)
        if size <= INLINE_BYTES:
            key = load_key(text, start, size, end)
            return self.insert_short(key, hash_key(key), count, position)
        word = make_long_key(text + start, size, count, position)
        return self.insert_long_words(&word, 1)

    cdef inline bint count_more(self, count_t count) noexcept nogil:
        """Add to the total; False, without adding, if it would exceed 2**63 - 1."""
        cdef long long total
        if add_overflows(self.total, count, &total):
            self.overflowed = True
            return False
        self.total = total
        return True

    cdef inline Slot* find_slot(self, Key key, uint64_t word_hash) noexcept nogil:
        """Find the slot of a word of at most 15 bytes, or the empty slot to enter it in."""
        cdef size_t mask = self.n_slots - 1, index = word_hash & mask
        while self.slots[index].key.hi != 0 and (
            self.slots[index].key.lo != key.lo or self.slots[index].key.hi != key.hi
        ):
            index = (index + 1) & mask
        return &self.slots[index]

    cdef int insert_short(self, Key key, uint64_t word_hash, count_t count, uint64_t position) except -1 nogil:
        cdef Slot* slot = self.find_slot(key, word_hash)
        if slot.key.hi != 0:
            slot.count += count
            slot.first_position = min(slot.first_position, position)
            return 0
        slot[0] = Slot(key, count, position)
        self.n_short += 1
        if self.n_short * 8 > self.n_slots * 5:
            self.grow_slots()
        return 0

    cdef int grow_slots(self) except -1 nogil:
        cdef size_t i, index, n_larger = self.n_slots * 2
        cdef bint frequent
        cdef Slot* slots = <Slot*>check_allocated(allocate_zeroed(n_larger * sizeof(Slot)), n_larger, SLOTS_NAME)
        for frequent in (True, False):                     # frequent words first, so that they get their first slot
            for i in range(self.n_slots):
                if self.slots[i].key.hi != 0 and (self.slots[i].count >= FREQUENT_COUNT) == frequent:
                    index = hash_key(self.slots[i].key) & (n_larger - 1)
                    while slots[index].key.hi != 0:
                        index = (index + 1) & (n_larger - 1)
                    slots[index] = self.slots[i]
        release(self.slots, self.n_slots * sizeof(Slot))
        self.slots = slots
        self.n_slots = n_larger
        return 0

    cdef int insert_long_words(self, const LongKey* words, Py_ssize_t n) except -1 nogil:
        """Count long words. The index entries of all of them are prefetched, then the words in the arena."""
        cdef Py_ssize_t i
        cdef uint32_t unit
        for i in range(n):
            prefetch(&self.index[words[i].word_hash & (self.n_index - 1)])
        for i in range(n):
            unit = self.index[words[i].word_hash & (self.n_index - 1)].unit
            if unit != 0:
                prefetch(self.arena + unit - 1)
                prefetch(self.arena + unit + 7)
        for i in range(n):
            self.insert_long(&words[i])
        return 0

    cdef inline LongSlot* find_long_slot(self, const LongKey* word) noexcept nogil:
        """Find the index entry of a long word, or the empty entry to enter it in."""
        cdef size_t mask = self.n_index - 1, slot = word.word_hash & mask
        cdef const LongWord* entry
        while self.index[slot].unit != 0:
            entry = <LongWord*>(self.arena + self.index[slot].unit - 1)
            if self.index[slot].word_hash == word.word_hash and entry.size == word.size:
                if memcmp(entry + 1, word.word, word.size) == 0:
                    break
            slot = (slot + 1) & mask
        return &self.index[slot]

    cdef int insert_long(self, const LongKey* word) except -1 nogil:
        cdef LongSlot* slot = self.find_long_slot(word)
        cdef LongWord* entry
        if slot.unit != 0:
            entry = <LongWord*>(self.arena + slot.unit - 1)
            entry.count += word.count
            entry.first_position = min(entry.first_position, word.position)
            return 0
        entry = self.reserve_long_word(word.size)
        entry[0] = LongWord(word.count, word.position, word.size)
        memcpy(entry + 1, word.word, word.size)
        slot[0] = LongSlot(word.word_hash, <uint32_t>(<uint64_t*>entry - self.arena) + 1)
        self.n_long_words += 1
        if self.n_long_words * 2 > self.n_index:
            self.grow_index()
        return 0

    cdef LongWord* reserve_long_word(self, size_t size) except NULL nogil:
        """Reserve space at the arena's end for a word of `size` bytes."""
        cdef size_t units = self.arena_units + count_units(size)
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
            grow_zeroed(self.arena, self.arena_capacity * UNIT_BYTES, capacity * UNIT_BYTES), capacity * UNIT_BYTES,
            b"bytes of words",
        )
        self.arena_capacity = capacity
        return 0

    cdef int grow_index(self) except -1 nogil:
        cdef size_t i, slot, n_larger = self.n_index * 2
        cdef LongSlot* index = <LongSlot*>check_allocated(
            allocate_zeroed(n_larger * sizeof(LongSlot)), n_larger, SLOTS_NAME
        )
        for i in range(self.n_index):
            if self.index[i].unit != 0:
                slot = self.index[i].word_hash & (n_larger - 1)
                while index[slot].unit != 0:
                    slot = (slot + 1) & (n_larger - 1)
                index[slot] = self.index[i]
        release(self.index, self.n_index * sizeof(LongSlot))
        self.index = index
        self.n_index = n_larger
        return 0

    cdef int check_overflow(self) except -1:
        if self.overflowed:
            self.overflowed = False
            raise ValueError(
                "the counts sum to more than 2**63 - 1, the largest sum supported; scale the counts down"
            )
        return 0

    # Reading ----------------------------------------------------------------------------------------------------------

    def get(self, bytes word):
        """Return the count of a word, 0 if the word does not occur."""
        cdef Py_ssize_t size = len(word)
        cdef const byte_t* data = word
        cdef Key key
        cdef LongKey long_key
        cdef LongSlot* slot
        if 0 < size <= INLINE_BYTES:
            key = load_key(data, 0, size, size)
            return self.find_slot(key, hash_key(key)).count  # 0 in an empty slot
        long_key = make_long_key(data, size, 0, 0)
        slot = self.find_long_slot(&long_key)
        return (<LongWord*>(self.arena + slot.unit - 1)).count if slot.unit != 0 else 0

    @property
    def memory(self):
        """The bytes that the table takes."""
        return self.n_slots * sizeof(Slot) + self.n_index * sizeof(LongSlot) + self.arena_capacity * UNIT_BYTES

    def arrays(self, size_t part=0, size_t parts=1):
        """List the words by position: (uint8 blob, int64 offsets (n + 1,), int64 counts (n,), uint64 positions (n,)).

        Either all words, or those of part `part` of `parts`, into which their hashes divide them.
        """
        cdef Py_ssize_t n = self.select_words(part, parts, NULL, NULL), i
        positions = np.empty(n, dtype=np.uint64)
        items = np.empty(n, dtype=np.int64)                # a slot's index, or -1 - the unit of a longer word
        cdef uint64_t[::1] position = positions
        cdef int64_t[::1] item = items
        cdef LongWord* entry
        if n:
            with nogil:
                self.select_words(part, parts, &position[0], &item[0])
        order = np.argsort(positions, kind="stable")
        positions = positions[order]
        items = items[order]
        del order
        item = items
        offsets = np.zeros(n + 1, dtype=np.int64)
        counts = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] offset = offsets, count = counts
        with nogil:
            for i in range(n):
                prefetch(self.locate_word(item[min(i + PREFETCH_DISTANCE, n - 1)]))
                if item[i] >= 0:
                    offset[i + 1] = offset[i] + <int64_t>(self.slots[item[i]].key.hi >> 56)
                    count[i] = self.slots[item[i]].count
                else:
                    entry = <LongWord*>self.locate_word(item[i])
                    offset[i + 1] = offset[i] + <int64_t>entry.size
                    count[i] = entry.count
        blob = np.empty(offset[n], dtype=np.uint8)
        cdef byte_t[::1] data = blob
        with nogil:
            for i in range(n):
                prefetch(self.locate_word(item[min(i + PREFETCH_DISTANCE, n - 1)]))
                memcpy(
                    &data[offset[i]], <byte_t*>self.locate_word(item[i]) + (0 if item[i] >= 0 else sizeof(LongWord)),
                    offset[i + 1] - offset[i],
                )
        return blob, offsets, counts, positions

    cdef Py_ssize_t select_words(self, size_t part, size_t parts, uint64_t* positions, int64_t* items) noexcept nogil:
        """Write the positions and the items (see `locate_word`) of a part's words, unless NULL; return their number."""
        cdef Py_ssize_t n = 0
        cdef size_t s, unit = 0
        cdef LongWord* entry
        for s in range(self.n_slots):
            if self.slots[s].key.hi == 0 or (parts > 1 and (hash_key(self.slots[s].key) >> 32) * parts >> 32 != part):
                continue
            if positions != NULL:
                positions[n] = self.slots[s].first_position
                items[n] = <int64_t>s
            n += 1
        while unit < self.arena_units:                     # in order of entry: nearly sorted by position
            entry = <LongWord*>(self.arena + unit)
            if parts == 1 or (hash_bytes(<byte_t*>(entry + 1), entry.size) >> 32) * parts >> 32 == part:
                if positions != NULL:
                    positions[n] = entry.first_position
                    items[n] = -<int64_t>unit - 1
                n += 1
            unit += count_units(entry.size)
        return n

    cdef inline const void* locate_word(self, int64_t item) noexcept nogil:
        """Return the slot, or the word in the arena, of an item of `select_words`."""
        return <void*>&self.slots[item] if item >= 0 else <void*>(self.arena - 1 - item)


def give_memory_back():
    """Return the allocator's free memory to the system."""
    trim_heap()
