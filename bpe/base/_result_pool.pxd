"""Memory of large results, and of a freed one for the next; `_result_pool.pyx` says how."""

from cpython.pythread cimport PyThread_type_lock

cdef struct Block:
    void* data                # NULL where there is none
    size_t size               # in bytes


cdef class ResultPool:
    """Lends memory for results, and keeps what comes back."""

    cdef PyThread_type_lock lock  # of the block
    cdef Block block          # that nobody uses
    cdef size_t most          # bytes of it that may have pages

    cdef Block lend(self, size_t size) noexcept nogil
    cdef void take_back(self, Block block) noexcept nogil
