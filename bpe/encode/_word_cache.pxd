"""The word cache: the ids of words that were seen before.

The length of a word determines its table. Every table gives a *value*, which stands for the word's ids:

    length    table            found by
    1 to 8    front, lines     its key: the bytes themselves, padded with 0xFF to 64 bits
    9 to 16   lines            two keys, of the first eight bytes and of the rest
    17 to 256 long words       hash and length, then the bytes, which are in `long_bytes`
    more      none             such words are merged each time

A short word is looked up in the front table first. Each thread has its own front table, of recent short words only,
which stays in the second-level cache. The other tables belong to the tokenizer, and all threads share them. Lines have
64 bytes, as cache lines do:

    front     key key key key | value value value value     free entries, at the end: a key of 0xFF.., the value 0
    lines     key value | lo hi value | lo hi value          a value of 0: a free entry, or one that is being written

A value holds up to two ids. More ids are in `spilled`, after their number:

    upper half       lower half
    0                first id + 1     " the" in cl100k: 0, 280, as its id is 279
    second id + 1    first id + 1     " thermic", which is 30945 292: 293, 30946
    index            0                " unpronounceable": spilled[index : index + 5] is 4, 653, 72239, 9933, 481
    0                0                not found
"""

from bpe.base._memory cimport prefetch
from bpe.base._types cimport byte_t, token_t
from bpe.pretokenize._char_masks cimport bpe_clz
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "bpe/encode/_cache_lookup.h" nogil:
    ctypedef struct Line "bpe_line":
        uint64_t keys[4]
        uint64_t values[4]
    Line* new_lines "bpe_new_lines"(size_t n)
    void free_lines "bpe_free_lines"(Line* lines)
    const uint64_t SHORT_KEY_FACTOR "BPE_SHORT_KEY_FACTOR"

cdef extern from *:
    """
    #define BPE_EMPTY_KEY UINT64_MAX
    """
    const uint64_t EMPTY_KEY "BPE_EMPTY_KEY"  # no word has it: it would be the empty word's

cdef extern from "bpe/encode/_word_table.h" nogil:
    ctypedef struct WordLine "bpe_word_line":
        uint64_t key

    ctypedef struct LongWord "bpe_long_word":
        uint32_t offset

    ctypedef struct CachedWords "bpe_words":
        WordLine* lines
        int shift
        LongWord* long_words
        size_t long_words_mask
        byte_t* long_bytes
        token_t* spilled
        size_t max_entries
        size_t max_long_words
        size_t max_long_bytes
        size_t max_spilled
        size_t max_rejected
        size_t n_entries
        size_t n_long_words
        size_t n_long_bytes
        size_t n_spilled
        size_t n_rejected
        int* state

    int CURRENT "BPE_CURRENT"
    int EXHAUSTED "BPE_EXHAUSTED"
    int REPLACING "BPE_REPLACING"
    int REPLACED "BPE_REPLACED"
    uint64_t hash_word "bpe_hash_two"(uint64_t lo, uint64_t hi)
    uint64_t find_word "bpe_find_word"(const CachedWords* words, uint64_t lo, uint64_t hi, uint64_t hashed)
    void find_short_words "bpe_find_short_words"(
        const CachedWords* words, const uint64_t* keys, size_t n, uint64_t* values
    )
    void find_middle_words "bpe_find_middle_words"(
        const CachedWords* words, const uint64_t* keys, const uint64_t* hashes, size_t n, uint64_t* values
    )
    void enter_word "bpe_enter_word"(
        CachedWords* words, uint64_t lo, uint64_t hi, uint64_t hashed, uint64_t value, bint alone
    )
    const byte_t* first_long_bytes "bpe_first_long_bytes"(const CachedWords* words, uint64_t hashed)
    uint64_t find_long "bpe_find_long"(const CachedWords* words, const byte_t* word, size_t size, uint64_t hashed)
    void enter_long "bpe_enter_long"(
        CachedWords* words, const byte_t* word, size_t size, uint64_t hashed, uint64_t value
    )
    uint64_t make_value "bpe_make_value"(CachedWords* words, const token_t* ids, size_t n)
    void copy_words "bpe_copy_words"(CachedWords* to, const CachedWords* old)
    bint has_capacity "bpe_has_capacity"(CachedWords* words)
    int get_state "bpe_get_state"(const CachedWords* words)
    bint change_state "bpe_change_state"(CachedWords* words, int old, int new)

cdef enum:
    MAX_SHORT_WORD = 8        # bytes of a word with one key, at most
    MAX_MIDDLE_WORD = 16      # of a word with two keys
    MAX_LONG_WORD = 256       # longer ones are not cached


cdef class SharedWordTable:
    """The words of one tokenizer, shared by its threads until it is replaced by another table."""

    cdef CachedWords words
    cdef CachedWords inner_parts  # parts of words, except last ones, if ends of words are marked
    cdef int state
    cdef int log2_lines       # log2 of the number of lines
    cdef int max_log2_lines   # the most that the memory allows
    cdef bint marks_word_ends
    cdef bint is_seeded       # whether it has the vocabulary's tokens

    cdef char* block[2]       # memory of the lines of both, and of spilled ids
    cdef size_t block_size[2]

    cdef int open(self, CachedWords* words, int n) except -1


