"""Decoding: a gather of the tokens' bytes.

A token of at most 15 bytes is copied as 16, its own and what lies behind them in the table, which the next token's copy
writes over: one load and one store of a vector, whatever its length. The sizes are summed before, from an array of one
byte by token that stays in the cache, so that the result is allocated once.

Tried and dropped: no summing, and a result cut down to size in the end: no faster, and four times the memory for a
moment. Not here: text, errors in it, incremental decoding (`bpe/decoding.py`).
"""

import numpy as np

from bpe._core.pages cimport ask_for_huge_pages
from bpe._core.types cimport byte_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    CELL = 16                 # bytes of the table by token; the last is the token's size
    LONG = 255                # the size of a token of more than 15 bytes, which is not in the table


def token_table(
    const byte_t[::1] blob,            # IN the bytes of all tokens
    const int64_t[::1] offsets,        # IN (limit + 1,): token i is blob[offsets[i]:offsets[i + 1]]
):
    """The tables for `gather`: (uint8 cells, shape (limit, 16); uint8 sizes, shape (limit,)).

    A size of 0 is an id that is no token, one of 255 a token that is not in its cell.
    """
    cdef Py_ssize_t n = offsets.shape[0] - 1, i
    cdef int64_t size
    table = np.zeros((n, CELL), dtype=np.uint8)
    sizes = np.zeros(n, dtype=np.uint8)
    cdef byte_t[:, ::1] cells = table
    cdef byte_t[::1] known = sizes
    with nogil:
        for i in range(n):
            size = offsets[i + 1] - offsets[i]
            if size >= CELL:
                known[i] = LONG
            elif size > 0:
                known[i] = <byte_t>size
                memcpy(&cells[i, 0], &blob[offsets[i]], size)
            cells[i, CELL - 1] = known[i]
    return table, sizes


cdef inline int64_t size_of(uint32_t token, const byte_t[::1] sizes, const int64_t[::1] offsets) noexcept nogil:
    return sizes[token] if sizes[token] < LONG else offsets[token + 1] - offsets[token]


def gather(
    const uint32_t[::1] ids,           # IN
    const byte_t[:, ::1] cells,        # IN of `token_table`
    const byte_t[::1] sizes,           # IN of `token_table`
    const byte_t[::1] blob,            # IN the bytes of all tokens
    const int64_t[::1] offsets,        # IN (limit + 1,): token i is blob[offsets[i]:offsets[i + 1]]
):
    """The tokens' bytes one after the other, or the index of the first id that is no token."""
    cdef Py_ssize_t n = ids.shape[0], i, total = 0, bad = -1, size
    cdef size_t limit = sizes.shape[0]
    cdef const byte_t* cell
    cdef byte_t* out
    cdef byte_t* end
    if n == 0:
        return b""
    with nogil:
        for i in range(n):
            if ids[i] >= limit or sizes[ids[i]] == 0:
                bad = i
                break
            total += size_of(ids[i], sizes, offsets)
    if bad >= 0:
        return bad
    data = PyBytes_FromStringAndSize(NULL, total)
    out = <byte_t*>PyBytes_AS_STRING(data)
    end = out + total
    ask_for_huge_pages(out, total)
    with nogil:
        for i in range(n):
            cell = &cells[ids[i], 0]
            size = cell[CELL - 1]
            if size != LONG and end - out >= CELL:
                memcpy(out, cell, CELL)
            else:
                if size == LONG:
                    size = offsets[ids[i] + 1] - offsets[ids[i]]
                    cell = &blob[offsets[ids[i]]]
                memcpy(out, cell, size)
            out += size
    return data


def row_ends(
    const uint32_t[::1] ids,           # IN ids of tokens, all of them known
    const int64_t[::1] rows,           # IN (n + 1,): row i is ids[rows[i]:rows[i + 1]]
    const byte_t[::1] sizes,           # IN of `token_table`
    const int64_t[::1] offsets,        # IN of the tokens
):
    """Where the bytes of each row end in what `gather` gives: int64, shape (n,)."""
    cdef Py_ssize_t n = rows.shape[0] - 1, i, k
    cdef int64_t total = 0
    ends = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] end = ends
    with nogil:
        for i in range(n):
            for k in range(rows[i], rows[i + 1]):
                total += size_of(ids[k], sizes, offsets)
            end[i] = total
    return ends
