"""Collect the ids of the parts of a text, which several threads encode, in one array and in the order of the parts.

A thread encodes a part into a buffer of its own and hands the buffer to `finish`. That call copies the part to the end
of the array if all earlier parts have been copied, and then every later part that is already encoded. Otherwise it
only marks the part as encoded, and the thread that copies the part before it will copy this one too:

    part           0        1        2          3        4
    before         copied   copied   encoding   waits    encoding
    2 is encoded   copied   copied   copied     copied   encoding      one call of `finish` copies 2 and 3

Only one thread at a time copies ids, so the array may be reallocated when it is full. The lock protects the list of
parts; it is not held during a copy, so other threads can finish their parts meanwhile. Every id is copied once more
than with one thread: O(ids) in all.
"""

cimport cython

from bpe.base._id_array cimport LARGE, as_array, reserve_large_output
from bpe.base._ids cimport Ids, append_ids
from bpe.base._memory cimport check_allocated, check_lock
from bpe.base._result_pool cimport ResultPool
from libc.stdlib cimport calloc, free


@cython.no_gc_clear           # __dealloc__ needs the pool, which the garbage collector would otherwise clear first
cdef class OrderedIds:

    def __cinit__(self, Py_ssize_t n_parts, size_t max_ids, ResultPool pool):
        """Take an upper estimate of the number of ids; with more than `max_ids`, the array is reallocated."""
        check_lock(&self.lock)
        self.n_parts, self.pool = n_parts, pool
        self.max_ids = max_ids if max_ids > LARGE else 0
        self.parts = <Part*>check_allocated(calloc(n_parts, sizeof(Part)), n_parts, b"parts")
        self.spare = <Ids*>check_allocated(calloc(n_parts, sizeof(Ids)), n_parts, b"parts")

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.parts != NULL and self.spare != NULL:
            for i in range(self.n_parts):
                free(self.parts[i].ids.data)
                free(self.spare[i].data)
        free(self.parts)
        free(self.spare)
        if not self.ids.lent:
            free(self.ids.data)
        if self.block.data != NULL:
            self.pool.take_back(self.block)

    cdef int finish(self, Py_ssize_t number, Ids* out) except -1 nogil:
        """Hand over the ids of part `number`; copy it and the encoded parts after it, if it is their turn.

        `out` has the ids on entry. On return it is an empty buffer for the thread's next part: one that has been
        copied already, or one without memory.
        """
        cdef Part* part
        with self.lock:
            self.parts[number].ids, self.parts[number].waiting = out[0], True
        out[0] = Ids(data=NULL, n=0, capacity=0, lent=False)
        while self.begin_copy():
            part = &self.parts[self.next]
            if part.ids.n:
                if self.max_ids:                              # a job without ids leaves the pool as it is
                    reserve_large_output(&self.ids, self.pool, &self.block, self.max_ids)
                    self.max_ids = 0
                append_ids(&self.ids, part.ids.data, part.ids.n)  # after an error here nothing more is copied
                part.ids.n = 0
            with self.lock:
                self.spare[self.n_spare], part.ids.data = part.ids, NULL
                self.n_spare += 1
                self.next += 1
                self.copying = False
        with self.lock:
            if self.n_spare:
                self.n_spare -= 1
                out[0] = self.spare[self.n_spare]
                self.spare[self.n_spare].data = NULL
        return 0

    cdef bint begin_copy(self) noexcept nogil:
        """Whether the caller is to copy the next part: it is encoded, and no other thread is copying."""
        with self.lock:
            if self.copying or self.next == self.n_parts or not self.parts[self.next].waiting:
                return False
            self.copying = True
        return True

    cdef object take_ids(self):
        """Return the ids of all parts as an array; every part must have been finished."""
        return as_array(&self.ids, self.pool, &self.block)
