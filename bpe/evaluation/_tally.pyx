"""Counts of tokens, and of the words, characters and numbers that token boundaries cut, one pass over text and ids.

`TextMarks` describes the texts of a block once for all tokenizers, with three bits for each byte:

    text      l o w   l o w e r   4 2
    inside      1 1     1 1 1 1     1      a boundary before this byte would cut a word
    digits                          1      … or a number
    tails     (none here)                  … or a character of several bytes

`tally` sets a bit where each token begins, and compares 64 positions at a time. Each text begins with a new 64-bit
word of the masks, so texts are independent of each other. Not here: the metrics (`metrics.py`), encoding.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets, check_spans
from bpe.base._cpu cimport follow_vector_level
from bpe.base._memory cimport prefetch
from bpe.base._types cimport byte_t
from bpe.text._unicode cimport SPACE, class_of_code, decode_char
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "bpe/evaluation/_block_masks.h" nogil:
    ctypedef struct BlockMasks "bpe_block_masks":
        uint64_t high
        uint64_t tail
        uint64_t space
        uint64_t digit
        uint64_t ideo
        uint64_t odd
        bint ascii

    void bpe_use_level_tally(int level) noexcept
    void classify "bpe_classify"(const byte_t* text, size_t n, BlockMasks* out)
    void take_bits "bpe_take_bits"(byte_t* bytes, uint64_t* bits, size_t n)
    uint64_t count_bits "bpe_count_bits"(const uint64_t* bits, size_t n)
    int bpe_first_bit(uint64_t bits)
    uint64_t bpe_add_bits(uint64_t a, uint64_t b, uint64_t* carry)

follow_vector_level(bpe_use_level_tally)

#: What a word is: by white space, but single characters in Chinese, Japanese and Thai; by white space; a character.
BY_SCRIPT, BY_SPACES, BY_CHARACTERS = 0, 1, 2
#: The columns of `TextMarks.sums`, and of the sums of `tally`.
TEXT_SUMS = ("bytes", "characters", "words", "multibyte", "numbers", "ideal")
TOKEN_SUMS = ("tokens", "aligned", "cut_words", "split_characters", "number_cuts", "right_cuts")
#: In a table of `tally`, the length of a token is above these bits, and its count below.
COUNT_BITS = 40

cdef enum:
    SHIFT = 40
    N_TEXT_SUMS = 6
    N_TOKEN_SUMS = 6
    AHEAD = 160               # tokens; 64 are too few for a table beyond the L2 cache: 10% more time
    WINDOW = 4096             # bytes of text, a multiple of 64
    CHUNK = 32                # blocks whose masks are in the first cache together

cdef struct Marks:            # of one text, 64 bytes in each element
    uint64_t* inside
    uint64_t* tails
    uint64_t* digits

cdef struct Block:            # masks of 64 bytes
    uint64_t starts           # of characters
    uint64_t wide             # of those of several bytes
    uint64_t space            # each byte of white space
    uint64_t single           # each byte of characters that are words by themselves
    uint64_t tails
    uint64_t digit

cdef struct Reader:           # a text, block by block
    const byte_t* text
    Py_ssize_t size
    Py_ssize_t at             # the next character begins here
    int mode
    bint valid                # UTF-8
    Block block               # the current one
    Block spilled             # of the next one: what the characters of this one reach into


cdef inline bint is_single(uint32_t code) noexcept nogil:
    """Return whether a character is a word by itself: one of Chinese, Japanese or Thai. Hangul is not."""
    if code < 0x2E80:
        return 0xE00 <= code < 0xE80
    if code < 0xA000:
        return code != 0x3000 and not (0x3130 <= code < 0x3190 or 0x3200 <= code < 0x3220 or 0x3260 <= code < 0x3280)
    return (
        0xF900 <= code < 0xFB00 or 0xFE30 <= code < 0xFE50 or 0xFF01 <= code < 0xFFA0
        or 0x1AFF0 <= code < 0x1B170 or 0x20000 <= code < 0x40000
    )


cdef inline void set_bits(uint64_t* now, uint64_t* later, uint64_t bits, int at) noexcept nogil:
    """Set bits from bit `at` on, continued in the next block."""
    now[0] |= bits << at
    later[0] |= bits >> 1 >> (63 - at)


cdef void add_character(Reader* reader, uint32_t code, int at, Py_ssize_t length) noexcept nogil:
    """Set the bits of a character of several bytes, but for its start."""
    cdef uint64_t all_of_it = (<uint64_t>1 << length) - 1
    cdef Block* block = &reader.block
    if class_of_code(code) & SPACE:
        set_bits(&block.space, &reader.spilled.space, all_of_it, at)
    elif reader.mode == 0 and is_single(code):
        set_bits(&block.single, &reader.spilled.single, all_of_it, at)


cdef void read_characters(Reader* reader, Py_ssize_t base) noexcept nogil:
    """Read the characters that begin in the block one by one: for text that is not UTF-8."""
    cdef Py_ssize_t length, stop = min(base + 64, reader.size)
    cdef uint32_t code
    cdef int at
    cdef Block* block = &reader.block
    while reader.at < stop:
        at = <int>(reader.at - base)
        code = decode_char(reader.text, reader.at, reader.size, &length)
        block.starts |= <uint64_t>1 << at
        if length > 1:
            block.wide |= <uint64_t>1 << at
            set_bits(&block.tails, &reader.spilled.tails, (<uint64_t>1 << length) - 2, at)
            add_character(reader, code, at, length)
        elif code == 32 or 9 <= code <= 13:
            block.space |= <uint64_t>1 << at
        elif 48 <= code <= 57:
            block.digit |= <uint64_t>1 << at
        reader.at += length


cdef void read_wide(Reader* reader, Py_ssize_t base, const BlockMasks* masks, uint64_t given) noexcept nogil:
    """Read a block of valid UTF-8, decoding only the characters whose first bytes do not tell their class."""
    cdef Block* block = &reader.block
    cdef uint64_t odd = masks.odd
    cdef Py_ssize_t length
    cdef uint32_t code
    cdef int at
    block.starts = given & ~masks.tail
    block.wide = masks.high & ~masks.tail
    block.tails = masks.tail
    block.space |= masks.space
    block.digit = masks.digit
    if reader.mode == 0:
        block.single |= masks.ideo | masks.ideo << 1 | masks.ideo << 2
        reader.spilled.single |= masks.ideo >> 63 | masks.ideo >> 62
    while odd:
        at = bpe_first_bit(odd)
        odd &= odd - 1
        code = decode_char(reader.text, base + at, reader.size, &length)
        if length == 3 and masks.ideo >> at & 1:           # not known to be single any more
            block.single &= ~(<uint64_t>7 << at)
            reader.spilled.single &= ~(<uint64_t>7 >> 1 >> (63 - at))
        add_character(reader, code, at, length)


cdef void classify_blocks(const Reader* reader, Py_ssize_t base, Py_ssize_t n, BlockMasks* masks) noexcept nogil:
    """Classify `n` blocks of a text from `base` on, the last of which may not be whole."""
    cdef byte_t padded[64]
    cdef Py_ssize_t whole = min(n, (reader.size - base) >> 6), at = base + 64 * whole
    classify(reader.text + base, whole, masks)
    if whole < n:
        memset(padded, 0, 64)
        memcpy(padded, reader.text + at, reader.size - at)
        classify(padded, 1, masks + whole)


cdef void read_block(Reader* reader, Py_ssize_t base, const BlockMasks* masks, uint64_t given) noexcept nogil:
    """Find the masks of the 64 bytes from `base` on, of which `given` are of the text."""
    reader.block = reader.spilled
    memset(&reader.spilled, 0, sizeof(Block))
    if masks.ascii:                                        # no character reaches into such a block
        reader.block.starts = given
        reader.block.space, reader.block.digit = masks.space, masks.digit
        reader.at = base + 64
    elif reader.valid:
        read_wide(reader, base, masks, given)
    else:
        read_characters(reader, base)


cdef bint is_whole(const byte_t* text, Py_ssize_t size) noexcept nogil:
    """Return whether a part of valid UTF-8 begins and ends with whole characters."""
    cdef Py_ssize_t at = size - 1, length
    if size == 0:
        return True
    if text[0] & 0xC0 == 0x80:
        return False
    while text[at] & 0xC0 == 0x80:
        at -= 1
    decode_char(text, at, size, &length)
    return at + length == size


cdef void mark_text(Reader* reader, const Marks* marks, int64_t* sums) noexcept nogil:
    """Set the marks of a text, and its sums."""
    cdef BlockMasks masks[CHUNK]
    cdef uint64_t words[CHUNK]
    cdef uint64_t starts[CHUNK]
    cdef uint64_t wide[CHUNK]
    cdef Py_ssize_t i, count, first = 0, n = (reader.size + 63) >> 6
    cdef uint64_t breaks = 1, digit = 0, before, given
    cdef Block* block = &reader.block
    cdef int64_t length = 0                                # of the number that is not over
    memset(sums, 0, N_TEXT_SUMS * sizeof(int64_t))
    memset(&reader.spilled, 0, sizeof(Block))
    reader.at = 0
    reader.valid = reader.valid and is_whole(reader.text, reader.size)
    sums[0] = reader.size
    while first < n:
        count = min(n - first, <Py_ssize_t>CHUNK)
        classify_blocks(reader, 64 * first, count, masks)
        for i in range(count):
            given = given_bits(reader.size - 64 * (first + i))
            read_block(reader, 64 * (first + i), &masks[i], given)
            words[i] = block.starts & ~block.space
            before = block.space | block.single            # a word begins after these
            if reader.mode != 2:
                words[i] &= before << 1 | breaks | block.single
            breaks = before >> 63
            starts[i], wide[i] = block.starts, block.wide
            marks.inside[first + i] = given & ~block.space & ~words[i]
            marks.tails[first + i] = block.tails & given
            marks.digits[first + i] = block.digit & (block.digit << 1 | digit)
            if block.digit or length:
                length = add_numbers(block.digit, digit, length, sums)
            digit = block.digit >> 63
        sums[1] += count_bits(starts, count)
        sums[2] += count_bits(words, count)
        sums[3] += count_bits(wide, count)
        first += count
    if length:
        sums[5] += (length - 1) // 3


cdef inline uint64_t given_bits(Py_ssize_t left) noexcept nogil:
    """Return a mask of the bytes of a block that a text has, given the number from the block's first one on."""
    return ~<uint64_t>0 if left >= 64 else (<uint64_t>1 << left) - 1


