"""Merging one pair: every occurrence of (a, b) becomes the token c, from left to right, and all counts stay exact.

Merging at p writes three cells:

        p        q = p + width(a)               p
    | a . . a | b . b |          becomes    | c . . . x . c |      x: the first cell of b is NONE now

A list holds the first cells of a pair's occurrences, ascending. An entry goes stale when another merge takes one of the
two tokens, and the cells show it: a stale position no longer starts an `a` with a `b` after it, since a token that grew
has another id, and the first cell of a token that became a right part is NONE (or holds the id of a token that is wider
than any that began there). So `aaaa` merges at 0 and 2: the occurrence at 1 is gone when it is reached.

Each occurrence loses its pair with the left neighbour and its pair with the right one, and gains two. Where two
occurrences touch, as in `abab`, one pair between them is lost, (b, a), and one is gained, (c, c). It is counted with
the second occurrence only.

The list is walked twice. The first walk merges and adds up by neighbour what is lost and gained, so that the table of
pairs is read once per distinct neighbour and not once per occurrence; a new pair's count is complete then. The second
walk writes the lists of the new pairs that are tracked, and is left out where there is none.

Without overlap, a further walk between the two counts the pairs of equal tokens for which that differs
(`count_overlaps`): in `aaab`, (a, a) occurs once before and after (a, b) is merged. The lists stay the same.

A long list is divided at word starts and walked by several threads: occurrences in different words are independent.
Each thread adds up by itself; the sums are added in the order of the parts, and the new lists are in that order, too.

Two merges never make tokens that spell the same string: before a string becomes one token, no merge has crossed its
ends, so the merges inside depend on the string alone and are the same wherever it occurs.

Cost: linear in the pair's occurrences, or in all cells for a pair without a list.
"""

from bpe.base._binary_search cimport lower_bound
from bpe.base._memory cimport check_allocated, prefetch
from bpe.base._team cimport MAX_PARTS, Team, count_parts
from bpe.base._types cimport NO_TOKEN, cell_t, count_t, token_t
from bpe.training._pair_table cimport (
    NO_LIST, TrackedPair, TrackedPairs, add_pair, free_pairs, hash_pair, prefetch_pair, subtract_pair_count,
)
from bpe.training._symbol_array cimport N_ANCHORS, SymbolArray, find_count_class, free_symbols, id_t
from bpe.training._token_table cimport Tokens, free_tokens
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef enum:
    LEFT = 0
    RIGHT = 1
    CHAIN = 2
    PREFETCH_DISTANCE = 24    # how many positions and pairs are prefetched before they are used
    CHUNK_POSITIONS = 4096    # positions found at once for a pair without a list

cdef struct Merge:            # the pair (a, b) becomes c
    token_t a
    token_t b
    token_t c
    uint32_t width_a
    uint32_t width
    size_t merged_until       # where the last occurrence that was merged ends
    size_t count_class        # the class of that occurrence
    bint is_last_pair_counted  # without overlaps: whether the last pair (c, c) of the present run of c counts

cdef struct MergeWalk:        # a merge at all occurrences of a pair, done in parts
    TrainingState* state
    Merge merge
    bint writes_lists         # this is the second walk
    cell_t* positions         # of the pair, or NULL where it has no list
    size_t begins[MAX_PARTS + 1]
    size_t n_live[MAX_PARTS]  # positions of a part that are not stale; they are moved to its front


# Memory ---------------------------------------------------------------------------------------------------------------

