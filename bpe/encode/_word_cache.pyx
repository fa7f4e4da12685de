"""The word cache: a bounded table from the bytes of a word to its ids, shared by all threads of a tokenizer.

Most words are at most 8 bytes long. Such a word is a 64-bit key, looked up in the thread's front table, which stays in
its second-level cache, then in the table of words of up to 16 bytes. The bytes of longer words are in an arena, and
these are found by hash, length and comparison. `_word_table.h` explains why neither readers nor writers need a lock.

A word for which there is no room is rejected. The first words of a text are its frequent ones, and a text with more
words than fit finds those again on the next pass; if new words replaced them, it would find none. When as many words
were rejected as the table has entries, an empty table replaces it, since the text may be in another language by now.

Measured against a cache per thread, with tables of the same size: the same speed on one thread, two threads merge as
many words as one does, and a second thread takes no memory for another table.
"""

from bpe.base._memory cimport check_allocated
from bpe.base._pages cimport release, allocate_zeroed
from bpe.base._types cimport byte_t, token_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef enum:
    FRONT_LINES = 12          # log2: 256 KB; 2**10 and 2**13 were no better
    FIRST_LINES = 8           # log2
    LONG_BYTES = 16           # bytes of long words, per line
    MAX_LINES = 26            # log2: offsets of long words and of spilled ids have 32 bits
    SPILLED_BYTES = 24        # bytes of spilled ids, per line; with a line and a long word, 128 bytes


cdef class SharedWordTable:

    def __cinit__(self, size_t memory, size_t n_words, bint marks_word_ends):
        """Make an empty table of at most `memory` bytes, with room for about `n_words` if these fit."""
        self.marks_word_ends = marks_word_ends
        self.max_log2_lines = min(compute_log2((memory // 2 if marks_word_ends else memory) // 128), MAX_LINES)
        self.log2_lines = min(compute_log2(n_words) + 1, self.max_log2_lines)
        self.open(&self.words, 0)
        if marks_word_ends:
            self.open(&self.inner_parts, 1)

    def __dealloc__(self):
        release(self.block[0], self.block_size[0])
        release(self.block[1], self.block_size[1])
        free(self.words.long_words)
        free(self.inner_parts.long_words)

    cdef int open(self, CachedWords* words, int n) except -1:
        """Allocate empty tables: lines take half of the memory, long words most of the rest.

        A word of 17 bytes and more takes 80 to 120 bytes. In scripts without spaces, words are phrases, and long
        ones can be as many as short ones: Thai with o200k. Values of both tables refer to one array of spilled ids.
        """
        cdef size_t lines = <size_t>1 << self.log2_lines
        cdef size_t spilled = 0 if n else lines * SPILLED_BYTES * (1 + self.marks_word_ends)
        self.block_size[n] = lines * sizeof(WordLine) + spilled
        self.block[n] = <char*>check_allocated(allocate_zeroed(self.block_size[n]), 3 * lines, b"words of cache_memory")
        # takes memory only for pages that are written
        words.long_words = <LongWord*>check_allocated(
            calloc(lines, sizeof(LongWord) + LONG_BYTES), 3 * lines, b"words of cache_memory"
        )
        words.lines = <WordLine*>self.block[n]
        words.spilled = <token_t*>(words.lines + lines)
        words.long_bytes = <byte_t*>(words.long_words + lines)
        words.n_spilled = 8                                # index 0 means no value
        words.max_spilled = lines * SPILLED_BYTES // sizeof(token_t)
        if n:
            words.spilled = self.words.spilled
            words.n_spilled, words.max_spilled = words.max_spilled, 2 * words.max_spilled
        words.spilled[0] = 0                               # its huge page is cleared now, not within an early text
        words.state = &self.state
        words.shift, words.long_words_mask = 64 - self.log2_lines, lines - 1
        words.max_long_words, words.max_long_bytes = lines // 2, lines * LONG_BYTES
        words.max_entries = lines * 5 // 4                # then one word in fifty is not in its first line
        if self.log2_lines == self.max_log2_lines:
            words.max_entries, words.max_rejected = lines * 9 // 4, 3 * lines
        return 0


cdef int compute_log2(size_t n) noexcept nogil:
    """Compute the greatest k such that 2**k is at most n, but at least FIRST_LINES."""
    cdef int k = FIRST_LINES
    while <size_t>2 << k <= n:
        k += 1
    return k


cdef int open_front(Cache* cache, size_t memory) except -1 nogil:
    """Allocate an empty front table, a small one if there is little memory for words."""
    cdef int bits = FRONT_LINES if memory >= <size_t>1 << 20 else FIRST_LINES
    cache.front_shift = 64 - bits
    cache.front = <Line*>check_allocated(new_lines(<size_t>1 << bits), <size_t>1 << bits, b"lines of recent words")
    empty_front(cache)
    return 0


cdef void empty_front(Cache* cache) noexcept nogil:
    """Forget all words of the front table."""
    cdef size_t i
    for i in range(<size_t>1 << (64 - cache.front_shift)):
        memset(cache.front[i].keys, 0xFF, sizeof(cache.front[i].keys))
        memset(cache.front[i].values, 0, sizeof(cache.front[i].values))
