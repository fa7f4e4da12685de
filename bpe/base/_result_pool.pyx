"""Memory of large results: what freed ones leave is kept for the next, which need fewer new pages.

Clearing new pages takes a tenth of the time of a text that was met before, and much more where the host of a virtual
machine gives them slowly (`_prefault.h`). So a large result lies in pages of its own, and when it is freed some of them
stay: whole ones of 2 MB, of which the next result gets as many as fit before it gets new ones.

    a result      [ids ids ids ids ids|..]            cut to what it takes
    is freed      [2 MB][2 MB][2 MB][2 MB]            so many stay as the pool may keep, the rest is unmapped
    the next      [2 MB][2 MB][2 MB][2 MB|new pages…  moved by their page tables to the front of a new range

How much stays is what the threads' word caches leave of their memory (`encode/_workspace.pyx`): pages go when a cache
grows. The system may reclaim the pages that are kept (MADV_FREE), and then gives pages of zeros in their place. Nobody
waits for a pool: who finds it locked, be it because another thread was at it when the process was forked, does with new
pages.
Results hold the pool and not the tokenizer that it belongs to, so that in the end all is given back. Beyond Linux
nothing is lent. Not here: which memory is touched when (`_prefault.h`), smaller results (`_id_array.pyx`).
"""

cimport cython

from bpe.base._pages cimport HUGE, map_pages, move_page, offer_pages, unmap_pages
from bpe.base._prefault cimport Fresh, fresh_begin, fresh_behind
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)
from libc.stdlib cimport free, realloc

cdef enum:
    PAGES = 1 << 16           # bytes: whole pages on every machine

cdef Py_ssize_t moves_left = -1                 # of a result, before one is refused; -1 where the system is asked


def refuse_moves(Py_ssize_t after):
    """Have the moves of a result's pages refused behind so many, for tests; -1: ask the system again."""
    global moves_left
    moves_left = after


@cython.final
cdef class ResultPool:

    def __cinit__(self):
        """A pool that keeps nothing as yet."""
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError("no memory for a lock")

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.n):
            unmap_pages(self.pages[i], HUGE)
        free(self.pages)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    @property
    def kept(self):
        """Bytes that are kept now."""
        return self.n * HUGE

    cdef bint allow(self, size_t before, size_t now) noexcept nogil:
        """Keep at most `now` bytes for a thread, for which it kept `before`; False if this has to be tried again."""
        cdef size_t most
        cdef void* pages
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            return False
        most = self.most + now // HUGE - before // HUGE
        if most > self.room:
            pages = realloc(self.pages, most * sizeof(char*))
            if pages == NULL:
                PyThread_release_lock(self.lock)
                return False
            self.pages, self.room = <char**>pages, most
        self.most = most
        while self.n > most:
            self.n -= 1
            unmap_pages(self.pages[self.n], HUGE)
        PyThread_release_lock(self.lock)
        return True

    cdef bint lend(self, Loan* loan, size_t size, Fresh* fresh) noexcept nogil:
        """Lend at least so many bytes, of which what was kept comes first; False where there is no such memory."""
        cdef size_t whole = rounded(size, HUGE)
        cdef char* data = <char*>map_pages(whole)
        cdef Py_ssize_t n
        if data == NULL:
            return False
        n = self.move_into(data, whole // HUGE)
        if n < 0:
            return False
        loan[0] = Loan(data=data, size=whole)
        fresh_begin(fresh, data, whole)
        fresh_behind(fresh, data + n * HUGE)
        return True

    cdef Py_ssize_t move_into(self, char* data, size_t most) noexcept nogil:
        """Move pages that are kept to the front of a range of at most so many; their number.

        -1, with the range unmapped, where the system refuses to move one, as it does when the process has too many
        mappings; then its place is left alone, since it may be another thread's by now.
        """
        cdef size_t n = 0
        cdef bint moved = True
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            return 0
        while moved and n < most and self.n:
            self.n -= 1
            moved = (moves_left < 0 or n < <size_t>moves_left) and move_page(self.pages[self.n], data + n * HUGE)
            n += moved
        if not moved:
            unmap_pages(self.pages[self.n], HUGE)
            unmap_pages(data, n * HUGE)
            unmap_pages(data + (n + 1) * HUGE, (most - n - 1) * HUGE)
        PyThread_release_lock(self.lock)
        return <Py_ssize_t>n if moved else -1

    cdef void take_back(self, Loan* loan, size_t used, size_t touched) noexcept nogil:
        """Take what is behind the first `used` bytes; the first `touched` have pages, which are worth keeping."""
        cdef size_t whole = rounded(used, HUGE), rest = rounded(used, PAGES), kept = 0
        if touched > whole:
            kept = self.keep(loan.data + whole, (touched - whole) // HUGE) * HUGE
        if kept:
            unmap_pages(loan.data + rest, whole - rest)
            rest = whole + kept
        unmap_pages(loan.data + rest, loan.size - rest)
        loan.size = rounded(used, PAGES)
        if used == 0:
            loan.data = NULL

    cdef size_t keep(self, char* first, size_t n) noexcept nogil:
        """Keep pages, of n that lie one behind the other the first; how many."""
        cdef size_t i
        if n == 0 or not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            return 0
        n = min(n, self.most - self.n)
        if n and not offer_pages(first, n * HUGE):
            n = 0
        for i in range(n):                                 # the first is taken first, so that they stay one mapping
            self.pages[self.n + i] = first + (n - 1 - i) * HUGE
        self.n += n
        PyThread_release_lock(self.lock)
        return n


cdef inline size_t rounded(size_t size, size_t unit) noexcept nogil:
    """The next multiple of a power of 2."""
    return (size + unit - 1) & ~(unit - 1)
