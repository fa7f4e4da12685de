"""Decode UTF-8 and look up character classes, inline, for the scanners.

A byte that starts no valid UTF-8 sequence counts as one character without a class, as a lone surrogate from
`bytes.decode("utf-8", "surrogateescape")` has none. Classes are found in a two-level table: `bpe_class_index` gives the
number of a block of code points, and equal blocks are stored once in `bpe_class_blocks`.
"""

from bpe.base._types cimport byte_t
from libc.stdint cimport uint32_t

cdef extern from "bpe/text/_unicode_classes.h" nogil:
    const char* BPE_UNICODE_VERSION
    const char* BPE_CLIP_UNICODE_VERSION
    enum:
        LETTER "BPE_LETTER"
        NUMBER "BPE_NUMBER"
        SPACE "BPE_SPACE"
        NEWLINE "BPE_NEWLINE"
        UPPER "BPE_UPPER"
        LOWER "BPE_LOWER"
        SIGN "BPE_SIGN"
        NEW "BPE_NEW"
        NUMERIC "BPE_NUMERIC"
        N_LATER_RANGES "BPE_LATER_ROWS"
        TABLE_END "BPE_LATE"
        N_RUNS "BPE_LATE_RUNS"
    int bpe_class_of(uint32_t code)
    const byte_t bpe_class_blocks[]
    const uint32_t bpe_late_starts[]
    const byte_t bpe_late_classes[]
    const uint32_t bpe_later[][3]

cdef enum:
    INVALID = 0xFFFFFFFF      # decode_char returns it for a byte that starts no character


cdef inline uint32_t decode_char(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil:
    """Decode the code point at `pos` (< `end`) and store its length in bytes; INVALID and 1 if it is not UTF-8.

    Overlong forms, surrogates and code points after U+10FFFF are invalid, as in Python's strict decoder.
    """
    cdef uint32_t lead = text[pos], code, second
    cdef Py_ssize_t n_left = end - pos
    length[0] = 1
    if lead < 0x80:
        return lead
    if lead < 0xC2 or lead > 0xF4 or n_left < 2:
        return INVALID
    second = text[pos + 1]
    if second & 0xC0 != 0x80:
        return INVALID
    if lead < 0xE0:
        length[0] = 2
        return (lead & 0x1F) << 6 | (second & 0x3F)
    if n_left < 3 or text[pos + 2] & 0xC0 != 0x80:
        return INVALID
    if lead < 0xF0:
        code = (lead & 0x0F) << 12 | (second & 0x3F) << 6 | (<uint32_t>text[pos + 2] & 0x3F)
        if code < 0x800 or 0xD800 <= code <= 0xDFFF:
            return INVALID
        length[0] = 3
        return code
    if n_left < 4 or text[pos + 3] & 0xC0 != 0x80:
        return INVALID
    code = (lead & 0x07) << 18 | (second & 0x3F) << 12
    code |= (<uint32_t>text[pos + 2] & 0x3F) << 6 | (<uint32_t>text[pos + 3] & 0x3F)
    if code < 0x10000 or code > 0x10FFFF:
        return INVALID
    length[0] = 4
    return code


cdef inline int get_class_of_code(uint32_t code) noexcept nogil:
    """Look up the class bits of a code point; 0 for INVALID."""
    cdef int run = N_RUNS - 1
    if code < TABLE_END:
        return bpe_class_of(code)
    while code < bpe_late_starts[run]:
        run -= 1
    return bpe_late_classes[run]                           # the last run, in which INVALID is, has no class


cdef inline int get_later_class(uint32_t code, bint clip) noexcept nogil:
    """Look up the class bits that a character with the class NEW alone has in `clip` (if `clip`) or in `starcoder`.

    `clip` has the letters and numbers of the `regex` package, `starcoder` the numbers of Rust's `char::is_numeric`; see
    `generate_unicode.py`. The search is linear in some 50 rows, since such characters are rare.
    """
    cdef int row
    for row in range(N_LATER_RANGES):
        if code <= bpe_later[row][1]:
            if code < bpe_later[row][0]:
                return 0
            if clip:
                return bpe_later[row][2] & (LETTER | NUMBER)
            return NUMBER if bpe_later[row][2] & NUMERIC else 0
    return 0


cdef inline int get_class_at(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil:
    """Look up the class bits of the character at `pos` and store its length in bytes; 0 and 0 at the text's end."""
    if pos >= end:
        length[0] = 0
        return 0
    if text[pos] < 0x80:
        length[0] = 1
        return bpe_class_blocks[text[pos]]
    return get_class_of_code(decode_char(text, pos, end, length))
