"""The loop of training: the best pair from the queue, its token, its merge, and a recount when no tracked pair is left.

The parts, in the order in which data meets them: the array of symbols (`_symbol_array`), the tokens (`_token_table`),
counting all pairs (`_recount`), the table of tracked pairs (`_pair_table`), the priority queue (`_pair_heap`) and
merging one pair (`_pair_merge`). An epoch lasts from one recount to the next.

Counts are exact at every step; a new pair's count is complete when it first occurs and only falls afterwards. So the
queue may be lazy: a popped entry with the right count is the best pair, and one that is out of date goes back with its
present count. That is exact for every tie rule; under `first`, a pair's first position moves only when its count falls.

Not here: counting words, alphabets, what ids and options mean (`bpe/training/trainer.py`).
"""

import numpy as np

from bpe.base._memory cimport grown
from bpe.base._pages cimport ask_for_huge_pages
from bpe.base._team cimport MOST_PARTS, Team, parts_worth
from bpe.base._types cimport NO_TOKEN, byte_t, cell_t, count_t, token_t
from bpe.training._loop cimport (
    BY_FIRST, NO_PAIRS, RARE, Compared, TieBreak, set_order, spelled_token, spelled_tokens,
)
from bpe.training._pair_heap cimport Entry, Heap, heapify, pop, push
from bpe.training._pair_merge cimport (
    SPARE, Pool, TrainingState, first_position, free_state, merge_pair,
)
from bpe.training._pair_table cimport NO_PAIR, TrackedPair, TrackedPairs, add_pair, find_pair, has_pair, pair_hash
from bpe.training._recount cimport Plan, recount
from bpe.training._spelling_rules cimport SpellingRules, breaks_rules, set_rules
from bpe.training._symbol_array cimport Symbols, compact, id_t, widen, write_symbols
from bpe.training._token_table cimport Token, Tokens, add_token, joined, token_named
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc


