"""Collect the ids of parts, which several threads encode, in one array; see `_ordered_output.pyx`."""

cimport cython

from bpe.base._ids cimport Ids
from bpe.base._result_pool cimport Block, ResultPool

cdef struct Part:             # the ids of one part, until they are copied
    Ids ids
    Py_ssize_t start          # where they go in the array; NO_ROOM for nowhere
    bint is_encoded


cdef class OrderedIds:
    """The array of a job's ids, and the encoded parts that are not in it yet."""

    cdef cython.pythread_type_lock lock
    cdef Part* parts          # a ring: part i is at i % ring_size
    cdef Py_ssize_t ring_size  # a power of two
    cdef Py_ssize_t next_to_copy, next_to_place
    cdef Py_ssize_t n_copying  # threads that copy a part
    cdef Ids* spare           # unused buffers, for later parts
    cdef Py_ssize_t n_spare
    cdef size_t spare_capacity
    cdef Ids ids              # `n` counts the ids of all parts that have a place
    cdef size_t max_ids       # the ids that memory of the pool is to be taken for; 0 if it is not, or has been
    cdef ResultPool pool
    cdef Block block          # the pool's memory that `ids` points into, if the result is large
    cdef object out           # the caller's array that the ids are written to, or None
    cdef char* out_data
    cdef Py_ssize_t item_size  # bytes of an id in it

    cdef int finish(self, Py_ssize_t number, Ids* ids) except -1 nogil
    cdef object take_ids(self)
