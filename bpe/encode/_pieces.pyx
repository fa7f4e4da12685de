"""Cutting the pieces that a scanner found into shorter parts, where that is safe.

The split filter (`_split_filter.pyx`) says where a cut is safe. The parts are then looked up as pieces of their own.
Not here: finding pieces, and what is done with them (`_chunk_filler.pyx`).
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from bpe.encode._chunk cimport ALL, EARLIER, LAST, Feed
from bpe.encode._split_filter cimport Joints, SplitFilter, is_joint, may_cut
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

cdef extern from "bpe/encode/_split_filter.h" nogil:
    enum:
        SLICE_WORDS "BPE_SLICE_WORDS"  # text is cut so many times 64 bytes at a time

    ctypedef struct Parts "bpe_parts":
        Py_ssize_t* start
        Py_ssize_t* end
        byte_t* part
        size_t room
        Py_ssize_t at
        uint64_t fresh
        size_t n
        size_t n_ended

    void bpe_find_safe(const byte_t* slice, size_t words, const Joints* joints, uint64_t* safe)
    void bpe_list_parts(const uint64_t* safe, const uint64_t* ends, size_t words, Py_ssize_t text, Parts* parts)
    void use_level_split_filter "bpe_use_level_split_filter"(int level) noexcept


follow_vector_level(use_level_split_filter)


def safe_places(SplitFilter split not None, const byte_t[::1] text):
    """The places where a text of at most one slice may be cut, as `SplitFilter.cuts` gives them; for the tests."""
    cdef byte_t padded[64 + 64 * SLICE_WORDS + 192]
    cdef uint64_t safe[SLICE_WORDS]
    cdef Py_ssize_t i
    memset(padded, 0, sizeof(padded))
    for i in range(min(text.shape[0], 64 * <Py_ssize_t>SLICE_WORDS)):
        padded[64 + i] = text[i]
    bpe_find_safe(padded + 64, SLICE_WORDS, &split.joints, safe)
    return [i for i in range(64 * SLICE_WORDS) if safe[i >> 6] >> (i & 63) & 1]


cdef Py_ssize_t cut_found(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil:
    """Move found pieces to `cut_start` and `cut_end`, cut where that is safe, while there is room; how many come.

    `part` gets what each is of its piece; 64 more may be written behind those there is room for.
    """
    cdef Py_ssize_t n = cut_slice(feed, joints, room, part) if feed.gapless else 0
    return n if n else cut_pieces(feed, joints, room, part)


cdef Py_ssize_t cut_slice(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil:
    """Move found pieces to `cut_start` and `cut_end`, cut where that is safe; how many parts, 0 if none ends in sight.

    Safe places and ends of pieces are bits of words, the text from the first piece on. Taking all pieces together
    spares a branch per piece that would be guessed wrong, how many characters it has.
    """
    cdef byte_t padded[64 + 64 * SLICE_WORDS + 192]
    cdef uint64_t safe[SLICE_WORDS + 1]
    cdef uint64_t ends[SLICE_WORDS + 1]
    cdef Py_ssize_t start = feed.start[feed.next] + feed.within, pos, i = feed.next
    cdef Py_ssize_t size = min(feed.end[feed.n_found - 1] - start, min(room * 4 + 64, 64 * <Py_ssize_t>SLICE_WORDS))
    cdef Py_ssize_t words = size // 64 + 1
    cdef Parts parts
    memset(padded, 0, 64)
    memcpy(padded + 64, feed.cursor.text + start, size)
    memset(padded + 64 + size, 0, 192)
    memset(ends, 0, words * sizeof(uint64_t))
    bpe_find_safe(padded + 64, words, joints, safe)
    while i < feed.n_found and feed.end[i] - start <= size:
        pos = feed.end[i] - start
        ends[pos >> 6] |= <uint64_t>1 << (pos & 63)
        i += 1
    parts.start, parts.end, parts.part, parts.room = feed.cut_start, feed.cut_end, part, room
    parts.at, parts.fresh = start, feed.within == 0
    parts.n = parts.n_ended = 0
    bpe_list_parts(safe, ends, words, start, &parts)
    if parts.n:
        feed.next += parts.n_ended
        feed.within = 0 if parts.fresh else parts.at - feed.start[feed.next]
    return parts.n


cdef Py_ssize_t cut_pieces(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil:
    """Move found pieces to `cut_start` and `cut_end`, cut where that is safe, while there is room; how many come."""
    cdef Py_ssize_t n = 0, start, end
    while feed.next < feed.n_found and n < room:
        start, end = feed.start[feed.next], feed.end[feed.next]
        if end - start <= 4:
            feed.cut_start[n], feed.cut_end[n] = start, end
            part[n] = ALL
            n += 1
        else:
            n = cut(feed, joints, start, end, n, room, part)
            if feed.within:                                # there was no room for all of it
                return n
        feed.next += 1
    return n


cdef inline Py_ssize_t character(byte_t lead) noexcept nogil:
    """The length of a character by its first byte; 1 for a byte that is none."""
    if lead < 0xC0:
        return 1
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


cdef inline Py_ssize_t cut(
    Feed* feed, const Joints* joints, Py_ssize_t start, Py_ssize_t end, Py_ssize_t n, Py_ssize_t room, byte_t* part
) noexcept nogil:
    """Cut the piece from `start` to `end` wherever that is safe; how many parts there are then.

    `feed.within` says how far it came, 0 where it came to the end.
    """
    cdef const byte_t* text = feed.cursor.text
    cdef Py_ssize_t at = start + feed.within, pos = at + character(text[at])
    cdef bint safe
    while pos < end and pos - start < 3:
        pos += character(text[pos])
    while pos + 3 <= end and n < room:
        safe = is_joint(text + pos - 3) and may_cut(joints, text + pos)
        feed.cut_start[n], feed.cut_end[n] = at, pos
        part[n] = EARLIER
        n += safe
        at = pos if safe else at
        if text[pos] & 0xF0 == 0xE0:                       # nearly always, so that it need not wait for the byte
            pos += 3
        else:
            pos += character(text[pos])
    if n == room:
        feed.within = at - start
        return n
    feed.cut_start[n], feed.cut_end[n] = at, end
    part[n] = LAST if at > start else ALL
    feed.within = 0
    return n + 1