cdef class Trainer:
    """The state of one training. Built by `bpe/training/trainer.py`, which checks everything first.

    The words' arrays are read by the constructor only: the caller may free them then. To extend a vocabulary, give the
    constructor all its tokens, and words that are encoded with it.
    """

    cdef TrainingState state
    cdef Plan plan
    cdef Heap heap
    cdef Compared compared
    cdef TieBreak tie_break
    cdef SpellingRules rules
    cdef bytes forbidden              # the memory of `rules.strings`
    cdef bytes scripts                # and of `rules.scripts`
    cdef object veto                  # called as veto(left, right, count), or None
    cdef bint has_veto                # whether it is not None
    cdef size_t mark_size             # bytes of the end-of-word mark, which the rules do not see
    cdef size_t narrow                # from so many tokens on, cells are 32 bits wide
    cdef uint64_t goal                # how many merges are to be learned in all, as far as is known
    cdef bytearray learned            # rows of int64: left, right, token, count, by how many tokens the corpus shrank
    cdef size_t n_learned
    cdef readonly Team team           # its helpers must be running whenever merges are made
    cdef readonly tuple teams         # (team,)
    cdef size_t least                 # cells in a part
    cdef readonly int stop
    cdef readonly size_t epochs       # recounts so far

    def __dealloc__(self):
        free_state(&self.state)
        free(self.heap.entries)

    def __init__(self, words, start, rule, uint64_t merges, *, size_t memory=0, bint strict=False, tuning):
        """Write the symbols; the pairs are counted by the first `run`.

        Args:
            words: a `Words` of `words.py`: `blob`, the words' bytes; `offsets` (n + 1,) in it; `counts` (n,); `order`.
            start: a `Start` of `kernel_input.py`: what the bytes spell, and the first tokens.
            rule: a `NextMerge` of `kernel_input.py`: `tie_break` is a TieBreak.
            merges: how many are to be learned in all; an estimate is enough.
            memory: bytes for lists, table and queue; 0 chooses by the size of the corpus.
            strict: never take more than these.
            tuning: a `Tuning` of `kernel_input.py`.

        """
        self.tie_break = <TieBreak><int>rule.tie_break
        self.plan.every = rule.every
        self.plan.floor = 1 if rule.every else max(<count_t>rule.min_frequency, 1)
        self.plan.ceiling = INT64_MAX
        self.plan.ratio = max(<count_t>tuning.ratio, 1)
        self.plan.dense = tuning.dense
        self.plan.growing = not strict
        self.state.policy.max_length = rule.max_length
        self.state.policy.disjoint = rule.disjoint
        self.forbidden, self.scripts, self.mark_size = b"".join(rule.forbidden), rule.scripts, rule.mark_size
        set_rules(&self.rules, rule, self.forbidden, self.scripts)
        self.veto, self.has_veto = rule.veto, rule.veto is not None
        self.learned = bytearray()
        self.state.long_list = max(<size_t>tuning.long_list, <size_t>1)
        self.goal = merges
        self.narrow = min(<size_t>tuning.narrow, <size_t>0xFFFF)
        self.least = max(<size_t>tuning.least, <size_t>1)
        for token, ends_word, reserved, length in start.tokens:
            add_token(&self.state.tokens, token, len(token), ends_word, reserved, length)
        self.state.symbols.wide = self.state.tokens.n >= self.narrow
        write_symbols(&self.state.symbols, &self.state.tokens, words, start, self.tie_break != BY_FIRST)
        self.take_memory(memory)
        self.team = Team(parts_worth(max(<int>tuning.threads, 1), self.state.symbols.n // self.least))
        self.teams = (self.team,)
        set_order(&self.heap, &self.compared, &self.state.tokens, &self.state.pairs, self.tie_break)

    cdef int take_memory(self, size_t memory) except -1:
        """Share out the memory for lists, table and queue; pages that are never written cost nothing."""
        cdef Pool* pool = &self.state.pool
        if memory == 0:
            memory = (16 if self.plan.every else 4) * self.state.symbols.n + (<size_t>32 << 20)
        pool.size = max(memory // 8 * 5 // sizeof(cell_t), <size_t>256)
        pool.longest = pool.size // 2
        pool.most_pairs = max(memory // 8 * 3 // 88, <size_t>16)
        while self.plan.dense > 0 and 16 * self.plan.dense * self.plan.dense > memory // 4:
            self.plan.dense //= 2
        pool.cells = <cell_t*>malloc((pool.size + MOST_PARTS * SPARE) * sizeof(cell_t))
        if pool.cells == NULL:
            raise MemoryError(f"no memory for {pool.size} positions of pairs; train on less text at once")
        ask_for_huge_pages(pool.cells, pool.size * sizeof(cell_t))
        pool.full = True
        return 0

    # Epochs -----------------------------------------------------------------------------------------------------------

    cdef int next_epoch(self) except -1 nogil:
        """Compact the symbols and count all pairs anew, for a lower threshold."""
        cdef Symbols* symbols = &self.state.symbols
        cdef TrackedPairs* pairs = &self.state.pairs
        cdef size_t i
        if self.epochs > 0:
            compact(symbols, self.state.tokens.width, self.state.tokens.n, self.team, self.parts())
        if not symbols.wide and self.state.tokens.n >= self.narrow:
            widen(symbols)
        self.epochs += 1
        self.plan.merges = self.goal - self.n_learned if self.goal > self.n_learned else 1
        recount(&self.state, &self.plan, self.team, self.parts())
        self.heap.size = 0
        self.heap.entries = <Entry*>grown(self.heap.entries, &self.heap.room, pairs.n, sizeof(Entry))
        for i in range(pairs.n):
            self.heap.entries[i] = self.entry_of(<uint32_t>i)
        self.heap.size = pairs.n
        heapify(&self.heap)
        return 0

    cdef inline int parts(self) noexcept nogil:
        """How many parts to divide a walk over all symbols into."""
        return parts_worth(self.team.size, self.state.symbols.n // self.least)

    cdef inline bint is_over(self) noexcept nogil:
        """Whether nothing can be merged before the next epoch."""
        return self.state.pool.full or (self.state.tokens.n >= self.narrow and not self.state.symbols.wide)

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

    cdef uint32_t best_pair(self) except? 0xFFFFFFFF nogil:
        """The pair to merge next; NO_PAIR where none is left, and `stop` says why."""
        cdef Entry entry, now
        cdef count_t count
        while True:
            if self.is_over():
                self.plan.ceiling = INT64_MAX
                self.next_epoch()
            while self.heap.size > 0:
                entry = pop(&self.heap)
                count = self.state.pairs.items[entry.pair].count
                if count < self.state.policy.threshold:
                    continue                           # merged already, or for a later epoch
                now = self.entry_of(entry.pair)
                if now.count == entry.count and now.key == entry.key:
                    return entry.pair
                push(&self.heap, now)
            if self.state.policy.threshold <= self.plan.floor:
                self.stop = RARE if self.any_left() else NO_PAIRS
                return NO_PAIR
            self.plan.ceiling = self.state.policy.threshold - 1
            self.next_epoch()

    cdef bint any_left(self) except -1 nogil:
        """Whether pairs below min_frequency are left."""
        if self.plan.floor == 1:
            return False
        if self.state.symbols.wide:
            return any_pair(<const uint32_t*>self.state.symbols.cells, self)
        return any_pair(<const uint16_t*>self.state.symbols.cells, self)

    # Merging ----------------------------------------------------------------------------------------------------------

    cdef token_t token_of(self, token_t left, token_t right) except? 0xFFFFFFFF nogil:
        """The token of a merge result: an existing id, `tokens.n` for a new token, NO_TOKEN if it must not be made.

        The merge result must not be longer than `max_length` symbols, nor spell a special token, nor what another token
        spells with a mark where this one has letters; and the rules must allow it.
        """
        cdef Tokens* tokens = &self.state.tokens
        cdef Token first = tokens.items[left], second = tokens.items[right]
        cdef uint64_t size = <uint64_t>first.size + second.size
        cdef const byte_t* text
        cdef token_t known
        cdef Token* named
        if <uint64_t>first.length + second.length > self.state.policy.max_length or size > <uint64_t>0xFFFFFFFF:
            return NO_TOKEN
        text = joined(tokens, left, right)
        known = token_named(tokens, text, size)
        if breaks_rules(&self.rules, text, first.size, size - (self.mark_size if second.ends_word else 0)):
            return NO_TOKEN
        if known == NO_TOKEN:
            return <token_t>tokens.n
        named = &tokens.items[known]
        # One that occurs already (length > 0) has the same bytes but other symbols: never the same token.
        return NO_TOKEN if named.reserved or named.length > 0 or named.ends_word != second.ends_word else known

    cdef token_t allowed_token(self, uint32_t number) except? 0xFFFFFFFF nogil:
        """The token of a pair as `token_of` gives it, unless the veto by Python refuses it.

        NO_TOKEN if the pair must not be merged; then it is not offered again, in this epoch or another.
        """
        cdef TrackedPair pair = self.state.pairs.items[number]
        cdef token_t token = self.token_of(pair.left, pair.right)
        if token != NO_TOKEN and self.has_veto:
            with gil:
                if self.veto(self.spelled(pair.left), self.spelled(pair.right), pair.count):
                    token = NO_TOKEN
        if token == NO_TOKEN:
            self.state.pairs.items[number].count = 0
            self.refuse(pair.left, pair.right)
        return token

    cdef int refuse(self, token_t left, token_t right) except -1 nogil:
        add_pair(&self.state.refused, left, right, pair_hash(left, right))
        return 0

    cdef int make_token(self, token_t left, token_t right, token_t token) except -1 nogil:
        """Give a merge result its length, after adding it if it is new."""
        cdef Tokens* tokens = &self.state.tokens
        cdef Token first = tokens.items[left], second = tokens.items[right]
        cdef uint32_t length = first.length + second.length
        if token == tokens.n:
            add_token(
                tokens, joined(tokens, left, right), <size_t>first.size + second.size, second.ends_word, False, length
            )
        else:
            tokens.items[token].length = length
        return 0

    cdef count_t merge(self, uint32_t number, token_t token) except? -1 nogil:
        """Merge a pair, and enter the new pairs into the queue; returns by how many tokens the corpus gets shorter."""
        cdef TrackedPair pair = self.state.pairs.items[number]
        cdef size_t i = self.state.pairs.n
        cdef count_t removed
        self.make_token(pair.left, pair.right, token)
        removed = merge_pair(&self.state, number, token, self.team)
        if not self.state.pool.full:
            for i in range(i, self.state.pairs.n):
                push(&self.heap, self.entry_of(<uint32_t>i))
        return removed

    cdef tuple record(self, token_t left, token_t right, token_t token, count_t count, count_t removed):
        """Record a merge; returns the row of `run`."""
        cdef count_t[5] row = [left, right, token, count, removed]
        self.learned += (<char*>row)[: sizeof(row)]
        self.n_learned += 1
        return left, right, token, count

    def run(self, size_t most, size_t most_tokens):
        """Learn up to `most` merges while there are fewer than `most_tokens` tokens.

        Returns:
            A list of (left, right, token, count); shorter than `most` where `stop` is set or the tokens are enough.

        """
        cdef uint32_t number
        cdef token_t token
        cdef TrackedPair pair
        cdef count_t removed = 0
        merges = []
        while <size_t>len(merges) < most and self.state.tokens.n < most_tokens and not self.stop:
            PyErr_CheckSignals()                       # with many pieces, the first merges take seconds
            with nogil:
                number = self.best_pair()
                token = NO_TOKEN
                if number != NO_PAIR:
                    pair = self.state.pairs.items[number]
                    token = self.allowed_token(number)
                    if token != NO_TOKEN:
                        removed = self.merge(number, token)
            if token != NO_TOKEN:
                merges.append(self.record(pair.left, pair.right, token, pair.count, removed))
        return merges

    # In step with other trainers --------------------------------------------------------------------------------------

    def best(self):
        """The pair that `run` would merge next, as (left, right, count); None where there is none, and `stop` is set.

        For a trainer of every pair.
        """
        cdef uint32_t number
        cdef TrackedPair pair
        while not self.stop:
            with nogil:
                number = self.best_pair()
                if number == NO_PAIR:
                    break
                pair = self.state.pairs.items[number]
                if self.allowed_token(number) == NO_TOKEN:
                    continue
                push(&self.heap, self.entry_of(number))
            return pair.left, pair.right, pair.count
        return None

    def apply(self, token_t left, token_t right):
        """Merge a given pair, which need not occur; returns (token, by how many tokens the corpus became shorter).

        For a trainer of every pair. The tokens of trainers that apply the same pairs have the same numbers.
        """
        cdef uint32_t number
        cdef token_t token = NO_TOKEN
        cdef count_t count = 0, removed = 0
        if not self.plan.every:
            raise ValueError("the trainer does not track every pair; it must, to merge pairs that are given")
        if left >= self.state.tokens.n or right >= self.state.tokens.n:
            raise ValueError(f"tokens {left} and {right} do not both exist; there are {self.state.tokens.n}")
        with nogil:
            if self.is_over():
                self.plan.ceiling = INT64_MAX
                self.next_epoch()
            token = self.token_of(left, right)
            if token != NO_TOKEN:
                number = find_pair(&self.state.pairs, left, right, pair_hash(left, right))
                if number != NO_PAIR and self.state.pairs.items[number].count > 0:
                    count = self.state.pairs.items[number].count
                    removed = self.merge(number, token)
                else:
                    self.make_token(left, right, token)
        if token == NO_TOKEN:
            raise ValueError(f"tokens {left} and {right} cannot be merged: their token exists, or must not be made")
        self.record(left, right, token, count, removed)
        return token, removed

    @property
    def n_tokens(self):
        """How many tokens there are."""
        return self.state.tokens.n

    def spelled(self, size_t token):
        """The bytes of a token."""
        return spelled_token(&self.state.tokens, token)

    def merges(self):
        """All merges learned: int64 (n, 4), each left, right, token, count."""
        return np.ascontiguousarray(self.rows()[:, :4])

    def removed(self):
        """By how many tokens each merge made the corpus shorter: int64 (n,)."""
        return self.rows()[:, 4]

    cdef object rows(self):
        return np.frombuffer(bytes(self.learned), dtype=np.int64).reshape(-1, 5)

    def vocabulary(self):
        """All tokens: (their bytes end to end, int64 offsets (n + 1,), whether each ends with the mark)."""
        ends_word = [token.ends_word for token in self.state.tokens.items[: self.state.tokens.n]]
        return *spelled_tokens(&self.state.tokens), np.array(ends_word, dtype=np.bool_)


cdef bint any_pair(const id_t* cells, Trainer trainer) except -1 nogil:
    """Whether any pair is left that could be merged, however rare; a veto by Python is not asked."""
    cdef size_t p = 1, q
    cdef TrainingState* state = &trainer.state
    while p < state.symbols.n:
        q = p + 1
        if cells[p] != <id_t>NO_TOKEN:
            q = p + state.tokens.width[cells[p]]
            if cells[q] != <id_t>NO_TOKEN and not has_pair(&state.refused, cells[p], cells[q]):
                if trainer.token_of(cells[p], cells[q]) != NO_TOKEN:
                    return True
        p = q
    return False
