"""Delivery: several threads write the ids of parts of a text, in order, into one array.

Where the ids of a part begin is known only when all parts before it are done. So the thread with the next part in order
has the turn and writes into the array itself, while the others write to buffers that stay in their processor caches.
When a part is done, the part after it has the turn. If a thread is still working on that one, it copies what it has
into the array and goes on there:

    parts       0    1    2    3    4
                done done |    done |     2 has the turn and is written in place, 3 waits, 4 is written to a buffer
                done done done done |     whoever ended 2 copies 3; 4 has the turn

So with two threads, one of them always writes in place, and half of the ids are copied, from a processor cache. The
turn and the places are passed on under a lock; copying needs none. Not here: what a part is, and who encodes it
(`encode/_batch.pyx`).
"""

from bpe.base._atomic cimport store
from bpe.base._id_array cimport COPIED, as_array, lent_as_array
from bpe.base._pages cimport unmap_pages
from bpe.base._prefault cimport fresh_begin, fresh_join, fresh_part, fresh_reach
from bpe.base._result_pool cimport ResultPool
from bpe.base._types cimport token_t
from bpe.merge._merging cimport Ids, make_room
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy


cdef class Delivery:

    def __cinit__(self, Py_ssize_t n_parts, size_t likely, ResultPool pool):
        """`likely`: how many ids there may be in all, for which there is room from the start."""
        self.n_parts, self.pool = n_parts, pool
        self.lock = PyThread_allocate_lock()
        self.parcels = <Parcel*>calloc(n_parts, sizeof(Parcel))
        self.spare = <Ids*>calloc(n_parts, sizeof(Ids))
        if self.lock == NULL or self.parcels == NULL or self.spare == NULL:
            raise MemoryError(f"no memory for a list of {n_parts} parts")
        if likely > COPIED and pool.lend(&self.loan, 2 * likely * sizeof(token_t), &self.fresh):
            self.ids = Ids(data=<token_t*>self.loan.data, n=0, room=self.loan.size // sizeof(token_t), lent=True)
        else:
            self.grow(likely)

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
        unmap_pages(self.loan.data, self.loan.size)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef void begin(self, Sender* sender, Py_ssize_t number) noexcept nogil:
        """A thread begins with a part, with an empty buffer."""
        sender.turn, sender.number, sender.in_place = &self.turn, number, False

    cdef void write_in_place(self, Sender* sender, Ids* out) noexcept nogil:
        """Copy the ids that a thread has of the part whose turn it is; it writes the rest where they stay.

        What is behind them is all the thread's, until it is done. Where there is no room for more than it has, it stays
        with its buffer.
        """
        cdef token_t* place = self.ids.data + self.ids.n
        cdef size_t room = self.ids.room - self.ids.n
        sender.turn = NULL
        if out.n >= room:
            return
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        sender.fresh = self.fresh
        PyThread_release_lock(self.lock)
        fresh_reach(&sender.fresh, place + out.n)
        if out.n:
            memcpy(place, out.data, out.n * sizeof(token_t))
        sender.in_place, sender.own = True, out[0]
        sender.own.n = 0
        out.data, out.room, out.lent = place, room, True

    cdef int finish(self, Sender* sender, Ids* out) except -1 nogil:
        """When a part is done: put its ids in place, and those that wait for it, or leave them to wait.

        The thread has a buffer again.
        """
        cdef Py_ssize_t first, i, n
        PyThread_acquire_lock(self.lock, WAIT_LOCK)
        try:
            self.take(sender, out)
            while True:
                first = self.turn
                n = self.place()
                if n == 0:
                    break
                PyThread_release_lock(self.lock)
                for i in range(first, first + n):
                    self.copy(&self.parcels[i])
                PyThread_acquire_lock(self.lock, WAIT_LOCK)
                self.copying -= n
                for i in range(first, first + n):
                    fresh_join(&self.fresh, &self.parcels[i].fresh)
                    self.spare[self.n_spare] = self.parcels[i].ids
                    self.parcels[i].ids.data = NULL
                    self.n_spare += 1
            if out.data == NULL and self.n_spare:
                self.n_spare -= 1
                out[0] = self.spare[self.n_spare]
                self.spare[self.n_spare].data = NULL
        finally:
            PyThread_release_lock(self.lock)
        return 0

    cdef void give_up(self, Sender* sender, Ids* out) noexcept nogil:
        """A part will never be done: what there is of it is nobody's, and the thread has its buffer again."""
        sender.turn = NULL
        if out.lent:
            out[0] = sender.own
        else:
            free(sender.own.data)
        sender.own.data = NULL

    cdef int take(self, Sender* sender, Ids* out) except -1 nogil:
        """Take a sender's ids: they are in place, or become a parcel. The lock is held."""
        cdef Parcel* parcel = &self.parcels[sender.number]
        sender.turn = NULL
        if sender.in_place:
            self.fresh = sender.fresh
        if out.lent:
            self.ids.n = out.data + out.n - self.ids.data
            out[0], sender.own.data = sender.own, NULL
            store(&self.turn, sender.number + 1)
            return 0
        free(sender.own.data)                              # if it has left the result for want of room
        sender.own.data = NULL
        parcel.ids, parcel.waiting = out[0], True
        out[0] = Ids(data=NULL, n=0, room=0, lent=False)
        return 0

    cdef Py_ssize_t place(self) except -1 nogil:
        """Give places to the parcels whose turn it is; how many they are. The lock is held.

        Ids are moved to where there is more room only while nobody copies; who ends copying asks again.
        """
        cdef Py_ssize_t n = 0
        cdef Parcel* parcel
        while self.turn < self.n_parts and self.parcels[self.turn].waiting:
            parcel = &self.parcels[self.turn]
            if self.ids.n + parcel.ids.n > self.ids.room:
                if self.copying:
                    break
                self.grow(parcel.ids.n)
            parcel.waiting, parcel.place = False, self.ids.n
            self.ids.n += parcel.ids.n
            fresh_part(&self.fresh, self.ids.data + self.ids.n, &parcel.fresh)
            self.copying += 1
            n += 1
            store(&self.turn, self.turn + 1)
        return n

    cdef int grow(self, size_t more) except -1 nogil:
        """Room for so many ids more, while nobody else has to do with them."""
        cdef Ids* ids = &self.ids
        make_room(ids, more)
        fresh_begin(&self.fresh, ids.data + ids.n, (ids.room - ids.n) * sizeof(token_t))
        return 0

    cdef void copy(self, Parcel* parcel) noexcept nogil:
        """Copy a parcel to its place."""
        fresh_reach(&parcel.fresh, self.ids.data + self.ids.room)
        if parcel.ids.n:                                   # a part without ids may have no buffer
            memcpy(self.ids.data + parcel.place, parcel.ids.data, parcel.ids.n * sizeof(token_t))
        parcel.ids.n = 0

    cdef object taken(self):
        """When all is delivered: the ids as an array."""
        if self.ids.lent:
            return lent_as_array(&self.ids, self.pool, &self.loan, &self.fresh)
        return as_array(&self.ids)
