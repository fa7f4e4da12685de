"""The word cache: the ids of words that have been seen, one cache per thread.

A word's length says which table it is in, and every table gives a *value*, which stands for its ids:

    length    table            found by
    1 to 8    front, lines     its key: the bytes themselves, padded with 0xFF to 64 bits
    9 to 16   middles          two keys, of the first eight bytes and of the rest
    17 to 256 longs            hash and length, then comparing the bytes, which are in `kept`
    more      none             such words are merged each time

A short word is looked up in the front table first, which has only the words met last and stays in a fast cache; then
in `lines`, in the line that its hash says and in that line's neighbour. A line has 64 bytes, as lines of memory do:

    front, lines    key key key key | value value value value   a key of 0xFF.. is a free place; they fill up in order
    middles         lo hi value -   | lo hi value -             a value of 0 is a free place

A value has at most two ids in itself. The ids of a longer word are in `listed`, behind their number:

    upper half       lower half
    0                first id + 1     " the" in cl100k: 0, 280, as its id is 279
    second id + 1    first id + 1     " thermic", which is 30945 292: 293, 30946
    place            0                " unpronounceable": listed[place : place + 5] is 4, 653, 72239, 9933, 481
    0                0                no value: the word is not there

Nothing is ever removed one by one: in a full line a word is overwritten, and what else is full is emptied as a whole.
"""

from bpe.base._memory cimport mix, prefetch
from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    int bpe_clz(uint64_t bits)

cdef extern from "bpe/encode/_cache_lookup.h" nogil:
    ctypedef struct Line "bpe_line":
        uint64_t keys[4]
        uint64_t values[4]
    ctypedef struct Middle "bpe_middle":  # a word of 9 to 16 bytes; a line of the cache holds two
        uint64_t lo
        uint64_t hi           # the bytes from the ninth on, padded as a key
        uint64_t value        # 0 where the place is free
    const uint64_t SHORT_KEY_FACTOR "BPE_SHORT_KEY_FACTOR"

cdef extern from *:
    """
    #define BPE_EMPTY_KEY UINT64_MAX
    """
    const uint64_t EMPTY_KEY "BPE_EMPTY_KEY"  # of a word of no bytes, which there is not

cdef enum:
    SHORT_WORD = 8            # bytes: a word of at most so many is its own key
    MIDDLE_WORD = 16          # of two keys
    LONG_WORD = 256           # longer ones are not cached
    LINES_OF_MIDDLE = 4       # a middle word is in one of so many lines, in a later one only if those before are full

cdef struct Long:             # a word of 17 to 256 bytes
    uint64_t hash
    uint64_t value            # 0 where the place is free
    uint32_t offset           # of its bytes in `kept`
    uint32_t size

cdef struct Cache:
    Line* front               # the short words met last: 256 KB, which stay in the second-level cache
    int front_shift           # 64 - log2 of how many lines it has: the upper bits of a hash are the number of a line
    Line* lines               # all short words
    int lines_shift           # as front_shift; the table doubles when half full, up to most_lines
    size_t n_short            # words in `lines`
    Middle* middles           # words of 9 to 16 bytes, two to a line
    int middles_shift         # as front_shift; the table doubles when two thirds full
    size_t n_middle           # words in it
    Long* longs               # words of 17 to 256 bytes: open addressing, at most half of the places used
    size_t longs_mask         # how many places there are, less one
    size_t n_long             # words in it
    byte_t* kept              # the bytes of long words, one behind the other
    size_t n_kept
    size_t kept_room
    token_t* listed           # the ids of words that have more than two, their number first; place 0 is not used
    size_t n_listed
    size_t n_lasting          # of those, what words of the tables have; what is behind is let go before the next chunk
    size_t n_passed           # words that were not kept since the cache was last empty
    size_t listed_room
    uint32_t turn             # counts words overwritten: its last bits say which one of a full line is next
    bint full                 # `listed` had no room: the cache is emptied before the next chunk
    int most_lines            # log2 of how many lines there may be, by the memory given
    int most_middles          # the same for lines of middle words
    size_t most_longs         # places, a power of two
    size_t most_listed        # ids
    size_t most_kept          # bytes


