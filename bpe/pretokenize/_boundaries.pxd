"""Where pretokens begin in a window of 64 bytes: 64-bit arithmetic on the masks of its classes.

Inline, for `_scanner.pyx` alone, which makes these functions anew for each pattern's rules. Not here: where the next
window begins, and pretokens that are longer than one.
"""

from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport (
    CASED,
    CLASSES,
    CONTRACTIONS,
    LINES,
    SINGLE_DIGITS,
    WHOLE_AT_END,
    Classes,
    Cursor,
    below,
)
from libc.stdint cimport uint64_t

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    ctypedef struct Endings "bpe_endings":
        uint64_t one
        uint64_t two

    void bpe_contractions(int level, const byte_t* text, bint any_case, Endings* out)
    int bpe_ctz(uint64_t bits)
    int bpe_clz(uint64_t bits)

cdef uint64_t slashes(Cursor* cursor, uint64_t others, uint64_t absorbed) noexcept nogil

cdef uint64_t cut_contractions(
    Cursor* cursor, int rules, uint64_t S, uint64_t candidates, uint64_t L, Py_ssize_t known, bint* whole
) noexcept nogil

cdef uint64_t clip_tokens(Cursor* cursor, uint64_t candidates) noexcept nogil


cdef inline uint64_t first_bytes(uint64_t last, uint64_t tail) noexcept nogil:
    """The first byte of each character whose last byte is set; the characters are of at most three bytes."""
    cdef uint64_t inner = last & tail, first
    if inner == 0:
        return last
    first = last & ~tail
    inner >>= 1
    first |= inner & ~tail
    return first | (inner & tail) >> 1


cdef inline uint64_t after_single_other(uint64_t run_start, uint64_t other, uint64_t tail) noexcept nogil:
    """The byte behind each run of others that is one character long."""
    cdef uint64_t last = run_start, inner = other & tail
    if inner:
        last |= run_start << 1 & inner
        last |= last << 1 & inner
        last |= last << 1 & inner
        last &= ~(inner >> 1)
    return last << 1 & ~other


cdef inline uint64_t starts_in(
    Cursor* cursor, const int rules, const int level, const Classes* classes, Py_ssize_t left, bint* whole
) noexcept nogil:
    """Find the pretokens that begin in the 64 bytes from `pos` on, which a pretoken begins at; the text has `left`.

    A bit is set only where a pretoken begins whatever stands behind the window; the first always is. `whole` is
    set if the text ends in the window and its last pretoken is found.

    The classes are L letters, N numbers, W white space, NL newlines, and all others; a character's class stands on each
    of its bytes. Runs begin where a class follows another one, `X & ~(X << 1)`. The patterns differ from runs in this:

    - white space: its last character, before something else, begins a pretoken of its own, which a word behind it
      joins. In gpt2 a space joins any run (in starcoder none of numbers, which stand alone there); in the others a
      space joins others, and any but a newline joins letters;
    - in cl100k and o200k a single other character joins letters behind it, newlines join the others before them,
      numbers go by three, and white space is cut behind its last newline;
    - contractions, which are rare, are looked at apart.
    """
    cdef uint64_t L = classes.letter, N = classes.number, W = classes.space, AP = classes.apostrophe
    cdef uint64_t other, S, T, valid
    cdef Py_ssize_t known = min(left, <Py_ssize_t>64)
    whole[0] = left <= 64
    if classes.hard:
        known = bpe_ctz(classes.hard)
        whole[0] = False
        if known == 0:
            return 1
    valid = below(known)
    other = ~(L | N | W) & valid
    if not rules & LINES:
        T = W & ~(W >> 1) & valid >> 1
        S = ((L & ~(L << 1)) | (other & ~(other << 1))) & ~(classes.blank << 1)
        if rules & SINGLE_DIGITS:
            T = first_bytes(T & ~(N >> 1), classes.tail)   # white space before a number is not parted
            S |= N & ~classes.tail
        else:
            T = first_bytes(T, classes.tail)
            S |= N & ~(N << 1) & ~(classes.blank << 1)
        S |= (W & ~(W << 1)) | T
    else:
        S = starts_with_lines(cursor, rules, classes, other, whole, &valid)
    S = (S | 1) & valid
    if not rules & CONTRACTIONS:
        return S
    if rules & CASED and not whole[0]:
        S &= ~(AP & (L << 1) & ~(valid >> 1))              # what may be a contraction, its letters unknown
    if classes.tail or left <= 64:
        if AP & (L >> 1) & valid:
            S = cut_contractions(cursor, rules, S, AP & (L >> 1) & valid, L, 64 - bpe_clz(valid), whole)
        return S
    if rules & CASED:
        AP &= L << 1 & L >> 1 & valid
        return cut_plain_suffixes(cursor, rules, level, S, AP, L, valid, whole) if AP else S
    AP &= S
    S &= AP & ~(valid >> 3) ^ (AP & ~(valid >> 3)) - 1     # all up to the first whose letters are unknown
    if AP & (L >> 1):
        S = cut_plain_contractions(cursor, rules, level, S, AP)
    return S


