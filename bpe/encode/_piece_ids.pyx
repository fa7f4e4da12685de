"""The values of pieces: those of a chunk are looked up in the word cache, and new ones are merged and entered there.

A value stands for the ids of a piece (`_word_cache.pxd`). If the tokenizer has an end-of-word mark, the same bytes give
different ids at the end of a word and before it. So the parts of a split word, except the last, are merged without the
mark and have a cache of their own. Not here: merging (`merge/_merger.pyx`), writing the ids (`_encoder.pyx`).
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
    prefetch_kept,
    prefetch_spilled,
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
        """Find the values of the pieces of the chunk that the front table does not have; merge new ones.

        A new piece that occurs twice in a chunk is found the second time.
        """
        cdef Chunk* chunk = space.chunk
        cdef Cache* cache = &space.cache
        cdef Cache* earlier = cache_of(self, space, EARLIER)
        cdef size_t i
        cdef Py_ssize_t number
        cdef uint64_t key, value
        memset(chunk.found, 0, chunk.n_missed * sizeof(uint64_t))
        if earlier == cache:                               # else some pieces are in the other table
            find_shorts(cache.words, chunk.missed_key, chunk.n_missed, chunk.found)
        for i in range(chunk.n_missed):
            key, number, value = chunk.missed_key[i], chunk.missed[i], chunk.found[i]
            if value:
                put_front(cache, key, value)
            else:
                value = find_short(earlier if chunk.part[number] == EARLIER else cache, key)
            if value == 0:
                self.merge_and_cache(
                    space, <const byte_t*>&key, key_size(key), chunk.part[number], key, EMPTY_KEY, &value
                )
            chunk.value[number] = value
            prefetch_spilled(cache, value)
        memset(chunk.found, 0, chunk.n_others * sizeof(uint64_t))
        if earlier == cache:
            find_middles(cache.words, chunk.key, chunk.hash, chunk.n_others, chunk.found)
        for i in range(chunk.n_others):
            if chunk.size[i] > MIDDLE_WORD:
                prefetch_kept(cache, chunk.hash[i])
        for i in range(chunk.n_others):
            value = chunk.found[i]
            if value == 0:
                self.find_other(space, i, &value)
            chunk.value[chunk.others[i]] = value
            prefetch_spilled(cache, value)
        return 0

    cdef int find_other(self, Workspace space, size_t i, uint64_t* value) except -1 nogil:
        """Find the value of a word without a key of 64 bits; merge it if it is new."""
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
        return 0 if value[0] else self.merge_and_cache(space, word, size, part, lo, hi, value)

    cdef int merge_and_cache(
        self, Workspace space, const byte_t* word, Py_ssize_t size, int part, uint64_t lo, uint64_t hi, uint64_t* value
    ) except -1 nogil:
        """Merge a piece that is in no table, and enter its value if there is room; else leave 0.

        A piece without a value is merged again when its ids are written (`Encoder.emit_uncached`). This includes a
        part of a longer piece that, as a whole word, is a token that merging does not give. `lo` and `hi` are the
        keys; for a long word, `lo` is the hash.
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
            if not self.unsplit:                           # a part of a pretoken may have the same key
                return 0
        if not has_room(cache.words):
            return 0
        if token == NO_TOKEN:
            merge_piece(self, space, word, size, part)
            if not space.unknown:
                value[0] = value_of(cache.words, space.out.data + before, space.out.n - before)
            space.out.n = before
            space.unknown = False                          # set again when its ids are written
        if value[0] == 0:
            return 0
        if not is_keyed(word, size):
            enter_long(cache.words, word, size, lo, value[0])
            return 0
        enter_word(cache.words, lo, hi, hash_word(lo, hi), value[0], False)
        if size <= SHORT_WORD:
            put_front(cache, lo, value[0])
        return 0