cdef inline uint64_t short_key(const byte_t* word, Py_ssize_t size, const byte_t* readable) noexcept nogil:
    """The key of a word of 1 to 8 bytes: its bytes, padded with 0xFF. Nothing at or past `readable` is read.

    Two words have one key only if they end in 0xFF; those are not looked up by keys.
    """
    cdef uint64_t key
    if word + 8 <= readable:
        memcpy(&key, word, 8)
    else:
        key = 0
        memcpy(&key, word, size)
    return key | (~<uint64_t>0 << (8 * size - 8) << 8)


cdef inline Py_ssize_t key_size(uint64_t key) noexcept nogil:
    """How many bytes the word of a key has."""
    return 8 - (bpe_clz(~key) >> 3)


cdef inline bint has_ids(uint64_t value) noexcept nogil:
    """Whether a value has its word's ids in itself."""
    return <uint32_t>value != 0


cdef inline uint64_t middle_hash(uint64_t lo, uint64_t hi) noexcept nogil:
    """Of two keys; its upper bits are the number of a line."""
    return mix(lo ^ <uint64_t>0x9E3779B97F4A7C15, hi ^ <uint64_t>0xD6E8FEB86659FD93)


cdef inline size_t middle_line(const Cache* cache, uint64_t lo, uint64_t hi) noexcept nogil:
    """The number of the first of the two places of a middle word."""
    return middle_hash(lo, hi) >> cache.middles_shift << 1


cdef inline uint64_t short_line(const Cache* cache, uint64_t key) noexcept nogil:
    """The number of the line of a short word; that of its neighbour differs in the last bit."""
    return key * SHORT_KEY_FACTOR >> cache.lines_shift


cdef inline uint64_t find_front(const Cache* cache, uint64_t key) noexcept nogil:
    """The value that the front table has for a key, or 0."""
    cdef const Line* line = &cache.front[key * SHORT_KEY_FACTOR >> cache.front_shift]
    cdef int i
    for i in range(4):
        if line.keys[i] == key:
            return line.values[i]
    return 0


cdef inline void put_front(Cache* cache, uint64_t key, uint64_t value) noexcept nogil:
    """Enter a word into the front table; of a full line the oldest goes.

    A word that is there moves to the first place: two values of one key would be joined into one that is neither.
    """
    cdef Line* line = &cache.front[key * SHORT_KEY_FACTOR >> cache.front_shift]
    cdef int i = 0
    while i < 3 and line.keys[i] != key:
        i += 1
    while i > 0:
        line.keys[i], line.values[i] = line.keys[i - 1], line.values[i - 1]
        i -= 1
    line.keys[0], line.values[0] = key, value


cdef inline uint64_t value_in(const Line* line, uint64_t key) noexcept nogil:
    """The value that a line has for a key, or 0; no key is in a line twice."""
    cdef uint64_t value = 0                                # no branch: half of them would be guessed wrong
    cdef int i
    for i in range(4):
        value |= line.values[i] & -<uint64_t>(line.keys[i] == key)
    return value


cdef inline uint64_t find_short(Cache* cache, uint64_t key) noexcept nogil:
    """The value of a key that the front table does not have, which then has it; 0 if there is none."""
    cdef inline uint64_t at = short_line(cache, key), value = value_in(&cache.lines[at], key)
    if value == 0 and cache.lines[at].keys[3] != EMPTY_KEY:
        value = value_in(&cache.lines[at ^ 1], key)
    if value:
        put_front(cache, key, value)
    return value


cdef inline bint room_for_short(const Cache* cache, uint64_t key) noexcept nogil:
    """Whether a key is not there, and can be entered without another's going."""
    cdef uint64_t at = short_line(cache, key)
    cdef const Line* line = &cache.lines[at]
    cdef const Line* neighbour = &cache.lines[at ^ 1]
    if line.keys[3] == EMPTY_KEY:
        return value_in(line, key) == 0
    return value_in(line, key) == 0 and value_in(neighbour, key) == 0 and neighbour.keys[3] == EMPTY_KEY


cdef inline uint64_t value_of_two(const Middle* line, uint64_t lo, uint64_t hi) noexcept nogil:
    """The same of a line of middle words."""
    if line[0].lo == lo and line[0].hi == hi:
        return line[0].value
    if line[1].lo == lo and line[1].hi == hi:
        return line[1].value
    return 0