cdef int64_t add_numbers(uint64_t digit, uint64_t before, int64_t length, int64_t* sums) noexcept nogil:
    """Add the numbers that begin in a block, and `add_ideal`; `before` is 1 if a digit is before the block."""
    cdef uint64_t first = digit & ~(digit << 1 | before)
    sums[4] += count_bits(&first, 1)
    return add_ideal(digit, length, &sums[5])


cdef int64_t add_ideal(uint64_t digit, int64_t length, int64_t* total) noexcept nogil:
    """Add the ideal boundaries of the numbers that end in a block; return the length of one that may go on.

    `length` is that of a number which begins before the block.
    """
    cdef int at = 0, run
    while at < 64:
        if digit & 1:
            run = min(64 if ~digit == 0 else bpe_first_bit(~digit), 64 - at)
            length += run
        else:
            if length:
                total[0] += (length - 1) // 3
                length = 0
            if digit == 0:
                return 0
            run = bpe_first_bit(digit)
        at += run
        digit = digit >> 1 >> (run - 1)
    return length


class TextMarks:
    """The words, characters and numbers of texts in one buffer: text i is `buffer[starts[i]:ends[i]]`.

    Args:
        buffer: the bytes.
        starts, ends: int64.
        mode: BY_SCRIPT, BY_SPACES or BY_CHARACTERS.
        valid: whether the buffer is known to be UTF-8.

    Attributes:
        sums: int64, shape (n, 6), with the columns TEXT_SUMS: bytes, characters, words, characters of several bytes,
            numbers, and boundaries of their groups of three digits from the right.
        blocks: int64, shape (n + 1,): where the masks of each text begin, in elements of 64 bytes.
        masks: uint64, shape (3, blocks[-1]): inside, tails, digits.

    """

    def __init__(
        self,
        const byte_t[::1] buffer,
        const int64_t[::1] starts,
        const int64_t[::1] ends,
        int mode,
        bint valid,
    ):
        cdef Py_ssize_t i, n = starts.shape[0]
        cdef int64_t[:, ::1] sums
        cdef int64_t[::1] blocks
        cdef uint64_t[:, ::1] masks
        cdef Marks marks
        cdef Reader reader
        check_spans(starts, ends, buffer.shape[0])
        self.sums = np.empty((n, N_TEXT_SUMS), dtype=np.int64)
        self.blocks = np.zeros(n + 1, dtype=np.int64)
        np.cumsum((np.subtract(ends, starts) + 63) >> 6, out=self.blocks[1:])
        self.masks = np.empty((3, self.blocks[n] + 1), dtype=np.uint64)
        sums, blocks, masks = self.sums, self.blocks, self.masks
        reader.mode = mode
        with nogil:
            for i in range(n):
                reader.text = &buffer[starts[i]] if ends[i] > starts[i] else NULL
                reader.size, reader.valid = ends[i] - starts[i], valid
                marks.inside = &masks[0, blocks[i]]
                marks.tails, marks.digits = &masks[1, blocks[i]], &masks[2, blocks[i]]
                mark_text(&reader, &marks, &sums[i, 0])


