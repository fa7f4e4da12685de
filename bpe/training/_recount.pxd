"""Counting all pairs anew, choosing which to track, and listing their places."""

from bpe.base._team cimport Team
from bpe.base._types cimport count_t
from bpe.training._pair_merge cimport Keep, Pool
from bpe.training._pair_table cimport Pairs
from bpe.training._symbol_array cimport Symbols
from bpe.training._token_table cimport Tokens
from libc.stdint cimport uint64_t

cdef struct Plan:             # what a recount is to reckon with
    count_t floor             # no pair of a lower count is ever merged
    count_t ceiling           # the threshold must not be higher, or nothing would come of it
    count_t ratio             # the threshold should be at least the best count divided by this
    uint64_t merges           # how many are still to be made
    size_t dense              # up to so many tokens a table of all their pairs counts
    bint growing              # the pool may grow where it must; else ValueError

cdef int recount(
    const Symbols* symbols, const Tokens* tokens, Pairs* pairs, Pool* pool, Keep* keep, const Plan* plan, Team team,
    int parts,
) except -1 nogil
