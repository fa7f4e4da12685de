"""Scanners that read 64 bytes at a time: where the pretokens of a text begin and end.

The bytes are turned into bit masks of character classes, and boundaries are found by 64-bit arithmetic on them; a
pretoken that the masks cannot decide is read by its function in `characters.pyx`, and so is all text of patterns
that have no windows. Not here: patterns without a scanner, which `bpe/pretokenize` gives to the `regex` package.
"""

import numpy as np

from bpe._core.characters cimport contraction, contraction_any_case, gap_of, next_of, next_t
from bpe._core.scanners cimport CL100K, CLIP, GPT2, LLAMA3, O200K, QWEN2, TEKKEN, WHITESPACE, WHOLE
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
    class_of_code,
    decode_char,
)
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "classify.h" nogil:
    ctypedef struct Endings "bpe_endings":
        uint64_t one
        uint64_t two

    struct Level "bpe_level":
        void (*ascii)(const byte_t* text, Masks* out) noexcept nogil

    Level classify "bpe_classify"
    int bpe_choose_classify(int most)
    bint bpe_plain_classes(int level, const byte_t* text, Masks* out)
    void bpe_contractions(int level, const byte_t* text, bint any_case, Endings* out)
    Py_ssize_t bpe_places(int level, uint64_t bits, uint32_t base, uint32_t* out)
    int bpe_ctz(uint64_t bits)
    int bpe_clz(uint64_t bits)

cdef extern from *:
    """
    /* This module's inline functions are made anew for each pattern's rules, so that those are constants (5% faster),
     * and for each level of vector instructions: what is declared here to be compiled for them, is. */
    #if defined(__GNUC__) || defined(__clang__)
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))
    #define BPE_WHOLE __attribute__((flatten))
    #define BPE_APART __attribute__((noinline))
    #else
    #define BPE_WHOLE
    #define BPE_APART
    #endif
    struct bpe_cursor;
    typedef Py_ssize_t (*bpe_next_end)(const uint8_t*, Py_ssize_t, Py_ssize_t);
    BPE_WHOLE BPE_FOR_AVX2 static Py_ssize_t bpe_scan_avx2(struct bpe_cursor*, uint32_t*, Py_ssize_t);
    BPE_WHOLE BPE_FOR_AVX512 static Py_ssize_t bpe_scan_avx512(struct bpe_cursor*, uint32_t*, Py_ssize_t);
    BPE_WHOLE BPE_FOR_AVX2 static Py_ssize_t bpe_gaps_avx2(struct bpe_cursor*, uint32_t*, uint32_t*, Py_ssize_t);
    BPE_WHOLE BPE_FOR_AVX512 static Py_ssize_t bpe_gaps_avx512(struct bpe_cursor*, uint32_t*, uint32_t*, Py_ssize_t);
    BPE_APART static Py_ssize_t bpe_long_run(struct bpe_cursor*, bpe_next_end);
    BPE_APART static uint64_t bpe_clip_tokens(struct bpe_cursor*, uint64_t);
    BPE_APART static void bpe_classify_chunk(struct bpe_cursor*);
    BPE_APART static uint64_t bpe_slashes(struct bpe_cursor*, uint64_t, uint64_t);
    BPE_APART static Py_ssize_t bpe_long_pretoken(struct bpe_cursor*, int, uint64_t, bpe_next_end);
    BPE_APART static uint64_t bpe_cut_contractions(
        struct bpe_cursor*, int, uint64_t, uint64_t, uint64_t, Py_ssize_t, int*);
    """

cdef extern from "letters.h" nogil:
    ctypedef struct WideLetters "bpe_wide_letters":
        uint64_t two
        uint64_t upper
        uint64_t uncased
        uint64_t three
        uint64_t other

    void bpe_find_letters(const byte_t* text, bint cased, WideLetters* out)
    void bpe_choose_letters(int most)

#: The vector instructions to use at most, by name.
LEVELS = {"none": 0, "simd128": 1, "avx2": 2, "avx512": 3}

UNICODE_VERSION = BPE_UNICODE_VERSION.decode()