# Tokens ---------------------------------------------------------------------------------------------------------------


cdef struct Tokens:           # of one text
    const uint32_t* ids
    const uint32_t* sizes     # in bytes; NULL to look them up
    Py_ssize_t n
    Py_ssize_t given          # ids from `ids` on; those after this text's are prefetched for the next one
    Py_ssize_t size           # of the text in bytes


cdef Py_ssize_t set_boundaries(
    const Tokens* tokens,
    uint64_t* table,          # IN, OUT by id: the length, and the count
    size_t limit,             # of ids
    byte_t* begins,           # WINDOW + 1 bytes of 0, before and after
    uint64_t* cuts,           # OUT a bit for each byte that a token begins at
) noexcept nogil:
    """Count tokens and mark where they begin; return the sum of their lengths, or -1 for an id out of range.

    A byte is set where a token begins, in a window of the text at a time, and the bytes then become bits: setting a bit
    would wait for the bit before.
    """
    cdef const uint32_t* ids = tokens.ids                  # copies: a write to `table` might change the struct's
    cdef const uint32_t* sizes = tokens.sizes
    cdef uint64_t n = tokens.n, size = tokens.size, base = 0, stop, entry, at = 0, i = 0
    cdef uint64_t n_ahead = 0                              # tokens before which others are prefetched
    cdef uint32_t token
    cdef bint last
    if sizes == NULL and tokens.given > AHEAD:
        n_ahead = min(n, <uint64_t>(tokens.given - AHEAD))
    while True:
        last = size - base <= WINDOW
        stop = size if last else base + WINDOW
        while i < n_ahead and at < stop:
            token = ids[i]
            if token >= limit:
                return -1
            begins[at - base] = 0x80
            prefetch(table + ids[i + AHEAD])               # a large table is not in the L1 cache
            entry = table[token]
            table[token] = entry + 1
            at += entry >> SHIFT
            i += 1
        while i < n and (at < stop or last):               # the last tokens, and those beyond the text
            token = ids[i]
            if token >= limit:
                return -1
            begins[min(at, size) - base] = 0x80
            entry = table[token]
            table[token] = entry + 1
            at += entry >> SHIFT if sizes == NULL else sizes[i]
            i += 1
        if last:
            break
        take_bits(begins, cuts + (base >> 6), WINDOW >> 6)
        base = stop
    begins[size - base] = 0
    take_bits(begins, cuts + (base >> 6), (size - base + 63) >> 6)
    if size:
        cuts[0] &= ~<uint64_t>1                            # where the text begins, nothing is cut
    return at


