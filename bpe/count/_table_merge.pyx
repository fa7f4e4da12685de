"""Merging the threads' tables of word counts into one, by parts of the hashes of their words.

In every table the words of a part are in one range of the slots, but for some at its ends:

        part 0          part 1          part 2          part 3
    | . a . b c . | . d . . e f | f . . g . . | h . i . . j |       f: displaced from part 1, as its slots are full

So threads enter the words of different parts at once, each in the range of its part. What is not in the range of its
part, or does not fit in there, is entered when all parts are done; those words are few. Tables are read and written in
the order of their slots, so merging takes a fraction of the time of counting.
"""

import numpy as np

from bpe.base._atomic cimport fetch_add
from bpe.base._memory cimport grow_array, hash_key, prefetch
from bpe.base._team cimport MAX_PARTS, Team
from bpe.base._types cimport byte_t
from bpe.count._word_table cimport (
    BATCH_WORDS, MAX_GRANULES, LongKey, LongSlot, LongWord, Slot, Words, WordTable, add_to_long_word, add_to_slot,
    count_granules, find_long_slot, find_slot,
)
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

cdef enum:
    N_PARTS = 64              # a power of two, at most the entries of the smallest index
    FEW_WORDS = 1 << 15       # of all tables: they are not worth an estimate

cdef struct LateWords:        # words that a thread could not enter in the range of their part
    Slot* short_words
    LongKey* long_words       # in the arenas of their tables
    size_t n_short_words, n_long_words, short_capacity, long_capacity

cdef struct TableMerge:       # of other tables into one
    Words* words              # its words
    const Words** others      # theirs
    size_t n_others
    size_t next_part          # which no thread has begun
    LateWords late[MAX_PARTS]  # by thread

cdef struct PartRange:        # of the slots of a part, or of the entries of its index
    size_t begin
    size_t end
    size_t stop               # `end`, or 0 after the last one


