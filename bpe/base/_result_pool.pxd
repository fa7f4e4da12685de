"""Memory of large results, reused when they are freed; see `_result_pool.pyx`."""

from cpython.pythread cimport PyThread_type_lock

cdef struct MemoryBlock:
    void* data                # NULL: no memory
    size_t size               # in bytes


cdef class ResultPool:
    """Lend memory for results, and keep one freed block."""

    cdef PyThread_type_lock lock  # protects `block`
    cdef MemoryBlock block    # the kept block, which no result uses
    cdef size_t max_bytes     # limit of the memory that `block` takes, in bytes

    cdef MemoryBlock lend(self, size_t size) noexcept nogil
    cdef void take_back(self, MemoryBlock block) noexcept nogil
