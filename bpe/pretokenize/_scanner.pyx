"""Scanners that read 64 bytes at a time: they find the start and end of each pretoken of a text.

`_char_masks.pyx` converts bytes to bit masks of character classes, and `_boundaries.pxd` finds boundaries by 64-bit
arithmetic on the masks (simdjson's approach). Where the masks cannot decide, the pattern's function in
`_char_scanner.pyx` reads one pretoken; patterns without such arithmetic are read by their function alone. Each block
starts at a certain start of a pretoken, so no state is carried from one block to the next, and the result is that of
reading characters. Cost: linear; about 10% of the text is classified twice. The `regex` package matches patterns
without a scanner (`pretokenizer.py`).

Measured, English, gpt2: 4.8 GB/s with AVX-512, 2.8 with AVX2, 0.2 one character at a time.
"""

import numpy as np

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from bpe.pretokenize._boundaries cimport find_starts_between_gaps, find_starts
from bpe.pretokenize._char_masks cimport (
    CASED, CLASSES, CLIP_RULES, CONTRACTIONS, GAPS, MIN_BLOCKS, LINES, SINGLE_DIGITS, WHOLE_AT_END, Cursor, Masks,
    classify_any_block, classify_ascii_block, mask_below, bpe_clz, bpe_ctz, classify_chunk, shift_bits,
)
from bpe.pretokenize._char_scanner cimport get_clip_class_at, get_skip_gap, get_find_end, find_end_t
from bpe.pretokenize._patterns cimport CL100K, CLIP, GPT2, LLAMA3, O200K, QWEN2, SCANNERS, STARCODER, TEKKEN, WHITESPACE
from bpe.text._unicode cimport (
    BPE_CLIP_UNICODE_VERSION, BPE_UNICODE_VERSION, LETTER, LOWER, NEWLINE, NUMBER, UPPER, get_class_at,
)
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "bpe/base/_vectors.h" nogil:
    void prefetch_ahead "BPE_PREFETCH_AHEAD"(const byte_t* text)

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    Py_ssize_t bpe_bit_positions(int level, uint64_t bits, uint32_t base, uint32_t* out)

cdef extern from *:
    """
    /* The compiler specializes this module's inline functions for each pattern, whose rules become constants (5%
     * faster), and for each vector level: the declarations below give each specialization its target. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))
    #define BPE_FLATTEN __attribute__((flatten))
    #define BPE_NOINLINE __attribute__((noinline))
    struct bpe_cursor;
    typedef Py_ssize_t (*bpe_next_end)(const uint8_t*, Py_ssize_t, Py_ssize_t);
    BPE_FLATTEN BPE_TARGET_AVX2
    static Py_ssize_t bpe_scan_avx2(struct bpe_cursor*, uint32_t*, uint32_t*, Py_ssize_t);
    BPE_FLATTEN BPE_TARGET_AVX512
    static Py_ssize_t bpe_scan_avx512(struct bpe_cursor*, uint32_t*, uint32_t*, Py_ssize_t);
    BPE_NOINLINE static Py_ssize_t bpe_long_run(struct bpe_cursor*, bpe_next_end);
    BPE_NOINLINE static Py_ssize_t bpe_long_pretoken(struct bpe_cursor*, int, uint64_t, bpe_next_end);
    """

cdef enum:
    MAX_PRETOKENS = 512       # largest number of pretokens that a call of `scan` finds

UNICODE_VERSION = BPE_UNICODE_VERSION.decode()
CLIP_UNICODE_VERSION = BPE_CLIP_UNICODE_VERSION.decode()


# Blocks of 64 bytes ---------------------------------------------------------------------------------------------------