cdef int level_chosen = 0

# Windows of 64 bytes --------------------------------------------------------------------------------------------------


def choose_vectors(int most):
    """Choose vector instructions, at most one of LEVELS; the level that this machine then uses. None until chosen."""
    global level_chosen
    bpe_choose_letters(most)
    level_chosen = bpe_choose_classify(most)
    return level_chosen


cdef void classify_chunk "bpe_classify_chunk"(Cursor* cursor) noexcept nogil:
    """Fill the masks from `pos` on, which is the start of a character; further each time that the text behind them

    is asked for, since a text may need them here and there only.
    """
    cdef byte_t padded[64]
    cdef Py_ssize_t left = cursor.end - cursor.pos, words, i, rest
    cdef const byte_t* text = cursor.text + cursor.pos
    cursor.words = min(2 * cursor.words, <Py_ssize_t>CHUNK_WORDS) if cursor.pos <= cursor.known else LEAST_WORDS
    words = min(cursor.words, (left + 63) >> 6)
    cursor.base = cursor.pos
    cursor.known = min(cursor.end, cursor.pos + 64 * words)
    for i in range(words):
        rest = left - 64 * i
        if rest >= 64:
            classify.ascii(text + 64 * i, &cursor.masks[i])
        else:                                              # never read past the text
            memset(padded, 0, 64)
            memcpy(padded, text + 64 * i, rest)
            classify.ascii(padded, &cursor.masks[i])
    memset(&cursor.masks[words], 0, 2 * sizeof(Masks))
    for i in range(words):
        if cursor.masks[i].lead:
            classify_wide(cursor, i)


cdef void classify_wide(Cursor* cursor, Py_ssize_t word) noexcept nogil:
    """Add the characters of several bytes that begin in a word of the masks: their class, on each of their bytes.

    Letters of two and three bytes, nearly all there are, are found together (`letters.h`), the others one at a time.
    """
    cdef Masks* masks = &cursor.masks[word]
    cdef Masks* after = masks + 1
    cdef Py_ssize_t at = cursor.base + 64 * word
    cdef const byte_t* text = cursor.text + at
    cdef byte_t padded[66]
    cdef WideLetters found
    cdef uint64_t letters, rest, tail, three, into
    if at + 66 > cursor.end:
        memset(padded, 0, 66)
        memcpy(padded, text, cursor.end - at)
        text = padded
    bpe_find_letters(text, cursor.rules & CASED, &found)
    three = found.three | found.other
    masks.lead &= ~(found.two | three)
    letters = found.two | found.three
    tail = (found.two | three) << 1 | three << 2
    letters |= letters << 1 | found.three << 2
    masks.letter |= letters
    masks.tail |= tail
    into = (found.two | found.three) >> 63 | found.three >> 62  # the bytes that lie in the next word
    after.letter |= into
    after.tail |= (found.two | three) >> 63 | three >> 62
    if cursor.rules & CASED:
        rest = found.uncased | found.three
        masks.uncased |= rest | rest << 1 | found.three << 2
        after.uncased |= rest >> 63 | found.three >> 62
        masks.upper |= found.upper | found.upper << 1
        after.upper |= found.upper >> 63
    if masks.lead:
        classify_others(cursor, word)


cdef void classify_others(Cursor* cursor, Py_ssize_t word) noexcept nogil:
    """Add the characters that begin at the leads left in a word of the masks.

    A byte that begins no valid character stays as it is, a character of no class.
    """
    cdef uint64_t lead = cursor.masks[word].lead
    cdef Py_ssize_t at = cursor.base + 64 * word, length
    cdef int bit, bits, hard_bits = 0
    cdef uint32_t code
    if cursor.rules & LINES and not cursor.rules & SINGLE_DIGITS:
        hard_bits |= NUMBER
    while lead:
        bit = bpe_ctz(lead)
        lead &= lead - 1
        code = decode_char(cursor.text, at + bit, cursor.end, &length)
        bits = class_of_code(code)
        if code == 0x345 and cursor.rules & CLASSES:       # `clip_class_at` says why
            bits = SPACE
        if length > 1:
            classify_one(&cursor.masks[word], bit, length, bits, bits & hard_bits, cursor.rules)


