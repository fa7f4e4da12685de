"""Counts of tokens, and of the words, characters and numbers that token boundaries cut, one pass over text and ids.

`TokenTally` counts the ids of a text as the encoder writes them, some thousand at a time, and marks where each token
begins. After each 4 KB of text, which are then in the cache, it makes bit masks of them, 64 bytes in each, and compares
these with the marks:

    text      l o w   l o w e r   4 2
    inside      1 1     1 1 1 1     1      a boundary before this byte cuts a word
    digits                          1      … or a number
    tails     (none here)                  … or a character of several bytes

Neither the ids nor the masks of a whole text are ever held.
"""

import numpy as np

from bpe.base._bounds cimport check_spans
from bpe.base._cpu cimport follow_vector_level
from bpe.base._memory cimport prefetch
from bpe.base._types cimport byte_t
from bpe.pretokenize._char_masks cimport bpe_ctz
from bpe.text._unicode cimport SPACE, get_class_of_code, decode_char
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

cdef extern from "bpe/evaluation/_block_masks.h" nogil:
    ctypedef struct BlockMasks "bpe_block_masks":
        uint64_t high
        uint64_t tail
        uint64_t space
        uint64_t digit
        uint64_t likely_cjk
        uint64_t undecided
        bint ascii

    void bpe_use_level_tally(int level) noexcept
    void classify "bpe_classify"(const byte_t* text, size_t n, BlockMasks* out)
    void take_bits "bpe_take_bits"(byte_t* bytes, uint64_t* bits, size_t n)
    uint64_t count_bits "bpe_count_bits"(const uint64_t* bits, size_t n)
    uint32_t find_greatest "bpe_greatest"(const uint32_t* ids, size_t n)
    uint64_t bpe_add_bits(uint64_t a, uint64_t b, uint64_t* carry)

follow_vector_level(bpe_use_level_tally)

cdef enum WordRule:
    WORDS_BY_SCRIPT, WORDS_BY_SPACES, WORDS_BY_CHARACTERS

cdef enum:                    # the columns of COLUMNS by number
    BYTES, CHARACTERS, WORDS, MULTIBYTE, NUMBERS, IDEAL, TOKENS, ALIGNED, CUT_WORDS, SPLIT_CHARACTERS, NUMBER_CUTS
    RIGHT_CUTS, NUMBER_F1, ALIGNED_WORDS, ALIGNED_MULTIBYTE, ALIGNED_NUMBERS, ALIGNED_IDEAL, N_COLUMNS

#: What a word is: by white space, but single characters in scripts without spaces; by white space; a character.
BY_SCRIPT, BY_SPACES, BY_CHARACTERS = WORDS_BY_SCRIPT, WORDS_BY_SPACES, WORDS_BY_CHARACTERS
#: The columns of `TokenTally.rows`, numbered as above. From "aligned" on they are 0 unless the document is
#: aligned: its tokens have as many bytes as it. The last four repeat words, multibyte, numbers and ideal, of aligned
#: documents only, as denominators.
COLUMNS = (
    "bytes",
    "characters",
    "words",
    "multibyte",
    "numbers",
    "ideal",
    "tokens",
    "aligned",
    "cut_words",
    "split_characters",
    "number_cuts",
    "right_cuts",
    "number_f1",
    "aligned_words",
    "aligned_multibyte",
    "aligned_numbers",
    "aligned_ideal",
)
#: Tokens of more bytes have no length of their own in the table of counts.
MAX_TOKEN_BYTES = 1023

cdef enum:
    COUNT_BITS = 22
    MAX_COUNT = (1 << COUNT_BITS) - 1       # tokens until counts are moved to the totals
    PREFETCH_AHEAD = 160      # tokens; 64 are too few for a table beyond the L2 cache: 10% more time
    CHECK_STEP = MARGIN // 1024   # tokens between checks of the window
    N_BLOCKS = WINDOW // 64


