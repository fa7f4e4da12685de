"""The table of word counts: its slots, its arena, and how words are found; `_word_table.pyx` says what it is for.

A word's first slot is given by the highest bits of its hash, so that tables of any size hold the words of one part of
all hashes in one range of their slots: what merges tables does so part by part.
"""

cimport cython

from bpe.base._memory cimport Key
from bpe.base._types cimport byte_t, count_t
from bpe.corpus._file_reader cimport FileBlock
from bpe.pretokenize._char_masks cimport Cursor
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

cdef enum:
    BATCH_WORDS = 256         # pretokens scanned, hashed and prefetched before they are counted
    GRANULE_BYTES = 8         # bytes of a granule of the arena
    MAX_GRANULES = 0xFFFFFFFF  # of an arena

cdef struct PretokenBatch:    # pretokens that are about to be counted
    const byte_t* text        # `start` is relative to this
    Py_ssize_t readable       # bytes from `text` on that may be read
    uint64_t corpus_position  # of `text` in the corpus
    Py_ssize_t n
    uint32_t start[BATCH_WORDS]  # ascending
    uint32_t size[BATCH_WORDS]

cdef struct Slot:             # a word of at most 15 bytes; empty where key.hi is 0
    Key key
    count_t count
    uint64_t first_position   # the position in the corpus of its first occurrence

cdef struct LongWord:         # a longer word in the arena; its bytes follow, padded to whole granules
    count_t count
    uint64_t first_position
    size_t size

cdef struct LongSlot:         # an index entry; empty where granule is 0
    uint32_t word_hash        # the upper half of the hash: selects the entry, and is compared before the bytes
    uint32_t granule          # the offset of its LongWord in the arena, in granules of 8 bytes, plus 1

cdef struct LongKey:          # a longer word that is looked up or about to be counted
    const byte_t* word
    size_t size
    uint32_t word_hash
    count_t count
    uint64_t corpus_position


cdef struct Words:            # all distinct words
    Slot* slots               # `n_slots`, a power of two, at most 5 of 8 used
    size_t n_slots
    int shift                 # a word's first slot is its hash >> shift
    size_t n_short_words
    LongSlot* index           # `n_index`, a power of two, at most half of them used
    size_t n_index
    int index_shift           # a long word's first entry is its word_hash >> index_shift
    size_t n_long_words
    uint64_t* arena           # LongWords
    size_t arena_granules
    size_t arena_capacity


@cython.final                # so that its methods are called directly
cdef class WordTable:
    cdef Words words
    cdef uint64_t counted_until  # all words counted so far occur before this corpus_position
    cdef readonly count_t total    # of all counts
    cdef bint overflowed           # a word was not counted since the last check
    cdef FileBlock block           # of the file that is counted

    cdef int count_text(
        self, PretokenBatch* batch, int scanner, const byte_t* text, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size,
        uint64_t corpus_position,
    ) except -1 nogil
    cdef int count_scanned_singly(self, Cursor* cursor, Py_ssize_t size, uint64_t corpus_position) except -1 nogil
    cdef int count_batch(self, PretokenBatch* batch) except -1 nogil
    cdef Py_ssize_t hash_batch(
        self, const PretokenBatch* batch, Py_ssize_t n, Key* keys, uint64_t* hashes, LongKey* long_keys
    ) noexcept nogil
    cdef int insert(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t word_size, Py_ssize_t readable, count_t count,
        uint64_t corpus_position,
    ) except -1 nogil
    cdef bint add_to_total(self, count_t count) noexcept nogil
    cdef int insert_short(self, Key key, uint64_t word_hash, count_t count, uint64_t corpus_position) except -1 nogil
    cdef int reserve(self, size_t n_short_words, size_t n_long_words, size_t n_granules) except -1 nogil
    cdef int grow_slots(self, int doublings) except -1 nogil
    cdef int insert_long_words(self, const LongKey* words, Py_ssize_t n) except -1 nogil
    cdef int insert_long(self, const LongKey* word) except -1 nogil
    cdef LongWord* reserve_long_word(self, size_t size) except NULL nogil
    cdef int grow_arena(self, size_t granules) except -1 nogil
    cdef int grow_index(self, int doublings) except -1 nogil
    cdef int check_overflow(self) except -1


cdef inline size_t count_granules(size_t size) noexcept nogil:
    """Count the arena granules that a word of `size` bytes takes."""
    return (sizeof(LongWord) + size + GRANULE_BYTES - 1) // GRANULE_BYTES


cdef inline Slot* find_slot(Words* words, Key key, uint64_t word_hash, size_t stop) noexcept nogil:
    """Find the slot of a word of at most 15 bytes, or the empty slot to enter it in; NULL if slot `stop` is reached."""
    cdef Slot* slots = words.slots
    cdef size_t mask = words.n_slots - 1, index = word_hash >> words.shift
    while slots[index].key.hi != 0 and (slots[index].key.lo != key.lo or slots[index].key.hi != key.hi):
        index = (index + 1) & mask
        if index == stop:
            return NULL
    return &slots[index]


cdef inline LongSlot* find_long_slot(Words* words, const LongKey* word, size_t stop) noexcept nogil:
    """Find the index entry of a long word, or the empty one to enter it in; NULL if entry `stop` is reached."""
    cdef size_t mask = words.n_index - 1, slot = word.word_hash >> words.index_shift
    cdef const LongWord* entry
    while words.index[slot].granule != 0:
        entry = <LongWord*>(words.arena + words.index[slot].granule - 1)
        if words.index[slot].word_hash == word.word_hash and entry.size == word.size:
            if memcmp(entry + 1, word.word, word.size) == 0:
                break
        slot = (slot + 1) & mask
        if slot == stop:
            return NULL
    return &words.index[slot]


cdef inline void add_to_slot(Slot* slot, count_t count, uint64_t corpus_position) noexcept nogil:
    """Add occurrences to a word that has a slot."""
    slot.count += count
    slot.first_position = min(slot.first_position, corpus_position)


cdef inline void add_to_long_word(LongWord* entry, count_t count, uint64_t corpus_position) noexcept nogil:
    """Add occurrences to a longer word."""
    entry.count += count
    entry.first_position = min(entry.first_position, corpus_position)
