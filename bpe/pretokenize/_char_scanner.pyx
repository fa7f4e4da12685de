"""Scanners that read one character at a time: they return the end of the pretoken that starts at a position.

Each `find_*_end` function implements one published regular expression as a walk over character classes. The expressions
are in `bpe/pretokenize/patterns.py`, and the tests compare every function with them. The only look-ahead needed is that
of `\\s+(?!\\S)`: a run of white space leaves its last character to the word after it. Cost: linear in the pretoken.
"""

from bpe.base._types cimport byte_t
from bpe.pretokenize._patterns cimport (
    CL100K, CLIP, DEEPSEEK, GPT2, LLAMA3, METASPACE, O200K, QWEN2, SCANNERS, SPACE_RUNS, STARCODER, TEKKEN, WHITESPACE,
    is_metaspace,
)
from bpe.text._unicode cimport (
    LETTER, LOWER, NEW, NEWLINE, NUMBER, SIGN, SPACE, UPPER, decode_char, get_class_at, get_class_of_code,
    get_later_class,
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
    cdef Py_ssize_t position = pos, length = 0, last = pos, after_newline = pos
    cdef int bits
    while position < end:
        bits = get_class_at(text, position, end, &length)
        if not bits & SPACE:
            break
        last = position
        position += length
        if bits & NEWLINE:
            after_newline = position
    if position == end and whole_at_end:
        return position
    if lines and after_newline > pos:
        return after_newline
    if position == end or last == pos:
        return position
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


cdef Py_ssize_t find_whole_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return end


cdef Py_ssize_t find_gpt2_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length, position = pos
    cdef int bits
    if text[pos] == c"'":
        position = match_contraction(text, pos, end, False)
        if position > pos:
            return position
    if text[pos] == c" " and pos + 1 < end:
        position = pos + 1                  # ` ?`: the space goes with what follows, unless that is white space
    bits = get_class_at(text, position, end, &length)
    if bits & LETTER:
        return skip_run(text, position + length, end, LETTER)
    if bits & NUMBER:
        return skip_run(text, position + length, end, NUMBER)
    if bits & SPACE:
        return skip_white_space(text, pos, end, False, True)
    return skip_others(text, position + length, end)


cdef inline int get_starcoder_class_at(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length
) noexcept nogil:
    """Return the class of a character; `tokenizers` counts some characters as digits that are no numbers elsewhere."""
    cdef Py_ssize_t _length
    cdef int bits = get_class_at(text, pos, end, length)
    return get_later_class(decode_char(text, pos, end, &_length), False) if bits == NEW else bits


cdef Py_ssize_t find_starcoder_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of a pretoken: each number is one, and the text between numbers is split as by gpt2."""
    cdef Py_ssize_t length, position = pos, gpt2_end
    cdef int bits = get_starcoder_class_at(text, pos, end, &length)
    if bits & NUMBER:
        return pos + length
    if text[pos] == c" " and get_starcoder_class_at(text, pos + 1, end, &length) & NUMBER:
        return pos + 1
    if bits & SPACE:
        position = skip_run(text, pos, end, SPACE)
        if get_starcoder_class_at(text, position, end, &length) & NUMBER:
            return position
    gpt2_end = find_gpt2_end(text, pos, end)
    position = pos
    while position < gpt2_end and not get_starcoder_class_at(text, position, end, &length) & NUMBER:
        position += length                                 # stop at numbers that gpt2 counts as other characters
    return position


cdef inline Py_ssize_t find_end_with_lines(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int max_digits, bint whole_at_end
) noexcept nogil:
    cdef Py_ssize_t length, next_length, position
    cdef int bits, next_bits
    if text[pos] == c"'":
        position = match_contraction(text, pos, end, True)
        if position > pos:
            return position
    bits = get_class_at(text, pos, end, &length)
    if bits & LETTER:
        return skip_run(text, pos + length, end, LETTER)
    if bits & NUMBER:
        return skip_numbers(text, pos, end, max_digits)
    next_bits = get_class_at(text, pos + length, end, &next_length)
    if not bits & NEWLINE and next_bits & LETTER:
        return skip_run(text, pos + length + next_length, end, LETTER)
    if text[pos] == c" " and next_length and not next_bits & (NUMBER | SPACE):
        position = skip_others(text, pos + 1, end)
    elif bits & SPACE:
        return skip_white_space(text, pos, end, True, whole_at_end)
    else:
        position = skip_others(text, pos + length, end)
    while position < end and (text[position] == c"\n" or text[position] == c"\r"):
        position += 1
    return position


cdef Py_ssize_t find_cl100k_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return find_end_with_lines(text, pos, end, 3, True)


cdef Py_ssize_t find_llama3_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return find_end_with_lines(text, pos, end, 3, False)


cdef Py_ssize_t find_qwen2_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return find_end_with_lines(text, pos, end, 1, False)


cdef inline Py_ssize_t find_cased_word_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of a match of `U*L+` at `pos`, or `pos`; U and L are o200k's upper and lower classes.

    Both classes contain marks and letters without case, so the expression may backtrack. In "アAB" `U*` takes all
    three letters, but `L+` needs one; the last letter of class L that `U*` can give back is "ア", so the match is "ア".
    """
    cdef Py_ssize_t length, position = pos, after_last_lower = pos
    cdef int bits = get_class_at(text, position, end, &length)
    while bits & UPPER:
        position += length
        if bits & LOWER:
            after_last_lower = position
        bits = get_class_at(text, position, end, &length)
    if bits & LOWER:
        return skip_run(text, position + length, end, LOWER)
    return after_last_lower


cdef inline Py_ssize_t find_cased_end(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int max_digits, bint contractions
) noexcept nogil:
    cdef Py_ssize_t length, next_length, start, position
    cdef int bits = get_class_at(text, pos, end, &length), next_bits
    start = pos if bits & (NEWLINE | LETTER | NUMBER) else pos + length      # after the optional first character
    position = find_cased_word_end(text, start, end)
    if position > start:
        return match_contraction(text, position, end, True) if contractions else position
    if start > pos and bits & UPPER:                       # a mark alone may be the word
        position = find_cased_word_end(text, pos, end)
        if position > pos:
            return match_contraction(text, position, end, True) if contractions else position
    position = skip_run(text, start, end, UPPER)                               # U+L*, where no L follows
    if position > start:
        return match_contraction(text, position, end, True) if contractions else position
    if bits & NUMBER:
        return skip_numbers(text, pos, end, max_digits)
    next_bits = get_class_at(text, pos + length, end, &next_length)
    if text[pos] == c" " and next_length and not next_bits & (LETTER | NUMBER | SPACE):
        position = skip_others(text, pos + 1, end)
    elif bits & SPACE:
        return skip_white_space(text, pos, end, True, False)
    else:
        position = skip_others(text, pos + length, end)
    while position < end and (text[position] == c"\n" or text[position] == c"\r" or text[position] == c"/"):
        position += 1
    return position


cdef Py_ssize_t find_o200k_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return find_cased_end(text, pos, end, 3, True)


cdef Py_ssize_t find_cased_word_pretoken_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of a pretoken of o200k's pattern without contractions."""
    return find_cased_end(text, pos, end, 3, False)


cdef Py_ssize_t find_tekken_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return find_cased_end(text, pos, end, 1, False)


cdef inline bint is_ascii_letter(byte_t byte) noexcept nogil:
    return <byte_t>((byte | 0x20) - c"a") < 26


cdef inline int get_deepseek_class_at(
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
        bits = get_class_of_code(text[pos])
    else:
        code = decode_char(text, pos, end, length)
        bits = get_class_of_code(code)
        eastern = 0x3040 <= code <= 0x30FF or 0x4E00 <= code <= 0x9FA5
    if bits & NUMBER or eastern != east:
        length[0] = 0
        return 0
    return bits


cdef Py_ssize_t find_deepseek_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Apply DeepSeek V3's three patterns in one pass; each splits the pieces that the previous one leaves."""
    cdef Py_ssize_t length, next_length, position = pos + (text[pos] == c" "), last, after_newline
    cdef int bits, next_bits
    cdef bint east
    if position < end and is_ascii_letter(text[position]):  # most words need no lookup of classes
        while position < end and is_ascii_letter(text[position]):
            position += 1
        if position == end or text[position] < 0x80:
            return position
    bits = get_class_at(text, pos, end, &length)
    if bits & NUMBER:
        return skip_numbers(text, pos, end, 3)
    east = get_deepseek_class_at(text, pos, end, True, &next_length) != 0 or next_length > 0
    next_bits = get_deepseek_class_at(text, pos + length, end, east, &next_length)
    position = pos + length
    if text[pos] < 0x80 and bits & SIGN and next_length and text[position] < 0x80 and is_ascii_letter(text[position]):
        while position < end and text[position] < 0x80 and is_ascii_letter(text[position]):
            position += 1
        return position
    if bits & (UPPER | LOWER) or (not bits & (NEWLINE | SIGN) and next_bits & (UPPER | LOWER)):
        while True:
            bits = get_deepseek_class_at(text, position, end, east, &length)
            if not bits & (UPPER | LOWER):
                return position
            position += length
    if bits & SIGN or (text[pos] == c" " and next_bits & SIGN):
        bits = get_deepseek_class_at(text, position, end, east, &length)
        while bits & SIGN:
            position += length
            bits = get_deepseek_class_at(text, position, end, east, &length)
        while bits & NEWLINE:
            position += length
            bits = get_deepseek_class_at(text, position, end, east, &length)
        return position
    if bits & SPACE:
        position = last = after_newline = pos
        bits = get_deepseek_class_at(text, position, end, east, &length)
        while bits & SPACE:
            last = position
            position += length
            if bits & NEWLINE:
                after_newline = position
            bits = get_deepseek_class_at(text, position, end, east, &length)
        if after_newline > pos:
            return after_newline
        return position if length == 0 or last == pos else last
    last = pos                                             # matched by no branch: controls, unassigned characters
    while next_length and not next_bits & (UPPER | LOWER | SIGN | SPACE):
        last = position
        position += next_length
        next_bits = get_deepseek_class_at(text, position, end, east, &next_length)
    return last if next_bits & (UPPER | LOWER) else position


cdef const byte_t* CLIP_START = b"<|startoftext|>"
cdef const byte_t* CLIP_END = b"<|endoftext|>"


cdef inline bint matches_any_case(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, const byte_t* name, Py_ssize_t size
) noexcept nogil:
    """Whether the text at `pos` is the lower-case ASCII `name`, ignoring case; `ſ` counts as an s."""
    cdef Py_ssize_t i, position = pos
    cdef byte_t byte
    for i in range(size):
        if position >= end:
            return False
        byte = text[position]
        if c"A" <= byte <= c"Z":
            byte |= 0x20
        if byte == 0xC5 and name[i] == c"s" and position + 1 < end and text[position + 1] == 0xBF:
            position += 2
            continue
        if byte != name[i]:
            return False
        position += 1
    return True


cdef inline Py_ssize_t match_clip_special(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of one of CLIP's two special tokens at `pos`, or `pos`."""
    cdef Py_ssize_t position = pos + 2
    if end - pos < 13 or text[pos + 1] != c"|":
        return pos
    if matches_any_case(text, pos, end, CLIP_START, 15) or matches_any_case(text, pos, end, CLIP_END, 13):
        while text[position] != c">":
            position += 1
        return position + 1
    return pos


cdef int get_clip_class_at(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil:
    """Return the class of a character in CLIP's later Unicode version, except that U+0345 counts as white space.

    Under `(?i)`, which CLIP's pattern has, this mark matches neither `\\p{L}` nor `[^\\s\\p{L}\\p{N}]` in the `regex`
    package, because its capital is a letter. So it belongs to no pretoken.
    """
    cdef Py_ssize_t _length
    cdef int bits = get_class_at(text, pos, end, length)
    if length[0] == 2 and text[pos] == 0xCD and text[pos + 1] == 0x85:
        return SPACE
    return get_later_class(decode_char(text, pos, end, &_length), True) if bits == NEW else bits


cdef Py_ssize_t skip_clip_gap(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of the white space at `pos`."""
    cdef Py_ssize_t length
    while get_clip_class_at(text, pos, end, &length) & SPACE:
        pos += length
    return pos


cdef Py_ssize_t find_clip_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length, position = pos
    cdef int bits
    if text[pos] == c"'":
        position = match_contraction(text, pos, end, True)
    elif text[pos] == c"<":
        position = match_clip_special(text, pos, end)
    if position > pos:
        return position
    bits = get_clip_class_at(text, pos, end, &length)
    if bits & LETTER:
        while get_clip_class_at(text, pos, end, &length) & LETTER:
            pos += length
        return pos
    if bits & NUMBER:
        return pos + length
    while length and not bits & (LETTER | NUMBER | SPACE):
        pos += length
        bits = get_clip_class_at(text, pos, end, &length)
    return pos


cdef Py_ssize_t skip_white_gap(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the end of the white space at `pos`."""
    return skip_run(text, pos, end, SPACE)


cdef Py_ssize_t find_whitespace_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length
    while pos < end and not get_class_at(text, pos, end, &length) & SPACE:
        pos += length
    return pos


cdef Py_ssize_t find_metaspace_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Return the position of the next U+2581 after `pos`."""
    return find_metaspace(text, pos + 1, end)


cdef Py_ssize_t find_space_run_end(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
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


cdef find_end_t[SCANNERS] FIND_END
FIND_END[GPT2] = find_gpt2_end
FIND_END[CL100K] = find_cl100k_end
FIND_END[O200K] = find_o200k_end
FIND_END[CLIP] = find_clip_end
FIND_END[WHITESPACE] = find_whitespace_end
FIND_END[LLAMA3] = find_llama3_end
FIND_END[QWEN2] = find_qwen2_end
FIND_END[TEKKEN] = find_tekken_end
FIND_END[DEEPSEEK] = find_deepseek_end
FIND_END[STARCODER] = find_starcoder_end
FIND_END[METASPACE] = find_metaspace_end
FIND_END[SPACE_RUNS] = find_space_run_end


cdef find_end_t get_find_end(int scanner) noexcept nogil:
    """Return the function that finds the end of a pretoken for a scanner; for any other number, that of WHOLE_TEXT."""
    if 0 <= scanner < SCANNERS and FIND_END[scanner] != NULL:
        return FIND_END[scanner]
    return find_whole_end


cdef find_end_t get_skip_gap(int scanner) noexcept nogil:
    """Return the function that skips the text a scanner drops between pretokens; NULL if it drops none."""
    if scanner == CLIP:
        return skip_clip_gap
    if scanner == WHITESPACE:
        return skip_white_gap
    return NULL