cdef inline bint is_single(uint32_t code) noexcept nogil:
    """Return whether a character is a word by itself: one of a script that is written without spaces between words.

    These are Chinese, Japanese, and those of which Unicode (UAX #14, class SA) says that only a dictionary finds where
    lines may break: Thai, Lao, Burmese, Khmer, the Tai scripts and Ahom; and Tibetan. Hangul is not. Nor are Tai Viet
    and the extensions of Burmese, whose first byte is one of Hangul's: looking at its second costs every text.
    """
    if code < 0x2E80:
        return 0xE00 <= code < 0x1AB0 and (
            code < 0x10A0 or 0x1780 <= code < 0x1800 or 0x1950 <= code < 0x1A00 or 0x1A20 <= code
        )
    if code < 0xA000:
        return code != 0x3000 and not (0x3130 <= code < 0x3190 or 0x3200 <= code < 0x3220 or 0x3260 <= code < 0x3280)
    return (
        0xF900 <= code < 0xFB00 or 0xFE30 <= code < 0xFE50 or 0xFF01 <= code < 0xFFA0
        or 0x116D0 <= code < 0x11750 or 0x1AFF0 <= code < 0x1B170 or 0x20000 <= code < 0x40000
    )


cdef inline void set_bits(uint64_t* block_bits, uint64_t* next_bits, uint64_t bits, int first) noexcept nogil:
    """Set bits from bit `first` on, continued in the next block."""
    block_bits[0] |= bits << first
    next_bits[0] |= bits >> 1 >> (63 - first)


cdef void add_character(Reader* reader, uint32_t code, int bit, Py_ssize_t length) noexcept nogil:
    """Set the bits of a character of several bytes, but for its start."""
    cdef uint64_t bits = (<uint64_t>1 << length) - 1
    cdef Block* block = &reader.block
    if get_class_of_code(code) & SPACE:
        set_bits(&block.space, &reader.spilled.space, bits, bit)
    elif reader.word_rule == WORDS_BY_SCRIPT and is_single(code):
        set_bits(&block.single, &reader.spilled.single, bits, bit)


cdef void read_characters(Reader* reader, Py_ssize_t base) noexcept nogil:
    """Read the characters that begin in the block one by one: for text that is not UTF-8."""
    cdef Py_ssize_t length, stop = min(base + 64, reader.size)
    cdef uint32_t code
    cdef int bit
    cdef Block* block = &reader.block
    while reader.position < stop:
        bit = <int>(reader.position - base)
        code = decode_char(reader.text, reader.position, reader.size, &length)
        block.starts |= <uint64_t>1 << bit
        if length > 1:
            block.wide |= <uint64_t>1 << bit
            set_bits(&block.tails, &reader.spilled.tails, (<uint64_t>1 << length) - 2, bit)
            add_character(reader, code, bit, length)
        elif code == 32 or 9 <= code <= 13:
            block.space |= <uint64_t>1 << bit
        elif 48 <= code <= 57:
            block.digit |= <uint64_t>1 << bit
        reader.position += length


cdef void read_wide(Reader* reader, Py_ssize_t base, const BlockMasks* masks, uint64_t text_mask) noexcept nogil:
    """Read a block of valid UTF-8, decoding only the characters whose first bytes do not tell their class."""
    cdef Block* block = &reader.block
    cdef uint64_t undecided = masks.undecided
    cdef Py_ssize_t length
    cdef uint32_t code
    cdef int bit
    block.starts = text_mask & ~masks.tail
    block.wide = masks.high & ~masks.tail
    block.tails = masks.tail
    block.space |= masks.space
    block.digit = masks.digit
    if reader.word_rule == WORDS_BY_SCRIPT:
        block.single |= masks.likely_cjk | masks.likely_cjk << 1 | masks.likely_cjk << 2
        reader.spilled.single |= masks.likely_cjk >> 63 | masks.likely_cjk >> 62
    while undecided:
        bit = bpe_ctz(undecided)
        undecided &= undecided - 1
        code = decode_char(reader.text, base + bit, reader.size, &length)
        if length == 3 and masks.likely_cjk >> bit & 1:          # not known to be single any more
            block.single &= ~(<uint64_t>7 << bit)
            reader.spilled.single &= ~(<uint64_t>7 >> 1 >> (63 - bit))
        add_character(reader, code, bit, length)


