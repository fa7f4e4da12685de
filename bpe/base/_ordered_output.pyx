"""Collect the ids of the parts of a text, which several threads encode, in one array and in the order of the parts.

A thread encodes a part into a buffer of its own and hands the buffer to `finish`. A part gets its place in the array
under the lock, once all earlier parts have theirs, and is copied there without the lock. Any thread copies the next
part that has a place, so several copy at once; whoever fills fresh pages waits for the system to clear them, longer
than the copy takes:

    part           0        1        2          3         4
    before         copied   copied   encoding   encoded   encoding
    2 is encoded   copied   copied   place      place     encoding      two threads may copy 2 and 3

An array that is full is reallocated while no thread copies. Every id is copied once more than with one thread: O(ids)
in all. With an `IdTarget`, such as a file, the first parts go there, and the array gets the ids of the others.
"""

cimport cython

from bpe.base._atomic cimport load, store
from bpe.base._id_array cimport MIN_LARGE_IDS, as_array, reserve_large_output
from bpe.base._ids cimport Ids, reserve
from bpe.base._memory cimport check_allocated, check_lock, grow_array
from bpe.base._result_pool cimport ResultPool
from bpe.base._types cimport token_t
from libc.stdint cimport uint16_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cdef enum:
    NO_ROOM = -1              # the place of a part that the caller's array has no room for
    MIN_RING_SIZE = 64


cdef class IdTarget:

    cdef int write(self, Py_ssize_t start, const token_t* ids, Py_ssize_t n) except -1 nogil:
        """Write ids of which `start` were before; threads call it for different parts at once, in any order."""
        return 0

    @property
    def is_full(self):
        """Whether a part was not taken, with which the ids would have been `max_ids` or more."""
        return bool(load(&self.full))


@cython.no_gc_clear           # __dealloc__ needs the pool, which the garbage collector would otherwise clear first
cdef class OrderedIds:

    def __cinit__(self, size_t max_ids, ResultPool pool, out=None):
        """`max_ids` estimates the ids from above: more of them reallocate the array.

        `out` is None, a C-contiguous array of uint32 or uint16 to write to, or an `IdTarget` for the first parts.
        """
        cdef char[::1] memory
        check_lock(&self.lock)
        if isinstance(out, IdTarget):
            self.target, out, max_ids = out, None, 0
        self.pool, self.out = pool, out
        self.max_ids = max_ids if max_ids > MIN_LARGE_IDS and out is None else 0
        self.ring_size = MIN_RING_SIZE
        self.parts = <Part*>check_allocated(calloc(self.ring_size, sizeof(Part)), self.ring_size, b"parts")
        if out is not None:
            self.item_size, self.ids.capacity, self.ids.lent = out.itemsize, len(out), True
            if len(out):
                memory = out.view("b")
                self.out_data = &memory[0]

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.parts != NULL:
            for i in range(self.ring_size):
                free(self.parts[i].ids.data)
        for i in range(self.n_spare):
            free(self.spare[i].data)
        free(self.parts)
        free(self.spare)
        if not self.ids.lent:
            free(self.ids.data)
        if self.block.data != NULL:
            self.pool.take_back(self.block)

    cdef int finish(self, Py_ssize_t number, Ids* ids) except -1 nogil:
        """Hand over the ids of part `number`, and copy parts that have a place.

        On return `ids` is an empty buffer for the thread's next part: one that has been copied already, or one without
        memory.
        """
        cdef Part part
        cdef bint has_part, is_copied
        with self.lock:
            make_room_for_part(self, number)
            store(&self.n_waiting, self.n_waiting + <Py_ssize_t>ids.n)
            self.parts[number & (self.ring_size - 1)] = Part(
                ids=ids[0], start=0, goes_to_target=False, is_encoded=True
            )
            ids[0] = Ids(data=NULL, n=0, capacity=0, lent=False)
            self.spare = <Ids*>grow_array(
                self.spare, &self.spare_capacity, self.n_spare + number - self.next_to_copy + self.n_copying + 2,
                sizeof(Ids),
            )
            has_part = take_part(self, &part, ids)
        while has_part:
            is_copied = False
            try:
                copy_part(self, &part)
                is_copied = True
            finally:
                with self.lock:
                    self.n_copying -= 1
                    store(&self.n_waiting, self.n_waiting - <Py_ssize_t>part.ids.n)
                    part.ids.n = 0
                    self.spare[self.n_spare] = part.ids
                    self.n_spare += 1
                    has_part = is_copied and take_part(self, &part, ids)
        return 0

    cdef object take_ids(self):
        """Return the ids of all parts as an array; every part must have been finished.

        Raises:
            ValueError: if they are more than the caller's array has room for.

        """
        if self.out is None:
            return as_array(&self.ids, self.pool, &self.block)
        if self.ids.n > self.ids.capacity:
            from bpe.errors import make_room_error
            raise make_room_error(self.ids.capacity, self.ids.n)
        return self.out[: self.ids.n]


