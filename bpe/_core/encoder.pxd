"""The engine's classes."""

from bpe._core.chunk cimport Chunk, Feed, Fragment
from bpe._core.fresh cimport Fresh
from bpe._core.learned cimport Words
from bpe._core.merger cimport Merger
from bpe._core.merging cimport Ids, Scratch
from bpe._core.seeds cimport Seeds
from bpe._core.splits cimport SplitFilter
from bpe._core.types cimport byte_t, token_t
from bpe._core.wholewords cimport WholeWords
from bpe._core.wordcache cimport Cache
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum:
    LONE_ROOM = 1 << 16       # code points, of which those of three bytes are some
    SHORT_TEXT = 4096         # bytes: for less it does not pay to let the GIL go


cdef struct Lone:             # a character of three bytes that no token reaches out of
    token_t ids[3]
    uint32_t n                # 0 where it has not come yet


cdef class Workspace:
    """What one call needs for itself: the word cache, a chunk, the output, room to merge in."""

    cdef Cache cache
    cdef Cache earlier        # of parts of words that are not the end of one, where that is marked
    cdef Lone* lone           # by code point
    cdef Scratch scratch
    cdef Chunk* chunk
    cdef Feed* feed
    cdef Ids out
    cdef Fresh fresh          # of the output's memory, while that is `fresh_data`
    cdef token_t* fresh_data
    cdef Words* words         # where those that are worked out are noted for other threads, or NULL
    cdef Workspace next       # of the idle ones
    cdef bint unknown         # a symbol without an id was met
    cdef Py_ssize_t unknown_at   # the first fragment that has one, or -1

    cdef int reset(self) noexcept nogil


cdef class Encoder:
    """The tables of one tokenizer, and encoding with them; immutable but for idle workspaces."""

    cdef Merger merger
    cdef SplitFilter splits
    cdef Seeds seeds
    cdef WholeWords whole     # None where there are none
    cdef bint marked          # the end of a word is marked, in one way or the other
    cdef int scanner
    cdef size_t memory
    cdef Workspace idle       # the one that was given back last

    cdef int merge_piece(self, Workspace space, const byte_t* piece, Py_ssize_t size, int part) except -1 nogil
    cdef Cache* cache_of(self, Workspace space, int part) noexcept nogil
    cdef int look_up(self, Workspace space) except -1 nogil
    cdef uint64_t find_other(self, Workspace space, size_t i) except? 0 nogil
    cdef uint64_t work_out(
        self, Workspace space, const byte_t* word, Py_ssize_t size, int part, uint64_t lo, uint64_t hi
    ) except? 0 nogil
    cdef int emit(self, Workspace space, Py_ssize_t start, Py_ssize_t end) except -1 nogil
    cdef int emit_uncached(self, Workspace space, Py_ssize_t number) except -1 nogil
    cdef int emit_run(self, Workspace space, const byte_t* text) except -1 nogil
    cdef int emit_lone(self, Workspace space, const byte_t* text, const byte_t* end) except -1 nogil
    cdef int emit_joined(self, Workspace space, const byte_t* word, Py_ssize_t size) except -1 nogil
    cdef bint stay_apart(self, Workspace space, const byte_t* word, Py_ssize_t size) except -1 nogil
    cdef bint learn_lone(self, Workspace space, const byte_t* text) except -1 nogil
    cdef int run(self, Workspace space, int64_t* lengths) except -1 nogil
    cdef Workspace workspace(self)
    cdef int give_back(self, Workspace space) except -1
    cdef object taken(self, Workspace space)


cdef object as_array(Ids* ids)
cdef int emit_value(Workspace space, uint64_t value) except -1 nogil
cdef void feed_fragments(Feed* feed, const Fragment* fragments, Py_ssize_t n, int scanner) noexcept nogil
cdef int prepare_output(Workspace space, size_t n_bytes) except -1 nogil