cdef void classify_blocks(const Reader* reader, Py_ssize_t base, Py_ssize_t n, BlockMasks* masks) noexcept nogil:
    """Classify `n` blocks of a text from `base` on, the last of which may not be whole."""
    cdef byte_t padded[64]
    cdef Py_ssize_t n_whole = min(n, (reader.size - base) >> 6), rest_start = base + 64 * n_whole
    classify(reader.text + base, n_whole, masks)
    if n_whole < n:
        memset(padded, 0, 64)
        memcpy(padded, reader.text + rest_start, reader.size - rest_start)
        classify(padded, 1, masks + n_whole)


cdef void read_block(Reader* reader, Py_ssize_t base, const BlockMasks* masks, uint64_t text_mask) noexcept nogil:
    """Find the masks of the 64 bytes from `base` on, not all ASCII, of which `text_mask` has those of the text."""
    reader.block = reader.spilled
    memset(&reader.spilled, 0, sizeof(Block))
    if reader.valid:
        read_wide(reader, base, masks, text_mask)
    else:
        read_characters(reader, base)


cdef bint is_whole(const byte_t* text, Py_ssize_t size) noexcept nogil:
    """Return whether a part of valid UTF-8 begins and ends with whole characters."""
    cdef Py_ssize_t last_start = size - 1, length
    if size == 0:
        return True
    if text[0] & 0xC0 == 0x80:
        return False
    while text[last_start] & 0xC0 == 0x80:
        last_start -= 1
    decode_char(text, last_start, size, &length)
    return last_start + length == size


cdef void begin_text(Reader* reader, const byte_t* text, Py_ssize_t size, int word_rule, bint valid) noexcept nogil:
    """Start to read a text; `valid` says whether its buffer is known to be UTF-8."""
    memset(reader, 0, sizeof(Reader))
    reader.text, reader.size, reader.word_rule = text, size, word_rule
    reader.valid = valid and is_whole(text, size)
    reader.breaks = 1


