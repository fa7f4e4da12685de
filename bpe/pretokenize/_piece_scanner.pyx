"""Scanning text for pieces, which some merges never cross, and for long pretokens, which no merge crosses.

A superword vocabulary has long pretokens: whole lines or nearly so. Its merges of the first stage join fewer
bytes, for instance no letter with a space after it, and text is cut where these merges join nothing (`_byte_cuts.h`).
The *pieces* are about words, and repeat as words do.

The pretokens are those of SuperBPE's patterns (`patterns.py`): numbers in groups of three digits from the right, or
numbers of three characters, runs of signs, and runs of spaces; and the text between these. A table that is
made with the patterns' own library gives the class of each character. Cost: linear.
"""

import numpy as np

from bpe.base._bounds cimport check_spans
from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport Cursor
from bpe.pretokenize._scanner cimport MAX_SPAN
from bpe.text._unicode cimport decode_char
from libc.stdint cimport int64_t, uint32_t

cdef extern from "bpe/pretokenize/_byte_cuts.h" nogil:
    Py_ssize_t bpe_cuts_in(
        const ByteCuts* cuts, const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t span, uint32_t* out,
        Py_ssize_t limit, int* done,
    )
    Py_ssize_t bpe_next_cut(const ByteCuts* cuts, const byte_t* text, Py_ssize_t pos, Py_ssize_t end)
    bint bpe_is_cut(const ByteCuts* cuts, byte_t before, byte_t next)
    void bpe_use_level_cuts(int level) noexcept

cdef enum Divider:            # what divides a text, beside UNDIVIDED
    NUMBERS = 1               # groups of three digits from the right
    SIGNS = 2                 # numbers of up to three characters, two or more signs, spaces

cdef enum Class:
    DIGIT = 1                 # \d
    NUMBER = 2                # \p{N}
    LETTER = 4
    SPACE = 8


follow_vector_level(bpe_use_level_cuts)


cdef class PieceRules:

    def __cinit__(
        self, const byte_t[::1] group, const byte_t[::1] after, int divider=UNDIVIDED, classes=None,
        bint never_joins_digits=False,
    ):
        """Cut between the bytes a and b where `group[a] & after[b]` is not 0: two arrays of 256.

        `classes` has the class of each code point below N_CLASSES unless the text is undivided. With
        `never_joins_digits`, no merge joins an ASCII digit and a character that is no number.
        """
        cdef Py_ssize_t i
        if group.shape[0] != 256 or after.shape[0] != 256:
            raise ValueError(f"there are rules for {group.shape[0]} and {after.shape[0]} bytes; there must be 256")
        if not UNDIVIDED <= divider <= SIGNS:
            raise ValueError(f"divider is {divider}; it must be from 0 to 2")
        for i in range(256):
            self.cuts.group[i], self.cuts.after[i] = group[i], after[i]
        self.pretoken_rules.divider, self.pretoken_rules.never_joins_digits = divider, never_joins_digits
        if divider == UNDIVIDED:
            return
        self.classes = classes
        if self.classes.shape[0] != N_CLASSES:
            raise ValueError(f"there are classes of {self.classes.shape[0]} code points; there must be {N_CLASSES}")
        self.pretoken_rules.classes = &self.classes[0]
        set_match_starts(self)


cdef int set_match_starts(PieceRules rules) noexcept:
    """Set the pairs of bytes where a match may start.

    These are a number and anything, the first byte of a longer character and anything, and two bytes that are a
    sign or a space, in any order.
    """
    cdef int i, bits
    for i in range(256):
        bits = rules.classes[i] if i < 0x80 else 0
        if bits & NUMBER or i >= 0xC0:
            rules.pretoken_rules.starts.group[i] = 1
        elif bits & LETTER or bits & SPACE and i != c" ":
            rules.pretoken_rules.starts.group[i] = 2
        else:
            rules.pretoken_rules.starts.group[i] = 4
        rules.pretoken_rules.starts.after[i] = 1
        if rules.pretoken_rules.divider == SIGNS and not bits & (LETTER | NUMBER):
            rules.pretoken_rules.starts.after[i] |= 4
    return 0


# Pieces ---------------------------------------------------------------------------------------------------------------


cdef Py_ssize_t scan_pieces(
    Cursor* cursor, const ByteCuts* cuts, uint32_t* bounds, Py_ssize_t limit
) noexcept nogil:
    """Find pieces, and advance `pos` past them; returns their number, which is 0 only if the next one is very long.

    Piece i is `bounds[i]` to `bounds[i + 1]`, relative to `pos` at the time of the call. A piece of 1 GiB or more is
    left to `find_piece_end`.
    """
    cdef int done = False
    cdef Py_ssize_t n = bpe_cuts_in(cuts, cursor.text, cursor.pos, cursor.end, MAX_SPAN, bounds, limit, &done)
    if done:
        bounds[n] = <uint32_t>(cursor.end - cursor.pos)
    else:
        n -= 1                                             # the end of the last one is unknown
    cursor.pos += bounds[n]
    return n


cdef Py_ssize_t find_piece_end(const Cursor* cursor, const ByteCuts* cuts) noexcept nogil:
    """Find the end of the piece at `pos`."""
    cdef Py_ssize_t position = cursor.pos + 1
    while position < cursor.end and not bpe_is_cut(cuts, cursor.text[position - 1], cursor.text[position]):
        position += 1
    return position


# Long pretokens -------------------------------------------------------------------------------------------------------


cdef inline int get_class(
    const PretokenRules* rules, const byte_t* text, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* length
) noexcept nogil:
    """The class of the character at `pos`, and its length in bytes; 0 and 0 at the end of the text."""
    cdef uint32_t code
    length[0] = 0
    if pos >= end:
        return 0
    code = decode_char(text, pos, end, length)
    return rules.classes[code] if code < N_CLASSES else 0


