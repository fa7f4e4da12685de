"""What every loop of training does: take the best pair from the queue, find its token, have it merged, record it.

`Learner` is the base of `Trainer` (`_trainer.pyx`) and of `PickyLearner` (`bpe/research/_picky.pyx`). It decides ties,
asks the rules and the veto, remembers what they refuse, and says why the training stopped.

The queue is lazy: an entry remembers the count that its pair had when it was pushed. A popped entry with the right
count is the best pair; one whose pair has become rarer goes back with its present count. Whoever makes a pair more
frequent pushes it again, so that an entry with too low a count is not needed any more. That is exact for every tie
rule; under `first`, a pair's first position moves only when its count falls.
"""

import numpy as np

from bpe.base._memory cimport check_allocated
from bpe.base._types cimport NO_TOKEN, byte_t, count_t, token_t
from bpe.training._pair_heap cimport Entry, pop, push
from bpe.training._pair_merge cimport first_position, free_state
from bpe.training._pair_table cimport NO_PAIR, TrackedPair, add_pair, has_pair, pair_hash
from bpe.training._spelling_rules cimport breaks_rules, set_rules
from bpe.training._token_table cimport Token, Tokens, add_token, find_token, join_tokens, size_of
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp


# Ties -----------------------------------------------------------------------------------------------------------------

cdef inline int compare_tokens(const Tokens* tokens, token_t a, token_t b) noexcept nogil:
    cdef size_t first = size_of(tokens, a), second = size_of(tokens, b)
    cdef int order = memcmp(tokens.bytes + tokens.offsets[a], tokens.bytes + tokens.offsets[b], min(first, second))
    return order if order else (first > second) - (first < second)


