"""Scanners of the superword patterns (`patterns.py`), which group digits from the right or cut little else.

Their pretokens may have white space after letters, so texts cannot be cut at the safe split points of other patterns;
lines are scanned whole. A line that has a non-ASCII number, or a character whose class depends on the Unicode version,
is left to the `regex` package. Cost: linear.
"""

import numpy as np

from bpe.base._bounds cimport check_spans
from bpe.base._types cimport byte_t
from bpe.pretokenize._char_scanner cimport next_cased_word, numbers, run_of, run_of_others
from bpe.text._unicode cimport LETTER, NEW, NUMBER, SPACE, class_at
from libc.stdint cimport int64_t

cdef enum Unit:
    WORDS = 0                 # stage 1 of the paper: words, and numbers in groups of three digits
    NUMBERS = 1               # its stage 2: such numbers, and the text between them
    SIGNS = 2                 # stage 2 of the newer pattern: numbers, runs of signs and of spaces, and the text between
    CASED_WORDS = 3           # its stage 1: o200k's pattern without contractions


cdef inline bint is_doubtful(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Whether a text has a character that only the `regex` package can decide on."""
    cdef Py_ssize_t length
    cdef int bits
    while pos < end:
        if text[pos] < 0x80:
            pos += 1
            continue
        bits = class_at(text, pos, end, &length)
        if bits == 0 or bits & (NEW | NUMBER):
            return True
        pos += length
    return False


cdef inline Py_ssize_t digits(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    while pos < end and <byte_t>(text[pos] - c"0") < 10:
        pos += 1
    return pos


cdef inline Py_ssize_t next_word(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of ` ?\\p{L}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?![^\\s\\p{N}])|\\s+` at `pos`, which has no number."""
    cdef Py_ssize_t length, at = pos, last = pos
    cdef int bits
    if text[pos] == c" " and pos + 1 < end:
        at = pos + 1
    bits = class_at(text, at, end, &length)
    if bits & LETTER:
        return run_of(text, at, end, LETTER)
    if not bits & (NUMBER | SPACE):
        return run_of_others(text, at, end)
    at = pos
    bits = class_at(text, at, end, &length)
    while bits & SPACE:
        last = at
        at += length
        bits = class_at(text, at, end, &length)
    return at if at == end or bits & NUMBER or last == pos else last


cdef inline Py_ssize_t next_signs(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of `\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]{2,}[\\r\\n/]*| +(?!\\S)` at `pos`, or `pos`."""
    cdef Py_ssize_t length, at = pos, after
    cdef int bits = class_at(text, pos, end, &length)
    if bits & NUMBER:
        return numbers(text, pos, end, 3)
    if bits & LETTER:
        return pos
    if text[pos] == c" ":
        at = pos + 1
    after = run_of_others(text, at, end)
    if after > at:
        class_at(text, at, end, &length)
        if after > at + length:
            while after < end and (text[after] == c"\r" or text[after] == c"\n" or text[after] == c"/"):
                after += 1
            return after
    if text[pos] != c" ":
        return pos
    while at < end and text[at] == c" ":
        at += 1
    if at == end or class_at(text, at, end, &length) & SPACE:
        return at
    return at - 1


cdef Py_ssize_t scan_units(
    int unit, const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int64_t* starts, int64_t* ends
) noexcept nogil:
    """Write the pretokens of a text; returns their number."""
    cdef Py_ssize_t n = 0, gap = pos, at, length
    while pos < end:
        if unit <= NUMBERS and <byte_t>(text[pos] - c"0") < 10:
            at = digits(text, pos, end)
            while pos < at:                                # the first group has what is left over
                starts[n] = pos
                pos += (at - pos - 1) % 3 + 1
                ends[n] = pos
                n += 1
            gap = pos
            continue
        if unit == WORDS or unit == CASED_WORDS:
            starts[n] = pos
            pos = next_word(text, pos, end) if unit == WORDS else next_cased_word(text, pos, end)
            ends[n] = pos
            n += 1
            continue
        at = next_signs(text, pos, end) if unit == SIGNS else pos
        if at == pos:                                      # between matches
            class_at(text, pos, end, &length)
            pos += length
            if pos < end and (unit == SIGNS or <byte_t>(text[pos] - c"0") >= 10):
                continue
            starts[n], ends[n] = gap, pos
            n += 1
            continue
        if gap < pos:
            starts[n], ends[n] = gap, pos
            n += 1
        starts[n], ends[n] = pos, at
        n += 1
        pos = gap = at
    return n


def spans(int unit, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends):
    """The pretokens of the texts `text[starts[i]:ends[i]]`.

    Returns:
        Their starts and their ends, and the numbers of the texts that are left to the `regex` package: int64 arrays.

    """
    cdef Py_ssize_t i, n = 0, n_doubtful = 0, most = 1
    if not 0 <= unit <= CASED_WORDS:
        raise ValueError(f"unit is {unit}; it must be from 0 to 3")
    check_spans(starts, ends, text.shape[0], False)
    for i in range(starts.shape[0]):
        most += ends[i] - starts[i]                        # each pretoken has a byte of its own
    found_starts, found_ends = np.empty(most, np.int64), np.empty(most, np.int64)
    doubtful = np.empty(starts.shape[0], np.int64)
    cdef int64_t[::1] begins = found_starts, finishes = found_ends, left = doubtful
    with nogil:
        for i in range(starts.shape[0]):
            if is_doubtful(&text[0], starts[i], ends[i]):
                left[n_doubtful] = i
                n_doubtful += 1
            else:
                n += scan_units(unit, &text[0], starts[i], ends[i], &begins[n], &finishes[n])
    return found_starts[:n].copy(), found_ends[:n].copy(), doubtful[:n_doubtful]
