"""Memory of large results: that of a freed one is kept for the next, which then needs no new pages.

Clearing new pages takes 5 to 9% of the time of a text whose words are in the cache. So a large result lies in pages of
its own, with room for an id a byte; what is not written to takes no memory. When it is freed, the pool keeps it unless
it keeps a larger one, and the next result of no more than this size, nor much less, is written there. Of what is kept
at most `most` bytes have pages.

Nobody waits for a pool: a thread that finds it locked, be it because another one held the lock when the process was
forked, takes new pages. Results hold the pool and not the tokenizer that it belongs to, so that in the end all is given
back. Not here: smaller results, which are copied (`_id_array.pyx`).
"""

cimport cython

from bpe.base._pages cimport drop_pages, release, zeroed
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)

cdef enum:
    MUCH = 8                  # times as much room as is needed: for more, kept memory is left for a larger result


@cython.final
cdef class ResultPool:

    def __cinit__(self, size_t most):
        self.most = most
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError("no memory for a lock")

    def __dealloc__(self):
        release(self.block.data, self.block.size)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    @property
    def kept(self):
        """Bytes that are kept now, of which some may have no pages."""
        return min(self.block.size, self.most)

    cdef Block lend(self, size_t size) noexcept nogil:
        """Memory of at least `size` bytes, what was kept if that serves; NULL where there is none."""
        cdef Block block = Block(data=NULL, size=size)
        if PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            if size <= self.block.size <= size * MUCH:
                block, self.block = self.block, block
                self.block.size = 0
            PyThread_release_lock(self.lock)
        if block.data == NULL:
            block.data = zeroed(size)
        return block

    cdef void take_back(self, Block block) noexcept nogil:
        """Keep a block for the next result, or free it."""
        cdef Block other = block
        if PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            if block.size > self.block.size and drop_pages(block.data, self.most, block.size):
                self.block, other = block, self.block
            PyThread_release_lock(self.lock)
        release(other.data, other.size)
