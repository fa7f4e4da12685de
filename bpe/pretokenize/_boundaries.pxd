"""Find the starts of pretokens in a block of 64 bytes, with 64-bit arithmetic on bit masks of character classes.

Bit i of a mask stands for byte i of the block, as in simdjson. Shifting a mask left by one moves each bit to the next
byte, and adding a bit at the start of a run carries through the run to the byte after it. The functions have no loop
over bytes and few branches, so the cost of a block hardly depends on the number of its pretokens.

The functions are inline and used only by `_scanner.pyx`, where the compiler specializes them for each pattern's rules.
"""

from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport (
    CASED, CLASSES, CONTRACTIONS, LINES, SINGLE_DIGITS, WHOLE_AT_END, Masks, Cursor, mask_below, bpe_clz, bpe_ctz,
)
from libc.stdint cimport uint64_t

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    ctypedef struct Endings "bpe_endings":
        uint64_t one
        uint64_t two

    void bpe_contractions(const byte_t* text, uint64_t apostrophes, bint any_case, Endings* out)

cdef uint64_t find_certain_before_slash(Cursor* cursor, uint64_t others, uint64_t absorbed) noexcept nogil

cdef uint64_t cut_contractions(
    Cursor* cursor, int rules, uint64_t starts, uint64_t candidates, uint64_t letter, Py_ssize_t n_known, bint* at_end
) noexcept nogil

cdef uint64_t find_first_clip_token(Cursor* cursor, uint64_t candidates) noexcept nogil


cdef inline uint64_t find_first_bytes(uint64_t last, uint64_t tail) noexcept nogil:
    """Return the first byte of each character whose last byte is set; characters have at most three bytes."""
    cdef uint64_t inner = last & tail, first
    if inner == 0:
        return last
    first = last & ~tail
    inner >>= 1
    first |= inner & ~tail
    return first | (inner & tail) >> 1


cdef inline uint64_t find_ends_of_single_others(uint64_t run_start, uint64_t other, uint64_t tail) noexcept nogil:
    """Return the byte after each run of other characters that is one character long."""
    cdef uint64_t last = run_start, inner = other & tail
    if inner:
        last |= run_start << 1 & inner
        last |= last << 1 & inner
        last |= last << 1 & inner
        last &= ~(inner >> 1)
    return last << 1 & ~other


cdef inline uint64_t find_starts(
    Cursor* cursor, const int rules, const Masks* classes, Py_ssize_t left, bint* at_end
) noexcept nogil:
    """Find the starts of pretokens in the 64 bytes from `pos`, the start of a pretoken; `left` bytes remain.

    A bit is set only if a pretoken begins there whatever follows the block; the first bit is always set. `at_end` is
    set if the text ends in the block and the end of its last pretoken is certain.

    A character is a letter, a number, white space (newlines included) or other; each of its bytes has the bit of its
    class. A run of a class begins where another class precedes it, `X & ~(X << 1)`. Pretokens differ from runs:

    - White space: the last character before a non-space starts a pretoken, which the following word joins. In gpt2 a
      space joins any run that follows (in starcoder not numbers, which are pretokens of their own). In the other
      patterns a space joins other characters, and any white space but a newline joins letters.
    - In cl100k and o200k a single other character joins the letters after it, newlines join the other characters
      before them, numbers are split every three digits, and white space is split after its last newline.
    - Contractions are rare and cut out in a second step.

    Worked example, gpt2: in "It's  ok" pretokens begin at It, 's, the first space and " ok": bits 0, 2, 4 and 5.
    """
    cdef uint64_t letter = classes.letter, number = classes.number, space = classes.space
    cdef uint64_t other, starts, last_space, valid, apostrophe = classes.apostrophe
    cdef Py_ssize_t n_known = min(left, <Py_ssize_t>64)
    at_end[0] = left <= 64
    if classes.undecided:
        n_known = bpe_ctz(classes.undecided)
        at_end[0] = False
        if n_known == 0:
            return 1
    valid = mask_below(n_known)
    other = ~(letter | number | space) & valid
    if not rules & LINES:
        last_space = space & ~(space >> 1) & valid >> 1
        starts = ((letter & ~(letter << 1)) | (other & ~(other << 1))) & ~(classes.blank << 1)
        if rules & SINGLE_DIGITS:
            # No space is split off before a number.
            last_space = find_first_bytes(last_space & ~(number >> 1), classes.tail)
            starts |= number & ~classes.tail
        else:
            last_space = find_first_bytes(last_space, classes.tail)
            starts |= number & ~(number << 1) & ~(classes.blank << 1)
        starts |= (space & ~(space << 1)) | last_space
    else:
        starts = find_starts_with_lines(cursor, rules, classes, other, at_end, &valid)
    starts = (starts | 1) & valid
    if not rules & CONTRACTIONS:
        return starts
    if rules & CASED and not at_end[0]:
        starts &= ~(apostrophe & (letter << 1) & ~(valid >> 1))              # a contraction may follow the block's end
    if classes.tail or left <= 64:
        apostrophe &= letter >> 1 & valid
        n_known = 64 - bpe_clz(valid)
        return cut_contractions(cursor, rules, starts, apostrophe, letter, n_known, at_end) if apostrophe else starts
    if rules & CASED:
        apostrophe &= letter << 1 & letter >> 1 & valid
        return join_suffixes(cursor, rules, starts, apostrophe, letter, valid, at_end) if apostrophe else starts
    apostrophe &= starts
    starts &= apostrophe & ~(valid >> 3) ^ (apostrophe & ~(valid >> 3)) - 1  # up to the first with unknown letters
    apostrophe &= letter >> 1 & valid >> 3
    return cut_plain_contractions(cursor, rules, starts, apostrophe) if apostrophe else starts