cdef inline int compare_pairs(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    """Order two pairs as (left bytes, right bytes)."""
    cdef const TieContext* compared = <const TieContext*>context
    cdef const TrackedPair* first = &compared.pairs.items[a.pair]
    cdef const TrackedPair* second = &compared.pairs.items[b.pair]
    cdef int found = compare_tokens(compared.tokens, first.left, second.left)
    return found if found else compare_tokens(compared.tokens, first.right, second.right)


cdef bint is_smaller(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) < 0


cdef bint is_greater(const void* context, const Entry* a, const Entry* b) noexcept nogil:
    return compare_pairs(context, a, b) > 0


# The loop -------------------------------------------------------------------------------------------------------------

cdef class Learner:
    """What learns merges one by one. Subclasses write the symbols, count the pairs, and merge them in `step`."""

    def __cinit__(self):
        self.learned, self.teams = bytearray(), ()
        self.state.tokens.offsets = <int64_t*>check_allocated(calloc(1, sizeof(int64_t)), 1, b"offset")

    def __dealloc__(self):
        free_state(&self.state)
        free(self.heap.entries)

    cdef int begin(self, initial, config) except -1:
        """Take the first tokens of an `InitialTokens` and the rules for the next merge of a `TrainConfig`."""
        self.tie_break = <TieBreak><int>config.tie_rule
        self.state.policy.threshold = max(<count_t>config.min_frequency, 1)
        self.state.policy.max_length = config.max_length
        self.state.policy.count_non_overlapping = config.count_non_overlapping
        self.forbidden, self.scripts, self.mark_size = b"".join(config.forbidden), config.scripts, config.mark_size
        set_rules(&self.rules, config, self.forbidden, self.scripts)
        self.veto, self.has_veto = config.veto, config.veto is not None
        for token, ends_word, reserved, length in initial.tokens:
            add_token(&self.state.tokens, token, len(token), ends_word, reserved, length)
        self.compared.tokens, self.compared.pairs = &self.state.tokens, &self.state.pairs
        self.heap.context = &self.compared
        if self.tie_break == BY_SMALLEST:
            self.heap.before = is_smaller
        elif self.tie_break == BY_GREATEST:
            self.heap.before = is_greater
        return 0

    # What subclasses do -----------------------------------------------------------------------------------------------

    cdef int step(self, uint32_t number, token_t token, count_t* removed) except -1 nogil:
        """Merge a pair, and enter what that makes into the queue; `removed`: by how many tokens the corpus shrinks."""
        return 0

    cdef bint is_reusable(self, token_t token, bint ends_word) noexcept nogil:
        """Whether a merge may make a token that exists."""
        return False

    cdef bint any_left(self) except -1 nogil:
        """Whether pairs below min_frequency are left."""
        return False

    # The best pair ----------------------------------------------------------------------------------------------------

    cdef Entry entry_of(self, uint32_t number) noexcept nogil:
        """The queue's entry of a pair, as of now."""
        cdef Entry entry
        cdef TrackedPair* pair = &self.state.pairs.items[number]
        entry.count = pair.count
        entry.pair = number
        if self.tie_break == BY_FIRST:
            entry.key = first_position(&self.state, number)
        else:
            entry.key = <uint64_t>pair.left << 32 | pair.right
        return entry

    cdef uint32_t pop_best_pair(self) except? 0xFFFFFFFF nogil:
        """Take the best pair from the queue; NO_PAIR where none has the threshold's count."""
        cdef Entry entry, now
        cdef count_t count
        while self.heap.size > 0:
            entry = pop(&self.heap)
            count = self.state.pairs.items[entry.pair].count
            if count < self.state.policy.threshold or count > entry.count:
                continue                               # merged already, too rare, or there is an entry with this count
            now = self.entry_of(entry.pair)
            if now.count == entry.count and now.key == entry.key:
                return entry.pair
            push(&self.heap, now)
        return NO_PAIR

    cdef bint is_allowed(self, token_t left, token_t right) except -1 nogil:
        """Whether a pair may be merged; a veto by Python is not asked anew."""
        return not has_pair(&self.state.refused, left, right) and self.find_result_token(left, right) != NO_TOKEN

    cdef token_t find_result_token(self, token_t left, token_t right) except? 0xFFFFFFFF nogil:
        """The token of a merge result: an existing id, `tokens.n` for a new token, NO_TOKEN if it must not be made.

        The merge result must not be longer than `max_length` symbols, nor spell a token that is not reusable; and the
        rules must allow it.
        """
        cdef Tokens* tokens = &self.state.tokens
        cdef Token first = tokens.items[left], second = tokens.items[right]
        cdef uint64_t left_size = size_of(tokens, left), size = left_size + size_of(tokens, right)
        cdef const byte_t* text
        cdef token_t known
        if <uint64_t>first.length + second.length > self.state.policy.max_length or size > <uint64_t>0xFFFFFFFF:
            return NO_TOKEN
        text = join_tokens(tokens, left, right)
        known = find_token(tokens, text, size)
        if breaks_rules(&self.rules, text, left_size, size - (self.mark_size if second.ends_word else 0)):
            return NO_TOKEN
        if known == NO_TOKEN:
            return <token_t>tokens.n
        return known if self.is_reusable(known, second.ends_word) else NO_TOKEN

    cdef token_t ask_rules(self, uint32_t number) except? 0xFFFFFFFF nogil:
        """The token of a pair as `find_result_token` gives it, unless the veto by Python refuses it.

        NO_TOKEN if the pair must not be merged; then it is refused for good, and its count is not used any more.
        """
        cdef TrackedPair pair = self.state.pairs.items[number]
        cdef token_t token
        if has_pair(&self.state.refused, pair.left, pair.right):
            return NO_TOKEN
        token = self.find_result_token(pair.left, pair.right)
        if token != NO_TOKEN and self.has_veto:
            with gil:
                if self.veto(self.spell_token(pair.left), self.spell_token(pair.right), pair.count):
                    token = NO_TOKEN
        if token == NO_TOKEN:
            self.state.pairs.items[number].count = 0
            add_pair(&self.state.refused, pair.left, pair.right, pair_hash(pair.left, pair.right))
        return token

    cdef int make_token(self, token_t left, token_t right, token_t token) except -1 nogil:
        """Give a merge result its length, after adding it if it is new."""
        cdef Tokens* tokens = &self.state.tokens
        cdef Token first = tokens.items[left], second = tokens.items[right]
        cdef uint32_t length = first.length + second.length
        if token == tokens.n:
            join_tokens(tokens, left, right)
            add_token(tokens, NULL, size_of(tokens, left) + size_of(tokens, right), second.ends_word, False, length)
        else:
            tokens.items[token].length = length
        return 0

    cdef int set_stop(self) except -1 nogil:
        """Stop, since no pair can be merged any more."""
        self.stop = RARE if self.any_left() else NO_PAIRS
        return 0

    # For Python -------------------------------------------------------------------------------------------------------

    def run(self, size_t max_merges, size_t max_tokens):
        """Learn up to `max_merges` merges while there are fewer than `max_tokens` tokens, deleted ones not counted.

        Returns:
            A list of (left, right, token, count), with fewer than `max_merges` where `stop` is set or there are enough
            tokens.

        """
        cdef uint32_t number
        cdef token_t token
        cdef TrackedPair pair
        cdef count_t removed = 0
        merges = []
        while <size_t>len(merges) < max_merges and self.state.tokens.n - self.n_deleted < max_tokens and not self.stop:
            PyErr_CheckSignals()                       # with many words, the first merges take seconds
            with nogil:
                token = NO_TOKEN
                number = self.pop_best_pair()
                if number == NO_PAIR:
                    self.set_stop()
                else:
                    pair = self.state.pairs.items[number]
                    token = self.ask_rules(number)
                    if token != NO_TOKEN:
                        self.step(number, token, &removed)
            if token != NO_TOKEN:
                merges.append(self.record(pair.left, pair.right, token, pair.count, removed))
        return merges

    cdef tuple record(self, token_t left, token_t right, token_t token, count_t count, count_t removed):
        """Record a merge; returns the row of `run`."""
        cdef count_t[5] row = [left, right, token, count, removed]
        self.learned += (<char*>row)[: sizeof(row)]
        self.n_learned += 1
        return left, right, token, count

    @property
    def n_tokens(self):
        """How many tokens there are that are not deleted."""
        return self.state.tokens.n - self.n_deleted

    def spell_token(self, size_t token):
        """The bytes of a token."""
        if token >= self.state.tokens.n:
            raise ValueError(f"token {token} does not exist; there are {self.state.tokens.n} tokens")
        cdef const int64_t* at = self.state.tokens.offsets + token
        return self.state.tokens.bytes[at[0] : at[1]]

    def merges(self):
        """All merges learned: int64 (n, 4), each left, right, token, count."""
        return np.ascontiguousarray(self.rows()[:, :4])

    def removed(self):
        """By how many tokens each merge made the corpus shorter: int64 (n,)."""
        return self.rows()[:, 4]

    cdef object rows(self):
        return np.frombuffer(bytes(self.learned), dtype=np.int64).reshape(-1, 5)

    cdef tuple spell_tokens(self):
        """The bytes of all tokens end to end, and where each begins and the last one ends, as int64 (n + 1,)."""
        cdef const Tokens* tokens = &self.state.tokens
        return tokens.bytes[: tokens.offsets[tokens.n]], np.array(<int64_t[: tokens.n + 1]>tokens.offsets)