cdef inline void classify_one(
    Masks* masks, int bit, Py_ssize_t length, int bits, bint hard, int rules
) noexcept nogil:
    """Add one character of several bytes; it may reach into the next word."""
    cdef uint64_t low = below(length) << bit, high = 0
    cdef Masks* after = masks + 1
    if bit + length > 64:
        high = below(length) >> (64 - bit)
    masks.tail |= low & ~(<uint64_t>1 << bit)
    after.tail |= high
    if bits & LETTER:
        masks.letter |= low
        after.letter |= high
    elif bits & SPACE:
        masks.space |= low
        after.space |= high
    elif bits & NUMBER:
        masks.number |= low
        after.number |= high
    if rules & CASED and bits & (UPPER | LOWER):
        if not bits & LETTER:                              # a mark is a part of words, and not only of them
            hard = True
        elif not bits & LOWER:
            masks.upper |= low
            after.upper |= high
        elif bits & UPPER:
            masks.uncased |= low
            after.uncased |= high
    if hard:
        masks.hard |= low
        after.hard |= high


cdef inline uint64_t shifted(uint64_t low, uint64_t high, int shift) noexcept nogil:
    """64 bits from bit `shift` of `low` on."""
    return low >> shift | high << 1 << (63 - shift)


cdef inline uint64_t below(Py_ssize_t n) noexcept nogil:
    """The n lowest bits, 0 <= n <= 64."""
    return ~<uint64_t>0 if n >= 64 else (<uint64_t>1 << n) - 1


cdef inline uint64_t first_bytes(uint64_t last, uint64_t tail) noexcept nogil:
    """The first byte of each character whose last byte is set; the characters are of at most three bytes."""
    cdef uint64_t inner = last & tail, first
    if inner == 0:
        return last
    first = last & ~tail
    inner >>= 1
    first |= inner & ~tail
    return first | (inner & tail) >> 1


cdef inline uint64_t after_lone_other(uint64_t run_start, uint64_t other, uint64_t tail) noexcept nogil:
    """The byte behind each run of others that is one character long."""
    cdef uint64_t last = run_start, inner = other & tail
    if inner:
        last |= run_start << 1 & inner
        last |= last << 1 & inner
        last |= last << 1 & inner
        last &= ~(inner >> 1)
    return last << 1 & ~other


ctypedef struct Classes:  # of the characters in a window, on each of their bytes
    uint64_t letter
    uint64_t number
    uint64_t space
    uint64_t newline
    uint64_t blank
    uint64_t apostrophe
    uint64_t slash        # all bits where it is not known
    uint64_t upper
    uint64_t tail         # bytes of a character after its first
    uint64_t hard         # characters that the masks cannot tell enough of


cdef inline bint ascii_window(const byte_t* text, const int level, Classes* out) noexcept nogil:
    """The classes of 64 bytes; False where characters of several bytes stand there, and they are not right."""
    cdef Masks masks
    if not bpe_plain_classes(level, text, &masks):
        return False
    out.letter, out.number, out.space = masks.letter, masks.number, masks.space
    out.newline, out.blank, out.apostrophe, out.upper = masks.newline, masks.blank, masks.apostrophe, masks.upper
    out.slash = masks.slash
    out.tail = out.hard = 0
    return True


