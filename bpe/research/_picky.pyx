"""The loop of PickyBPE: merge the best pair, then delete a part of it that is hardly left, and split what is left.

Counts of pairs rise here where a token is split, and tokens shrink. So unlike `bpe/training/_trainer.pyx`, this kernel
tracks every pair, keeps two arrays of cells, and never compacts them:

    first_cells  | - | lo  -  w  | - | lo  -  w  e  r | -     the token whose first cell this is, or NONE
    last_cells   | - | -   lo w  | - | -   lo w  e  r | -     the token whose last cell this is, or NONE

A position in a list is of a token exactly if `first_cells` has the token there; one that is stale now may be right
again after a split, and one may be in a list twice. A list with positions out of order is sorted before it is used, so
that merges go from left to right.

Each event, a merge or a split at one position, changes the counts at once. The loop and its queue are those of plain
training (`bpe/training/_loop.pyx`); a pair whose count rose is pushed again.

Cost: a few lookups of pairs for each occurrence that is merged or split, and some 5 bytes for each position in a list.
`picky.py` says what is deleted and why; docs/decisions.md, what prefetching and nodes of three positions gain.
"""

import numpy as np

from bpe.base._memory cimport check_allocated, grow_array, prefetch
from bpe.base._team cimport Team
from bpe.base._types cimport NO_TOKEN, byte_t, cell_t, count_t, token_t
from bpe.training._loop cimport MergeLoop
from bpe.training._pair_heap cimport push
from bpe.training._pair_table cimport NO_PAIR, TrackedPair, add_pair, find_pair, hash_pair, subtract_pair_count
from bpe.training._symbol_array cimport find_count_class, write_symbols
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy

cdef enum:
    POSITIONS_PER_NODE = 3
    PREFETCH_DISTANCE = 16    # positions whose cells are prefetched before they are merged

cdef struct Node:             # some positions of a list
    cell_t positions[3]       # POSITIONS_PER_NODE
    uint32_t next             # the number of the next node, 0 at the end

cdef struct PositionList:     # a list in the order in which positions were added
    uint32_t first            # the numbers of its nodes
    uint32_t last
    size_t n

cdef struct PairState:        # what else is known of a pair
    PositionList positions
    bint has_risen            # its count rose in the present step

cdef struct TokenState:       # what else is known of a token
    PositionList positions    # of tokens that a merge makes
    count_t count             # its occurrences
    token_t left              # the parts of its first merge, or NO_TOKEN for a token that no merge makes
    token_t right
    bint deleted


cdef int compare_positions(const void* a, const void* b) noexcept nogil:
    return (<const cell_t*>a)[0] > (<const cell_t*>b)[0] or -((<const cell_t*>a)[0] < (<const cell_t*>b)[0])


