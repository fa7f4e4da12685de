"""The values of pieces: those of a chunk are looked up in the word cache, and new ones are merged and entered there.

A value stands for the ids of a piece (`_word_cache.pxd`). If the tokenizer has an end-of-word mark, the same bytes give
different ids at the end of a word and before it. So the parts of a split word, except the last, are merged without the
mark and have a cache of their own.
"""

from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.encode._chunk cimport INNER, WHOLE, Chunk
from bpe.encode._word_cache cimport (
    EMPTY_KEY, MAX_LONG_WORD, MAX_MIDDLE_WORD, MAX_SHORT_WORD, Cache, CachedWords, enter_long, enter_word,
    fetch_shared_short, find_middle_words, find_shared, find_short_words, has_capacity, hash_word, is_keyed, make_value,
    measure_key, prefetch_long_bytes, prefetch_spilled, put_front,
)
from bpe.encode._workspace cimport Workspace
from bpe.merge._merger cimport Merger
from bpe.merge._merging cimport MAX_ROW_SYMBOLS, MAX_ROWS, Row, copy_row_tokens
from libc.stdint cimport uint64_t
from libc.string cimport memset


cdef class PieceEncoder:

    def __cinit__(self, Merger merger not None, bint marks_word_ends):
        self.merger, self.marks_word_ends = merger, marks_word_ends

    cdef int look_up(self, Workspace workspace) except -1 nogil:
        """Find the values of the pieces of the chunk that the front table does not have; merge new ones."""
        cdef Chunk* chunk = workspace.chunk
        cdef Cache* cache = &workspace.cache
        cdef Cache* inner_cache = select_cache(self, workspace, INNER)
        cdef NewWords new
        cdef size_t i
        cdef Py_ssize_t piece
        cdef uint64_t key, value
        new.n = 0
        memset(chunk.shared_values, 0, chunk.n_missed * sizeof(uint64_t))
        if inner_cache == cache:                           # else some pieces are in the other table
            find_short_words(cache.table, chunk.missed_keys, chunk.n_missed, chunk.shared_values)
        for i in range(chunk.n_missed):
            key, piece, value = chunk.missed_keys[i], chunk.missed[i], chunk.shared_values[i]
            if value:
                put_front(cache, key, value)
            else:
                value = fetch_shared_short(inner_cache if chunk.roles[piece] == INNER else cache, key)
            chunk.values[piece] = value
            if value == 0:
                add_new_word(
                    self, workspace, &new, piece, <const byte_t*>&chunk.missed_keys[i], measure_key(key), key, EMPTY_KEY
                )
            prefetch_spilled(cache, chunk.values[piece])
        memset(chunk.shared_values, 0, chunk.n_longer * sizeof(uint64_t))
        if inner_cache == cache:
            find_middle_words(cache.table, chunk.keys, chunk.hashes, chunk.n_longer, chunk.shared_values)
        for i in range(chunk.n_longer):
            if chunk.sizes[i] > MAX_MIDDLE_WORD:
                prefetch_long_bytes(cache, chunk.hashes[i])
        for i in range(chunk.n_longer):
            piece = chunk.longer[i]
            chunk.values[piece] = chunk.shared_values[i]
            if chunk.shared_values[i] == 0:
                find_longer_word(self, workspace, i, &new)
            prefetch_spilled(cache, chunk.values[piece])
        if new.n:
            merge_new_words(self, workspace, &new)
        return 0

    cdef int merge_and_cache(
        self, Workspace workspace, const byte_t* word, Py_ssize_t size, int role, uint64_t lo, uint64_t hi,
        uint64_t* value,
    ) except -1 nogil:
        """Merge a piece that is in no table, and enter its value if there is room; else leave 0.

        A piece without a value is merged again when its ids are written (`emit_uncached`). So is a
        part of a split piece whose bytes are also a whole word with another id: the key in the cache would be equal.
        `lo` and `hi` are the keys; for a long word, `lo` is the hash.
        """
        cdef Cache* cache = select_cache(self, workspace, role)
        cdef size_t n_before = workspace.out.n
        cdef token_t token = NO_TOKEN
        if workspace.unknown:
            return 0
        if self.unmerged_words is not None:
            token = self.unmerged_words.find(word, size)
        if token != NO_TOKEN:
            value[0] = token + <uint64_t>1 if role == WHOLE else 0
            if not self.keeps_pretokens_whole:             # a part of a pretoken may have the same key
                return 0
        if not has_capacity(cache.table):
            return 0
        if token == NO_TOKEN:
            merge_piece(self, workspace, word, size, role)
            if not workspace.unknown:
                value[0] = make_value(cache.table, workspace.out.data + n_before, workspace.out.n - n_before)
            workspace.out.n = n_before
            workspace.unknown = False                     # set again when its ids are written
        enter_value(cache, word, size, lo, hi, value[0])
        return 0