cdef void read_window(Reader* reader, Py_ssize_t base, Py_ssize_t n, const uint64_t* cuts) noexcept nogil:
    """Count in the next `n` blocks of a text, from `base` on, what they have, and what the boundaries `cuts` cut.

    `inside` has a run of bits for each word of several bytes. A 1 added at the start of a run, in which the bits of
    boundaries are cleared, carries to the first boundary, if there is one, or past the end of the run:

        inside        0 1 1 1 0 1 1 0     (the lowest bit first)
        boundaries    0 0 1 1 0 0 0 0
        cleared       0 1 0 0 0 1 1 0
        + starts      0 0 1 0 0 0 0 1     its bits among the boundaries: one for each word that is cut
    """
    cdef BlockMasks masks[N_BLOCKS]
    cdef uint64_t words[N_BLOCKS]
    cdef uint64_t cut_words[N_BLOCKS]
    cdef uint64_t numbers[N_BLOCKS]
    cdef uint64_t starts[N_BLOCKS]
    cdef uint64_t wide[N_BLOCKS]
    cdef uint64_t cut_chars[N_BLOCKS]
    cdef Py_ssize_t i, k = 0           # blocks that are not ASCII
    cdef uint64_t text_mask, space, digits, inside, cut_starts, carried
    cdef uint64_t breaks = reader.breaks, digit = reader.digit, previous_inside = reader.inside, carry = reader.carry
    cdef Sums* sums = &reader.sums
    classify_blocks(reader, base, n, masks)
    for i in range(n):
        text_mask = mask_text(reader.size - base - 64 * i)
        if masks[i].ascii:                                 # no character reaches into such a block
            space, digits = masks[i].space, masks[i].digit
            words[i] = text_mask & ~space
            if reader.word_rule != WORDS_BY_CHARACTERS:
                words[i] &= space << 1 | breaks
            breaks = space >> 63
            reader.position = base + 64 * i + 64
            reader.split = reader.tails = 0
        else:
            read_block(reader, base + 64 * i, &masks[i], text_mask)
            space, digits = reader.block.space, reader.block.digit
            words[i] = reader.block.starts & ~space
            if reader.word_rule != WORDS_BY_CHARACTERS:  # a word begins after these
                words[i] &= (space | reader.block.single) << 1 | breaks | reader.block.single
            breaks = (space | reader.block.single) >> 63
            starts[k], wide[k] = reader.block.starts, reader.block.wide
            cut_chars[k] = find_split_characters(reader, reader.block.tails & text_mask, cuts[i])
            k += 1
        inside = text_mask & ~space & ~words[i]
        cut_starts = cuts[i] & inside
        carried = bpe_add_bits(inside & ~cut_starts, inside & ~(inside << 1 | previous_inside >> 63), &carry)
        cut_words[i] = carried & cut_starts
        previous_inside = inside
        numbers[i] = digits & ~(digits << 1 | digit)
        digit = digits >> 63
        if reader.length or digit or digits & digits << 1 & (cuts[i] | digits << 2 & digits << 3):
            read_numbers(reader, digits, cuts[i])          # in the others, no boundary, right or wrong, is missing
    reader.breaks, reader.digit, reader.inside, reader.carry = breaks, digit, previous_inside, carry
    sums.characters += 64 * (n - k) + count_bits(starts, k)
    if masks[n - 1].ascii:                                 # which may have been padded
        sums.characters -= max(base + 64 * n - reader.size, <Py_ssize_t>0)
    sums.words += count_bits(words, n)
    sums.multibyte += count_bits(wide, k)
    sums.numbers += count_bits(numbers, n)
    sums.cut_words += count_bits(cut_words, n)
    sums.split_characters += count_bits(cut_chars, k)


cdef inline uint64_t find_split_characters(Reader* reader, uint64_t tails, uint64_t cuts) noexcept nogil:
    """The first boundary in each character of a block that is split."""
    cdef uint64_t split = cuts & tails
    cdef uint64_t first_cuts = split & ~(split << 1 | reader.split >> 63)
    cdef uint64_t repeated_cuts = (split << 2 | reader.split >> 62) & (tails << 1 | reader.tails >> 63)
    reader.split, reader.tails = split, tails
    return first_cuts & ~repeated_cuts


cdef inline uint64_t mask_text(Py_ssize_t n_bytes) noexcept nogil:
    """Return a mask of the bytes of a block that a text has, given the number from the block's first one on."""
    return ~<uint64_t>0 if n_bytes >= 64 else (<uint64_t>1 << n_bytes) - 1


cdef void read_numbers(Reader* reader, uint64_t digits, uint64_t cuts) noexcept nogil:
    """Read the numbers of a block, with the one that it may begin in."""
    cdef int bit = 0, run
    cdef uint64_t bits
    while bit < 64:
        if digits & 1:
            run = min(64 if ~digits == 0 else bpe_ctz(~digits), 64 - bit)
            bits = cuts & ((<uint64_t>2 << (run - 1)) - 1)
            if reader.length == 0:
                bits &= ~<uint64_t>1                       # before the number, nothing of it is cut
            while bits:
                reader.cuts[(reader.length + bpe_ctz(bits)) % 3] += 1
                bits &= bits - 1
            reader.length += run
        else:
            end_number(reader)
            if digits == 0:
                return
            run = bpe_ctz(digits)
        bit += run
        digits = digits >> 1 >> (run - 1)
        cuts = cuts >> 1 >> (run - 1)


