"""Counting all pairs anew, which begins a training and follows whenever no tracked pair is left.

The highest count of all pairs never rises, and a new pair's count is complete when it first occurs. So pairs below a
threshold need no entry in a table, no list of positions and no place in the queue until everything above it has been
merged: then all pairs are counted again, and the threshold falls. An epoch lasts from one recount to the next. The
result does not depend on thresholds; how low one may be depends on the memory for lists.

While there are few tokens, a table of all their pairs counts (dense; without it training takes 6 to 66% longer). Later
a filter comes first: sums addressed by a hash of the pair, each the counts of all pairs with that hash, so at least the
count of any of them. Only pairs whose sum reaches the threshold are then counted one by one.

Several threads each count a part of the cells into tables of their own, which are added up; their positions follow each
other in the order of the parts. So everything is as one thread would have it, the numbers of pairs included.

Every token is one cell wide here (`compact`), so that neighbours are adjacent cells. Threshold epochs and the filter
are this project's own.

Cost: two walks over all cells per epoch, three with the filter.

Measured, Japanese 60 MB, 32,000 tokens: 7.4 s with a list for every pair, 2.05 with thresholds, and a third of the
memory.
"""

from bpe.base._memory cimport check_allocated
from bpe.base._team cimport MAX_PARTS, Team, count_parts
from bpe.base._types cimport NO_TOKEN, cell_t, count_t, token_t
from bpe.training._pair_merge cimport SPARE, Pool, TrainingState, is_tracked
from bpe.training._pair_table cimport (
    NO_LIST, NO_PAIR, TrackedPair, TrackedPairs, add_pair, clear_pairs, enter_pair, find_pair, free_pairs, grow_slots,
    has_pair, pair_hash, prefetch_pair,
)
from bpe.training._symbol_array cimport Symbols, class_of, id_t, part_start
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

cdef enum:
    BUCKETS = 58 * 64         # 64 to a power of two; counts below 128 have one each
    BLOCK = 128               # pairs looked up together
    PAIR_BYTES = 88           # what a tracked pair takes in the table and in the queue, about
    MAX_SUMS = 1 << 22       # of the filter: what stays in a level 3 cache

cdef struct Tally:            # a pair in the table of all pairs
    count_t count             # when lists are written: where in the pool its next position goes
    uint32_t n                # occurrences, each word counted once; then: how far the cursor moves, 1 or 0

cdef struct Histogram:        # of pairs by their counts
    uint64_t pairs[BUCKETS]
    uint64_t positions[BUCKETS]    # what their lists take

cdef struct PairBlock:        # pairs of neighbours on their way to the table
    size_t n
    cell_t positions[BLOCK]
    uint64_t hashes[BLOCK]
    count_t counts[BLOCK]     # of the word

cdef struct CellReader:
    size_t at
    size_t end                # where its part ends
    size_t k                  # its class
    size_t counted            # the last pair of equal tokens that adds to its count

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
    const uint64_t* bits      # the sums that may reach the threshold
    TrackedPairs* pairs[MAX_PARTS]    # what a part has counted; part 0's becomes the result


cdef inline bint may_track(const TrainingState* state, token_t left, token_t right, count_t count) noexcept nogil:
    """Whether a pair with this count is to be tracked: a refused one has had its turn."""
    return is_tracked(state, left, right, count) and not has_pair(&state.refused, left, right)


# Choosing a threshold -------------------------------------------------------------------------------------------------

cdef inline size_t bucket_of(count_t count) noexcept nogil:
    cdef int shift = 0
    while count >= 1 << 20:
        count >>= 8
        shift += 8
    while count >= 128:
        count >>= 1
        shift += 1
    return <size_t>(shift * 64 + count)


cdef inline count_t lowest_of(size_t bucket) noexcept nogil:
    """The lowest count of a bucket."""
    cdef size_t shift
    if bucket < 128:
        return <count_t>bucket
    shift = bucket // 64 - 1
    return <count_t>(bucket - shift * 64) << shift


cdef inline uint64_t list_size(const Pool* pool, uint32_t n) noexcept nogil:
    """What the list of a pair takes of the pool: nothing if it is too long to be written."""
    return n if n <= pool.longest else 0


