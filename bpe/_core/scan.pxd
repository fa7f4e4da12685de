"""Scanners: where the pretokens of a text begin and end, for the patterns that have one."""

from bpe._core.types cimport byte_t
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "classify.h" nogil:
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
    LINES = 1          # cl100k and its kin, all but gpt2: newlines, numbers and lone other characters as they have them
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
    LEAST = 64         # what scanning takes room for: the pretokens of a window
    FOUND = 512        # pretokens that `scan` finds at most
    FAR = 1 << 30      # one call's pretokens begin within so many bytes

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

cdef void begin(Cursor* cursor, int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil

cdef Py_ssize_t scan_bounds(
    Cursor* cursor,
    uint32_t* bounds,          # OUT (limit + 1,)
    Py_ssize_t limit,          # at least LEAST
) noexcept nogil

cdef Py_ssize_t scan(
    Cursor* cursor,
    Py_ssize_t* starts,        # OUT (limit,)
    Py_ssize_t* ends,          # OUT (limit,)
    Py_ssize_t limit,          # below LEAST the text is read a character at a time
) noexcept nogil

cdef Py_ssize_t certain_start(int scanner, const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
