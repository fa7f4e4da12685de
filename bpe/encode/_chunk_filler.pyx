"""Filling a chunk: pieces from the scanner, split where safe (`_piece_splitter.pyx`), looked up in the front table.

For a piece that is not in the front table, its line of the shared table is prefetched here, long before it is read. A
chunk may contain several texts, so that a list of short texts is as fast as one long text.

Measured, English, warm: 370 MB/s with one look-up after each piece, 475 with all pieces of a chunk together.
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._memory cimport hash_bytes, prefetch
from bpe.base._types cimport byte_t, token_t
from bpe.encode._chunk cimport INNER, MAX_PIECES, Chunk, Feed, Fragment, FragmentEnd, pays_to_split
from bpe.encode._piece_splitter cimport split_pieces
from bpe.encode._split_filter cimport SplitTables
from bpe.encode._word_cache cimport (
    EMPTY_KEY, MAX_LONG_WORD, MAX_SHORT_WORD, Cache, Line, find_front, hash_word, is_keyed, load_short_key,
    prefetch_line,
)
from bpe.pretokenize._piece_scanner cimport find_piece_end, scan_pieces, find_pretoken_end
from bpe.pretokenize._scanner cimport MIN_ROOM, open_cursor, scan, scan_bounds
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from *:
    Py_ssize_t PY_SSIZE_T_MAX

cdef extern from "bpe/base/_vectors.h":
    Py_ssize_t READ_AHEAD "BPE_READ_AHEAD"

cdef extern from "bpe/encode/_cache_lookup.h" nogil:
    ctypedef struct PieceRun "bpe_run":
        const byte_t* text
        const uint32_t* start
        const uint32_t* end
        size_t n

    ctypedef struct LookupResult "bpe_lookup_result":
        size_t first
        uint64_t* values
        uint16_t* longer
        size_t n_longer
        uint16_t* missed
        uint64_t* missed_keys
        size_t n_missed

    void bpe_look_up(const PieceRun* run, const Line* lines, int shift, LookupResult* found)
    size_t bpe_emit(const uint64_t* value, size_t n, const token_t* spilled, token_t** out)
    size_t bpe_count_three_byte_chars(const byte_t* text, size_t n)
    void use_level_look_up "bpe_use_level_look_up"(int level) noexcept

cdef enum:
    MIN_FREE_PIECES = MAX_PIECES - 63  # pieces: with fewer the scanner runs once more
    MAX_NARROW_SPAN = 0x7FFFFFFF  # bytes that pieces may span to be looked up together, with offsets of 32 bits


follow_vector_level(use_level_look_up)


cdef size_t count_three_byte_chars(const byte_t* text, size_t n) noexcept nogil:
    """Count those of n bytes that start a character of three; more than n if one of them is 0xFF."""
    return bpe_count_three_byte_chars(text, n)


cdef size_t emit_values(const uint64_t* value, size_t n, const token_t* spilled, token_t** out) noexcept nogil:
    """Write the ids of n values up to the first one that is 0 or has more than MAX_EMITTED_IDS ids.

    Returns the number of values written. `out` is advanced past the ids; the output needs room for MAX_EMITTED_IDS ids
    per value and 16 more.
    """
    return bpe_emit(value, n, spilled, out)


cdef void begin_feed(Feed* feed, const Fragment* fragments, Py_ssize_t n, int scanner) noexcept nogil:
    """Point the feed at n fragments, of which no piece is found yet."""
    feed.fragments = fragments
    feed.n_fragments = n
    feed.n_done = 0
    feed.in_one_buffer = feed.is_ascii = feed.is_open = feed.are_pretokens = False
    feed.scanner = scanner
    feed.given_starts = NULL
    feed.n_found = feed.next = feed.n_bytes_taken = 0
    feed.n_pieces = feed.n_ids = 0


cdef void want_ids(Feed* feed, Py_ssize_t n) noexcept nogil:
    """Set how many pieces of the open fragment, of which n ids are wanted, are taken before its ids are counted.

    A piece has at least one id, and about as many as the pieces before it had. Taking some more pieces costs less than
    another chunk.
    """
    feed.n_wanted = n
    if feed.n_ids:
        feed.n_wanted = min(n, <Py_ssize_t>min(<double>n, 1.06 * n * feed.n_pieces / feed.n_ids) + 8)


cdef void close_fragment(Feed* feed) noexcept nogil:
    """Leave out the rest of the open fragment."""
    feed.is_open = False
    feed.next, feed.n_bytes_taken = feed.n_found, 0
    feed.n_done += 1


cdef void fill_chunk(
    Chunk* chunk, Feed* feed, const SplitTables* splits, const Cache* cache, const Cache* inner_cache
) noexcept nogil:
    """Fill an empty chunk with the next pieces; it stays empty only at the end.

    The chunk ends where the ids of a text have to be counted.
    """
    cdef Py_ssize_t n
    chunk.n = chunk.n_fragment_ends = chunk.n_pretokens = chunk.next_pretoken = 0
    chunk.n_missed = chunk.n_longer = 0
    while chunk.n < MIN_FREE_PIECES and chunk.n_fragment_ends < MAX_PIECES:
        if feed.next == feed.n_found:
            if not feed.is_open and not open_fragment(chunk, feed):
                return
            find_pieces(chunk, feed, splits, min(MAX_PIECES - chunk.n, feed.n_wanted + MIN_ROOM))
        n = chunk.n
        move_pieces(chunk, feed, splits, cache, inner_cache)
        feed.n_wanted -= chunk.n - n
        if feed.next == feed.n_found and not feed.is_open:
            chunk.fragment_ends[chunk.n_fragment_ends] = FragmentEnd(piece=chunk.n, fragment=feed.n_done)
            chunk.n_fragment_ends += 1
            feed.n_done += 1
        elif feed.n_wanted <= 0:
            return


cdef bint open_fragment(Chunk* chunk, Feed* feed) noexcept nogil:
    """Open the next text; ids before it become fragments without pieces. False if there is none, or no room."""
    cdef const Fragment* fragment
    while feed.n_done < feed.n_fragments and chunk.n_fragment_ends < MAX_PIECES:
        fragment = &feed.fragments[feed.n_done]
        if fragment.size >= 0:
            open_cursor(&feed.cursor, feed.scanner, fragment.text, 0, fragment.size)
            if not feed.in_one_buffer:
                feed.readable = fragment.text + fragment.size
            feed.cursor.can_read_on = feed.readable - fragment.text - fragment.size >= 64
            feed.is_open = True
            feed.n_wanted = PY_SSIZE_T_MAX - MIN_ROOM
            if feed.max_ids:
                want_ids(feed, feed.max_ids)
            feed.pretoken.end = feed.pretoken.digits_start = 0
            if feed.n_done + 1 < feed.n_fragments and not feed.in_one_buffer:
                prefetch_text(fragment + 1)
            return True
        chunk.fragment_ends[chunk.n_fragment_ends] = FragmentEnd(piece=chunk.n, fragment=feed.n_done)
        chunk.n_fragment_ends += 1
        feed.n_done += 1
    return False


cdef inline void prefetch_text(const Fragment* fragment) noexcept nogil:
    """Prefetch the beginning of a text; the rest is prefetched as it is scanned."""
    cdef Py_ssize_t position
    for position in range(0, min(fragment.size, READ_AHEAD), 64):
        prefetch(fragment.text + position)


cdef void find_pieces(Chunk* chunk, Feed* feed, const SplitTables* splits, Py_ssize_t limit) noexcept nogil:
    """Find the next pieces of the open fragment, at most `limit`; it is closed at its end."""
    cdef Py_ssize_t i, start, size, n = 0
    cdef size_t three_byte_chars
    feed.next = 0
    feed.base = feed.cursor.pos
    if feed.cuts != NULL:
        n = find_pieces_of_pretoken(chunk, feed, limit)
    elif feed.given_starts == NULL:
        n = scan_bounds(&feed.cursor, feed.bounds, limit)
        feed.n_found = n if n else scan(&feed.cursor, feed.start, feed.end, limit)
        feed.is_open = feed.cursor.pos < feed.cursor.end
    else:
        feed.n_found = min(limit, feed.n_given)
        for i in range(feed.n_found):
            feed.start[i], feed.end[i] = feed.given_starts[i], feed.given_ends[i]
        feed.given_starts += feed.n_found
        feed.given_ends += feed.n_found
        feed.n_given -= feed.n_found
        feed.is_open = feed.n_given > 0
    feed.has_bounds = n > 0
    feed.is_splitting = feed.contains_0xFF = False
    if feed.n_found == 0:
        return
    if feed.has_bounds:
        start, size = feed.base, feed.bounds[n]
    else:
        start, size = feed.start[0], feed.end[feed.n_found - 1] - feed.start[0]
    three_byte_chars = 0 if feed.is_ascii else bpe_count_three_byte_chars(feed.cursor.text + start, size)
    feed.contains_0xFF = three_byte_chars > <size_t>size
    feed.is_splitting = pays_to_split(three_byte_chars, size)
    feed.wants_splits |= feed.is_splitting
    feed.is_splitting &= splits.bits != NULL
    if feed.is_splitting:
        feed.is_gapless = True
        for i in range(n):
            feed.start[i] = feed.base + feed.bounds[i]
            feed.end[i] = feed.base + feed.bounds[i + 1]
        for i in range(n, feed.n_found - 1):
            feed.is_gapless &= feed.end[i] == feed.start[i + 1]


cdef Py_ssize_t find_pieces_of_pretoken(Chunk* chunk, Feed* feed, Py_ssize_t limit) noexcept nogil:
    """Find pieces of the next pretoken, or of the rest of the open one.

    Returns the number of bounds; 0 if the one piece found is too long for bounds.
    """
    cdef Py_ssize_t end = feed.fragments[feed.n_done].size, n
    if feed.cursor.pos >= feed.pretoken.end and feed.cursor.pos < end:
        chunk.pretokens[chunk.n_pretokens] = chunk.n
        chunk.n_pretokens += 1
        feed.pretoken.end = end if feed.are_pretokens else find_pretoken_end(
            feed.pretoken_rules, &feed.pretoken, feed.cursor.text, feed.cursor.pos, end
        )
    feed.cursor.end = feed.pretoken.end
    n = feed.n_found = scan_pieces(&feed.cursor, feed.cuts, feed.bounds, limit) if feed.cursor.pos < end else 0
    if n == 0 and feed.cursor.pos < end:
        feed.start[0], feed.end[0], feed.n_found = feed.base, find_piece_end(&feed.cursor, feed.cuts), 1
        feed.cursor.pos = feed.end[0]
    feed.is_open = feed.cursor.pos < end
    return n


cdef inline void move_pieces(
    Chunk* chunk, Feed* feed, const SplitTables* splits, const Cache* cache, const Cache* inner_cache
) noexcept nogil:
    """Move found pieces to the chunk, while there is room and they are wanted."""
    cdef Py_ssize_t n, capacity = min(MAX_PIECES - chunk.n, feed.n_wanted)
    if feed.is_splitting:
        n = split_pieces(feed, splits, capacity, &chunk.roles[chunk.n])
        if inner_cache == cache:
            add_pieces_at(chunk, feed, feed.part_start, feed.part_end, n, cache)
        else:
            add_parts(chunk, feed, n, cache, inner_cache)
        return
    n = min(feed.n_found - feed.next, capacity)
    memset(&chunk.roles[chunk.n], 0, n)
    if feed.has_bounds:
        add_pieces(
            chunk, feed, feed.cursor.text + feed.base, &feed.bounds[feed.next], &feed.bounds[feed.next + 1], n, cache
        )
    else:
        add_pieces_at(chunk, feed, &feed.start[feed.next], &feed.end[feed.next], n, cache)
    feed.next += n


cdef void add_pieces_at(
    Chunk* chunk, Feed* feed, const Py_ssize_t* start, const Py_ssize_t* end, Py_ssize_t n, const Cache* cache
) noexcept nogil:
    """Add n pieces, for which there is room, and look them up in the front table."""
    cdef uint32_t narrow_start[MAX_PIECES]
    cdef uint32_t narrow_end[MAX_PIECES]
    cdef const byte_t* text = feed.cursor.text
    cdef Py_ssize_t i
    if n and end[n - 1] - start[0] > MAX_NARROW_SPAN:
        for i in range(n):
            add_piece(chunk, text + start[i], end[i] - start[i], feed.readable, cache)
        return
    for i in range(n):
        narrow_start[i] = <uint32_t>(start[i] - start[0])
        narrow_end[i] = <uint32_t>(end[i] - start[0])
    add_pieces(chunk, feed, text + start[0], narrow_start, narrow_end, n, cache)


cdef void add_parts(
    Chunk* chunk, Feed* feed, Py_ssize_t n, const Cache* cache, const Cache* inner_cache
) noexcept nogil:
    """Add n parts of split pieces, where those before the last have a cache of their own."""
    cdef const byte_t* role = &chunk.roles[chunk.n]
    cdef Py_ssize_t i, start
    for i in range(n):
        start = feed.part_start[i]
        add_piece(
            chunk, feed.cursor.text + start, feed.part_end[i] - start, feed.readable,
            inner_cache if role[i] == INNER else cache,
        )


cdef inline void add_pieces(
    Chunk* chunk, Feed* feed, const byte_t* text, const uint32_t* start, const uint32_t* end, Py_ssize_t n,
    const Cache* cache,
) noexcept nogil:
    """Add n pieces within 4 GiB: piece i is from `text + start[i]` to `text + end[i]`."""
    cdef Py_ssize_t n_near = n                             # from here on, 8 bytes from a start are not all readable
    cdef size_t i, k, n_missed = chunk.n_missed, n_longer = chunk.n_longer
    cdef PieceRun run
    cdef LookupResult result
    while n_near > 0 and (feed.contains_0xFF or feed.readable - text - start[n_near - 1] < 8):
        n_near -= 1
    if n_near:
        run.text, run.start, run.end, run.n = text, start, end, n_near
        result.first, result.values = chunk.n, chunk.values
        result.longer, result.n_longer = chunk.longer, n_longer
        result.missed, result.missed_keys, result.n_missed = chunk.missed, chunk.missed_keys, n_missed
        bpe_look_up(&run, cache.front, cache.front_shift, &result)
        for i in range(n_missed, result.n_missed):
            prefetch_line(cache.table, hash_word(chunk.missed_keys[i], EMPTY_KEY))
        for i in range(n_longer, result.n_longer):
            k = chunk.longer[i] - chunk.n
            set_keys(chunk, i, text + start[k], end[k] - start[k], feed.readable, cache)
        chunk.n += n_near
        chunk.n_missed, chunk.n_longer = result.n_missed, result.n_longer
    for n_near in range(n_near, n):
        add_piece(chunk, text + start[n_near], end[n_near] - start[n_near], feed.readable, cache)


cdef void add_piece(
    Chunk* chunk, const byte_t* word, Py_ssize_t size, const byte_t* readable, const Cache* cache
) noexcept nogil:
    """Add one piece of any length, at any address."""
    cdef Py_ssize_t n = chunk.n
    cdef uint64_t key
    chunk.n += 1
    chunk.values[n] = 0
    if size > MAX_SHORT_WORD or word[size - 1] == 0xFF:
        chunk.longer[chunk.n_longer] = <uint16_t>n
        set_keys(chunk, chunk.n_longer, word, size, readable, cache)
        chunk.n_longer += 1
        return
    key = load_short_key(word, size, readable)
    chunk.values[n] = find_front(cache, key)
    if chunk.values[n] == 0:
        chunk.missed[chunk.n_missed] = <uint16_t>n
        chunk.missed_keys[chunk.n_missed] = key
        chunk.n_missed += 1
        prefetch_line(cache.table, hash_word(key, EMPTY_KEY))


cdef inline void set_keys(
    Chunk* chunk, size_t i, const byte_t* word, Py_ssize_t size, const byte_t* readable, const Cache* cache
) noexcept nogil:
    """Set the address and the keys of a word without a key of 64 bits."""
    cdef uint64_t lo, hi
    chunk.words[i], chunk.sizes[i] = word, size
    if size > MAX_SHORT_WORD and is_keyed(word, size):
        memcpy(&lo, word, 8)
        hi = load_short_key(word + 8, size - 8, readable)
        chunk.keys[2 * i], chunk.keys[2 * i + 1], chunk.hashes[i] = lo, hi, hash_word(lo, hi)
        prefetch_line(cache.table, chunk.hashes[i])
        return
    chunk.keys[2 * i] = chunk.keys[2 * i + 1] = EMPTY_KEY    # no word of 9 to 16 bytes has them
    chunk.hashes[i] = 0
    if size <= MAX_LONG_WORD:
        chunk.hashes[i] = hash_bytes(word, size)
        prefetch(&cache.table.long_words[chunk.hashes[i] & cache.table.long_words_mask])
