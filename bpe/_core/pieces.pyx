"""Cutting the pieces that a scanner found into shorter ones, where that is safe.

The parts are the pieces that are then looked up. Where a cut is safe says the split filter (`splits.pyx`). Not here:
finding pieces, and what is done with them (`chunk.pyx`).
"""

from bpe._core.chunk cimport SLICE_WORDS, Feed
from bpe._core.splits cimport LEADS_AND_TAILS, TWO_CHARACTERS, Joints, may_cut, six_bytes
from bpe._core.types cimport byte_t
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

cdef extern from "joints.h" nogil:
    uint64_t bpe_meetings(const byte_t* text)

cdef extern from "classify.h" nogil:
    int bpe_ctz(uint64_t bits)


cdef Py_ssize_t cut_found(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil:
    """Move found pieces to `cut_start` and `cut_end`, cut where that is safe, while there is room; how many come.

    `part` gets whether each is a part of a piece that was cut.
    """
    cdef Py_ssize_t n = cut_slice(feed, joints, room, part) if feed.gapless else 0
    return n if n else cut_pieces(feed, joints, room, part)


cdef Py_ssize_t cut_slice(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil:
    """Move found pieces to `cut_start` and `cut_end`, cut where that is safe; how many parts, 0 if none ends in sight.

    Safe places and ends of pieces are bits of words, the text from the first piece on. Taking all pieces together
    spares a branch per piece that would be guessed wrong, how many characters it has.
    """
    cdef uint64_t safe[SLICE_WORDS + 2]
    cdef uint64_t ends[SLICE_WORDS + 2]
    cdef Py_ssize_t start = feed.start[feed.next] + feed.within, at = start, pos, n = 0, i = feed.next, word
    cdef Py_ssize_t size = min(feed.end[feed.n_found - 1] - start, min(room * 4 + 64, 64 * <Py_ssize_t>SLICE_WORDS))
    cdef uint64_t found
    cdef bint fresh = feed.within == 0, last
    memset(safe, 0, sizeof(safe))
    memset(ends, 0, sizeof(ends))
    find_safe(feed, joints, start, size, safe)
    while i < feed.n_found and feed.end[i] - start <= size:
        pos = feed.end[i] - start
        ends[pos >> 6] |= <uint64_t>1 << (pos & 63)
        i += 1
    i = feed.next
    for word in range(size // 64 + 1):
        found = safe[word] | ends[word]
        while found and n < room:
            pos = start + 64 * word + bpe_ctz(found)
            last = ends[word] >> (pos - start & 63) & 1
            feed.cut_start[n], feed.cut_end[n] = at, pos
            part[n] = not (fresh & last)
            fresh = last
            i += last
            n += 1
            at = pos
            found &= found - 1
        if n == room:
            break
    if n:
        feed.next = i
        feed.within = 0 if fresh else at - feed.start[i]
    return n


cdef inline void find_safe(
    Feed* feed, const Joints* joints, Py_ssize_t start, Py_ssize_t size, uint64_t* safe
) noexcept nogil:
    """Set the bits of the places behind `start` where a cut is safe."""
    cdef const byte_t* text = feed.cursor.text
    cdef byte_t padded[64]
    cdef Py_ssize_t base = max(start - 2, <Py_ssize_t>0), place, left
    cdef uint64_t meetings, found
    cdef const byte_t* window
    cdef int bit
    while base < start + size:
        left = feed.readable - text - base
        window = text + base
        if left < 64:
            memset(padded, 0, 64)
            memcpy(padded, window, left)
            window = padded
        meetings = bpe_meetings(window)
        found = 0
        while meetings:
            bit = bpe_ctz(meetings)
            meetings &= meetings - 1
            found |= <uint64_t>may_cut(joints, six_bytes(window + bit - 3)) << bit
        place = base - start                               # of bit 0; the first three bits are never set
        if place < 0:
            found >>= -place
            place = 0
        safe[place >> 6] |= found << (place & 63)
        if place & 63:
            safe[(place >> 6) + 1] |= found >> (64 - (place & 63))
        base += 59
    place = size + 1                                       # what lies behind the slice is another one's
    safe[place >> 6] &= (<uint64_t>1 << (place & 63)) - 1
    safe[0] &= ~<uint64_t>1
    for place in range((place >> 6) + 1, SLICE_WORDS + 2):
        safe[place] = 0


cdef inline Py_ssize_t cut_pieces(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil:
    """Move found pieces to `cut_start` and `cut_end`, cut where that is safe, while there is room; how many come."""
    cdef Py_ssize_t n = 0, start, end
    while feed.next < feed.n_found and n < room:
        start, end = feed.start[feed.next], feed.end[feed.next]
        if end - start <= 4:
            feed.cut_start[n], feed.cut_end[n] = start, end
            part[n] = False
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

    `feed.within` says how far it came, 0 where it came to the end. Whether a place is safe is no branch: half of such
    branches would be guessed wrong. Parts of up to 8 bytes, not as short as they may be, made fewer but took longer.
    """
    cdef const byte_t* text = feed.cursor.text
    cdef Py_ssize_t at = start + feed.within, pos = at + character(text[at])
    cdef uint64_t two
    cdef bint safe
    while pos < end and pos - start < 3:
        pos += character(text[pos])
    while pos + 3 <= end and n < room:
        two = six_bytes(text + pos - 3)
        safe = (two & LEADS_AND_TAILS == TWO_CHARACTERS) & may_cut(joints, two)
        feed.cut_start[n], feed.cut_end[n] = at, pos
        part[n] = True
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
    part[n] = at > start
    feed.within = 0
    return n + 1
