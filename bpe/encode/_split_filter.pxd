"""The split filter: which adjacent characters of three bytes no token contains together."""

from bpe.base._types cimport byte_t
from libc.stdint cimport uint16_t, uint32_t

cdef extern from "bpe/encode/_split_filter.h" nogil:
    ctypedef struct SplitTables "bpe_split_tables":
        const uint32_t* bits      # NULL if nothing may be split
        int shift
        uint16_t ends[64]
    bint filter_allows_split "bpe_filter_allows_split"(const SplitTables* splits, const byte_t* at)


cdef inline bint is_three_byte_char(const byte_t* text) noexcept nogil:
    """Whether a character of three bytes starts at this address."""
    return text[0] & 0xF0 == 0xE0 and text[1] & 0xC0 == 0x80 and text[2] & 0xC0 == 0x80


cdef inline bint are_three_byte_chars(const byte_t* text) noexcept nogil:
    """Whether two characters of three bytes each start at this address."""
    return is_three_byte_char(text) and is_three_byte_char(text + 3)


cdef Py_ssize_t find_first_unjoined(
    const SplitTables* splits, const byte_t* text, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil
cdef Py_ssize_t find_last_unjoined(
    const SplitTables* splits, const byte_t* text, Py_ssize_t start, Py_ssize_t end
) noexcept nogil


cdef class SplitFilter:
    """The split filter's tables and their memory."""

    cdef SplitTables tables
    cdef uint32_t[::1] cells
    cdef Py_ssize_t n_free_bits  # bits that may still be set; at 0 the filter is given up
