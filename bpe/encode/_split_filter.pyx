"""The split filter: pairs of adjacent characters that some token contains, as hashed bits.

If no token contains two adjacent characters together, no merge crosses the position between them, and splitting a piece
there does not change its ids. So text without spaces (Japanese, Chinese) and long words (Korean) become short pieces
that occur again and again. Only characters of three bytes are considered, since the usual vocabularies contain most
pairs of shorter ones.

A token may contain both characters whole, start inside the first one, or end inside the second. A bit
(`_split_filter.h` has the layout) is set for

- all six bytes, if the token contains the first character whole; a token that ends after the second byte of the second
  character sets the bits of all 64 characters that start with these two bytes;
- the last byte of the first character and the three of the second, if the token starts inside the first;
- the last byte of the first character and the first of the second, if the token ends there.

Pairs with the same hash, or that differ only in bytes that are not hashed, cost a split point, never an id: errors are
one-sided, as in a Bloom filter. A vocabulary whose pairs allow few splits has no filter.

A whole text, too, may be split between two ideographs, or two syllables of Hangul, that no token contains together
(`find_first_unjoined`, `find_last_unjoined`), for threads and streams, unless ends of words are marked: in every
pattern that has a scanner these are letters without case, so the rest of the text gives the same pretokens when it
starts there.

The filter is this project's own. Measured with cl100k, cold: Japanese 27 MB/s without it, 296 with it; Korean 64, 334.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._memory cimport prefetch
from bpe.base._types cimport byte_t, token_t
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

cdef extern from "bpe/encode/_split_filter.h" nogil:
    uint32_t pair_filter_hash "bpe_pair_filter_hash"(uint32_t last_and_three)
    uint32_t bit_within "bpe_bit_within"(uint32_t hashed)
    uint32_t bit_whole "bpe_bit_whole"(uint32_t hashed, uint32_t first_two)

cdef enum:
    FULL_CELLS = 15           # log2 of the filter's cells while it is filled: 128 KB
    MIN_CELLS = 9             # log2 of its cells when it is folded, at least
    PREFETCH_AHEAD = 12       # merges between prefetching offsets, then bytes, and reading them
    MAX_BITS = 1 << (FULL_CELLS + 4)    # with more bits set it is given up


cdef class SplitFilter:

    def __cinit__(self):
        """Make a filter without pairs, which allows every split."""
        self.cells = np.zeros((1 << FULL_CELLS) + 1, dtype=np.uint32)
        self.cells[1 << FULL_CELLS] = 0xFFFFFFFF
        self.tables.bits = &self.cells[0]
        self.tables.shift = 32 - FULL_CELLS
        self.n_free_bits = MAX_BITS

    def add_merges(self, const int[:, ::1] pairs, const byte_t[::1] blob, const int64_t[::1] offsets):
        """Add the pair of characters around each merge of two tokens; token i is `blob[offsets[i]:offsets[i + 1]]`.

        The pairs inside a token are those inside its two parts and the one between them, so these are all pairs inside
        tokens.
        """
        cdef Py_ssize_t i, ahead, n = pairs.shape[0], limit = offsets.shape[0] - 1
        cdef token_t left, right
        check_offsets(offsets, limit, blob.shape[0])
        if n and pairs.shape[1] != 2:
            raise ValueError(f"merges have {pairs.shape[1]} tokens; they must have 2")
        cdef byte_t[::1] starts_wide = np.zeros(limit + 1, dtype=np.uint8)  # of tokens: with a character of three bytes
        with nogil:
            for i in range(limit):
                starts_wide[i] = offsets[i] < offsets[i + 1] and blob[offsets[i]] & 0xF0 == 0xE0
            for i in range(n):
                ahead = min(i + 2 * PREFETCH_AHEAD, n - 1)
                prefetch(&offsets[pairs[ahead, 0]])
                prefetch(&offsets[pairs[ahead, 1]])
                ahead = min(i + PREFETCH_AHEAD, n - 1)
                left, right = <token_t>pairs[ahead, 0], <token_t>pairs[ahead, 1]
                if max(left, right) < <size_t>limit and starts_wide[right]:
                    prefetch(&blob[0] + offsets[left + 1] - 1)
                    prefetch(&blob[0] + offsets[right])
                left, right = <token_t>pairs[i, 0], <token_t>pairs[i, 1]
                if max(left, right) >= <size_t>limit:
                    break
                if starts_wide[right]:
                    add_between(self, blob, offsets[left], offsets[left + 1], offsets[right], offsets[right + 1])
            else:
                i = n
        if i < n:
            raise ValueError(f"merge {i} is of tokens {left} and {right}; there are {limit}")

    def add_words(self, const byte_t[::1] blob, const int64_t[::1] offsets, const int64_t[::1] words):
        """Add all pairs of characters inside some of the words `blob[offsets[i]:offsets[i + 1]]`."""
        cdef Py_ssize_t i, pos, n = offsets.shape[0] - 1
        check_offsets(offsets, n, blob.shape[0])
        for i in range(words.shape[0]):
            if not 0 <= words[i] < n:
                raise ValueError(f"word {words[i]} is added; there are {n}")
            for pos in range(offsets[words[i]] + 1, offsets[words[i] + 1]):
                add_between(self, blob, offsets[words[i]], pos, pos, offsets[words[i] + 1])

    def fold(self):
        """Make the filter as small as possible, so that it stays in a near cache; nothing is added after this.

        At most one bit in 64 is set then, so that few split points are lost. The upper bits of a hash are the index of
        its cell at any size, so folding halves is a bitwise or. No Python code runs, since `get_text_split_tables` can
        raise no exception of a signal handler.
        """
        cdef Py_ssize_t used = MAX_BITS - self.n_free_bits, n = 1 << FULL_CELLS, i
        cdef uint32_t[::1] cells = self.cells, folded
        self.n_free_bits = 0
        if self.tables.bits == NULL:
            self.cells = None
            return
        while n > 1 << MIN_CELLS and 16 * n >= 64 * used:
            n //= 2
            for i in range(n):
                cells[i] = cells[2 * i] | cells[2 * i + 1]
            self.tables.shift += 1
        folded = np.zeros(n + 1, dtype=np.uint32)
        folded[:n] = cells[:n]
        folded[n] = 0xFFFFFFFF
        self.cells, self.tables.bits = folded, &folded[0]


cdef int add_between(
    SplitFilter filter, const byte_t[::1] blob, Py_ssize_t start, Py_ssize_t first_end, Py_ssize_t second_start,
    Py_ssize_t end,
) noexcept nogil:
    """Add the pair of characters of three bytes, if it is one, where `blob[second_start:end]` follows a first string.

    The first string is `blob[start:first_end]`. Bytes of the two characters that the strings do not have are 0.
    """
    cdef byte_t pair[6]
    cdef Py_ssize_t i
    cdef int third, first_byte, last_byte
    if start >= first_end or second_start >= end or blob[second_start] & 0xF0 != 0xE0:
        return 0
    memset(pair, 0, 6)
    for i in range(min(first_end - start, <Py_ssize_t>3)):
        pair[2 - i] = blob[first_end - 1 - i]
    for i in range(min(end - second_start, <Py_ssize_t>3)):
        pair[3 + i] = blob[second_start + i]
    if pair[2] & 0xC0 != 0x80 or (pair[1] and pair[1] & 0xC0 != 0x80) or (pair[0] and pair[0] & 0xF0 != 0xE0):
        return 0
    if pair[4] == 0:
        filter.tables.ends[pair[2] & 63] |= <uint16_t>1 << (pair[3] & 15)
        return 0
    first_byte = pair[5] if pair[5] else 0x80
    last_byte = pair[5] if pair[5] else 0xBF
    for third in range(first_byte, last_byte + 1):
        pair[5] = <byte_t>third
        set_bit(filter, pair)
    return 0


cdef int set_bit(SplitFilter filter, const byte_t* pair) noexcept nogil:
    """Set the bit of a pair of characters."""
    cdef uint32_t first_two = 0, last_and_three, hashed, bit
    cdef size_t cell
    memcpy(&first_two, pair, 2)
    memcpy(&last_and_three, pair + 2, 4)
    hashed = pair_filter_hash(last_and_three)
    bit = bit_whole(hashed, first_two) if pair[0] else bit_within(hashed)
    cell = hashed >> (32 - FULL_CELLS)
    if filter.n_free_bits > 0 and not filter.cells[cell] & bit:
        filter.cells[cell] |= bit
        filter.n_free_bits -= 1
        if filter.n_free_bits == 0:
            filter.tables.bits = NULL
    return 0


cdef Py_ssize_t find_first_unjoined(
    const SplitTables* splits, const byte_t* text, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil:
    """Find the first position from `pos` on where UTF-8 that ends at `end` may be split; `end` if there is none."""
    pos = max(pos, <Py_ssize_t>3)
    while pos + 3 <= end:
        if is_text_split(splits, text + pos):
            return pos
        pos += 1
    return end


cdef Py_ssize_t find_last_unjoined(
    const SplitTables* splits, const byte_t* text, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    """Find the last position after `start` where UTF-8 that ends at `end` may be split; `start` if there is none."""
    cdef Py_ssize_t pos = end - 3, min_pos = max(start, <Py_ssize_t>2)
    while pos > min_pos:
        if is_text_split(splits, text + pos):
            return pos
        pos -= 1
    return start


cdef inline bint is_text_split(const SplitTables* splits, const byte_t* at) noexcept nogil:
    """Whether a text may be split at a position that has three bytes before it and three after."""
    return (
        are_three_byte_chars(at - 3)
        and is_same_script(decode_three_bytes(at - 3), decode_three_bytes(at))
        and filter_allows_split(splits, at)
    )


cdef inline bint is_same_script(uint32_t left, uint32_t right) noexcept nogil:
    """Whether both are ideographs of the first block of Unicode, or both syllables of Hangul."""
    if 0x4E00 <= left <= 0x9FA5:
        return 0x4E00 <= right <= 0x9FA5
    return 0xAC00 <= left <= 0xD7A3 and 0xAC00 <= right <= 0xD7A3


cdef inline uint32_t decode_three_bytes(const byte_t* text) noexcept nogil:
    return (text[0] & 15) << 12 | (text[1] & 63) << 6 | (text[2] & 63)
