"""The table of word counts: distinct byte strings, the count of each, and the position of its first occurrence.

Two hash tables with linear probing. A word of at most 15 bytes is stored in its slot; a longer one in an arena, which
an index of hashes points into. Each word keeps the smallest position at which it occurs, so tables filled from parts of
a corpus, in any order and by any thread, merge into one in the order of the corpus.

Measured, English from a file, one thread: 384 MB/s at first, 733 with keys in slots, prefetch and no branches on keys.
"""

from bpe.base._bounds cimport check_offsets, check_spans
from bpe.base._system cimport read_clock
from bpe.base._memory cimport (
    INLINE_BYTES, Key, add_overflows, check_allocated, hash_bytes, hash_key, load_key, load_near_key, prefetch,
)
from bpe.base._pages cimport grow_zeroed, release, trim_heap, allocate_zeroed
from bpe.base._types cimport byte_t, count_t
from bpe.corpus._file_reader cimport FileBlock, FileReader
from bpe.pretokenize._char_masks cimport Cursor
from bpe.pretokenize._safe_points cimport find_last_pretoken_split
from bpe.pretokenize._scanner cimport MIN_ROOM, open_cursor, scan, scan_bounds
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    MAX_SPAN = 1 << 30        # bytes from the start of a batch to its last pretoken, so that offsets have 32 bits
    FREQUENT_COUNT = 8        # words with this count are entered first when a table grows
    FILE_POSITION_BITS = 36   # of the positions of one file (`POSITIONS_PER_BLOCK` in `counting.py`)
    NO_STOP = -1              # a search that goes through all slots

cdef double call_seconds = 0.1  # of a call that counts a file: each end waits up to 5 ms for a busy interpreter
cdef const char* SLOTS_NAME = b"slots of a table of word counts"


cdef inline Py_ssize_t scan_into(PretokenBatch* batch, Cursor* cursor) noexcept nogil:
    """Add the next pretokens that a scanner finds, if they have no gaps and fit; returns their number."""
    cdef uint32_t bounds[BATCH_WORDS + 1]
    cdef uint32_t batch_offset = <uint32_t>(cursor.text + cursor.pos - batch.text)
    cdef Py_ssize_t n_found = scan_bounds(cursor, bounds, BATCH_WORDS - batch.n), n = batch.n, i
    for i in range(n_found):
        batch.start[n + i] = batch_offset + bounds[i]
        batch.size[n + i] = bounds[i + 1] - bounds[i]
    batch.n += n_found
    return n_found


cdef inline LongKey make_long_key(
    const byte_t* word, size_t size, count_t count, uint64_t corpus_position
) noexcept nogil:
    return LongKey(word, size, <uint32_t>(hash_bytes(word, size) >> 32), count, corpus_position)


cdef inline size_t measure_words(const Words* words) noexcept nogil:
    """Count the bytes of memory that words take."""
    return words.n_slots * sizeof(Slot) + words.n_index * sizeof(LongSlot) + words.arena_granules * GRANULE_BYTES


