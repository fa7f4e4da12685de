"""Words that one thread has merged, for the caches of the other threads.

Each thread has its own cache, and caches are not locked. But threads that share one text meet the same new words, and
merging a word takes some ten times as long as entering it into a cache. So a thread notes the words that it merges.
When its part of the text is done, the notes no longer change, and the other threads read them. Not here: who reads when
(`_batch.pyx`).
"""

from bpe.base._ids cimport Ids, reserve
from bpe.base._memory cimport grown, prefetch
from bpe.base._types cimport byte_t, token_t
from bpe.encode._word_cache cimport (
    MIDDLE_WORD,
    SHORT_WORD,
    Cache,
    enter_short,
    find_long,
    keep_long,
    keep_middle,
    middle_line,
    room_for_ids,
    room_for_long,
    room_for_middle,
    room_for_short,
    short_line,
    value_of,
)
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef enum:
    MOST = 1 << 14            # words of a part; text that has more of them does not repeat itself
    AHEAD = 8                 # words


cdef void free_words(Words* words) noexcept nogil:
    free(words.words)
    free(words.ids.data)
    free(words.bytes)


cdef int note(
    Words* words, const byte_t* word, Py_ssize_t size, uint64_t lo, uint64_t hi, const token_t* ids, size_t n
) except -1 nogil:
    """Note a word with its keys, as a cache has been given it, and its ids."""
    cdef Ids* noted = &words.ids
    if words.n == MOST or word[size - 1] == 0xFF:          # which no key can end with; text has none
        return 0
    words.words = <Word*>grown(words.words, &words.room, words.n + 1, sizeof(Word))
    words.words[words.n] = Word(
        lo=lo, hi=hi, size=<uint32_t>size, at=<uint32_t>words.n_bytes, first=<uint32_t>noted.n, n=<uint32_t>n
    )
    reserve(noted, n)
    memcpy(noted.data + noted.n, ids, n * sizeof(token_t))
    noted.n += n
    if size > SHORT_WORD:
        words.bytes = <byte_t*>grown(words.bytes, &words.bytes_room, words.n_bytes + size, 1)
        memcpy(words.bytes + words.n_bytes, word, size)
        words.n_bytes += size
    words.n += 1
    return 0


cdef bint copy_words(Words* copy, const Words* words) noexcept nogil:
    """Copy words to memory of their own, one block that is freed by `free(copy.words)`; False where there is none.

    What a thread notes in is its own, and used again for each part: room that grew with each part took 3 ms of a job.
    """
    cdef size_t all_words = words.n * sizeof(Word), all_ids = words.ids.n * sizeof(token_t)
    cdef byte_t* block = <byte_t*>malloc(all_words + all_ids + words.n_bytes)
    if block == NULL or words.n == 0:
        free(block)
        return False
    copy[0] = words[0]
    copy.words, copy.ids.data, copy.bytes = <Word*>block, <token_t*>(block + all_words), block + all_words + all_ids
    memcpy(copy.words, words.words, all_words)
    memcpy(copy.ids.data, words.ids.data, all_ids)
    if words.n_bytes:
        memcpy(copy.bytes, words.bytes, words.n_bytes)
    return True


cdef int learn(Cache* cache, const Words* words) except -1 nogil:
    """Enter the words that a cache does not have; one that another would have to make room for is left out."""
    cdef size_t i
    for i in range(words.n):
        if i + AHEAD < words.n:
            fetch(cache, &words.words[i + AHEAD])
        enter(cache, &words.words[i], words)
    return 0


cdef inline void fetch(const Cache* cache, const Word* word) noexcept nogil:
    if word.size <= SHORT_WORD:
        prefetch(&cache.lines[short_line(cache, word.lo)])
    elif word.size <= MIDDLE_WORD:
        prefetch(&cache.middles[middle_line(cache, word.lo, word.hi)])
    else:
        prefetch(&cache.longs[word.lo & cache.longs_mask])


cdef int enter(Cache* cache, const Word* word, const Words* words) except -1 nogil:
    cdef const byte_t* data = words.bytes + word.at
    cdef uint64_t value
    if word.size <= SHORT_WORD:
        if not room_for_short(cache, word.lo):
            return 0
    elif word.size <= MIDDLE_WORD:
        if not room_for_middle(cache, word.lo, word.hi):
            return 0
    elif not room_for_long(cache, word.size) or find_long(cache, data, word.size, word.lo):
        return 0
    if not room_for_ids(cache, word.n):
        return 0
    value = value_of(cache, words.ids.data + word.first, word.n, True)
    if value == 0:
        return 0
    if word.size <= SHORT_WORD:
        return enter_short(cache, word.lo, value)
    if word.size <= MIDDLE_WORD:
        return keep_middle(cache, word.lo, word.hi, value)
    return keep_long(cache, data, word.size, word.lo, value)