cdef inline void add_to_histogram(Recount* job, count_t count, uint32_t n) noexcept nogil:
    cdef size_t bucket = bucket_of(count)
    job.histogram.pairs[bucket] += 1
    job.histogram.positions[bucket] += list_size(&job.state.pool, n)


cdef count_t threshold_of(Recount* job) noexcept nogil:
    """The threshold for the pairs in the histogram, which is empty afterwards.

    Half the pool is left to the lists of pairs that come up later. Pairs far below the best one are not worth tracking
    yet, nor are those that the remaining merges will hardly reach.
    """
    cdef const Pool* pool = &job.state.pool
    cdef const RecountPlan* plan = job.plan
    cdef size_t bucket = BUCKETS
    cdef count_t best = 0, chosen = 0, reached = 0, lowest
    cdef uint64_t pairs = 0, positions = 0
    if plan.track_all_pairs:
        memset(&job.histogram, 0, sizeof(Histogram))
        return plan.floor
    while bucket > 1:
        bucket -= 1
        lowest = lowest_of(bucket)
        pairs += job.histogram.pairs[bucket]
        positions += job.histogram.positions[bucket]
        if job.histogram.pairs[bucket] == 0 or lowest > plan.ceiling:
            continue                                   # above the ceiling are only pairs that must not be merged
        if best == 0:
            best = lowest
        elif (
            pairs > pool.max_pairs // 2 or positions > pool.size // 2 or lowest < max(best // plan.ratio, reached // 2)
        ):
            break
        chosen = lowest
        if reached == 0 and pairs >= plan.merges:
            reached = chosen
    memset(&job.histogram, 0, sizeof(Histogram))
    return max(chosen, plan.floor)


# Tracking -------------------------------------------------------------------------------------------------------------

cdef bint lists_fit(const Recount* job, count_t threshold) noexcept nogil:
    """Whether the lists of the pairs with at least this count fit in the pool."""
    cdef const Pool* pool = &job.state.pool
    cdef const TrackedPairs* pairs = job.pairs[0]
    cdef const TrackedPair* pair
    cdef uint64_t positions = 0
    cdef size_t i, n = 0
    for i in range(pairs.n):
        pair = &pairs.items[i]
        if pair.count >= threshold and may_track(job.state, pair.left, pair.right, pair.count):
            n += 1
            positions += list_size(pool, pair.n)
    return positions <= pool.size and n <= pool.max_pairs


cdef count_t find_lowest_threshold(const Recount* job, count_t low) noexcept nogil:
    """The lowest threshold from `low` on whose lists fit, by bisection; the best count, if none does.

    A bucket of the histogram holds counts that differ by up to a 64th: where very many pairs have almost the same
    count, one bucket may be too much.
    """
    cdef const TrackedPairs* pairs = job.pairs[0]
    cdef count_t high = low, middle
    cdef size_t i
    for i in range(pairs.n):
        if may_track(job.state, pairs.items[i].left, pairs.items[i].right, pairs.items[i].count):
            high = max(high, pairs.items[i].count)
    while low < high:
        middle = low + (high - low) // 2
        if lists_fit(job, middle):
            high = middle
        else:
            low = middle + 1
    return low


cdef int track(Recount* job) except -1 nogil:
    """Raise the threshold, now that counts are exact; keep the tracked pairs, and make room for their lists."""
    cdef TrainingState* state = job.state
    cdef TrackedPairs* pairs = &state.pairs
    cdef Pool* pool = &state.pool
    cdef size_t i, n = pairs.n
    cdef uint64_t positions = 0
    cdef TrackedPair pair
    for i in range(n):
        pair = pairs.items[i]
        if may_track(state, pair.left, pair.right, pair.count):
            add_to_histogram(job, pair.count, pair.n)
    state.policy.threshold = max(state.policy.threshold, threshold_of(job))
    if not job.plan.may_grow and not job.plan.track_all_pairs and not lists_fit(job, state.policy.threshold):
        state.policy.threshold = find_lowest_threshold(job, state.policy.threshold)
    clear_pairs(pairs)
    for i in range(n):
        pair = pairs.items[i]
        if not may_track(state, pair.left, pair.right, pair.count):
            continue
        if pair.n > pool.longest:
            pair.n = 0
        else:
            pair.list_start = positions
            positions += pair.n
        pairs.items[pairs.n] = pair
        enter_pair(pairs, pair_hash(pair.left, pair.right), pairs.n)
        pairs.n += 1
    pool.n = positions
    return grow_pool(state, job.plan)


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
        size = (2 * pool.n + MAX_PARTS * SPARE) * sizeof(cell_t)
        pool.cells = <cell_t*>check_allocated(realloc(pool.cells, size), pool.n, b"positions of pairs")
        pool.size = 2 * pool.n
    return 0