cdef int find_longer_word(PieceEncoder piece_encoder, Workspace workspace, size_t i, NewWords* new) except -1 nogil:
    """Find the value of a word without a key of 64 bits, or add it to the new ones.

    A very long one is merged when its ids are written.
    """
    cdef Chunk* chunk = workspace.chunk
    cdef const byte_t* word = chunk.words[i]
    cdef Py_ssize_t piece = chunk.longer[i], size = chunk.sizes[i]
    cdef uint64_t lo = chunk.hashes[i], hi = 0
    cdef Cache* cache
    if size > MAX_LONG_WORD:
        return 0
    if is_keyed(word, size):
        lo, hi = chunk.keys[2 * i], chunk.keys[2 * i + 1]
    cache = select_cache(piece_encoder, workspace, chunk.roles[piece])
    chunk.values[piece] = find_shared(cache.table, word, size, lo, hi)
    return 0 if chunk.values[piece] else add_new_word(piece_encoder, workspace, new, piece, word, size, lo, hi)


cdef int add_new_word(
    PieceEncoder piece_encoder, Workspace workspace, NewWords* new, Py_ssize_t piece, const byte_t* word,
    Py_ssize_t size, uint64_t lo, uint64_t hi,
) except -1 nogil:
    """Add a piece that is in no table to those that are merged together; any other kind is merged at once."""
    cdef Chunk* chunk = workspace.chunk
    cdef bint depends_on_role = piece_encoder.marks_word_ends or piece_encoder.unmerged_words is not None
    if depends_on_role or not piece_encoder.merger.fits_row(word, size):
        return piece_encoder.merge_and_cache(workspace, word, size, chunk.roles[piece], lo, hi, &chunk.values[piece])
    if not has_capacity(workspace.cache.table):
        return 0
    new.words[new.n], new.sizes[new.n], new.piece_numbers[new.n] = word, size, piece
    new.keys[new.n][0], new.keys[new.n][1] = lo, hi
    new.n += 1
    if new.n == MAX_ROWS:
        merge_new_words(piece_encoder, workspace, new)
    return 0


cdef void merge_new_words(PieceEncoder piece_encoder, Workspace workspace, NewWords* new) noexcept nogil:
    """Merge the words of the list together and enter them; the list is empty then."""
    cdef const CachedWords* words = workspace.cache.table
    cdef Row rows[MAX_ROWS]
    cdef token_t ids[MAX_ROW_SYMBOLS]
    cdef uint64_t lo, hi, value
    cdef size_t i
    piece_encoder.merger.merge_together(new.words, new.sizes, new.n, rows)
    for i in range(new.n):
        lo, hi = new.keys[i][0], new.keys[i][1]
        value = find_shared(words, new.words[i], new.sizes[i], lo, hi)
        if value == 0:                                 # else the same word stood earlier in this list
            value = make_value(workspace.cache.table, ids, copy_row_tokens(&rows[i], ids))
            enter_value(&workspace.cache, new.words[i], new.sizes[i], lo, hi, value)
        workspace.chunk.values[new.piece_numbers[i]] = value
    new.n = 0


cdef void enter_value(
    Cache* cache, const byte_t* word, Py_ssize_t size, uint64_t lo, uint64_t hi, uint64_t value
) noexcept nogil:
    """Enter a word with its value, unless this is 0."""
    if value == 0:
        return
    if not is_keyed(word, size):
        enter_long(cache.table, word, size, lo, value)
        return
    enter_word(cache.table, lo, hi, hash_word(lo, hi), value, False)
    if size <= MAX_SHORT_WORD:
        put_front(cache, lo, value)
