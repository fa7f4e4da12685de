"""Filling a chunk: pieces from the scanner, cut where that is safe (`pieces.pyx`), and looked up in the front table.

What a piece needs of the other tables is prefetched here, long before it is looked up. A chunk reaches over the ends of
texts, so that a list of short texts goes as fast as one long one. Not here: what is done with words that are not in the
front table (`encoder.pyx`).
"""

from bpe._core.memory cimport hash_bytes, prefetch
from bpe._core.pieces cimport cut_found
from bpe._core.scan cimport begin, scan
from bpe._core.splits cimport Joints
from bpe._core.types cimport byte_t
from bpe._core.wordcache cimport (
    LONG_WORD,
    MIDDLE_WORD,
    SHORT_WORD,
    Cache,
    Line,
    find_front,
    middle_line,
    short_key,
    short_line,
)
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "lookup.h" nogil:
    uint64_t bpe_look_up(
        const byte_t* text, const Py_ssize_t* start, const Py_ssize_t* end, size_t n, size_t first, const Line* lines,
        int shift, const byte_t** word, Py_ssize_t* size, uint64_t* value, uint16_t* others, uint16_t* missed,
        uint64_t* missed_key,
    )
    size_t bpe_count_high(const byte_t* text, size_t n)
    int bpe_choose_look_up(int most)

cdef enum:
    FEW_HIGH = 8              # text with fewer than one byte in so many beyond ASCII is not cut


def choose_vectors(int most):
    """Choose vector instructions, at most one of `scan.LEVELS`; the level that this machine then uses."""
    return bpe_choose_look_up(most)


cdef void fill(Chunk* chunk, Feed* feed, const Joints* joints, const Cache* cache) noexcept nogil:
    """Fill an empty chunk with the next pieces; it stays empty only at the end."""
    chunk.n = chunk.n_segments = 0
    chunk.n_missed = chunk.n_other = 0
    while chunk.n < PIECES and chunk.n_segments < PIECES:
        if feed.next == feed.n_found:
            if not feed.open and not open_fragment(chunk, feed):
                return
            find_pieces(feed, joints)
        take_pieces(chunk, feed, joints, cache)
        if feed.next == feed.n_found and not feed.open:
            chunk.segments[chunk.n_segments] = Segment(piece=chunk.n, fragment=feed.done)
            chunk.n_segments += 1
            feed.done += 1


cdef bint open_fragment(Chunk* chunk, Feed* feed) noexcept nogil:
    """Go on with the next text; ids before it become segments of no pieces. False if there is none, or no room."""
    cdef const Fragment* fragment
    while feed.done < feed.n_fragments and chunk.n_segments < PIECES:
        fragment = &feed.fragments[feed.done]
        if fragment.size >= 0:
            begin(&feed.cursor, feed.scanner, fragment.text, 0, fragment.size)
            if not feed.shared:
                feed.readable = fragment.text + fragment.size
            feed.open = True
            return True
        chunk.segments[chunk.n_segments] = Segment(piece=chunk.n, fragment=feed.done)
        chunk.n_segments += 1
        feed.done += 1
    return False


cdef void find_pieces(Feed* feed, const Joints* joints) noexcept nogil:
    """Find the next pieces of the open fragment, which is closed when there are no more."""
    cdef Py_ssize_t i, size
    cdef size_t high
    feed.next = 0
    if feed.starts == NULL:
        feed.n_found = scan(&feed.cursor, feed.start, feed.end, PIECES)
        feed.open = feed.cursor.pos < feed.cursor.end
    else:
        feed.n_found = min(<Py_ssize_t>PIECES, feed.n_given)
        for i in range(feed.n_found):
            feed.start[i], feed.end[i] = feed.starts[i], feed.ends[i]
        feed.starts += feed.n_found
        feed.ends += feed.n_found
        feed.n_given -= feed.n_found
        feed.open = feed.n_given > 0
    feed.cutting = False
    if feed.n_found:
        size = feed.end[feed.n_found - 1] - feed.start[0]
        high = bpe_count_high(feed.cursor.text + feed.start[0], size)
        feed.odd = high > <size_t>size
        feed.cutting = joints.bits != NULL and high * FEW_HIGH >= <size_t>size
        if feed.cutting:
            feed.gapless = True
            for i in range(feed.n_found - 1):
                feed.gapless &= feed.end[i] == feed.start[i + 1]


