"""Collect the ids of parts, which several threads encode, in one array; see `_ordered_output.pyx`."""

cimport cython

from bpe.base._ids cimport Ids
from bpe.base._result_pool cimport Block, ResultPool

cdef struct Part:           # the result of one part
    Ids ids                   # empty until the part is encoded
    bint waiting              # encoded; stays set after the copy


cdef class OrderedIds:
    """The array of a job's ids, and the encoded parts that are not in it yet."""

    cdef cython.pythread_type_lock lock
    cdef Part* parts          # one for each part
    cdef Py_ssize_t n_parts
    cdef Py_ssize_t next      # the part to copy next
    cdef bint copying         # a thread is copying that part
    cdef Ids* spare           # unused buffers, for later parts
    cdef Py_ssize_t n_spare
    cdef Ids ids
    cdef size_t max_ids       # the ids that memory of the pool is to be taken for; 0 if it is not, or has been
    cdef ResultPool pool
    cdef Block block          # the pool's memory that `ids` points into, if the result is large

    cdef int finish(self, Py_ssize_t number, Ids* out) except -1 nogil
    cdef bint begin_copy(self) noexcept nogil
    cdef object take_ids(self)
