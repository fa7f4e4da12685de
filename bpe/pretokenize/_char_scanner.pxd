"""Scanners that read one character at a time: they return the end of the pretoken that starts at a position."""

from bpe.base._types cimport byte_t
from bpe.text._unicode cimport LETTER, NUMBER, SPACE, get_class_at

ctypedef Py_ssize_t (*find_end_t)(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

cdef find_end_t get_find_end(int scanner) noexcept nogil
cdef find_end_t get_skip_gap(int scanner) noexcept nogil
cdef Py_ssize_t match_contraction(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, bint any_case) noexcept nogil
cdef int get_clip_class_at(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil
cdef Py_ssize_t find_cased_word_pretoken_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil


# Runs -----------------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t skip_run(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int bits) noexcept nogil:
    """Return the end of a run of characters that have any of `bits`."""
    cdef Py_ssize_t length
    while get_class_at(text, pos, end, &length) & bits:
        pos += length
    return pos


cdef inline Py_ssize_t skip_others(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of a run of `[^\\s\\p{L}\\p{N}]`."""
    cdef Py_ssize_t length
    cdef int bits
    while pos < end:
        bits = get_class_at(text, pos, end, &length)
        if bits & (LETTER | NUMBER | SPACE):
            break
        pos += length
    return pos


cdef inline Py_ssize_t skip_numbers(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int max_numbers) noexcept nogil:
    """Return the end of a run of at most `max_numbers` numbers."""
    cdef Py_ssize_t length
    while max_numbers > 0 and get_class_at(text, pos, end, &length) & NUMBER:
        pos += length
        max_numbers -= 1
    return pos