cdef inline Py_ssize_t find_run_end(
    const PretokenRules* rules, int class_bits, const byte_t* text, Py_ssize_t pos, Py_ssize_t end,
    Py_ssize_t max_chars, Py_ssize_t* n,
) noexcept nogil:
    """Find the end of up to `max_chars` characters at `pos` with one of the classes (signs if 0), and their number."""
    cdef Py_ssize_t length
    cdef int bits = get_class(rules, text, pos, end, &length)
    n[0] = 0
    while n[0] < max_chars and length and (
        bits & class_bits != 0 if class_bits else bits & (LETTER | NUMBER | SPACE) == 0
    ):
        n[0] += 1
        pos += length
        bits = get_class(rules, text, pos, end, &length)
    return pos


cdef Py_ssize_t find_group_end(
    const PretokenRules* rules, PretokenState* state, const byte_t* text, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil:
    """Find the end of the group at `pos`: of the number, or before its last digits if these are 3, 6 and so on.

    The number of digits is kept, as counting them for each group would take quadratic time.
    """
    cdef Py_ssize_t start = pos, n, unused, length
    while get_class(rules, text, pos, end, &length) & NUMBER:
        if state.digits_start != pos or pos == 0:
            find_run_end(rules, DIGIT, text, pos, end, end, &state.n_digits)
            state.digits_start = pos
        n = state.n_digits
        if n == 0:                                         # another number than a digit
            pos += length
            continue
        if n % 3 == 0 and pos > start:
            return pos
        pos = find_run_end(rules, DIGIT, text, pos, end, (n - 1) % 3 + 1, &unused)
        state.digits_start, state.n_digits = pos, n - unused
        if state.n_digits:
            return pos
    return pos


cdef Py_ssize_t find_few_digits_end(
    const PretokenRules* rules, const byte_t* text, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil:
    """Find the end of one to three ASCII digits at `pos` if they need no pretoken of their own; else `pos`.

    Numbers are many in code, and each pretoken is encoded by itself. A number is one group then, and no merge crosses
    its ends.
    """
    cdef Py_ssize_t position = pos, length
    if rules.never_joins_digits:
        while position < end and position <= pos + 3 and c"0" <= text[position] <= c"9":
            position += 1
        if position <= pos + 3 and not get_class(rules, text, position, end, &length) & NUMBER:
            return position
    return pos


cdef Py_ssize_t find_signs_end(
    const PretokenRules* rules, const byte_t* text, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil:
    """Find the end of `\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]{2,}[\\r\\n/]*| +(?!\\S)` at `pos`, or `pos`."""
    cdef Py_ssize_t length, n, position, signs_end
    cdef int bits = get_class(rules, text, pos, end, &length)
    if bits & NUMBER:
        return find_run_end(rules, NUMBER, text, pos, end, 3, &n)
    if bits & LETTER or bits & SPACE and text[pos] != c" ":
        return pos
    position = pos + 1 if text[pos] == c" " else pos
    signs_end = find_run_end(rules, 0, text, position, end, end, &n)
    if n >= 2:
        while signs_end < end and (text[signs_end] == c"\r" or text[signs_end] == c"\n" or text[signs_end] == c"/"):
            signs_end += 1
        return signs_end
    if position == pos:
        return pos
    while position < end and text[position] == c" ":
        position += 1
    return position if position == end or get_class(rules, text, position, end, &length) & SPACE else position - 1


cdef Py_ssize_t find_pretoken_end(
    const PretokenRules* rules, PretokenState* state, const byte_t* text, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil:
    """Find the end of the pretoken at `pos`, which is below `end`: of a match, or the start of the next one."""
    cdef Py_ssize_t position = pos, digits_end, length
    if rules.divider == UNDIVIDED:
        return end
    if rules.divider == NUMBERS and get_class(rules, text, pos, end, &length) & NUMBER:
        position = find_few_digits_end(rules, text, pos, end)
        if position == pos:
            return find_group_end(rules, state, text, pos, end)
    if rules.divider == SIGNS:
        position = find_signs_end(rules, text, pos, end)
        if position > pos:
            return position
    while position < end:
        get_class(rules, text, position, end, &length)     # no match starts here
        position += length
        if position < end and text[position] < 0xC0:
            position = bpe_next_cut(&rules.starts, text, position, end)
        if position >= end:
            return end
        if rules.divider == NUMBERS and get_class(rules, text, position, end, &length) & NUMBER:
            digits_end = find_few_digits_end(rules, text, position, end)
            if digits_end == position:
                return position
            position = digits_end
        if rules.divider == SIGNS and find_signs_end(rules, text, position, end) > position:
            return position
    return end


def find_pretoken_spans(
    PieceRules rules not None, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends
):
    """Find the pretokens of the texts `text[starts[i]:ends[i]]`: their starts and their ends, two int64 arrays."""
    cdef Py_ssize_t i, pos, n = 0
    cdef PretokenState state
    check_spans(starts, ends, text.shape[0])
    max_pretokens = int(np.sum(ends) - np.sum(starts)) + 1      # each pretoken has a byte of its own
    all_starts, all_ends = np.empty(max_pretokens, np.int64), np.empty(max_pretokens, np.int64)
    cdef int64_t[::1] start_view = all_starts, end_view = all_ends
    with nogil:
        for i in range(starts.shape[0]):
            pos = starts[i]
            state = PretokenState(end=0, digits_start=0, n_digits=0)
            while pos < ends[i]:
                start_view[n] = pos
                pos = find_pretoken_end(&rules.pretoken_rules, &state, &text[0], pos, ends[i])
                end_view[n] = pos
                n += 1
    return all_starts[:n].copy(), all_ends[:n].copy()
