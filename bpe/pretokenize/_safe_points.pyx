"""Safe split points: positions where a text can be split so that its parts have the pretokens of the whole text.

Streams and threads split texts there. There are two kinds:

- Before white space that follows a letter. No pretoken contains a letter followed by white space, and no look-ahead
  reaches across a letter. Only white space of ASCII is found.
- Before a letter that follows a single newline, if no white space precedes the newline; these serve texts without
  spaces. No pretoken contains a newline followed by a letter, and a single newline is the same pretoken, or ends the
  same pretoken, at the end of a text.

The scanners of U+2581 (METASPACE, SPACE_RUNS) have another rule: before a U+2581 that follows another character.

Cost: linear in the distance to the point found; nearly all positions take four comparisons. Split points within
pretokens: `encode/_split_filter.pyx`.
"""

from bpe.base._types cimport byte_t
from bpe.pretokenize._patterns cimport METASPACE, SPACE_RUNS, WHOLE_TEXT, is_metaspace
from bpe.text._unicode cimport LETTER, SPACE, get_class_at

cdef enum:
    STEP_POSITIONS = 64       # positions that are rejected at once where split points are far apart


cdef Py_ssize_t find_next_pretoken_split(
    int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil:
    """Return the first safe split point at or after `pos`, 0 excluded; `end` if there is none."""
    if scanner == WHOLE_TEXT:
        return end
    pos = max(pos, <Py_ssize_t>1)
    if is_of_metaspaces(scanner):
        while pos < end and not is_metaspace_split(text, pos, end):
            pos += 1
        return min(pos, end)
    while pos < end and (is_surely_inside(text, pos) or not is_split_point(text, pos, end)):
        pos += 1
    return min(pos, end)


def find_next_split(int scanner, const byte_t[::1] text, Py_ssize_t pos):
    """Call `find_next_pretoken_split` for a text from Python; the text's length if there is none."""
    cdef Py_ssize_t end = text.shape[0]
    if pos >= end:
        return end
    pos = max(pos, <Py_ssize_t>0)
    with nogil:
        pos = find_next_pretoken_split(scanner, &text[0], pos, end)
    return pos


cdef Py_ssize_t find_last_pretoken_split(
    int scanner, const byte_t* text, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    """Return the last safe split point after `start`, whatever text follows `end`; `start` if there is none."""
    cdef Py_ssize_t pos = end
    if scanner == WHOLE_TEXT:
        return start
    if is_of_metaspaces(scanner):
        pos -= 1
        while pos > start and not is_metaspace_split(text, pos, end):
            pos -= 1
        return max(pos, start)
    while pos > start:
        if pos - STEP_POSITIONS > start and are_surely_inside(text, pos - STEP_POSITIONS):
            pos -= STEP_POSITIONS
            continue
        for _ in range(min(pos - start, <Py_ssize_t>STEP_POSITIONS)):
            pos -= 1
            if pos > start and pos > 0 and not is_surely_inside(text, pos) and is_split_point(text, pos, end):
                return pos
    return start


def find_last_split(int scanner, const byte_t[::1] text, Py_ssize_t start):
    """Call `find_last_pretoken_split` for a text from Python."""
    cdef Py_ssize_t end = text.shape[0]
    start = max(start, <Py_ssize_t>0)
    if end <= start:
        return start
    with nogil:
        start = find_last_pretoken_split(scanner, &text[0], start, end)
    return start


cdef inline bint is_of_metaspaces(int scanner) noexcept nogil:
    return scanner == METASPACE or scanner == SPACE_RUNS


cdef inline bint is_metaspace_split(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Whether a U+2581 that follows another character is at `pos` > 0."""
    return is_metaspace(text, pos, end) and not (pos >= 3 and is_metaspace(text, pos - 3, end))


cdef inline bint is_surely_inside(const byte_t* text, Py_ssize_t pos) noexcept nogil:
    """Whether `pos` > 0 is certainly no safe split point. This cheap test rejects nearly all positions of a text."""
    cdef byte_t byte = text[pos], before = text[pos - 1]
    return ((before < c"A") & (byte <= c" ")) | ((before != c"\n") & (byte > c" "))


cdef inline bint are_surely_inside(const byte_t* text, Py_ssize_t pos) noexcept nogil:
    """Whether the next STEP_POSITIONS positions are certainly no safe split points. Without a branch: it is vectorized.

    Measured on JSON, where split points are 100 KB apart: 2.4 ns a byte without it, 0.4 with it.
    """
    cdef byte_t inside = 1
    cdef Py_ssize_t i
    for i in range(pos, pos + STEP_POSITIONS):
        inside &= is_surely_inside(text, i)
    return inside


cdef bint is_split_point(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Whether `pos` > 0 is a safe split point."""
    cdef Py_ssize_t length, before = pos - 1
    if text[pos] & 0xC0 == 0x80 or not is_complete(text, pos, end):
        return False
    if text[before] == 10:
        if before == 0 or not get_class_at(text, pos, end, &length) & LETTER:
            return False
        pos = before
        before = find_previous_character(text, pos)
        return not get_class_at(text, before, pos, &length) & SPACE and before + length == pos
    if not get_class_at(text, pos, end, &length) & SPACE:
        return False
    before = find_previous_character(text, pos)
    return get_class_at(text, before, pos, &length) & LETTER and before + length == pos


cdef inline Py_ssize_t find_previous_character(const byte_t* text, Py_ssize_t pos) noexcept nogil:
    """Return the position of the character before `pos`."""
    cdef Py_ssize_t position = pos - 1
    while position > 0 and pos - position < 4 and text[position] & 0xC0 == 0x80:
        position -= 1
    return position


cdef inline bint is_complete(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Whether the text has all bytes of the character that begins at `pos`."""
    if text[pos] < 0xC0:
        return True
    return pos + (2 if text[pos] < 0xE0 else 3 if text[pos] < 0xF0 else 4) <= end
