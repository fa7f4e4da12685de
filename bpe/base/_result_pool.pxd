"""Memory of large results, and of freed ones for the next; `_result_pool.pyx` says how."""

from bpe.base._prefault cimport Fresh
from cpython.pythread cimport PyThread_type_lock

cdef struct Loan:             # memory that a result is written to
    char* data                # NULL where there is none
    size_t size


cdef class ResultPool:
    """Lends memory for results, and keeps some of what comes back."""

    cdef PyThread_type_lock lock  # of the pages
    cdef char** pages         # of 2 MB, that nobody uses
    cdef size_t n
    cdef size_t most          # that are kept
    cdef size_t room          # of the list

    cdef bint allow(self, size_t before, size_t now) noexcept nogil
    cdef bint lend(self, Loan* loan, size_t size, Fresh* fresh) noexcept nogil
    cdef Py_ssize_t move_into(self, char* data, size_t most) noexcept nogil
    cdef void take_back(self, Loan* loan, size_t used, size_t touched) noexcept nogil
    cdef size_t keep(self, char* first, size_t n) noexcept nogil
