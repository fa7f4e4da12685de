"""Counts of tokens, and of the words, characters and numbers that token boundaries cut, one pass over text and ids.

`TextMarks` describes the texts of a block once for all tokenizers, with three bits for each byte:

    text      l o w   l o w e r   4 2
    inside      1 1     1 1 1 1     1      a boundary before this byte would cut a word
    digits                          1      … or a number
    tails     (none here)                  … or a character of several bytes

`TokenTally` sets a bit where each token begins, and compares 64 positions at a time. Each text begins with a new 64-bit
word of the masks, so texts are independent of each other. It reads some thousand ids at a time, as the encoder writes
them: no array of all ids is made. Not here: the metrics (`metrics.py`), encoding.
"""

import numpy as np

from bpe.base._bounds cimport check_spans
from bpe.base._cpu cimport follow_vector_level
from bpe.base._memory cimport prefetch
from bpe.base._types cimport byte_t
from bpe.base._visitor cimport Visitor
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
#: The columns of `TextMarks.sums`, and of `TokenTally.sums`.
TEXT_SUMS = ("bytes", "characters", "words", "multibyte", "numbers", "ideal")
TOKEN_SUMS = ("tokens", "aligned", "cut_words", "split_characters", "number_cuts", "right_cuts")
#: Tokens of more bytes have no length of their own in `TokenCounts`.
LONGEST = 255

cdef enum:
    COUNT_BITS = 24
    MOST = (1 << COUNT_BITS) - 1       # tokens until counts are moved to the totals
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
    """Find the masks of the 64 bytes from `base` on, not all ASCII, of which `given` are of the text."""
    reader.block = reader.spilled
    memset(&reader.spilled, 0, sizeof(Block))
    if reader.valid:
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
    cdef uint64_t numbers[CHUNK]
    cdef uint64_t starts[CHUNK]
    cdef uint64_t wide[CHUNK]
    cdef Py_ssize_t i, count, n_others, first = 0, n = (reader.size + 63) >> 6
    cdef uint64_t breaks = 1, digit = 0, digits, given, space
    cdef Block* block = &reader.block
    cdef int64_t length = 0                                # of the number that is not over
    memset(sums, 0, N_TEXT_SUMS * sizeof(int64_t))
    memset(&reader.spilled, 0, sizeof(Block))
    reader.at = 0
    reader.valid = reader.valid and is_whole(reader.text, reader.size)
    sums[0] = reader.size
    while first < n:
        count = min(n - first, <Py_ssize_t>CHUNK)
        n_others = 0
        classify_blocks(reader, 64 * first, count, masks)
        for i in range(count):
            given = given_bits(reader.size - 64 * (first + i))
            if masks[i].ascii:                             # no character reaches into such a block
                space, digits = masks[i].space, masks[i].digit
                words[i] = given & ~space
                if reader.mode != 2:
                    words[i] &= space << 1 | breaks
                marks.tails[first + i] = 0
                breaks = space >> 63
                reader.at = 64 * (first + i) + 64
            else:
                read_block(reader, 64 * (first + i), &masks[i], given)
                space, digits = block.space, block.digit
                words[i] = block.starts & ~space
                if reader.mode != 2:                       # a word begins after these
                    words[i] &= (space | block.single) << 1 | breaks | block.single
                marks.tails[first + i] = block.tails & given
                breaks = (space | block.single) >> 63
                starts[n_others], wide[n_others] = block.starts, block.wide
                n_others += 1
            marks.inside[first + i] = given & ~space & ~words[i]
            marks.digits[first + i] = digits & (digits << 1 | digit)
            numbers[i] = digits & ~(digits << 1 | digit)
            digit = digits >> 63
            if length or digit or digits & digits << 1 & digits << 2 & digits << 3:
                length = add_ideal(digits, length, &sums[5])
        sums[1] += count_bits(starts, n_others) + 64 * (count - n_others)
        sums[2] += count_bits(words, count)
        sums[3] += count_bits(wide, n_others)
        sums[4] += count_bits(numbers, count)
        first += count
        if first == n and masks[count - 1].ascii:          # which may have been padded
            sums[1] -= 64 * n - reader.size
    if length:
        sums[5] += (length - 1) // 3