cdef void compare(
    const Marks* marks, const uint64_t* cuts, Py_ssize_t n, int64_t* words, int64_t* chars
) noexcept nogil:
    """Count the words and the characters that boundaries cut.

    `inside` has a run of bits for each word of several bytes. A 1 added at the start of a run, in which the bits of
    boundaries are cleared, carries to the first boundary, if there is one, or past the end of the run:

        inside        0 1 1 1 0 1 1 0     (the lowest bit first)
        boundaries    0 0 1 1 0 0 0 0
        cleared       0 1 0 0 0 1 1 0
        + starts      0 0 1 0 0 0 0 1     its bits among the boundaries: one for each word that is cut
    """
    cdef uint64_t cut_words[CHUNK]
    cdef uint64_t cut_chars[CHUNK]
    cdef uint64_t inside, cut, split, tails, carry = 0, inside_before = 0, split_before = 0, tails_before = 0, added
    cdef Py_ssize_t i, k, count, first = 0
    while first < n:
        count = min(n - first, <Py_ssize_t>CHUNK)
        for i in range(count):
            k = first + i
            inside, tails = marks.inside[k], marks.tails[k]
            cut = cuts[k] & inside
            added = bpe_add_bits(inside & ~cut, inside & ~(inside << 1 | inside_before >> 63), &carry)
            cut_words[i] = added & cut
            inside_before = inside
            split = cuts[k] & tails                        # only the first boundary in a character counts
            added = split & ~(split << 1 | split_before >> 63)
            cut_chars[i] = added & ~((split << 2 | split_before >> 62) & (tails << 1 | tails_before >> 63))
            split_before, tails_before = split, tails
        words[0] += count_bits(cut_words, count)
        chars[0] += count_bits(cut_chars, count)
        first += count


