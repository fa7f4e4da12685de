"""The values of pieces: from a cache, or by merging."""

from bpe.base._types cimport byte_t
from bpe.encode._chunk cimport INNER
from bpe.encode._unmerged_words cimport UnmergedWords
from bpe.encode._word_cache cimport Cache
from bpe.encode._workspace cimport Workspace
from bpe.merge._merger cimport Merger
from bpe.merge._merging cimport MAX_ROWS
from libc.stdint cimport uint64_t

cdef struct NewWords:         # pieces of a chunk that no table has, which are merged together
    size_t n
    const byte_t* words[MAX_ROWS]
    Py_ssize_t sizes[MAX_ROWS]  # in bytes
    Py_ssize_t piece_numbers[MAX_ROWS]  # in the chunk
    uint64_t keys[MAX_ROWS][2]  # as for `merge_and_cache`

cdef class PieceEncoder:
    """Computes the ids of pieces. Immutable once the unmerged words are set."""

    cdef Merger merger
    cdef UnmergedWords unmerged_words  # or None
    cdef bint marks_word_ends  # ends of words are marked, by a symbol or by a suffix
    cdef bint keeps_pretokens_whole  # no pretoken is split, so that the cache may have whole words

    cdef int look_up(self, Workspace workspace) except -1 nogil
    cdef int merge_and_cache(
        self, Workspace workspace, const byte_t* word, Py_ssize_t size, int role, uint64_t lo, uint64_t hi,
        uint64_t* value,
    ) except -1 nogil  # no `except? 0`, which takes the GIL at each 0


cdef void enter_value(
    Cache* cache, const byte_t* word, Py_ssize_t size, uint64_t lo, uint64_t hi, uint64_t value
) noexcept nogil


cdef inline int merge_piece(
    PieceEncoder piece_encoder, Workspace workspace, const byte_t* piece, Py_ssize_t size, int role
) except -1 nogil:
    """Append the merged ids of a piece, which is not empty."""
    return piece_encoder.merger.merge(
        piece, size, role == INNER, &workspace.scratch, &workspace.out, &workspace.unknown
    )


cdef inline Cache* select_cache(PieceEncoder piece_encoder, Workspace workspace, int role) noexcept nogil:
    """Select the cache of a piece; if ends of words are marked, inner parts have one of their own."""
    return &workspace.inner_cache if piece_encoder.marks_word_ends and role == INNER else &workspace.cache
