"""Counting all pairs anew: what begins a training, and what happens whenever no tracked pair is left.

The highest count of all pairs never rises, and a pair's count is complete when it is born. So pairs below a threshold
need no entry in a table, no list of places and no place in the queue until everything above it has been merged: then
all is counted again, and the threshold falls. The result does not depend on thresholds. How low one may go is a
matter of the memory for lists.

While there are few tokens a table of all their pairs counts. Later a filter comes first: cells addressed by a hash of
the pair, each the sum of the counts of its pairs, hence at least the count of any of them. Only pairs whose cell
reaches the threshold are then counted one by one.

Several threads each count a part of the cells, into tables of their own, which are added up; their lists lie behind
each other in the order of the parts. So everything is as one thread would have it, the numbers of pairs included.

Every token is one cell wide here (`compact`), so that neighbours are cells side by side.

Measured, Japanese 60 MB, 32,000 tokens: 7.4 s with a list for every pair, 2.05 with thresholds, and a third of the
memory.
"""

from bpe.base._team cimport MOST_PARTS, Team, parts_worth
from bpe.base._types cimport NO_TOKEN, cell_t, count_t, token_t
from bpe.training._pair_merge cimport SPARE, Keep, Pool, is_kept
from bpe.training._pair_table cimport (
    NO_LIST, NO_PAIR, Pair, Pairs, add_pair, clear_pairs, enter_pair, find_pair, free_pairs, grow_slots, pair_hash,
    prefetch_pair,
)
from bpe.training._symbol_array cimport Symbols, class_of, id_t, part_start
from bpe.training._token_table cimport Tokens
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

cdef enum:
    BUCKETS = 58 * 64         # 64 to a power of two; counts below 128 have one each
    BLOCK = 128               # pairs looked up together
    PAIR_BYTES = 88           # what a tracked pair takes in the table and in the queue, about
    MOST_FILTER = 1 << 22     # cells of the filter: what stays in a level 3 cache

cdef struct Tally:            # a pair in the table of all pairs
    count_t count             # when lists are written: where in the pool its next place goes
    uint32_t n                # occurrences, each word counted once; then: how far to go on from there, 1 or 0

cdef struct Histogram:        # of pairs by their counts
    uint64_t pairs[BUCKETS]
    uint64_t places[BUCKETS]  # what their lists take

cdef struct Block:            # pairs of neighbours on their way to the table
    size_t n
    cell_t places[BLOCK]
    uint64_t hashes[BLOCK]
    count_t counts[BLOCK]     # of the word

cdef struct Reader:           # where among the cells a reader stands
    size_t at
    size_t end                # where its part ends
    size_t k                  # its class

cdef struct Job:              # a walk over all cells that is done in parts
    const Symbols* symbols
    const Tokens* tokens
    Pool* pool
    int parts
    Tally* tables[MOST_PARTS]
    size_t n_filter           # cells of the filter, a power of two
    const uint64_t* bits      # those that may reach the threshold
    Pairs* pairs[MOST_PARTS]  # what a part has counted: of part 0 in the end the whole


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


cdef count_t threshold_for(const Histogram* seen, const Pool* pool, const Plan* plan) noexcept nogil:
    """The threshold to take, given how many pairs there are by count and what their lists take.

    Half the pool is left to the lists of pairs that are born later. Pairs far below the best one are not worth
    tracking yet, nor are those that the merges still to be made will hardly reach.
    """
    cdef size_t bucket = BUCKETS
    cdef count_t best = 0, chosen = 0, reached = 0, lowest
    cdef uint64_t pairs = 0, places = 0
    while bucket > 1:
        bucket -= 1
        lowest = lowest_of(bucket)
        pairs += seen.pairs[bucket]
        places += seen.places[bucket]
        if seen.pairs[bucket] == 0 or lowest > plan.ceiling:
            continue                                   # above the ceiling are only pairs that must not be merged
        if best == 0:
            best = lowest
        elif pairs > pool.most_pairs // 2 or places > pool.size // 2 or lowest < max(best // plan.ratio, reached // 2):
            break
        chosen = lowest
        if reached == 0 and pairs >= plan.merges:
            reached = chosen
    return max(chosen, plan.floor)


cdef inline uint64_t listed(const Pool* pool, uint32_t n) noexcept nogil:
    """What the list of a pair takes of the pool: nothing if it is too long to be written."""
    return n if n <= pool.longest else 0


