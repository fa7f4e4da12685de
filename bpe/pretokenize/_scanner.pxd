"""Scanners: find the pretokens of a text, for the patterns that have a scanner."""

from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport Cursor
from libc.stdint cimport uint32_t

cdef enum:
    MIN_ROOM = 64         # room for the pretokens of one block, the least that a scan of blocks needs
    MAX_SPAN = 1 << 30    # the pretokens of one call begin within this many bytes

cdef void open_cursor(Cursor* cursor, int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

cdef Py_ssize_t scan_bounds(
    Cursor* cursor,
    uint32_t* bounds,          # OUT (limit + 1,)
    Py_ssize_t limit,          # at least MIN_ROOM
) noexcept nogil

cdef Py_ssize_t scan(
    Cursor* cursor,
    Py_ssize_t* starts,        # OUT (limit,)
    Py_ssize_t* ends,          # OUT (limit,)
    Py_ssize_t limit,          # below MIN_ROOM the text is read one character at a time
) noexcept nogil
