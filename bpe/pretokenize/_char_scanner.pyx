"""Scanners that read one character at a time: they return the end of the pretoken that starts at a position.

Each `next_*` function implements one published regular expression as a walk over character classes. The expressions
are in `bpe/pretokenize/patterns.py`, and the tests compare every function with them. The only look-ahead needed is that
of `\\s+(?!\\S)`: a run of white space leaves its last character to the word after it. Cost: linear in the pretoken.
"""

from bpe.base._types cimport byte_t
from bpe.pretokenize._patterns cimport (
    CL100K, CLIP, DEEPSEEK, GPT2, LLAMA3, METASPACE, O200K, QWEN2, SCANNERS, SPACE_RUNS, STARCODER, TEKKEN, WHITESPACE,
    is_metaspace,
)
from bpe.text._unicode cimport (
    LETTER, LOWER, NEW, NEWLINE, NUMBER, SIGN, SPACE, UPPER, class_at, class_of_code, decode_char, later_class,
)
from libc.stdint cimport uint32_t
from libc.string cimport memchr


cdef Py_ssize_t skip_white_space(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, bint lines, bint whole_at_end
) noexcept nogil:
    """Return the end of the white-space pretoken at `pos`: `\\s+(?!\\S)|\\s`, preceded by `\\s*[\\r\\n]+` if `lines`.

    `whole_at_end` puts `\\s++$` before both: white space that ends the text is one pretoken.

    Worked example with `lines`: "a  \\n  b" has the pretokens "a", "  \\n", " " and " b".
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


cdef Py_ssize_t match_contraction(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, bint any_case) noexcept nogil:
    """Return the end of a match of `'(?:[sdmt]|ll|ve|re)` at `pos`, or `pos`; `any_case` adds `'ſ` (U+017F, C5 BF)."""
    cdef byte_t first, second, fold = 0x20 if any_case else 0
    if end - pos < 2 or text[pos] != c"'":
        return pos
    first = text[pos + 1] | fold
    if text[pos + 1] < 0x80 and (first == c"s" or first == c"t" or first == c"m" or first == c"d"):
        return pos + 2
    if end - pos >= 3:
        if any_case and text[pos + 1] == 0xC5 and text[pos + 2] == 0xBF:
            return pos + 3
        second = text[pos + 2] | fold
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
        at = match_contraction(text, pos, end, False)
        if at > pos:
            return at
    if text[pos] == c" " and pos + 1 < end:
        at = pos + 1                        # ` ?`: the space goes with what follows, unless that is white space
    bits = class_at(text, at, end, &length)
    if bits & LETTER:
        return skip_run(text, at + length, end, LETTER)
    if bits & NUMBER:
        return skip_run(text, at + length, end, NUMBER)
    if bits & SPACE:
        return skip_white_space(text, pos, end, False, True)
    return skip_others(text, at + length, end)


cdef inline int starcoder_class_at(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length
) noexcept nogil:
    """Return the class of a character; `tokenizers` counts some characters as digits that are no numbers elsewhere."""
    cdef Py_ssize_t _length
    cdef int bits = class_at(text, pos, end, length)
    return later_class(decode_char(text, pos, end, &_length), False) if bits == NEW else bits


cdef Py_ssize_t next_starcoder(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of a pretoken: each number is one, and the text between numbers is split as by gpt2."""
    cdef Py_ssize_t length, at = pos, gpt2_end
    cdef int bits = starcoder_class_at(text, pos, end, &length)
    if bits & NUMBER:
        return pos + length
    if text[pos] == c" " and starcoder_class_at(text, pos + 1, end, &length) & NUMBER:
        return pos + 1
    if bits & SPACE:
        at = skip_run(text, pos, end, SPACE)
        if starcoder_class_at(text, at, end, &length) & NUMBER:
            return at
    gpt2_end = next_gpt2(text, pos, end)
    at = pos
    while at < gpt2_end and not starcoder_class_at(text, at, end, &length) & NUMBER:
        at += length                                       # stop at numbers that gpt2 counts as other characters
    return at


