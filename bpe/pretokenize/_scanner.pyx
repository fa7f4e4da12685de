"""Scanners that read 64 bytes at a time: where the pretokens of a text begin and end.

The bytes are turned into bit masks of character classes (`_char_masks.pyx`), and boundaries are found by 64-bit
arithmetic on the masks (`_boundaries.pxd`). Where the masks cannot decide, the pattern's function in
`_char_scanner.pyx` reads one pretoken; patterns without such arithmetic are read by their function alone. Not here:
patterns without a scanner, which `bpe/pretokenize` gives to the `regex` package.

Measured, English, gpt2: 4.8 GB/s with AVX-512, 2.8 with AVX2, 0.2 a character at a time.
"""

import numpy as np

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from bpe.pretokenize._boundaries cimport starts_between_gaps, starts_in
from bpe.pretokenize._char_masks cimport (
    CASED,
    CLASSES,
    CLIP_RULES,
    CONTRACTIONS,
    GAPS,
    LEAST_WORDS,
    LINES,
    SINGLE_DIGITS,
    WHOLE_AT_END,
    Classes,
    Cursor,
    Masks,
    any_window,
    ascii_window,
    below,
    classify_chunk,
    shifted,
)
from bpe.pretokenize._char_scanner cimport clip_class_at, gap_of, next_of, next_t
from bpe.pretokenize._patterns cimport CL100K, CLIP, GPT2, LLAMA3, O200K, QWEN2, STARCODER, TEKKEN, WHITESPACE
from bpe.text._unicode cimport (
    BPE_CLIP_UNICODE_VERSION,
    BPE_UNICODE_VERSION,
    LETTER,
    LOWER,
    NEWLINE,
    NUMBER,
    UPPER,
    class_at,
)
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    Py_ssize_t bpe_places(int level, uint64_t bits, uint32_t base, uint32_t* out)
    int bpe_ctz(uint64_t bits)
    int bpe_clz(uint64_t bits)

cdef extern from *:
    """
    /* This module's inline functions are made anew for each pattern's rules, so that those are constants (5% faster),
     * and for each level of vector instructions: what is declared here to be compiled for them, is. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))
    #define BPE_WHOLE __attribute__((flatten))
    #define BPE_APART __attribute__((noinline))
    struct bpe_cursor;
    typedef Py_ssize_t (*bpe_next_end)(const uint8_t*, Py_ssize_t, Py_ssize_t);
    BPE_WHOLE BPE_FOR_AVX2 static Py_ssize_t bpe_scan_avx2(struct bpe_cursor*, uint32_t*, Py_ssize_t);
    BPE_WHOLE BPE_FOR_AVX512 static Py_ssize_t bpe_scan_avx512(struct bpe_cursor*, uint32_t*, Py_ssize_t);
    BPE_WHOLE BPE_FOR_AVX2 static Py_ssize_t bpe_gaps_avx2(struct bpe_cursor*, uint32_t*, uint32_t*, Py_ssize_t);
    BPE_WHOLE BPE_FOR_AVX512 static Py_ssize_t bpe_gaps_avx512(struct bpe_cursor*, uint32_t*, uint32_t*, Py_ssize_t);
    BPE_APART static Py_ssize_t bpe_long_run(struct bpe_cursor*, bpe_next_end);
    BPE_APART static Py_ssize_t bpe_long_pretoken(struct bpe_cursor*, int, uint64_t, bpe_next_end);
    """

cdef enum:
    FOUND = 512               # pretokens that `scan` finds at most

UNICODE_VERSION = BPE_UNICODE_VERSION.decode()
CLIP_UNICODE_VERSION = BPE_CLIP_UNICODE_VERSION.decode()


cdef int vector_level = 0     # as in base/_cpu.pyx


cdef void use_level(int level) noexcept:
    global vector_level
    vector_level = level


follow_vector_level(use_level)


# Windows of 64 bytes --------------------------------------------------------------------------------------------------


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
    """`scan_bounds`, a window at a time; each window begins where the last certain pretoken of the one before begins.

    That place is known only when all work on the window is done. So in plain text the next window is begun earlier, at
    the last non-letter that follows a letter: this is known at once, and a pretoken nearly always begins there.
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


cdef Py_ssize_t long_run "bpe_long_run"(Cursor* cursor, next_t next_end) noexcept nogil:
    """Where the pretoken at `pos` ends, which may be longer than the window; letters are followed by windows."""
    cdef Py_ssize_t start = cursor.pos, at = start, length, _back
    cdef Classes classes
    cdef uint64_t run
    if cursor.rules & CLASSES and not clip_class_at(cursor.text, at, cursor.end, &length) & LETTER:
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
    if at > start and cursor.rules & CLASSES and not clip_class_at(cursor.text, at, cursor.end, &length) & LETTER:
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
    if vector_level == 3:
        return gaps_avx512(cursor, starts, ends, limit)
    if vector_level == 2:
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
    if scanner == STARCODER:
        return CONTRACTIONS | SINGLE_DIGITS
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
    if vector_level == 3:
        return scan_avx512(cursor, bounds, limit)
    if vector_level == 2:
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
