"""Bit masks of the character classes of a text, and the classes of the 64-byte block that a scan is at."""

from bpe.base._types cimport byte_t
from libc.stdint cimport uint64_t

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    bint bpe_ascii_classes(int level, const byte_t* text, Masks* out)
    int bpe_ctz(uint64_t bits)
    int bpe_clz(uint64_t bits)
    ctypedef struct Masks "bpe_masks":  # of the characters of a block; each byte of a character has its bits
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
        uint64_t undecided

cdef enum Rule:        # in which the patterns that are scanned by blocks differ
    LINES = 1          # newlines, numbers, single other characters as in cl100k; not in gpt2, starcoder
    WHOLE_AT_END = 2   # white space that ends the text is one pretoken
    SINGLE_DIGITS = 4  # each number is a pretoken, instead of up to three together
    CASED = 8          # as in o200k: a capital starts a word; a slash joins newlines after other characters
    CONTRACTIONS = 16  # a contraction is a pretoken or, with CASED, the end of one
    GAPS = 32          # white space belongs to no pretoken
    CLASSES = 64       # with GAPS: pretokens have characters of one class each
    CLIP_RULES = 32 | 64 | 16 | 4 | 1

cdef enum:
    CHUNK_BLOCKS = 64  # at most 4 KB of text are classified at a time; their masks fit the L1 cache
    MIN_BLOCKS = 4     # blocks classified at a time at first

cdef struct Cursor "bpe_cursor":  # the state of a scan, on its caller's stack
    int scanner
    int rules
    const byte_t* text
    Py_ssize_t pos     # the next pretoken begins here, or the gap before it
    Py_ssize_t end     # of the text
    Py_ssize_t base    # position of the first bit of masks[0]
    Py_ssize_t masks_end  # the masks cover the text up to this position
    Py_ssize_t n_blocks  # blocks classified at a time; doubles up to CHUNK_BLOCKS
    bint can_read_on   # the 64 bytes after the text can be read
    Masks masks[CHUNK_BLOCKS + 2]

cdef void classify_chunk(Cursor* cursor) noexcept nogil


cdef inline uint64_t shift_bits(uint64_t low, uint64_t high, int shift) noexcept nogil:
    """Return the 64 bits that begin at bit `shift` of `low` and continue in `high`."""
    return low >> shift | high << 1 << (63 - shift)


cdef inline uint64_t mask_below(Py_ssize_t n) noexcept nogil:
    """Return a mask of the bits below bit n, 0 <= n <= 64."""
    return ~<uint64_t>0 if n >= 64 else (<uint64_t>1 << n) - 1


cdef inline bint classify_ascii_block(const byte_t* text, const int level, Masks* out) noexcept nogil:
    """Find the classes of 64 ASCII bytes; False, with `out` invalid, if longer characters begin there."""
    out.tail = out.undecided = 0
    cdef Masks masks  # a local one stays in registers while vectors add to it
    if not bpe_ascii_classes(level, text, &masks):
        return False
    out.letter, out.number, out.space = masks.letter, masks.number, masks.space
    out.newline, out.blank, out.apostrophe, out.upper = masks.newline, masks.blank, masks.apostrophe, masks.upper
    out.slash = masks.slash
    return True


cdef inline void classify_any_block(Cursor* cursor, const int rules, Masks* out) noexcept nogil:
    """Find the classes of the 64 bytes from `pos`, or of the rest of the text, but not `lead` and `uncased`."""
    cdef Py_ssize_t offset
    cdef const Masks* low
    cdef const Masks* high
    cdef int shift
    if cursor.pos + 64 > cursor.masks_end and cursor.masks_end < cursor.end or cursor.pos >= cursor.masks_end:
        classify_chunk(cursor)
    offset = cursor.pos - cursor.base
    shift = offset & 63
    low = &cursor.masks[offset >> 6]
    high = low + 1
    out.letter = shift_bits(low.letter, high.letter, shift)
    out.number = shift_bits(low.number, high.number, shift)
    out.space = shift_bits(low.space, high.space, shift)
    out.newline = shift_bits(low.newline, high.newline, shift)
    out.blank = shift_bits(low.blank, high.blank, shift)
    out.apostrophe = shift_bits(low.apostrophe, high.apostrophe, shift)
    out.slash = ~<uint64_t>0
    out.upper = shift_bits(low.upper, high.upper, shift)
    out.tail = shift_bits(low.tail, high.tail, shift)
    out.undecided = shift_bits(low.undecided, high.undecided, shift)
    if rules & CASED:
        # Whether a capital after a letter without case starts a word depends on the following text.
        out.undecided |= out.upper & shift_bits(low.uncased, high.uncased, shift) << 1
