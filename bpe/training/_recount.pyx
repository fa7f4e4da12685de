"""Counting all pairs anew, which begins a training and follows whenever no tracked pair is left.

The highest count of all pairs never rises, and a new pair's count is complete when it first occurs. So pairs below a
threshold need no entry in a table, no list of positions and no place in the queue until everything above it has been
merged: then all pairs are counted again, and the threshold falls. An epoch lasts from one recount to the next. The
result does not depend on thresholds; how low one may be depends on the memory for lists.

While there are few tokens, a table of all their pairs counts (dense; without it training takes 6 to 66% longer). Later
a filter comes first: sums addressed by a hash of the pair, each the counts of all pairs with that hash, so at least the
count of any of them. Only pairs whose sum reaches the threshold are then counted one by one.

Several threads each count a part of the cells into tables of their own, which are added up; their positions follow each
other in the order of the parts. So everything is as one thread would have it, the ids of pairs included.

Every token is one cell wide here (`compact`), so that neighbours are adjacent cells. Threshold epochs and the filter
are this project's own.

Cost: two walks over all cells per epoch, three with the filter.

Measured, Japanese 60 MB, 32,000 tokens: 7.4 s with a list for every pair, 2.05 with thresholds, and a third of the
memory.
"""

from bpe.base._memory cimport check_allocated
from bpe.base._team cimport MAX_PARTS, Team, count_parts
from bpe.base._types cimport NO_TOKEN, cell_t, count_t, token_t
from bpe.training._pair_merge cimport SPARE_CELLS, Pool, TrainingState, is_tracked
from bpe.training._pair_table cimport (
    NO_LIST, NO_PAIR, TrackedPair, TrackedPairs, add_pair, clear_pairs, enter_pair, find_pair, free_pairs, grow_slots,
    has_pair, hash_pair, prefetch_pair,
)
from bpe.training._symbol_array cimport SymbolArray, find_count_class, find_part_start, id_t
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

cdef enum:
    N_BUCKETS = 58 * 64       # 64 to a power of two; counts below 128 have one each
    PAIRS_PER_BLOCK = 128     # pairs looked up together
    MAX_SUMS = 1 << 22        # of the filter: what stays in a level 3 cache

cdef struct Tally:            # a pair in the table of all pairs: counted first, then a cursor (`begin_dense_lists`)
    count_t count             # counting: the pair's count; listing: where in the pool its next position goes
    uint32_t n                # counting: occurrences, each word once; listing: how far the cursor moves, 1 or 0

cdef struct Histogram:        # of pairs by their counts
    uint64_t pairs[N_BUCKETS]
    uint64_t positions[N_BUCKETS]  # what their lists take

cdef struct PairBlock:        # pairs of neighbours on their way to the table
    size_t n
    cell_t positions[PAIRS_PER_BLOCK]
    uint64_t hashes[PAIRS_PER_BLOCK]
    count_t counts[PAIRS_PER_BLOCK]  # of the word

cdef struct PairReader:
    size_t index
    size_t end                # where its part ends
    size_t count_class        # its class
    size_t last_counted       # the last pair of equal tokens that adds to its count

cdef enum Walk:               # what a walk over all cells does
    COUNT_DENSE = 0
    LIST_DENSE = 1
    FILTER = 2
    COUNT_FILTERED = 3
    LIST_FILTERED = 4

cdef struct Recount:
    TrainingState* state
    const RecountPlan* plan
    int parts
    Walk walk
    Histogram histogram
    Tally* tables[MAX_PARTS]
    size_t n_sums             # of the filter, a power of two
    const uint64_t* filter_bits  # the sums that may reach the threshold
    TrackedPairs* pairs[MAX_PARTS]    # what a part has counted; part 0's becomes the result


cdef inline bint may_track(const TrainingState* state, token_t left, token_t right, count_t count) noexcept nogil:
    """Whether a pair with this count is to be tracked: a refused one has had its turn."""
    return is_tracked(state, left, right, count) and not has_pair(&state.refused, left, right)


# Choosing a threshold -------------------------------------------------------------------------------------------------

