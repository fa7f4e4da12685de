"""The values of pieces: those of a chunk are looked up in the word cache, and what is new is merged and kept there.

A value stands for the ids of a piece (`_word_cache.pxd`). If the tokenizer has an end-of-word mark, the same bytes give
different ids at the end of a word and before it. So the parts of a word that was cut, except the last, are merged
without the mark and have a cache of their own. Not here: how a piece is merged (`merge/_merger.pyx`), who writes the
ids (`_encoder.pyx`).
"""

from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.encode._chunk cimport ALL, EARLIER, Chunk
from bpe.encode._word_cache cimport (
    EMPTY_KEY,
    LONG_WORD,
    MIDDLE_WORD,
    SHORT_WORD,
    Cache,
    Words,
    enter_long,
    enter_word,
    fetch_kept,
    fetch_spilled,
    find_long,
    find_middles,
    find_short,
    find_shorts,
    find_word,
    has_room,
    hash_word,
    is_keyed,
    key_size,
    put_front,
    value_of,
)
from bpe.encode._workspace cimport Workspace
from bpe.merge._merger cimport Merger
from libc.stdint cimport uint64_t
from libc.string cimport memset


cdef class Values:

    def __init__(self, Merger merger, bint marked):
        self.merger, self.marked = merger, marked

    cdef int look_up(self, Workspace space) except -1 nogil:
        """Find the values of the pieces of the chunk that the front table does not have, and work out what is new.

        A piece that comes twice in a chunk is there the second time.
        """
        cdef Chunk* chunk = space.chunk
        cdef Cache* cache = &space.cache
        cdef Cache* earlier = cache_of(self, space, EARLIER)
        cdef size_t i
        cdef Py_ssize_t number
        cdef uint64_t key, value
        memset(chunk.found, 0, chunk.n_missed * sizeof(uint64_t))
        if earlier == cache:                               # else some of the chunk's pieces are in the other table
            find_shorts(cache.words, chunk.missed_key, chunk.n_missed, chunk.found)
        for i in range(chunk.n_missed):
            key, number, value = chunk.missed_key[i], chunk.missed[i], chunk.found[i]
            if value:
                put_front(cache, key, value)
            else:
                value = find_short(earlier if chunk.part[number] == EARLIER else cache, key)
            if value == 0:
                self.work_out(
                    space, <const byte_t*>&key, key_size(key), chunk.part[number], key, EMPTY_KEY, &value
                )
            chunk.value[number] = value
            fetch_spilled(cache, value)
        memset(chunk.found, 0, chunk.n_others * sizeof(uint64_t))
        if earlier == cache:
            find_middles(cache.words, chunk.key, chunk.hash, chunk.n_others, chunk.found)
        for i in range(chunk.n_others):
            if chunk.size[i] > MIDDLE_WORD:
                fetch_kept(cache, chunk.hash[i])
        for i in range(chunk.n_others):
            value = chunk.found[i]
            if value == 0:
                self.find_other(space, i, &value)
            chunk.value[chunk.others[i]] = value
            fetch_spilled(cache, value)
        return 0

    cdef int find_other(self, Workspace space, size_t i, uint64_t* value) except -1 nogil:
        """Find the value of one of the words that one key does not hold, and work it out if the word is new."""
        cdef Chunk* chunk = space.chunk
        cdef int part = chunk.part[chunk.others[i]]
        cdef const Words* words = cache_of(self, space, part).words
        cdef const byte_t* word = chunk.word[i]
        cdef Py_ssize_t size = chunk.size[i]
        cdef uint64_t lo = chunk.hash[i], hi = 0
        if size > LONG_WORD:
            return 0
        if is_keyed(word, size):
            lo, hi = chunk.key[2 * i], chunk.key[2 * i + 1]
            value[0] = find_word(words, lo, hi, chunk.hash[i])
        else:
            value[0] = find_long(words, word, size, lo)
        return 0 if value[0] else self.work_out(space, word, size, part, lo, hi, value)

    cdef int work_out(
        self, Workspace space, const byte_t* word, Py_ssize_t size, int part, uint64_t lo, uint64_t hi, uint64_t* value
    ) except -1 nogil:
        """Work out the value of a piece that is in no table, by merging, and enter it if there is room; else leave 0.

        The ids of a piece without a value are worked out where they are written. That is so for a whole word whose
        token is not what merging makes of it, where it is a part of a longer piece. `lo` and `hi` are the keys, of a
        long word `lo` is the hash.
        """
        cdef Cache* cache = cache_of(self, space, part)
        cdef size_t before = space.out.n
        cdef token_t token = NO_TOKEN
        if space.unknown:
            return 0
        if self.whole is not None:
            token = self.whole.find(word, size)
        if token != NO_TOKEN:
            value[0] = token + <uint64_t>1 if part == ALL else 0
            return 0
        if not has_room(cache.words):
            return 0
        merge_piece(self, space, word, size, part)
        if not space.unknown:
            value[0] = value_of(cache.words, space.out.data + before, space.out.n - before)
        space.out.n = before
        space.unknown = False                              # until its turn comes
        if value[0] == 0:
            return 0
        if not is_keyed(word, size):
            enter_long(cache.words, word, size, lo, value[0])
            return 0
        enter_word(cache.words, lo, hi, hash_word(lo, hi), value[0], False)
        if size <= SHORT_WORD:
            put_front(cache, lo, value[0])
        return 0
