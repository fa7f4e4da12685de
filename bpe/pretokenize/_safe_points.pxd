"""Safe split points of a text."""

from bpe.base._types cimport byte_t

cdef Py_ssize_t find_next_pretoken_split(int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t find_last_pretoken_split(
    int scanner, const byte_t* text, Py_ssize_t start, Py_ssize_t end
) noexcept nogil
