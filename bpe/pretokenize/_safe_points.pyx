"""Places where a large text may be cut so that its parts give the pretokens of the whole: for streams, for threads.

There are two kinds of them. One is before white space that follows a letter: no pretoken holds a letter and then white
space, and no look-ahead reaches back over a letter. The other, for texts without spaces, is before a letter that
follows a single newline with no white space in front of it: no pretoken holds a newline and then a letter, and a single
newline is the same pretoken, or the same end of one, at the end of a text.

Not here: places within pretokens (`encode/_split_filter.pyx`), documents (`corpus/_separators.pyx`).
"""

from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport Units, unit_at
from bpe.pretokenize._patterns cimport WHOLE
from bpe.text._unicode cimport LETTER, SPACE, class_at, class_of_code


cdef Py_ssize_t certain_start(int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """The first place at or after `pos`, and beyond 0, where a text may be cut; `end` if none."""
    if scanner == WHOLE:
        return end
    pos = max(pos, <Py_ssize_t>1)
    while pos < end and (is_within(text, pos) or not is_cut(text, pos, end)):
        pos += 1
    return min(pos, end)


def certain(int scanner, const byte_t[::1] text, Py_ssize_t pos):
    """The same for a text from Python; its length if there is no such place."""
    cdef Py_ssize_t end = text.shape[0]
    if pos >= end:
        return end
    pos = max(pos, <Py_ssize_t>0)
    with nogil:
        pos = certain_start(scanner, &text[0], pos, end)
    return pos


cdef Py_ssize_t last_start(int scanner, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil:
    """The last place beyond `low` where a text may be cut, whatever follows it; else `low`."""
    cdef Py_ssize_t pos = end
    if scanner == WHOLE:
        return low
    while pos > low:
        pos -= 1
        if pos > low and pos > 0 and is_cut(text, pos, end):
            break
    return max(pos, low)


def last(int scanner, const byte_t[::1] text, Py_ssize_t low):
    """The same for a text from Python."""
    cdef Py_ssize_t end = text.shape[0]
    if end <= low:
        return low
    with nogil:
        low = last_start(scanner, &text[0], low, end)
    return low


cdef inline bint is_within(const byte_t* text, Py_ssize_t pos) noexcept nogil:
    """Whether `pos`, beyond 0, is certainly no such place. This quick test rules out nearly all places of a text."""
    return c" " < text[pos] < 0x80 and text[pos - 1] != c"\n"


cdef bint is_cut(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Whether `pos`, beyond 0, is such a place."""
    cdef Py_ssize_t length, before = pos - 1
    if text[pos] & 0xC0 == 0x80 or not is_whole(text, pos, end):
        return False
    if text[before] == 10:
        if before == 0 or not class_at(text, pos, end, &length) & LETTER:
            return False
        pos = before
        before = character_before(text, pos)
        return not class_at(text, before, pos, &length) & SPACE and before + length == pos
    if not class_at(text, pos, end, &length) & SPACE:
        return False
    before = character_before(text, pos)
    return class_at(text, before, pos, &length) & LETTER and before + length == pos


cdef inline Py_ssize_t character_before(const byte_t* text, Py_ssize_t pos) noexcept nogil:
    """Where the character before `pos` begins."""
    cdef Py_ssize_t at = pos - 1
    while at > 0 and pos - at < 4 and text[at] & 0xC0 == 0x80:
        at -= 1
    return at


cdef inline bint is_whole(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Whether the bytes of the character that begins at `pos` are all there."""
    if text[pos] < 0xC0:
        return True
    return pos + (2 if text[pos] < 0xE0 else 3 if text[pos] < 0xF0 else 4) <= end


cdef Py_ssize_t certain_unit(int scanner, const Units* units, Py_ssize_t pos) noexcept nogil:
    """`certain_start` for the characters of a str: the first place at or after `pos`; `n` if none."""
    if scanner == WHOLE:
        return units.n
    pos = max(pos, <Py_ssize_t>1)
    while pos < units.n and not is_unit_cut(units, pos):
        pos += 1
    return min(pos, units.n)


cdef bint is_unit_cut(const Units* units, Py_ssize_t pos) noexcept nogil:
    """Whether `pos`, beyond 0, is such a place."""
    cdef int here = class_of_unit(units, pos)
    if here & SPACE:
        return class_of_unit(units, pos - 1) & LETTER
    return (
        here & LETTER and pos > 1 and unit_at(units, pos - 1) == c"\n"
        and not class_of_unit(units, pos - 2) & SPACE
    )


cdef inline int class_of_unit(const Units* units, Py_ssize_t pos) noexcept nogil:
    return class_of_code(unit_at(units, pos))
