"""The memory of one call: tables of recent words, a chunk of pieces, the output, scratch memory for merging."""

cimport cython

from bpe.base._id_array cimport MIN_LARGE_IDS, reserve_large_output
from bpe.base._ids cimport Ids
from bpe.base._interrupts cimport end_watch
from bpe.base._memory cimport check_allocated
from bpe.encode._chunk cimport Chunk, Feed
from bpe.encode._word_cache cimport SharedWordTable, empty_front, free_lines, open_front
from bpe.merge._merging cimport free_scratch
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef enum:
    MAX_KEPT_SYMBOLS = 1 << 17  # symbols: larger buffers for long pieces are freed after the call


@cython.no_gc_clear           # the garbage collector would take the pool away before the block is given back
cdef class Workspace:

    def __cinit__(self, size_t memory, bint marks_word_ends=False):
        """Take the size of the word table in bytes; a small one goes with small tables of recent words."""
        open_front(&self.cache, memory)
        if marks_word_ends:
            open_front(&self.inner_cache, memory)
        self.chunk = <Chunk*>check_allocated(calloc(1, sizeof(Chunk)), 1, b"chunk of pieces")
        self.feed = <Feed*>check_allocated(calloc(1, sizeof(Feed)), 1, b"feed of pieces")
        self.unknown = False
        self.unknown_fragment = -1
        end_watch(&self.scratch.watch)

    def __dealloc__(self):
        free_lines(self.cache.front)
        free_lines(self.inner_cache.front)
        free_scratch(&self.scratch)
        free(self.chunk)
        free(self.feed)
        if not self.out.lent:
            free(self.out.data)
        if not self.pending_low.lent:
            free(self.pending_low.data)
        if self.block.data != NULL:
            self.pool.take_back(self.block)

    cdef int use(self, SharedWordTable table) noexcept:
        """Look words up in this table from now on; forget the values of another one."""
        if table is not self.table:
            self.table = table
            self.cache.table, self.inner_cache.table = &table.words, &table.inner_parts
            empty_front(&self.cache)
            if self.inner_cache.front != NULL:
                empty_front(&self.inner_cache)
        return 0

    cdef int reset(self) noexcept nogil:
        """Prepare for the next call; the recent words stay."""
        self.out.n = self.pending_low.n = self.n_in_open_run = 0
        self.unknown = False
        self.unknown_fragment = -1
        self.feed.max_ids = 0
        if self.block.data != NULL:
            self.pool.take_back(self.block)
            self.block.data = NULL
        if self.out.lent:
            self.out = Ids(data=NULL, n=0, capacity=0, lent=False)
        if self.out.capacity > 2 * MIN_LARGE_IDS:
            free(self.out.data)
            self.out.data, self.out.capacity = NULL, 0
        if self.pending_low.capacity > MAX_KEPT_SYMBOLS:
            free(self.pending_low.data)
            self.pending_low.data, self.pending_low.capacity = NULL, 0
        if max(self.scratch.symbols_capacity, self.scratch.links_capacity) > MAX_KEPT_SYMBOLS:
            free_scratch(&self.scratch)
            memset(&self.scratch, 0, sizeof(self.scratch))
        end_watch(&self.scratch.watch)
        return 0


cdef void prepare_output(Workspace workspace, size_t n_bytes) noexcept nogil:
    """Reserve memory for the ids of a large text: one id per byte, of which few are touched.

    Only for the first ids of a call: those that are there would be lost.
    """
    if n_bytes > 2 * MIN_LARGE_IDS and workspace.out.n == 0 and not workspace.out.lent and workspace.pool is not None:
        reserve_large_output(&workspace.out, workspace.pool, &workspace.block, n_bytes + 1024)
