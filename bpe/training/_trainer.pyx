"""Plain training: the array of symbols, merging the best pair, and a recount when no tracked pair is left.

The parts, in the order in which data meets them: the array of symbols (`_symbol_array`), the tokens (`_token_table`),
counting all pairs (`_recount`), the table of tracked pairs (`_pair_table`), the priority queue (`_pair_heap`) and
merging one pair (`_pair_merge`). An epoch lasts from one recount to the next.

Counts are exact at every step; a new pair's count is complete when it first occurs and only falls afterwards, as the
queue needs it (`_loop.pyx`, which has the loop itself).
"""

import numpy as np

from bpe.base.threads import team_threads

from bpe.base._memory cimport check_allocated, grow_array
from bpe.base._pages cimport ask_for_huge_pages
from bpe.base._team cimport MAX_PARTS, Team, count_parts
from bpe.base._types cimport NO_TOKEN, byte_t, cell_t, count_t, token_t
from bpe.training._loop cimport BY_FIRST, MergeLoop
from bpe.training._pair_heap cimport Entry, heapify, push
from bpe.training._pair_merge cimport SPARE_CELLS, Pool, merge_pair
from bpe.training._pair_table cimport NO_PAIR, TrackedPair, TrackedPairs, find_pair, hash_pair
from bpe.training._recount cimport PAIR_BYTES, TALLY_BYTES, RecountPlan, recount
from bpe.training._symbol_array cimport SymbolArray, compact, id_t, widen, write_symbols
from bpe.training._token_table cimport Token
from libc.stdint cimport INT64_MAX, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport malloc


