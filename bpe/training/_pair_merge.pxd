"""Merging one pair wherever it stands, and what that needs to remember."""

from bpe.base._team cimport Team
from bpe.base._types cimport cell_t, count_t, token_t
from bpe.training._pair_table cimport Pairs
from bpe.training._symbol_array cimport Symbols
from bpe.training._token_table cimport Tokens
from libc.stdint cimport uint32_t

cdef enum:
    SPARE = 16                # cells that each part of a job has to itself, a line of a cache

cdef struct Pool:             # the memory of all lists of places; written from its begin to its end until a recount
    cell_t* cells             # (size + MOST_PARTS * SPARE,): the last ones are for what nobody reads
    size_t n
    size_t size
    size_t longest            # a longer list is not written: reading all cells costs less
    size_t most_pairs
    bint full                 # something did not fit: recount before the next merge

cdef struct Keep:             # which pairs are tracked
    count_t threshold         # those with at least this count,
    uint32_t max_length       # whose token has at most this many symbols;
    const Pairs* given        # or, where not NULL, those that are in this table of merges,
    size_t first              # from this rank
    size_t limit              # to before this one

cdef struct Side:             # a pair with one neighbour of the token that a merge makes
    token_t token             # the neighbour
    uint32_t n                # occurrences, each word counted once
    count_t count
    size_t cursor             # where in the pool its next place goes, or NO_LIST

cdef struct Gather:           # what one merge meets: room for every token, used again by each merge
    uint32_t* slot[2]         # by token: its index in `sides` + 1, 0 where it was not met (left, right)
    Side* sides[2]
    size_t n[2]
    size_t room
    Side chain                # the pair of two new tokens

cdef int fit_gather(Gather* gather, size_t n_tokens) except -1 nogil
cdef void free_gather(Gather* gather) noexcept nogil
cdef bint is_kept(const Keep* keep, const Tokens* tokens, token_t left, token_t right, count_t count) noexcept nogil
cdef int merge_pair(
    Symbols* symbols, Tokens* tokens, Pairs* pairs, Pool* pool, Gather* gathers, const Keep* keep, uint32_t number,
    token_t made, Team team, size_t long_list,
) except -1 nogil
cdef cell_t first_place(
    const Symbols* symbols, const Tokens* tokens, Pairs* pairs, const Pool* pool, uint32_t number
) noexcept nogil
