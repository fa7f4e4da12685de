"""The characters of a text as bit masks of their classes, up to 4 KB at a time.

ASCII is classified 64 bytes at a time (`_char_masks.h`), and so are the letters of other scripts (`_letters.h`); the
remaining characters of several bytes are looked up one by one.
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from bpe.text._unicode cimport LETTER, LOWER, NEW, NUMBER, SPACE, UPPER, get_class_of_code, decode_char, get_later_class
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    void bpe_classify_ascii(const byte_t* text, Masks* out)
    void bpe_use_level_masks(int level)

cdef extern from "bpe/pretokenize/_letters.h" nogil:
    ctypedef struct WideLetters "bpe_wide_letters":
        uint64_t two
        uint64_t upper
        uint64_t uncased
        uint64_t others
        uint64_t three
        uint64_t other
        uint64_t cased
        uint64_t capital
        uint64_t mark

    void bpe_find_letters(const byte_t* text, bint cased, WideLetters* out)
    void bpe_use_level_letters(int level)


cdef void use_level(int level) noexcept:
    bpe_use_level_letters(level)
    bpe_use_level_masks(level)


follow_vector_level(use_level)


cdef void classify_chunk(Cursor* cursor) noexcept nogil:
    """Fill the masks from `pos`, the start of a character.

    Consecutive calls classify twice as much text each time, up to CHUNK_BLOCKS; a call after a gap starts again with
    MIN_BLOCKS, since texts that are mostly ASCII need the masks only here and there.
    """
    cdef byte_t padded[64]
    cdef Py_ssize_t n_left = cursor.end - cursor.pos, n_blocks, i, n_rest
    cdef const byte_t* text = cursor.text + cursor.pos
    cursor.n_blocks = (
        min(2 * cursor.n_blocks, <Py_ssize_t>CHUNK_BLOCKS) if cursor.pos <= cursor.masks_end else MIN_BLOCKS
    )
    n_blocks = min(cursor.n_blocks, (n_left + 63) >> 6)
    cursor.base = cursor.pos
    cursor.masks_end = min(cursor.end, cursor.pos + 64 * n_blocks)
    for i in range(n_blocks):
        n_rest = n_left - 64 * i
        if n_rest >= 64:
            bpe_classify_ascii(text + 64 * i, &cursor.masks[i])
        else:                                              # never read past the text
            memset(padded, 0, 64)
            memcpy(padded, text + 64 * i, n_rest)
            bpe_classify_ascii(padded, &cursor.masks[i])
    memset(&cursor.masks[n_blocks], 0, 2 * sizeof(Masks))
    for i in range(n_blocks):
        if cursor.masks[i].lead:
            classify_wide(cursor, i)


cdef void classify_wide(Cursor* cursor, Py_ssize_t block) noexcept nogil:
    """Set the class bits of the characters of several bytes that begin in a block, on each of their bytes.

    Letters of two and three bytes, which are most of these characters, are found together (`_letters.h`); the rest are
    classified one at a time.
    """
    cdef Masks* masks = &cursor.masks[block]
    cdef Masks* after = masks + 1
    cdef Py_ssize_t start = cursor.base + 64 * block
    cdef const byte_t* text = cursor.text + start
    cdef byte_t padded[66]
    cdef WideLetters wide
    cdef uint64_t letters, bits, two, three, three_byte_letters, carried
    if start + 66 > cursor.end:
        memset(padded, 0, 66)
        memcpy(padded, text, cursor.end - start)
        text = padded
    bpe_find_letters(text, cursor.rules & CASED, &wide)
    if wide.mark:
        wide.three |= wide.mark & find_marks_in_words(masks, block > 0, &wide)
    three_byte_letters = wide.three | wide.cased           # with `other`, all characters of three bytes found
    two, three = wide.two | wide.others, three_byte_letters | wide.other
    masks.lead &= ~(two | three)
    masks.tail |= (two | three) << 1 | three << 2
    after.tail |= (two | three) >> 63 | three >> 62
    letters = wide.two | three_byte_letters
    masks.letter |= letters | letters << 1 | three_byte_letters << 2
    carried = letters >> 63 | three_byte_letters >> 62     # bytes that lie in the next block
    after.letter |= carried
    if cursor.rules & CASED:
        bits = wide.uncased | wide.three
        masks.uncased |= bits | bits << 1 | wide.three << 2
        after.uncased |= bits >> 63 | wide.three >> 62
        bits = wide.upper | wide.capital
        masks.upper |= bits | bits << 1 | wide.capital << 2
        after.upper |= bits >> 63 | wide.capital >> 62
    if masks.lead:
        classify_others(cursor, block)


cdef inline uint64_t find_marks_in_words(const Masks* masks, bint has_previous, const WideLetters* wide) noexcept nogil:
    """Return the bytes of marks after letters, or after such marks; `has_previous` is set if masks precede these.

    In o200k a mark after a letter continues the word as a letter without case does, and is counted as one. A mark
    after anything else may start a word or belong to punctuation: `classify_one` marks it as undecided.
    """
    cdef uint64_t three_byte_letters = wide.three | wide.cased, letters = wide.two | three_byte_letters, marks
    letters |= masks.letter | letters << 1 | three_byte_letters << 2
    letters = letters << 1 | ((masks - 1).letter >> 63 if has_previous else 0)
    marks = wide.mark | wide.mark << 1 | wide.mark << 2
    return marks & ~(marks + (wide.mark & letters))        # the carry runs through each run of marks


cdef void classify_others(Cursor* cursor, Py_ssize_t block) noexcept nogil:
    """Set the class bits of the characters that begin at the lead bytes left in a block.

    A byte that starts no valid character keeps no class.
    """
    cdef uint64_t lead = cursor.masks[block].lead
    cdef Py_ssize_t at = cursor.base + 64 * block, length
    cdef int bit, bits, undecided_bits = 0
    cdef uint32_t code
    if cursor.rules & LINES and not cursor.rules & SINGLE_DIGITS:
        undecided_bits |= NUMBER
    while lead:
        bit = bpe_ctz(lead)
        lead &= lead - 1
        code = decode_char(cursor.text, at + bit, cursor.end, &length)
        bits = get_class_of_code(code)
        if code == 0x345 and cursor.rules & CLASSES:       # see `get_clip_class_at`
            bits = SPACE
        if bits == NEW:
            if cursor.rules & CLASSES:
                bits = get_later_class(code, True)
            elif cursor.rules & (LINES | SINGLE_DIGITS) == SINGLE_DIGITS:
                bits = get_later_class(code, False)
        if length > 1:
            if cursor.rules & CASED and bits & (UPPER | LOWER) and follows_letter(cursor, block, bit):
                bits |= LETTER                             # a mark: see `find_marks_in_words`
            classify_one(&cursor.masks[block], bit, length, bits, bits & undecided_bits, cursor.rules)


cdef inline bint follows_letter(const Cursor* cursor, Py_ssize_t block, int bit) noexcept nogil:
    """Whether a letter ends directly before a bit of a block."""
    if bit:
        return cursor.masks[block].letter >> (bit - 1) & 1
    return block > 0 and cursor.masks[block - 1].letter >> 63


cdef inline void classify_one(
    Masks* masks, int bit, Py_ssize_t length, int bits, bint undecided, int rules
) noexcept nogil:
    """Set the bits of one character of several bytes, which may continue in the next block."""
    cdef uint64_t low = mask_below(length) << bit, high = 0
    cdef Masks* after = masks + 1
    if bit + length > 64:
        high = mask_below(length) >> (64 - bit)
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
        if not bits & LETTER:                              # a mark may belong to a word or to punctuation
            undecided = True
        elif not bits & LOWER:
            masks.upper |= low
            after.upper |= high
        elif bits & UPPER:
            masks.uncased |= low
            after.uncased |= high
    if undecided:
        masks.undecided |= low
        after.undecided |= high
