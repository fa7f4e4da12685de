"""One array of ids that several threads write, part by part; `_delivery.pyx` says how."""

from bpe.base._ids cimport Ids
from bpe.base._result_pool cimport Block, ResultPool
from cpython.pythread cimport PyThread_type_lock

cdef struct Parcel:           # the ids of a part that is done
    Ids ids
    bint waiting


cdef class Delivery:
    """The result of a job, and what has not been put there yet."""

    cdef PyThread_type_lock lock
    cdef Parcel* parcels      # by number of the part
    cdef Py_ssize_t n_parts
    cdef Py_ssize_t next      # the part that is copied next
    cdef bint copying         # a thread copies it
    cdef Ids* spare           # buffers that nobody uses
    cdef Py_ssize_t n_spare
    cdef Ids ids
    cdef ResultPool pool
    cdef Block block          # which the ids lie in, if they are many

    cdef int finish(self, Py_ssize_t number, Ids* out) except -1 nogil
    cdef object taken(self)