cdef inline void any_window(Cursor* cursor, const int rules, Classes* out) noexcept nogil:
    """The classes of the 64 bytes from `pos` on, or of as many as there are."""
    cdef Py_ssize_t offset
    cdef const Masks* low
    cdef const Masks* high
    cdef int shift
    if cursor.pos + 64 > cursor.known and cursor.known < cursor.end or cursor.pos >= cursor.known:
        classify_chunk(cursor)
    offset = cursor.pos - cursor.base
    shift = offset & 63
    low = &cursor.masks[offset >> 6]
    high = low + 1
    out.letter = shifted(low.letter, high.letter, shift)
    out.number = shifted(low.number, high.number, shift)
    out.space = shifted(low.space, high.space, shift)
    out.newline = shifted(low.newline, high.newline, shift)
    out.blank = shifted(low.blank, high.blank, shift)
    out.apostrophe = shifted(low.apostrophe, high.apostrophe, shift)
    out.slash = ~<uint64_t>0
    out.upper = shifted(low.upper, high.upper, shift)
    out.tail = shifted(low.tail, high.tail, shift)
    out.hard = shifted(low.hard, high.hard, shift)
    if rules & CASED:
        # A capital behind a letter without case begins a word or not, depending on what follows: `next_end` knows.
        out.hard |= out.upper & shifted(low.uncased, high.uncased, shift) << 1


cdef inline uint64_t starts_in(
    Cursor* cursor, const int rules, const int level, const Classes* classes, Py_ssize_t left, bint* whole
) noexcept nogil:
    """Find the pretokens that begin in the 64 bytes from `pos` on, which a pretoken begins at; the text has `left`.

    A bit is set only where a pretoken begins whatever stands behind the window; the first always is. `whole` tells
    whether the text ends in the window and all is told of it.

    The classes are L letters, N numbers, W white space, NL newlines, and all others; a character's class stands on each
    of its bytes. Runs begin where a class follows another one, `X & ~(X << 1)`. The patterns differ from runs in this:

    - white space: its last character, before something else, begins a pretoken of its own, which a word behind it
      joins. In gpt2 a space joins any run; in the others a space joins others, and any but a newline joins letters;
    - in cl100k and o200k a lone other character joins letters behind it, newlines join the others before them, numbers
      go by three, and white space is cut behind its last newline;
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
        T = first_bytes(W & ~(W >> 1) & valid >> 1, classes.tail)
        S = (L & ~(L << 1)) | (N & ~(N << 1)) | (other & ~(other << 1))
        S = (S & ~(classes.blank << 1)) | (W & ~(W << 1)) | T
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
    S |= L & ~(L << 1) & ~((W & ~NL) << 1) & ~after_lone_other(others, other, classes.tail)
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


cdef uint64_t slashes "bpe_slashes"(Cursor* cursor, uint64_t others, uint64_t absorbed) noexcept nogil:
    """What stays certain where o200k's `[\\r\\n/]*` may meet a slash behind a newline: all before those newlines."""
    cdef int bit
    while others:
        bit = bpe_ctz(others)
        others &= others - 1
        if cursor.text[cursor.pos + bit] == c"/":
            return below(bpe_ctz(absorbed))
    return ~<uint64_t>0


cdef uint64_t cut_contractions "bpe_cut_contractions"(
    Cursor* cursor, int rules, uint64_t S, uint64_t candidates, uint64_t L, Py_ssize_t known, bint* whole
) noexcept nogil:
    """Cut out the contractions among the apostrophes that a letter follows, from left to right."""
    cdef const byte_t* text = cursor.text
    cdef Py_ssize_t at, behind, pos = cursor.pos, done = -1
    cdef uint64_t bit
    cdef bint suffix
    while candidates:
        at = bpe_ctz(candidates)
        bit = <uint64_t>1 << at
        candidates &= candidates - 1
        # In o200k a contraction is the end of a word, unless that ended with a contraction already.
        suffix = rules & CASED and bit & (L << 1) and at != done
        if rules & CASED:
            if not suffix:
                continue
        elif not S & bit:
            continue
        if at + 4 > known and not whole[0]:                # a part of it may be unknown, and what it cuts
            whole[0] = False
            return S & (below(at) if suffix else below(at + 1))
        if not rules & LINES:
            behind = contraction(text, pos + at, cursor.end) - pos
        else:
            behind = contraction_any_case(text, pos + at, cursor.end) - pos
        if behind == at:
            continue
        done = behind
        S &= ~(below(behind) & ~below(at if suffix else at + 1))
        if behind < known:
            S |= <uint64_t>1 << behind
    return S


