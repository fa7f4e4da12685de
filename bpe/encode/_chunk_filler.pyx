"""Filling a chunk: pieces from the scanner, cut where that is safe (`_pieces.pyx`), and looked up in the front table.

For a piece that is not there, the lines of the other tables are prefetched here, long before they are read. A chunk may
hold several texts, so that a list of short texts is as fast as one long text. Not here: words that are not in the front
table (`_piece_ids.pyx`).

Measured, English, later passes: 370 MB/s with a look-up after each piece, 475 with the pieces of a chunk together.
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._memory cimport hash_bytes, prefetch
from bpe.base._types cimport byte_t, token_t
from bpe.encode._chunk cimport EARLIER, PIECES, Chunk, Feed, Fragment, Segment, is_cut
from bpe.encode._pieces cimport cut_found
from bpe.encode._split_filter cimport Joints
from bpe.encode._word_cache cimport (
    EMPTY_KEY,
    LONG_WORD,
    SHORT_WORD,
    Cache,
    Line,
    fetch_line,
    find_front,
    hash_word,
    is_keyed,
    short_key,
)
from bpe.pretokenize._scanner cimport begin, scan, scan_bounds
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "bpe/encode/_cache_lookup.h" nogil:
    ctypedef struct Run "bpe_run":
        const byte_t* text
        const uint32_t* start
        const uint32_t* end
        size_t n

    ctypedef struct Found "bpe_found":
        size_t first
        uint64_t* value
        uint16_t* others
        size_t n_others
        uint16_t* missed
        uint64_t* missed_key
        size_t n_missed

    void bpe_look_up(const Run* run, const Line* lines, int shift, Found* found)
    size_t bpe_emit(const uint64_t* value, size_t n, const token_t* listed, token_t** out)
    size_t bpe_count_threes(const byte_t* text, size_t n)
    void use_level_look_up "bpe_use_level_look_up"(int level) noexcept

cdef enum:
    ENOUGH = PIECES - 63      # pieces: for fewer the scanner is asked once more
    NARROW = 0x7FFFFFFF       # bytes that pieces without bounds of their own are looked up together in


follow_vector_level(use_level_look_up)


cdef size_t count_threes(const byte_t* text, size_t n) noexcept nogil:
    """How many of n bytes begin characters of three; more than n if one of them is 0xFF."""
    return bpe_count_threes(text, n)


cdef size_t emit_values(const uint64_t* value, size_t n, const token_t* listed, token_t** out) noexcept nogil:
    """Write the ids of n values up to the first one that is 0 or has more than FEW_IDS; how many values that were.

    `out` moves on behind the ids; room for FEW_IDS by value and 16 more is needed.
    """
    return bpe_emit(value, n, listed, out)


cdef void feed_fragments(Feed* feed, const Fragment* fragments, Py_ssize_t n, int scanner) noexcept nogil:
    """Begin with a list of fragments."""
    feed.fragments = fragments
    feed.n_fragments = n
    feed.done = 0
    feed.shared = feed.open = False
    feed.scanner = scanner
    feed.starts = NULL
    feed.n_found = feed.next = feed.within = 0


cdef void fill(
    Chunk* chunk, Feed* feed, const Joints* joints, const Cache* cache, const Cache* earlier
) noexcept nogil:
    """Fill an empty chunk with the next pieces; it stays empty only at the end."""
    chunk.n = chunk.n_segments = 0
    chunk.n_missed = chunk.n_others = 0
    while chunk.n < ENOUGH and chunk.n_segments < PIECES:
        if feed.next == feed.n_found:
            if not feed.open and not open_fragment(chunk, feed):
                return
            find_pieces(feed, joints, PIECES - chunk.n)
        take_pieces(chunk, feed, joints, cache, earlier)
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


cdef void find_pieces(Feed* feed, const Joints* joints, Py_ssize_t limit) noexcept nogil:
    """Find the next pieces of the open fragment, at most `limit`; it is closed when there are no more."""
    cdef Py_ssize_t i, start, size, n = 0
    cdef size_t threes
    feed.next = 0
    feed.base = feed.cursor.pos
    if feed.starts == NULL:
        n = scan_bounds(&feed.cursor, feed.bounds, limit)
        feed.n_found = n if n else scan(&feed.cursor, feed.start, feed.end, limit)
        feed.open = feed.cursor.pos < feed.cursor.end
    else:
        feed.n_found = min(limit, feed.n_given)
        for i in range(feed.n_found):
            feed.start[i], feed.end[i] = feed.starts[i], feed.ends[i]
        feed.starts += feed.n_found
        feed.ends += feed.n_found
        feed.n_given -= feed.n_found
        feed.open = feed.n_given > 0
    feed.bounded = n > 0
    feed.cutting = feed.odd = False
    if feed.n_found == 0:
        return
    if feed.bounded:
        start, size = feed.base, feed.bounds[n]
    else:
        start, size = feed.start[0], feed.end[feed.n_found - 1] - feed.start[0]
    threes = bpe_count_threes(feed.cursor.text + start, size)
    feed.odd = threes > <size_t>size
    feed.cutting = is_cut(joints, threes, size)
    if feed.cutting:
        feed.gapless = True
        for i in range(n):
            feed.start[i] = feed.base + feed.bounds[i]
            feed.end[i] = feed.base + feed.bounds[i + 1]
        for i in range(n, feed.n_found - 1):
            feed.gapless &= feed.end[i] == feed.start[i + 1]


cdef inline void take_pieces(
    Chunk* chunk, Feed* feed, const Joints* joints, const Cache* cache, const Cache* earlier
) noexcept nogil:
    """Move found pieces into the chunk while there is room."""
    cdef Py_ssize_t n
    if feed.cutting:
        n = cut_found(feed, joints, PIECES - chunk.n, &chunk.part[chunk.n])
        if earlier == cache:
            add_any(chunk, feed, feed.cut_start, feed.cut_end, n, cache)
        else:
            add_parts(chunk, feed, n, cache, earlier)
        return
    n = min(feed.n_found - feed.next, PIECES - chunk.n)
    memset(&chunk.part[chunk.n], 0, n)
    if feed.bounded:
        add_pieces(
            chunk, feed, feed.cursor.text + feed.base, &feed.bounds[feed.next], &feed.bounds[feed.next + 1], n, cache
        )
    else:
        add_any(chunk, feed, &feed.start[feed.next], &feed.end[feed.next], n, cache)
    feed.next += n


cdef void add_any(
    Chunk* chunk, Feed* feed, const Py_ssize_t* start, const Py_ssize_t* end, Py_ssize_t n, const Cache* cache
) noexcept nogil:
    """Add n pieces, for which there is room, and look them up in the front table."""
    cdef uint32_t narrow_start[PIECES]
    cdef uint32_t narrow_end[PIECES]
    cdef const byte_t* text = feed.cursor.text
    cdef Py_ssize_t i
    if n and end[n - 1] - start[0] > NARROW:
        for i in range(n):
            add_piece(chunk, text + start[i], end[i] - start[i], feed.readable, cache)
        return
    for i in range(n):
        narrow_start[i] = <uint32_t>(start[i] - start[0])
        narrow_end[i] = <uint32_t>(end[i] - start[0])
    add_pieces(chunk, feed, text + start[0], narrow_start, narrow_end, n, cache)


cdef void add_parts(Chunk* chunk, Feed* feed, Py_ssize_t n, const Cache* cache, const Cache* earlier) noexcept nogil:
    """The same for n parts of pieces that were cut: those before the last ones have a cache of their own."""
    cdef uint32_t start[2][PIECES]
    cdef uint32_t end[2][PIECES]
    cdef uint64_t value[2][PIECES + 8]
    cdef uint16_t listed[PIECES + 8]                       # what is not there is looked at below
    cdef uint64_t keys[PIECES + 8]
    cdef size_t count[2]
    cdef const byte_t* part = &chunk.part[chunk.n]
    cdef const byte_t* text = feed.cursor.text
    cdef Py_ssize_t first = feed.cut_start[0], i, at, near = n
    cdef bint kind
    cdef Run run
    cdef Found found
    if n and feed.cut_end[n - 1] - first > NARROW:
        near = 0
    while near > 0 and (feed.odd or feed.readable - text - feed.cut_start[near - 1] < 8):
        near -= 1
    count[0] = count[1] = 0
    for i in range(near):
        kind = part[i] == EARLIER
        start[kind][count[kind]] = <uint32_t>(feed.cut_start[i] - first)
        end[kind][count[kind]] = <uint32_t>(feed.cut_end[i] - first)
        count[kind] += 1
    for i in range(2):
        run.text, run.start, run.end, run.n = text + first, &start[i][0], &end[i][0], count[i]
        found.first, found.value = 0, &value[i][0]
        found.others, found.missed, found.missed_key = listed, listed, keys
        found.n_others = found.n_missed = 0
        bpe_look_up(&run, (earlier if i else cache).front, (earlier if i else cache).front_shift, &found)
    count[0] = count[1] = 0
    for i in range(n):
        kind = part[i] == EARLIER
        at = feed.cut_start[i]
        if i < near and value[kind][count[kind]]:
            chunk.value[chunk.n] = value[kind][count[kind]]
            chunk.n += 1
        else:
            add_piece(chunk, text + at, feed.cut_end[i] - at, feed.readable, earlier if kind else cache)
        count[kind] += i < near


cdef inline void add_pieces(
    Chunk* chunk, Feed* feed, const byte_t* text, const uint32_t* start, const uint32_t* end, Py_ssize_t n,
    const Cache* cache,
) noexcept nogil:
    """The same for pieces within 4 GiB: piece i is from `text + start[i]` to `text + end[i]`."""
    cdef Py_ssize_t near = n                               # pieces from here on are near the end of what may be read
    cdef size_t i, k, n_missed = chunk.n_missed, n_others = chunk.n_others
    cdef Run run
    cdef Found found
    while near > 0 and (feed.odd or feed.readable - text - start[near - 1] < 8):
        near -= 1
    if near:
        run.text, run.start, run.end, run.n = text, start, end, near
        found.first, found.value = chunk.n, chunk.value
        found.others, found.n_others = chunk.others, n_others
        found.missed, found.missed_key, found.n_missed = chunk.missed, chunk.missed_key, n_missed
        bpe_look_up(&run, cache.front, cache.front_shift, &found)
        for i in range(n_missed, found.n_missed):
            fetch_line(cache.words, hash_word(chunk.missed_key[i], EMPTY_KEY))
        for i in range(n_others, found.n_others):
            k = chunk.others[i] - chunk.n
            note_keys(chunk, i, text + start[k], end[k] - start[k], feed.readable, cache)
        chunk.n += near
        chunk.n_missed, chunk.n_others = found.n_missed, found.n_others
    for near in range(near, n):
        add_piece(chunk, text + start[near], end[near] - start[near], feed.readable, cache)


cdef void add_piece(
    Chunk* chunk, const byte_t* word, Py_ssize_t size, const byte_t* readable, const Cache* cache
) noexcept nogil:
    """The same for one piece, whatever it is and wherever it stands."""
    cdef Py_ssize_t n = chunk.n
    cdef uint64_t key
    chunk.n += 1
    chunk.value[n] = 0
    if size > SHORT_WORD or word[size - 1] == 0xFF:
        chunk.others[chunk.n_others] = <uint16_t>n
        note_keys(chunk, chunk.n_others, word, size, readable, cache)
        chunk.n_others += 1
        return
    key = short_key(word, size, readable)
    chunk.value[n] = find_front(cache, key)
    if chunk.value[n] == 0:
        chunk.missed[chunk.n_missed] = <uint16_t>n
        chunk.missed_key[chunk.n_missed] = key
        chunk.n_missed += 1
        fetch_line(cache.words, hash_word(key, EMPTY_KEY))


cdef inline void note_keys(
    Chunk* chunk, size_t i, const byte_t* word, Py_ssize_t size, const byte_t* readable, const Cache* cache
) noexcept nogil:
    """Note one of the words that one key does not hold, and its keys."""
    cdef uint64_t lo, hi
    chunk.word[i], chunk.size[i] = word, size
    if size > SHORT_WORD and is_keyed(word, size):
        memcpy(&lo, word, 8)
        hi = short_key(word + 8, size - 8, readable)
        chunk.key[2 * i], chunk.key[2 * i + 1], chunk.hash[i] = lo, hi, hash_word(lo, hi)
        fetch_line(cache.words, chunk.hash[i])
        return
    chunk.key[2 * i] = chunk.key[2 * i + 1] = EMPTY_KEY    # no middle word has them
    chunk.hash[i] = 0
    if size <= LONG_WORD:
        chunk.hash[i] = hash_bytes(word, size)
        prefetch(&cache.words.longs[chunk.hash[i] & cache.words.longs_mask])