cdef double compare_numbers(
    const uint64_t* digits, const uint64_t* cuts, Py_ssize_t n, int64_t numbers, int64_t* n_cuts, int64_t* n_right
) noexcept nogil:
    """Compare the boundaries in so many numbers with groups of three digits from the right; return the sum of F1.

    Adds the number of boundaries, and of those that are right. `digits` has the numbers of several digits; the F1 of
    the others is 1.
    """
    cdef Py_ssize_t k, at, start, end, limit = 64 * n
    cdef int64_t own, right, ideal
    cdef uint64_t bits
    cdef double total = numbers                            # 1 for each, and then the difference
    k = end = 0
    while k < n:
        bits = digits[k]
        if end > 64 * k:
            bits &= ~<uint64_t>0 << (end - 64 * k) if end < 64 * k + 64 else 0
        if bits == 0:
            k += 1
            continue
        start = end = 64 * k + bpe_first_bit(bits)         # the second digit
        while end < limit and digits[end >> 6] >> (end & 63) & 1:
            end += 1
        own = right = 0
        for at in range(start, end):
            if cuts[at >> 6] >> (at & 63) & 1:
                own += 1
                right += (end - at) % 3 == 0
        ideal = (end - start) // 3
        n_cuts[0] += own
        n_right[0] += right
        if own or ideal:
            total += rounded(2.0 * right / (own + ideal)) - 1
    return total


