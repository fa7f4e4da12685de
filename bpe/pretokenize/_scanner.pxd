"""Scanners: where the pretokens of a text begin and end, for the patterns that have one."""

from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport Cursor
from libc.stdint cimport uint32_t

cdef enum:
    LEAST = 64         # what scanning takes room for: the pretokens of a window
    FAR = 1 << 30      # one call's pretokens begin within so many bytes

cdef void begin(Cursor* cursor, int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

cdef Py_ssize_t scan_bounds(
    Cursor* cursor,
    uint32_t* bounds,          # OUT (limit + 1,)
    Py_ssize_t limit,          # at least LEAST
) noexcept nogil

cdef Py_ssize_t scan(
    Cursor* cursor,
    Py_ssize_t* starts,        # OUT (limit,)
    Py_ssize_t* ends,          # OUT (limit,)
    Py_ssize_t limit,          # below LEAST the text is read a character at a time
) noexcept nogil
