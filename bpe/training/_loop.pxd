"""What the loops of `_trainer.pyx` and `bpe/research/_picky.pyx` have in common; `_loop.pyx` says what that is."""

from bpe.base._types cimport count_t, token_t
from bpe.training._pair_heap cimport Entry, Heap
from bpe.training._pair_merge cimport TrainingState
from bpe.training._pair_table cimport TrackedPairs
from bpe.training._spelling_rules cimport SpellingRules
from bpe.training._token_table cimport Tokens
from libc.stdint cimport uint32_t

cdef enum TieBreak:           # numbered as in `TIE_BREAKS` of `merge_rules.py`
    BY_ID = 0
    BY_FIRST = 1
    BY_SMALLEST = 2
    BY_GREATEST = 3

cdef enum StopReason:         # numbered as in `STOP_REASONS` of trainer.py
    RUNNING = 0
    NO_PAIRS = 1
    ONLY_RARE_PAIRS = 2       # the best pair is below min_frequency

cdef struct TieContext:       # what ties are decided by
    const Tokens* tokens
    const TrackedPairs* pairs

cdef struct MergeRow:
    count_t left, right, token, count
    count_t removed           # by how many tokens the corpus shrank


cdef class MergeLoop:
    cdef TrainingState state
    cdef Heap heap
    cdef TieContext tie_context
    cdef TieBreak tie_break
    cdef SpellingRules rules
    cdef bytes forbidden              # the memory of `rules.strings`
    cdef bytes scripts                # and of `rules.scripts`
    cdef object veto                  # called as veto(left, right, count), or None
    cdef bint has_veto                # whether it is not None
    cdef size_t mark_size             # bytes of the end-of-word mark, which the rules do not see
    cdef MergeRow* merges
    cdef size_t n_learned, merges_capacity
    cdef size_t n_deleted             # tokens that are not in the vocabulary any more
    cdef readonly tuple teams         # teams of threads, whose helpers must be running whenever merges are made
    cdef readonly int stop_reason     # a StopReason

    cdef int begin_learning(self, initial, config) except -1
    cdef int merge(self, uint32_t pair_id, token_t token, count_t* removed) except -1 nogil
    cdef bint is_reusable(self, token_t token, bint ends_word) noexcept nogil
    cdef bint has_rare_pairs(self) except -1 nogil
    cdef uint32_t pop_best_pair(self) except? 0xFFFFFFFF nogil
    cdef Entry make_entry(self, uint32_t pair_id) noexcept nogil
    cdef bint is_allowed(self, token_t left, token_t right) except -1 nogil
    cdef token_t find_result_token(self, token_t left, token_t right) except? 0xFFFFFFFF nogil
    cdef token_t approve_or_refuse(self, uint32_t pair_id) except? 0xFFFFFFFF nogil
    cdef int make_token(self, token_t left, token_t right, token_t token) except -1 nogil
    cdef int set_stop_reason(self) except -1 nogil
    cdef bint learn_next(self) except -1 nogil
    cdef int record_merge(
        self, token_t left, token_t right, token_t token, count_t count, count_t removed
    ) except -1 nogil
    cdef object read_rows(self)
    cdef tuple read_all_tokens(self)
