"""Convert between the characters of a str and UTF-8 without the GIL, and validate the UTF-8 of text files.

`str.encode` and `bytes.decode` hold the GIL all the time, and `PyUnicode_AsUTF8AndSize` would attach a second copy to
the str for its lifetime. Every function takes time linear in the text.
"""

import numpy as np

from bpe.base._cpu cimport follow_vector_level
from bpe.base._pages cimport ask_for_huge_pages
from bpe.base._types cimport byte_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject** data, Py_ssize_t size) except -1
    object PyMemoryView_FromMemory(char* memory, Py_ssize_t size, int flags)
    int PyBUF_WRITE
    object PyUnicode_New(Py_ssize_t size, uint32_t max_char)

cdef extern from "bpe/base/_transcode.h" nogil:
    byte_t* bpe_transcode(const void* text, int width, size_t n, byte_t* out)
    void bpe_copy_padded(const byte_t* text, size_t n, byte_t* out)
    void bpe_use_level_transcode(int level)

cdef extern from "bpe/base/_utf8.h" nogil:
    size_t bpe_bad_utf8(const byte_t* text, size_t n)
    size_t bpe_count_characters(const byte_t* text, size_t n, uint32_t* max_char)
    void bpe_decode_utf8(const byte_t* text, size_t n, int width, void* out)
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


def encode_utf8(str text not None):
    """Encode a str as `to_utf8` does: bytes, written without the GIL."""
    cdef CodeUnits units = get_code_units(text)
    cdef Py_ssize_t size = max_utf8_size(&units)
    cdef PyObject* data
    cdef byte_t* out
    encoded = PyBytes_FromStringAndSize(NULL, size + (UTF8_PADDING if units.width else 0))
    out = <byte_t*>PyBytes_AS_STRING(encoded)
    with nogil:
        ask_for_huge_pages(out, size)
        if units.width:
            size = to_utf8(&units, out)
        else:
            memcpy(out, units.data, size)
    if not units.width:
        return encoded
    Py_INCREF(encoded)
    data, encoded = <PyObject*>encoded, None       # `_PyBytes_Resize` needs the only reference
    try:
        _PyBytes_Resize(&data, size)
        return <object>data
    finally:
        Py_XDECREF(data)


def decode_utf8(bytes data not None, errors):
    """Decode UTF-8 to a str, as `data.decode("utf-8", errors)` does; valid UTF-8 is decoded without the GIL."""
    cdef Py_ssize_t size = len(data), n_chars = 0
    cdef const byte_t* text = <const byte_t*><const char*>data
    cdef byte_t* out
    cdef bint is_valid
    cdef int width
    cdef uint32_t max_char = 0
    with nogil:
        n_chars = bpe_count_characters(text, size, &max_char)
        is_valid = max_char < 0x80 or is_utf8(text, size)
    if not is_valid or n_chars == 0 or type(errors) is not str:
        return data.decode("utf-8", errors)
    decoded = PyUnicode_New(n_chars, max_char)
    width, out = PyUnicode_KIND(decoded), <byte_t*>PyUnicode_DATA(decoded)
    with nogil:
        ask_for_huge_pages(out, n_chars * width)
        if max_char < 0x80:
            memcpy(out, text, size)
        else:
            bpe_decode_utf8(text, size, width, out)
    return decoded


def read_bytes(file not None, Py_ssize_t size):
    """Read the rest of a binary file of about `size` bytes: bytes, in huge pages where the system has them.

    Clearing new memory 4 KB at a time can take longer than reading: for 5.6 MB, 3.9 ms in all, here 1.3.
    """
    cdef Py_ssize_t n = 0, n_read = 0
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    ask_for_huge_pages(PyBytes_AS_STRING(data), size)
    with PyMemoryView_FromMemory(PyBytes_AS_STRING(data), size, PyBUF_WRITE) as memory:
        while n < size:
            with memory[n:] as unread:
                n_read = file.readinto(unread)
            if n_read <= 0:
                break
            n += n_read
    rest = file.read()
    return data if n == size and not rest else data[:n] + rest


def find_invalid_utf8(const byte_t[::1] text):
    """Return the position of the first sequence that is not UTF-8; -1 if there is none."""
    cdef size_t n = text.shape[0], at
    cdef const byte_t* data = &text[0] if n else NULL
    with nogil:
        at = bpe_bad_utf8(data, n)
    return at if at < n else -1