cdef class Trainer(MergeLoop):
    """The state of one training. Built by `bpe/training/trainer.py`, which checks everything first.

    The words' arrays are read by the constructor only: the caller may free them then. To extend a vocabulary, give the
    constructor all its tokens, and words that are encoded with it.
    """

    cdef RecountPlan plan
    cdef size_t wide_from_tokens      # token count at which cells become 32 bits wide
    cdef uint64_t expected_merges     # how many merges are to be learned in all, as far as is known
    cdef readonly Team team           # its helpers must be running whenever merges are made
    cdef size_t min_cells             # cells in a part
    cdef readonly size_t epochs       # recounts so far

    def __cinit__(self, words, initial, config, uint64_t expected_merges, tuning, *, bint track_all_pairs=False):
        """Write the symbols; the pairs are counted by the first `run`.

        Args:
            words: a `WordArrays` of `kernel_input.py`.
            initial: an `InitialTokens` of `kernel_input.py`: what the bytes spell, and the first tokens.
            config: a `TrainConfig`: the rules for the next merge.
            expected_merges: how many are to be learned in all; an estimate is enough.
            tuning: a `KernelTuning` of `kernel_input.py`: what changes the speed and the memory, never the result.
            track_all_pairs: track every pair, however rare, so that `apply` finds it.

        """
        self.begin_learning(initial, config)
        self.plan.track_all_pairs = track_all_pairs
        self.plan.floor = 1 if track_all_pairs else self.state.policy.threshold
        self.plan.ceiling = INT64_MAX
        self.plan.ratio = max(<count_t>tuning.ratio, 1)
        self.plan.max_dense_tokens = tuning.max_dense_tokens
        self.plan.may_grow = tuning.may_grow
        self.state.parallel_threshold = max(<size_t>tuning.parallel_threshold, <size_t>1)
        self.expected_merges = expected_merges
        self.wide_from_tokens = min(<size_t>tuning.wide_from_tokens, <size_t>0xFFFF)
        self.min_cells = max(<size_t>tuning.min_cells, <size_t>1)
        self.state.symbols.wide = self.state.tokens.n >= self.wide_from_tokens
        self.team = Team(count_parts(max(<int>tuning.threads, 1), words.n_symbols // self.min_cells))
        self.teams = (self.team,)
        with team_threads(self.team):
            write_symbols(
                &self.state.symbols, &self.state.tokens, words, initial, self.tie_break != BY_FIRST, self.team
            )
        self.take_memory(tuning.memory)

    cdef int take_memory(self, size_t memory) except -1:
        """Share out the memory for lists, table and queue; pages that are never written cost nothing.

        Five eighths are for lists, three for the table and the queue; the table of all pairs borrows at most a quarter.
        """
        cdef Pool* pool = &self.state.pool
        cdef size_t dense
        if memory == 0:
            memory = (16 if self.plan.track_all_pairs else 4) * self.state.symbols.n + (<size_t>32 << 20)
        pool.size = max(memory // 8 * 5 // sizeof(cell_t), <size_t>256)
        pool.max_list_size = pool.size // 2
        pool.max_pairs = max(memory // 8 * 3 // PAIR_BYTES, <size_t>16)
        dense = self.plan.max_dense_tokens
        while dense > 0 and TALLY_BYTES * dense * dense > memory // 4:
            dense //= 2
        self.plan.max_dense_tokens = dense
        pool.cells = <cell_t*>check_allocated(
            malloc((pool.size + MAX_PARTS * SPARE_CELLS) * sizeof(cell_t)), pool.size, b"positions of pairs"
        )
        ask_for_huge_pages(pool.cells, pool.size * sizeof(cell_t))
        pool.must_recount = True  # the first run counts the pairs
        return 0

    # Epochs -----------------------------------------------------------------------------------------------------------

    cdef int next_epoch(self) except -1 nogil:
        """Compact the symbols and count all pairs anew, for a lower threshold."""
        cdef SymbolArray* symbols = &self.state.symbols
        cdef TrackedPairs* pairs = &self.state.pairs
        cdef size_t i
        if self.epochs > 0:
            compact(symbols, self.state.tokens.width, self.state.tokens.n)
        if not symbols.wide and self.state.tokens.n >= self.wide_from_tokens:
            widen(symbols)
        self.epochs += 1
        self.plan.n_merges_left = self.expected_merges - self.n_learned if self.expected_merges > self.n_learned else 1
        recount(&self.state, &self.plan, self.team, count_parts(self.team.size, symbols.n // self.min_cells))
        self.heap.size = 0
        self.heap.entries = <Entry*>grow_array(self.heap.entries, &self.heap.capacity, pairs.n, sizeof(Entry))
        for i in range(pairs.n):
            self.heap.entries[i] = self.make_entry(<uint32_t>i)
        self.heap.size = pairs.n
        heapify(&self.heap)
        return 0

    cdef inline bint needs_recount(self) noexcept nogil:
        """Whether nothing can be merged before the next epoch."""
        return self.state.pool.must_recount or (
            self.state.tokens.n >= self.wide_from_tokens and not self.state.symbols.wide
        )

    cdef uint32_t pop_best_pair(self) except? 0xFFFFFFFF nogil:
        """Take the pair to merge next, after a recount where that is due; NO_PAIR where none is left."""
        cdef uint32_t pair_id
        while True:
            if self.needs_recount():
                self.plan.ceiling = INT64_MAX
                self.next_epoch()
            pair_id = MergeLoop.pop_best_pair(self)
            if pair_id != NO_PAIR or self.state.policy.threshold <= self.plan.floor:
                return pair_id
            self.plan.ceiling = self.state.policy.threshold - 1
            self.next_epoch()

    cdef bint has_rare_pairs(self) except -1 nogil:
        """Whether pairs below min_frequency are left."""
        if self.plan.floor == 1:
            return False
        if self.state.symbols.wide:
            return has_mergeable_pair(<const uint32_t*>self.state.symbols.cells, self)
        return has_mergeable_pair(<const uint16_t*>self.state.symbols.cells, self)

    # Merging ----------------------------------------------------------------------------------------------------------

    cdef bint is_reusable(self, token_t token, bint ends_word) noexcept nogil:
        """Whether a merge may make a token: not a special one, nor one with a mark where this one has letters.

        One that occurs already (length > 0) has the same bytes but other symbols: never the same token.
        """
        cdef const Token* existing = &self.state.tokens.items[token]
        return not existing.reserved and existing.length == 0 and existing.ends_word == ends_word

    cdef int merge(self, uint32_t pair_id, token_t token, count_t* removed) except -1 nogil:
        """Merge a pair, and enter the new pairs into the queue; `removed`: by how many tokens the corpus shrinks."""
        cdef TrackedPair pair = self.state.pairs.items[pair_id]
        cdef size_t i, first_new = self.state.pairs.n
        self.make_token(pair.left, pair.right, token)
        removed[0] = merge_pair(&self.state, pair_id, token, self.team)
        if not self.state.pool.must_recount:
            for i in range(first_new, self.state.pairs.n):
                push(&self.heap, self.make_entry(<uint32_t>i))
        return 0

    # In step with other trainers --------------------------------------------------------------------------------------

    def find_best_pair(self):
        """Find the pair that `run` would merge next: (left, right, count).

        None where there is none; then `stop_reason` is set.

        The trainer must have been made with track_all_pairs=True.
        """
        cdef uint32_t pair_id
        cdef TrackedPair pair
        while not self.stop_reason:
            with nogil:
                pair_id = self.pop_best_pair()
                if pair_id == NO_PAIR:
                    self.set_stop_reason()
                    break
                pair = self.state.pairs.items[pair_id]
                if self.approve_or_refuse(pair_id) == NO_TOKEN:
                    continue
                push(&self.heap, self.make_entry(pair_id))
            return pair.left, pair.right, pair.count
        return None

    def apply(self, token_t left, token_t right):
        """Merge a given pair, which need not occur; returns (token, by how many tokens the corpus shrank).

        The trainer must have been made with track_all_pairs=True. The tokens of trainers that apply the same pairs have
        the same numbers.
        """
        cdef uint32_t pair_id
        cdef token_t token = NO_TOKEN
        cdef count_t count = 0, removed = 0
        if not self.plan.track_all_pairs:
            raise ValueError("the trainer does not track every pair; it must, to merge pairs that are given")
        if left >= self.state.tokens.n or right >= self.state.tokens.n:
            raise ValueError(f"tokens {left} and {right} do not both exist; there are {self.state.tokens.n}")
        with nogil:
            if self.needs_recount():
                self.plan.ceiling = INT64_MAX
                self.next_epoch()
            token = self.find_result_token(left, right)
            if token != NO_TOKEN:
                pair_id = find_pair(&self.state.pairs, left, right, hash_pair(left, right))
                if pair_id != NO_PAIR and self.state.pairs.items[pair_id].count > 0:
                    count = self.state.pairs.items[pair_id].count
                    self.merge(pair_id, token, &removed)
                else:
                    self.make_token(left, right, token)
        if token == NO_TOKEN:
            raise ValueError(f"tokens {left} and {right} cannot be merged: their token exists, or must not be made")
        self.record_merge(left, right, token, count, removed)
        return token, removed

    def list_tokens(self):
        """List all tokens: (their bytes end to end, int64 offsets (n + 1,), whether each ends with the mark)."""
        cdef size_t i
        ends_word = np.empty(self.state.tokens.n, dtype=np.bool_)
        cdef byte_t[::1] flags = ends_word.view(np.uint8)
        for i in range(self.state.tokens.n):
            flags[i] = self.state.tokens.items[i].ends_word
        return self.read_all_tokens() + (ends_word,)


cdef bint has_mergeable_pair(const id_t* cells, Trainer trainer) except -1 nogil:
    """Whether any pair is left that could be merged, however rare; a veto by Python is not asked."""
    cdef size_t p = 1, q
    while p < trainer.state.symbols.n:
        q = p + 1
        if cells[p] != <id_t>NO_TOKEN:
            q = p + trainer.state.tokens.width[cells[p]]
            if cells[q] != <id_t>NO_TOKEN and trainer.is_allowed(cells[p], cells[q]):
                return True
        p = q
    return False
