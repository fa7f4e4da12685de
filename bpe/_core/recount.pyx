"""Counting all pairs anew: what begins a training, and what happens whenever no tracked pair is left.

The highest count of all pairs never rises, and a pair's count is complete when it is born. So pairs below a threshold
need no entry in a table, no list of places and no place in the queue until everything above it has been merged: then
all is counted again, and the threshold falls. The result does not depend on thresholds. How low one may go is a
matter of the memory for lists.

While there are few tokens a table of all their pairs counts. Later a filter comes first: cells addressed by a hash of
the pair, each the sum of the counts of its pairs, hence at least the count of any of them. Only pairs whose cell
reaches the threshold are then counted one by one.

Every token is one cell wide here (`compact`), so that neighbours are cells side by side.
"""

from bpe._core.applying cimport Keep, Pool, is_kept
from bpe._core.pairs cimport (
    NO_LIST, NO_PAIR, Pair, Pairs, add_pair, clear_pairs, enter_pair, find_pair, grow_slots, pair_hash, prefetch_pair,
)
from bpe._core.symbols cimport Symbols, class_of, id_t
from bpe._core.tokens cimport Tokens
from bpe._core.types cimport NO_TOKEN, cell_t, count_t, token_t
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
    size_t k                  # its class


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
        moved = realloc(pool.cells, (2 * places + 1) * sizeof(cell_t))
        if moved == NULL:
            with gil:
                raise MemoryError(f"no memory for {places} places of pairs; train on less text at once")
        pool.cells = <cell_t*>moved
        pool.size = 2 * places
    return 0


# All pairs in one table -----------------------------------------------------------------------------------------------

cdef void tally_all(const id_t* cells, const Symbols* symbols, Tally* table, size_t n_tokens) noexcept nogil:
    cdef size_t k, i
    cdef count_t count
    cdef id_t left, right, none = <id_t>NO_TOKEN
    cdef Tally* tally
    for k in range(symbols.n_classes):
        count = symbols.counts[k]
        left = none
        for i in range(symbols.starts[k], symbols.starts[k + 1]):
            right = cells[i]
            if left != none and right != none:
                tally = &table[left * n_tokens + right]
                tally.count += count
                tally.n += 1
            left = right


cdef void list_tallied(
    const id_t* cells, const Symbols* symbols, Tally* table, size_t n_tokens, cell_t* pool
) noexcept nogil:
    """Write the places of every pair; those of one without a list all go to the same cell, which costs no branch."""
    cdef size_t i
    cdef id_t left = <id_t>NO_TOKEN, right, none = <id_t>NO_TOKEN
    cdef Tally* tally
    for i in range(1, symbols.n):
        right = cells[i]
        if left != none and right != none:
            tally = &table[left * n_tokens + right]
            pool[tally.count] = <cell_t>(i - 1)
            tally.count += tally.n
        left = right