cdef Py_ssize_t long_pretoken "bpe_long_pretoken"(
    Cursor* cursor, int rules, uint64_t letters, next_t next_end
) noexcept nogil:
    """Where the pretoken at `pos` ends, which is longer than the window or not certain there."""
    cdef Py_ssize_t start = cursor.pos, at = start + 64, offset, length
    cdef const Masks* low
    cdef uint64_t L
    cdef int bits = class_at(cursor.text, start, cursor.end, &length)
    if bits & (NUMBER | NEWLINE) or ~(letters | below(length)) or at >= cursor.end:
        return next_end(cursor.text, start, cursor.end)
    if rules & CASED:                                      # then only letters without case are followed
        at = start + length
        if cursor.text[at] < 0xC0:
            return next_end(cursor.text, start, cursor.end)
    while at < cursor.end:                                 # letters behind the first character: it ends where they end
        if at + 64 > cursor.known and cursor.known < cursor.end:
            while cursor.text[at] & 0xC0 == 0x80:          # masks begin with a character
                at -= 1
            cursor.pos = at
            classify_chunk(cursor)
            cursor.pos = start
        offset = at - cursor.base
        low = &cursor.masks[offset >> 6]
        if rules & CASED:
            L = shifted(low.uncased, (low + 1).uncased, offset & 63)
        else:
            L = shifted(low.letter, (low + 1).letter, offset & 63)
        if ~L:
            at += bpe_ctz(~L)
            break
        at += 64
    if at >= cursor.end:
        return cursor.end
    if rules & CASED and (
        cursor.text[at] == c"'" or class_at(cursor.text, at, cursor.end, &length) & (LETTER | UPPER | LOWER)
    ):
        return next_end(cursor.text, start, cursor.end)    # letters with case, a mark or a contraction go on with it
    return at


cdef inline Py_ssize_t scan_windows(
    Cursor* cursor, const int rules, const int level, next_t next_end, uint32_t* bounds, Py_ssize_t limit
) noexcept nogil:
    """`scan_bounds`, a window at a time; each window begins where the last certain pretoken did.

    A window would wait for all that is done with the one before. So in plain text it begins at the last byte behind a
    letter that is none, which is known long before it is known that a pretoken begins there, and nearly always does.
    """
    cdef Py_ssize_t n = 0, pos = cursor.pos, first = pos, end = cursor.end, behind
    cdef uint64_t found, last
    cdef int step
    cdef Classes classes
    cdef bint whole = False
    while n + LEAST <= limit and pos < end and pos - first < FAR:
        cursor.pos = pos
        if level > 1 and end - pos > 64 and ascii_window(cursor.text + pos, level, &classes):
            step = 63 - bpe_clz(classes.letter << 1 & ~classes.letter | 1)
            found = starts_in(cursor, rules, level, &classes, 65, &whole)
            if found >> step & 1 and step:                 # a branch, which is guessed, and not a choice of two steps
                n += bpe_places(level, found & below(step), <uint32_t>(pos - first), bounds + n)
                pos += step
                continue
        else:
            any_window(cursor, rules, &classes)
            found = starts_in(cursor, rules, level, &classes, end - pos, &whole)
        if found == 1 and not whole:
            behind = long_pretoken(cursor, rules, classes.letter, next_end)
            if behind - first > <Py_ssize_t>0xFFFFFFFF:
                break
            bounds[n] = <uint32_t>(pos - first)
            n += 1
            pos = behind
            continue
        last = 0 if whole else <uint64_t>1 << (63 - bpe_clz(found))
        n += bpe_places(level, found & ~last, <uint32_t>(pos - first), bounds + n)
        pos = end if whole else pos + 63 - bpe_clz(found)
    cursor.pos = pos
    bounds[n] = <uint32_t>(pos - first)
    return n


