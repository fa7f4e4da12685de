"""Reading one column of the rows of CSV without creating objects."""

from bpe.base._types cimport byte_t

cdef enum RowKind:            # what `read_row` returns in place of a size
    UNUSUAL_ROW = -1          # one that the standard library must read
    EMPTY_ROW = -2            # a line without text

cdef struct RowCursor:
    const byte_t* at          # the next row
    const byte_t* end         # of the text
    const byte_t* line_end    # the first newline after `at`, if that is known
    bint has_returns          # whether the text has carriage returns


cdef class RowDialect:
    cdef byte_t delimiter
    cdef bint has_quotes               # fields may be in quotation marks
    cdef bint may_swallow_rows         # a row whose lines seem to be rows is unusual
    cdef Py_ssize_t max_row_bytes      # of a row that is not refused
    cdef bint requires_utf8            # a text that is not UTF-8 makes its row unusual

    cdef Py_ssize_t find_last_row(self, const byte_t* text, Py_ssize_t start, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t read_row(
        self, RowCursor* rows, Py_ssize_t wanted, Py_ssize_t n_columns, bint is_valid, byte_t* out
    ) noexcept nogil
    cdef Py_ssize_t read_fields(
        self, RowCursor* rows, Py_ssize_t wanted, Py_ssize_t n_columns, byte_t* out
    ) noexcept nogil


cdef RowCursor open_rows(const byte_t* text, Py_ssize_t n) noexcept nogil
