"""Splitting the pieces that a scanner found into shorter parts, where the split filter (`_split_filter.pyx`) allows it.

The parts are then looked up as pieces of their own.
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from bpe.encode._chunk cimport INNER, LAST, WHOLE, Feed
from bpe.encode._split_filter cimport SplitTables, are_three_byte_chars, filter_allows_split
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

cdef extern from "bpe/encode/_split_filter.h" nogil:
    enum:
        SLICE_WORDS "BPE_SLICE_WORDS"  # 64-byte blocks that are split at once, at most

    ctypedef struct SplitParts "bpe_split_parts":
        Py_ssize_t* start
        Py_ssize_t* end
        byte_t* role
        size_t capacity
        Py_ssize_t at
        uint64_t starts_piece
        size_t n
        size_t n_ended

    void bpe_find_splits(const byte_t* slice, size_t words, const SplitTables* splits, uint64_t* safe)
    void bpe_list_parts(const uint64_t* safe, const uint64_t* ends, size_t words, Py_ssize_t text, SplitParts* parts)
    void use_level_split_filter "bpe_use_level_split_filter"(int level) noexcept


follow_vector_level(use_level_split_filter)


cdef Py_ssize_t split_pieces(Feed* feed, const SplitTables* splits, Py_ssize_t capacity, byte_t* role) noexcept nogil:
    """Move found pieces, split into parts, to `part_start` and `part_end` while there is room.

    Returns the number of parts. `role` gets WHOLE, LAST or INNER for each; up to 64 more elements may be written after
    `capacity`.
    """
    cdef Py_ssize_t n = split_slice(feed, splits, capacity, role) if feed.is_gapless else 0
    return n if n else split_singly(feed, splits, capacity, role)


cdef Py_ssize_t split_slice(Feed* feed, const SplitTables* splits, Py_ssize_t capacity, byte_t* role) noexcept nogil:
    """Split the pieces in the next slice of text together; returns the number of parts, 0 if none ends in the slice.

    Safe positions and ends of pieces are bit masks of the text from the first piece on. Going through the pieces one by
    one would branch on the length of each, which is mispredicted.
    """
    cdef byte_t padded[64 + 64 * SLICE_WORDS + 192]
    cdef uint64_t safe[SLICE_WORDS]
    cdef uint64_t ends[SLICE_WORDS]
    cdef Py_ssize_t start = feed.start[feed.next] + feed.n_bytes_taken, pos, i = feed.next
    cdef Py_ssize_t limit = min(capacity * 4 + 64, 64 * <Py_ssize_t>SLICE_WORDS - 1)
    cdef Py_ssize_t size = min(feed.end[feed.n_found - 1] - start, limit)
    cdef Py_ssize_t words = size // 64 + 1                 # at most SLICE_WORDS: a bit for the end of the slice, too
    cdef SplitParts parts
    memset(padded, 0, 64)
    memcpy(padded + 64, feed.cursor.text + start, size)
    memset(padded + 64 + size, 0, 192)
    memset(ends, 0, words * sizeof(uint64_t))
    bpe_find_splits(padded + 64, words, splits, safe)
    while i < feed.n_found and feed.end[i] - start <= size:
        pos = feed.end[i] - start
        ends[pos >> 6] |= <uint64_t>1 << (pos & 63)
        i += 1
    parts.start, parts.end, parts.role, parts.capacity = feed.part_start, feed.part_end, role, capacity
    parts.at, parts.starts_piece = start, feed.n_bytes_taken == 0
    parts.n = parts.n_ended = 0
    bpe_list_parts(safe, ends, words, start, &parts)
    if parts.n:
        feed.next += parts.n_ended
        feed.n_bytes_taken = 0 if parts.starts_piece else parts.at - feed.start[feed.next]
    return parts.n


cdef Py_ssize_t split_singly(Feed* feed, const SplitTables* splits, Py_ssize_t capacity, byte_t* role) noexcept nogil:
    """Split found pieces one by one while there is room. Returns the number of parts."""
    cdef Py_ssize_t n = 0, start, end
    while feed.next < feed.n_found and n < capacity:
        start, end = feed.start[feed.next], feed.end[feed.next]
        if end - start <= 4:
            feed.part_start[n], feed.part_end[n] = start, end
            role[n] = WHOLE
            n += 1
        else:
            n = split_piece(feed, splits, start, end, n, capacity, role)
            if feed.n_bytes_taken:                         # no room for all of it
                return n
        feed.next += 1
    return n


cdef inline Py_ssize_t measure_char(byte_t lead) noexcept nogil:
    """Return the length of a character by its first byte; 1 for a byte that starts none."""
    if lead < 0xC0:
        return 1
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


cdef inline Py_ssize_t split_piece(
    Feed* feed, const SplitTables* splits, Py_ssize_t start, Py_ssize_t end, Py_ssize_t n, Py_ssize_t capacity,
    byte_t* role,
) noexcept nogil:
    """Add the parts of the piece from `start` to `end` to the n that are listed; returns the new number.

    If there is no room for all, `feed.n_bytes_taken` is set to the bytes that were taken, else to 0.
    """
    cdef const byte_t* text = feed.cursor.text
    cdef Py_ssize_t part_start = start + feed.n_bytes_taken, pos = part_start + measure_char(text[part_start])
    cdef bint is_safe
    while pos < end and pos - start < 3:
        pos += measure_char(text[pos])
    while pos + 3 <= end and n < capacity:
        is_safe = are_three_byte_chars(text + pos - 3) and filter_allows_split(splits, text + pos)
        feed.part_start[n], feed.part_end[n] = part_start, pos
        role[n] = INNER
        n += is_safe
        part_start = pos if is_safe else part_start
        if text[pos] & 0xF0 == 0xE0:                       # predicted, so that the next load need not wait
            pos += 3
        else:
            pos += measure_char(text[pos])
    if n == capacity:
        feed.n_bytes_taken = part_start - start
        return n
    feed.part_start[n], feed.part_end[n] = part_start, end
    role[n] = LAST if part_start > start else WHOLE
    feed.n_bytes_taken = 0
    return n + 1