# All pairs in one table -----------------------------------------------------------------------------------------------

cdef inline bint adds_to_count(const Recount* job, size_t at, size_t* counted) noexcept nogil:
    """Whether a pair of equal tokens, the second of them at `at`, adds to its count: not if the pair before it did."""
    if job.state.policy.count_non_overlapping and counted[0] + 1 == at:
        return False
    counted[0] = at
    return True


cdef void count_dense(const id_t* cells, Recount* job, int part) noexcept nogil:
    """Count the pairs of a part in its table.

    Where pairs are counted without overlap, a pair of equal tokens that begins in a counted one adds nothing.
    """
    cdef const Symbols* symbols = &job.state.symbols
    cdef size_t i = part_start(symbols, part, job.parts), end = part_start(symbols, part + 1, job.parts)
    cdef size_t k = class_of(symbols, <cell_t>i, 0), n_tokens = job.state.tokens.n
    cdef count_t count
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    cdef Tally* table = job.tables[part]
    cdef Tally* tally
    cdef size_t counted = 0
    while i < end:
        count = symbols.counts[k]
        for i in range(i, min(end, <size_t>symbols.starts[k + 1])):
            right = cells[i]
            if left != none and right != none:
                tally = &table[left * n_tokens + right]
                tally.n += 1
                if left != right or adds_to_count(job, i, &counted):
                    tally.count += count
            left = right
        i += 1
        k += 1


cdef void list_dense(const id_t* cells, Recount* job, int part) noexcept nogil:
    """Write the positions of every pair; those of pairs without a list all go to the same cell, without a branch."""
    cdef const Symbols* symbols = &job.state.symbols
    cdef size_t i = part_start(symbols, part, job.parts), end = part_start(symbols, part + 1, job.parts)
    cdef size_t n_tokens = job.state.tokens.n
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    cdef Tally* table = job.tables[part]
    cdef Tally* tally
    cdef cell_t* pool = job.state.pool.cells
    for i in range(i, end):
        right = cells[i]
        if left != none and right != none:
            tally = &table[left * n_tokens + right]
            pool[tally.count] = <cell_t>(i - 1)
            tally.count += tally.n
        left = right


cdef inline Tally total_of(const Recount* job, size_t at) noexcept nogil:
    """What all parts have counted of a pair."""
    cdef Tally total = job.tables[0][at]
    cdef int part
    for part in range(1, job.parts):
        total.count += job.tables[part][at].count
        total.n += job.tables[part][at].n
    return total