cdef void end_number(Reader* reader) noexcept nogil:
    """Compare the boundaries in a number with groups of three digits from the right; nothing if there is no number."""
    cdef int64_t n_cuts = reader.cuts[0] + reader.cuts[1] + reader.cuts[2]
    cdef int64_t n_right = reader.cuts[reader.length % 3], n_ideal = (reader.length - 1) // 3 if reader.length else 0
    reader.sums.ideal_cuts += n_ideal
    reader.sums.number_cuts += n_cuts
    reader.sums.right_cuts += n_right
    if n_cuts or n_ideal:
        reader.sums.number_f1 += round_sum(2.0 * n_right / (n_cuts + n_ideal)) - 1
    reader.length = reader.cuts[0] = reader.cuts[1] = reader.cuts[2] = 0


cdef inline double round_sum(double value) noexcept nogil:
    """Return the nearest multiple of 2**-32: sums of a million of these are exact, so their order does not matter."""
    return <int64_t>(value * 4294967296.0 + 0.5) / 4294967296.0


cdef class TokenTally(Visitor):
    """Counts of the tokens of one tokenizer, and sums of texts: what they have, and what token boundaries cut.

    Call `begin` with the texts of a buffer, give their ids to `visit` or `add`, in parts or at once, and read `rows`.
    A text is aligned if its tokens have as many bytes as it has; otherwise nothing of it is compared with its tokens.

    A byte is set where a token begins, in a window of the text at a time, and the bytes then become bits: setting a bit
    would wait for the bit before. The count of a token and its length are in 32 bits, so that more of them are in a
    cache.

    Args:
        lengths: uint32, by id: the bytes of each token, counted as MAX_TOKEN_BYTES if they are more.
        word_rule: BY_SCRIPT, BY_SPACES or BY_CHARACTERS.
        max_counted: how many tokens are counted until the counts are moved to 64 bits, for tests.

    Attributes:
        rows: float64, shape (n, 17): the columns COLUMNS of the texts that were begun last. Sums of up to 2**53 are
            exact.

    """

    def __cinit__(self, lengths, int word_rule, uint64_t max_counted=MAX_COUNT):
        if not 0 < max_counted <= MAX_COUNT:
            raise ValueError(f"max_counted is {max_counted}; it must be from 1 to {MAX_COUNT}")
        self.table = np.minimum(lengths, MAX_TOKEN_BYTES).astype(np.uint32) << np.uint32(COUNT_BITS)
        self.totals = np.zeros(len(lengths), dtype=np.int64)
        self.n_left = self.max_counted = max_counted
        self.word_rule = word_rule
        self.end()

    def begin(
        self,
        const byte_t[::1] buffer,
        const int64_t[::1] starts,         # text i is `buffer[starts[i]:ends[i]]`
        const int64_t[::1] ends,
        bint valid,                        # whether the buffer is known to be UTF-8
    ):
        """Begin with other texts. The buffer must not change until `end`.

        Raises:
            ValueError: for texts that are not within the buffer.

        """
        starts, ends = np.array(starts), np.array(ends)    # the caller's may change
        check_spans(starts, ends, buffer.shape[0])
        self.buffer, self.starts, self.sizes = buffer, starts, np.subtract(ends, starts)
        self.open(
            &buffer[0] if buffer.shape[0] else NULL, &self.starts[0] if starts.shape[0] else NULL,
            &self.sizes[0] if starts.shape[0] else NULL, starts.shape[0], valid,
        )

    cdef int open(
        self, const byte_t* data, const int64_t* starts, const int64_t* sizes, Py_ssize_t n, bint valid
    ) except -1:
        """Begin with n texts that stay where they are: text i has `sizes[i]` bytes from `data + starts[i]` on."""
        self.rows = np.zeros((n, N_COLUMNS))
        self.row_view = self.rows
        self.data, self.text_starts, self.text_sizes, self.n_texts, self.valid = data, starts, sizes, n, valid
        memset(self.begins, 0, WINDOW + MARGIN)
        start_text(self, 0)
        return 0

    def end(self):
        """Let go of the buffer, after all ids or after an error."""
        self.n_texts = 0
        self.buffer, self.starts, self.sizes = None, None, None
        start_text(self, 0)

    def add(self, const uint32_t[::1] ids, const int64_t[::1] offsets, const uint32_t[::1] sizes):
        """Tally ids with the bytes of text of each token; empty for those of the counts.

        Raises:
            ValueError: for an id that the vocabulary does not have; for offsets or sizes that do not fit.

        """
        if sizes.shape[0] not in (0, ids.shape[0]):
            raise ValueError(f"there are {sizes.shape[0]} sizes for {ids.shape[0]} tokens; they must be as many")
        self.given_sizes = &sizes[0] if sizes.shape[0] else NULL
        try:
            self.visit(ids, offsets)
        finally:
            self.given_sizes = NULL

    def counts(self):
        """Return how often each token occurs, by id: int64, valid until more tokens are counted."""
        move_counts(self)
        return np.asarray(self.totals)

    cdef int take(self, const uint32_t* ids, size_t n, const int64_t* lengths, Py_ssize_t n_ended) except -1 nogil:
        cdef Py_ssize_t i, n_tokens, n_remaining = n
        for i in range(n_ended):
            n_tokens = lengths[i] - self.n_tokens
            if not (0 <= n_tokens <= n_remaining and self.text < self.n_texts):
                with gil:
                    raise ValueError(f"text {self.text} of {self.n_texts} has no {lengths[i]} tokens")
            add_tokens(self, ids, n_tokens, n_remaining)
            end_text(self)
            ids += n_tokens
            n_remaining -= n_tokens
        if n_remaining:
            add_tokens(self, ids, n_remaining, n_remaining)
        return 0


