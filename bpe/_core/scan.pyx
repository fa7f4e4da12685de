"""Scanners: where the pretokens of a text begin and end, for the patterns that have one.

Each `next_*` function is one published regular expression turned into a walk over character classes; it answers where
the pretoken that starts at `pos` ends. The expressions themselves stand in `bpe/pretokenize/patterns.py`, and the tests
compare every function with them. Not here: patterns without a scanner, which `bpe/pretokenize` gives to the `regex`
package.

These scanners read one character at a time. What `\\s+(?!\\S)` asks, that a run of white space leave its last character
to the word behind it, is the only look-ahead any of them needs.
"""

import numpy as np

from bpe._core.types cimport byte_t
from bpe._core.unicode cimport (
    BPE_UNICODE_VERSION,
    LETTER,
    LOWER,
    NEWLINE,
    NUMBER,
    SPACE,
    UPPER,
    class_at,
)

UNICODE_VERSION = BPE_UNICODE_VERSION.decode()

ctypedef Py_ssize_t (*next_t)(const byte_t*, Py_ssize_t, Py_ssize_t) noexcept nogil


# Runs -----------------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t run_of(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int bits) noexcept nogil:
    """Where a run of characters that have one of `bits` ends."""
    cdef Py_ssize_t length
    while class_at(text, pos, end, &length) & bits:
        pos += length
    return pos