cdef inline bint is_to_track(const Recount* job, const Tally* total, size_t at) noexcept nogil:
    """Whether a pair occurs and is to be tracked."""
    cdef size_t n = job.state.tokens.n
    return total.n > 0 and may_track(job.state, <token_t>(at // n), <token_t>(at % n), total.count)


cdef int take_tables(Recount* job) except -1 nogil:
    """A table for each part, but for no more parts than fit in half the memory of the lists."""
    cdef size_t n = job.state.tokens.n
    cdef int part
    job.parts = count_parts(job.parts, job.state.pool.size * sizeof(cell_t) // (2 * n * n * sizeof(Tally)))
    for part in range(job.parts):
        job.tables[part] = <Tally*>check_allocated(calloc(n * n, sizeof(Tally)), n * n, b"counts of pairs")
    return 0


cdef void begin_lists(Recount* job) noexcept nogil:
    """Turn the tables' counts into cursors: where the positions of each pair go, a part's after earlier parts'."""
    cdef const TrackedPairs* pairs = job.pairs[0]
    cdef size_t i, at, start, n = job.state.tokens.n
    cdef int part
    cdef Tally* tally
    for i in range(pairs.n):
        start = pairs.items[i].list_start
        at = pairs.items[i].left * n + pairs.items[i].right
        for part in range(job.parts if start != NO_LIST else 0):
            job.tables[part][at].count = -1 - <count_t>start
            start += job.tables[part][at].n
    for part in range(job.parts):
        for at in range(n * n):
            tally = &job.tables[part][at]
            tally.n = tally.count < 0
            tally.count = -1 - tally.count if tally.count < 0 else <count_t>(job.state.pool.size + part * SPARE)


cdef int recount_dense(Recount* job, Team team) except -1 nogil:
    """Recount with a table of all pairs of tokens."""
    cdef size_t n = job.state.tokens.n, at
    cdef Tally total
    cdef token_t left, right
    cdef TrackedPair* pair
    take_tables(job)
    walk_all(job, COUNT_DENSE, team)
    job.state.policy.threshold = 1
    for at in range(n * n):
        total = total_of(job, at)
        if is_to_track(job, &total, at):
            add_to_histogram(job, total.count, total.n)
    job.state.policy.threshold = threshold_of(job)
    for at in range(n * n):
        total = total_of(job, at)
        if is_to_track(job, &total, at):
            left, right = <token_t>(at // n), <token_t>(at % n)
            pair = &job.pairs[0].items[add_pair(job.pairs[0], left, right, pair_hash(left, right))]
            pair.count, pair.n = total.count, total.n
    track(job)
    begin_lists(job)
    return walk_all(job, LIST_DENSE, team)


# With a filter --------------------------------------------------------------------------------------------------------

cdef void filter_cells(const id_t* cells, Recount* job, int part) noexcept nogil:
    """Add the count of every pair of a part to its sum in a filter; sums stay at the greatest number that fits."""
    cdef const Symbols* symbols = &job.state.symbols
    cdef size_t i = part_start(symbols, part, job.parts), end = part_start(symbols, part + 1, job.parts)
    cdef size_t k = class_of(symbols, <cell_t>i, 0), mask = job.n_sums - 1
    cdef uint32_t count, total
    cdef uint32_t* sums = <uint32_t*>job.state.pool.cells + part * job.n_sums
    cdef uint32_t* total_at
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    memset(sums, 0, job.n_sums * sizeof(uint32_t))
    while i < end:
        count = <uint32_t>min(symbols.counts[k], <count_t>0xFFFFFFFF)
        for i in range(i, min(end, <size_t>symbols.starts[k + 1])):
            right = cells[i]
            if left != none and right != none:
                total_at = &sums[pair_hash(left, right) >> 40 & mask]
                total = total_at[0] + count
                total_at[0] = total if total >= count else <uint32_t>0xFFFFFFFF
            left = right
        i += 1
        k += 1


cdef uint64_t* make_filter(Recount* job, Team team) except NULL nogil:
    """A bit for each sum of the filter: set where a pair may reach the threshold, which is chosen here.

    The sums use the pool's memory; when lists are written there, only the bits are needed.
    """
    cdef uint32_t* sums = <uint32_t*>job.state.pool.cells
    cdef uint32_t* more
    cdef uint32_t threshold
    cdef uint64_t* bits = <uint64_t*>check_allocated(
        calloc(job.n_sums // 64, sizeof(uint64_t)), job.n_sums, b"bits of a filter"
    )
    cdef size_t i
    cdef int part, all_parts = job.parts
    job.parts = count_parts(all_parts, job.state.pool.size // job.n_sums)
    walk_all(job, FILTER, team)
    for part in range(1, job.parts):
        more = sums + part * job.n_sums
        for i in range(job.n_sums):
            sums[i] = sums[i] + more[i] if sums[i] + more[i] >= more[i] else <uint32_t>0xFFFFFFFF
    job.parts = all_parts
    for i in range(job.n_sums):
        if sums[i] > 0:
            add_to_histogram(job, sums[i], 0)
    job.state.policy.threshold = threshold_of(job)
    threshold = <uint32_t>min(job.state.policy.threshold, <count_t>0xFFFFFFFF)
    for i in range(job.n_sums):
        if sums[i] >= threshold:
            bits[i >> 6] |= <uint64_t>1 << (i & 63)
    return bits


cdef CellReader begin_reading(const Recount* job, int part) noexcept nogil:
    cdef const Symbols* symbols = &job.state.symbols
    cdef CellReader reader
    reader.at, reader.end = part_start(symbols, part, job.parts), part_start(symbols, part + 1, job.parts)
    reader.k, reader.counted = class_of(symbols, <cell_t>reader.at, 0), 0
    return reader


cdef void next_block(
    const id_t* cells, const Recount* job, const TrackedPairs* table, CellReader* reader, PairBlock* block
) noexcept nogil:
    """The next pairs of neighbours that pass the filter; their slots of the table are prefetched."""
    cdef const Symbols* symbols = &job.state.symbols
    cdef const uint64_t* bits = job.bits
    cdef size_t i = reader.at, n = 0, mask = job.n_sums - 1
    cdef uint64_t hashed, bit
    cdef id_t left = cells[i - 1], right, none = <id_t>NO_TOKEN
    while i < reader.end and n < BLOCK:
        right = cells[i]
        if left != none and right != none:
            hashed = pair_hash(left, right)
            bit = hashed >> 40 & mask
            if bits[bit >> 6] >> (bit & 63) & 1:
                if i >= symbols.starts[reader.k + 1]:
                    reader.k = class_of(symbols, <cell_t>i, reader.k)
                block.positions[n] = <cell_t>(i - 1)
                block.hashes[n] = hashed
                block.counts[n] = (
                    symbols.counts[reader.k] if left != right or adds_to_count(job, i, &reader.counted) else 0
                )
                prefetch_pair(table, hashed)
                n += 1
        left = right
        i += 1
    reader.at = i
    block.n = n


cdef int count_filtered(const id_t* cells, Recount* job, int part) except -1 nogil:
    """Count the pairs of a part that pass the filter, one by one."""
    cdef CellReader reader = begin_reading(job, part)
    cdef PairBlock block
    cdef size_t i
    cdef uint32_t number
    cdef TrackedPairs* pairs = job.pairs[part]
    cdef TrackedPair* pair
    cdef token_t left, right
    while reader.at < reader.end:
        next_block(cells, job, pairs, &reader, &block)
        for i in range(block.n):
            left, right = cells[block.positions[i]], cells[block.positions[i] + 1]
            number = find_pair(pairs, left, right, block.hashes[i])
            if number == NO_PAIR:
                number = add_pair(pairs, left, right, block.hashes[i])
            pair = &pairs.items[number]
            pair.count += block.counts[i]
            pair.n += 1
    return 0


cdef int add_parts(Recount* job) except -1 nogil:
    """Add what all parts have counted to the first's table; `list_start` says how many positions precede a part's own.

    Pairs get the numbers that they would have had in one part: by their first positions.
    """
    cdef TrackedPairs* whole = job.pairs[0]
    cdef TrackedPair* more
    cdef TrackedPair* pair
    cdef uint64_t hashed
    cdef uint32_t number
    cdef size_t i
    cdef int part
    for part in range(1, job.parts):
        for i in range(job.pairs[part].n):
            more = &job.pairs[part].items[i]
            hashed = pair_hash(more.left, more.right)
            number = find_pair(whole, more.left, more.right, hashed)
            if number == NO_PAIR:
                number = add_pair(whole, more.left, more.right, hashed)
            pair = &whole.items[number]
            more.list_start = pair.n
            pair.count += more.count
            pair.n += more.n
    return 0


cdef void begin_part(const TrackedPairs* whole, TrackedPairs* pairs) noexcept nogil:
    """Turn a part's table into cursors: where its positions of each pair go."""
    cdef size_t i
    cdef uint32_t number
    cdef TrackedPair* pair
    for i in range(pairs.n):
        pair = &pairs.items[i]
        number = find_pair(whole, pair.left, pair.right, pair_hash(pair.left, pair.right))
        if number == NO_PAIR or whole.items[number].list_start == NO_LIST:
            pair.list_start = NO_LIST
        else:
            pair.list_start += whole.items[number].list_start


cdef void list_filtered(const id_t* cells, Recount* job, int part) noexcept nogil:
    """Write the positions of every tracked pair of a part; `head` of a pair serves as its cursor."""
    cdef CellReader reader = begin_reading(job, part)
    cdef PairBlock block
    cdef size_t i
    cdef uint32_t number
    cdef TrackedPairs* pairs = job.pairs[part]
    cdef TrackedPair* pair
    if part > 0:
        begin_part(job.pairs[0], pairs)
    while reader.at < reader.end:
        next_block(cells, job, pairs, &reader, &block)
        for i in range(block.n):
            number = find_pair(pairs, cells[block.positions[i]], cells[block.positions[i] + 1], block.hashes[i])
            if number != NO_PAIR:
                pair = &pairs.items[number]
                if pair.list_start != NO_LIST:
                    job.state.pool.cells[pair.list_start + pair.head] = block.positions[i]
                    pair.head += 1


cdef int recount_filtered(Recount* job, Team team) except -1 nogil:
    """Recount with a filter."""
    cdef TrackedPairs others[MAX_PARTS]
    cdef int part
    cdef uint64_t* bits = NULL
    job.n_sums = 64
    while job.n_sums < MAX_SUMS and job.n_sums < job.state.symbols.n and job.n_sums * 2 <= job.state.pool.size:
        job.n_sums *= 2
    memset(others, 0, sizeof(others))
    try:
        for part in range(1, job.parts):
            job.pairs[part] = &others[part]
            grow_slots(job.pairs[part])
        job.bits = bits = make_filter(job, team)
        walk_all(job, COUNT_FILTERED, team)
        add_parts(job)
        track(job)
        walk_all(job, LIST_FILTERED, team)
    finally:
        free(bits)
        for part in range(1, job.parts):
            free_pairs(&others[part])
    return 0


# The whole ------------------------------------------------------------------------------------------------------------

cdef int walk_cells(const id_t* cells, Recount* job, int part) except -1 nogil:
    if job.walk == COUNT_DENSE:
        count_dense(cells, job, part)
    elif job.walk == LIST_DENSE:
        list_dense(cells, job, part)
    elif job.walk == FILTER:
        filter_cells(cells, job, part)
    elif job.walk == COUNT_FILTERED:
        count_filtered(cells, job, part)
    else:
        list_filtered(cells, job, part)
    return 0


cdef int walk_part(void* data, int part) except -1 nogil:
    cdef Recount* job = <Recount*>data
    if job.state.symbols.wide:
        return walk_cells(<const uint32_t*>job.state.symbols.cells, job, part)
    return walk_cells(<const uint16_t*>job.state.symbols.cells, job, part)


cdef int walk_all(Recount* job, Walk walk, Team team) except -1 nogil:
    """Walk over all cells, each part on a thread of its own."""
    job.walk = walk
    return team.share(job.parts, walk_part, job)


cdef int recount(TrainingState* state, const RecountPlan* plan, Team team, int parts) except -1 nogil:
    """Forget all pairs; count, choose a threshold and list the positions of the tracked pairs.

    The result is the same for any number of parts.
    """
    cdef Recount job
    cdef size_t i
    cdef int part
    memset(&job, 0, sizeof(Recount))
    job.state, job.plan, job.parts, job.pairs[0] = state, plan, parts, &state.pairs
    if state.pairs.n_slots == 0:
        grow_slots(&state.pairs)
    clear_pairs(&state.pairs)
    state.pool.n, state.pool.full = 0, False
    if state.symbols.n_classes == 0:
        state.policy.threshold = plan.floor
    elif state.tokens.n > plan.max_dense_tokens:
        recount_filtered(&job, team)
    else:
        try:
            recount_dense(&job, team)
        finally:
            for part in range(parts):
                free(job.tables[part])
    for i in range(state.pairs.n):
        state.pairs.items[i].head = 0
    return 0
