"""The characters of a text as bit masks of their classes, up to 4 KB at a time.

ASCII is classified 64 bytes at a time (`_char_masks.h`), and so are letters of other scripts (`_letters.h`); what is
left of characters of several bytes is looked up one by one. Not here: where pretokens begin (`_boundaries.pxd`).
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport byte_t
from bpe.text._unicode cimport LETTER, LOWER, NEW, NUMBER, SPACE, UPPER, class_of_code, decode_char, later_class
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    struct Level "bpe_level":
        void (*ascii)(const byte_t* text, Masks* out) noexcept nogil

    Level classify "bpe_classify"
    void bpe_use_level_masks(int level)
    int bpe_ctz(uint64_t bits)

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

    Letters of two and three bytes, nearly all there are, are found together (`_letters.h`), the others one at a time.
    """
    cdef Masks* masks = &cursor.masks[word]
    cdef Masks* after = masks + 1
    cdef Py_ssize_t at = cursor.base + 64 * word
    cdef const byte_t* text = cursor.text + at
    cdef byte_t padded[66]
    cdef WideLetters found
    cdef uint64_t letters, rest, two, three, three_byte_letters, into
    if at + 66 > cursor.end:
        memset(padded, 0, 66)
        memcpy(padded, text, cursor.end - at)
        text = padded
    bpe_find_letters(text, cursor.rules & CASED, &found)
    if found.mark:
        found.three |= found.mark & marks_of_words(masks, word > 0, &found)
    three_byte_letters = found.three | found.cased  # with `others`, all that was found
    two, three = found.two | found.others, three_byte_letters | found.other
    masks.lead &= ~(two | three)
    masks.tail |= (two | three) << 1 | three << 2
    after.tail |= (two | three) >> 63 | three >> 62
    letters = found.two | three_byte_letters
    masks.letter |= letters | letters << 1 | three_byte_letters << 2
    into = letters >> 63 | three_byte_letters >> 62        # the bytes that lie in the next word
    after.letter |= into
    if cursor.rules & CASED:
        rest = found.uncased | found.three
        masks.uncased |= rest | rest << 1 | found.three << 2
        after.uncased |= rest >> 63 | found.three >> 62
        rest = found.upper | found.capital
        masks.upper |= rest | rest << 1 | found.capital << 2
        after.upper |= rest >> 63 | found.capital >> 62
    if masks.lead:
        classify_others(cursor, word)


cdef inline uint64_t marks_of_words(const Masks* masks, bint behind, const WideLetters* found) noexcept nogil:
    """The bytes of marks behind letters, or behind such marks; `behind`: there are masks before these.

    A mark is a part of words as letters without case are, and so it is one of those here. It is not only that: where
    no letter stands before it, `classify_one` says that it is hard.
    """
    cdef uint64_t three_byte_letters = found.three | found.cased, letters = found.two | three_byte_letters, marks
    letters |= masks.letter | letters << 1 | three_byte_letters << 2
    letters = letters << 1 | ((masks - 1).letter >> 63 if behind else 0)
    marks = found.mark | found.mark << 1 | found.mark << 2
    return marks & ~(marks + (found.mark & letters))       # the carry runs through them


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
        if bits == NEW:
            if cursor.rules & CLASSES:
                bits = later_class(code, True)
            elif cursor.rules & (LINES | SINGLE_DIGITS) == SINGLE_DIGITS:
                bits = later_class(code, False)
        if length > 1:
            if cursor.rules & CASED and bits & (UPPER | LOWER) and is_behind_letter(cursor, word, bit):
                bits |= LETTER                             # a mark, as `marks_of_words` has it
            classify_one(&cursor.masks[word], bit, length, bits, bits & hard_bits, cursor.rules)


cdef inline bint is_behind_letter(const Cursor* cursor, Py_ssize_t word, int bit) noexcept nogil:
    """Whether a letter ends before a bit of a word of the masks."""
    if bit:
        return cursor.masks[word].letter >> (bit - 1) & 1
    return word > 0 and cursor.masks[word - 1].letter >> 63


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
