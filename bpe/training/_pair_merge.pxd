"""Merging one pair at all its occurrences, and the state of a training that this changes."""

from bpe.base._team cimport MAX_PARTS, Team
from bpe.base._types cimport cell_t, count_t, token_t
from bpe.training._pair_table cimport TrackedPairs
from bpe.training._symbol_array cimport SymbolArray
from bpe.training._token_table cimport Tokens
from libc.stdint cimport uint32_t

cdef enum:
    SPARE_CELLS = 16          # cells that each part of a job has to itself: a cache line

cdef struct Pool:             # the memory of all lists of positions; filled from its start until a recount empties it
    cell_t* cells             # (size + MAX_PARTS * SPARE_CELLS,): the last ones are written and never read
    size_t n
    size_t size
    size_t max_list_size      # a longer list is not written: reading all cells costs less
    size_t max_pairs
    bint must_recount         # something did not fit: recount before the next merge

cdef struct TrackingPolicy:   # which pairs are tracked, and how they are counted
    count_t threshold         # the least count
    uint32_t max_length       # the most symbols of the pair's token
    bint count_non_overlapping  # a run of r equal tokens counts as r // 2 pairs, not r - 1

cdef struct Neighbour:        # a token beside merged occurrences: how often its old pair is lost and its new one gained
    token_t token
    uint32_t n                # occurrences, each word counted once
    count_t count
    size_t cursor             # where in the pool the new pair's next position goes, or NO_LIST

cdef struct Neighbours:       # the neighbours of one merge: room for every token, used again by each merge
    uint32_t* slot[2]         # by token: its index in `items` + 1, 0 if it has not occurred (left, right)
    Neighbour* items[2]
    size_t n[2]
    size_t capacity
    Neighbour chain           # the pair of two new tokens
    count_t removed           # merges of a pair (a, a)
    count_t overlaps[3]       # without overlaps: pairs (a, a) and (b, b) that are not lost, (c, c) that are not gained

cdef struct TrainingState:
    SymbolArray symbols
    Tokens tokens
    TrackedPairs pairs
    Pool pool
    TrackingPolicy policy
    TrackedPairs refused      # pairs that must not be merged; their counts are not used
    Neighbours neighbours[MAX_PARTS]  # by part; the sums of all parts are in the first
    size_t parallel_threshold  # the least positions in a part of a list

cdef void free_state(TrainingState* state) noexcept nogil
cdef bint is_tracked(const TrainingState* state, token_t left, token_t right, count_t count) noexcept nogil
cdef count_t merge_pair(TrainingState* state, uint32_t pair_id, token_t merged, Team team) except? -1 nogil
cdef cell_t find_first_position(TrainingState* state, uint32_t pair_id) noexcept nogil