cdef int add_tokens(TokenTally tally, const uint32_t* ids, uint64_t n, uint64_t n_readable) except -1 nogil:
    """Count the next tokens of a text and mark where they begin; all `n_readable` ids can be read."""
    cdef uint64_t part
    cdef uint32_t max_id = find_greatest(ids, n)
    if n and max_id >= <uint64_t>tally.table.shape[0]:
        with gil:
            raise ValueError(
                f"text {tally.text} has the id {max_id}; it must be below {tally.table.shape[0]}, the size of the "
                "vocabulary"
            )
    while n:
        part = min(n, tally.n_left)
        count_tokens(tally, ids, part, n_readable)
        ids += part
        n -= part
        n_readable -= part
        tally.n_left -= part
        if tally.n_left == 0:
            move_counts(tally)
    return 0


cdef int count_tokens(TokenTally tally, const uint32_t* ids, uint64_t n, uint64_t n_readable) noexcept nogil:
    """Count ids of the vocabulary, so few that no count overflows, and mark where their tokens begin."""
    cdef uint32_t* table = &tally.table[0] if tally.table.shape[0] else NULL
    cdef byte_t* begins = tally.begins                  # copies: a write to `table` might change the object's
    cdef uint64_t position = tally.position, i = 0, k, base, stop
    cdef uint64_t n_ahead = min(n, n_readable - PREFETCH_AHEAD) if n_readable > PREFETCH_AHEAD else 0
    cdef uint32_t entry, next_entry
    cdef const uint32_t* sizes = tally.given_sizes
    if sizes != NULL:
        n_ahead = 0
        tally.given_sizes += n
    tally.n_tokens += n
    while i < n:
        stop = tally.base + WINDOW
        base = tally.base
        while i + CHECK_STEP <= n_ahead and position < stop:  # unrolled by the compiler
            for k in range(i, i + CHECK_STEP, 2):
                prefetch(table + ids[k + PREFETCH_AHEAD])  # a large table is not in the L1 cache
                prefetch(table + ids[k + 1 + PREFETCH_AHEAD])
                entry, next_entry = table[ids[k]], table[ids[k + 1]]
                table[ids[k]] = entry + 1              # both are read before: a read would wait for this
                table[ids[k + 1]] = next_entry + 1 + (ids[k] == ids[k + 1])
                begins[position - base] = 0x80
                position += entry >> COUNT_BITS
                begins[position - base] = 0x80
                position += next_entry >> COUNT_BITS
            i += CHECK_STEP
        while i < n and position < stop:
            begins[position - base] = 0x80
            entry = table[ids[i]]
            table[ids[i]] = entry + 1
            position += entry >> COUNT_BITS if sizes == NULL else sizes[i]
            i += 1
        if stop < tally.size and position >= stop:
            take_window(tally, stop, position)
            continue
        while i < n:                                   # tokens beyond the text
            entry = table[ids[i]]
            table[ids[i]] = entry + 1
            position += entry >> COUNT_BITS if sizes == NULL else sizes[i]
            i += 1
    tally.position = position
    return 0