cdef Py_ssize_t find_long_pretoken_end "bpe_find_long_pretoken_end"(
    Cursor* cursor, int rules, uint64_t letters, find_end_t find_end
) noexcept nogil:
    """Return the end of the pretoken at `pos`, which is longer than the block or not certain within it."""
    cdef Py_ssize_t start = cursor.pos, position = start + 64, offset, length
    cdef const Masks* low
    cdef uint64_t letters_here
    cdef int bits = get_class_at(cursor.text, start, cursor.end, &length)
    if bits & (NUMBER | NEWLINE) or ~(letters | mask_below(length)) or position >= cursor.end:
        return find_end(cursor.text, start, cursor.end)
    if rules & CASED:                                      # only runs of letters without case are followed
        position = start + length
        if cursor.text[position] < 0xC0:
            return find_end(cursor.text, start, cursor.end)
    while position < cursor.end:                           # after the first character it is a run of letters
        if position + 64 > cursor.masks_end and cursor.masks_end < cursor.end:
            while cursor.text[position] & 0xC0 == 0x80:    # masks begin at a character
                position -= 1
            cursor.pos = position
            classify_chunk(cursor)
            cursor.pos = start
        offset = position - cursor.base
        low = &cursor.masks[offset >> 6]
        if rules & CASED:
            letters_here = shift_bits(low.uncased, (low + 1).uncased, offset & 63)
        else:
            letters_here = shift_bits(low.letter, (low + 1).letter, offset & 63)
        if ~letters_here:
            position += bpe_ctz(~letters_here)
            break
        position += 64
    if position >= cursor.end:
        return cursor.end
    if rules & CASED and (
        cursor.text[position] == c"'"
        or get_class_at(cursor.text, position, cursor.end, &length) & (LETTER | UPPER | LOWER)
    ):
        return find_end(cursor.text, start, cursor.end)    # a letter with case, a mark or a contraction follows
    return position


cdef inline void drop_after(Masks* masks, Py_ssize_t n) noexcept nogil:
    """Drop the classes of all but the first n bytes of a block; `find_starts` needs no others of its masks."""
    cdef uint64_t valid = mask_below(n)
    masks.letter &= valid
    masks.upper &= valid
    masks.number &= valid
    masks.space &= valid
    masks.newline &= valid
    masks.blank &= valid
    masks.apostrophe &= valid


cdef inline Py_ssize_t scan_blocks(
    Cursor* cursor, const int rules, const int level, find_end_t find_end, uint32_t* bounds, Py_ssize_t limit
) noexcept nogil:
    """Implement `scan_patterns` without gaps; each block begins at the last certain start in the previous one.

    That start is known only after all work on the block. In ASCII text the next block therefore begins at the last
    non-letter that follows a letter, which is known early: a pretoken nearly always begins there, and the processor
    predicts the branch that checks it, so the work on consecutive blocks overlaps.
    """
    cdef Py_ssize_t n = 0, pos = cursor.pos, first = pos, end = cursor.end, next_pos
    cdef Py_ssize_t min_left = 1 if cursor.can_read_on else 65  # bytes of text, so that 64 can be read
    cdef uint64_t starts, last
    cdef int guessed_start
    cdef Masks masks
    cdef bint at_end = False, is_ascii
    while n + MIN_ROOM <= limit and pos < end and pos - first < MAX_SPAN:
        cursor.pos = pos
        prefetch_ahead(cursor.text + pos)
        is_ascii = end - pos >= min_left and classify_ascii_block(cursor.text + pos, level, &masks)
        if is_ascii and end - pos > 64:
            guessed_start = 63 - bpe_clz(masks.letter << 1 & ~masks.letter | 1)
            starts = find_starts(cursor, rules, &masks, 65, &at_end)
            if starts >> guessed_start & 1 and guessed_start:  # a predicted branch, not a conditional move
                n += bpe_bit_positions(level, starts & mask_below(guessed_start), <uint32_t>(pos - first), bounds + n)
                pos += guessed_start
                continue
        else:
            if is_ascii:
                drop_after(&masks, end - pos)
            else:
                classify_any_block(cursor, rules, &masks)
            starts = find_starts(cursor, rules, &masks, end - pos, &at_end)
        if starts == 1 and not at_end:
            next_pos = find_long_pretoken_end(cursor, rules, masks.letter, find_end)
            if next_pos - first > <Py_ssize_t>0xFFFFFFFF:
                break
            bounds[n] = <uint32_t>(pos - first)
            n += 1
            pos = next_pos
            continue
        last = 0 if at_end else <uint64_t>1 << (63 - bpe_clz(starts))
        n += bpe_bit_positions(level, starts & ~last, <uint32_t>(pos - first), bounds + n)
        pos = end if at_end else pos + 63 - bpe_clz(starts)
    cursor.pos = pos
    bounds[n] = <uint32_t>(pos - first)
    return n


