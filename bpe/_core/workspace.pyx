"""What one call needs for itself: the word caches, a chunk of pieces on their way, the output, room to merge in.

Not here: which calls have it when (`encoder.pyx`), and how a cache finds a word (`wordcache.pyx`).
"""

from bpe._core.arrays cimport COPIED
from bpe._core.chunk cimport Chunk, Feed
from bpe._core.fresh cimport fresh_begin
from bpe._core.memory cimport grown
from bpe._core.merging cimport Ids, free_scratch
from bpe._core.types cimport token_t
from bpe._core.wordcache cimport close_cache, limit_words, open_cache
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef enum:
    KEPT_SCRATCH = 1 << 20    # items: larger buffers for long pieces are let go after the call


cdef class Workspace:

    def __cinit__(self, size_t memory, bint marked=False):
        open_cache(&self.cache, memory)
        if marked:                                         # they share all but the lists of ids
            open_cache(&self.earlier, memory // 2)
            limit_words(&self.cache, memory // 2)
        self.chunk = <Chunk*>calloc(1, sizeof(Chunk))
        self.feed = <Feed*>calloc(1, sizeof(Feed))
        self.lone = <Lone*>calloc(LONE_ROOM, sizeof(Lone))   # takes memory where it is written to
        if self.chunk == NULL or self.feed == NULL or self.lone == NULL:
            raise MemoryError("no memory for a chunk of pieces")
        self.unknown = False
        self.unknown_at = -1

    def __dealloc__(self):
        close_cache(&self.cache)
        close_cache(&self.earlier)
        free_scratch(&self.scratch)
        free(self.lone)
        free(self.chunk)
        free(self.feed)
        free(self.out.data)

    cdef int reset(self) noexcept nogil:
        """Ready for the next call; the cache stays."""
        self.out.n = 0
        self.fresh_data = NULL
        self.unknown = False
        self.unknown_at = -1
        if self.out.room > COPIED:
            free(self.out.data)
            self.out.data, self.out.room = NULL, 0
        if self.scratch.symbols_room > KEPT_SCRATCH or self.scratch.failed_room > KEPT_SCRATCH:
            free_scratch(&self.scratch)
            memset(&self.scratch, 0, sizeof(self.scratch))
        return 0


cdef int prepare_output(Workspace space, size_t n_bytes) except -1 nogil:
    """Room for what a text of so many bytes is likely to give, in the pages that come quickest."""
    cdef size_t n = n_bytes // 2 + 1024
    cdef Ids* out = &space.out
    if n > COPIED and n > out.room:
        out.data = <token_t*>grown(out.data, &out.room, n, sizeof(token_t))
        space.fresh_data = out.data
        fresh_begin(&space.fresh, out.data, out.room * sizeof(token_t))
    return 0
