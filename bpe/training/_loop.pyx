"""What every loop of training does: take the best pair from the queue, find its token, have it merged, record it.

`MergeLoop` is the base of `Trainer` (`_trainer.pyx`) and of `PickyTrainer` (`bpe/research/_picky.pyx`). It decides
ties, asks the rules and the veto, remembers what they refuse, and says why the training stopped.

The queue is lazy: an entry remembers the count that its pair had when it was pushed. A popped entry with the right
count is the best pair; one whose pair has become rarer goes back with its present count. Whoever makes a pair more
frequent pushes it again, so that an entry with too low a count is not needed any more. That is exact for every tie
rule; under `first`, a pair's first position moves only when its count falls.
"""

import numpy as np

from bpe.base._system cimport read_clock
from bpe.base._interrupts cimport check_signals
from bpe.base._memory cimport check_allocated, grow_array
from bpe.base._types cimport NO_TOKEN, byte_t, count_t, token_t
from bpe.training._pair_heap cimport Entry, pop, push
from bpe.training._pair_merge cimport find_first_position, free_state
from bpe.training._pair_table cimport NO_PAIR, TrackedPair, add_pair, has_pair, hash_pair
from bpe.training._spelling_rules cimport breaks_rules, set_rules
from bpe.training._token_table cimport Token, Tokens, add_token, find_token, join_tokens, count_token_bytes
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp


cdef const double POLL_SECONDS = 0.05  # between two polls for signals: each waits up to 5 ms for a busy interpreter

# Ties -----------------------------------------------------------------------------------------------------------------

cdef inline int compare_tokens(const Tokens* tokens, token_t a, token_t b) noexcept nogil:
    cdef size_t size_a = count_token_bytes(tokens, a), size_b = count_token_bytes(tokens, b)
    cdef int order = memcmp(tokens.bytes + tokens.offsets[a], tokens.bytes + tokens.offsets[b], min(size_a, size_b))
    return order if order else (size_a > size_b) - (size_a < size_b)


