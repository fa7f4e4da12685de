"""Documents within a text: cutting it at separators and special tokens.

Not here: which strings separate (`bpe/corpus/blocks.py`, `bpe/vocab/special_tokens.py`), what is done with the
documents, and places where a text may be cut without changing its pretokens (`pretokenize/_safe_points.pyx`).
"""

import numpy as np

from bpe.base._bounds cimport check_spans
from bpe.base._interrupts cimport check_signals
from bpe.base._memory cimport grown
from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp

cdef enum:
    FAR = 1 << 27             # bytes between two looks for signals

cdef struct Pieces:           # what has been found: (start, end) after (start, end)
    int64_t* bounds
    size_t n
    size_t room


cdef Py_ssize_t find(const byte_t* text, Py_ssize_t start, Py_ssize_t end, const Needle* needle) noexcept nogil:
    """Where a needle begins in `text[start:end]`, or `end`."""
    cdef const byte_t* at
    cdef Py_ssize_t last = end - needle.size           # the last place where it may begin
    while start <= last:
        at = <const byte_t*>memchr(text + start, needle.bytes[0], last - start + 1)
        if at == NULL:
            return end
        if memcmp(at, needle.bytes, needle.size) == 0:
            return at - text
        start = at - text + 1
    return end


cdef Needle* next_of(
    Needle* needles, Py_ssize_t n, const byte_t* text, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    """The needle that occurs first at or after `start`, the longest of those that begin at one place; NULL if none."""
    cdef Needle* first = NULL
    cdef Py_ssize_t i
    for i in range(n):
        if needles[i].found < start:
            needles[i].found = find(text, start, end, &needles[i])
        if needles[i].found >= end:
            continue
        if (
            first == NULL or needles[i].found < first.found
            or (needles[i].found == first.found and needles[i].size > first.size)
        ):
            first = &needles[i]
    return first


cdef int add(Pieces* pieces, Py_ssize_t start, Py_ssize_t end, bint empty) except -1 nogil:
    """Add a piece; one that is empty only with `empty`."""
    if empty or start < end:
        pieces.bounds = <int64_t*>grown(pieces.bounds, &pieces.room, pieces.n + 2, sizeof(int64_t))
        pieces.bounds[pieces.n] = start
        pieces.bounds[pieces.n + 1] = end
        pieces.n += 2
    return 0


cdef int cut(
    Pieces* pieces, const byte_t* text, Py_ssize_t start, Py_ssize_t end, Needle* needles, Py_ssize_t n,
    bint keep, bint empty
) except -1 nogil:
    """Add what lies between the needles in `text[start:end]`; with `keep`, each needle ends the piece before it."""
    cdef Needle* needle
    cdef Py_ssize_t i, behind, heard = start
    for i in range(n):
        needles[i].found = -1
    while True:
        needle = next_of(needles, n, text, start, end)
        if needle == NULL:
            break
        behind = needle.found + needle.size
        add(pieces, start, behind if keep else needle.found, empty)
        start = behind
        if start - heard >= FAR:                           # a file may come slowly
            check_signals()
            heard = start
    return add(pieces, start, end, empty and not keep)


def split(
    const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends, list strings,
    bint keep=False, bint empty=False
):
    """Cut pieces of a text at every occurrence of some strings, from left to right, at one place the longest.

    `text[starts[i]:ends[i]]` are the pieces, `strings` bytes, none empty. Answers (starts, ends) of what lies between
    them, two int64 arrays, empty ones left out; with `keep` each string belongs to the piece before it. With `empty`
    those between are there too, as in `bytes.split`; but where strings are kept there are none, as in a file's lines.
    """
    cdef Py_ssize_t i, found, n = len(strings)
    cdef Pieces pieces
    cdef const byte_t* data
    cdef Needle* needles = <Needle*>malloc((n + 1) * sizeof(Needle))
    cdef bytes string
    cdef int64_t[::1] out_starts, out_ends
    if needles == NULL:
        raise MemoryError(f"no memory for {n} strings to cut at")
    pieces.bounds = NULL
    pieces.n = pieces.room = 0
    try:
        check_spans(starts, ends, text.shape[0])
        for i in range(n):
            string = strings[i]
            if not string:
                raise ValueError("a string to cut at is empty; it must have at least one byte")
            needles[i].bytes = string
            needles[i].size = len(string)
        data = &text[0] if text.shape[0] else NULL
        with nogil:
            for i in range(starts.shape[0]):
                cut(&pieces, data, starts[i], ends[i], needles, n, keep, empty)
        found = pieces.n // 2
        found_starts, found_ends = np.empty(found, dtype=np.int64), np.empty(found, dtype=np.int64)
        out_starts, out_ends = found_starts, found_ends
        for i in range(found):
            out_starts[i] = pieces.bounds[2 * i]
            out_ends[i] = pieces.bounds[2 * i + 1]
        return found_starts, found_ends
    finally:
        free(needles)
        free(pieces.bounds)