cdef struct Cache:            # the tables that a thread looks words up in
    Line* front               # recent short words: 256 KB, which stay in the second-level cache
    int front_shift           # 64 - log2 of the number of lines: the upper bits of a hash are the index of a line
    CachedWords* table        # shared with other threads


cdef inline uint64_t load_near_key(const byte_t* word, Py_ssize_t size) noexcept nogil:
    """Load the key of a word of 1 to 8 bytes, in memory that has 8 bytes from its start on; no branch."""
    cdef uint64_t key
    memcpy(&key, word, 8)
    return key | (~<uint64_t>0 << (8 * size - 8) << 8)


cdef inline uint64_t load_short_key(const byte_t* word, Py_ssize_t size, const byte_t* readable) noexcept nogil:
    """Load the key of a word of 1 to 8 bytes: its bytes, padded with 0xFF. Nothing at or past `readable` is read.

    Two words have one key only if they end in 0xFF; those are not looked up by keys.
    """
    cdef uint64_t key = 0
    if word + 8 <= readable:
        return load_near_key(word, size)
    memcpy(&key, word, size)
    return load_near_key(<const byte_t*>&key, size)


cdef inline Py_ssize_t measure_key(uint64_t key) noexcept nogil:
    """Count the bytes that the word of a key has."""
    return 8 - (bpe_clz(~key) >> 3)


cdef inline bint has_ids(uint64_t value) noexcept nogil:
    """Whether a value holds its word's ids; else they are spilled."""
    return <uint32_t>value != 0


cdef inline uint64_t find_front(const Cache* cache, uint64_t key) noexcept nogil:
    """Find the value that the front table has for a key, or 0; without a branch, which would be mispredicted."""
    cdef const Line* line = &cache.front[key * SHORT_KEY_FACTOR >> cache.front_shift]
    cdef uint64_t value = 0
    cdef int i
    for i in range(4):
        value |= line.values[i] & -<uint64_t>(line.keys[i] == key)
    return value


cdef inline void prefetch_front(const Cache* cache, uint64_t key) noexcept nogil:
    """Prefetch the line of a key in the front table."""
    prefetch(&cache.front[key * SHORT_KEY_FACTOR >> cache.front_shift])


cdef inline void put_front(Cache* cache, uint64_t key, uint64_t value) noexcept nogil:
    """Enter a word at the start of its line of the front table; in a full line it replaces the oldest word.

    A word that the line has already moves to the start: a look-up combines the values of equal keys with `or`.
    """
    cdef Line* line = &cache.front[key * SHORT_KEY_FACTOR >> cache.front_shift]
    cdef int i = 0
    while i < 3 and line.keys[i] != key:
        i += 1
    while i > 0:
        line.keys[i], line.values[i] = line.keys[i - 1], line.values[i - 1]
        i -= 1
    line.keys[0], line.values[0] = key, value


cdef inline uint64_t fetch_shared_short(Cache* cache, uint64_t key) noexcept nogil:
    """Find the shared value of a key that the front table does not have, and enter it there; 0 if there is none."""
    cdef uint64_t value = find_word(cache.table, key, EMPTY_KEY, hash_word(key, EMPTY_KEY))
    if value:
        put_front(cache, key, value)
    return value


cdef inline void prefetch_line(const CachedWords* words, uint64_t hashed) noexcept nogil:
    """Prefetch the line of a word of at most 16 bytes."""
    prefetch(&words.lines[hashed >> words.shift])


cdef inline void prefetch_spilled(const Cache* cache, uint64_t value) noexcept nogil:
    """Prefetch the spilled ids of a value, if any; without a branch, which would be mispredicted."""
    prefetch(&cache.table.spilled[value >> 32 & -<uint64_t>(not has_ids(value))])


cdef inline void prefetch_long_bytes(const Cache* cache, uint64_t hashed) noexcept nogil:
    """Prefetch the bytes of the first long word that this hash leads to."""
    prefetch(first_long_bytes(cache.table, hashed))


cdef inline bint is_keyed(const byte_t* word, Py_ssize_t size) noexcept nogil:
    """Whether a word is found by its keys, not by a hash."""
    return size <= MAX_MIDDLE_WORD and word[size - 1] != 0xFF


cdef inline uint64_t find_shared(
    const CachedWords* words, const byte_t* word, Py_ssize_t size, uint64_t lo, uint64_t hi
) noexcept nogil:
    """Find the value of a word, or 0; `lo` and `hi` are its keys, or `lo` its hash if it is not found by keys."""
    if is_keyed(word, size):
        return find_word(words, lo, hi, hash_word(lo, hi))
    return find_long(words, word, size, lo)


cdef int open_front(Cache* cache, size_t memory) except -1 nogil
cdef void empty_front(Cache* cache) noexcept nogil
