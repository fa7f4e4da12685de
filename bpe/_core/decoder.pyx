"""Decoding: a gather of the tokens' bytes.

Not here: text, errors in it, incremental decoding (`bpe/decoding.py`).
"""

from bpe._core.types cimport byte_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy


def gather(
    const uint32_t[::1] ids,           # IN
    const byte_t[::1] blob,            # IN the bytes of all tokens
    const int64_t[::1] offsets,        # IN (limit + 1,): token i is blob[offsets[i]:offsets[i + 1]]
    const byte_t[::1] kinds,           # IN (limit,): 0 for an id that is no token
):
    """The tokens' bytes one after the other, or the index of the first id that is no token."""
    cdef Py_ssize_t n = ids.shape[0], i, total = 0, bad = -1
    cdef size_t limit = kinds.shape[0], size
    cdef byte_t* out
    if n == 0:
        return b""
    with nogil:
        for i in range(n):
            if ids[i] >= limit or kinds[ids[i]] == 0:
                bad = i
                break
            total += offsets[ids[i] + 1] - offsets[ids[i]]
    if bad >= 0:
        return bad
    data = PyBytes_FromStringAndSize(NULL, total)
    out = <byte_t*>PyBytes_AS_STRING(data)
    with nogil:
        for i in range(n):
            size = offsets[ids[i] + 1] - offsets[ids[i]]
            if size:
                memcpy(out, &blob[offsets[ids[i]]], size)
            out += size
    return data