cdef Py_ssize_t find_block_end(void* scanner, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil:
    return find_last_pretoken_split((<int*>scanner)[0], text, low, end)


cdef class WordTable:
    """Counts of distinct words. One thread at a time may fill it. `corpus_position` is where a word occurs."""

    def __cinit__(self, size_t slots=0):
        """Make an empty table with at least `slots` slots, which grows when 5 of 8 are used."""
        self.words.n_slots, self.words.shift = 1 << 12, 64 - 12
        while self.words.n_slots < slots:
            self.words.n_slots, self.words.shift = self.words.n_slots * 2, self.words.shift - 1
        self.words.n_index, self.words.index_shift = 1 << 8, 32 - 8
        self.words.slots = <Slot*>check_allocated(
            allocate_zeroed(self.words.n_slots * sizeof(Slot)), self.words.n_slots, SLOTS_NAME
        )
        self.words.index = <LongSlot*>check_allocated(
            allocate_zeroed(self.words.n_index * sizeof(LongSlot)), self.words.n_index, SLOTS_NAME
        )

    def __dealloc__(self):
        release(self.words.slots, self.words.n_slots * sizeof(Slot))
        release(self.words.index, self.words.n_index * sizeof(LongSlot))
        release(self.words.arena, self.words.arena_capacity * GRANULE_BYTES)

    def __len__(self):
        return self.words.n_short_words + self.words.n_long_words

    # Filling ----------------------------------------------------------------------------------------------------------

    def count_scanned(
        self, int scanner, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends,
        uint64_t corpus_position,
    ):
        """Count the pretokens that a scanner finds in each `text[starts[i]:ends[i]]`; `text` is at `corpus_position`.

        The spans may be in any order, and overlap.
        """
        cdef PretokenBatch batch
        cdef Py_ssize_t i, size = text.shape[0]
        check_spans(starts, ends, size)
        if size == 0:
            return
        batch.n = 0
        with nogil:
            for i in range(starts.shape[0]):
                if i and starts[i] < ends[i - 1]:          # the pretokens of a batch ascend
                    self.count_batch(&batch)
                self.count_text(&batch, scanner, &text[0], starts[i], ends[i], size, corpus_position)
            self.count_batch(&batch)
        self.check_overflow()

    def count_file(self, int scanner, FileReader reader not None, uint64_t corpus_position, size_t max_memory):
        """Count the pretokens of some blocks of files; returns the bytes that were read.

        The first unit begins at `corpus_position`, each other one 2**FILE_POSITION_BITS after the one before.
        The call ends after a tenth of a second, for signals and progress, or when the table takes more than
        `max_memory` bytes.

        Raises:
            FormatError: for the first block of the file that must be UTF-8 and is not.

        """
        cdef PretokenBatch batch
        cdef Py_ssize_t i, start, n_read = 0
        cdef FileBlock block = self.block
        cdef double end_time = read_clock() + call_seconds
        if block is None:
            block = self.block = FileBlock()
        reader.attach(block)
        batch.n = 0
        with nogil:
            while reader.take_block(block, find_block_end, <void*>&scanner):
                block.split(reader)
                for i in range(block.n_documents):
                    start = block.starts[i]
                    self.count_text(
                        &batch, scanner, block.data, start, start + block.sizes[i], block.capacity,
                        corpus_position + (<uint64_t>block.unit_index << FILE_POSITION_BITS) + <uint64_t>block.offset,
                    )
                self.count_batch(&batch)
                n_read += block.disk_bytes
                if read_clock() >= end_time or measure_words(&self.words) > max_memory:
                    break
        self.check_overflow()
        return n_read

    cdef int count_text(
        self, PretokenBatch* batch, int scanner, const byte_t* text, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size,
        uint64_t corpus_position,
    ) except -1 nogil:
        """Add the pretokens of `text[start:end]` to a batch, which is counted when it is full.

        `text` has `size` bytes that may be read, and begins at `corpus_position`.
        """
        cdef Cursor cursor
        open_cursor(&cursor, scanner, text, start, end)
        while cursor.pos < cursor.end:                 # a batch may hold pretokens of several documents
            if batch.n + MIN_ROOM > BATCH_WORDS or text + cursor.pos - batch.text >= MAX_SPAN:
                self.count_batch(batch)
            if batch.n == 0:
                batch.text, batch.readable = text + cursor.pos, size - cursor.pos
                batch.corpus_position = corpus_position + <uint64_t>cursor.pos
            if not scan_into(batch, &cursor):
                self.count_scanned_singly(&cursor, size, corpus_position)
        return 0

    cdef int count_scanned_singly(self, Cursor* cursor, Py_ssize_t size, uint64_t corpus_position) except -1 nogil:
        """Count the next pretokens one by one: there are gaps between them, or sizes of over 32 bits."""
        cdef Py_ssize_t start[MIN_ROOM]
        cdef Py_ssize_t end[MIN_ROOM]
        cdef Py_ssize_t n = scan(cursor, start, end, MIN_ROOM), i
        for i in range(n):
            self.insert(cursor.text, start[i], end[i] - start[i], size, 1, corpus_position + <uint64_t>start[i])
        return 0

    def count_spans(
        self, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends, uint64_t corpus_position
    ):
        """Count the pretokens `text[starts[i]:ends[i]]`, in any order; `text` begins at `corpus_position`."""
        cdef Py_ssize_t i, size = text.shape[0]
        check_spans(starts, ends, size, False)
        if size == 0:
            return
        with nogil:
            for i in range(starts.shape[0]):
                self.insert(&text[0], starts[i], ends[i] - starts[i], size, 1, corpus_position + <uint64_t>starts[i])
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

    cdef int count_batch(self, PretokenBatch* batch) except -1 nogil:
        """Count the pretokens of a batch and empty it.

        The slots of all of them are prefetched before the first is looked up.
        """
        cdef Key keys[BATCH_WORDS]
        cdef uint64_t hashes[BATCH_WORDS]
        cdef LongKey long_keys[BATCH_WORDS]
        cdef Py_ssize_t i, n = batch.n, n_long_keys
        cdef int shift = self.words.shift
        cdef Slot* slots = self.words.slots
        cdef Slot* slot
        cdef bint in_order
        batch.n = 0
        if n == 0 or not self.add_to_total(n):
            return 0
        n_long_keys = self.hash_batch(batch, n, keys, hashes, long_keys)
        in_order = batch.corpus_position + batch.start[0] >= self.counted_until
        for i in range(n):
            slot = &slots[hashes[i] >> shift]
            if slot.key.lo == keys[i].lo and slot.key.hi == keys[i].hi:
                slot.count += 1                        # cannot overflow: it is at most the total
                if not in_order:
                    slot.first_position = min(slot.first_position, batch.corpus_position + batch.start[i])
            elif keys[i].hi != 0:
                self.insert_short(keys[i], hashes[i], 1, batch.corpus_position + batch.start[i])
                slots, shift = self.words.slots, self.words.shift
        self.counted_until = max(self.counted_until, batch.corpus_position + batch.start[n - 1] + 1)
        return self.insert_long_words(long_keys, n_long_keys)

    cdef inline Py_ssize_t hash_batch(
        self, const PretokenBatch* batch, Py_ssize_t n, Key* keys, uint64_t* hashes, LongKey* long_keys
    ) noexcept nogil:
        """Compute the keys and hashes of n pretokens, and prefetch their slots; lists the long words in `long_keys`.

        Returns the number of long words.
        """
        cdef const Slot* slots = self.words.slots
        cdef int shift = self.words.shift
        cdef bint can_overread = batch.start[n - 1] + <Py_ssize_t>16 <= batch.readable
        cdef Py_ssize_t i, n_long_keys = 0
        for i in range(n):
            if batch.size[i] > INLINE_BYTES:
                long_keys[n_long_keys] = make_long_key(
                    batch.text + batch.start[i], batch.size[i], 1, batch.corpus_position + batch.start[i]
                )
                n_long_keys += 1
                keys[i].lo = 1                         # differs from every slot, also from an empty one
                keys[i].hi = hashes[i] = 0
                continue
            if can_overread:
                keys[i] = load_near_key(batch.text + batch.start[i], batch.size[i])
            else:
                keys[i] = load_key(batch.text, batch.start[i], batch.size[i], batch.readable)
            hashes[i] = hash_key(keys[i])
            prefetch(&slots[hashes[i] >> shift])
        return n_long_keys

    cdef int insert(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t word_size, Py_ssize_t readable, count_t count,
        uint64_t corpus_position,
    ) except -1 nogil:
        """Count a word at text[start:start + word_size]; `readable` bytes of the text may be read."""
        cdef Key key
        cdef LongKey word
        if word_size <= 0 or not self.add_to_total(count):  # the key of an empty word means an empty slot
            return 0
        self.counted_until = max(self.counted_until, corpus_position + 1)
        if word_size <= INLINE_BYTES:
            key = load_key(text, start, word_size, readable)
            return self.insert_short(key, hash_key(key), count, corpus_position)
        word = make_long_key(text + start, word_size, count, corpus_position)
        return self.insert_long_words(&word, 1)

    cdef inline bint add_to_total(self, count_t count) noexcept nogil:
        """Add to the total; False, without adding, if it would exceed 2**63 - 1."""
        cdef long long total
        if add_overflows(self.total, count, &total):
            self.overflowed = True
            return False
        self.total = total
        return True

    cdef int insert_short(self, Key key, uint64_t word_hash, count_t count, uint64_t corpus_position) except -1 nogil:
        cdef Slot* slot = find_slot(&self.words, key, word_hash, NO_STOP)
        if slot.key.hi != 0:
            add_to_slot(slot, count, corpus_position)
            return 0
        slot[0] = Slot(key, count, corpus_position)
        self.words.n_short_words += 1
        if self.words.n_short_words * 8 > self.words.n_slots * 5:
            self.grow_slots(1)
        return 0

    cdef int reserve(self, size_t n_short_words, size_t n_long_words, size_t n_granules) except -1 nogil:
        """Make room for this many words in all, and for `n_granules` granules of long words."""
        cdef int doublings = 0
        while n_short_words * 8 > (self.words.n_slots << doublings) * 5:
            doublings += 1
        if doublings:
            self.grow_slots(doublings)
        doublings = 0
        while n_long_words * 2 > self.words.n_index << doublings:
            doublings += 1
        if doublings:
            self.grow_index(doublings)
        if n_granules > self.words.arena_capacity:
            self.grow_arena(n_granules)
        return 0

    cdef int grow_slots(self, int doublings) except -1 nogil:
        cdef size_t i, index, n_larger = self.words.n_slots << doublings
        cdef int shift = self.words.shift - doublings
        cdef int rare
        cdef Slot* slots = <Slot*>check_allocated(allocate_zeroed(n_larger * sizeof(Slot)), n_larger, SLOTS_NAME)
        for rare in range(2):                              # frequent words first, so that they get their first slot
            for i in range(self.words.n_slots):
                if self.words.slots[i].key.hi != 0 and (self.words.slots[i].count < FREQUENT_COUNT) == rare:
                    index = hash_key(self.words.slots[i].key) >> shift
                    while slots[index].key.hi != 0:
                        index = (index + 1) & (n_larger - 1)
                    slots[index] = self.words.slots[i]
        release(self.words.slots, self.words.n_slots * sizeof(Slot))
        self.words.slots, self.words.n_slots, self.words.shift = slots, n_larger, shift
        return 0

    cdef int insert_long_words(self, const LongKey* words, Py_ssize_t n) except -1 nogil:
        """Count long words. The index entries of all of them are prefetched, then the words in the arena."""
        cdef Py_ssize_t i
        cdef uint32_t granule
        for i in range(n):
            prefetch(&self.words.index[words[i].word_hash >> self.words.index_shift])
        for i in range(n):
            granule = self.words.index[words[i].word_hash >> self.words.index_shift].granule
            if granule != 0:
                prefetch(self.words.arena + granule - 1)
                prefetch(self.words.arena + granule + 7)
        for i in range(n):
            self.insert_long(&words[i])
        return 0

    cdef int insert_long(self, const LongKey* word) except -1 nogil:
        cdef LongSlot* slot = find_long_slot(&self.words, word, NO_STOP)
        cdef LongWord* entry
        if slot.granule != 0:
            add_to_long_word(<LongWord*>(self.words.arena + slot.granule - 1), word.count, word.corpus_position)
            return 0
        entry = self.reserve_long_word(word.size)
        entry[0] = LongWord(word.count, word.corpus_position, word.size)
        memcpy(entry + 1, word.word, word.size)
        slot[0] = LongSlot(word.word_hash, <uint32_t>(<uint64_t*>entry - self.words.arena) + 1)
        self.words.n_long_words += 1
        if self.words.n_long_words * 2 > self.words.n_index:
            self.grow_index(1)
        return 0

    cdef LongWord* reserve_long_word(self, size_t size) except NULL nogil:
        """Reserve space at the arena's end for a word of `size` bytes."""
        cdef size_t granules = self.words.arena_granules + count_granules(size)
        cdef LongWord* entry
        if granules > <size_t>MAX_GRANULES:
            with gil:
                raise MemoryError(
                    "the words of more than 15 bytes take over 32 GiB; count the corpus in parts, or use a "
                    "pretokenizer that makes shorter words"
                )
        if granules > self.words.arena_capacity:
            self.grow_arena(granules)
        entry = <LongWord*>(self.words.arena + self.words.arena_granules)
        self.words.arena_granules = granules
        return entry

    cdef int grow_arena(self, size_t granules) except -1 nogil:
        """Make room for granules, in whole pages: what threads free of the heap may stay with the process."""
        cdef size_t capacity = max(self.words.arena_capacity + self.words.arena_capacity // 2, granules)
        self.words.arena = <uint64_t*>check_allocated(
            grow_zeroed(self.words.arena, self.words.arena_capacity * GRANULE_BYTES, capacity * GRANULE_BYTES),
            capacity * GRANULE_BYTES, b"bytes of words",
        )
        self.words.arena_capacity = capacity
        return 0

    cdef int grow_index(self, int doublings) except -1 nogil:
        cdef size_t i, slot, n_larger = self.words.n_index << doublings
        cdef int shift = self.words.index_shift - doublings
        cdef LongSlot* index = <LongSlot*>check_allocated(
            allocate_zeroed(n_larger * sizeof(LongSlot)), n_larger, SLOTS_NAME
        )
        for i in range(self.words.n_index):
            if self.words.index[i].granule != 0:
                slot = self.words.index[i].word_hash >> shift
                while index[slot].granule != 0:
                    slot = (slot + 1) & (n_larger - 1)
                index[slot] = self.words.index[i]
        release(self.words.index, self.words.n_index * sizeof(LongSlot))
        self.words.index, self.words.n_index, self.words.index_shift = index, n_larger, shift
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
            return find_slot(&self.words, key, hash_key(key), NO_STOP).count  # 0 in an empty slot
        long_key = make_long_key(data, size, 0, 0)
        slot = find_long_slot(&self.words, &long_key, NO_STOP)
        return (<LongWord*>(self.words.arena + slot.granule - 1)).count if slot.granule != 0 else 0

    @property
    def memory(self):
        """The bytes that the table takes."""
        return measure_words(&self.words)


def set_call_seconds(double seconds):
    """Set how long a call that counts a file goes on, for tests. Returns the previous number."""
    global call_seconds
    previous, call_seconds = call_seconds, seconds
    return previous


def give_memory_back():
    """Return the allocator's free memory to the system."""
    trim_heap()
