"""Scanners that read one character at a time: they return the end of the pretoken that starts at a position."""

from bpe.base._types cimport byte_t

ctypedef Py_ssize_t (*next_t)(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

cdef next_t next_of(int scanner) noexcept nogil
cdef next_t gap_of(int scanner) noexcept nogil
cdef Py_ssize_t contraction(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, bint any_case) noexcept nogil
cdef int clip_class_at(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil
cdef Py_ssize_t run_of(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int bits) noexcept nogil
cdef Py_ssize_t run_of_others(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t numbers(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int most) noexcept nogil
cdef Py_ssize_t next_cased_word(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
