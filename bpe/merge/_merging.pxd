"""Pieces to ids by merging: what the engine does with a piece that no cache knows."""

from bpe.base._ids cimport Ids
from bpe.base._interrupts cimport Watch
from bpe.base._memory cimport grown
from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_queue cimport Queue
from bpe.merge._merge_table cimport NO_MERGE, Pairs
from libc.stdint cimport int32_t, uint32_t, uint64_t

cdef extern from "bpe/merge/_short_merge.h" nogil:
    const int32_t NEVER "INT32_MAX"          # the order of a place where nothing merges
    ctypedef struct Row "bpe_row":
        token_t token[82]
        token_t made[82]
        int32_t order[64]
        uint64_t live
        Py_ssize_t n
    void row_of_bytes "bpe_row_of_bytes"(
        Row* row, const Pairs* pairs, const token_t* ids, const byte_t* piece, Py_ssize_t n
    )
    void row_of_symbols "bpe_row_of_symbols"(Row* row, const Pairs* pairs, const token_t* symbols, Py_ssize_t n)
    Py_ssize_t tokens_of "bpe_tokens_of"(const Row* row, token_t* out)

cdef enum:
    SHORT = 64                # symbols: a piece of at most so many is merged in registers and on the stack

cdef struct Alphabet:         # which tokens single symbols are
    const uint32_t* inner     # token of a byte or code point before the last place of a piece, or NO_TOKEN
    const uint32_t* last      # the same at the last place
    size_t n_inner
    size_t n_last
    token_t mark              # the end-of-word mark where it is a symbol of its own, else NO_TOKEN
    token_t unk               # the unknown token, or NO_TOKEN
    bint fuse_unk             # neighbouring unknown symbols are one unknown token
    bint chars                # symbols are characters, not bytes
    bint plain                # every byte has a token, the same at every place, and nothing is added

cdef struct Unread:           # what is left of a piece whose symbols are taken part by part
    const byte_t* piece
    Py_ssize_t size
    Py_ssize_t pos
    bint ended                # all symbols are taken, a mark's too

cdef struct Link:             # a symbol of a long piece
    uint64_t merge            # what it makes with the next one: rank << 32 | id, or NO_MERGE
    token_t token
    uint32_t before
    uint32_t behind

cdef struct Scratch:          # room to merge in; its owner frees it
    token_t* symbols
    size_t symbols_room
    Link* links
    size_t links_room
    Queue queue
    size_t work               # symbols of long pieces that were gone over, each as often as it was, for tests
    Watch watch


cdef inline bint is_fresh(const Scratch* scratch, uint64_t entry) noexcept nogil:
    """Whether an entry of the queue is what its symbol still makes with the one behind it."""
    cdef uint64_t merge = scratch.links[<uint32_t>entry].merge
    return merge != NO_MERGE and merge >> 32 == entry >> 32


cdef void free_scratch(Scratch* scratch) noexcept nogil

cdef Py_ssize_t symbols_of(
    const Alphabet* alphabet,
    const byte_t* piece,
    Py_ssize_t size,
    token_t* symbols,         # OUT (size + 1,)
    Py_ssize_t* unknown,      # OUT: the offset of the first symbol without an id; left alone if there is none
) noexcept nogil

cdef Py_ssize_t more_symbols(
    const Alphabet* alphabet,
    Unread* unread,           # IN and OUT
    token_t* symbols,         # IN and OUT (room,)
    Py_ssize_t n,             # that are there
    Py_ssize_t room,
    Py_ssize_t* unknown,      # OUT: as of `symbols_of`
) noexcept nogil

cdef Py_ssize_t merge_bytes(
    const Pairs* pairs,
    const Alphabet* alphabet,
    const byte_t* piece,
    Py_ssize_t size,          # at most SHORT
    token_t* out,             # OUT (size,)
) noexcept nogil

cdef Py_ssize_t merge_symbols(
    const Pairs* pairs,
    token_t* symbols,         # IN and OUT
    Py_ssize_t n,             # at most SHORT
) noexcept nogil

cdef void merge_row(const Pairs* pairs, Row* row) noexcept nogil

cdef int merge_with_heap(
    const Pairs* pairs,
    const token_t* symbols,   # IN (n,): may be those of `scratch`
    Py_ssize_t n,
    Scratch* scratch,
    Ids* out,                 # IN and OUT: the ids are appended
) except -1 nogil

cdef int begin_links(const Pairs* pairs, const token_t* symbols, Py_ssize_t n, Scratch* scratch) except -1 nogil

cdef int join_behind(const Pairs* pairs, Scratch* scratch, uint32_t at, Py_ssize_t n) except -1 nogil

cdef int append_links(const Scratch* scratch, Py_ssize_t n, Ids* out) except -1 nogil