cdef inline Py_ssize_t run_of_others(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where a run of `[^\\s\\p{L}\\p{N}]` ends."""
    cdef Py_ssize_t length
    cdef int bits
    while pos < end:
        bits = class_at(text, pos, end, &length)
        if bits & (LETTER | NUMBER | SPACE):
            break
        pos += length
    return pos


cdef inline Py_ssize_t numbers(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int most) noexcept nogil:
    """Where a run of at most `most` numbers ends."""
    cdef Py_ssize_t length
    while most > 0 and class_at(text, pos, end, &length) & NUMBER:
        pos += length
        most -= 1
    return pos


cdef Py_ssize_t white_space(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, bint lines, bint whole_at_end
) noexcept nogil:
    """Where the white-space token at `pos` ends: `\\s+(?!\\S)|\\s`, preceded by `\\s*[\\r\\n]+` where `lines` is set.

    `whole_at_end` puts `\\s++$` before both: white space that ends the text is one token.

    Worked example, `lines` set: in "a  \\n  b" the run at 1 gives "  \\n", then " ", and the last space goes with "b".
    """
    cdef Py_ssize_t at = pos, length = 0, last = pos, after_newline = pos
    cdef int bits
    while at < end:
        bits = class_at(text, at, end, &length)
        if not bits & SPACE:
            break
        last = at
        at += length
        if bits & NEWLINE:
            after_newline = at
    if at == end and whole_at_end:
        return at
    if lines and after_newline > pos:
        return after_newline
    if at == end or last == pos:
        return at
    return last


# Contractions ---------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t contraction(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where `'(?:[sdmt]|ll|ve|re)` ends if it stands at `pos`, else `pos`."""
    cdef byte_t first, second
    if end - pos < 2 or text[pos] != c"'":
        return pos
    first = text[pos + 1]
    if first == c"s" or first == c"t" or first == c"m" or first == c"d":
        return pos + 2
    if end - pos >= 3:
        second = text[pos + 2]
        if (first == c"l" and second == c"l") or (second == c"e" and (first == c"v" or first == c"r")):
            return pos + 3
    return pos


cdef inline Py_ssize_t contraction_any_case(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """The same in any case; `ſ` (U+017F, C5 BF) is an s there."""
    cdef byte_t first, second
    if end - pos < 2 or text[pos] != c"'":
        return pos
    first = text[pos + 1] | 0x20
    if text[pos + 1] < 0x80 and (first == c"s" or first == c"t" or first == c"m" or first == c"d"):
        return pos + 2
    if end - pos >= 3:
        if text[pos + 1] == 0xC5 and text[pos + 2] == 0xBF:
            return pos + 3
        second = text[pos + 2] | 0x20
        if text[pos + 1] < 0x80 and text[pos + 2] < 0x80:
            if (first == c"l" and second == c"l") or (second == c"e" and (first == c"v" or first == c"r")):
                return pos + 3
    return pos


# One function per pattern ---------------------------------------------------------------------------------------------


cdef Py_ssize_t next_whole(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return end


cdef Py_ssize_t next_gpt2(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length, at = pos
    cdef int bits
    if text[pos] == c"'":
        at = contraction(text, pos, end)
        if at > pos:
            return at
    if text[pos] == c" " and pos + 1 < end:
        at = pos + 1                        # ` ?`: the space goes with what follows, unless that is white space
    bits = class_at(text, at, end, &length)
    if bits & LETTER:
        return run_of(text, at + length, end, LETTER)
    if bits & NUMBER:
        return run_of(text, at + length, end, NUMBER)
    if bits & SPACE:
        return white_space(text, pos, end, False, True)
    return run_of_others(text, at + length, end)


cdef Py_ssize_t next_cl100k(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length, next_length, at
    cdef int bits, next_bits
    if text[pos] == c"'":
        at = contraction_any_case(text, pos, end)
        if at > pos:
            return at
    bits = class_at(text, pos, end, &length)
    if bits & LETTER:
        return run_of(text, pos + length, end, LETTER)
    if bits & NUMBER:
        return numbers(text, pos, end, 3)
    next_bits = class_at(text, pos + length, end, &next_length)
    if not bits & NEWLINE and next_bits & LETTER:
        return run_of(text, pos + length + next_length, end, LETTER)
    if text[pos] == c" " and next_length and not next_bits & (NUMBER | SPACE):
        at = run_of_others(text, pos + 1, end)
    elif bits & SPACE:
        return white_space(text, pos, end, True, True)
    else:
        at = run_of_others(text, pos + length, end)
    while at < end and (text[at] == c"\n" or text[at] == c"\r"):
        at += 1
    return at


cdef inline Py_ssize_t o200k_word(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where `U*L+` ends if it matches at `pos`, else `pos`; U and L are o200k's upper and lower classes.

    Both classes hold the letters without case and the marks, so U* may have to give some back: in "アAB" it takes all
    three, L+ needs one, and the last that U* can give is "ア": the match is "ア" alone.
    """
    cdef Py_ssize_t length, at = pos, after_last_lower = pos
    cdef int bits = class_at(text, at, end, &length)
    while bits & UPPER:
        at += length
        if bits & LOWER:
            after_last_lower = at
        bits = class_at(text, at, end, &length)
    if bits & LOWER:
        return run_of(text, at + length, end, LOWER)
    return after_last_lower


cdef Py_ssize_t next_o200k(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length, next_length, start, at
    cdef int bits = class_at(text, pos, end, &length), next_bits
    start = pos if bits & (NEWLINE | LETTER | NUMBER) else pos + length      # behind the optional first character
    at = o200k_word(text, start, end)
    if at > start:
        return contraction_any_case(text, at, end)
    if start > pos and bits & UPPER:                                         # a mark may be the word itself
        at = o200k_word(text, pos, end)
        if at > pos:
            return contraction_any_case(text, at, end)
    at = run_of(text, start, end, UPPER)                                     # U+L*, where no L follows
    if at > start:
        return contraction_any_case(text, at, end)
    if bits & NUMBER:
        return numbers(text, pos, end, 3)
    next_bits = class_at(text, pos + length, end, &next_length)
    if text[pos] == c" " and next_length and not next_bits & (LETTER | NUMBER | SPACE):
        at = run_of_others(text, pos + 1, end)
    elif bits & SPACE:
        return white_space(text, pos, end, True, False)
    else:
        at = run_of_others(text, pos + length, end)
    while at < end and (text[at] == c"\n" or text[at] == c"\r" or text[at] == c"/"):
        at += 1
    return at


cdef const byte_t* CLIP_START = b"<|startoftext|>"
cdef const byte_t* CLIP_END = b"<|endoftext|>"


cdef inline bint stands_any_case(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, const byte_t* name, Py_ssize_t size
) noexcept nogil:
    """Whether the ASCII `name` (lower case) stands at `pos` in any case; `ſ` is an s there."""
    cdef Py_ssize_t i, at = pos
    cdef byte_t byte
    for i in range(size):
        if at >= end:
            return False
        byte = text[at]
        if c"A" <= byte <= c"Z":
            byte |= 0x20
        if byte == 0xC5 and name[i] == c"s" and at + 1 < end and text[at + 1] == 0xBF:
            at += 2
            continue
        if byte != name[i]:
            return False
        at += 1
    return True


cdef inline Py_ssize_t clip_special(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where one of CLIP's two special tokens ends if it stands at `pos`, else `pos`."""
    cdef Py_ssize_t at = pos + 2
    if end - pos < 13 or text[pos + 1] != c"|":
        return pos
    if stands_any_case(text, pos, end, CLIP_START, 15) or stands_any_case(text, pos, end, CLIP_END, 13):
        while text[at] != c">":
            at += 1
        return at + 1
    return pos


cdef inline int clip_class_at(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil:
    """The class of a character, except that U+0345 counts as white space.

    Under `(?i)`, which CLIP's pattern has, the `regex` package finds this one mark in neither `\\p{L}` nor
    `[^\\s\\p{L}\\p{N}]`, because its capital is a letter; so it is in no pretoken.
    """
    if pos + 1 < end and text[pos] == 0xCD and text[pos + 1] == 0x85:
        length[0] = 2
        return SPACE
    return class_at(text, pos, end, length)


cdef Py_ssize_t clip_gap(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where the white space at `pos` ends."""
    cdef Py_ssize_t length
    while clip_class_at(text, pos, end, &length) & SPACE:
        pos += length
    return pos


cdef Py_ssize_t next_clip(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length, at = pos
    cdef int bits
    if text[pos] == c"'":
        at = contraction_any_case(text, pos, end)
    elif text[pos] == c"<":
        at = clip_special(text, pos, end)
    if at > pos:
        return at
    bits = class_at(text, pos, end, &length)
    if bits & LETTER:
        return run_of(text, pos + length, end, LETTER)
    if bits & NUMBER:
        return pos + length
    while length and not bits & (LETTER | NUMBER | SPACE):
        pos += length
        bits = clip_class_at(text, pos, end, &length)
    return pos


cdef Py_ssize_t white_gap(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where the white space at `pos` ends."""
    return run_of(text, pos, end, SPACE)


cdef Py_ssize_t next_whitespace(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length
    while pos < end and not class_at(text, pos, end, &length) & SPACE:
        pos += length
    return pos


# What the other kernels call ------------------------------------------------------------------------------------------


cdef inline Py_ssize_t fill(
    next_t next_end, next_t gap_end, const byte_t* text, Py_ssize_t* pos, Py_ssize_t end,
    Py_ssize_t* starts, Py_ssize_t* ends, Py_ssize_t limit,
) noexcept nogil:
    cdef Py_ssize_t n = 0, at = pos[0]
    while n < limit:
        if gap_end != NULL:
            at = gap_end(text, at, end)
        if at >= end:
            break
        starts[n] = at
        at = next_end(text, at, end)
        ends[n] = at
        n += 1
    pos[0] = at
    return n


cdef Py_ssize_t scan(
    int scanner, const byte_t* text, Py_ssize_t* pos, Py_ssize_t end,
    Py_ssize_t* starts, Py_ssize_t* ends, Py_ssize_t limit,
) noexcept nogil:
    """Find up to `limit` pretokens from `pos` on; fewer are found only at the end of the text.

    Text between pretokens (white space, for the scanners that drop it) is passed over.
    """
    if scanner == GPT2:
        return fill(next_gpt2, NULL, text, pos, end, starts, ends, limit)
    if scanner == CL100K:
        return fill(next_cl100k, NULL, text, pos, end, starts, ends, limit)
    if scanner == O200K:
        return fill(next_o200k, NULL, text, pos, end, starts, ends, limit)
    if scanner == CLIP:
        return fill(next_clip, clip_gap, text, pos, end, starts, ends, limit)
    if scanner == WHITESPACE:
        return fill(next_whitespace, white_gap, text, pos, end, starts, ends, limit)
    return fill(next_whole, NULL, text, pos, end, starts, ends, limit)


cdef Py_ssize_t certain_start(int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """The first place at or after `pos` where a pretoken starts whatever stands before and behind; `end` if none.

    White space behind a letter is such a place under every scanner here: no pretoken holds a letter and then white
    space, no look-ahead reaches back over a letter. A text may be cut there and its parts scanned apart.
    """
    cdef Py_ssize_t length, back
    if scanner == WHOLE:
        return end
    if pos < 1:
        pos = 1
    while pos < end:
        if text[pos] & 0xC0 != 0x80 and class_at(text, pos, end, &length) & SPACE:
            back = pos - 1
            while back > 0 and pos - back < 4 and text[back] & 0xC0 == 0x80:
                back -= 1
            if class_at(text, back, pos, &length) & LETTER and back + length == pos:
                return pos
        pos += 1
    return end


# For Python -----------------------------------------------------------------------------------------------------------


def spans(int scanner, const byte_t[::1] text):
    """The pretokens of a text as (starts, ends), two int64 arrays of byte offsets."""
    cdef Py_ssize_t size = text.shape[0], pos = 0, n = 0
    starts = np.empty(size, dtype=np.intp)
    ends = np.empty(size, dtype=np.intp)
    cdef Py_ssize_t[::1] first = starts, last = ends
    if size:
        with nogil:
            n = scan(scanner, &text[0], &pos, size, &first[0], &last[0], size)
    return starts[:n].astype(np.int64), ends[:n].astype(np.int64)


def cuts(int scanner, const byte_t[::1] text, Py_ssize_t size):
    """Places to cut a text into parts of about `size` bytes that scan alike apart: a list from 0 to its length."""
    cdef Py_ssize_t total = text.shape[0], pos = 0
    places = [0]
    while total and pos < total:
        if total - pos <= size:
            pos = total
        else:
            with nogil:
                pos = certain_start(scanner, &text[0], pos + size, total)
        places.append(pos)
    return places
