"""The characters of a str, and their conversion to UTF-8."""

from bpe.base._types cimport byte_t
from libc.stdint cimport uint32_t

cdef enum:
    UTF8_PADDING = 64         # bytes that `to_utf8` may write after the size it returns

cdef struct CodeUnits:        # the characters of a str
    const byte_t* data
    Py_ssize_t n              # number of units
    int width                 # bytes of a unit: 1, 2 or 4; 0 for ASCII, whose units are its UTF-8


cdef CodeUnits get_code_units_of_item(item) except *

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    int PyUnicode_KIND(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    const void* PyUnicode_DATA(object text)


cdef inline CodeUnits get_code_units(text) noexcept:
    """Return the characters of a str, which must outlive the result."""
    cdef int width = 0 if PyUnicode_IS_ASCII(text) else PyUnicode_KIND(text)
    return CodeUnits(data=<const byte_t*>PyUnicode_DATA(text), n=PyUnicode_GET_LENGTH(text), width=width)


cdef inline Py_ssize_t max_utf8_size(const CodeUnits* units) noexcept nogil:
    """Return an upper bound of the size of the UTF-8 in bytes."""
    return units.n * (1 if units.width == 0 else 2 if units.width == 1 else 3 if units.width == 2 else 4)


cdef extern from "bpe/base/_transcode.h" nogil:
    uint32_t bpe_unit(const void* text, int width, size_t at)
    byte_t* bpe_write_character(byte_t* out, uint32_t code)  # returns the position after its UTF-8


cdef inline uint32_t get_code_unit(const CodeUnits* units, Py_ssize_t at) noexcept nogil:
    """Return a code point of a str that is not ASCII."""
    return bpe_unit(units.data, units.width, at)


cdef Py_ssize_t to_utf8(
    const CodeUnits* units,   # not ASCII
    byte_t* out,              # OUT (max_utf8_size(units) + UTF8_PADDING,)
) noexcept nogil

cdef void copy_padded(
    const byte_t* text,
    size_t n,
    byte_t* out,              # OUT (n + UTF8_PADDING,): the text, then zeros
) noexcept nogil

cdef bint is_utf8(const byte_t* text, size_t n) noexcept nogil