# Tracking -------------------------------------------------------------------------------------------------------------

cdef int choose_ranks(const Pairs* pairs, const Pool* pool, Keep* keep) except -1 nogil:
    """Where merges are given, track those that come next: as many as half the pool has room for."""
    cdef size_t n = keep.given.n - keep.first, rank, i
    cdef uint64_t places = 0
    cdef uint32_t* takes = <uint32_t*>calloc(n + 1, sizeof(uint32_t))
    cdef const Pair* pair
    if takes == NULL:
        with gil:
            raise MemoryError(f"no memory for {n} merges")
    for i in range(pairs.n):
        pair = &pairs.items[i]
        rank = find_pair(keep.given, pair.left, pair.right, pair_hash(pair.left, pair.right))
        if keep.first <= rank and rank < keep.given.n:
            takes[rank - keep.first] = <uint32_t>listed(pool, pair.n)
    i = 0
    while i < n and i < max(pool.most_pairs // 2, <size_t>1):
        places += takes[i]
        if places > pool.size // 2:
            break
        i += 1
    keep.limit = keep.first + max(i, <size_t>1)
    free(takes)
    return 0


cdef int choose_threshold(
    const Tokens* tokens, const Pairs* pairs, const Pool* pool, Keep* keep, const Plan* plan
) except -1 nogil:
    """Raise the threshold, now that counts are exact, until the lists fit."""
    cdef Histogram* seen = <Histogram*>calloc(1, sizeof(Histogram))
    cdef const Pair* pair
    cdef size_t i
    if seen == NULL:
        with gil:
            raise MemoryError("no memory to count pairs")
    for i in range(pairs.n):
        pair = &pairs.items[i]
        if is_kept(keep, tokens, pair.left, pair.right, pair.count):
            seen.pairs[bucket_of(pair.count)] += 1
            seen.places[bucket_of(pair.count)] += listed(pool, pair.n)
    keep.threshold = max(keep.threshold, threshold_for(seen, pool, plan))
    free(seen)
    return 0


cdef bint fits(
    const Tokens* tokens, const Pairs* pairs, const Pool* pool, const Keep* keep, count_t threshold
) noexcept nogil:
    """Whether the lists of the pairs from a threshold on fit in the pool."""
    cdef uint64_t places = 0
    cdef size_t i, n = 0
    cdef const Pair* pair
    for i in range(pairs.n):
        pair = &pairs.items[i]
        if pair.count >= threshold and is_kept(keep, tokens, pair.left, pair.right, pair.count):
            n += 1
            places += listed(pool, pair.n)
    return places <= pool.size and n <= pool.most_pairs


cdef int raise_threshold(const Tokens* tokens, const Pairs* pairs, const Pool* pool, Keep* keep) noexcept nogil:
    """Raise the threshold to the lowest that fits, by halving; to the best count, if none does.

    A bucket of the histogram holds counts that are alike within a 64th: where very many pairs are as frequent as each
    other, one bucket may be too much.
    """
    cdef count_t low = keep.threshold, high = low, middle
    cdef size_t i
    for i in range(pairs.n):
        high = max(high, pairs.items[i].count)
    while low < high:
        middle = low + (high - low) // 2
        if fits(tokens, pairs, pool, keep, middle):
            high = middle
        else:
            low = middle + 1
    keep.threshold = low
    return 0


cdef int track(const Tokens* tokens, Pairs* pairs, Pool* pool, Keep* keep, const Plan* plan) except -1 nogil:
    """Of the pairs counted keep those that are to be tracked, and make room for their lists."""
    cdef size_t i, n = pairs.n
    cdef uint64_t places = 0
    cdef Pair pair
    if keep.given != NULL:
        choose_ranks(pairs, pool, keep)
    else:
        choose_threshold(tokens, pairs, pool, keep, plan)
        if not plan.growing and not fits(tokens, pairs, pool, keep, keep.threshold):
            raise_threshold(tokens, pairs, pool, keep)
    clear_pairs(pairs)
    for i in range(n):
        pair = pairs.items[i]
        if not is_kept(keep, tokens, pair.left, pair.right, pair.count):
            continue
        if pair.n > pool.longest:
            pair.n = 0
        else:
            pair.places = places
            places += pair.n
        pairs.items[pairs.n] = pair
        enter_pair(pairs, pair_hash(pair.left, pair.right), pairs.n)
        pairs.n += 1
    fit(pairs, pool, places, plan)
    pool.n = places
    return 0


cdef int fit(const Pairs* pairs, Pool* pool, uint64_t places, const Plan* plan) except -1 nogil:
    """Hold lists of so many places; a threshold that may not be higher can ask for more than the pool has."""
    cdef void* moved
    if places <= pool.size and pairs.n <= pool.most_pairs:
        return 0
    if not plan.growing:
        with gil:
            raise ValueError(
                f"the pairs of the same count take {4 * places + PAIR_BYTES * pairs.n} bytes, more than the "
                f"{4 * pool.size + PAIR_BYTES * pool.most_pairs} bytes that training may use for them; raise max_memory"
            )
    pool.most_pairs = max(pool.most_pairs, 2 * pairs.n)
    if places > pool.size // 2:
        moved = realloc(pool.cells, (2 * places + MOST_PARTS * SPARE) * sizeof(cell_t))
        if moved == NULL:
            with gil:
                raise MemoryError(f"no memory for {places} places of pairs; train on less text at once")
        pool.cells = <cell_t*>moved
        pool.size = 2 * places
    return 0


# All pairs in one table -----------------------------------------------------------------------------------------------

cdef void tally_cells(const id_t* cells, Job* job, int part) noexcept nogil:
    cdef const Symbols* symbols = job.symbols
    cdef size_t i = part_start(symbols, part, job.parts), end = part_start(symbols, part + 1, job.parts)
    cdef size_t k = class_of(symbols, <cell_t>i, 0), n_tokens = job.tokens.n
    cdef count_t count
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    cdef Tally* table = job.tables[part]
    cdef Tally* tally
    while i < end:
        count = symbols.counts[k]
        for i in range(i, min(end, <size_t>symbols.starts[k + 1])):
            right = cells[i]
            if left != none and right != none:
                tally = &table[left * n_tokens + right]
                tally.count += count
                tally.n += 1
            left = right
        i += 1
        k += 1


cdef int tally_part(void* job, int part) except -1 nogil:
    """Count the pairs of a part in its table."""
    cdef const Symbols* symbols = (<Job*>job).symbols
    if symbols.wide:
        tally_cells(<const uint32_t*>symbols.cells, <Job*>job, part)
    else:
        tally_cells(<const uint16_t*>symbols.cells, <Job*>job, part)
    return 0


cdef void list_cells(const id_t* cells, Job* job, int part) noexcept nogil:
    cdef size_t i = part_start(job.symbols, part, job.parts), end = part_start(job.symbols, part + 1, job.parts)
    cdef size_t n_tokens = job.tokens.n
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    cdef Tally* table = job.tables[part]
    cdef Tally* tally
    cdef cell_t* pool = job.pool.cells
    for i in range(i, end):
        right = cells[i]
        if left != none and right != none:
            tally = &table[left * n_tokens + right]
            pool[tally.count] = <cell_t>(i - 1)
            tally.count += tally.n
        left = right


cdef int list_part(void* job, int part) except -1 nogil:
    """Write the places of every pair; those of one without a list all go to the same cell, which costs no branch."""
    cdef const Symbols* symbols = (<Job*>job).symbols
    if symbols.wide:
        list_cells(<const uint32_t*>symbols.cells, <Job*>job, part)
    else:
        list_cells(<const uint16_t*>symbols.cells, <Job*>job, part)
    return 0


cdef inline Tally tallied(const Job* job, size_t at) noexcept nogil:
    """What all parts have counted of the pair at a place of the tables."""
    cdef Tally total = job.tables[0][at]
    cdef int part
    for part in range(1, job.parts):
        total.count += job.tables[part][at].count
        total.n += job.tables[part][at].n
    return total


cdef inline bint is_counted(const Job* job, const Keep* keep, Tally total, size_t at) noexcept nogil:
    """Whether the pair at a place of the tables occurs and is to be tracked."""
    if total.count == 0:
        return False
    return is_kept(keep, job.tokens, <token_t>(at // job.tokens.n), <token_t>(at % job.tokens.n), total.count)


cdef int take_tables(Job* job) except -1 nogil:
    """A table for each part, but for parts whose tables would take more than the lists may, half as much."""
    cdef size_t n = job.tokens.n
    cdef int part
    job.parts = parts_worth(job.parts, job.pool.size * sizeof(cell_t) // (2 * n * n * sizeof(Tally)))
    for part in range(job.parts):
        job.tables[part] = <Tally*>calloc(n * n, sizeof(Tally))
        if job.tables[part] == NULL:
            with gil:
                raise MemoryError(f"no memory to count the pairs of {n} tokens")
    return 0


cdef void begin_lists(Job* job, const Pairs* pairs) noexcept nogil:
    """Make the tables say where the places of each pair go, those of a part behind those of the parts before it."""
    cdef size_t i, at, place
    cdef int part
    cdef Tally* tally
    for i in range(pairs.n):
        place = pairs.items[i].places
        at = pairs.items[i].left * job.tokens.n + pairs.items[i].right
        for part in range(job.parts if place != NO_LIST else 0):
            job.tables[part][at].count = -1 - <count_t>place
            place += job.tables[part][at].n
    for part in range(job.parts):
        for at in range(job.tokens.n * job.tokens.n):
            tally = &job.tables[part][at]
            tally.n = tally.count < 0
            tally.count = -1 - tally.count if tally.count < 0 else <count_t>(job.pool.size + part * SPARE)


cdef int recount_all(Job* job, Keep* keep, const Plan* plan, Team team) except -1 nogil:
    """Recount with a table of all pairs of tokens."""
    cdef size_t n = job.tokens.n, at
    cdef Histogram* seen = <Histogram*>calloc(1, sizeof(Histogram))
    cdef Tally total
    cdef token_t left, right
    cdef Pair* pair
    cdef Pairs* pairs = job.pairs[0]
    try:
        if seen == NULL:
            with gil:
                raise MemoryError("no memory to count pairs")
        take_tables(job)
        team.share(job.parts, tally_part, job)
        keep.threshold = 1
        for at in range(n * n):
            total = tallied(job, at)
            if is_counted(job, keep, total, at):
                seen.pairs[bucket_of(total.count)] += 1
                seen.places[bucket_of(total.count)] += listed(job.pool, total.n)
        keep.threshold = threshold_for(seen, job.pool, plan)
        for at in range(n * n):
            total = tallied(job, at)
            if is_counted(job, keep, total, at):
                left, right = <token_t>(at // n), <token_t>(at % n)
                pair = &pairs.items[add_pair(pairs, left, right, pair_hash(left, right))]
                pair.count, pair.n = total.count, total.n
        track(job.tokens, pairs, job.pool, keep, plan)
        begin_lists(job, pairs)
        team.share(job.parts, list_part, job)
    finally:
        free(seen)
    return 0


# With a filter --------------------------------------------------------------------------------------------------------

cdef void filter_cells(const id_t* cells, Job* job, int part) noexcept nogil:
    cdef const Symbols* symbols = job.symbols
    cdef size_t i = part_start(symbols, part, job.parts), end = part_start(symbols, part + 1, job.parts)
    cdef size_t k = class_of(symbols, <cell_t>i, 0), mask = job.n_filter - 1
    cdef uint32_t count, total
    cdef uint32_t* sums = <uint32_t*>job.pool.cells + part * job.n_filter
    cdef uint32_t* total_at
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    memset(sums, 0, job.n_filter * sizeof(uint32_t))
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


cdef int filter_part(void* job, int part) except -1 nogil:
    """Add the count of every pair of a part to its cell of a filter; sums stay at the greatest number that fits."""
    cdef const Symbols* symbols = (<Job*>job).symbols
    if symbols.wide:
        filter_cells(<const uint32_t*>symbols.cells, <Job*>job, part)
    else:
        filter_cells(<const uint16_t*>symbols.cells, <Job*>job, part)
    return 0


cdef void join_filters(Job* job) noexcept nogil:
    """Add the sums of all parts up in those of the first."""
    cdef uint32_t* sums = <uint32_t*>job.pool.cells
    cdef uint32_t* more
    cdef size_t i
    cdef int part
    for part in range(1, job.parts):
        more = sums + part * job.n_filter
        for i in range(job.n_filter):
            sums[i] = sums[i] + more[i] if sums[i] + more[i] >= more[i] else <uint32_t>0xFFFFFFFF


cdef uint64_t* filter_bits(Job* job, Keep* keep, const Plan* plan, Team team) except NULL nogil:
    """A bit per cell of the filter: set where a pair of this cell may reach the threshold, which is chosen here.

    The sums lie where the lists will be; when those are written, only the bits are needed.
    """
    cdef uint32_t* sums = <uint32_t*>job.pool.cells
    cdef count_t threshold
    cdef uint64_t hashed
    cdef uint64_t* bits = <uint64_t*>calloc(job.n_filter // 64, sizeof(uint64_t))
    cdef Histogram* seen = <Histogram*>calloc(1, sizeof(Histogram))
    cdef size_t i
    cdef int all_parts = job.parts
    if bits == NULL or seen == NULL:
        free(bits)
        free(seen)
        with gil:
            raise MemoryError("no memory to count pairs")
    if keep.given != NULL:
        free(seen)
        for i in range(keep.first, keep.given.n):
            hashed = pair_hash(keep.given.items[i].left, keep.given.items[i].right) >> 40 & (job.n_filter - 1)
            bits[hashed >> 6] |= <uint64_t>1 << (hashed & 63)
        return bits
    job.parts = parts_worth(job.parts, job.pool.size // job.n_filter)
    team.share(job.parts, filter_part, job)
    join_filters(job)
    job.parts = all_parts
    for i in range(job.n_filter):
        if sums[i] > 0:
            seen.pairs[bucket_of(sums[i])] += 1
    keep.threshold = threshold_for(seen, job.pool, plan)
    threshold = min(keep.threshold, <count_t>0xFFFFFFFF)
    for i in range(job.n_filter):
        if sums[i] >= threshold:
            bits[i >> 6] |= <uint64_t>1 << (i & 63)
    free(seen)
    return bits


cdef Reader begin_reading(const Job* job, int part) noexcept nogil:
    cdef Reader reader
    reader.at, reader.end = part_start(job.symbols, part, job.parts), part_start(job.symbols, part + 1, job.parts)
    reader.k = class_of(job.symbols, <cell_t>reader.at, 0)
    return reader


cdef void next_block(
    const id_t* cells, const Job* job, const Pairs* table, Reader* reader, Block* block
) noexcept nogil:
    """The next pairs of neighbours that pass the filter; their slots of the table are prefetched."""
    cdef const Symbols* symbols = job.symbols
    cdef const uint64_t* bits = job.bits
    cdef size_t i = reader.at, n = 0, mask = job.n_filter - 1
    cdef uint64_t hashed, cell
    cdef id_t left = cells[i - 1], right, none = <id_t>NO_TOKEN
    while i < reader.end and n < BLOCK:
        right = cells[i]
        if left != none and right != none:
            hashed = pair_hash(left, right)
            cell = hashed >> 40 & mask
            if bits[cell >> 6] >> (cell & 63) & 1:
                if i >= symbols.starts[reader.k + 1]:
                    reader.k = class_of(symbols, <cell_t>i, reader.k)
                block.places[n] = <cell_t>(i - 1)
                block.hashes[n] = hashed
                block.counts[n] = symbols.counts[reader.k]
                prefetch_pair(table, hashed)
                n += 1
        left = right
        i += 1
    reader.at = i
    block.n = n


cdef int count_filtered(const id_t* cells, Job* job, int part) except -1 nogil:
    cdef Reader reader = begin_reading(job, part)
    cdef Block block
    cdef size_t i
    cdef uint32_t number
    cdef Pairs* pairs = job.pairs[part]
    cdef Pair* pair
    cdef token_t left, right
    while reader.at < reader.end:
        next_block(cells, job, pairs, &reader, &block)
        for i in range(block.n):
            left, right = cells[block.places[i]], cells[block.places[i] + 1]
            number = find_pair(pairs, left, right, block.hashes[i])
            if number == NO_PAIR:
                number = add_pair(pairs, left, right, block.hashes[i])
            pair = &pairs.items[number]
            pair.count += block.counts[i]
            pair.n += 1
    return 0


cdef int count_part(void* job, int part) except -1 nogil:
    """Count the pairs of a part that pass the filter, one by one."""
    cdef const Symbols* symbols = (<Job*>job).symbols
    if symbols.wide:
        return count_filtered(<const uint32_t*>symbols.cells, <Job*>job, part)
    return count_filtered(<const uint16_t*>symbols.cells, <Job*>job, part)


cdef int join_counts(Job* job) except -1 nogil:
    """Add up in the first part's table what all have counted; a pair's `places` says how many are before its own.

    Pairs have the numbers that they would have had in one part: by their first places.
    """
    cdef Pairs* whole = job.pairs[0]
    cdef Pair* more
    cdef Pair* pair
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
            more.places = pair.n
            pair.count += more.count
            pair.n += more.n
    return 0


cdef void begin_part(const Pairs* whole, Pairs* pairs) noexcept nogil:
    """Make a part's table say where its places of each pair go."""
    cdef size_t i
    cdef uint32_t number
    cdef Pair* pair
    for i in range(pairs.n):
        pair = &pairs.items[i]
        number = find_pair(whole, pair.left, pair.right, pair_hash(pair.left, pair.right))
        if number == NO_PAIR or whole.items[number].places == NO_LIST:
            pair.places = NO_LIST
        else:
            pair.places += whole.items[number].places


cdef void list_filtered(const id_t* cells, Job* job, int part) noexcept nogil:
    """`head` of a pair serves as its cursor."""
    cdef Reader reader = begin_reading(job, part)
    cdef Block block
    cdef size_t i
    cdef uint32_t number
    cdef Pairs* pairs = job.pairs[part]
    cdef Pair* pair
    while reader.at < reader.end:
        next_block(cells, job, pairs, &reader, &block)
        for i in range(block.n):
            number = find_pair(pairs, cells[block.places[i]], cells[block.places[i] + 1], block.hashes[i])
            if number != NO_PAIR:
                pair = &pairs.items[number]
                if pair.places != NO_LIST:
                    job.pool.cells[pair.places + pair.head] = block.places[i]
                    pair.head += 1


cdef int list_filtered_part(void* job, int part) except -1 nogil:
    """Write the places of every tracked pair of a part."""
    cdef const Symbols* symbols = (<Job*>job).symbols
    if part > 0:
        begin_part((<Job*>job).pairs[0], (<Job*>job).pairs[part])
    if symbols.wide:
        list_filtered(<const uint32_t*>symbols.cells, <Job*>job, part)
    else:
        list_filtered(<const uint16_t*>symbols.cells, <Job*>job, part)
    return 0


cdef int recount_filtered(Job* job, Keep* keep, const Plan* plan, Team team) except -1 nogil:
    """Recount with a filter."""
    cdef Pairs others[MOST_PARTS]
    cdef int part
    cdef uint64_t* bits = NULL
    job.n_filter = 64
    while job.n_filter < MOST_FILTER and job.n_filter < job.symbols.n and job.n_filter * 2 <= job.pool.size:
        job.n_filter *= 2
    memset(others, 0, sizeof(others))
    try:
        for part in range(1, job.parts):
            job.pairs[part] = &others[part]
            grow_slots(job.pairs[part])
        job.bits = bits = filter_bits(job, keep, plan, team)
        team.share(job.parts, count_part, job)
        join_counts(job)
        track(job.tokens, job.pairs[0], job.pool, keep, plan)
        team.share(job.parts, list_filtered_part, job)
    finally:
        free(bits)
        for part in range(1, job.parts):
            free_pairs(&others[part])
    return 0


cdef int recount(
    const Symbols* symbols, const Tokens* tokens, Pairs* pairs, Pool* pool, Keep* keep, const Plan* plan, Team team,
    int parts,
) except -1 nogil:
    """Forget all pairs; count, choose a threshold (or, of merges given, how many) and list the places of pairs.

    Parts of the symbols are counted side by side, and what comes of it is the same for any number of them.
    """
    cdef Job job
    cdef size_t i
    cdef int part
    job.symbols, job.tokens, job.pool, job.parts = symbols, tokens, pool, parts
    job.pairs[0] = pairs
    memset(job.tables, 0, sizeof(job.tables))
    if pairs.n_slots == 0:
        grow_slots(pairs)
    clear_pairs(pairs)
    pool.n, pool.full = 0, False
    if keep.given != NULL:
        keep.limit = keep.given.n
    if symbols.n_classes == 0:
        keep.threshold = plan.floor
        return 0
    if tokens.n > plan.dense:
        recount_filtered(&job, keep, plan, team)
    else:
        try:
            recount_all(&job, keep, plan, team)
        finally:
            for part in range(parts):
                free(job.tables[part])
    for i in range(pairs.n):
        pairs.items[i].head = 0
    return 0
