"""The counts of one tokenizer's tokens, and the state of reading a text."""

from bpe.base._types cimport byte_t
from bpe.base._visitor cimport Visitor
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum:
    WINDOW = 4096             # bytes of text whose masks are compared at once: 64 blocks
    MARGIN = 8 * 1024         # bytes after a window in which the last tokens counted with it may begin

cdef struct Block:            # masks of 64 bytes
    uint64_t starts           # of characters
    uint64_t wide             # of those of several bytes
    uint64_t space            # each byte of white space
    uint64_t single           # each byte of characters that are words by themselves
    uint64_t tails
    uint64_t digit

cdef struct Sums:             # the sums of a text, as in the columns
    int64_t characters
    int64_t words
    int64_t multibyte
    int64_t numbers
    int64_t ideal_cuts        # boundaries of groups of three digits from the right
    int64_t cut_words
    int64_t split_characters
    int64_t number_cuts
    int64_t right_cuts
    double number_f1          # less 1 for each number

cdef struct Reader:           # a text, block by block
    const byte_t* text
    Py_ssize_t size
    Py_ssize_t position       # the next character begins here
    int word_rule
    bint valid                # UTF-8
    Block block               # the current one
    Block spilled             # of the next one: what the characters of this one reach into
    # Of the block before, in the highest bits, or in bit 0.
    uint64_t breaks           # a word may begin after it
    uint64_t digit            # it ends in a digit
    uint64_t inside
    uint64_t carry            # of the sum that finds words that are cut
    uint64_t split
    uint64_t tails
    # The number that is not over.
    int64_t length
    int64_t cuts[3]           # boundaries in it, by their distance from its start modulo 3
    Sums sums


cdef class TokenTally(Visitor):
    cdef readonly object rows
    cdef double[:, ::1] row_view
    cdef int word_rule
    # Counts.
    cdef uint32_t[::1] table           # by id: the length << COUNT_BITS | the count
    cdef int64_t[::1] totals
    cdef uint64_t n_left, max_counted           # tokens that can still be counted, and after `move_counts`
    # The texts, and what holds them.
    cdef const byte_t* data
    cdef const int64_t* text_starts
    cdef const int64_t* text_sizes
    cdef Py_ssize_t n_texts
    cdef const byte_t[::1] buffer
    cdef const int64_t[::1] starts
    cdef const int64_t[::1] sizes
    cdef bint valid
    cdef const uint32_t* given_sizes   # the bytes of text of the next tokens; NULL to look them up
    # The current text.
    cdef Py_ssize_t text
    cdef uint64_t size                 # in bytes
    cdef uint64_t position             # where the next token begins
    cdef uint64_t base                 # where the window begins
    cdef int64_t n_tokens
    cdef Reader reader
    cdef byte_t begins[WINDOW + MARGIN]  # by position from `base` on: 0x80 where a token begins

    cdef int open(
        self, const byte_t* data, const int64_t* starts, const int64_t* sizes, Py_ssize_t n, bint valid
    ) except -1
