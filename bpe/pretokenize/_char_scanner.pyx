"""Scanners that read one character at a time: where the pretoken that starts at a place ends.

Each `next_*` function is one published regular expression turned into a walk over character classes. The expressions
themselves stand in `bpe/pretokenize/patterns.py`, and the tests compare every function with them. What `\\s+(?!\\S)`
asks, that a run of white space leave its last character to the word behind it, is the only look-ahead that they need.

Not here: reading many bytes at once (`_scanner.pyx`), which falls back to these functions.
"""

from bpe.base._types cimport byte_t
from bpe.pretokenize._patterns cimport (
    CL100K,
    CLIP,
    DEEPSEEK,
    GPT2,
    LLAMA3,
    O200K,
    QWEN2,
    STARCODER,
    TEKKEN,
    WHITESPACE,
)
from bpe.text._unicode cimport (
    LETTER,
    LOWER,
    NEW,
    NEWLINE,
    NUMBER,
    SIGN,
    SPACE,
    UPPER,
    class_at,
    class_of_code,
    decode_char,
    later_class,
)
from libc.stdint cimport uint32_t


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


cdef Py_ssize_t contraction(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, bint any_case) noexcept nogil:
    """Where `'(?:[sdmt]|ll|ve|re)` ends if it stands at `pos`, else `pos`; in any case also `'ſ` (U+017F, C5 BF)."""
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
        at = contraction(text, pos, end, False)
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


cdef inline int starcoder_class_at(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length
) noexcept nogil:
    """The class of a character; some that `tokenizers` takes for digits are numbers only here."""
    cdef Py_ssize_t _length
    cdef int bits = class_at(text, pos, end, length)
    return later_class(decode_char(text, pos, end, &_length), False) if bits == NEW else bits


