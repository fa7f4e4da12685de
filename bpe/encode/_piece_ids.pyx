"""The values of pieces: those of a chunk are looked up in the word cache, and what is new is merged and kept there.

A value stands for the ids of a piece (`_word_cache.pxd`). If the tokenizer has an end-of-word mark, the same bytes give
different ids at the end of a word and before it. So the parts of a word that was cut, except the last, are merged
without the mark and have a cache of their own. Not here: how a piece is merged (`merge/_merger.pyx`), who writes the
ids (`_encoder.pyx`).
"""

from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.encode._chunk cimport ALL, EARLIER, Chunk
from bpe.encode._chunk_filler cimport find_middles
from bpe.encode._shared_words cimport note
from bpe.encode._word_cache cimport (
    LONG_WORD,
    MIDDLE_WORD,
    SHORT_WORD,
    Cache,
    count_passed,
    fetch_kept,
    fetch_listed,
    find_long,
    find_middle,
    find_short,
    keep_long,
    keep_middle,
    keep_short,
    key_size,
    room_for_ids,
    room_for_long,
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
        for i in range(chunk.n_missed):
            key, number = chunk.missed_key[i], chunk.missed[i]
            value = find_short(earlier if chunk.part[number] == EARLIER else cache, key)
            if value == 0:
                value = self.work_out(space, <const byte_t*>&key, key_size(key), chunk.part[number], key, 0)
            chunk.value[number] = value
            fetch_listed(cache, value)
        if earlier == cache:
            find_middles(chunk, cache)
        else:
            memset(chunk.found, 0, chunk.n_others * sizeof(uint64_t))
        for i in range(chunk.n_others):
            if chunk.size[i] > MIDDLE_WORD:
                fetch_kept(cache, chunk.hash[i])
        for i in range(chunk.n_others):
            value = chunk.found[i]
            if value == 0:
                value = self.find_other(space, i)
            chunk.value[chunk.others[i]] = value
            fetch_listed(cache, value)
        return 0

    cdef uint64_t find_other(self, Workspace space, size_t i) except? 0 nogil:
        """The value of one of the words that one key does not hold, which is worked out if it is new."""
        cdef Chunk* chunk = space.chunk
        cdef int part = chunk.part[chunk.others[i]]
        cdef const Cache* cache = cache_of(self, space, part)
        cdef const byte_t* word = chunk.word[i]
        cdef Py_ssize_t size = chunk.size[i]
        cdef uint64_t lo = chunk.hash[i], hi = 0, value
        if size > LONG_WORD:
            return 0
        if is_middle(word, size):
            lo, hi = chunk.key[2 * i], chunk.key[2 * i + 1]
            value = find_middle(cache, lo, hi)
        else:
            value = find_long(cache, word, size, lo)
        return value if value else self.work_out(space, word, size, part, lo, hi)

    cdef uint64_t work_out(
        self, Workspace space, const byte_t* word, Py_ssize_t size, int part, uint64_t lo, uint64_t hi
    ) except? 0 nogil:
        """The value of a piece that is in no table, by merging, kept if there is room; 0 where it can have none.

        A whole word whose token is not what merging makes of it is not kept: as a part of a longer piece the same bytes
        are something else. `lo` and `hi` are the keys, of a long word the hash.
        """
        cdef Cache* cache = cache_of(self, space, part)
        cdef size_t before = space.out.n, n
        cdef token_t token = NO_TOKEN
        cdef uint64_t value
        cdef bint lasts
        if space.unknown:
            return 0
        if self.whole is not None:
            token = self.whole.find(word, size)
        if token != NO_TOKEN and part == ALL:
            return value_of(&space.cache, &token, 1, True)
        merge_piece(self, space, word, size, part)
        n = space.out.n - before
        lasts = token == NO_TOKEN and room_for_ids(&space.cache, n) and (
            size <= MIDDLE_WORD and word[size - 1] != 0xFF or room_for_long(cache, size)
        )
        value = 0 if space.unknown else value_of(&space.cache, space.out.data + before, n, lasts)
        space.out.n = before
        space.unknown = False                              # until its turn comes
        if value == 0 or token != NO_TOKEN:
            return value
        if not lasts:
            count_passed(&space.cache)
            return value
        if space.words != NULL and cache == &space.cache:
            note(space.words, word, size, lo, hi, space.out.data + before, n)
        if is_middle(word, size):
            keep_middle(cache, lo, hi, value)
        elif size <= SHORT_WORD and word[size - 1] != 0xFF:
            keep_short(cache, lo, value)
        else:
            keep_long(cache, word, size, lo, value)
        return value


cdef inline bint is_middle(const byte_t* word, Py_ssize_t size) noexcept nogil:
    """Whether a word is one of two keys."""
    return SHORT_WORD < size <= MIDDLE_WORD and word[size - 1] != 0xFF