# Blocks with gaps -----------------------------------------------------------------------------------------------------


cdef Py_ssize_t find_long_run_end "bpe_find_long_run_end"(Cursor* cursor, find_end_t find_end) noexcept nogil:
    """Return the end of the pretoken at `pos`, which may be longer than the block; letters are followed by blocks."""
    cdef Py_ssize_t start = cursor.pos, position = start, length, _back
    cdef Masks classes
    cdef uint64_t run
    if cursor.rules & CLASSES and not get_clip_class_at(cursor.text, position, cursor.end, &length) & LETTER:
        return find_end(cursor.text, position, cursor.end)
    while cursor.end - position >= 64:
        cursor.pos = position
        classify_any_block(cursor, cursor.rules, &classes)
        run = classes.letter if cursor.rules & CLASSES else ~classes.space
        if ~run:
            break
        position += 64
        for _back in range(3):                             # blocks begin at a character
            if position < cursor.end and cursor.text[position] & 0xC0 == 0x80:
                position -= 1
    cursor.pos = start
    if position > start and cursor.rules & CLASSES:
        if not get_clip_class_at(cursor.text, position, cursor.end, &length) & LETTER:
            return position
    return find_end(cursor.text, position, cursor.end)


cdef inline Py_ssize_t scan_between_gaps(
    Cursor* cursor, const int rules, const int level, uint32_t* starts, uint32_t* ends, Py_ssize_t limit
) noexcept nogil:
    """Implement `scan_patterns` with gaps; each block begins after the last pretoken that ends in the previous one."""
    cdef Py_ssize_t n = 0, pos = cursor.pos, first = pos, end = cursor.end, n_ends, n_starts
    cdef find_end_t find_end = get_find_end(cursor.scanner), skip_gap = get_skip_gap(cursor.scanner)
    cdef uint64_t certain, word, start_bits, end_bits
    cdef Masks classes
    cdef bint at_end
    while n + MIN_ROOM <= limit and pos < end and pos - first < MAX_SPAN:
        cursor.pos = pos
        prefetch_ahead(cursor.text + pos)
        at_end = end - pos <= 64
        certain = mask_below(end - pos)
        if at_end or not classify_ascii_block(cursor.text + pos, level, &classes):
            classify_any_block(cursor, rules, &classes)
        start_bits = find_starts_between_gaps(cursor, rules, &classes, &certain, &at_end)
        word = ~classes.space & certain
        end_bits = (start_bits | ~word) & word << 1 & certain  # the last pretoken's end may be unknown
        n_ends = bpe_bit_positions(level, end_bits, <uint32_t>(pos - first), ends + n)
        n_starts = bpe_bit_positions(level, start_bits, <uint32_t>(pos - first), starts + n)
        n += n_ends
        if n_starts > n_ends and at_end:
            ends[n] = <uint32_t>(end - first)
            n += 1
        if at_end:
            pos = end
        elif n_starts > n_ends and start_bits > 1:
            pos += 63 - bpe_clz(start_bits)
        elif n_starts > n_ends or certain == 0:            # longer than the block, or not certain within it
            pos = skip_gap(cursor.text, pos, end)
            cursor.pos = pos
            if pos < end:
                n_ends = find_long_run_end(cursor, find_end) if certain else find_end(cursor.text, pos, end)
                if n_ends - first > <Py_ssize_t>0xFFFFFFFF:
                    break
                starts[n], ends[n] = <uint32_t>(pos - first), <uint32_t>(n_ends - first)
                n += 1
                pos = n_ends
        elif end_bits:
            pos += 63 - bpe_clz(end_bits)
        else:
            pos = skip_gap(cursor.text, pos, end)
    cursor.pos = pos
    return n