cdef inline uint64_t find_starts_with_lines(
    Cursor* cursor, const int rules, const Masks* classes, uint64_t other, bint* at_end, uint64_t* certain
) noexcept nogil:
    """Return the certain starts of pretokens under the rule LINES (cl100k, o200k), without contractions.

    `certain` holds the bits of the block on entry and those whose starts are certain on return, always the lowest
    ones; `at_end` becomes False if there are fewer of them. Newlines that belong to the punctuation before them are
    absorbed; all other white space is free.
    """
    cdef uint64_t letter = classes.letter, number = classes.number, space = classes.space, newline = classes.newline
    cdef uint64_t other_starts = other & ~(other << 1) & ~(classes.blank << 1)
    cdef uint64_t space_starts, free_newline, after_line, plain_space, doubtful, starts, last_space, free_space, inner
    cdef uint64_t after_single_others
    cdef uint64_t absorbed = newline & (other << 1), valid = certain[0], kept = valid, upper = classes.upper
    absorbed = newline & ~(newline + absorbed)             # the carry runs through newlines after others
    if rules & CASED and classes.slash & other & (absorbed << 1):
        kept &= find_certain_before_slash(cursor, other & (absorbed << 1), absorbed)
    free_space = space & ~absorbed
    free_newline = newline & ~absorbed
    space_starts = free_space & ~(free_space << 1)
    plain_space = free_space & ~free_newline
    after_line = plain_space & (free_newline << 1)         # doubtful if a newline follows in the same run
    doubtful = (plain_space + after_line) & ~plain_space & free_newline
    if doubtful:
        kept &= mask_below(64 - bpe_clz((space_starts | 1) & mask_below(bpe_ctz(doubtful))))
    last_space = find_first_bytes(plain_space & ~(space >> 1) & valid >> 1, classes.tail)
    if kept != valid:
        at_end[0] = False
        certain[0] = kept
    if not at_end[0] or rules & WHOLE_AT_END:
        # Of white space at the end of the known bytes only the start is certain. If the text ends there as well, that
        # white space is one pretoken under WHOLE_AT_END.
        inner = ~free_space & valid
        kept &= ~<uint64_t>0 >> bpe_clz(inner) << 1 | 1 if inner else <uint64_t>1
    starts = other_starts | space_starts | after_line | last_space
    after_single_others = find_ends_of_single_others(other_starts, other, classes.tail)
    starts |= letter & ~(letter << 1) & ~((space & ~newline) << 1) & ~after_single_others
    if rules & SINGLE_DIGITS:
        starts |= number & ~classes.tail
    else:
        starts |= find_number_groups(number)
    if rules & CASED:
        starts |= upper & ((letter & ~upper) << 1)
    return starts & kept