cdef inline PartRange find_range(size_t n, size_t part) noexcept nogil:
    return PartRange(n // N_PARTS * part, n // N_PARTS * (part + 1), n // N_PARTS * (part + 1) & (n - 1))


def merge_tables(WordTable table not None, list others not None, Team team not None):
    """Add the words of other tables to a table, with their positions; the order of the tables does not matter.

    The others are not changed. The team's helpers must be running.

    Raises:
        ValueError: for counts that sum to more than 2**63 - 1.

    """
    cdef TableMerge job
    cdef WordTable other
    cdef size_t n_granules = table.words.arena_granules, capacity = 0
    cdef int thread
    memset(&job, 0, sizeof(TableMerge))
    job.words = &table.words
    try:
        job.others = <const Words**>grow_array(NULL, &capacity, len(others), sizeof(Words*))
        for other in others:
            table.add_to_total(other.total)
            table.check_overflow()
            table.counted_until = max(table.counted_until, other.counted_until)
            n_granules += other.words.arena_granules
            job.others[job.n_others] = &other.words
            job.n_others += 1
        n_short_words, n_long_words = estimate_distinct_words([table, *others])
        table.reserve(n_short_words, n_long_words, min(n_granules, <size_t>MAX_GRANULES))
        with nogil:
            team.share(team.size, merge_parts, &job)
            for thread in range(team.size):
                enter_late_words(table, &job.late[thread])
    finally:
        for thread in range(team.size):
            free(job.late[thread].short_words)
            free(job.late[thread].long_words)
        free(job.others)


cdef int merge_parts(void* data, int thread) except -1 nogil:
    """Enter the words of one part after the other, until all parts are begun."""
    cdef TableMerge* job = <TableMerge*>data
    cdef size_t i, part = fetch_add(&job.next_part, 1)
    while part < N_PARTS:
        for i in range(job.n_others):
            merge_short(job.words, job.others[i], part, &job.late[thread])
            merge_long(job.words, job.others[i], part, &job.late[thread])
        part = fetch_add(&job.next_part, 1)
    return 0


cdef int merge_short(Words* words, const Words* other, size_t part, LateWords* late) except -1 nogil:
    """Enter a part of a table's words of at most 15 bytes."""
    cdef PartRange target = find_range(words.n_slots, part), source = find_range(other.n_slots, part)
    cdef size_t i, n_new = 0
    cdef uint64_t word_hash
    cdef const Slot* word
    cdef Slot* slot
    for i in range(source.begin, source.end):
        word = &other.slots[i]
        if word.key.hi == 0:
            continue
        word_hash = hash_key(word.key)
        slot = NULL
        if target.begin <= word_hash >> words.shift < target.end:
            slot = find_slot(words, word.key, word_hash, target.stop)
        if slot == NULL:
            late.short_words = <Slot*>grow_array(
                late.short_words, &late.short_capacity, late.n_short_words + 1, sizeof(Slot)
            )
            late.short_words[late.n_short_words] = word[0]
            late.n_short_words += 1
        elif slot.key.hi != 0:
            add_to_slot(slot, word.count, word.first_position)
        else:
            slot[0] = word[0]
            n_new += 1
    fetch_add(&words.n_short_words, n_new)
    return 0


cdef int merge_long(Words* words, const Words* other, size_t part, LateWords* late) except -1 nogil:
    """Enter a part of a table's longer words."""
    cdef PartRange source = find_range(other.n_index, part)
    cdef LongKey batch[BATCH_WORDS]
    cdef size_t i, n = 0
    for i in range(source.begin, source.end):
        if other.index[i].granule == 0:
            continue
        batch[n].word = <const byte_t*>(other.arena + other.index[i].granule - 1)
        batch[n].word_hash = other.index[i].word_hash
        prefetch(batch[n].word)
        prefetch(batch[n].word + 64)
        n += 1
        if n == <size_t>BATCH_WORDS:
            enter_long_words(words, batch, n, part, late)
            n = 0
    return enter_long_words(words, batch, n, part, late)


cdef int enter_long_words(Words* words, LongKey* batch, size_t n, size_t part, LateWords* late) except -1 nogil:
    """Enter n long words; `word` of each points to its LongWord."""
    cdef PartRange target = find_range(words.n_index, part)
    cdef size_t i, first
    cdef const LongWord* entry
    cdef LongSlot* slot
    for i in range(n):
        first = batch[i].word_hash >> words.index_shift
        if target.begin <= first < target.end and words.index[first].granule != 0:
            prefetch(words.arena + words.index[first].granule - 1)
            prefetch(words.arena + words.index[first].granule + 7)
        entry = <const LongWord*>batch[i].word
        batch[i].word, batch[i].size = <const byte_t*>(entry + 1), entry.size
        batch[i].count, batch[i].corpus_position = entry.count, entry.first_position
    for i in range(n):
        slot = NULL
        if target.begin <= batch[i].word_hash >> words.index_shift < target.end:
            slot = find_long_slot(words, &batch[i], target.stop)
        if slot != NULL and slot.granule != 0:
            add_to_long_word(<LongWord*>(words.arena + slot.granule - 1), batch[i].count, batch[i].corpus_position)
        elif slot == NULL or not write_long_word(words, slot, &batch[i]):
            late.long_words = <LongKey*>grow_array(
                late.long_words, &late.long_capacity, late.n_long_words + 1, sizeof(LongKey)
            )
            late.long_words[late.n_long_words] = batch[i]
            late.n_long_words += 1
    return 0


cdef bint write_long_word(Words* words, LongSlot* slot, const LongKey* word) noexcept nogil:
    """Write a new word to the arena, and its index entry; False if the arena has no room."""
    cdef size_t n_granules = count_granules(word.size), granule = fetch_add(&words.arena_granules, n_granules)
    cdef LongWord* entry = <LongWord*>(words.arena + granule)
    if granule + n_granules > words.arena_capacity:     # nor has it for what other threads add meanwhile
        fetch_add(&words.arena_granules, -n_granules)
        return False
    entry[0] = LongWord(word.count, word.corpus_position, word.size)
    memcpy(entry + 1, word.word, word.size)
    slot[0] = LongSlot(word.word_hash, <uint32_t>(granule + 1))
    fetch_add(&words.n_long_words, 1)
    return True


cdef int enter_late_words(WordTable table, const LateWords* late) except -1 nogil:
    """Enter the words that a thread could not enter."""
    cdef size_t i
    cdef const Slot* word
    for i in range(late.n_short_words):
        word = &late.short_words[i]
        table.insert_short(word.key, hash_key(word.key), word.count, word.first_position)
    return table.insert_long_words(late.long_words, <Py_ssize_t>late.n_long_words)


cdef tuple estimate_distinct_words(list tables):
    """Estimate how many different short and long words some tables have together, by those of one part."""
    cdef WordTable table
    cdef size_t n_short_words = 0, n_long_words = 0
    short_samples, long_samples = [], []
    for table in tables:
        n_short_words += table.words.n_short_words
        n_long_words += table.words.n_long_words
    if n_short_words + n_long_words <= FEW_WORDS:
        return n_short_words, n_long_words
    for table in tables:
        short_sample, long_sample = sample_hashes(&table.words)
        short_samples.append(short_sample)
        long_samples.append(long_sample)
    n_short_words = min(<size_t>len(np.unique(np.concatenate(short_samples))) * N_PARTS, n_short_words)
    n_long_words = min(<size_t>len(np.unique(np.concatenate(long_samples))) * N_PARTS, n_long_words)
    return n_short_words, n_long_words


cdef tuple sample_hashes(const Words* words):
    """The hashes of a table's words in part 0: (of short words, of long ones)."""
    cdef size_t i, n_short_words = 0, n_long_words = 0
    cdef size_t n_slots = words.n_slots // N_PARTS, n_index = words.n_index // N_PARTS
    short_hashes, long_hashes = np.empty(n_slots, dtype=np.uint64), np.empty(n_index, dtype=np.uint64)
    cdef uint64_t[::1] short_words = short_hashes, long_words = long_hashes
    for i in range(n_slots):
        if words.slots[i].key.hi != 0:
            short_words[n_short_words] = hash_key(words.slots[i].key)
            n_short_words += 1
    for i in range(n_index):
        if words.index[i].granule != 0:
            long_words[n_long_words] = words.index[i].word_hash
            n_long_words += 1
    return short_hashes[:n_short_words], long_hashes[:n_long_words]