# Vector levels --------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t scan_patterns(
    Cursor* cursor, const int level, uint32_t* starts, uint32_t* ends, Py_ssize_t limit
) noexcept nogil:
    """Find pretokens by blocks, and advance `pos` past them; the rules of the most common patterns are constants.

    Positions are relative to `pos` at the time of the call. At most `limit` pretokens are found; `limit - MIN_ROOM` or
    fewer only at the end of the text, after MAX_SPAN bytes, or before a pretoken that ends 4 GiB or more away. Without
    gaps, `starts` gets the end of the last one too, and `ends` is not used.
    """
    if cursor.scanner == GPT2:
        return scan_blocks(cursor, CONTRACTIONS, level, get_find_end(GPT2), starts, limit)
    if cursor.scanner == CL100K:
        return scan_blocks(cursor, LINES | CONTRACTIONS | WHOLE_AT_END, level, get_find_end(CL100K), starts, limit)
    if cursor.scanner == O200K:
        return scan_blocks(cursor, LINES | CONTRACTIONS | CASED, level, get_find_end(O200K), starts, limit)
    if cursor.scanner == CLIP:
        return scan_between_gaps(cursor, CLIP_RULES, level, starts, ends, limit)
    if cursor.rules & GAPS:
        return scan_between_gaps(cursor, GAPS, level, starts, ends, limit)
    return scan_blocks(cursor, cursor.rules, level, get_find_end(cursor.scanner), starts, limit)


cdef Py_ssize_t scan_avx512 "bpe_scan_avx512"(
    Cursor* cursor, uint32_t* starts, uint32_t* ends, Py_ssize_t limit
) noexcept nogil:
    return scan_patterns(cursor, 3, starts, ends, limit)


cdef Py_ssize_t scan_avx2 "bpe_scan_avx2"(
    Cursor* cursor, uint32_t* starts, uint32_t* ends, Py_ssize_t limit
) noexcept nogil:
    return scan_patterns(cursor, 2, starts, ends, limit)


cdef Py_ssize_t scan_plain(Cursor* cursor, uint32_t* starts, uint32_t* ends, Py_ssize_t limit) noexcept nogil:
    return scan_patterns(cursor, 0, starts, ends, limit)


cdef Py_ssize_t (*scan_at_level)(Cursor*, uint32_t*, uint32_t*, Py_ssize_t) noexcept nogil


cdef void use_level(int level) noexcept:
    """See base/_cpu.pyx."""
    global scan_at_level
    scan_at_level = scan_avx512 if level == 3 else scan_avx2 if level == 2 else scan_plain


follow_vector_level(use_level)


# Called by other kernels ----------------------------------------------------------------------------------------------


cdef int[SCANNERS] RULES      # rules of the scanners that read blocks; 0 for a scanner of characters
RULES[GPT2] = CONTRACTIONS
RULES[CL100K] = LINES | CONTRACTIONS | WHOLE_AT_END
RULES[O200K] = LINES | CONTRACTIONS | CASED
RULES[CLIP] = CLIP_RULES
RULES[WHITESPACE] = GAPS
RULES[LLAMA3] = LINES | CONTRACTIONS
RULES[QWEN2] = LINES | CONTRACTIONS | SINGLE_DIGITS
RULES[TEKKEN] = LINES | CASED | SINGLE_DIGITS
RULES[STARCODER] = CONTRACTIONS | SINGLE_DIGITS


