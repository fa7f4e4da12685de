"""Split texts into documents at separators and special tokens.

Each string is searched for with `memchr` and `memcmp`, and its next occurrence is kept until the split passes it. For
k strings that occur m times in n bytes the cost is O(k (n + m)), and one comparison for each occurrence of a string's
first byte. Not here: the choice of the strings (`bpe/corpus/blocks.py`, `bpe/vocab/special_tokens.py`) and safe split
points (`pretokenize/_safe_points.pyx`).
"""

import numpy as np

from bpe.base._bounds cimport check_spans
from bpe.base._interrupts cimport check_signals
from bpe.base._memory cimport grown
from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp

cdef extern from *:
    """
    #include <string.h>
    static const void* bpe_find_last_byte(const void* text, int byte, size_t size) {
    #ifdef __GLIBC__
        return memrchr(text, byte, size);
    #else
        const unsigned char* bytes = (const unsigned char*)text;
        while (size--)
            if (bytes[size] == (unsigned char)byte) return bytes + size;
        return NULL;
    #endif
    }
    """
    const void* find_last_byte "bpe_find_last_byte"(const void* text, int byte, size_t size) noexcept nogil

cdef enum:
    POLL_INTERVAL = 1 << 27   # bytes between two checks for signals

cdef struct Spans:            # the spans found: starts and ends, alternating
    int64_t* bounds
    size_t n
    size_t room


cdef Py_ssize_t find(const byte_t* text, Py_ssize_t start, Py_ssize_t end, const Needle* needle) noexcept nogil:
    """Return the first position of a needle in `text[start:end]`, or `end`."""
    cdef const byte_t* at
    cdef Py_ssize_t last = end - needle.size               # the last position where it may begin
    while start <= last:
        at = <const byte_t*>memchr(text + start, needle.bytes[0], last - start + 1)
        if at == NULL:
            return end
        if memcmp(at, needle.bytes, needle.size) == 0:
            return at - text
        start = at - text + 1
    return end


def find_last(const byte_t[::1] text, Py_ssize_t start, Py_ssize_t end, bytes string):
    """The last position of a string in `text[start:end]`; -1 if there is none, or the string is empty.

    `bytearray.rfind` reads byte by byte for two bytes or more, and holds the GIL: 45 ms for 110 MB of long documents;
    this takes 3 ms.
    """
    cdef Py_ssize_t size = len(string), at
    cdef const byte_t* wanted = string
    cdef const byte_t* found = NULL
    start, end = max(start, 0), min(end, text.shape[0])
    at = end - size                                        # the last position where it may begin
    if size == 0 or at < start:
        return -1
    with nogil:
        while at >= start:
            found = <const byte_t*>find_last_byte(&text[0] + start, wanted[0], at - start + 1)
            if found == NULL or memcmp(found, wanted, size) == 0:
                break
            at = found - &text[0] - 1
            found = NULL
    return -1 if found == NULL else found - &text[0]


cdef Needle* next_needle(
    Needle* needles, Py_ssize_t n, const byte_t* text, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    """Return the needle with the first occurrence at or after `start`, the longest one there; NULL if there is none."""
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


cdef int add_span(Spans* spans, Py_ssize_t start, Py_ssize_t end, bint empty) except -1 nogil:
    """Append a span; an empty one only with `empty`."""
    if empty or start < end:
        spans.bounds = <int64_t*>grown(spans.bounds, &spans.room, spans.n + 2, sizeof(int64_t))
        spans.bounds[spans.n] = start
        spans.bounds[spans.n + 1] = end
        spans.n += 2
    return 0


cdef int split_span(
    Spans* spans, const byte_t* text, Py_ssize_t start, Py_ssize_t end, Needle* needles, Py_ssize_t n,
    bint keep, bint empty
) except -1 nogil:
    """Append the spans between the needles in `text[start:end]`; with `keep`, each needle ends the span before it."""
    cdef Needle* needle
    cdef Py_ssize_t i, after, last_poll = start
    for i in range(n):
        needles[i].found = -1
    while True:
        needle = next_needle(needles, n, text, start, end)
        if needle == NULL:
            break
        after = needle.found + needle.size
        add_span(spans, start, after if keep else needle.found, empty)
        start = after
        if start - last_poll >= POLL_INTERVAL:             # a long text takes seconds
            check_signals()
            last_poll = start
    return add_span(spans, start, end, empty and not keep)


def split(
    const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends, list strings,
    bint keep=False, bint empty=False
):
    """Split spans of a text at every occurrence of some strings, from left to right; the longest string wins.

    Args:
        text: the text.
        starts, ends: the spans `text[starts[i]:ends[i]]` to split.
        strings: non-empty bytes to split at.
        keep: each string ends the span before it, instead of being dropped.
        empty: return empty spans too, as `bytes.split` does; with `keep` there is none after the last string.

    Returns:
        (starts, ends) of the spans between the strings, two int64 arrays.
    """
    cdef Py_ssize_t i, found, n = len(strings)
    cdef Spans spans
    cdef const byte_t* data
    cdef Needle* needles = <Needle*>malloc((n + 1) * sizeof(Needle))
    cdef bytes string
    cdef int64_t[::1] out_starts, out_ends
    if needles == NULL:
        raise MemoryError(f"no memory for {n} strings to split at")
    spans.bounds = NULL
    spans.n = spans.room = 0
    try:
        check_spans(starts, ends, text.shape[0])
        for i in range(n):
            string = strings[i]
            if not string:
                raise ValueError("a string to split at is empty; it must have at least one byte")
            needles[i].bytes = string
            needles[i].size = len(string)
        data = &text[0] if text.shape[0] else NULL
        with nogil:
            for i in range(starts.shape[0]):
                split_span(&spans, data, starts[i], ends[i], needles, n, keep, empty)
        found = spans.n // 2
        found_starts, found_ends = np.empty(found, dtype=np.int64), np.empty(found, dtype=np.int64)
        out_starts, out_ends = found_starts, found_ends
        for i in range(found):
            out_starts[i] = spans.bounds[2 * i]
            out_ends[i] = spans.bounds[2 * i + 1]
        return found_starts, found_ends
    finally:
        free(needles)
        free(spans.bounds)