cdef inline bint is_counted(
    const Keep* keep, const Tokens* tokens, const Tally* tally, size_t at, size_t n_tokens
) noexcept nogil:
    """Whether the pair at a place of the table occurs and is to be tracked."""
    if tally.count == 0:
        return False
    return is_kept(keep, tokens, <token_t>(at // n_tokens), <token_t>(at % n_tokens), tally.count)


cdef int recount_all(
    const id_t* cells, const Symbols* symbols, const Tokens* tokens, Pairs* pairs, Pool* pool, Keep* keep,
    const Plan* plan,
) except -1 nogil:
    """Recount with a table of all pairs of tokens."""
    cdef size_t n = tokens.n, i
    cdef Histogram* seen = <Histogram*>calloc(1, sizeof(Histogram))
    cdef Tally* table = <Tally*>calloc(n * n, sizeof(Tally))
    cdef Tally* tally
    cdef token_t left, right
    cdef Pair* pair
    try:
        if table == NULL or seen == NULL:
            with gil:
                raise MemoryError(f"no memory to count the pairs of {n} tokens")
        tally_all(cells, symbols, table, n)
        keep.threshold = 1
        for i in range(n * n):
            if is_counted(keep, tokens, &table[i], i, n):
                seen.pairs[bucket_of(table[i].count)] += 1
                seen.places[bucket_of(table[i].count)] += listed(pool, table[i].n)
        keep.threshold = threshold_for(seen, pool, plan)
        for i in range(n * n):
            if is_counted(keep, tokens, &table[i], i, n):
                left, right = <token_t>(i // n), <token_t>(i % n)
                pair = &pairs.items[add_pair(pairs, left, right, pair_hash(left, right))]
                pair.count, pair.n = table[i].count, table[i].n
        track(tokens, pairs, pool, keep, plan)
        for i in range(n * n):
            table[i].count, table[i].n = <count_t>pool.size, 0
        for i in range(pairs.n):
            pair = &pairs.items[i]
            if pair.places != NO_LIST:
                tally = &table[pair.left * n + pair.right]
                tally.count, tally.n = <count_t>pair.places, 1
        list_tallied(cells, symbols, table, n, pool.cells)
    finally:
        free(table)
        free(seen)
    return 0


# With a filter --------------------------------------------------------------------------------------------------------

cdef void add_to_filter(
    const id_t* cells, const Symbols* symbols, uint32_t* sums, size_t mask
) noexcept nogil:
    """Add every pair's count to its cell of the filter; sums stay at the greatest number that fits."""
    cdef size_t k, i
    cdef uint32_t count, total
    cdef uint32_t* total_at
    cdef id_t left, right, none = <id_t>NO_TOKEN
    for k in range(symbols.n_classes):
        count = <uint32_t>min(symbols.counts[k], <count_t>0xFFFFFFFF)
        left = none
        for i in range(symbols.starts[k], symbols.starts[k + 1]):
            right = cells[i]
            if left != none and right != none:
                total_at = &sums[pair_hash(left, right) >> 40 & mask]
                total = total_at[0] + count
                total_at[0] = total if total >= count else <uint32_t>0xFFFFFFFF
            left = right


cdef uint64_t* filter_bits(
    const id_t* cells, const Symbols* symbols, const Pool* pool, Keep* keep, const Plan* plan, size_t n_filter
) except NULL nogil:
    """A bit per cell of the filter: set where a pair of this cell may reach the threshold, which is chosen here.

    The sums lie where the lists will be; when those are written, only the bits are needed.
    """
    cdef uint32_t* sums = <uint32_t*>pool.cells
    cdef count_t threshold
    cdef uint64_t hashed
    cdef uint64_t* bits = <uint64_t*>calloc(n_filter // 64, sizeof(uint64_t))
    cdef Histogram* seen = <Histogram*>calloc(1, sizeof(Histogram))
    cdef size_t i
    if bits == NULL or seen == NULL:
        free(bits)
        free(seen)
        with gil:
            raise MemoryError("no memory to count pairs")
    if keep.given != NULL:
        free(seen)
        for i in range(keep.first, keep.given.n):
            hashed = pair_hash(keep.given.items[i].left, keep.given.items[i].right) >> 40 & (n_filter - 1)
            bits[hashed >> 6] |= <uint64_t>1 << (hashed & 63)
        return bits
    memset(sums, 0, n_filter * sizeof(uint32_t))
    add_to_filter(cells, symbols, sums, n_filter - 1)
    for i in range(n_filter):
        if sums[i] > 0:
            seen.pairs[bucket_of(sums[i])] += 1
    keep.threshold = threshold_for(seen, pool, plan)
    threshold = min(keep.threshold, <count_t>0xFFFFFFFF)
    for i in range(n_filter):
        if sums[i] >= threshold:
            bits[i >> 6] |= <uint64_t>1 << (i & 63)
    free(seen)
    return bits


cdef void next_block(
    const id_t* cells, const Symbols* symbols, const uint64_t* bits, size_t mask, const Pairs* table, Reader* reader,
    Block* block,
) noexcept nogil:
    """The next pairs of neighbours that pass the filter; their slots of the table are prefetched."""
    cdef size_t i = reader.at, n = 0
    cdef uint64_t hashed, cell
    cdef id_t left = cells[i - 1], right, none = <id_t>NO_TOKEN
    while i < symbols.n and n < BLOCK:
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


cdef int count_filtered(
    const id_t* cells, const Symbols* symbols, const Tokens* tokens, const uint64_t* bits, size_t mask, Pairs* pairs,
    const Keep* keep,
) except -1 nogil:
    """Count the pairs that pass the filter one by one."""
    cdef Reader reader
    cdef Block block
    cdef size_t i
    cdef uint32_t number
    cdef Pair* pair
    cdef token_t left, right
    reader.at, reader.k = 1, 0
    while reader.at < symbols.n:
        next_block(cells, symbols, bits, mask, pairs, &reader, &block)
        for i in range(block.n):
            left, right = cells[block.places[i]], cells[block.places[i] + 1]
            number = find_pair(pairs, left, right, block.hashes[i])
            if number == NO_PAIR:
                number = add_pair(pairs, left, right, block.hashes[i])
            pair = &pairs.items[number]
            pair.count += block.counts[i]
            pair.n += 1
    return 0


cdef void list_filtered(
    const id_t* cells, const Symbols* symbols, const uint64_t* bits, size_t mask, Pairs* pairs, cell_t* pool
) noexcept nogil:
    """Write the places of every tracked pair; `head` of a pair serves as its cursor."""
    cdef Reader reader
    cdef Block block
    cdef size_t i
    cdef uint32_t number
    cdef Pair* pair
    reader.at, reader.k = 1, 0
    while reader.at < symbols.n:
        next_block(cells, symbols, bits, mask, pairs, &reader, &block)
        for i in range(block.n):
            number = find_pair(pairs, cells[block.places[i]], cells[block.places[i] + 1], block.hashes[i])
            if number != NO_PAIR:
                pair = &pairs.items[number]
                if pair.places != NO_LIST:
                    pool[pair.places + pair.head] = block.places[i]
                    pair.head += 1


cdef int recount_filtered(
    const id_t* cells, const Symbols* symbols, const Tokens* tokens, Pairs* pairs, Pool* pool, Keep* keep,
    const Plan* plan,
) except -1 nogil:
    """Recount with a filter."""
    cdef size_t n_filter = 64
    cdef uint64_t* bits = NULL
    while n_filter < MOST_FILTER and n_filter < symbols.n and n_filter * 2 <= pool.size:
        n_filter *= 2
    try:
        bits = filter_bits(cells, symbols, pool, keep, plan, n_filter)
        count_filtered(cells, symbols, tokens, bits, n_filter - 1, pairs, keep)
        track(tokens, pairs, pool, keep, plan)
        list_filtered(cells, symbols, bits, n_filter - 1, pairs, pool.cells)
    finally:
        free(bits)
    return 0


cdef int recount(
    const Symbols* symbols, const Tokens* tokens, Pairs* pairs, Pool* pool, Keep* keep, const Plan* plan
) except -1 nogil:
    """Forget all pairs; count, choose a threshold (or, of merges given, how many) and list the places of pairs."""
    cdef size_t i
    if pairs.n_slots == 0:
        grow_slots(pairs)
    clear_pairs(pairs)
    pool.n, pool.full = 0, False
    if keep.given != NULL:
        keep.limit = keep.given.n
    if tokens.n <= plan.dense:
        if symbols.wide:
            recount_all(<const uint32_t*>symbols.cells, symbols, tokens, pairs, pool, keep, plan)
        else:
            recount_all(<const uint16_t*>symbols.cells, symbols, tokens, pairs, pool, keep, plan)
    elif symbols.wide:
        recount_filtered(<const uint32_t*>symbols.cells, symbols, tokens, pairs, pool, keep, plan)
    else:
        recount_filtered(<const uint16_t*>symbols.cells, symbols, tokens, pairs, pool, keep, plan)
    for i in range(pairs.n):
        pairs.items[i].head = 0
    return 0
