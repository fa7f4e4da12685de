"""What one call needs for itself: the word caches, a chunk of pieces on their way, the output, room to merge in.

A thread's caches and the memory of freed results that is kept for it share 2.5 times the caches' memory, so that it
keeps less than 100 MB in all by default.

Not here: which calls have it when (`_encoder.pyx`), and how a cache finds a word (`_word_cache.pyx`).
"""

from bpe.base._delivery cimport has_turn
from bpe.base._id_array cimport COPIED
from bpe.base._interrupts cimport end_watch
from bpe.base._pages cimport unmap_pages
from bpe.base._prefault cimport fresh_begin, fresh_reach, fresh_touched
from bpe.base._types cimport token_t
from bpe.encode._chunk cimport Chunk, Feed
from bpe.encode._word_cache cimport cache_bytes, close_cache, limit_words, open_cache
from bpe.merge._merging cimport Ids, free_scratch
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

cdef enum:
    LITTLE = 1 << 17          # ids: room for fewer grows as it is filled
    KEPT_SCRATCH = 1 << 17    # items: larger buffers for long pieces are let go after the call


cdef class Workspace:

    def __cinit__(self, size_t memory, bint marked=False, bint hasty=False):
        """Caches of at most `memory` bytes, for which another thread that may be at work does not wait if `hasty`."""
        open_cache(&self.cache, memory)
        if marked:                                         # they share all but the lists of ids
            open_cache(&self.earlier, memory // 2)
            limit_words(&self.cache, memory // 2)
        self.memory = memory + memory * 3 // 2
        self.cache.hasty = self.earlier.hasty = hasty
        self.chunk = <Chunk*>calloc(1, sizeof(Chunk))
        self.feed = <Feed*>calloc(1, sizeof(Feed))
        if self.chunk == NULL or self.feed == NULL:
            raise MemoryError("no memory for a chunk of pieces")
        self.unknown = False
        self.unknown_at = -1
        end_watch(&self.scratch.watch)

    def __dealloc__(self):
        close_cache(&self.cache)
        close_cache(&self.earlier)
        free_scratch(&self.scratch)
        free(self.chunk)
        free(self.feed)
        if not self.out.lent:
            free(self.out.data)
        free(self.sender.own.data)
        unmap_pages(self.loan.data, self.loan.size)

    cdef int reset(self) noexcept nogil:
        """Ready for the next call; the cache stays."""
        self.out.n = 0
        self.fresh_room = 0
        self.unknown = False
        self.unknown_at = -1
        if self.loan.data != NULL:                         # if the output has moved out, so has what `fresh` is about
            self.pool.take_back(&self.loan, 0, fresh_touched(&self.fresh, self.loan.data) if self.out.lent else 0)
        if self.out.lent:
            self.out = Ids(data=NULL, n=0, room=0, lent=False)
        if self.out.room > COPIED or self.passing:
            free(self.out.data)
            self.out.data, self.out.room = NULL, 0
        self.passing = False
        if self.scratch.symbols_room > KEPT_SCRATCH:
            free_scratch(&self.scratch)
            memset(&self.scratch, 0, sizeof(self.scratch))
        end_watch(&self.scratch.watch)
        share_if_larger(self)
        return 0

    cdef void share_memory(self) noexcept nogil:
        """Leave to the pool what the caches do not take of the memory for both."""
        cdef size_t taken = cache_bytes(&self.cache) + cache_bytes(&self.earlier)
        cdef size_t left = self.memory - min(taken, self.memory)
        if self.pool is None or self.pool.allow(self.left, left):
            self.left = left
            self.cache.larger = self.earlier.larger = False


cdef int prepare_output(Workspace space, size_t n_bytes) except -1 nogil:
    """Room for what a text of so many bytes is likely to give, in the pages that come quickest.

    Much is lent, with room for an id a byte, since what is not touched costs nothing. What is not too much is kept for
    later calls, which copy their ids from there: but not that of the first such call, which may be the only one, and
    would take new pages for both.
    """
    cdef size_t n = n_bytes // 2 + 1024
    cdef Ids* out = &space.out
    cdef void* data
    if n < LITTLE or n <= out.room:
        return 0
    if n > COPIED and space.pool is not None and lend_output(space, n_bytes + 1024):
        return 0
    n = max(n, <size_t>COPIED)
    data = malloc(n * sizeof(token_t))
    if data == NULL:
        return 0                                           # it grows as it is filled
    free(out.data)
    out.data, out.room = <token_t*>data, n
    space.fresh_room = n
    fresh_begin(&space.fresh, out.data, out.room * sizeof(token_t))
    if n == COPIED:                                        # too little to wait for a page of 2 MB that comes slowly
        space.fresh.slow = True
    space.passing = n > COPIED or not space.used
    space.used = True
    return 0


cdef bint lend_output(Workspace space, size_t n) noexcept nogil:
    """Have the pool lend room for n ids, which nobody keeps; whether it has."""
    if not space.pool.lend(&space.loan, n * sizeof(token_t), &space.fresh):
        return False
    free(space.out.data)
    space.out = Ids(data=<token_t*>space.loan.data, n=0, room=space.loan.size // sizeof(token_t), lent=True)
    space.fresh_room = space.out.room
    space.passing = space.used = True
    return True


cdef void reach_output(Workspace space) noexcept nogil:
    """Touch the output's memory a little ahead of what is written, if it is that of `prepare_output`.

    Where the output is a part's whose turn has come, it is written in place from here on.
    """
    cdef Ids* out = &space.out
    if has_turn(&space.sender):
        space.delivery.write_in_place(&space.sender, out)
    if out.lent and space.loan.data == NULL:
        fresh_reach(&space.sender.fresh, out.data + out.n)
        return
    if space.fresh_room == 0:
        return
    if space.fresh_room != out.room:                       # it has grown
        space.fresh_room = out.room
        fresh_begin(&space.fresh, out.data + out.n, (out.room - out.n) * sizeof(token_t))
    fresh_reach(&space.fresh, out.data + out.n)