cdef inline uint64_t given_bits(Py_ssize_t left) noexcept nogil:
    """Return a mask of the bytes of a block that a text has, given the number from the block's first one on."""
    return ~<uint64_t>0 if left >= 64 else (<uint64_t>1 << left) - 1


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
    """The words, characters and numbers of texts in one buffer, until the next texts are read.

    Args:
        mode: BY_SCRIPT, BY_SPACES or BY_CHARACTERS.

    Attributes:
        sums: int64, shape (n, 6), with the columns TEXT_SUMS: bytes, characters, words, characters of several bytes,
            numbers, and boundaries of their groups of three digits from the right.
        blocks: int64, shape (n + 1,): where the masks of each text begin, in elements of 64 bytes.
        masks: uint64, shape (4, blocks[-1] + 1): inside, tails, digits, and room for the boundaries of one text.

    """

    def __init__(self, int mode):
        self.mode = mode
        self._room = np.empty(0, dtype=np.uint64)          # fresh memory for each block would be cleared by the system

    def read(
        self,
        const byte_t[::1] buffer,
        const int64_t[::1] starts,         # text i is `buffer[starts[i]:ends[i]]`
        const int64_t[::1] ends,
        bint valid,                        # whether the buffer is known to be UTF-8
    ):
        """Read texts; returns self."""
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
        size = 4 * (int(self.blocks[n]) + 1)
        if len(self._room) < size:
            self._room = np.empty(size + size // 8, dtype=np.uint64)
        self.masks = self._room[:size].reshape(4, -1)
        sums, blocks, masks = self.sums, self.blocks, self.masks
        reader.mode = self.mode
        with nogil:
            for i in range(n):
                reader.text = &buffer[starts[i]] if ends[i] > starts[i] else NULL
                reader.size, reader.valid = ends[i] - starts[i], valid
                marks.inside = &masks[0, blocks[i]]
                marks.tails, marks.digits = &masks[1, blocks[i]], &masks[2, blocks[i]]
                mark_text(&reader, &marks, &sums[i, 0])
        return self


# Tokens ---------------------------------------------------------------------------------------------------------------


cdef void compare(
    const Marks* marks, const uint64_t* cuts, Py_ssize_t n, int64_t* words, int64_t* chars
) noexcept nogil:
    """Count the words and the characters that the boundaries in `n` blocks cut.

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
        if not (bits >> 63 or bits & (cuts[k] | bits >> 1 & bits >> 2)):
            k += 1                                         # no boundary, right or wrong, and none is missing
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


cdef class TokenCounts:
    """How often each token occurs, with its length beside it: 32 bits, so that more of them are in a cache.

    Args:
        lengths: uint32, by id: the bytes of each token, counted as LONGEST if they are more.
        most: how many tokens are counted until the counts are moved to 64 bits, for tests.

    """

    cdef uint32_t[::1] table           # by id: the length << COUNT_BITS | the count
    cdef int64_t[::1] totals
    cdef uint64_t room, most           # tokens that can still be counted, and after `empty`

    def __init__(self, lengths, uint64_t most=MOST):
        if not 0 < most <= MOST:
            raise ValueError(f"most is {most}; it must be from 1 to {MOST}")
        self.table = np.minimum(lengths, LONGEST).astype(np.uint32) << np.uint32(COUNT_BITS)
        self.totals = np.zeros(len(lengths), dtype=np.int64)
        self.room = self.most = most

    cdef int empty(self) noexcept nogil:
        """Move the counts to the totals."""
        cdef Py_ssize_t i
        for i in range(self.table.shape[0]):
            self.totals[i] += self.table[i] & MOST
            self.table[i] &= ~<uint32_t>MOST
        self.room = self.most
        return 0

    def counts(self):
        """Return the counts by id: int64, valid until more tokens are counted."""
        self.empty()
        return np.asarray(self.totals)


cdef class TokenTally(Visitor):
    """Counts of the tokens of texts, and of what their boundaries cut. Texts may come in parts.

    A byte is set where a token begins, in a window of the text at a time, and the bytes then become bits: setting a bit
    would wait for the bit before. A text is aligned (column 1) if its tokens have as many bytes as it has; otherwise
    nothing but tokens is counted.

    Args:
        marks: the TextMarks of the texts, which must not be used for others meanwhile.
        counts: the TokenCounts to add to.

    Attributes:
        sums: int64, shape (n, 6): the columns TOKEN_SUMS.
        number_f1: float64, shape (n,): the sum of the F1 of its numbers.

    """

    cdef readonly object sums, number_f1
    cdef int64_t[:, ::1] own_sums
    cdef double[::1] own_f1
    cdef const int64_t[:, ::1] texts
    cdef const int64_t[::1] blocks
    cdef uint64_t[:, ::1] masks
    cdef TokenCounts counts
    cdef const uint32_t* sizes         # the bytes of text of the next tokens; NULL to look them up
    # The current text.
    cdef Py_ssize_t text
    cdef uint64_t size                 # in bytes
    cdef uint64_t at                   # where the next token begins
    cdef uint64_t base                 # of the window
    cdef int64_t n_tokens
    cdef byte_t begins[WINDOW]         # by position in the window: 0x80 where a token begins

    def __init__(self, marks, TokenCounts counts not None):
        cdef Py_ssize_t i, n_blocks, n = len(marks.sums)
        self.texts, self.blocks, self.masks, self.counts = marks.sums, marks.blocks, marks.masks, counts
        self.sums, self.number_f1 = np.zeros((n, N_TOKEN_SUMS), dtype=np.int64), np.zeros(n)
        self.own_sums, self.own_f1 = self.sums, self.number_f1
        if self.texts.shape[1] != N_TEXT_SUMS or self.blocks.shape[0] != n + 1 or self.masks.shape[0] != 4:
            raise ValueError(f"the arrays of the marks do not fit {n} texts")
        for i in range(n):
            n_blocks = (self.texts[i, 0] + 63) >> 6
            if not (0 <= self.texts[i, 0] and 0 <= self.blocks[i] <= self.masks.shape[1] - n_blocks):
                raise ValueError(f"the masks of text {i} do not fit its {self.texts[i, 0]} bytes")
        self.text = -1
        self.begin_text()

    def add(self, const uint32_t[::1] ids, const int64_t[::1] offsets, const uint32_t[::1] sizes):
        """As `visit`, with the bytes of text of each token; empty for those of the counts.

        Raises:
            ValueError: for an id that the vocabulary does not have; for offsets or sizes that do not fit.

        """
        if sizes.shape[0] not in (0, ids.shape[0]):
            raise ValueError(f"there are {sizes.shape[0]} sizes for {ids.shape[0]} tokens; they must be as many")
        self.sizes = &sizes[0] if sizes.shape[0] else NULL
        try:
            self.visit(ids, offsets)
        finally:
            self.sizes = NULL

    cdef int take(self, const uint32_t* ids, size_t n, const int64_t* lengths, Py_ssize_t n_ended) except -1 nogil:
        cdef Py_ssize_t i, own, left = n
        for i in range(n_ended):
            own = lengths[i] - self.n_tokens
            if not (0 <= own <= left and self.text < self.texts.shape[0]):
                with gil:
                    raise ValueError(f"text {self.text} of {self.texts.shape[0]} has no {lengths[i]} tokens")
            self.add_tokens(ids, own, left)
            self.end_text()
            ids += own
            left -= own
        if left:
            self.add_tokens(ids, left, left)
        return 0

    cdef int add_tokens(self, const uint32_t* ids, uint64_t n, uint64_t given) except -1 nogil:
        """Count the next tokens of a text and mark where they begin; all `given` ids can be read."""
        cdef uint64_t part
        while n:
            part = min(n, self.counts.room)
            self.count_tokens(ids, part, given)
            ids += part
            n -= part
            given -= part
            self.counts.room -= part
            if self.counts.room == 0:
                self.counts.empty()
        return 0

    cdef int count_tokens(self, const uint32_t* ids, uint64_t n, uint64_t given) except -1 nogil:
        """Do the same for so many that no count overflows."""
        cdef uint32_t* table = &self.counts.table[0] if self.counts.table.shape[0] else NULL
        cdef byte_t* begins = self.begins                  # copies: a write to `table` might change the object's
        cdef uint64_t limit = self.counts.table.shape[0], size = self.size, at = self.at, base = self.base
        cdef uint64_t i = 0, stop, n_ahead = min(n, given - AHEAD) if given > AHEAD else 0
        cdef uint32_t token, entry
        cdef const uint32_t* sizes = self.sizes
        if sizes != NULL:
            n_ahead = 0
            self.sizes += n
        while i < n:
            stop = min(size, base + WINDOW)
            while i < n_ahead and at < stop:
                token = ids[i]
                if token >= limit:
                    self.refuse(token)
                begins[at - base] = 0x80
                prefetch(table + ids[i + AHEAD])           # a large table is not in the L1 cache
                entry = table[token]
                table[token] = entry + 1
                at += entry >> COUNT_BITS
                i += 1
            while i < n and (at < stop or stop == size):   # the last tokens, and those beyond the text
                token = ids[i]
                if token >= limit:
                    self.refuse(token)
                if at < size:
                    begins[at - base] = 0x80
                entry = table[token]
                table[token] = entry + 1
                at += entry >> COUNT_BITS if sizes == NULL else sizes[i]
                i += 1
            if at >= stop and stop < size:
                self.take_window(stop)
                base = stop
        self.at = at
        self.n_tokens += n
        return 0

    cdef int refuse(self, uint32_t token) except -1 nogil:
        with gil:
            raise ValueError(
                f"text {self.text} has the id {token}; it must be below {self.counts.table.shape[0]}, the size of the "
                "vocabulary"
            )

    cdef void take_window(self, uint64_t stop) noexcept nogil:
        """Store the boundaries up to `stop`, the end of the window or of the text."""
        take_bits(self.begins, &self.masks[3, self.base >> 6], (stop - self.base + 63) >> 6)
        self.base = stop

    cdef int begin_text(self) noexcept nogil:
        """Begin the next text, if there is one."""
        self.text += 1
        self.size = self.at = self.base = self.n_tokens = 0
        if self.text < self.texts.shape[0]:
            self.size = self.texts[self.text, 0]
        return 0

    cdef int end_text(self) noexcept nogil:
        """Compare the boundaries of a text with its words, characters and numbers, and begin the next one."""
        cdef Marks own
        cdef uint64_t* cuts = &self.masks[3, 0]
        cdef Py_ssize_t text = self.text, first = self.blocks[text], n = (self.size + 63) >> 6
        cdef int64_t* sums = &self.own_sums[text, 0]
        while self.base < self.size:
            self.take_window(min(self.size, self.base + WINDOW))
        sums[0] = self.n_tokens
        if self.at == self.size:
            sums[1] = 1
            if n:
                cuts[0] &= ~<uint64_t>1                    # where the text begins, nothing is cut
            own.inside, own.tails, own.digits = &self.masks[0, first], &self.masks[1, first], &self.masks[2, first]
            compare(&own, cuts, n, &sums[2], &sums[3])
            if self.texts[text, 4]:
                self.own_f1[text] = compare_numbers(own.digits, cuts, n, self.texts[text, 4], &sums[4], &sums[5])
        self.begin_text()
        return 0