cdef inline Py_ssize_t scan_patterns(
    Cursor* cursor, const int level, uint32_t* bounds, Py_ssize_t limit
) noexcept nogil:
    """`scan_bounds` with a level's instructions; the commonest patterns' rules are constants."""
    if cursor.scanner == GPT2:
        return scan_windows(cursor, CONTRACTIONS, level, next_of(GPT2), bounds, limit)
    if cursor.scanner == CL100K:
        return scan_windows(cursor, LINES | CONTRACTIONS | WHOLE_AT_END, level, next_of(CL100K), bounds, limit)
    if cursor.scanner == O200K:
        return scan_windows(cursor, LINES | CONTRACTIONS | CASED, level, next_of(O200K), bounds, limit)
    return scan_windows(cursor, cursor.rules, level, next_of(cursor.scanner), bounds, limit)


cdef Py_ssize_t scan_avx512 "bpe_scan_avx512"(Cursor* cursor, uint32_t* bounds, Py_ssize_t limit) noexcept nogil:
    return scan_patterns(cursor, 3, bounds, limit)


cdef Py_ssize_t scan_avx2 "bpe_scan_avx2"(Cursor* cursor, uint32_t* bounds, Py_ssize_t limit) noexcept nogil:
    return scan_patterns(cursor, 2, bounds, limit)


cdef Py_ssize_t scan_plain(Cursor* cursor, uint32_t* bounds, Py_ssize_t limit) noexcept nogil:
    return scan_patterns(cursor, 0, bounds, limit)


# Windows with gaps ----------------------------------------------------------------------------------------------------


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


cdef uint64_t clip_tokens "bpe_clip_tokens"(Cursor* cursor, uint64_t candidates) noexcept nogil:
    """The first of the candidates where `<|` stands, or 0."""
    cdef const byte_t* text
    while candidates:
        text = cursor.text + cursor.pos + bpe_ctz(candidates)
        if text[0] == c"<" and text[1] == c"|":
            return candidates & (0 - candidates)
        candidates &= candidates - 1
    return 0


cdef Py_ssize_t long_run "bpe_long_run"(Cursor* cursor, next_t next_end) noexcept nogil:
    """Where the pretoken at `pos` ends, which may be longer than the window; letters are followed by windows."""
    cdef Py_ssize_t start = cursor.pos, at = start, length, _back
    cdef Classes classes
    cdef uint64_t run
    if cursor.rules & CLASSES and not class_at(cursor.text, at, cursor.end, &length) & LETTER:
        return next_end(cursor.text, at, cursor.end)
    while cursor.end - at >= 64:
        cursor.pos = at
        any_window(cursor, cursor.rules, &classes)
        run = classes.letter if cursor.rules & CLASSES else ~classes.space
        if ~run:
            break
        at += 64
        for _back in range(3):                             # windows begin with a character
            if at < cursor.end and cursor.text[at] & 0xC0 == 0x80:
                at -= 1
    cursor.pos = start
    if at > start and cursor.rules & CLASSES and not class_at(cursor.text, at, cursor.end, &length) & LETTER:
        return at
    return next_end(cursor.text, at, cursor.end)


cdef inline Py_ssize_t scan_between_gaps(
    Cursor* cursor, const int rules, const int level, uint32_t* starts, uint32_t* ends, Py_ssize_t limit
) noexcept nogil:
    """`scan_gaps`, a window at a time; each begins behind the last pretoken that ended in the one before."""
    cdef Py_ssize_t n = 0, pos = cursor.pos, first = pos, end = cursor.end, count, begun
    cdef next_t next_end = next_of(cursor.scanner), gap_end = gap_of(cursor.scanner)
    cdef uint64_t certain, word, S, E
    cdef Classes classes
    cdef bint whole
    while n + LEAST <= limit and pos < end and pos - first < FAR:
        cursor.pos = pos
        whole = end - pos <= 64
        certain = below(end - pos)
        if whole or level <= 1 or not ascii_window(cursor.text + pos, level, &classes):
            any_window(cursor, rules, &classes)
        S = starts_between_gaps(cursor, rules, &classes, &certain, &whole)
        word = ~classes.space & certain
        E = (S | ~word) & word << 1 & certain              # where they end; of the last one that may be unknown
        count = bpe_places(level, E, <uint32_t>(pos - first), ends + n)
        begun = bpe_places(level, S, <uint32_t>(pos - first), starts + n)
        n += count
        if begun > count and whole:
            ends[n] = <uint32_t>(end - first)
            n += 1
        if whole:
            pos = end
        elif begun > count and S > 1:
            pos += 63 - bpe_clz(S)
        elif begun > count or certain == 0:                # longer than the window, or not certain there
            pos = gap_end(cursor.text, pos, end)
            cursor.pos = pos
            if pos < end:
                count = long_run(cursor, next_end) if certain else next_end(cursor.text, pos, end)
                if count - first > <Py_ssize_t>0xFFFFFFFF:
                    break
                starts[n], ends[n] = <uint32_t>(pos - first), <uint32_t>(count - first)
                n += 1
                pos = count
        elif E:
            pos += 63 - bpe_clz(E)
        else:
            pos = gap_end(cursor.text, pos, end)
    cursor.pos = pos
    return n