cdef void open_cursor(Cursor* cursor, int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Initialize `cursor` to scan `text[pos:end]`."""
    cursor.scanner = scanner
    cursor.rules = RULES[scanner] if 0 <= scanner < SCANNERS else 0
    cursor.text = text
    cursor.pos = pos
    cursor.end = end
    cursor.base = cursor.masks_end = pos
    cursor.n_blocks = MIN_BLOCKS
    cursor.can_read_on = False


cdef Py_ssize_t scan_characters(
    Cursor* cursor, Py_ssize_t* starts, Py_ssize_t* ends, Py_ssize_t limit
) noexcept nogil:
    """Find up to `limit` pretokens, reading one character at a time."""
    cdef find_end_t find_end = get_find_end(cursor.scanner), skip_gap = get_skip_gap(cursor.scanner)
    cdef Py_ssize_t n = 0, pos = cursor.pos, end = cursor.end
    while n < limit:
        if skip_gap != NULL:
            pos = skip_gap(cursor.text, pos, end)
        if pos >= end:
            break
        starts[n] = pos
        pos = find_end(cursor.text, pos, end)
        ends[n] = pos
        n += 1
    cursor.pos = pos
    return n


cdef Py_ssize_t scan_bounds(Cursor* cursor, uint32_t* bounds, Py_ssize_t limit) noexcept nogil:
    """Find pretokens of a pattern without gaps, and advance `pos` past them; returns their number.

    Pretoken i is `bounds[i]` to `bounds[i + 1]`, as in `scan_patterns`. The result is 0 for scanners that leave gaps or
    that only read characters, and if the next pretoken has 4 GiB or more: call `scan` then.
    """
    if not cursor.rules or cursor.rules & GAPS:
        return 0
    return scan_at_level(cursor, bounds, NULL, limit)


cdef Py_ssize_t scan(Cursor* cursor, Py_ssize_t* starts, Py_ssize_t* ends, Py_ssize_t limit) noexcept nogil:
    """Find up to `limit` pretokens and advance `pos` past them; returns their number.

    Text between pretokens (white space, for the scanners that drop it) is skipped. After the last one `pos` is `end`.
    """
    cdef uint32_t bounds[MAX_PRETOKENS + 1]
    cdef uint32_t gaps[MAX_PRETOKENS]
    cdef Py_ssize_t n = 0, first = cursor.pos, i
    cdef const uint32_t* last = &gaps[0] if cursor.rules & GAPS else &bounds[1]
    if limit >= MIN_ROOM and cursor.rules:
        n = scan_at_level(cursor, bounds, gaps, min(limit, <Py_ssize_t>MAX_PRETOKENS))
    if n == 0:
        return scan_characters(cursor, starts, ends, limit)
    for i in range(n):
        starts[i] = first + bounds[i]
        ends[i] = first + last[i]
    return n


# For Python -----------------------------------------------------------------------------------------------------------
# `scanner` is no int: the function with which Cython 3.2 converts one calls itself, so it cannot be always_inline.


def find_spans(Py_ssize_t scanner, const byte_t[::1] text, bint by_character=False):
    """Return the pretokens of a text as (starts, ends), two int64 arrays of byte offsets.

    With `by_character` they are found one character at a time, which the tests compare with the scan of blocks.
    """
    cdef Py_ssize_t size = text.shape[0], n = 0
    cdef Cursor cursor
    starts = np.empty(size, dtype=np.intp)
    ends = np.empty(size, dtype=np.intp)
    cdef Py_ssize_t[::1] first = starts, last = ends
    if size:
        with nogil:
            open_cursor(&cursor, scanner, &text[0], 0, size)
            if by_character:
                n = scan_characters(&cursor, &first[0], &last[0], size)
            else:
                while cursor.pos < size:
                    n += scan(&cursor, &first[n], &last[n], size - n)
    return starts[:n].astype(np.int64), ends[:n].astype(np.int64)


def count(Py_ssize_t scanner, const byte_t[::1] text):
    """Return the number of pretokens of a text; the benchmarks measure scanning with it."""
    cdef uint32_t bounds[MAX_PRETOKENS + 1]
    cdef Py_ssize_t starts[MAX_PRETOKENS]
    cdef Py_ssize_t ends[MAX_PRETOKENS]
    cdef Py_ssize_t total = 0, n
    cdef Cursor cursor
    if text.shape[0]:
        with nogil:
            open_cursor(&cursor, scanner, &text[0], 0, text.shape[0])
            while cursor.pos < cursor.end:
                n = scan_bounds(&cursor, bounds, MAX_PRETOKENS)
                total += n if n else scan(&cursor, starts, ends, MAX_PRETOKENS)
    return total