cdef void take_window(TokenTally tally, uint64_t stop, uint64_t token_start) noexcept nogil:
    """Compare the text with its boundaries up to `stop`, the end of the window or text; none is after `token_start`."""
    cdef uint64_t cuts[N_BLOCKS]
    cdef uint64_t n = (stop - tally.base + 63) >> 6, n_marked = 0
    take_bits(tally.begins, cuts, n)
    if tally.base == 0:
        cuts[0] &= ~<uint64_t>1                        # where the text begins, nothing is cut
    read_window(&tally.reader, tally.base, n, cuts)
    if token_start >= tally.base + 64 * n:              # some are beyond the window; one without bytes is at its end
        n_marked = min(token_start + 1 - tally.base, <uint64_t>(WINDOW + MARGIN)) - 64 * n
    if stop < tally.size:                               # the next window begins with them: n is N_BLOCKS
        memmove(tally.begins, tally.begins + WINDOW, n_marked)
        memset(tally.begins + max(n_marked, <uint64_t>WINDOW), 0, min(n_marked, <uint64_t>WINDOW))
    else:
        memset(tally.begins + 64 * n, 0, n_marked)
    tally.base = stop


cdef int start_text(TokenTally tally, Py_ssize_t index) noexcept nogil:
    """Begin a text, if there is one of this number."""
    cdef const byte_t* text = NULL
    tally.text = index
    tally.size = tally.position = tally.base = tally.n_tokens = 0
    if index < tally.n_texts:
        tally.size = tally.text_sizes[index]
        if tally.size:
            text = tally.data + tally.text_starts[index]
        begin_text(&tally.reader, text, tally.size, tally.word_rule, tally.valid)
    return 0


cdef int end_text(TokenTally tally) noexcept nogil:
    """Complete the sums of a text, and begin the next one."""
    cdef Sums* sums = &tally.reader.sums
    cdef double* row = &tally.row_view[tally.text, 0]
    while tally.base < tally.size:
        take_window(tally, min(tally.size, tally.base + WINDOW), tally.position)
    if tally.size == 0 and tally.n_tokens:               # which have been marked, but there was no window
        memset(tally.begins, 0, WINDOW + MARGIN)
    end_number(&tally.reader)
    row[BYTES], row[CHARACTERS], row[TOKENS] = tally.size, sums.characters, tally.n_tokens
    row[WORDS], row[MULTIBYTE], row[NUMBERS], row[IDEAL] = sums.words, sums.multibyte, sums.numbers, sums.ideal_cuts
    if tally.position == tally.size:
        row[ALIGNED], row[CUT_WORDS], row[SPLIT_CHARACTERS] = 1, sums.cut_words, sums.split_characters
        row[NUMBER_CUTS], row[RIGHT_CUTS] = sums.number_cuts, sums.right_cuts
        row[NUMBER_F1] = sums.numbers + sums.number_f1
        row[ALIGNED_WORDS], row[ALIGNED_MULTIBYTE] = sums.words, sums.multibyte
        row[ALIGNED_NUMBERS], row[ALIGNED_IDEAL] = sums.numbers, sums.ideal_cuts
    start_text(tally, tally.text + 1)
    return 0


cdef int move_counts(TokenTally tally) noexcept nogil:
    """Move the counts to the totals."""
    cdef Py_ssize_t i
    for i in range(tally.table.shape[0]):
        tally.totals[i] += tally.table[i] & MAX_COUNT
        tally.table[i] &= ~<uint32_t>MAX_COUNT
    tally.n_left = tally.max_counted
    return 0