cdef inline double rounded(double value) noexcept nogil:
    """Return the nearest multiple of 2**-32: sums of a million of these are exact, so their order does not matter."""
    return <int64_t>(value * 4294967296.0 + 0.5) / 4294967296.0


def tally(
    marks,                             # IN the TextMarks of the texts
    uint64_t[::1] table,               # IN, OUT by id: the length in bytes << COUNT_BITS | the count, which is added to
    int64_t[:, ::1] sums,              # OUT (n, 6): the columns TOKEN_SUMS
    double[::1] number_f1,             # OUT (n,): the sum of the F1 of its numbers
    const uint32_t[::1] ids,           # IN of all texts
    const int64_t[::1] offsets,        # IN of the texts in `ids`, (n + 1,)
    const uint32_t[::1] sizes,         # IN the bytes of text of each token; empty to take them from `table`
):
    """Count the tokens of texts, and what their boundaries cut.

    A text is aligned (column 1) if its tokens have as many bytes as it has; otherwise nothing but tokens is counted.

    Raises:
        ValueError: for an id that the table does not have; for offsets that do not fit.

    """
    cdef Py_ssize_t i, bad = -1, unfit = -1, done, n = offsets.shape[0] - 1, n_blocks
    cdef const int64_t[:, ::1] texts = marks.sums
    cdef const int64_t[::1] blocks = marks.blocks
    cdef uint64_t[:, ::1] masks = marks.masks
    cdef uint64_t[::1] cuts
    cdef byte_t[WINDOW + 1] begins
    cdef Tokens tokens
    cdef Marks own
    check_offsets(offsets, texts.shape[0], ids.shape[0])
    if sizes.shape[0] not in (0, ids.shape[0]) or sums.shape[0] != n or sums.shape[1] != N_TOKEN_SUMS \
            or number_f1.shape[0] != n or texts.shape[1] != N_TEXT_SUMS or masks.shape[0] != 3 \
            or blocks.shape[0] != n + 1:
        raise ValueError(f"the arrays do not fit {n} texts with {ids.shape[0]} tokens")
    cuts = np.empty(int((np.diff(marks.blocks)).max(initial=0)) + 1, dtype=np.uint64)
    memset(begins, 0, WINDOW + 1)
    with nogil:
        for i in range(n):
            memset(&sums[i, 0], 0, N_TOKEN_SUMS * sizeof(int64_t))
            number_f1[i] = 0
            tokens.n, tokens.size = offsets[i + 1] - offsets[i], texts[i, 0]
            tokens.ids = &ids[offsets[i]] if tokens.n else NULL
            tokens.given = ids.shape[0] - offsets[i]
            tokens.sizes = &sizes[offsets[i]] if sizes.shape[0] and tokens.n else NULL
            n_blocks = (tokens.size + 63) >> 6
            if not (0 <= tokens.size and 0 <= blocks[i] <= masks.shape[1] - n_blocks and n_blocks < cuts.shape[0]):
                unfit = i
                break
            done = set_boundaries(&tokens, &table[0] if table.shape[0] else NULL, table.shape[0], begins, &cuts[0])
            if done < 0:
                bad = i
                break
            sums[i, 0] = tokens.n
            if done != tokens.size:
                continue
            sums[i, 1] = 1
            own.inside = &masks[0, blocks[i]]
            own.tails, own.digits = &masks[1, blocks[i]], &masks[2, blocks[i]]
            compare(&own, &cuts[0], n_blocks, &sums[i, 2], &sums[i, 3])
            if texts[i, 4]:
                number_f1[i] = compare_numbers(
                    own.digits, &cuts[0], n_blocks, texts[i, 4], &sums[i, 4], &sums[i, 5]
                )
    if unfit >= 0:
        raise ValueError(f"the masks of text {unfit} do not fit its {texts[unfit, 0]} bytes")
    if bad >= 0:
        raise ValueError(f"text {bad} has an id that is not below {table.shape[0]}, the size of the vocabulary")
