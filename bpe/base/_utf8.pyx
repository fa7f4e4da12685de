"""Convert the characters of a str to UTF-8 without the GIL, and validate the UTF-8 of text files.

`str.encode` would create an object while holding the GIL, and `PyUnicode_AsUTF8AndSize` would attach a second copy to
the str for its lifetime. Every function takes time linear in the text.
"""

import numpy as np

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t
from libc.string cimport memcpy

cdef extern from "bpe/base/_transcode.h" nogil:
    byte_t* bpe_transcode(const void* text, int width, size_t n, byte_t* out)
    void bpe_copy_padded(const byte_t* text, size_t n, byte_t* out)
    void bpe_use_level_transcode(int level)

cdef extern from "bpe/base/_utf8.h" nogil:
    size_t bpe_bad_utf8(const byte_t* text, size_t n)
    void bpe_use_level_utf8(int level)


cdef void use_level(int level) noexcept:
    bpe_use_level_utf8(level)
    bpe_use_level_transcode(level)


follow_vector_level(use_level)


cdef Py_ssize_t to_utf8(const CodeUnits* units, byte_t* out) noexcept nogil:
    """Write the UTF-8 to `out` and return its size; a surrogate pair is one character, a lone surrogate is U+FFFD."""
    return bpe_transcode(units.data, units.width, units.n, out) - out


cdef void copy_padded(const byte_t* text, size_t n, byte_t* out) noexcept nogil:
    """Copy a text and write UTF8_PADDING zeros after it."""
    bpe_copy_padded(text, n, out)


cdef bint is_utf8(const byte_t* text, size_t n) noexcept nogil:
    """Return whether a text is UTF-8 throughout."""
    return bpe_bad_utf8(text, n) >= n


cdef CodeUnits get_code_units_of_item(item) except *:
    """Return the characters of a str, or bytes as if they were ASCII."""
    if isinstance(item, str):
        return get_code_units(item)
    return CodeUnits(data=<const byte_t*><char*><bytes?>item, n=len(<bytes>item), width=0)


def join_utf8(list texts):
    """Return the UTF-8 of texts, str or bytes, one after the other: uint8, and its offsets: int64, shape (n + 1,).

    Each text is copied once: `str.encode` would make an object of each before they are joined.
    """
    cdef Py_ssize_t i = 0, n = len(texts), capacity = UTF8_PADDING, at = 0
    cdef CodeUnits units
    cdef object text                   # keeps the memory of `units`
    cdef byte_t[::1] out
    cdef int64_t[::1] ends
    for text in texts:
        units = get_code_units_of_item(text)
        capacity += max_utf8_size(&units)
    joined, offsets = np.empty(capacity, dtype=np.uint8), np.zeros(n + 1, dtype=np.int64)
    out, ends = joined, offsets
    for text in texts:
        units = get_code_units_of_item(text)
        if i == n or max_utf8_size(&units) > capacity - UTF8_PADDING - at:
            raise ValueError("the list of texts was changed while it was read; give each thread a list of its own")
        if units.width:
            at += to_utf8(&units, &out[at])
        elif units.n:
            memcpy(&out[at], units.data, units.n)
            at += units.n
        i += 1
        ends[i] = at
    return joined[:at], offsets[: i + 1]


def find_invalid_utf8(const byte_t[::1] text):
    """Return the position of the first sequence that is not UTF-8; -1 if there is none."""
    cdef size_t n = text.shape[0], at
    cdef const byte_t* data = &text[0] if n else NULL
    with nogil:
        at = bpe_bad_utf8(data, n)
    return at if at < n else -1