cdef Py_ssize_t next_starcoder(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """gpt2's in what lies between numbers, each of which is a pretoken: what is before one ends there."""
    cdef Py_ssize_t length, at = pos, behind
    cdef int bits = starcoder_class_at(text, pos, end, &length)
    if bits & NUMBER:
        return pos + length
    if text[pos] == c" " and starcoder_class_at(text, pos + 1, end, &length) & NUMBER:
        return pos + 1
    if bits & SPACE:
        at = run_of(text, pos, end, SPACE)
        if starcoder_class_at(text, at, end, &length) & NUMBER:
            return at
    behind = next_gpt2(text, pos, end)
    at = pos
    while at < behind and not starcoder_class_at(text, at, end, &length) & NUMBER:
        at += length                                       # gpt2 takes some for others, and runs on over them
    return at


cdef inline Py_ssize_t next_with_lines(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int most_digits, bint whole_at_end
) noexcept nogil:
    cdef Py_ssize_t length, next_length, at
    cdef int bits, next_bits
    if text[pos] == c"'":
        at = contraction(text, pos, end, True)
        if at > pos:
            return at
    bits = class_at(text, pos, end, &length)
    if bits & LETTER:
        return run_of(text, pos + length, end, LETTER)
    if bits & NUMBER:
        return numbers(text, pos, end, most_digits)
    next_bits = class_at(text, pos + length, end, &next_length)
    if not bits & NEWLINE and next_bits & LETTER:
        return run_of(text, pos + length + next_length, end, LETTER)
    if text[pos] == c" " and next_length and not next_bits & (NUMBER | SPACE):
        at = run_of_others(text, pos + 1, end)
    elif bits & SPACE:
        return white_space(text, pos, end, True, whole_at_end)
    else:
        at = run_of_others(text, pos + length, end)
    while at < end and (text[at] == c"\n" or text[at] == c"\r"):
        at += 1
    return at


cdef Py_ssize_t next_cl100k(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_with_lines(text, pos, end, 3, True)


cdef Py_ssize_t next_llama3(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_with_lines(text, pos, end, 3, False)


cdef Py_ssize_t next_qwen2(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_with_lines(text, pos, end, 1, False)


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


cdef inline Py_ssize_t next_cased(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, int most_digits, bint contractions
) noexcept nogil:
    cdef Py_ssize_t length, next_length, start, at
    cdef int bits = class_at(text, pos, end, &length), next_bits
    start = pos if bits & (NEWLINE | LETTER | NUMBER) else pos + length      # behind the optional first character
    at = o200k_word(text, start, end)
    if at > start:
        return contraction(text, at, end, True) if contractions else at
    if start > pos and bits & UPPER:                                         # a mark may be the word itself
        at = o200k_word(text, pos, end)
        if at > pos:
            return contraction(text, at, end, True) if contractions else at
    at = run_of(text, start, end, UPPER)                                     # U+L*, where no L follows
    if at > start:
        return contraction(text, at, end, True) if contractions else at
    if bits & NUMBER:
        return numbers(text, pos, end, most_digits)
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


cdef Py_ssize_t next_o200k(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_cased(text, pos, end, 3, True)


cdef Py_ssize_t next_tekken(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    return next_cased(text, pos, end, 1, False)


cdef inline bint is_ascii_letter(byte_t byte) noexcept nogil:
    return <byte_t>((byte | 0x20) - c"a") < 26


cdef inline int deepseek_class_at(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, bint east, Py_ssize_t* length
) noexcept nogil:
    """The class of a character of DeepSeek's current segment; 0 and length 0 behind it.

    A segment ends at a number and wherever U+3040 to U+30FF or U+4E00 to U+9FA5 (`east`) begin or end, which the first
    two of its three patterns cut off.
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
    """DeepSeek V3's three patterns, each applied to the pieces of the one before, in one pass."""
    cdef Py_ssize_t length, next_length, at = pos + (text[pos] == c" "), last, after_newline
    cdef int bits, next_bits
    cdef bint east
    if at < end and is_ascii_letter(text[at]):             # most words; their classes need not be looked up
        while at < end and is_ascii_letter(text[at]):
            at += 1
        if at == end or text[at] < 0x80:
            return at
    bits = class_at(text, pos, end, &length)
    if bits & NUMBER:
        return numbers(text, pos, end, 3)
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
    last = pos                                             # what no branch matches: controls, unassigned characters
    while next_length and not next_bits & (UPPER | LOWER | SIGN | SPACE):
        last = at
        at += next_length
        next_bits = deepseek_class_at(text, at, end, east, &next_length)
    return last if next_bits & (UPPER | LOWER) else at


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


cdef int clip_class_at(const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length) noexcept nogil:
    """The class of a character by CLIP's later Unicode, except that U+0345 counts as white space.

    Under `(?i)`, which CLIP's pattern has, the `regex` package finds this one mark in neither `\\p{L}` nor
    `[^\\s\\p{L}\\p{N}]`, because its capital is a letter; so it is in no pretoken.
    """
    cdef Py_ssize_t _length
    cdef int bits = class_at(text, pos, end, length)
    if length[0] == 2 and text[pos] == 0xCD and text[pos + 1] == 0x85:
        return SPACE
    return later_class(decode_char(text, pos, end, &_length), True) if bits == NEW else bits


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
        at = contraction(text, pos, end, True)
    elif text[pos] == c"<":
        at = clip_special(text, pos, end)
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
    """Where the white space at `pos` ends."""
    return run_of(text, pos, end, SPACE)


cdef Py_ssize_t next_whitespace(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t length
    while pos < end and not class_at(text, pos, end, &length) & SPACE:
        pos += length
    return pos


# Which function is whose ----------------------------------------------------------------------------------------------


cdef next_t next_of(int scanner) noexcept nogil:
    """The function of a scanner."""
    if scanner == GPT2:
        return next_gpt2
    if scanner == CL100K:
        return next_cl100k
    if scanner == LLAMA3:
        return next_llama3
    if scanner == QWEN2:
        return next_qwen2
    if scanner == O200K:
        return next_o200k
    if scanner == TEKKEN:
        return next_tekken
    if scanner == DEEPSEEK:
        return next_deepseek
    if scanner == STARCODER:
        return next_starcoder
    if scanner == CLIP:
        return next_clip
    if scanner == WHITESPACE:
        return next_whitespace
    return next_whole


cdef next_t gap_of(int scanner) noexcept nogil:
    """The function that passes over what a scanner drops between pretokens, or NULL where it drops nothing."""
    if scanner == CLIP:
        return clip_gap
    if scanner == WHITESPACE:
        return white_gap
    return NULL