cdef int begin_neighbours(Neighbours* neighbours, size_t n_tokens) except -1 nogil:
    """Allocate room for the neighbours of a merge, at most one for each token, and clear the chain's counts."""
    cdef size_t capacity = max(n_tokens, neighbours.capacity + neighbours.capacity // 2)
    cdef int side
    neighbours.chain.n, neighbours.chain.count, neighbours.removed = 0, 0, 0
    neighbours.overlaps[LEFT] = neighbours.overlaps[RIGHT] = neighbours.overlaps[CHAIN] = 0
    if n_tokens <= neighbours.capacity:
        return 0
    for side in range(2):
        neighbours.slot[side] = <uint32_t*>check_allocated(
            realloc(neighbours.slot[side], capacity * sizeof(uint32_t)), capacity, b"neighbours of a merge"
        )
        memset(neighbours.slot[side] + neighbours.capacity, 0, (capacity - neighbours.capacity) * sizeof(uint32_t))
        neighbours.items[side] = <Neighbour*>check_allocated(
            realloc(neighbours.items[side], capacity * sizeof(Neighbour)), capacity, b"neighbours of a merge"
        )
    neighbours.capacity = capacity
    return 0


cdef void clear_neighbours(Neighbours* neighbours) noexcept nogil:
    cdef size_t i
    cdef int side
    for side in range(2):
        for i in range(neighbours.n[side]):
            neighbours.slot[side][neighbours.items[side][i].token] = 0
        neighbours.n[side] = 0


cdef void free_state(TrainingState* state) noexcept nogil:
    cdef int part, side
    free_symbols(&state.symbols)
    free_tokens(&state.tokens)
    free_pairs(&state.pairs)
    free(state.pool.cells)
    free_pairs(&state.refused)
    for part in range(MAX_PARTS):
        for side in range(2):
            free(state.neighbours[part].slot[side])
            free(state.neighbours[part].items[side])


# Positions ------------------------------------------------------------------------------------------------------------

cdef size_t read_positions(
    const id_t* cells, const TrainingState* state, token_t a, token_t b, size_t* cursor, cell_t* positions,
    size_t capacity,
) noexcept nogil:
    """Find where `a` has `b` after it (NO_TOKEN: anything) in all cells from the token at `cursor[0]` on.

    Returns how many were written to `positions`, at most `capacity`; `cursor[0]` is then where to continue.
    """
    cdef const uint32_t* width = state.tokens.width
    cdef size_t p = cursor[0], n = 0
    cdef id_t token
    while p < state.symbols.n and n < capacity:
        token = cells[p]
        if token == <id_t>NO_TOKEN:
            p += 1
            continue
        if token == a and (b == NO_TOKEN or cells[p + width[token]] == b):
            positions[n] = <cell_t>p
            n += 1
        p += width[token]
    cursor[0] = p
    return n


cdef cell_t find_first_in(const id_t* cells, const TrainingState* state, TrackedPair* pair) noexcept nogil:
    cdef const uint32_t* width = state.tokens.width
    cdef size_t cursor = 1
    cdef cell_t position = 0xFFFFFFFF
    if pair.list_start == NO_LIST:
        read_positions(cells, state, pair.left, pair.right, &cursor, &position, 1)
        return position
    while pair.head < pair.n:
        position = state.pool.cells[pair.list_start + pair.head]
        if cells[position] == pair.left and cells[position + width[pair.left]] == pair.right:
            return position
        pair.head += 1
    return 0xFFFFFFFF


cdef cell_t find_first_position(TrainingState* state, uint32_t pair_id) noexcept nogil:
    """Find the first occurrence of a pair; stale positions before it are skipped for good."""
    if state.symbols.wide:
        return find_first_in(<const uint32_t*>state.symbols.cells, state, &state.pairs.items[pair_id])
    return find_first_in(<const uint16_t*>state.symbols.cells, state, &state.pairs.items[pair_id])


# Walking --------------------------------------------------------------------------------------------------------------

cdef inline void add_neighbour(
    Neighbours* neighbours, int side, token_t token, uint32_t n, count_t count
) noexcept nogil:
    """Add occurrences with a neighbour."""
    cdef uint32_t slot = neighbours.slot[side][token]
    cdef Neighbour* item
    if slot == 0:
        item = &neighbours.items[side][neighbours.n[side]]
        neighbours.n[side] += 1
        neighbours.slot[side][token] = <uint32_t>neighbours.n[side]
        item.token, item.n, item.count = token, n, count
    else:
        item = &neighbours.items[side][slot - 1]
        item.n += n
        item.count += count


cdef size_t merge_positions(
    id_t* cells, const SymbolArray* symbols, Merge* merge, Neighbours* neighbours, cell_t* positions, size_t n
) noexcept nogil:
    """Merge at those of n ascending positions that are not stale, and move these to the front; returns their number."""
    cdef size_t i, n_live = 0, position, middle, end, count_class = merge.count_class
    cdef size_t class_end = symbols.starts[count_class + 1], merged_until = merge.merged_until
    cdef count_t count = symbols.counts[count_class]
    cdef id_t a = <id_t>merge.a, b = <id_t>merge.b, c = <id_t>merge.c, none = <id_t>NO_TOKEN, left, right
    for i in range(n):
        prefetch(&cells[positions[min(i + PREFETCH_DISTANCE, n - 1)]])
        position = positions[i]
        middle = position + merge.width_a
        if cells[position] != a or cells[middle] != b:
            continue
        positions[n_live] = <cell_t>position
        n_live += 1
        if position >= class_end:
            count_class = find_count_class(symbols, <cell_t>position, count_class)
            class_end, count = symbols.starts[count_class + 1], symbols.counts[count_class]
        end = position + merge.width
        left, right = cells[position - 1], cells[end]
        cells[middle] = none
        cells[position] = c
        cells[end - 1] = c
        if position == merged_until:
            neighbours.chain.n += 1
            neighbours.chain.count += count
        elif left != none:
            add_neighbour(neighbours, LEFT, left, 1, count)
        merged_until = end
        if right != none and not (right == a and cells[end + merge.width_a] == b):
            add_neighbour(neighbours, RIGHT, right, 1, count)
    merge.count_class, merge.merged_until = count_class, merged_until
    return n_live


cdef inline bint is_even_run(
    const id_t* cells, size_t cell, token_t token, uint32_t width, bint leftwards
) noexcept nogil:
    """Whether a run of a token has an even length; `cell` is its last cell, or its first one."""
    cdef bint even = True
    while cells[cell] == <id_t>token:
        even = not even
        cell = cell - width if leftwards else cell + width
    return even


cdef void count_overlaps(
    const id_t* cells, const TrainingState* state, Merge* merge, Neighbours* neighbours, const cell_t* positions,
    size_t n,
) noexcept nogil:
    """Count, at n ascending positions of the new token, the pairs of equal tokens that are neither lost nor gained.

    A run of r equal tokens has r // 2 pairs. If it loses its last token, r - 1 are left, with (r - 1) // 2 pairs: one
    fewer only if r is even. In a run of the new token, every other pair overlaps the one before it.
    """
    cdef const SymbolArray* symbols = &state.symbols
    cdef size_t i, position, end
    cdef id_t left, right
    cdef bint equal = merge.a == merge.b               # then the runs of this token are what is merged
    for i in range(n):
        position, end = positions[i], positions[i] + merge.width
        left, right = cells[position - 1], cells[end]
        if left == <id_t>merge.c:
            merge.is_last_pair_counted = not merge.is_last_pair_counted
            if not merge.is_last_pair_counted:
                neighbours.overlaps[CHAIN] += symbols.counts[find_count_class(symbols, <cell_t>position, 0)]
            left = <id_t>NO_TOKEN
        else:
            merge.is_last_pair_counted = False
        if equal:
            continue
        if left == <id_t>merge.a and is_even_run(cells, position - 1, merge.a, merge.width_a, True):
            neighbours.overlaps[LEFT] += symbols.counts[find_count_class(symbols, <cell_t>position, 0)]
        if right == <id_t>merge.b and is_even_run(cells, end, merge.b, merge.width - merge.width_a, False):
            neighbours.overlaps[RIGHT] += symbols.counts[find_count_class(symbols, <cell_t>position, 0)]


cdef size_t merge_and_count(
    id_t* cells, const TrainingState* state, Merge* merge, Neighbours* neighbours, cell_t* positions, size_t n
) noexcept nogil:
    """Merge at n positions, and add up what pairs (a, a), some of which overlap, and counts without overlaps need."""
    cdef const SymbolArray* symbols = &state.symbols
    cdef size_t i, count_class = 0, n_live = merge_positions(cells, symbols, merge, neighbours, positions, n)
    if merge.a == merge.b:
        for i in range(n_live):
            count_class = find_count_class(symbols, positions[i], count_class)
            neighbours.removed += symbols.counts[count_class]
    if state.policy.count_non_overlapping:
        count_overlaps(cells, state, merge, neighbours, positions, n_live)
    return n_live


cdef inline void append_position(cell_t* pool, Neighbour* item, size_t position) noexcept nogil:
    if item.cursor != NO_LIST:
        pool[item.cursor] = <cell_t>position
        item.cursor += 1


cdef void list_positions(
    const id_t* cells, const TrainingState* state, const Merge* merge, Neighbours* neighbours, const cell_t* positions,
    size_t n,
) noexcept nogil:
    """Write the lists of the new pairs, from the positions of the new token."""
    cdef const uint32_t* width = state.tokens.width
    cdef cell_t* pool = state.pool.cells
    cdef size_t i, position
    cdef id_t c = <id_t>merge.c, none = <id_t>NO_TOKEN, left, right
    for i in range(n):
        prefetch(&cells[positions[min(i + PREFETCH_DISTANCE, n - 1)]])
        position = positions[i]
        left, right = cells[position - 1], cells[position + merge.width]
        if left == c:
            append_position(pool, &neighbours.chain, position - merge.width)
        elif left != none:
            append_position(pool, &neighbours.items[LEFT][neighbours.slot[LEFT][left] - 1], position - width[left])
        if right != none and right != c:
            append_position(pool, &neighbours.items[RIGHT][neighbours.slot[RIGHT][right] - 1], position)


cdef void merge_cells(id_t* cells, MergeWalk* walk, int part) noexcept nogil:
    """Do one of the two walks over a part of the pair's list, or over all cells where it has none."""
    cdef TrainingState* state = walk.state
    cdef Neighbours* neighbours = &state.neighbours[part]
    cdef Merge merge = walk.merge
    cdef cell_t chunk[CHUNK_POSITIONS]
    cdef cell_t* positions
    cdef size_t n = CHUNK_POSITIONS, cursor = 1
    if walk.positions != NULL:
        positions = walk.positions + walk.begins[part]
        if walk.writes_lists:
            list_positions(cells, state, &merge, neighbours, positions, walk.n_live[part])
        else:
            n = walk.begins[part + 1] - walk.begins[part]
            walk.n_live[part] = merge_and_count(cells, state, &merge, neighbours, positions, n)
        return
    while n == CHUNK_POSITIONS:
        if walk.writes_lists:
            n = read_positions(cells, state, merge.c, NO_TOKEN, &cursor, chunk, CHUNK_POSITIONS)
            list_positions(cells, state, &merge, neighbours, chunk, n)
        else:
            n = read_positions(cells, state, merge.a, merge.b, &cursor, chunk, CHUNK_POSITIONS)
            merge_and_count(cells, state, &merge, neighbours, chunk, n)
            cursor = max(cursor, merge.merged_until)


cdef int merge_part(void* data, int part) except -1 nogil:
    cdef MergeWalk* walk = <MergeWalk*>data
    if walk.state.symbols.wide:
        merge_cells(<uint32_t*>walk.state.symbols.cells, walk, part)
    else:
        merge_cells(<uint16_t*>walk.state.symbols.cells, walk, part)
    return 0


# Counts ---------------------------------------------------------------------------------------------------------------

cdef bint is_tracked(const TrainingState* state, token_t left, token_t right, count_t count) noexcept nogil:
    """Whether a pair with this count is to be tracked."""
    cdef const Tokens* tokens = &state.tokens
    if count < state.policy.threshold:
        return False
    return <uint64_t>tokens.items[left].length + tokens.items[right].length <= state.policy.max_length


cdef int enter_new_pair(TrainingState* state, token_t left, token_t right, Neighbour* item) except -1 nogil:
    """Enter a new pair with its complete count and make room for its list, if it is to be tracked."""
    cdef Pool* pool = &state.pool
    cdef TrackedPair* pair
    item.cursor = NO_LIST
    if item.n == 0 or not is_tracked(state, left, right, item.count):
        return 0
    pair = &state.pairs.items[add_pair(&state.pairs, left, right, hash_pair(left, right))]
    pair.count = item.count
    if state.pairs.n > pool.max_pairs:
        pool.must_recount = True
    if item.n > pool.max_list_size:
        return 0
    if item.n > pool.size - pool.n:
        pool.must_recount = True
        return 0
    pair.n = item.n
    pair.list_start = item.cursor = pool.n
    pool.n += item.n
    return 0


cdef int update_counts(TrainingState* state, const Merge* merge) except -1 nogil:
    """Subtract what the neighbours' old pairs lost and enter the new pairs, once per distinct neighbour."""
    cdef TrackedPairs* pairs = &state.pairs
    cdef Neighbours* neighbours = &state.neighbours[0]
    cdef size_t i, n = neighbours.n[LEFT]
    cdef Neighbour* items = neighbours.items[LEFT]
    for i in range(n):
        prefetch_pair(pairs, hash_pair(items[min(i + PREFETCH_DISTANCE, n - 1)].token, merge.a))
        subtract_pair_count(pairs, items[i].token, merge.a, items[i].count)
        enter_new_pair(state, items[i].token, merge.c, &items[i])
    items, n = neighbours.items[RIGHT], neighbours.n[RIGHT]
    for i in range(n):
        prefetch_pair(pairs, hash_pair(merge.b, items[min(i + PREFETCH_DISTANCE, n - 1)].token))
        subtract_pair_count(pairs, merge.b, items[i].token, items[i].count)
        enter_new_pair(state, merge.c, items[i].token, &items[i])
    if neighbours.chain.n > 0:
        subtract_pair_count(pairs, merge.b, merge.a, neighbours.chain.count)
    if state.policy.count_non_overlapping:
        subtract_pair_count(pairs, merge.a, merge.a, -neighbours.overlaps[LEFT])
        subtract_pair_count(pairs, merge.b, merge.b, -neighbours.overlaps[RIGHT])
        neighbours.chain.count -= neighbours.overlaps[CHAIN]
    enter_new_pair(state, merge.c, merge.c, &neighbours.chain)
    return 0


# Parts ----------------------------------------------------------------------------------------------------------------

cdef void divide_list(MergeWalk* walk, size_t n, int parts) noexcept nogil:
    """Divide a list at anchors into parts of about the same length, so that no word is in two parts."""
    cdef const cell_t* anchors = &walk.state.symbols.anchors[0]
    cdef size_t anchor
    cdef int part
    walk.begins[0], walk.begins[parts] = 0, n
    for part in range(1, parts):
        anchor = lower_bound(anchors, N_ANCHORS, walk.positions[n * part // parts])
        walk.begins[part] = lower_bound(walk.positions, n, anchors[anchor])


cdef inline void add_part_neighbour(Neighbour* sums, Neighbour* part_neighbour) noexcept nogil:
    """Add a part's sums; its cursor then says how many positions come before its own."""
    part_neighbour.cursor = sums.n
    sums.n += part_neighbour.n
    sums.count += part_neighbour.count


cdef void add_part_sums(Neighbours* parts, int n_parts) noexcept nogil:
    """Add the sums of all parts to the first's, in the order in which one thread would add neighbours."""
    cdef Neighbours* sums = &parts[0]
    cdef Neighbour* part_neighbour
    cdef size_t i
    cdef int part, side
    for part in range(1, n_parts):
        add_part_neighbour(&sums.chain, &parts[part].chain)
        sums.removed += parts[part].removed
        for side in range(3):
            sums.overlaps[side] += parts[part].overlaps[side]
        for side in range(2):
            for i in range(parts[part].n[side]):
                part_neighbour = &parts[part].items[side][i]
                add_neighbour(sums, side, part_neighbour.token, 0, 0)
                add_part_neighbour(&sums.items[side][sums.slot[side][part_neighbour.token] - 1], part_neighbour)


cdef void begin_new_lists(Neighbours* parts, int n_parts) noexcept nogil:
    """Let the cursors of each part begin after the positions of earlier parts."""
    cdef Neighbour* part_neighbour
    cdef size_t i, cursor
    cdef int part, side
    for part in range(1, n_parts):
        cursor = parts[0].chain.cursor
        parts[part].chain.cursor = NO_LIST if cursor == NO_LIST else cursor + parts[part].chain.cursor
        for side in range(2):
            for i in range(parts[part].n[side]):
                part_neighbour = &parts[part].items[side][i]
                cursor = parts[0].items[side][parts[0].slot[side][part_neighbour.token] - 1].cursor
                part_neighbour.cursor = NO_LIST if cursor == NO_LIST else cursor + part_neighbour.cursor


cdef count_t merge_pair(TrainingState* state, uint32_t pair_id, token_t merged, Team team) except? -1 nogil:
    """Make every occurrence of a pair the token `merged`; the new pairs are those that are last in the table then.

    Returns by how many tokens the corpus gets shorter; of overlapping occurrences, as in `aaa`, every other one counts.
    Where `pool.must_recount` is set afterwards, counts and lists are incomplete: a recount must follow.
    """
    cdef MergeWalk walk
    cdef Merge* merge = &walk.merge
    cdef TrackedPair pair = state.pairs.items[pair_id]
    cdef uint32_t* width = state.tokens.width
    cdef size_t n_before = state.pool.n, n = pair.n - pair.head
    cdef int part, parts = 1
    merge.a, merge.b, merge.c = pair.left, pair.right, merged
    merge.width_a, merge.width = width[pair.left], width[pair.left] + width[pair.right]
    merge.merged_until, merge.count_class, merge.is_last_pair_counted = 0, 0, False
    width[merged] = merge.width
    walk.state, walk.positions, walk.writes_lists = state, NULL, False
    if pair.list_start != NO_LIST:
        walk.positions = state.pool.cells + pair.list_start + pair.head
        parts = count_parts(team.size, n // state.parallel_threshold)
        divide_list(&walk, n, parts)
    try:
        for part in range(parts):
            begin_neighbours(&state.neighbours[part], state.tokens.n)
        team.share(parts, merge_part, &walk)
        add_part_sums(state.neighbours, parts)
        update_counts(state, merge)
        if not state.pool.must_recount and state.pool.n > n_before:
            begin_new_lists(state.neighbours, parts)
            walk.writes_lists = True
            team.share(parts, merge_part, &walk)
        state.pairs.items[pair_id].count = 0
    finally:
        for part in range(parts):
            clear_neighbours(&state.neighbours[part])
    return state.neighbours[0].removed if pair.left == pair.right else pair.count
