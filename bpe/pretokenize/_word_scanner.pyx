"""Scanners of the patterns for words of the two superword pretokenizers (`patterns.py`).

The first is the paper's: words, and numbers in groups of three digits from the right; the second, `cased`, is o200k's
pattern without contractions. Texts cannot be cut at the safe split points of other patterns, so lines are scanned
whole. A line that has a non-ASCII number, or a character whose class depends on the Unicode version, is left to the
`regex` package. Cost: linear.
"""

import numpy as np

from bpe.base._bounds cimport check_spans
from bpe.base._types cimport byte_t
from bpe.pretokenize._char_scanner cimport find_cased_word_pretoken_end, skip_others, skip_run
from bpe.text._unicode cimport LETTER, NEW, NUMBER, SPACE, get_class_at
from libc.stdint cimport int64_t


cdef inline bint is_doubtful(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Whether a text has a character that only the `regex` package can decide on."""
    cdef Py_ssize_t length
    cdef int bits
    while pos < end:
        if text[pos] < 0x80:
            pos += 1
            continue
        bits = get_class_at(text, pos, end, &length)
        if bits == 0 or bits & (NEW | NUMBER):
            return True
        pos += length
    return False


cdef inline Py_ssize_t skip_digits(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    while pos < end and <byte_t>(text[pos] - c"0") < 10:
        pos += 1
    return pos


cdef inline Py_ssize_t find_word_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of ` ?\\p{L}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?![^\\s\\p{N}])|\\s+` at `pos`, which has no number."""
    cdef Py_ssize_t length, position = pos, last_space = pos
    cdef int bits
    if text[pos] == c" " and pos + 1 < end:
        position = pos + 1
    bits = get_class_at(text, position, end, &length)
    if bits & LETTER:
        return skip_run(text, position, end, LETTER)
    if not bits & (NUMBER | SPACE):
        return skip_others(text, position, end)
    position = pos
    bits = get_class_at(text, position, end, &length)
    while bits & SPACE:
        last_space = position
        position += length
        bits = get_class_at(text, position, end, &length)
    return position if position == end or bits & NUMBER or last_space == pos else last_space


cdef Py_ssize_t scan_words(
    bint cased, const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int64_t* starts, int64_t* ends
) noexcept nogil:
    """Write the pretokens of a text; returns their number."""
    cdef Py_ssize_t n = 0, digits_end
    while pos < end:
        digits_end = pos if cased else skip_digits(text, pos, end)
        if digits_end == pos:
            starts[n] = pos
            pos = find_cased_word_pretoken_end(text, pos, end) if cased else find_word_end(text, pos, end)
            ends[n] = pos
            n += 1
        while pos < digits_end:                            # the first group has what is left over
            starts[n] = pos
            pos += (digits_end - pos - 1) % 3 + 1
            ends[n] = pos
            n += 1
    return n


def find_spans(bint cased, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends):
    """Find the pretokens of the texts `text[starts[i]:ends[i]]`.

    Returns:
        Their starts and their ends, and the numbers of the texts that are left to the `regex` package: int64 arrays.

    """
    cdef Py_ssize_t i, n = 0, n_doubtful = 0, max_words = 1
    check_spans(starts, ends, text.shape[0])
    for i in range(starts.shape[0]):
        max_words += ends[i] - starts[i]                        # each pretoken has a byte of its own
    all_starts, all_ends = np.empty(max_words, np.int64), np.empty(max_words, np.int64)
    doubtful = np.empty(starts.shape[0], np.int64)
    cdef int64_t[::1] start_view = all_starts, end_view = all_ends, doubtful_view = doubtful
    with nogil:
        for i in range(starts.shape[0]):
            if is_doubtful(&text[0], starts[i], ends[i]):
                doubtful_view[n_doubtful] = i
                n_doubtful += 1
            else:
                n += scan_words(cased, &text[0], starts[i], ends[i], &start_view[n], &end_view[n])
    return all_starts[:n].copy(), all_ends[:n].copy(), doubtful[:n_doubtful]