cdef inline Py_ssize_t next_with_lines(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int max_digits, bint whole_at_end
) noexcept nogil:
    cdef Py_ssize_t length, next_length, at
    cdef int bits, next_bits
    if text[pos] == c"'":
        at = match_contraction(text, pos, end, True)
        if at > pos:
            return at
    bits = class_at(text, pos, end, &length)
    if bits & LETTER:
        return skip_run(text, pos + length, end, LETTER)
    if bits & NUMBER:
        return skip_numbers(text, pos, end, max_digits)
    next_bits = class_at(text, pos + length, end, &next_length)
    if not bits & NEWLINE and next_bits & LETTER:
        return skip_run(text, pos + length + next_length, end, LETTER)
    if text[pos] == c" " and next_length and not next_bits & (NUMBER | SPACE):
        at = skip_others(text, pos + 1, end)
    elif bits & SPACE:
        return skip_white_space(text, pos, end, True, whole_at_end)
    else:
        at = skip_others(text, pos + length, end)
    while at < end and (text[at] == c"\n" or text[at] == c"\r"):
        at += 1
    return at


cdef Py_ssize_t next_cl100k(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_with_lines(text, pos, end, 3, True)


cdef Py_ssize_t next_llama3(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_with_lines(text, pos, end, 3, False)


cdef Py_ssize_t next_qwen2(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_with_lines(text, pos, end, 1, False)


cdef inline Py_ssize_t find_cased_word_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of a match of `U*L+` at `pos`, or `pos`; U and L are o200k's upper and lower classes.

    Both classes contain marks and letters without case, so the expression may backtrack. In "アAB" `U*` takes all
    three letters, but `L+` needs one; the last letter of class L that `U*` can give back is "ア", so the match is "ア".
    """
    cdef Py_ssize_t length, at = pos, after_last_lower = pos
    cdef int bits = class_at(text, at, end, &length)
    while bits & UPPER:
        at += length
        if bits & LOWER:
            after_last_lower = at
        bits = class_at(text, at, end, &length)
    if bits & LOWER:
        return skip_run(text, at + length, end, LOWER)
    return after_last_lower


cdef inline Py_ssize_t next_cased(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int max_digits, bint contractions
) noexcept nogil:
    cdef Py_ssize_t length, next_length, start, at
    cdef int bits = class_at(text, pos, end, &length), next_bits
    start = pos if bits & (NEWLINE | LETTER | NUMBER) else pos + length      # after the optional first character
    at = find_cased_word_end(text, start, end)
    if at > start:
        return match_contraction(text, at, end, True) if contractions else at
    if start > pos and bits & UPPER:                       # a mark alone may be the word
        at = find_cased_word_end(text, pos, end)
        if at > pos:
            return match_contraction(text, at, end, True) if contractions else at
    at = skip_run(text, start, end, UPPER)                                     # U+L*, where no L follows
    if at > start:
        return match_contraction(text, at, end, True) if contractions else at
    if bits & NUMBER:
        return skip_numbers(text, pos, end, max_digits)
    next_bits = class_at(text, pos + length, end, &next_length)
    if text[pos] == c" " and next_length and not next_bits & (LETTER | NUMBER | SPACE):
        at = skip_others(text, pos + 1, end)
    elif bits & SPACE:
        return skip_white_space(text, pos, end, True, False)
    else:
        at = skip_others(text, pos + length, end)
    while at < end and (text[at] == c"\n" or text[at] == c"\r" or text[at] == c"/"):
        at += 1
    return at


cdef Py_ssize_t next_o200k(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_cased(text, pos, end, 3, True)


cdef Py_ssize_t next_cased_word(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of a pretoken of o200k's pattern without contractions."""
    return next_cased(text, pos, end, 3, False)


cdef Py_ssize_t next_tekken(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_cased(text, pos, end, 1, False)


cdef inline bint is_ascii_letter(byte_t byte) noexcept nogil:
    return <byte_t>((byte | 0x20) - c"a") < 26


cdef inline int deepseek_class_at(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, bint east, Py_ssize_t* length
) noexcept nogil:
    """Return the class of a character of DeepSeek's current segment; 0 and length 0 at its end.

    The first two of DeepSeek's three patterns split the text into segments: numbers, runs of U+3040 to U+30FF and
    U+4E00 to U+9FA5 (`east`), and the text between them. The third pattern splits each segment.
    """
    cdef uint32_t code
    cdef int bits
    cdef bint eastern = False
    if pos >= end:
        length[0] = 0
        return 0
    if text[pos] < 0x80:
        length[0] = 1
        bits = class_of_code(text[pos])
    else:
        code = decode_char(text, pos, end, length)
        bits = class_of_code(code)
        eastern = 0x3040 <= code <= 0x30FF or 0x4E00 <= code <= 0x9FA5
    if bits & NUMBER or eastern != east:
        length[0] = 0
        return 0
    return bits


cdef Py_ssize_t next_deepseek(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Apply DeepSeek V3's three patterns in one pass; each splits the pieces that the previous one leaves."""
    cdef Py_ssize_t length, next_length, at = pos + (text[pos] == c" "), last, after_newline
    cdef int bits, next_bits
    cdef bint east
    if at < end and is_ascii_letter(text[at]):             # most words need no lookup of classes
        while at < end and is_ascii_letter(text[at]):
            at += 1
        if at == end or text[at] < 0x80:
            return at
    bits = class_at(text, pos, end, &length)
    if bits & NUMBER:
        return skip_numbers(text, pos, end, 3)
    east = deepseek_class_at(text, pos, end, True, &next_length) != 0 or next_length > 0
    next_bits = deepseek_class_at(text, pos + length, end, east, &next_length)
    at = pos + length
    if text[pos] < 0x80 and bits & SIGN and next_length and text[at] < 0x80 and is_ascii_letter(text[at]):
        while at < end and text[at] < 0x80 and is_ascii_letter(text[at]):
            at += 1
        return at
    if bits & (UPPER | LOWER) or (not bits & (NEWLINE | SIGN) and next_bits & (UPPER | LOWER)):
        while True:
            bits = deepseek_class_at(text, at, end, east, &length)
            if not bits & (UPPER | LOWER):
                return at
            at += length
    if bits & SIGN or (text[pos] == c" " and next_bits & SIGN):
        bits = deepseek_class_at(text, at, end, east, &length)
        while bits & SIGN:
            at += length
            bits = deepseek_class_at(text, at, end, east, &length)
        while bits & NEWLINE:
            at += length
            bits = deepseek_class_at(text, at, end, east, &length)
        return at
    if bits & SPACE:
        at = last = after_newline = pos
        bits = deepseek_class_at(text, at, end, east, &length)
        while bits & SPACE:
            last = at
            at += length
            if bits & NEWLINE:
                after_newline = at
            bits = deepseek_class_at(text, at, end, east, &length)
        if after_newline > pos:
            return after_newline
        return at if length == 0 or last == pos else last
    last = pos                                             # matched by no branch: controls, unassigned characters
    while next_length and not next_bits & (UPPER | LOWER | SIGN | SPACE):
        last = at
        at += next_length
        next_bits = deepseek_class_at(text, at, end, east, &next_length)
    return last if next_bits & (UPPER | LOWER) else at


cdef const byte_t* CLIP_START = b"<|startoftext|>"
cdef const byte_t* CLIP_END = b"<|endoftext|>"


cdef inline bint matches_any_case(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, const byte_t* name, Py_ssize_t size
) noexcept nogil:
    """Whether the text at `pos` is the lower-case ASCII `name`, ignoring case; `ſ` counts as an s."""
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


cdef inline Py_ssize_t match_clip_special(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of one of CLIP's two special tokens at `pos`, or `pos`."""
    cdef Py_ssize_t at = pos + 2
    if end - pos < 13 or text[pos + 1] != c"|":
        return pos
    if matches_any_case(text, pos, end, CLIP_START, 15) or matches_any_case(text, pos, end, CLIP_END, 13):
        while text[at] != c">":
            at += 1
        return at + 1
    return pos


cdef int clip_class_at(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil:
    """Return the class of a character in CLIP's later Unicode version, except that U+0345 counts as white space.

    Under `(?i)`, which CLIP's pattern has, this mark matches neither `\\p{L}` nor `[^\\s\\p{L}\\p{N}]` in the `regex`
    package, because its capital is a letter. So it belongs to no pretoken.
    """
    cdef Py_ssize_t _length
    cdef int bits = class_at(text, pos, end, length)
    if length[0] == 2 and text[pos] == 0xCD and text[pos + 1] == 0x85:
        return SPACE
    return later_class(decode_char(text, pos, end, &_length), True) if bits == NEW else bits


cdef Py_ssize_t clip_gap(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of the white space at `pos`."""
    cdef Py_ssize_t length
    while clip_class_at(text, pos, end, &length) & SPACE:
        pos += length
    return pos


cdef Py_ssize_t next_clip(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length, at = pos
    cdef int bits
    if text[pos] == c"'":
        at = match_contraction(text, pos, end, True)
    elif text[pos] == c"<":
        at = match_clip_special(text, pos, end)
    if at > pos:
        return at
    bits = clip_class_at(text, pos, end, &length)
    if bits & LETTER:
        while clip_class_at(text, pos, end, &length) & LETTER:
            pos += length
        return pos
    if bits & NUMBER:
        return pos + length
    while length and not bits & (LETTER | NUMBER | SPACE):
        pos += length
        bits = clip_class_at(text, pos, end, &length)
    return pos


cdef Py_ssize_t white_gap(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of the white space at `pos`."""
    return skip_run(text, pos, end, SPACE)


cdef Py_ssize_t next_whitespace(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length
    while pos < end and not class_at(text, pos, end, &length) & SPACE:
        pos += length
    return pos


cdef Py_ssize_t next_metaspace(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the position of the next U+2581 after `pos`."""
    return find_metaspace(text, pos + 1, end)


cdef Py_ssize_t next_space_run(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the position of the next U+2581 that follows another character."""
    while is_metaspace(text, pos, end):
        pos += 3
    return find_metaspace(text, pos, end)


cdef inline Py_ssize_t find_metaspace(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef const byte_t* match
    while pos < end:
        match = <const byte_t*>memchr(text + pos, 0xE2, end - pos)
        if match == NULL:
            return end
        pos = match - text
        if is_metaspace(text, pos, end):
            return pos
        pos += 1
    return end


# Functions by scanner -------------------------------------------------------------------------------------------------


cdef next_t[SCANNERS] NEXT_FUNCTIONS
NEXT_FUNCTIONS[GPT2] = next_gpt2
NEXT_FUNCTIONS[CL100K] = next_cl100k
NEXT_FUNCTIONS[O200K] = next_o200k
NEXT_FUNCTIONS[CLIP] = next_clip
NEXT_FUNCTIONS[WHITESPACE] = next_whitespace
NEXT_FUNCTIONS[LLAMA3] = next_llama3
NEXT_FUNCTIONS[QWEN2] = next_qwen2
NEXT_FUNCTIONS[TEKKEN] = next_tekken
NEXT_FUNCTIONS[DEEPSEEK] = next_deepseek
NEXT_FUNCTIONS[STARCODER] = next_starcoder
NEXT_FUNCTIONS[METASPACE] = next_metaspace
NEXT_FUNCTIONS[SPACE_RUNS] = next_space_run


cdef next_t get_next_function(int scanner) noexcept nogil:
    """Return the function that finds the end of a pretoken for a scanner; for any other number, that of WHOLE_TEXT."""
    if 0 <= scanner < SCANNERS and NEXT_FUNCTIONS[scanner] != NULL:
        return NEXT_FUNCTIONS[scanner]
    return next_whole


cdef next_t get_gap_function(int scanner) noexcept nogil:
    """Return the function that skips the text a scanner drops between pretokens; NULL if it drops none."""
    if scanner == CLIP:
        return clip_gap
    if scanner == WHITESPACE:
        return white_gap
    return NULL
