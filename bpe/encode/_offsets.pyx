"""Places of tokens that lie end to end in a text: in bytes, by adding up lengths; in characters, by counting.

Not here: text of which pretokens leave something out, or tokens that stand for other bytes than their own
(`bpe/encode/offsets.py`).
"""

import numpy as np

from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t, uint32_t


def in_bytes(
    const uint32_t[::1] ids,           # IN
    const uint32_t[::1] lengths,       # IN bytes of each token, by id
    int64_t start,                     # where the first one begins
):
    """Where each token begins and ends: int64, shape (n, 2)."""
    cdef Py_ssize_t n = ids.shape[0], i
    cdef size_t limit = lengths.shape[0]
    cdef uint32_t token
    spans = np.empty((n, 2), dtype=np.int64)
    cdef int64_t[:, ::1] span = spans
    with nogil:
        for i in range(n):
            span[i, 0] = start
            token = ids[i]
            start += lengths[token] if token < limit else 0    # which the encoder gives for no symbol
            span[i, 1] = start
    return spans


def to_characters(
    const byte_t[::1] text,            # IN UTF-8
    int64_t[:, ::1] span,              # IN places in the bytes, each from where the one before ends; OUT in characters
):
    """Turn places in bytes into places in characters. A token has each character that it has a byte of.

    A token that begins within a character has its number too: of `é` in two tokens, both are 0 to 1.
    """
    cdef Py_ssize_t n = span.shape[0], i, at = 0, end
    cdef Py_ssize_t size = text.shape[0] if span.shape[1] == 2 else 0
    cdef int64_t begun = 0             # characters whose first byte lies before `at`
    cdef bint within
    with nogil:
        for i in range(n):
            end = min(span[i, 1], size)
            within = at < end and text[at] & 0xC0 == 0x80
            span[i, 0] = begun - within
            while at < end:
                begun += text[at] & 0xC0 != 0x80
                at += 1
            span[i, 1] = begun
