"""Delivery: several threads encode parts of a text, whose ids go into one array in order.

A thread writes the ids of a part to a buffer, which stays in its processor's cache. When the part is done, the thread
copies it into the array, and after it those that wait for it; while another thread does so, it leaves its part to that
one and goes on:

    parts       0      1      2      3      4
                copied copied |      done   |         2 and 4 are being encoded, 3 waits for 2
                copied copied copied copied |         whoever ended 2 has copied 2 and 3

So only one thread at a time has to do with the array, which may move where it needs more room. The lock is not held
while ids are copied. Not here: what a part is, and who encodes it (`encode/_batch.pyx`).
"""

cimport cython

from bpe.base._id_array cimport LARGE, as_array, large_output
from bpe.base._ids cimport Ids, reserve
from bpe.base._result_pool cimport ResultPool
from bpe.base._types cimport token_t
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy


@cython.no_gc_clear           # the garbage collector would take the pool away before the block is given back
cdef class Delivery:

    def __cinit__(self, Py_ssize_t n_parts, size_t most, ResultPool pool):
        """`most`: how many ids there are at most, as a rule."""
        self.n_parts, self.pool = n_parts, pool
        self.lock = PyThread_allocate_lock()
        self.parcels = <Parcel*>calloc(n_parts, sizeof(Parcel))
        self.spare = <Ids*>calloc(n_parts, sizeof(Ids))
        if self.lock == NULL or self.parcels == NULL or self.spare == NULL:
            raise MemoryError(f"no memory for a list of {n_parts} parts")
        if most > LARGE:
            large_output(&self.ids, pool, &self.block, most)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.parcels != NULL and self.spare != NULL:
            for i in range(self.n_parts):
                free(self.parcels[i].ids.data)
                free(self.spare[i].data)
        free(self.parcels)
        free(self.spare)
        if not self.ids.lent:
            free(self.ids.data)
        if self.block.data != NULL:
            self.pool.take_back(self.block)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef int finish(self, Py_ssize_t number, Ids* out) except -1 nogil:
        """Take the ids of a part that is done, and copy it and those after it, or leave it to the thread that does so.

        `out` becomes another buffer.
        """
        cdef Parcel* parcel
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.parcels[number].ids, self.parcels[number].waiting = out[0], True
        out[0] = Ids(data=NULL, n=0, room=0, lent=False)
        try:
            while not self.copying and self.next < self.n_parts and self.parcels[self.next].waiting:
                parcel = &self.parcels[self.next]
                self.copying = True
                PyThread_release_lock(self.lock)
                try:
                    if parcel.ids.n:                       # a part without ids may have no buffer
                        reserve(&self.ids, parcel.ids.n)
                        memcpy(self.ids.data + self.ids.n, parcel.ids.data, parcel.ids.n * sizeof(token_t))
                        self.ids.n += parcel.ids.n
                        parcel.ids.n = 0
                finally:
                    PyThread_acquire_lock(self.lock, WAIT_LOCK)
                    self.copying = False
                self.spare[self.n_spare], parcel.ids.data = parcel.ids, NULL
                self.n_spare += 1
                self.next += 1
            if self.n_spare:
                self.n_spare -= 1
                out[0] = self.spare[self.n_spare]
                self.spare[self.n_spare].data = NULL
        finally:
            PyThread_release_lock(self.lock)
        return 0

    cdef object taken(self):
        """When all is delivered: the ids as an array."""
        return as_array(&self.ids, self.pool, &self.block)