cdef inline Py_ssize_t scan_gapped_patterns(
    Cursor* cursor, const int level, uint32_t* starts, uint32_t* ends, Py_ssize_t limit
) noexcept nogil:
    """`scan_gaps` with a level's instructions."""
    if cursor.scanner == CLIP:
        return scan_between_gaps(cursor, CLIP_RULES, level, starts, ends, limit)
    return scan_between_gaps(cursor, GAPS, level, starts, ends, limit)


cdef Py_ssize_t gaps_avx512 "bpe_gaps_avx512"(
    Cursor* cursor, uint32_t* starts, uint32_t* ends, Py_ssize_t limit
) noexcept nogil:
    return scan_gapped_patterns(cursor, 3, starts, ends, limit)


cdef Py_ssize_t gaps_avx2 "bpe_gaps_avx2"(
    Cursor* cursor, uint32_t* starts, uint32_t* ends, Py_ssize_t limit
) noexcept nogil:
    return scan_gapped_patterns(cursor, 2, starts, ends, limit)


cdef Py_ssize_t scan_gaps(Cursor* cursor, uint32_t* starts, uint32_t* ends, Py_ssize_t limit) noexcept nogil:
    """Find pretokens with gaps between them and move on behind them; their places are counted from `pos` before.

    More than `limit - LEAST` are found, at most `limit`, but at the end of the text, and before one of 4 GiB.
    """
    if level_chosen == 3:
        return gaps_avx512(cursor, starts, ends, limit)
    if level_chosen == 2:
        return gaps_avx2(cursor, starts, ends, limit)
    return scan_gapped_patterns(cursor, 0, starts, ends, limit)


# What the other kernels call ------------------------------------------------------------------------------------------


cdef inline int rules_of(int scanner) noexcept nogil:
    """The rules of a scanner that reads windows; 0 for one that reads characters."""
    if scanner == CL100K:
        return LINES | CONTRACTIONS | WHOLE_AT_END
    if scanner == LLAMA3:
        return LINES | CONTRACTIONS
    if scanner == QWEN2:
        return LINES | CONTRACTIONS | SINGLE_DIGITS
    if scanner == O200K:
        return LINES | CONTRACTIONS | CASED
    if scanner == TEKKEN:
        return LINES | CASED | SINGLE_DIGITS
    if scanner == GPT2:
        return CONTRACTIONS
    if scanner == CLIP:
        return CLIP_RULES
    return GAPS if scanner == WHITESPACE else 0


