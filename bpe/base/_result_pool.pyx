"""Reuse the memory of a large result that has been freed for the next one.

The system clears each new page of memory, which takes 5 to 15% of the time of encoding a text whose words are in the
cache. The pool avoids it: it keeps one block, the largest that has been freed. A new result is written to that block if
it fits and is not more than `MAX_SIZE_RATIO` times smaller; otherwise it gets new pages. A block has room for one id
per byte of text, of which only the pages that are written take memory. A kept block has at most `max_bytes` bytes of
such pages.

No thread waits for the lock: where it is held, new pages are used, or the freed block is released. In a forked process
the lock may stay held forever, because the thread that held it exists only in the parent. An array of ids refers to
the pool, not to the tokenizer, so the tokenizer's memory can be freed while arrays are in use.
"""

cimport cython

from bpe.base._pages cimport drop_pages, release, allocate_zeroed
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)

cdef enum:
    MAX_SIZE_RATIO = 8        # a block more than this many times the size needed is left for a larger result


@cython.final
cdef class ResultPool:

    def __cinit__(self, size_t max_bytes):
        self.max_bytes = max_bytes
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError("no memory for a lock")

    def __dealloc__(self):
        release(self.block.data, self.block.size)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    @property
    def max_kept_bytes(self):
        """An upper bound of the memory that the kept block takes, in bytes."""
        return min(self.block.size, self.max_bytes)

    cdef MemoryBlock lend(self, size_t size) noexcept nogil:
        """Return memory of at least `size` bytes: the kept block if it fits, else new pages; NULL without memory."""
        cdef MemoryBlock block = MemoryBlock(data=NULL, size=size)
        if PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            if size <= self.block.size <= size * MAX_SIZE_RATIO:
                block, self.block = self.block, block
                self.block.size = 0
            PyThread_release_lock(self.lock)
        if block.data == NULL:
            block.data = allocate_zeroed(size)
        return block

    cdef void take_back(self, MemoryBlock block) noexcept nogil:
        """Keep a freed block if it is larger than the kept one, and release the other of the two."""
        cdef MemoryBlock released = block
        if PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            if block.size > self.block.size and drop_pages(block.data, self.max_bytes, block.size):
                self.block, released = block, self.block
            PyThread_release_lock(self.lock)
        release(released.data, released.size)