cdef class PickyTrainer(MergeLoop):
    """The state of one training, which `bpe/training/trainer.py` drives as it does a `Trainer`."""

    cdef token_t* first_cells         # the cells of `state.symbols`
    cdef token_t* last_cells
    cdef TokenState* token_states     # by token
    cdef size_t token_states_capacity
    cdef PairState* pair_states       # by pair
    cdef size_t pair_states_capacity
    cdef uint32_t* risen_pairs        # pairs whose count rose in the present step
    cdef size_t n_risen
    cdef size_t risen_capacity
    cdef Node* nodes                  # the nodes of all lists; node 0 is not used
    cdef size_t n_nodes
    cdef size_t nodes_capacity
    cdef uint32_t free_node           # the first of a list of nodes that are free
    cdef cell_t* work_positions       # the positions of the pair or token at work, ascending
    cdef size_t work_capacity
    cdef token_t* parts               # the parts of the token at work, in its split
    cdef size_t parts_capacity
    cdef double threshold             # a part of a merge is deleted from this share of its occurrences on
    cdef bytearray deletion_rows      # rows of int64: the number of the merge before it, the token

    def __dealloc__(self):
        free(self.last_cells)
        free(self.token_states)
        free(self.pair_states)
        free(self.risen_pairs)
        free(self.nodes)
        free(self.work_positions)
        free(self.parts)

    def __cinit__(self, words, initial, config, double threshold):
        """Write the symbols, and count all pairs.

        Args:
            words: a `WordArrays` of `kernel_input.py`.
            initial: an `InitialTokens` of `kernel_input.py`.
            config: a `TrainConfig` without an end-of-word mark.
            threshold: a part of a merge is deleted from this share of its occurrences on.

        """
        cdef size_t i, n
        self.begin_learning(initial, config)
        self.threshold, self.n_nodes, self.deletion_rows = threshold, 1, bytearray()
        self.state.symbols.wide = True
        write_symbols(&self.state.symbols, &self.state.tokens, words, initial, True, Team(1))
        self.first_cells = <token_t*>self.state.symbols.cells
        n = self.state.symbols.n
        self.last_cells = <token_t*>check_allocated(malloc(n * sizeof(token_t)), n, b"symbols")
        memcpy(self.last_cells, self.first_cells, n * sizeof(token_t))
        for i in range(self.state.tokens.n):
            self.add_state(<token_t>i, NO_TOKEN, NO_TOKEN)
        with nogil:
            self.count_pairs()

    cdef int count_pairs(self) except -1 nogil:
        cdef size_t p, count_class = 0
        cdef token_t token
        cdef count_t count
        for p in range(1, self.state.symbols.n):
            token = self.first_cells[p]
            if token == NO_TOKEN:
                continue
            count_class = find_count_class(&self.state.symbols, <cell_t>p, count_class)
            count = self.state.symbols.counts[count_class]
            self.token_states[token].count += count
            if self.first_cells[p + 1] != NO_TOKEN:
                self.add_pair_at(token, self.first_cells[p + 1], count, p)
        return self.push_risen()

    # Lists ------------------------------------------------------------------------------------------------------------

    cdef int append_position(self, PositionList* positions, size_t position) except -1 nogil:
        """Append a position to a list, which lies in memory that this does not move."""
        cdef uint32_t node = positions.last
        cdef size_t index = positions.n % POSITIONS_PER_NODE
        if index == 0:
            node = self.free_node
            if node:
                self.free_node = self.nodes[node].next
            else:
                if self.n_nodes >= <size_t>0xFFFFFFFF:
                    with gil:
                        raise ValueError("the corpus has too many positions of pairs; train on less text")
                self.nodes = <Node*>grow_array(self.nodes, &self.nodes_capacity, self.n_nodes + 1, sizeof(Node))
                node = <uint32_t>self.n_nodes
                self.n_nodes += 1
            self.nodes[node].next = 0
            if positions.n:
                self.nodes[positions.last].next = node
            else:
                positions.first = node
            positions.last = node
        self.nodes[node].positions[index] = <cell_t>position
        positions.n += 1
        return 0

    cdef size_t take_positions(self, PositionList* positions) except? 0xFFFFFFFF nogil:
        """Move a list to `work_positions`, in ascending order; returns its length."""
        cdef uint32_t node = positions.first
        cdef size_t n = 0, total = positions.n
        cdef bint ascending = True
        if total == 0:
            return 0
        self.work_positions = <cell_t*>grow_array(self.work_positions, &self.work_capacity, total, sizeof(cell_t))
        while n < total:
            self.work_positions[n] = self.nodes[node].positions[n % POSITIONS_PER_NODE]
            ascending = ascending and (n == 0 or self.work_positions[n - 1] <= self.work_positions[n])
            n += 1
            if n % POSITIONS_PER_NODE == 0:
                node = self.nodes[node].next
        self.nodes[positions.last].next = self.free_node
        self.free_node = positions.first
        positions.first = positions.last = positions.n = 0
        if not ascending:
            qsort(self.work_positions, n, sizeof(cell_t), compare_positions)
        return n

    # Pairs ------------------------------------------------------------------------------------------------------------

    cdef int add_pair_at(self, token_t left, token_t right, count_t count, size_t position) except -1 nogil:
        """Add occurrences of a pair at a position."""
        cdef uint64_t pair_hash = hash_pair(left, right)
        cdef uint32_t pair_id = NO_PAIR
        cdef PairState* state
        if self.state.pairs.n_slots:
            pair_id = find_pair(&self.state.pairs, left, right, pair_hash)
        if pair_id == NO_PAIR:
            pair_id = add_pair(&self.state.pairs, left, right, pair_hash)
            self.pair_states = <PairState*>grow_array(
                self.pair_states, &self.pair_states_capacity, self.state.pairs.n, sizeof(PairState)
            )
            self.pair_states[pair_id] = PairState(positions=PositionList(first=0, last=0, n=0), has_risen=False)
        state = &self.pair_states[pair_id]
        self.state.pairs.items[pair_id].count += count
        self.append_position(&state.positions, position)
        if not state.has_risen:
            state.has_risen = True
            self.risen_pairs = <uint32_t*>grow_array(
                self.risen_pairs, &self.risen_capacity, self.n_risen + 1, sizeof(uint32_t)
            )
            self.risen_pairs[self.n_risen] = pair_id
            self.n_risen += 1
        return 0

    cdef int push_risen(self) except -1 nogil:
        """Enter the pairs whose counts rose into the queue."""
        cdef size_t i
        for i in range(self.n_risen):
            self.pair_states[self.risen_pairs[i]].has_risen = False
            if self.state.pairs.items[self.risen_pairs[i]].count >= self.state.policy.threshold:
                push(&self.heap, self.make_entry(self.risen_pairs[i]))
        self.n_risen = 0
        return 0

    cdef bint has_rare_pairs(self) except -1 nogil:
        """Whether pairs below min_frequency are left."""
        cdef TrackedPair pair
        for pair in self.state.pairs.items[: self.state.pairs.n]:
            if pair.count > 0 and self.is_allowed(pair.left, pair.right):
                return True
        return False

    # Tokens -----------------------------------------------------------------------------------------------------------

    cdef int add_state(self, token_t token, token_t left, token_t right) except -1 nogil:
        """Add the state of a new token, which is the last one."""
        self.token_states = <TokenState*>grow_array(
            self.token_states, &self.token_states_capacity, <size_t>token + 1, sizeof(TokenState)
        )
        self.token_states[token] = TokenState(
            positions=PositionList(first=0, last=0, n=0), count=0, left=left, right=right, deleted=False
        )
        return 0

    cdef bint is_reusable(self, token_t token, bint ends_word) noexcept nogil:
        """Whether a merge has made a token, so that another one may make it again."""
        return self.token_states[token].left != NO_TOKEN

    # Merging and splitting --------------------------------------------------------------------------------------------

    cdef int merge_at(self, size_t p, token_t a, token_t b, token_t c, count_t count) except -1 nogil:
        """Make the tokens a and b at a position the token c."""
        cdef size_t middle = p + self.state.tokens.width[a], end = middle + self.state.tokens.width[b]
        cdef token_t left = self.last_cells[p - 1], right = self.first_cells[end]
        subtract_pair_count(&self.state.pairs, a, b, count)
        if left != NO_TOKEN:
            subtract_pair_count(&self.state.pairs, left, a, count)
            self.add_pair_at(left, c, count, p - self.state.tokens.width[left])
        if right != NO_TOKEN:
            subtract_pair_count(&self.state.pairs, b, right, count)
            self.add_pair_at(c, right, count, p)
        self.first_cells[middle] = self.last_cells[middle - 1] = NO_TOKEN
        self.first_cells[p] = self.last_cells[end - 1] = c
        return self.append_position(&self.token_states[c].positions, p)

    cdef count_t merge_everywhere(self, uint32_t pair_id, token_t c) except -1 nogil:
        """Merge a pair wherever it is, from left to right; returns how many occurrences of c that makes."""
        cdef token_t a = self.state.pairs.items[pair_id].left, b = self.state.pairs.items[pair_id].right
        cdef size_t i, p, count_class = 0, n = self.take_positions(&self.pair_states[pair_id].positions)
        cdef count_t n_merged = 0, count
        for i in range(n):
            p = self.work_positions[min(i + PREFETCH_DISTANCE, n - 1)]
            prefetch(&self.first_cells[p])
            prefetch(&self.last_cells[p - 1])
            p = self.work_positions[i]
            if self.first_cells[p] == a and self.first_cells[p + self.state.tokens.width[a]] == b:
                count_class = find_count_class(&self.state.symbols, <cell_t>p, count_class)
                count = self.state.symbols.counts[count_class]
                self.merge_at(p, a, b, c, count)
                n_merged += count
        self.token_states[a].count -= n_merged
        self.token_states[b].count -= n_merged
        self.token_states[c].count += n_merged
        return n_merged

    cdef size_t find_parts(self, token_t token) except 0 nogil:
        """Write the tokens of the vocabulary that a deleted one is split into to `parts`; returns their number.

        They are the parts of its first merge; those that are deleted, too, are split likewise.
        """
        cdef size_t n = 0, n_stacked = 1, capacity = self.state.tokens.width[token]
        self.parts = <token_t*>grow_array(self.parts, &self.parts_capacity, 2 * capacity + 1, sizeof(token_t))
        cdef token_t* stack = self.parts + capacity            # never more than the cells that are left to write
        stack[0] = token
        while n_stacked:
            n_stacked -= 1
            token = stack[n_stacked]
            if self.token_states[token].deleted:
                stack[n_stacked] = self.token_states[token].right
                stack[n_stacked + 1] = self.token_states[token].left
                n_stacked += 2
            else:
                self.parts[n] = token
                n += 1
        return n

    cdef int split_at(self, size_t p, token_t token, size_t n, count_t count) except -1 nogil:
        """Split a token at a position into the first n of `parts`."""
        cdef size_t i, end = p + self.state.tokens.width[token]
        cdef token_t left = self.last_cells[p - 1], right = self.first_cells[end], part
        if left != NO_TOKEN:
            subtract_pair_count(&self.state.pairs, left, token, count)
        if right != NO_TOKEN:
            subtract_pair_count(&self.state.pairs, token, right, count)
        for i in range(n):
            part = self.parts[i]
            self.first_cells[p] = part
            if left != NO_TOKEN:
                self.add_pair_at(left, part, count, p - self.state.tokens.width[left])
            if self.token_states[part].left != NO_TOKEN:
                self.append_position(&self.token_states[part].positions, p)
            p += self.state.tokens.width[part]
            self.last_cells[p - 1] = part
            left = part
        if right != NO_TOKEN:
            self.add_pair_at(left, right, count, p - self.state.tokens.width[left])
        return 0

    cdef count_t delete_if_used_up(self, token_t token, count_t n_merged) except -1 nogil:
        """Delete a token if the merge took enough of it; returns by how many tokens the corpus becomes longer."""
        cdef TokenState* state = &self.token_states[token]
        cdef size_t i, n, count_class = 0, n_parts
        cdef count_t count, n_added
        cdef count_t[2] row
        if state.left == NO_TOKEN or <double>n_merged / <double>(n_merged + state.count) < self.threshold:
            return 0
        state.deleted = True
        self.n_deleted += 1
        row = [<count_t>self.n_learned, token]
        with gil:
            self.deletion_rows += (<char*>row)[: sizeof(row)]
        n = self.take_positions(&state.positions)
        n_parts = self.find_parts(token)
        for i in range(n):
            if self.first_cells[self.work_positions[i]] == token:
                count_class = find_count_class(&self.state.symbols, self.work_positions[i], count_class)
                self.split_at(self.work_positions[i], token, n_parts, self.state.symbols.counts[count_class])
        count = state.count
        n_added = count * <count_t>(n_parts - 1)
        state.count = 0
        for i in range(n_parts):
            self.token_states[self.parts[i]].count += count
        return n_added

    cdef int merge(self, uint32_t pair_id, token_t token, count_t* removed) except -1 nogil:
        """Merge a pair, and delete its parts that are used up; `removed`: by how many tokens the corpus shrinks."""
        cdef TrackedPair pair = self.state.pairs.items[pair_id]
        cdef uint32_t* width
        cdef count_t n_merged
        if token == self.state.tokens.n:
            self.make_token(pair.left, pair.right, token)
            width = self.state.tokens.width
            width[token] = width[pair.left] + width[pair.right]
            self.add_state(token, pair.left, pair.right)
        elif self.token_states[token].deleted:
            self.token_states[token].deleted = False
            self.n_deleted -= 1
        n_merged = self.merge_everywhere(pair_id, token)
        removed[0] = n_merged - self.delete_if_used_up(pair.left, n_merged)
        if pair.right != pair.left:
            removed[0] -= self.delete_if_used_up(pair.right, n_merged)
        return self.push_risen()

    # For Python -------------------------------------------------------------------------------------------------------

    def list_deletions(self):
        """List all deletions in order: int64 (n, 2), each the number of the merge that it follows, and the token."""
        return np.frombuffer(bytes(self.deletion_rows), dtype=np.int64).reshape(-1, 2)

    def list_tokens_and_deleted(self):
        """List all tokens: (their bytes end to end, int64 offsets (n + 1,), whether each is deleted)."""
        cdef size_t i
        is_deleted = np.empty(self.state.tokens.n, dtype=np.bool_)
        cdef byte_t[::1] flags = is_deleted.view(np.uint8)
        for i in range(self.state.tokens.n):
            flags[i] = self.token_states[i].deleted
        return self.read_all_tokens() + (is_deleted,)