cdef inline uint64_t find_number_groups(uint64_t numbers) noexcept nogil:
    """Return the start of each run of numbers, and of each further group of three: 1234567 is 123, 456, 7.

    The loop runs once for every three digits after the sixth; such numbers are rare.
    """
    cdef uint64_t found = numbers & ~(numbers << 1), fourth = numbers & (numbers << 1) & (numbers << 2)
    cdef uint64_t group
    fourth &= fourth << 1                                  # numbers that at least three others precede
    group = found << 3 & fourth
    found |= group
    group = group << 3 & fourth
    while group:
        found |= group
        group = group << 3 & fourth
    return found


cdef inline uint64_t cut_plain_contractions(
    Cursor* cursor, const int rules, uint64_t starts, uint64_t apostrophes
) noexcept nogil:
    """Make contractions pretokens in an ASCII block after which the text goes on.

    A contraction counts only if a pretoken begins at its apostrophe, as at each of `apostrophes`. Their letters are
    within the block.
    """
    cdef Endings endings
    cdef uint64_t one, two
    bpe_contractions(cursor.text + cursor.pos, apostrophes, rules & LINES != 0, &endings)
    one, two = endings.one, endings.two
    return starts & ~((one | two) << 1 | two << 2) | one << 2 | two << 3


cdef inline uint64_t join_suffixes(
    Cursor* cursor, const int rules, uint64_t starts, uint64_t apostrophes, uint64_t letter, uint64_t valid,
    bint* at_end,
) noexcept nogil:
    """Join contractions to the words before them (rule CASED) in an ASCII block after which the text goes on.

    The apostrophes have letters on both sides. Starts are certain up to the first apostrophe whose letters may lie
    after the block.
    """
    cdef Endings endings
    cdef uint64_t one, two, unknown = apostrophes & ~(valid >> 3)
    bpe_contractions(cursor.text + cursor.pos, apostrophes & ~unknown, True, &endings)
    one, two = endings.one, endings.two
    if apostrophes & (one << 2 | two << 3):                # no contraction follows another directly
        return cut_contractions(cursor, rules, starts, apostrophes, letter, 64 - bpe_clz(valid), at_end)
    starts &= ~unknown & unknown - 1
    one &= starts
    two &= starts
    return starts & ~(one | two | (one | two) << 1 | two << 2) | one << 2 | two << 3


cdef inline uint64_t find_starts_between_gaps(
    Cursor* cursor, const int rules, const Masks* classes, uint64_t* certain, bint* at_end
) noexcept nogil:
    """Return the starts of pretokens in the block, for the patterns that drop white space.

    `certain` holds the bits of the block on entry and those whose starts are certain on return, always the lowest
    ones. `at_end` is set if the text ends after them, and becomes False if there are fewer of them.
    """
    cdef uint64_t letter = classes.letter, word = ~classes.space & certain[0], other, starts, found
    cdef uint64_t surely_known
    cdef Py_ssize_t n_known
    if not rules & CLASSES:
        return word & ~(word << 1)
    other = word & ~(letter | classes.number)
    starts = (letter & ~(letter << 1)) | (classes.number & ~classes.tail) | (other & ~(other << 1))
    found = other & ~(other << 1) & other >> 1
    found &= letter >> 2 | ~(certain[0] >> 2)              # `<|` may begin a special token
    if found:
        found = find_first_clip_token(cursor, found)
        at_end[0] &= found == 0
        certain[0] &= found - 1                            # all, if there is none
    found = starts & classes.apostrophe & letter >> 1 & certain[0]
    if found:
        n_known = bpe_ctz(~certain[0]) if ~certain[0] else 64
        if not at_end[0]:                                  # the letters of a contraction may follow the known bytes
            surely_known = mask_below(max(n_known - 3, <Py_ssize_t>0))
            certain[0] &= (found & ~surely_known) - 1 | surely_known
        starts = cut_contractions(cursor, rules, starts, found & certain[0], letter, n_known, at_end)
    return starts & word & certain[0]