cdef int make_room_for_part(OrderedIds output, Py_ssize_t number) except -1 nogil:
    """Make the ring large enough for a part."""
    cdef Py_ssize_t size = output.ring_size, i
    cdef Part* parts
    if number - output.next_to_copy < size:
        return 0
    while number - output.next_to_copy >= size:
        size *= 2
    parts = <Part*>check_allocated(calloc(size, sizeof(Part)), size, b"parts")
    for i in range(output.next_to_copy, output.next_to_copy + output.ring_size):
        parts[i & (size - 1)] = output.parts[i & (output.ring_size - 1)]
    free(output.parts)
    output.parts, output.ring_size = parts, size
    return 0


cdef bint take_part(OrderedIds output, Part* part, Ids* ids) except -1 nogil:
    """Take the next part to copy, while holding the lock; where there is none, an unused buffer into `ids`."""
    cdef Part* next_part
    place_parts(output)
    if output.next_to_copy == output.next_to_place:
        if output.n_spare:
            output.n_spare -= 1
            ids[0] = output.spare[output.n_spare]
        return False
    next_part = &output.parts[output.next_to_copy & (output.ring_size - 1)]
    part[0] = next_part[0]
    memset(next_part, 0, sizeof(Part))
    output.next_to_copy += 1
    output.n_copying += 1
    return True


cdef int place_parts(OrderedIds output) except -1 nogil:
    """Give a place to each encoded part before which all have one."""
    cdef Part* part = &output.parts[output.next_to_place & (output.ring_size - 1)]
    while part.is_encoded and output.next_to_place - output.next_to_copy < output.ring_size:
        if part.ids.n and output.max_ids:                  # a job without ids leaves the pool as it is
            reserve_large_output(&output.ids, output.pool, &output.block, output.max_ids)
            output.max_ids = 0
        if output.target is not None and place_in_target(output.target, part):
            output.next_to_place += 1
            part = &output.parts[output.next_to_place & (output.ring_size - 1)]
            continue
        part.start = <Py_ssize_t>output.ids.n
        if output.ids.n + part.ids.n > output.ids.capacity:
            if output.out is None:
                if output.n_copying or output.next_to_copy < output.next_to_place:
                    return 0                               # the last thread that copies comes here again
                reserve(&output.ids, part.ids.n)
            else:
                part.start = NO_ROOM
        output.ids.n += part.ids.n
        output.next_to_place += 1
        part = &output.parts[output.next_to_place & (output.ring_size - 1)]
    return 0


cdef bint place_in_target(IdTarget target, Part* part) noexcept nogil:
    """Give the next part a place in the target; False if it is full."""
    if load(&target.full) or target.n_ids + <Py_ssize_t>part.ids.n >= target.max_ids:
        store(&target.full, 1)
        return False
    part.start, part.goes_to_target = target.n_ids, True
    target.n_ids += part.ids.n
    return True


cdef int copy_part(OrderedIds output, const Part* part) except -1 nogil:
    """Copy a part's ids to their place."""
    cdef uint16_t* narrow = <uint16_t*>output.out_data + part.start
    cdef size_t i
    if part.start == NO_ROOM or part.ids.n == 0:
        return 0
    if part.goes_to_target:
        return output.target.write(part.start, part.ids.data, part.ids.n)
    if output.item_size == sizeof(uint16_t):
        for i in range(part.ids.n):
            narrow[i] = <uint16_t>part.ids.data[i]
    elif output.out_data != NULL:
        memcpy(<token_t*>output.out_data + part.start, part.ids.data, part.ids.n * sizeof(token_t))
    else:
        memcpy(output.ids.data + part.start, part.ids.data, part.ids.n * sizeof(token_t))
    return 0