cdef inline uint64_t find_middle(const Cache* cache, uint64_t lo, uint64_t hi) noexcept nogil:
    """The value of a word of 9 to 16 bytes, or 0."""
    cdef size_t at = middle_line(cache, lo, hi), i
    cdef const Middle* line
    cdef uint64_t value
    for i in range(<size_t>LINES_OF_MIDDLE):
        line = &cache.middles[at ^ 2 * i]
        value = value_of_two(line, lo, hi)
        if value or not line[1].value:
            return value
    return 0


cdef inline Middle* free_middle(const Cache* cache, uint64_t lo, uint64_t hi) noexcept nogil:
    """Where a new word goes, or NULL if all its lines are full."""
    cdef size_t at = middle_line(cache, lo, hi), i
    cdef Middle* line
    for i in range(<size_t>LINES_OF_MIDDLE):
        line = &cache.middles[at ^ 2 * i]
        if not line[1].value:
            return line + (line.value != 0)
    return NULL


cdef inline void fetch_listed(const Cache* cache, uint64_t value) noexcept nogil:
    """Prefetch the ids of a value that does not have them in itself; no branch, since it would be guessed wrong."""
    prefetch(&cache.listed[value >> 32 & -<uint64_t>(not has_ids(value))])


cdef inline void let_pass(Cache* cache) noexcept nogil:
    """Let go the ids of words that were not kept, which nothing refers to any more."""
    cache.n_listed = cache.n_lasting


cdef inline void count_passed(Cache* cache) noexcept nogil:
    """Count a word that was not kept; after many the cache asks to be emptied."""
    cache.n_passed += 1
    cache.full |= cache.n_passed > 2 * cache.most_longs


cdef inline bint room_for_ids(const Cache* cache, size_t n) noexcept nogil:
    """Whether the ids of a word, n of them, can be kept."""
    return n <= 2 or cache.n_listed == cache.n_lasting and cache.n_listed + n + 1 <= cache.most_listed


cdef inline bint room_for_long(const Cache* cache, Py_ssize_t size) noexcept nogil:
    """Whether a word of so many bytes, 17 or more, can be kept."""
    return cache.n_kept + size <= cache.most_kept and cache.n_long * 2 < cache.most_longs


cdef inline void fetch_kept(const Cache* cache, uint64_t hashed) noexcept nogil:
    """Prefetch the bytes of the first word that may be a long one with this hash."""
    prefetch(&cache.kept[cache.longs[hashed & cache.longs_mask].offset])


cdef void limit_words(Cache* cache, size_t memory) noexcept nogil

cdef inline bint room_for_middle(const Cache* cache, uint64_t lo, uint64_t hi) noexcept nogil:
    """The same of a word of 9 to 16 bytes."""
    return not find_middle(cache, lo, hi) and free_middle(cache, lo, hi) != NULL


cdef int open_cache(Cache* cache, size_t memory) except -1 nogil
cdef size_t cache_bytes(const Cache* cache) noexcept nogil
cdef void close_cache(Cache* cache) noexcept nogil
cdef bint make_room(Cache* cache, size_t n_short, size_t n_middle) noexcept nogil
cdef void empty_cache(Cache* cache) noexcept nogil
cdef uint64_t find_long(const Cache* cache, const byte_t* word, Py_ssize_t size, uint64_t hashed) noexcept nogil
cdef uint64_t value_of(Cache* cache, const token_t* ids, size_t n, bint lasts) except? 0 nogil
cdef int keep_short(Cache* cache, uint64_t key, uint64_t value) except -1 nogil
cdef int enter_short(Cache* cache, uint64_t key, uint64_t value) except -1 nogil
cdef int keep_middle(Cache* cache, uint64_t lo, uint64_t hi, uint64_t value) except -1 nogil
cdef void put_line(Cache* cache, uint64_t at, uint64_t key, uint64_t value) noexcept nogil
cdef void put_middle(Cache* cache, uint64_t lo, uint64_t hi, uint64_t value) noexcept nogil
cdef int keep_long(Cache* cache, const byte_t* word, Py_ssize_t size, uint64_t hashed, uint64_t value) except -1 nogil
