"""Offsets of tokens that are adjacent in a text: in bytes, by adding up lengths; in characters, by counting.

Pretokens that leave out text, and tokens whose bytes differ from the text's: `offsets.py`.
"""

import numpy as np

from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t, uint32_t


def locate_in_bytes(
    const uint32_t[::1] ids,           # IN
    const uint32_t[::1] lengths,       # IN bytes of each token, by id
    int64_t start,                     # of the first one
):
    """Compute the start and end of each token: int64, shape (n, 2)."""
    cdef Py_ssize_t n = ids.shape[0], i
    cdef size_t limit = lengths.shape[0]
    cdef uint32_t token
    spans = np.empty((n, 2), dtype=np.int64)
    cdef int64_t[:, ::1] span = spans
    with nogil:
        for i in range(n):
            span[i, 0] = start
            token = ids[i]
            start += lengths[token] if token < limit else 0    # NO_TOKEN has no bytes
            span[i, 1] = start
    return spans


def convert_to_characters(
    const byte_t[::1] text,            # IN UTF-8
    int64_t[:, ::1] span,              # IN in bytes, each starting where the previous one ends; OUT in characters
):
    """Convert spans of bytes to spans of characters. A token covers each character of which it has a byte.

    Example: if `é` is two tokens of one byte each, the span of both is 0 to 1.
    """
    cdef Py_ssize_t n = span.shape[0], i, position = 0, end
    cdef Py_ssize_t size = text.shape[0] if span.shape[1] == 2 else 0
    cdef int64_t n_chars = 0           # characters that start before `position`
    cdef bint is_within
    with nogil:
        for i in range(n):
            end = min(span[i, 1], size)
            is_within = position < end and text[position] & 0xC0 == 0x80
            span[i, 0] = n_chars - is_within
            while position < end:
                n_chars += text[position] & 0xC0 != 0x80
                position += 1
            span[i, 1] = n_chars


def number_words(
    const int64_t[:, ::1] span,        # IN in bytes, each starting where the previous one ends
    const int64_t[::1] starts,         # IN of the pretokens
    const int64_t[::1] ends,           # IN
    int64_t size,                      # of the text
):
    """Number the pretoken that each token begins in: int64; None if the pretokens are not the whole text."""
    cdef Py_ssize_t n = span.shape[0] if span.shape[1] == 2 else 0, n_words = min(starts.shape[0], ends.shape[0]), i
    cdef Py_ssize_t word = 0
    cdef int64_t position = 0
    cdef bint is_whole = True
    word_numbers = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] word_number = word_numbers
    with nogil:
        for i in range(n_words):
            is_whole = is_whole and starts[i] == position and ends[i] > position
            position = ends[i]
        is_whole = is_whole and position == size
        for i in range(n):
            while word < n_words and ends[word] <= span[i, 0]:
                word += 1
            word_number[i] = word
    return word_numbers if is_whole else None
