"""The characters of a text as bit masks of their classes, and the window of 64 bytes that is looked at."""

from bpe.base._types cimport byte_t
from libc.stdint cimport uint64_t

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    bint bpe_plain_classes(int level, const byte_t* text, Masks* out)
    ctypedef struct Masks "bpe_masks":
        uint64_t letter
        uint64_t upper
        uint64_t number
        uint64_t space
        uint64_t newline
        uint64_t blank
        uint64_t apostrophe
        uint64_t slash
        uint64_t lead
        uint64_t tail
        uint64_t uncased
        uint64_t hard

cdef enum Rule:        # how the patterns that are read by windows differ
    LINES = 1          # newlines, numbers and single other characters as in cl100k and its kin: not gpt2, not starcoder
    WHOLE_AT_END = 2   # white space that ends the text is one pretoken
    SINGLE_DIGITS = 4  # a number is a pretoken by itself, not three together
    CASED = 8          # o200k and its kin: words are cut where capitals begin; a slash joins newlines behind others
    CONTRACTIONS = 16  # a contraction is a pretoken, or under CASED the end of one
    GAPS = 32          # white space is in no pretoken
    CLASSES = 64       # with GAPS: pretokens have characters of one class each
    CLIP_RULES = 32 | 64 | 16 | 4 | 1

cdef enum:
    CHUNK_WORDS = 64   # up to 4 KB of text are classified at a time; their masks stay in the first-level cache
    LEAST_WORDS = 4

cdef struct Cursor "bpe_cursor":    # a scan under way; lives on its caller's stack
    int scanner
    int rules
    const byte_t* text
    Py_ssize_t pos     # the next pretoken begins here, or the gap before it
    Py_ssize_t end     # of the text
    Py_ssize_t base    # masks[0] begins here
    Py_ssize_t known   # the masks reach to here
    Py_ssize_t words   # how many words of them were filled at a time
    Masks masks[CHUNK_WORDS + 2]

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

cdef void classify_chunk(Cursor* cursor) noexcept nogil


cdef inline uint64_t shifted(uint64_t low, uint64_t high, int shift) noexcept nogil:
    """64 bits from bit `shift` of `low` on."""
    return low >> shift | high << 1 << (63 - shift)


cdef inline uint64_t below(Py_ssize_t n) noexcept nogil:
    """The n lowest bits, 0 <= n <= 64."""
    return ~<uint64_t>0 if n >= 64 else (<uint64_t>1 << n) - 1


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
