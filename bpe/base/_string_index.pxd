"""Finding a string among many by its bytes."""

cimport cython

from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t, uint64_t


@cython.final
cdef class StringIndex:
    """A hash table of strings: string i is `blob[offsets[i]:offsets[i + 1]]`. Those that are entered are found."""

    cdef uint64_t* slots      # upper half of the hash << 32 | index of a string + 1; 0 if empty
    cdef size_t mask
    cdef const byte_t[::1] blob
    cdef const int64_t[::1] offsets

    cdef size_t slot_of(self, const byte_t* string, Py_ssize_t size, uint64_t hashed) noexcept nogil
    cdef uint64_t hash_of(self, Py_ssize_t i) noexcept nogil
    cdef bint enter_hashed(self, Py_ssize_t i, uint64_t hashed) noexcept nogil
    cdef bint enter(self, Py_ssize_t i) noexcept nogil
    cdef bint enter_first(self, Py_ssize_t n) noexcept nogil
    cdef bint is_string(self, Py_ssize_t i, const byte_t* string, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t find(self, const byte_t* string, Py_ssize_t size) noexcept nogil
    cdef void prefetch_slot(self, uint64_t hashed) noexcept nogil
    cdef Py_ssize_t find_hashed(self, const byte_t* string, Py_ssize_t size, uint64_t hashed) noexcept nogil
