"""Merging the symbols of a piece: rows of up to 64 symbols, or any number with a heap."""

from bpe.base._ids cimport Ids
from bpe.base._interrupts cimport Watch
from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_queue cimport Queue
from bpe.merge._merge_table cimport Merges
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "bpe/merge/_short_merge.h" nogil:
    ctypedef struct Row "bpe_row":
        Py_ssize_t n
    void fill_row_from_bytes "bpe_fill_row_from_bytes"(
        Row* row, const Merges* merges, const token_t* ids, const byte_t* piece, Py_ssize_t n
    )
    void fill_row_from_symbols "bpe_fill_row_from_symbols"(
        Row* row, const Merges* merges, const token_t* symbols, Py_ssize_t n
    )
    Py_ssize_t copy_row_tokens "bpe_copy_row_tokens"(const Row* row, token_t* out)
    enum:
        MAX_ROWS "BPE_MAX_ROWS"  # rows that are merged at once, at most

cdef enum:
    MAX_ROW_SYMBOLS = 64      # symbols of a row, at most
    IDS_PER_STEP = 4          # an entry of the heap takes as long as writing some four ids does elsewhere

cdef struct TokensBySymbol:   # the tokens of single symbols at a position of a word
    const uint32_t* tokens    # by byte or code point; NO_TOKEN for none
    size_t n

cdef struct Affix:            # bytes that a symbol has in the vocabulary and not in the text: a prefix or a suffix
    const byte_t* data
    Py_ssize_t size

cdef struct SymbolTokens:     # the tokens of single symbols
    TokensBySymbol inner      # before the last position of a piece
    TokensBySymbol last
    TokensBySymbol first      # at the first position of a word: `inner`, or symbols without the prefix
    TokensBySymbol only       # of a word of one symbol: `last`, or the same
    Affix prefix              # of all symbols but a word's first
    Affix suffix              # of a word's last symbol
    token_t mark_id           # the end-of-word mark if it is a symbol of its own, else NO_TOKEN
    token_t unk_id            # the unknown token, or NO_TOKEN
    const uint32_t* byte_ids  # NULL, or the tokens of bytes (NO_TOKEN for none) for symbols that have no token
    bint fuse_unk             # adjacent unknown symbols become one unknown token
    bint drop_unknown         # unknown symbols are left out, as there is no unknown token
    bint is_char_model        # symbols are characters, not bytes
    bint one_token_per_byte   # symbols are bytes with a token that is the same at every position; nothing is added
    bint has_all_bytes        # and every byte has one

cdef struct Link:             # a symbol of a long piece
    uint64_t merge            # its merge with the next symbol: rank << 32 | id, or NO_MERGE
    token_t token
    uint32_t previous
    uint32_t next

cdef struct Scratch:          # memory to merge in, which its owner frees
    token_t* symbols
    size_t symbols_capacity
    Link* links
    size_t links_capacity
    Queue queue
    token_t* window           # the window of a piece that is merged in huge windows (`_long_merge.pyx`)
    size_t window_capacity
    Watch watch

cdef struct DropoutState:     # the state of BPE-dropout (`_dropout.pyx`); the caller frees `dropped`
    uint64_t drop_threshold   # the probability with which a merge is left out, times 2**53
    uint64_t state            # the state of the random numbers
    Queue dropped             # the merges left out since the last one was made


cdef void free_scratch(Scratch* scratch) noexcept nogil

cdef Py_ssize_t write_symbols(
    const SymbolTokens* symbol_tokens,
    const byte_t* piece,
    Py_ssize_t size,
    Scratch* scratch,         # OUT: the symbols
    Py_ssize_t* unknown,      # OUT: the offset of the first symbol without an id; unchanged if there is none
) except -1 nogil

cdef void merge_row(const Merges* merges, Row* row) noexcept nogil
cdef void merge_rows(const Merges* merges, Row* rows, size_t n) noexcept nogil

cdef int merge_and_append_row(const Merges* merges, Row* row, Ids* out) except -1 nogil

cdef Py_ssize_t merge_in_passes(
    const Merges* merges,
    token_t* tokens,          # IN and OUT
    Py_ssize_t n,
    Scratch* scratch,
    size_t written,           # ids of the output, for `poll_if_due`
) except -1 nogil
cdef int check_length(Py_ssize_t n) except -1 nogil
cdef int merge_with_heap(
    const Merges* merges,
    const token_t* symbols,   # IN (n,): may be those of `scratch`
    Py_ssize_t n,
    Scratch* scratch,
    Ids* out,                 # IN and OUT: the ids are appended
    DropoutState* dropout,    # NULL: no merge is left out
) except -1 nogil
