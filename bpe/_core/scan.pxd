"""Scanners: where the pretokens of a text begin and end, for the patterns that have one."""

from bpe._core.types cimport byte_t

cdef enum Scanner:
    WHOLE = 0          # the whole text is one pretoken
    GPT2 = 1
    CL100K = 2
    O200K = 3
    CLIP = 4
    WHITESPACE = 5

cdef Py_ssize_t scan(
    int scanner,
    const byte_t* text,        # IN
    Py_ssize_t* pos,           # IN the place to go on from, OUT the place reached
    Py_ssize_t end,            # IN where the text ends
    Py_ssize_t* starts,        # OUT (limit,)
    Py_ssize_t* ends,          # OUT (limit,)
    Py_ssize_t limit,
) noexcept nogil

cdef Py_ssize_t certain_start(int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
