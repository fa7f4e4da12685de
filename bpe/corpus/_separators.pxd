"""Search for separators in a text."""

from bpe.base._types cimport byte_t

cdef struct Needle:
    const byte_t* bytes
    Py_ssize_t size
    Py_ssize_t found          # its next occurrence; the end of the span if there is none


cdef Py_ssize_t find(const byte_t* text, Py_ssize_t start, Py_ssize_t end, const Needle* needle) noexcept nogil
