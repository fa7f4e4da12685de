"""UTF-8 and character classes: what a scanner asks of the bytes in front of it.

A byte that starts no valid UTF-8 sequence counts as one character of class OTHER (no bit set), exactly as
`bytes.decode("utf-8", "surrogateescape")` and a lone surrogate's lack of class would have it.
"""

from bpe.base._types cimport byte_t
from libc.stdint cimport uint16_t, uint32_t

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
        LATER_ROWS "BPE_LATER_ROWS"
    const uint16_t bpe_class_index[]
    const byte_t bpe_class_cells[]
    const uint32_t bpe_later[][3]

cdef enum:
    INVALID = 0xFFFFFFFF      # what decode_char answers for a byte that starts no character


cdef inline uint32_t decode_char(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil:
    """The code point at `pos` (< `end`) and its length in bytes; (INVALID, 1) where the bytes are not UTF-8.

    Overlong forms, surrogates and code points past U+10FFFF are refused, as Python's strict decoder does.
    """
    cdef uint32_t lead = text[pos], code, second
    cdef Py_ssize_t left = end - pos
    length[0] = 1
    if lead < 0x80:
        return lead
    if lead < 0xC2 or lead > 0xF4 or left < 2:
        return INVALID
    second = text[pos + 1]
    if second & 0xC0 != 0x80:
        return INVALID
    if lead < 0xE0:
        length[0] = 2
        return (lead & 0x1F) << 6 | (second & 0x3F)
    if left < 3 or text[pos + 2] & 0xC0 != 0x80:
        return INVALID
    if lead < 0xF0:
        code = (lead & 0x0F) << 12 | (second & 0x3F) << 6 | (<uint32_t>text[pos + 2] & 0x3F)
        if code < 0x800 or 0xD800 <= code <= 0xDFFF:
            return INVALID
        length[0] = 3
        return code
    if left < 4 or text[pos + 3] & 0xC0 != 0x80:
        return INVALID
    code = (lead & 0x07) << 18 | (second & 0x3F) << 12
    code |= (<uint32_t>text[pos + 2] & 0x3F) << 6 | (<uint32_t>text[pos + 3] & 0x3F)
    if code < 0x10000 or code > 0x10FFFF:
        return INVALID
    length[0] = 4
    return code


cdef inline int class_of_code(uint32_t code) noexcept nogil:
    """The class bits of a code point; none for INVALID."""
    if code == INVALID:
        return 0
    return bpe_class_cells[bpe_class_index[code >> 7] << 7 | (code & 127)]


cdef inline int later_class(uint32_t code, bint clip) noexcept nogil:
    """The class bits of a character that is NEW and nothing else, in `clip`'s later Unicode or in `starcoder`.

    `clip` has the letters and numbers of the `regex` package, `starcoder` the numbers of Rust's `char::is_numeric`; see
    `generate_unicode.py`. Such characters are rare, and the rows that are searched some 50.
    """
    cdef int row
    for row in range(LATER_ROWS):
        if code <= bpe_later[row][1]:
            if code < bpe_later[row][0]:
                return 0
            if clip:
                return bpe_later[row][2] & (LETTER | NUMBER)
            return NUMBER if bpe_later[row][2] & NUMERIC else 0
    return 0


cdef inline int class_at(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil:
    """The class bits of the character at `pos` and its length in bytes; 0 and 0 at the end of the text."""
    if pos >= end:
        length[0] = 0
        return 0
    if text[pos] < 0x80:
        length[0] = 1
        return bpe_class_cells[text[pos]]
    return class_of_code(decode_char(text, pos, end, length))