cdef inline uint64_t starts_with_lines(
    Cursor* cursor, const int rules, const Classes* classes, uint64_t other, bint* whole, uint64_t* certain
) noexcept nogil:
    """The starts of cl100k and o200k, but for contractions; only those that are certain.

    `certain` has the bits to look at, and gets those that are, always the lowest ones; `whole` becomes False where
    they are fewer.
    """
    cdef uint64_t L = classes.letter, N = classes.number, W = classes.space, NL = classes.newline, U = classes.upper
    cdef uint64_t others = other & ~(other << 1) & ~(classes.blank << 1)
    cdef uint64_t spaces, lines, cut, segment, wrong, S, T, W1, inner
    cdef uint64_t absorbed = NL & (other << 1), valid = certain[0], sure = valid
    absorbed = NL & ~(NL + absorbed)                       # the carry runs through the newlines behind others
    if rules & CASED and classes.slash & other & (absorbed << 1):
        sure &= slashes(cursor, other & (absorbed << 1), absorbed)
    W1 = W & ~absorbed
    lines = NL & ~absorbed
    spaces = W1 & ~(W1 << 1)
    segment = W1 & ~lines
    cut = segment & (lines << 1)                           # behind a newline; wrong where another one follows
    wrong = (segment + cut) & ~segment & lines
    if wrong:
        sure &= below(64 - bpe_clz((spaces | 1) & below(bpe_ctz(wrong))))
    T = first_bytes(segment & ~(W >> 1) & valid >> 1, classes.tail)
    if sure != valid:
        whole[0] = False
        certain[0] = sure
    if not whole[0] or rules & WHOLE_AT_END:
        # White space at the end of what is known: only where it begins is certain. Where the text ends there too,
        # WHOLE_AT_END takes it as one.
        inner = ~W1 & valid
        sure &= ~<uint64_t>0 >> bpe_clz(inner) << 1 | 1 if inner else <uint64_t>1
    S = others | spaces | cut | T
    S |= L & ~(L << 1) & ~((W & ~NL) << 1) & ~after_single_other(others, other, classes.tail)
    if rules & SINGLE_DIGITS:
        S |= N & ~classes.tail
    else:
        S |= by_three(N)
    if rules & CASED:
        S |= U & ((L & ~U) << 1)
    return S & sure


cdef inline uint64_t by_three(uint64_t numbers) noexcept nogil:
    """Where runs begin, and each fourth of them."""
    cdef uint64_t found = numbers & ~(numbers << 1), behind = numbers & (numbers << 1) & (numbers << 2)
    cdef uint64_t again
    behind &= behind << 1
    again = found << 3 & behind
    found |= again
    again = again << 3 & behind
    while again:                                           # numbers of more than six digits are rare
        found |= again
        again = again << 3 & behind
    return found


cdef inline uint64_t cut_plain_contractions(
    Cursor* cursor, const int rules, const int level, uint64_t S, uint64_t apostrophes
) noexcept nogil:
    """Cut out the contractions at apostrophes that pretokens begin with, where all is ASCII and the text goes on.

    The letters of `apostrophes` whose bits S has lie in the window.
    """
    cdef Endings endings
    cdef uint64_t one, two
    bpe_contractions(level, cursor.text + cursor.pos, rules & LINES != 0, &endings)
    one = apostrophes & S & endings.one >> 1
    two = apostrophes & S & endings.two >> 1
    return S & ~((one | two) << 1 | two << 2) | one << 2 | two << 3


cdef inline uint64_t cut_plain_suffixes(
    Cursor* cursor, const int rules, const int level, uint64_t S, uint64_t apostrophes, uint64_t L, uint64_t valid,
    bint* whole
) noexcept nogil:
    """Join contractions to the words before them, as CASED has it, where all is ASCII and the text goes on.

    The apostrophes stand between letters. All up to the first one whose letters are unknown is certain.
    """
    cdef Endings endings
    cdef uint64_t one, two, unknown = apostrophes & ~(valid >> 3)
    bpe_contractions(level, cursor.text + cursor.pos, True, &endings)
    one = apostrophes & endings.one >> 1
    two = apostrophes & endings.two >> 1
    if apostrophes & (one << 2 | two << 3):                # behind a contraction there is no other
        return cut_contractions(cursor, rules, S, apostrophes, L, 64 - bpe_clz(valid), whole)
    S &= ~unknown & unknown - 1
    one &= S
    two &= S
    return S & ~(one | two | (one | two) << 1 | two << 2) | one << 2 | two << 3


cdef inline uint64_t starts_between_gaps(
    Cursor* cursor, const int rules, const Classes* classes, uint64_t* certain, bint* whole
) noexcept nogil:
    """Find the pretokens that begin in the window, of the patterns that drop white space.

    `certain` has the bits to look at, and gets those that are, always the lowest ones; `whole` says that the text ends
    behind them, and becomes False where they are fewer.
    """
    cdef uint64_t L = classes.letter, word = ~classes.space & certain[0], other, S, open
    cdef Py_ssize_t known
    if not rules & CLASSES:
        return word & ~(word << 1)
    other = word & ~(L | classes.number)
    S = (L & ~(L << 1)) | (classes.number & ~classes.tail) | (other & ~(other << 1))
    open = other & ~(other << 1) & other >> 1
    open &= L >> 2 | ~(certain[0] >> 2)                    # `<|` may begin a special token
    if open:
        open = clip_tokens(cursor, open)
        whole[0] &= open == 0
        certain[0] &= open - 1                             # all, if there is none
    open = S & classes.apostrophe & L >> 1 & certain[0]
    if open:
        known = bpe_ctz(~certain[0]) if ~certain[0] else 64
        if not whole[0]:                                   # letters may be unknown, and what they cut
            certain[0] &= (open & ~below(max(known - 3, <Py_ssize_t>0))) - 1 | below(max(known - 3, <Py_ssize_t>0))
        S = cut_contractions(cursor, rules, S, open & certain[0], L, known, whole)
    return S & word & certain[0]
