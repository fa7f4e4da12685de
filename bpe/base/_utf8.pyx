"""The characters of a str as UTF-8, for threads that do not hold the GIL.

`str.encode` would make an object of it in the one thread that holds the GIL, and `PyUnicode_AsUTF8AndSize` a second
copy that lives as long as the str. And whether bytes are UTF-8, which must be known of text files. Not here: what
becomes of bytes that are not (`bpe/corpus/reading.py`).
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free, malloc

cdef extern from "bpe/base/_transcode.h" nogil:
    byte_t* bpe_transcode(const void* text, int width, size_t n, byte_t* out)
    void bpe_use_level_transcode(int level)

cdef extern from "bpe/base/_utf8.h" nogil:
    size_t bpe_bad_utf8(const byte_t* text, size_t n)
    void bpe_use_level_utf8(int level)

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    int PyUnicode_KIND(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    const void* PyUnicode_DATA(object text)


cdef void use_level(int level) noexcept:
    bpe_use_level_utf8(level)
    bpe_use_level_transcode(level)


follow_vector_level(use_level)


cdef Units units_of(text):
    """The characters of a str, which must live as long as they are used."""
    cdef Units units
    units.data = <const byte_t*>PyUnicode_DATA(text)
    units.n = PyUnicode_GET_LENGTH(text)
    units.width = 0 if PyUnicode_IS_ASCII(text) else PyUnicode_KIND(text)
    return units


cdef Py_ssize_t to_utf8(const Units* units, byte_t* out) noexcept nogil:
    """Write the characters; how many bytes they are. A surrogate pair is its character, a lone surrogate U+FFFD."""
    return bpe_transcode(units.data, units.width, units.n, out) - out


def utf8(str text):
    """The UTF-8 of a str that is not ASCII: for tests, `text.to_bytes` is the twin."""
    cdef Units units = units_of(text)
    cdef byte_t* out = <byte_t*>malloc(most_utf8(&units) + BEYOND)
    if out == NULL:
        raise MemoryError("no memory for the UTF-8 of a str")
    try:
        return PyBytes_FromStringAndSize(<char*>out, to_utf8(&units, out))
    finally:
        free(out)


def bad_utf8(const byte_t[::1] text):
    """The position of the first character that is not UTF-8; -1 if there is none."""
    cdef size_t n = text.shape[0], at
    cdef const byte_t* data = &text[0] if n else NULL
    with nogil:
        at = bpe_bad_utf8(data, n)
    return at if at < n else -1