cdef inline size_t find_bucket(count_t count) noexcept nogil:
    cdef int shift = 0
    while count >= 1 << 20:
        count >>= 8
        shift += 8
    while count >= 128:
        count >>= 1
        shift += 1
    return <size_t>(shift * 64 + count)


cdef inline count_t find_lowest_count(size_t bucket) noexcept nogil:
    """Find the lowest count of a bucket."""
    cdef size_t shift
    if bucket < 128:
        return <count_t>bucket
    shift = bucket // 64 - 1
    return <count_t>(bucket - shift * 64) << shift


cdef inline uint64_t measure_list(const Pool* pool, uint32_t n) noexcept nogil:
    """Count the pool's cells that the list of a pair takes: none if the list is too long to be written."""
    return n if n <= pool.max_list_size else 0


cdef inline void add_to_histogram(Recount* recount, count_t count, uint32_t n) noexcept nogil:
    cdef size_t bucket = find_bucket(count)
    recount.histogram.pairs[bucket] += 1
    recount.histogram.positions[bucket] += measure_list(&recount.state.pool, n)


cdef count_t choose_threshold(Recount* recount) noexcept nogil:
    """Choose the threshold for the pairs in the histogram, which is empty afterwards.

    Half the pool is left to the lists of pairs that come up later. Pairs far below the best one are not worth tracking
    yet, nor are those that the remaining merges will hardly reach.
    """
    cdef const Pool* pool = &recount.state.pool
    cdef const RecountPlan* plan = recount.plan
    cdef size_t bucket = N_BUCKETS
    cdef count_t best_count = 0, threshold = 0, threshold_for_merges_left = 0, lowest
    cdef uint64_t pairs = 0, positions = 0
    if plan.track_all_pairs:
        memset(&recount.histogram, 0, sizeof(Histogram))
        return plan.floor
    while bucket > 1:
        bucket -= 1
        lowest = find_lowest_count(bucket)
        pairs += recount.histogram.pairs[bucket]
        positions += recount.histogram.positions[bucket]
        if recount.histogram.pairs[bucket] == 0 or lowest > plan.ceiling:
            continue                                   # above the ceiling are only pairs that must not be merged
        if best_count == 0:
            best_count = lowest
        elif (
            pairs > pool.max_pairs // 2
            or positions > pool.size // 2
            or lowest < max(best_count // plan.ratio, threshold_for_merges_left // 2)
        ):
            break
        threshold = lowest
        if threshold_for_merges_left == 0 and pairs >= plan.n_merges_left:
            threshold_for_merges_left = threshold
    memset(&recount.histogram, 0, sizeof(Histogram))
    return max(threshold, plan.floor)


# Tracking -------------------------------------------------------------------------------------------------------------

cdef bint lists_fit(const Recount* recount, count_t threshold) noexcept nogil:
    """Whether the lists of the pairs with at least this count fit in the pool."""
    cdef const Pool* pool = &recount.state.pool
    cdef const TrackedPairs* pairs = recount.pairs[0]
    cdef const TrackedPair* pair
    cdef uint64_t positions = 0
    cdef size_t i, n = 0
    for i in range(pairs.n):
        pair = &pairs.items[i]
        if pair.count >= threshold and may_track(recount.state, pair.left, pair.right, pair.count):
            n += 1
            positions += measure_list(pool, pair.n)
    return positions <= pool.size and n <= pool.max_pairs


cdef count_t find_lowest_threshold(const Recount* recount, count_t low) noexcept nogil:
    """Find the lowest threshold from `low` on whose lists fit, by bisection; the best count, if none does.

    A bucket of the histogram holds counts that differ by up to a 64th: where very many pairs have almost the same
    count, one bucket may be too much.
    """
    cdef const TrackedPairs* pairs = recount.pairs[0]
    cdef count_t high = low, middle
    cdef size_t i
    for i in range(pairs.n):
        if may_track(recount.state, pairs.items[i].left, pairs.items[i].right, pairs.items[i].count):
            high = max(high, pairs.items[i].count)
    while low < high:
        middle = low + (high - low) // 2
        if lists_fit(recount, middle):
            high = middle
        else:
            low = middle + 1
    return low


cdef int track(Recount* recount) except -1 nogil:
    """Raise the threshold, now that counts are exact; keep the tracked pairs, and make room for their lists."""
    cdef TrainingState* state = recount.state
    cdef TrackedPairs* pairs = &state.pairs
    cdef Pool* pool = &state.pool
    cdef size_t i, n = pairs.n
    cdef uint64_t positions = 0
    cdef TrackedPair pair
    for i in range(n):
        pair = pairs.items[i]
        if may_track(state, pair.left, pair.right, pair.count):
            add_to_histogram(recount, pair.count, pair.n)
    state.policy.threshold = max(state.policy.threshold, choose_threshold(recount))
    if not (recount.plan.may_grow or recount.plan.track_all_pairs or lists_fit(recount, state.policy.threshold)):
        state.policy.threshold = find_lowest_threshold(recount, state.policy.threshold)
    clear_pairs(pairs)
    for i in range(n):
        pair = pairs.items[i]
        if not may_track(state, pair.left, pair.right, pair.count):
            continue
        if pair.n > pool.max_list_size:
            pair.n = 0
        else:
            pair.list_start = positions
            positions += pair.n
        pairs.items[pairs.n] = pair
        enter_pair(pairs, hash_pair(pair.left, pair.right), pairs.n)
        pairs.n += 1
    pool.n = positions
    return grow_pool(state, recount.plan)


cdef int grow_pool(TrainingState* state, const RecountPlan* plan) except -1 nogil:
    """Let the pool hold the lists that it is to have; a ceiling can force more on it than it was planned for."""
    cdef Pool* pool = &state.pool
    cdef size_t n_pairs = state.pairs.n, size
    if pool.n <= pool.size and n_pairs <= pool.max_pairs:
        return 0
    if not plan.may_grow:
        with gil:
            raise ValueError(
                f"the pairs {'of all counts' if plan.track_all_pairs else 'of the same count'} take "
                f"{4 * pool.n + PAIR_BYTES * n_pairs} bytes, more than the "
                f"{4 * pool.size + PAIR_BYTES * pool.max_pairs} bytes that training may use for them; raise max_memory"
            )
    pool.max_pairs = max(pool.max_pairs, 2 * n_pairs)
    if pool.n > pool.size // 2:
        size = (2 * pool.n + MAX_PARTS * SPARE_CELLS) * sizeof(cell_t)
        pool.cells = <cell_t*>check_allocated(realloc(pool.cells, size), pool.n, b"positions of pairs")
        pool.size = 2 * pool.n
    return 0


# All pairs in one table -----------------------------------------------------------------------------------------------

cdef inline bint adds_to_count(const Recount* recount, size_t index, size_t* last_counted) noexcept nogil:
    """Whether a pair of equal tokens, the second one at `index`, adds to its count: not if the pair before it did."""
    if recount.state.policy.count_non_overlapping and last_counted[0] + 1 == index:
        return False
    last_counted[0] = index
    return True


cdef void count_dense(const id_t* cells, Recount* recount, int part) noexcept nogil:
    """Count the pairs of a part in its table.

    Where pairs are counted without overlap, a pair of equal tokens that begins in a counted one adds nothing.
    """
    cdef const SymbolArray* symbols = &recount.state.symbols
    cdef size_t i = find_part_start(symbols, part, recount.parts)
    cdef size_t end = find_part_start(symbols, part + 1, recount.parts)
    cdef size_t count_class = find_count_class(symbols, <cell_t>i, 0), n_tokens = recount.state.tokens.n
    cdef count_t count
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    cdef Tally* table = recount.tables[part]
    cdef Tally* tally
    cdef size_t last_counted = 0
    while i < end:
        count = symbols.counts[count_class]
        for i in range(i, min(end, <size_t>symbols.starts[count_class + 1])):
            right = cells[i]
            if left != none and right != none:
                tally = &table[left * n_tokens + right]
                tally.n += 1
                if left != right or adds_to_count(recount, i, &last_counted):
                    tally.count += count
            left = right
        i += 1  # past the last cell of the class
        count_class += 1


cdef void list_dense(const id_t* cells, Recount* recount, int part) noexcept nogil:
    """Write the positions of every pair; those of pairs without a list all go to the same cell, without a branch."""
    cdef const SymbolArray* symbols = &recount.state.symbols
    cdef size_t i = find_part_start(symbols, part, recount.parts)
    cdef size_t end = find_part_start(symbols, part + 1, recount.parts)
    cdef size_t n_tokens = recount.state.tokens.n
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    cdef Tally* table = recount.tables[part]
    cdef Tally* tally
    cdef cell_t* pool = recount.state.pool.cells
    for i in range(i, end):
        right = cells[i]
        if left != none and right != none:
            tally = &table[left * n_tokens + right]
            pool[tally.count] = <cell_t>(i - 1)
            tally.count += tally.n
        left = right


cdef inline Tally sum_tallies(const Recount* recount, size_t index) noexcept nogil:
    """Add up what all parts have counted of a pair."""
    cdef Tally total = recount.tables[0][index]
    cdef int part
    for part in range(1, recount.parts):
        total.count += recount.tables[part][index].count
        total.n += recount.tables[part][index].n
    return total


cdef inline bint should_track(const Recount* recount, const Tally* total, size_t index) noexcept nogil:
    """Whether a pair occurs and is to be tracked."""
    cdef size_t n = recount.state.tokens.n
    return total.n > 0 and may_track(recount.state, <token_t>(index // n), <token_t>(index % n), total.count)


cdef int take_tables(Recount* recount) except -1 nogil:
    """Allocate a table for each part, for no more parts than fit in half the memory of the lists."""
    cdef size_t n = recount.state.tokens.n
    cdef int part
    recount.parts = count_parts(recount.parts, recount.state.pool.size * sizeof(cell_t) // (2 * n * n * sizeof(Tally)))
    for part in range(recount.parts):
        recount.tables[part] = <Tally*>check_allocated(calloc(n * n, sizeof(Tally)), n * n, b"counts of pairs")
    return 0


cdef void begin_dense_lists(Recount* recount) noexcept nogil:
    """Turn the tables' counts into cursors: where the positions of each pair go, a part's after earlier parts'.

    A listed pair's cursor is first stored as -1 - start, so that the second loop, over all pairs, tells it from a
    count, which becomes the part's spare cell.
    """
    cdef const TrackedPairs* pairs = recount.pairs[0]
    cdef size_t i, index, start, spare_cell, n = recount.state.tokens.n
    cdef int part
    cdef Tally* tally
    for i in range(pairs.n):
        start = pairs.items[i].list_start
        index = pairs.items[i].left * n + pairs.items[i].right
        for part in range(recount.parts if start != NO_LIST else 0):
            recount.tables[part][index].count = -1 - <count_t>start
            start += recount.tables[part][index].n
    for part in range(recount.parts):
        spare_cell = recount.state.pool.size + part * SPARE_CELLS
        for index in range(n * n):
            tally = &recount.tables[part][index]
            tally.n = tally.count < 0
            tally.count = -1 - tally.count if tally.count < 0 else <count_t>spare_cell


cdef int recount_dense(Recount* recount, Team team) except -1 nogil:
    """Recount with a table of all pairs of tokens."""
    cdef size_t n = recount.state.tokens.n, index
    cdef Tally total
    cdef token_t left, right
    cdef TrackedPair* pair
    take_tables(recount)
    walk_all(recount, COUNT_DENSE, team)
    recount.state.policy.threshold = 1  # no limit yet
    for index in range(n * n):
        total = sum_tallies(recount, index)
        if should_track(recount, &total, index):
            add_to_histogram(recount, total.count, total.n)
    recount.state.policy.threshold = choose_threshold(recount)
    for index in range(n * n):
        total = sum_tallies(recount, index)
        if should_track(recount, &total, index):
            left, right = <token_t>(index // n), <token_t>(index % n)
            pair = &recount.pairs[0].items[add_pair(recount.pairs[0], left, right, hash_pair(left, right))]
            pair.count, pair.n = total.count, total.n
    track(recount)
    begin_dense_lists(recount)
    return walk_all(recount, LIST_DENSE, team)


# With a filter --------------------------------------------------------------------------------------------------------

cdef inline size_t find_sum(uint64_t pair_hash, size_t mask) noexcept nogil:
    """Find a pair's sum by bits 40 to 63 of its hash; MAX_SUMS needs 22 of these."""
    return pair_hash >> 40 & mask


cdef inline uint32_t add_saturating(uint32_t a, uint32_t b) noexcept nogil:
    """Add two sums; the greatest number that fits where the result does not."""
    cdef uint32_t total = a + b
    return total if total >= b else <uint32_t>0xFFFFFFFF


cdef void filter_cells(const id_t* cells, Recount* recount, int part) noexcept nogil:
    """Add the count of every pair of a part to its sum in a filter; sums stay at the greatest number that fits."""
    cdef const SymbolArray* symbols = &recount.state.symbols
    cdef size_t i = find_part_start(symbols, part, recount.parts)
    cdef size_t end = find_part_start(symbols, part + 1, recount.parts)
    cdef size_t count_class = find_count_class(symbols, <cell_t>i, 0), mask = recount.n_sums - 1
    cdef uint32_t count
    cdef uint32_t* sums = <uint32_t*>recount.state.pool.cells + part * recount.n_sums
    cdef uint32_t* sum_slot
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    memset(sums, 0, recount.n_sums * sizeof(uint32_t))
    while i < end:
        count = <uint32_t>min(symbols.counts[count_class], <count_t>0xFFFFFFFF)
        for i in range(i, min(end, <size_t>symbols.starts[count_class + 1])):
            right = cells[i]
            if left != none and right != none:
                sum_slot = &sums[find_sum(hash_pair(left, right), mask)]
                sum_slot[0] = add_saturating(sum_slot[0], count)
            left = right
        i += 1  # past the last cell of the class
        count_class += 1


cdef uint64_t* make_filter(Recount* recount, Team team) except NULL nogil:
    """Choose the threshold, and make the filter: a bit for each sum, set where a pair may reach the threshold.

    The sums use the pool's memory; when lists are written there, only the bits are needed.
    """
    cdef uint32_t* sums = <uint32_t*>recount.state.pool.cells
    cdef uint32_t* part_sums
    cdef uint32_t threshold
    cdef uint64_t* filter_bits = <uint64_t*>check_allocated(
        calloc(recount.n_sums // 64, sizeof(uint64_t)), recount.n_sums, b"bits of a filter"
    )
    cdef size_t i
    cdef int part, all_parts = recount.parts
    recount.parts = count_parts(all_parts, recount.state.pool.size // recount.n_sums)
    walk_all(recount, FILTER, team)
    for part in range(1, recount.parts):
        part_sums = sums + part * recount.n_sums
        for i in range(recount.n_sums):
            sums[i] = add_saturating(sums[i], part_sums[i])
    recount.parts = all_parts
    for i in range(recount.n_sums):
        if sums[i] > 0:
            add_to_histogram(recount, sums[i], 0)
    recount.state.policy.threshold = choose_threshold(recount)
    threshold = <uint32_t>min(recount.state.policy.threshold, <count_t>0xFFFFFFFF)
    for i in range(recount.n_sums):
        if sums[i] >= threshold:
            filter_bits[i >> 6] |= <uint64_t>1 << (i & 63)
    return filter_bits


cdef PairReader begin_reading(const Recount* recount, int part) noexcept nogil:
    cdef const SymbolArray* symbols = &recount.state.symbols
    cdef PairReader reader
    reader.index = find_part_start(symbols, part, recount.parts)
    reader.end = find_part_start(symbols, part + 1, recount.parts)
    reader.count_class, reader.last_counted = find_count_class(symbols, <cell_t>reader.index, 0), 0
    return reader


cdef void read_block(
    const id_t* cells, const Recount* recount, const TrackedPairs* table, PairReader* reader, PairBlock* block
) noexcept nogil:
    """Read the next pairs of neighbours that pass the filter, and prefetch their slots of the table."""
    cdef const SymbolArray* symbols = &recount.state.symbols
    cdef const uint64_t* filter_bits = recount.filter_bits
    cdef size_t sum_index, i = reader.index, n = 0, mask = recount.n_sums - 1
    cdef uint64_t pair_hash
    cdef id_t left = cells[i - 1], right, none = <id_t>NO_TOKEN
    while i < reader.end and n < PAIRS_PER_BLOCK:
        right = cells[i]
        if left != none and right != none:
            pair_hash = hash_pair(left, right)
            sum_index = find_sum(pair_hash, mask)
            if filter_bits[sum_index >> 6] >> (sum_index & 63) & 1:
                if i >= symbols.starts[reader.count_class + 1]:
                    reader.count_class = find_count_class(symbols, <cell_t>i, reader.count_class)
                block.positions[n] = <cell_t>(i - 1)
                block.hashes[n] = pair_hash
                block.counts[n] = (
                    symbols.counts[reader.count_class]
                    if left != right or adds_to_count(recount, i, &reader.last_counted) else 0
                )
                prefetch_pair(table, pair_hash)
                n += 1
        left = right
        i += 1
    reader.index = i
    block.n = n


cdef int count_filtered(const id_t* cells, Recount* recount, int part) except -1 nogil:
    """Count the pairs of a part that pass the filter, one by one."""
    cdef PairReader reader = begin_reading(recount, part)
    cdef PairBlock block
    cdef size_t i
    cdef uint32_t pair_id
    cdef TrackedPairs* pairs = recount.pairs[part]
    cdef TrackedPair* pair
    cdef token_t left, right
    while reader.index < reader.end:
        read_block(cells, recount, pairs, &reader, &block)
        for i in range(block.n):
            left, right = cells[block.positions[i]], cells[block.positions[i] + 1]
            pair_id = find_pair(pairs, left, right, block.hashes[i])
            if pair_id == NO_PAIR:
                pair_id = add_pair(pairs, left, right, block.hashes[i])
            pair = &pairs.items[pair_id]
            pair.count += block.counts[i]
            pair.n += 1
    return 0


cdef int add_part_pairs(Recount* recount) except -1 nogil:
    """Add what all parts have counted to the first's table; `list_start` says how many positions precede a part's own.

    Pairs get the ids that one part would give them: by their first positions.
    """
    cdef TrackedPairs* combined = recount.pairs[0]
    cdef TrackedPair* part_pair
    cdef TrackedPair* pair
    cdef uint64_t pair_hash
    cdef uint32_t pair_id
    cdef size_t i
    cdef int part
    for part in range(1, recount.parts):
        for i in range(recount.pairs[part].n):
            part_pair = &recount.pairs[part].items[i]
            pair_hash = hash_pair(part_pair.left, part_pair.right)
            pair_id = find_pair(combined, part_pair.left, part_pair.right, pair_hash)
            if pair_id == NO_PAIR:
                pair_id = add_pair(combined, part_pair.left, part_pair.right, pair_hash)
            pair = &combined.items[pair_id]
            part_pair.list_start = pair.n
            pair.count += part_pair.count
            pair.n += part_pair.n
    return 0


cdef void turn_into_cursors(const TrackedPairs* combined, TrackedPairs* pairs) noexcept nogil:
    """Turn a part's table into cursors: where its positions of each pair go."""
    cdef size_t i
    cdef uint32_t pair_id
    cdef TrackedPair* pair
    for i in range(pairs.n):
        pair = &pairs.items[i]
        pair_id = find_pair(combined, pair.left, pair.right, hash_pair(pair.left, pair.right))
        if pair_id == NO_PAIR or combined.items[pair_id].list_start == NO_LIST:
            pair.list_start = NO_LIST
        else:
            pair.list_start += combined.items[pair_id].list_start


cdef void list_filtered(const id_t* cells, Recount* recount, int part) noexcept nogil:
    """Write the positions of every tracked pair of a part; `head` of a pair serves as its cursor."""
    cdef PairReader reader = begin_reading(recount, part)
    cdef PairBlock block
    cdef size_t i
    cdef uint32_t pair_id
    cdef TrackedPairs* pairs = recount.pairs[part]
    cdef TrackedPair* pair
    if part > 0:
        turn_into_cursors(recount.pairs[0], pairs)
    while reader.index < reader.end:
        read_block(cells, recount, pairs, &reader, &block)
        for i in range(block.n):
            pair_id = find_pair(pairs, cells[block.positions[i]], cells[block.positions[i] + 1], block.hashes[i])
            if pair_id != NO_PAIR:
                pair = &pairs.items[pair_id]
                if pair.list_start != NO_LIST:
                    recount.state.pool.cells[pair.list_start + pair.head] = block.positions[i]
                    pair.head += 1


cdef int recount_filtered(Recount* recount, Team team) except -1 nogil:
    """Recount with a filter."""
    cdef TrackedPairs part_pairs[MAX_PARTS]
    cdef int part
    cdef uint64_t* filter_bits = NULL
    cdef size_t max_sums = min(<size_t>MAX_SUMS, recount.state.symbols.n)
    recount.n_sums = 64
    while recount.n_sums < max_sums and recount.n_sums * 2 <= recount.state.pool.size:
        recount.n_sums *= 2
    memset(part_pairs, 0, sizeof(part_pairs))
    try:
        for part in range(1, recount.parts):
            recount.pairs[part] = &part_pairs[part]
            grow_slots(recount.pairs[part])
        recount.filter_bits = filter_bits = make_filter(recount, team)
        walk_all(recount, COUNT_FILTERED, team)
        add_part_pairs(recount)
        track(recount)
        walk_all(recount, LIST_FILTERED, team)
    finally:
        free(filter_bits)
        for part in range(1, recount.parts):
            free_pairs(&part_pairs[part])
    return 0


# The whole ------------------------------------------------------------------------------------------------------------

cdef int walk_cells(const id_t* cells, Recount* recount, int part) except -1 nogil:
    if recount.walk == COUNT_DENSE:
        count_dense(cells, recount, part)
    elif recount.walk == LIST_DENSE:
        list_dense(cells, recount, part)
    elif recount.walk == FILTER:
        filter_cells(cells, recount, part)
    elif recount.walk == COUNT_FILTERED:
        count_filtered(cells, recount, part)
    else:
        list_filtered(cells, recount, part)
    return 0


cdef int walk_part(void* data, int part) except -1 nogil:
    cdef Recount* recount = <Recount*>data
    if recount.state.symbols.wide:
        return walk_cells(<const uint32_t*>recount.state.symbols.cells, recount, part)
    return walk_cells(<const uint16_t*>recount.state.symbols.cells, recount, part)


cdef int walk_all(Recount* recount, Walk walk, Team team) except -1 nogil:
    """Walk over all cells, each part on a thread of its own."""
    recount.walk = walk
    return team.share(recount.parts, walk_part, recount)


cdef int recount(TrainingState* state, const RecountPlan* plan, Team team, int parts) except -1 nogil:
    """Forget all pairs; count, choose a threshold and list the positions of the tracked pairs.

    The result is the same for any number of parts.
    """
    cdef Recount recount
    cdef size_t i
    cdef int part
    memset(&recount, 0, sizeof(Recount))
    recount.state, recount.plan, recount.parts, recount.pairs[0] = state, plan, parts, &state.pairs
    if state.pairs.n_slots == 0:
        grow_slots(&state.pairs)
    clear_pairs(&state.pairs)
    state.pool.n, state.pool.must_recount = 0, False
    if state.symbols.n_classes == 0:
        state.policy.threshold = plan.floor
    elif state.tokens.n > plan.max_dense_tokens:
        recount_filtered(&recount, team)
    else:
        try:
            recount_dense(&recount, team)
        finally:
            for part in range(parts):
                free(recount.tables[part])
    for i in range(state.pairs.n):
        state.pairs.items[i].head = 0
    return 0
