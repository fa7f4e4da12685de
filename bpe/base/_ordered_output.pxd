"""Collect the ids of parts, which several threads encode, in one array; see `_ordered_output.pyx`."""

cimport cython

from bpe.base._ids cimport Ids
from bpe.base._result_pool cimport MemoryBlock, ResultPool
from bpe.base._types cimport token_t

cdef struct Part:             # the ids of one part, until they are copied
    Ids ids
    Py_ssize_t start          # where they go in the array or the target; NO_ROOM for nowhere
    bint goes_to_target
    bint is_encoded


cdef class IdTarget:
    """Takes the ids of the first parts in place of an array; a subclass writes them somewhere."""

    # Parts are taken while all ids together stay below this. The first part that would reach it, and all later ones, go
    # to the array.
    cdef readonly Py_ssize_t max_ids
    cdef readonly Py_ssize_t n_ids     # of the parts that it takes
    cdef Py_ssize_t full               # 1 when it takes no more parts; read without a lock

    cdef int write(self, Py_ssize_t start, const token_t* ids, Py_ssize_t n) except -1 nogil


cdef class OrderedIds:
    """The array of a job's ids, and the encoded parts that are not in it yet."""

    cdef cython.pythread_type_lock lock
    cdef Part* parts          # a ring: part i is at i % ring_size
    cdef Py_ssize_t ring_size  # a power of two
    cdef Py_ssize_t next_to_copy, next_to_place
    cdef Py_ssize_t n_copying  # threads that copy a part
    cdef Py_ssize_t n_waiting  # ids of encoded parts that are not copied; read without a lock
    cdef Ids* spare           # unused buffers, for later parts
    cdef Py_ssize_t n_spare
    cdef size_t spare_capacity
    cdef Ids ids              # of the array; `n` counts those of all parts that have a place in it
    cdef size_t max_ids       # the ids that memory of the pool is to be taken for; 0 if it is not, or has been
    cdef ResultPool pool
    cdef MemoryBlock block    # the pool's memory that `ids` points into, if the result is large
    cdef IdTarget target      # or None
    cdef object out           # the caller's array that the ids are written to, or None
    cdef char* out_data
    cdef Py_ssize_t item_size  # bytes of an id in it

    cdef int finish(self, Py_ssize_t number, Ids* ids) except -1 nogil
    cdef object take_ids(self)