cdef void begin(Cursor* cursor, int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Begin a scan of `text[pos:end]`."""
    cursor.scanner = scanner
    cursor.rules = rules_of(scanner)
    cursor.text = text
    cursor.pos = pos
    cursor.end = end
    cursor.base = cursor.known = pos
    cursor.words = LEAST_WORDS


cdef Py_ssize_t scan_characters(
    Cursor* cursor, Py_ssize_t* starts, Py_ssize_t* ends, Py_ssize_t limit
) noexcept nogil:
    """Find up to `limit` pretokens, a character at a time."""
    cdef next_t next_end = next_of(cursor.scanner), gap_end = gap_of(cursor.scanner)
    cdef Py_ssize_t n = 0, at = cursor.pos, end = cursor.end
    while n < limit:
        if gap_end != NULL:
            at = gap_end(cursor.text, at, end)
        if at >= end:
            break
        starts[n] = at
        at = next_end(cursor.text, at, end)
        ends[n] = at
        n += 1
    cursor.pos = at
    return n


cdef Py_ssize_t scan_bounds(Cursor* cursor, uint32_t* bounds, Py_ssize_t limit) noexcept nogil:
    """Find pretokens without gaps and move on behind them: `bounds[i]` to `bounds[i + 1]`, counted from `pos` before.

    More than `limit - LEAST` are found, at most `limit`, but at the end of the text. None at all are found by scanners
    that leave gaps, and where the next pretoken has 4 GiB: `scan` finds those.
    """
    if not cursor.rules or cursor.rules & GAPS:
        return 0
    if level_chosen == 3:
        return scan_avx512(cursor, bounds, limit)
    if level_chosen == 2:
        return scan_avx2(cursor, bounds, limit)
    return scan_plain(cursor, bounds, limit)


cdef Py_ssize_t scan(Cursor* cursor, Py_ssize_t* starts, Py_ssize_t* ends, Py_ssize_t limit) noexcept nogil:
    """Find some pretokens, at most `limit`, and move on behind them; `pos` is `end` at the end of the text.

    Text between pretokens (white space, for the scanners that drop it) is passed over.
    """
    cdef uint32_t bounds[FOUND + 1]
    cdef uint32_t behind[FOUND]
    cdef Py_ssize_t n = 0, first = cursor.pos, i
    cdef const uint32_t* last = &bounds[1]
    if limit >= LEAST and cursor.rules & GAPS:
        n = scan_gaps(cursor, bounds, behind, min(limit, <Py_ssize_t>FOUND))
        last = behind
    elif limit >= LEAST:
        n = scan_bounds(cursor, bounds, min(limit, <Py_ssize_t>FOUND))
    if n == 0:
        return scan_characters(cursor, starts, ends, limit)
    for i in range(n):
        starts[i] = first + bounds[i]
        ends[i] = first + last[i]
    return n


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


def spans(int scanner, const byte_t[::1] text, bint plainly=False):
    """The pretokens of a text as (starts, ends), two int64 arrays of byte offsets.

    With `plainly` they are found a character at a time, the twin that the windows are tested against.
    """
    cdef Py_ssize_t size = text.shape[0], n = 0
    cdef Cursor cursor
    starts = np.empty(size, dtype=np.intp)
    ends = np.empty(size, dtype=np.intp)
    cdef Py_ssize_t[::1] first = starts, last = ends
    if size:
        with nogil:
            begin(&cursor, scanner, &text[0], 0, size)
            if plainly:
                n = scan_characters(&cursor, &first[0], &last[0], size)
            else:
                while cursor.pos < size:
                    n += scan(&cursor, &first[n], &last[n], size - n)
    return starts[:n].astype(np.int64), ends[:n].astype(np.int64)


def count(int scanner, const byte_t[::1] text):
    """How many pretokens a text has: scanning alone, for the benchmarks."""
    cdef uint32_t bounds[FOUND + 1]
    cdef Py_ssize_t starts[FOUND]
    cdef Py_ssize_t ends[FOUND]
    cdef Py_ssize_t total = 0, n
    cdef Cursor cursor
    if text.shape[0]:
        with nogil:
            begin(&cursor, scanner, &text[0], 0, text.shape[0])
            while cursor.pos < cursor.end:
                n = scan_bounds(&cursor, bounds, FOUND)
                total += n if n else scan(&cursor, starts, ends, FOUND)
    return total


def certain(int scanner, const byte_t[::1] text, Py_ssize_t pos):
    """The first place at or after `pos` where a text may be cut, its parts scanning alike apart; its length if none."""
    if pos >= text.shape[0]:
        return text.shape[0]
    with nogil:
        pos = certain_start(scanner, &text[0], pos, text.shape[0])
    return pos
