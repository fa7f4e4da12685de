"""The word cache: bounded tables from the bytes of a word to its ids.

Most words are at most 8 bytes long. Such a word is a 64-bit key, looked up in a front table that stays in the
second-level cache, then in a table of lines of four words each, which grows up to the memory given; where a line is
full, a word goes. Words of 9 to 16 bytes have a table of their own, longer ones lie in an arena and are found by
hash, length and comparison. A cache belongs to one thread: nothing is shared, nothing is locked. Not here: what the
ids of a word are.

Where a longer word or its ids do not fit, it is not kept. Those that came first are the frequent ones, and a text with
more words than there is room for that is read again finds them; if all went to make room for new ones, it would find
none. After so many words that were not kept (`n_passed`) the cache is emptied, as what is read may be another language.
"""

from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from bpe.base._memory cimport grown

cdef extern from "bpe/encode/_cache_lookup.h" nogil:
    void* table_memory "bpe_table_memory"(size_t size)

cdef enum:
    FRONT_LINES = 12          # log2: 256 KB; 2**10 and 2**13 were no better
    FIRST_LINES = 8           # log2


cdef int open_cache(Cache* cache, size_t memory) except -1 nogil:
    """An empty cache of at most `memory` bytes (and at least some 100 KB)."""
    memset(cache, 0, sizeof(Cache))
    limit_words(cache, memory)
    cache.most_listed = max(memory * 3 // 16 // sizeof(token_t), <size_t>4096)
    cache.front_shift = 64 - (FRONT_LINES if memory >= <size_t>1 << 20 else FIRST_LINES)
    cache.lines_shift = cache.middles_shift = 64 - FIRST_LINES
    cache.longs_mask = (<size_t>1 << FIRST_LINES) - 1
    cache.front = <Line*>table_memory(sizeof(Line) << (64 - cache.front_shift))
    cache.lines = <Line*>table_memory(sizeof(Line) << FIRST_LINES)
    cache.middles = <Middle*>calloc(2 << FIRST_LINES, sizeof(Middle))
    cache.longs = <Long*>calloc(cache.longs_mask + 1, sizeof(Long))
    if cache.front == NULL or cache.lines == NULL or cache.middles == NULL or cache.longs == NULL:
        close_cache(cache)
        with gil:
            raise MemoryError("no memory for a word cache")
    empty_cache(cache)
    return 0


cdef void limit_words(Cache* cache, size_t memory) noexcept nogil:
    """Limit the tables of words, which are small yet, to what they would have of `memory` bytes.

    A word of 17 bytes and more has 40 to 60 in `longs` and `kept`. There are as many of those as short ones where words
    are phrases, as Thai's are with o200k.
    """
    cache.most_lines = log2_of(memory // 4 // sizeof(Line), FIRST_LINES)
    cache.most_middles = log2_of(memory // 4 // (2 * sizeof(Middle)), FIRST_LINES)
    cache.most_longs = <size_t>1 << log2_of(memory // 4 // sizeof(Long), FIRST_LINES)
    cache.most_kept = max(memory * 5 // 32, <size_t>16384)


cdef int log2_of(size_t n, int least) noexcept nogil:
    """The greatest k with 2**k at most n, and at least `least`."""
    cdef int k = least
    while <size_t>2 << k <= n:
        k += 1
    return k


cdef size_t cache_bytes(const Cache* cache) noexcept nogil:
    """The memory of all tables; of one that is closed or was never opened, 0."""
    if cache.front == NULL:
        return 0
    return (
        (sizeof(Line) << (64 - cache.front_shift)) + (sizeof(Line) << (64 - cache.lines_shift))
        + (2 * sizeof(Middle) << (64 - cache.middles_shift)) + (cache.longs_mask + 1) * sizeof(Long)
        + cache.kept_room + cache.listed_room * sizeof(token_t)
    )


cdef void close_cache(Cache* cache) noexcept nogil:
    """Free the memory; the cache is as if zeroed."""
    free(cache.front)
    free(cache.lines)
    free(cache.middles)
    free(cache.longs)
    free(cache.kept)
    free(cache.listed)
    memset(cache, 0, sizeof(Cache))


cdef void empty_cache(Cache* cache) noexcept nogil:
    """Forget all words; the tables stay as large as they are."""
    memset(cache.front, 0xFF, sizeof(Line) << (64 - cache.front_shift))
    memset(cache.lines, 0xFF, sizeof(Line) << (64 - cache.lines_shift))
    memset(cache.middles, 0, 2 * sizeof(Middle) << (64 - cache.middles_shift))
    memset(cache.longs, 0, (cache.longs_mask + 1) * sizeof(Long))
    cache.n_short = cache.n_middle = cache.n_long = cache.n_kept = 0
    cache.n_listed = cache.n_lasting = 1                   # place 0 would be no value
    cache.n_passed = 0
    cache.full = False


cdef bint make_room(Cache* cache, size_t n_short, size_t n_middle) noexcept nogil:
    """Have an empty cache hold so many short and middle words without growing; False where it may not, or cannot."""
    cdef int lines = FIRST_LINES, middles = FIRST_LINES
    cdef Line* more_lines
    cdef Middle* more_middles
    while 2 * n_short >= <size_t>4 << lines:
        lines += 1
    while 3 * n_middle >= <size_t>2 << middles:
        middles += 1
    if lines > cache.most_lines or middles > cache.most_middles:
        return False
    if lines > 64 - cache.lines_shift:
        more_lines = <Line*>table_memory(sizeof(Line) << lines)
        if more_lines == NULL:
            return False
        free(cache.lines)
        memset(more_lines, 0xFF, sizeof(Line) << lines)
        cache.lines, cache.lines_shift = more_lines, 64 - lines
    if middles > 64 - cache.middles_shift:
        more_middles = <Middle*>table_memory(2 * sizeof(Middle) << middles)
        if more_middles == NULL:
            return False
        free(cache.middles)
        memset(more_middles, 0, 2 * sizeof(Middle) << middles)
        cache.middles, cache.middles_shift = more_middles, 64 - middles
    return True


cdef uint64_t value_of(Cache* cache, const token_t* ids, size_t n, bint lasts) except? 0 nogil:
    """The value that stands for n ids; 0 where they can have none.

    If it lasts there must be room for them (`room_for_ids`); else it is let go with the chunk, and so not to be kept.
    """
    cdef size_t i, at = cache.n_listed
    if n == 0:
        return 0
    if n <= 2:
        return (<uint64_t>ids[0] + 1) | (<uint64_t>ids[1] + 1 << 32 if n > 1 else 0)
    if not lasts and n > LONG_WORD:
        return 0
    cache.listed = <token_t*>grown(cache.listed, &cache.listed_room, at + n + 9, sizeof(token_t))  # copied by eight
    cache.listed[at] = <token_t>n
    for i in range(n):
        cache.listed[at + 1 + i] = ids[i]
    cache.n_listed += n + 1
    if lasts:
        cache.n_lasting = cache.n_listed
    return <uint64_t>at << 32


# Short words ----------------------------------------------------------------------------------------------------------


cdef int keep_short(Cache* cache, uint64_t key, uint64_t value) except -1 nogil:
    """Enter a word that is not there, and that is met now."""
    put_front(cache, key, value)
    return enter_short(cache, key, value)


cdef int enter_short(Cache* cache, uint64_t key, uint64_t value) except -1 nogil:
    """Enter a word that is not there, but not into the front table."""
    if cache.n_short * 2 >= <size_t>4 << (64 - cache.lines_shift) and 64 - cache.lines_shift < cache.most_lines:
        grow_lines(cache)
    put_line(cache, short_line(cache, key), key, value)
    return 0


cdef void put_line(Cache* cache, uint64_t at, uint64_t key, uint64_t value) noexcept nogil:
    """Enter a word into its line, or if that is full into the neighbour; if both are, one of its line goes."""
    cdef Line* line = &cache.lines[at]
    cdef int i
    if line.keys[3] != EMPTY_KEY and cache.lines[at ^ 1].keys[3] == EMPTY_KEY:
        line = &cache.lines[at ^ 1]
    for i in range(4):
        if line.keys[i] == EMPTY_KEY:
            cache.n_short += 1
            break
    else:
        cache.turn += 1
        i = cache.turn & 3
    line.keys[i] = key
    line.values[i] = value


cdef int grow_lines(Cache* cache) noexcept nogil:
    """Twice as many lines, or as many as before where there is no memory."""
    cdef size_t n = <size_t>1 << (64 - cache.lines_shift), at
    cdef Line* old = cache.lines
    cdef Line* lines = <Line*>table_memory(2 * n * sizeof(Line))
    cdef int i
    if lines == NULL:
        cache.most_lines = 64 - cache.lines_shift
        return 0
    memset(lines, 0xFF, 2 * n * sizeof(Line))
    cache.lines = lines
    cache.lines_shift -= 1
    cache.n_short = 0
    for at in range(n):
        for i in range(4):
            if old[at].keys[i] != EMPTY_KEY:
                put_line(cache, short_line(cache, old[at].keys[i]), old[at].keys[i], old[at].values[i])
    free(old)
    return 0


# Middle words ---------------------------------------------------------------------------------------------------------


cdef int keep_middle(Cache* cache, uint64_t lo, uint64_t hi, uint64_t value) except -1 nogil:
    """Enter a word that is not there."""
    cdef size_t n = <size_t>1 << (64 - cache.middles_shift), at
    cdef Middle* old = cache.middles
    cdef Middle* middles
    if cache.n_middle * 3 >= 2 * n and 64 - cache.middles_shift < cache.most_middles:
        middles = <Middle*>table_memory(4 * n * sizeof(Middle))
        if middles == NULL:
            cache.most_middles = 64 - cache.middles_shift
        else:
            memset(middles, 0, 4 * n * sizeof(Middle))
            cache.middles = middles
            cache.middles_shift -= 1
            cache.n_middle = 0
            for at in range(2 * n):
                if old[at].value:
                    put_middle(cache, old[at].lo, old[at].hi, old[at].value)
            free(old)
    put_middle(cache, lo, hi, value)
    return 0


cdef void put_middle(Cache* cache, uint64_t lo, uint64_t hi, uint64_t value) noexcept nogil:
    """Enter a word into the first of its lines that is not full; if all are, one of the first line goes."""
    cdef Middle* place = free_middle(cache, lo, hi)
    if place != NULL:
        cache.n_middle += 1
    else:
        cache.turn += 1
        place = &cache.middles[middle_line(cache, lo, hi) + (cache.turn & 1)]
    place.lo, place.hi, place.value = lo, hi, value


# Long words -----------------------------------------------------------------------------------------------------------


cdef uint64_t find_long(const Cache* cache, const byte_t* word, Py_ssize_t size, uint64_t hashed) noexcept nogil:
    """The value of a word of 17 bytes or more, or 0."""
    cdef size_t at = hashed & cache.longs_mask
    cdef const Long* entry = &cache.longs[at]
    while entry.value:
        if entry.hash == hashed and entry.size == <size_t>size and memcmp(cache.kept + entry.offset, word, size) == 0:
            return entry.value
        at = (at + 1) & cache.longs_mask
        entry = &cache.longs[at]
    return 0


cdef int keep_long(Cache* cache, const byte_t* word, Py_ssize_t size, uint64_t hashed, uint64_t value) except -1 nogil:
    """Enter a word that is not there, and that there is room for."""
    cdef size_t n = cache.longs_mask + 1, at
    cdef Long* old = cache.longs
    cdef Long* longs
    if cache.n_long * 2 >= n:
        longs = <Long*>table_memory(2 * n * sizeof(Long))
        if longs == NULL:
            cache.most_longs = n
            return 0
        # A page that is read before it is written to is changed under all threads then, each with an interrupt.
        memset(longs, 0, 2 * n * sizeof(Long))
        cache.longs = longs
        cache.longs_mask = 2 * n - 1
        for at in range(n):
            if old[at].value:
                put_long(cache, old[at])
        free(old)
    cache.kept = <byte_t*>grown(cache.kept, &cache.kept_room, cache.n_kept + size, 1)
    memcpy(cache.kept + cache.n_kept, word, size)
    put_long(cache, Long(hash=hashed, value=value, offset=<uint32_t>cache.n_kept, size=<uint32_t>size))
    cache.n_kept += size
    cache.n_long += 1
    return 0


cdef inline void put_long(Cache* cache, Long entry) noexcept nogil:
    cdef size_t at = entry.hash & cache.longs_mask
    while cache.longs[at].value:
        at = (at + 1) & cache.longs_mask
    cache.longs[at] = entry