cdef inline int compare_pairs(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    """Order two pairs as (left bytes, right bytes)."""
    cdef const TieContext* tie_context = <const TieContext*>context
    cdef const TrackedPair* first = &tie_context.pairs.items[a.pair]
    cdef const TrackedPair* second = &tie_context.pairs.items[b.pair]
    cdef int order = compare_tokens(tie_context.tokens, first.left, second.left)
    return order if order else compare_tokens(tie_context.tokens, first.right, second.right)


cdef bint is_smaller(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) < 0


cdef bint is_greater(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) > 0


# The loop -------------------------------------------------------------------------------------------------------------

cdef class MergeLoop:
    """Learns merges one by one. Subclasses write the symbols, count the pairs, and make each `merge`."""

    def __cinit__(self):
        self.teams = ()
        self.state.tokens.offsets = <int64_t*>check_allocated(calloc(1, sizeof(int64_t)), 1, b"offset")

    def __dealloc__(self):
        free_state(&self.state)
        free(self.heap.entries)
        free(self.merges)

    cdef int begin_learning(self, initial, config) except -1:
        """Take the first tokens of an `InitialTokens` and the rules for the next merge of a `TrainConfig`."""
        self.tie_break = <TieBreak><int>config.tie_break_index
        self.state.policy.threshold = max(<count_t>config.min_frequency, 1)
        self.state.policy.max_length = config.max_length
        self.state.policy.count_non_overlapping = config.count_non_overlapping
        self.forbidden, self.scripts, self.mark_size = b"".join(config.forbidden), config.scripts, config.mark_size
        set_rules(&self.rules, config, self.forbidden, self.scripts)
        self.veto, self.has_veto = config.veto, config.veto is not None
        for token, ends_word, reserved, length in initial.tokens:
            add_token(&self.state.tokens, token, len(token), ends_word, reserved, length)
        self.tie_context.tokens, self.tie_context.pairs = &self.state.tokens, &self.state.pairs
        self.heap.context = &self.tie_context
        if self.tie_break == BY_SMALLEST:
            self.heap.before = is_smaller
        elif self.tie_break == BY_GREATEST:
            self.heap.before = is_greater
        return 0

    # What subclasses do -----------------------------------------------------------------------------------------------

    cdef int merge(self, uint32_t pair_id, token_t token, count_t* removed) except -1 nogil:
        """Merge a pair, and enter what that makes into the queue; `removed`: by how many tokens the corpus shrinks."""
        return 0

    cdef bint is_reusable(self, token_t token, bint ends_word) noexcept nogil:
        """Whether a merge may make a token that exists."""
        return False

    cdef bint has_rare_pairs(self) except -1 nogil:
        """Whether pairs below min_frequency are left."""
        return False

    # The best pair ----------------------------------------------------------------------------------------------------

    cdef Entry make_entry(self, uint32_t pair_id) noexcept nogil:
        """Make the queue's entry of a pair, with its present count."""
        cdef Entry entry
        cdef TrackedPair* pair = &self.state.pairs.items[pair_id]
        entry.count = pair.count
        entry.pair = pair_id
        if self.tie_break == BY_FIRST:
            entry.key = find_first_position(&self.state, pair_id)
        else:
            entry.key = <uint64_t>pair.left << 32 | pair.right
        return entry

    cdef uint32_t pop_best_pair(self) except? 0xFFFFFFFF nogil:
        """Take the best pair from the queue; NO_PAIR where none has the threshold's count."""
        cdef Entry entry, current
        cdef count_t count
        while self.heap.size > 0:
            entry = pop(&self.heap)
            count = self.state.pairs.items[entry.pair].count
            if count < self.state.policy.threshold or count > entry.count:
                continue                               # merged already, too rare, or there is an entry with this count
            current = self.make_entry(entry.pair)
            if current.count == entry.count and current.key == entry.key:
                return entry.pair
            push(&self.heap, current)
        return NO_PAIR

    cdef bint is_allowed(self, token_t left, token_t right) except -1 nogil:
        """Whether a pair may be merged; a veto by Python is not asked anew."""
        return not has_pair(&self.state.refused, left, right) and self.find_result_token(left, right) != NO_TOKEN

    cdef token_t find_result_token(self, token_t left, token_t right) except? 0xFFFFFFFF nogil:
        """Find the token of a merge result: an existing id, `tokens.n` for a new one, NO_TOKEN if it must not be made.

        The merge result must not be longer than `max_length` symbols, nor spell a token that is not reusable; and the
        rules must allow it.
        """
        cdef Tokens* tokens = &self.state.tokens
        cdef Token first = tokens.items[left], second = tokens.items[right]
        cdef uint64_t left_size = count_token_bytes(tokens, left), size = left_size + count_token_bytes(tokens, right)
        cdef const byte_t* text
        cdef token_t existing
        if <uint64_t>first.length + second.length > self.state.policy.max_length or size > <uint64_t>0xFFFFFFFF:
            return NO_TOKEN
        text = join_tokens(tokens, left, right)
        existing = find_token(tokens, text, size)
        if breaks_rules(&self.rules, text, left_size, size - (self.mark_size if second.ends_word else 0)):
            return NO_TOKEN
        if existing == NO_TOKEN:
            return <token_t>tokens.n
        return existing if self.is_reusable(existing, second.ends_word) else NO_TOKEN

    cdef token_t approve_or_refuse(self, uint32_t pair_id) except? 0xFFFFFFFF nogil:
        """Find the token of a pair as `find_result_token` does, and ask the veto by Python.

        NO_TOKEN if the pair must not be merged; then it is refused for good, and its count is not used any more.
        """
        cdef TrackedPair pair = self.state.pairs.items[pair_id]
        cdef token_t token
        if has_pair(&self.state.refused, pair.left, pair.right):
            return NO_TOKEN
        token = self.find_result_token(pair.left, pair.right)
        if token != NO_TOKEN and self.has_veto:
            with gil:
                if self.veto(self.get_token_bytes(pair.left), self.get_token_bytes(pair.right), pair.count):
                    token = NO_TOKEN
        if token == NO_TOKEN:
            self.state.pairs.items[pair_id].count = 0
            add_pair(&self.state.refused, pair.left, pair.right, hash_pair(pair.left, pair.right))
        return token

    cdef int make_token(self, token_t left, token_t right, token_t token) except -1 nogil:
        """Give a merge result its length, after adding it if it is new."""
        cdef Tokens* tokens = &self.state.tokens
        cdef Token first = tokens.items[left], second = tokens.items[right]
        cdef uint32_t length = first.length + second.length
        cdef size_t size
        if token == tokens.n:
            join_tokens(tokens, left, right)
            size = count_token_bytes(tokens, left) + count_token_bytes(tokens, right)
            add_token(tokens, NULL, size, second.ends_word, False, length)
        else:
            tokens.items[token].length = length
        return 0

    cdef int set_stop_reason(self) except -1 nogil:
        """Stop, since no pair can be merged any more."""
        self.stop_reason = ONLY_RARE_PAIRS if self.has_rare_pairs() else NO_PAIRS
        return 0

    # For Python -------------------------------------------------------------------------------------------------------

    def run(self, size_t max_merges, size_t max_tokens):
        """Learn up to `max_merges` merges while there are fewer than `max_tokens` tokens, deleted ones not counted.

        Returns:
            A list of (left, right, token, count), with fewer than `max_merges` where `stop_reason` is set or there are
            enough tokens.

        """
        cdef size_t i, first = self.n_learned
        cdef double poll_time = 0
        with nogil:
            while self.n_learned - first < max_merges and self.state.tokens.n - self.n_deleted < max_tokens:
                if read_clock() >= poll_time:          # with many words, the first merges take seconds
                    check_signals()
                    poll_time = read_clock() + POLL_SECONDS
                if not self.stop_reason:
                    self.learn_next()
                if self.stop_reason:
                    break
        merges = []
        for i in range(first, self.n_learned):
            merges.append((self.merges[i].left, self.merges[i].right, self.merges[i].token, self.merges[i].count))
        return merges

    cdef bint learn_next(self) except -1 nogil:
        """Merge the best pair, or refuse it; without one, set `stop_reason`. Returns whether it is merged."""
        cdef uint32_t pair_id = self.pop_best_pair()
        cdef TrackedPair pair
        cdef token_t token
        cdef count_t removed = 0
        if pair_id == NO_PAIR:
            self.set_stop_reason()
            return False
        pair = self.state.pairs.items[pair_id]
        token = self.approve_or_refuse(pair_id)
        if token == NO_TOKEN:
            return False
        self.merge(pair_id, token, &removed)
        self.record_merge(pair.left, pair.right, token, pair.count, removed)
        return True

    cdef int record_merge(
        self, token_t left, token_t right, token_t token, count_t count, count_t removed
    ) except -1 nogil:
        """Record a merge."""
        self.merges = <MergeRow*>grow_array(self.merges, &self.merges_capacity, self.n_learned + 1, sizeof(MergeRow))
        self.merges[self.n_learned] = MergeRow(left, right, token, count, removed)
        self.n_learned += 1
        return 0

    @property
    def n_tokens(self):
        """How many tokens there are that are not deleted."""
        return self.state.tokens.n - self.n_deleted

    def get_token_bytes(self, size_t token):
        """Return the bytes of a token."""
        if token >= self.state.tokens.n:
            raise ValueError(f"token {token} does not exist; there are {self.state.tokens.n} tokens")
        cdef const int64_t* bounds = self.state.tokens.offsets + token
        return self.state.tokens.bytes[bounds[0] : bounds[1]]

    def list_merges(self):
        """List all merges learned: int64 (n, 4), each left, right, token, count."""
        return np.ascontiguousarray(self.read_rows()[:, :4])

    def list_removed_counts(self):
        """List by how many tokens each merge made the corpus shorter: int64 (n,)."""
        return self.read_rows()[:, 4]

    cdef object read_rows(self):
        if self.n_learned == 0:
            return np.empty((0, 5), np.int64)
        return np.array(<int64_t[: self.n_learned, :5]><int64_t*>self.merges)

    cdef tuple read_all_tokens(self):
        """Return the bytes of all tokens end to end, and their int64 offsets (n + 1,)."""
        cdef const Tokens* tokens = &self.state.tokens
        return tokens.bytes[: tokens.offsets[tokens.n]], np.array(<int64_t[: tokens.n + 1]>tokens.offsets)
