"""Counting all pairs anew, choosing which to track, and listing their positions."""

from bpe.base._team cimport Team
from bpe.base._types cimport count_t
from bpe.training._pair_merge cimport TrainingState
from libc.stdint cimport uint64_t

cdef enum:
    PAIR_BYTES = 88           # what a tracked pair takes in the table and in the queue, about
    TALLY_BYTES = 16          # what a pair takes in the table of all pairs

cdef struct RecountPlan:      # what decides how many pairs a recount tracks
    count_t floor             # no pair of a lower count is ever merged
    count_t ceiling           # the threshold must not be higher, or no new pair would be tracked
    count_t ratio             # the threshold should be at least the best count divided by this
    uint64_t n_merges_left    # how many are still to be made
    size_t max_dense_tokens   # up to this many tokens a table of all their pairs counts
    bint may_grow             # the pool may grow where it must; else ValueError
    bint track_all_pairs      # track every pair, however rare

cdef int recount(TrainingState* state, const RecountPlan* plan, Team team, int parts) except -1 nogil