cdef inline void take_pieces(Chunk* chunk, Feed* feed, const Joints* joints, const Cache* cache) noexcept nogil:
    """Move found pieces into the chunk while there is room."""
    cdef Py_ssize_t n
    if not feed.cutting:
        n = min(feed.n_found - feed.next, PIECES - chunk.n)
        memset(&chunk.part[chunk.n], 0, n)
        add_pieces(chunk, feed, &feed.start[feed.next], &feed.end[feed.next], n, cache)
        feed.next += n
        return
    n = cut_found(feed, joints, PIECES - chunk.n, &chunk.part[chunk.n])
    add_pieces(chunk, feed, feed.cut_start, feed.cut_end, n, cache)


cdef inline void add_pieces(
    Chunk* chunk, Feed* feed, const Py_ssize_t* start, const Py_ssize_t* end, Py_ssize_t n, const Cache* cache
) noexcept nogil:
    """Add n pieces, for which there is room, and look them up in the front table."""
    cdef const byte_t* text = feed.cursor.text
    cdef size_t n_missed = chunk.n_missed, n_other = chunk.n_other, i
    cdef Py_ssize_t near = n                               # pieces from here on are near the end of what may be read
    cdef uint64_t counts
    while near > 0 and (feed.odd or feed.readable - text - start[near - 1] < 8):
        near -= 1
    counts = bpe_look_up(
        text, start, end, near, chunk.n, cache.front, cache.front_shift, chunk.word, chunk.size, chunk.value,
        &chunk.other[n_other], &chunk.missed[n_missed], &chunk.missed_key[n_missed],
    )
    chunk.n += near
    chunk.n_other += <uint32_t>counts
    chunk.n_missed += <size_t>(counts >> 32)
    for near in range(near, n):
        add_piece(chunk, text + start[near], end[near] - start[near], feed.readable, cache)
    for i in range(n_missed, chunk.n_missed):
        prefetch(&cache.lines[short_line(cache, chunk.missed_key[i])])
    for i in range(n_other, chunk.n_other):
        note_keys(chunk, i, feed.readable, cache)


cdef inline void add_piece(
    Chunk* chunk, const byte_t* word, Py_ssize_t size, const byte_t* readable, const Cache* cache
) noexcept nogil:
    """The same for one piece, whatever it is and wherever it stands."""
    cdef Py_ssize_t n = chunk.n
    cdef uint64_t key
    chunk.word[n] = word
    chunk.size[n] = size
    chunk.value[n] = 0
    chunk.n += 1
    if size > SHORT_WORD or word[size - 1] == 0xFF:
        chunk.other[chunk.n_other] = <uint16_t>n
        chunk.n_other += 1
        return
    key = short_key(word, size, readable)
    chunk.value[n] = find_front(cache, key)
    if chunk.value[n] == 0:
        chunk.missed[chunk.n_missed] = <uint16_t>n
        chunk.missed_key[chunk.n_missed] = key
        chunk.n_missed += 1


cdef inline void note_keys(Chunk* chunk, size_t i, const byte_t* readable, const Cache* cache) noexcept nogil:
    """Note the keys of one of the words that one key does not hold."""
    cdef const byte_t* word = chunk.word[chunk.other[i]]
    cdef Py_ssize_t size = chunk.size[chunk.other[i]]
    if SHORT_WORD < size <= MIDDLE_WORD and word[size - 1] != 0xFF:
        memcpy(&chunk.lo[i], word, 8)
        chunk.hi[i] = short_key(word + 8, size - 8, readable)
        prefetch(&cache.middles[middle_line(cache, chunk.lo[i], chunk.hi[i])])
    elif size <= LONG_WORD:
        chunk.lo[i] = hash_bytes(word, size)
        prefetch(&cache.longs[chunk.lo[i] & cache.longs_mask])
