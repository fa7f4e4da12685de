"""The table of the pairs that a training tracks: their counts and the positions of their occurrences.

Only pairs that may be merged before the next recount are here; the others cost nothing.
"""

from bpe.base._memory cimport grow_array, hash_two, prefetch
from bpe.base._types cimport count_t, token_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef extern from *:
    """
    #define BPE_NO_PAIR UINT32_MAX
    #define BPE_NO_LIST SIZE_MAX
    """
    const uint32_t NO_PAIR "BPE_NO_PAIR"     # no such pair
    const size_t NO_LIST "BPE_NO_LIST"       # a pair without a list: its occurrences are found by reading all cells

cdef struct TrackedPair:
    token_t left
    token_t right
    count_t count             # exact; it only falls
    size_t list_start         # where in the pool its list begins, or NO_LIST
    uint32_t n                # positions in the list: first cells of its occurrences, ascending, some of them stale
    uint32_t head             # those before this one are stale

cdef struct TrackedPairs:
    TrackedPair* items
    size_t n
    size_t capacity
    uint64_t* slots           # (hash's upper half << 32 | pair id + 1), 0 where empty
    size_t n_slots            # a power of two, or 0


cdef inline uint64_t hash_pair(token_t left, token_t right) noexcept nogil:
    return hash_two(left, right)


cdef inline void prefetch_pair(const TrackedPairs* pairs, uint64_t pair_hash) noexcept nogil:
    prefetch(&pairs.slots[pair_hash & (pairs.n_slots - 1)])


cdef inline uint32_t find_pair(
    const TrackedPairs* pairs, token_t left, token_t right, uint64_t pair_hash
) noexcept nogil:
    """Find the id of a pair, its index in `items`, or NO_PAIR."""
    cdef size_t mask = pairs.n_slots - 1, index = pair_hash & mask
    cdef uint64_t slot = pairs.slots[index]
    cdef const TrackedPair* pair
    while slot != 0:
        if (slot ^ pair_hash) >> 32 == 0:
            pair = &pairs.items[<uint32_t>slot - 1]
            if pair.left == left and pair.right == right:
                return <uint32_t>slot - 1
        index = (index + 1) & mask
        slot = pairs.slots[index]
    return NO_PAIR


cdef inline void subtract_pair_count(TrackedPairs* pairs, token_t left, token_t right, count_t count) noexcept nogil:
    cdef uint32_t pair_id = find_pair(pairs, left, right, hash_pair(left, right))
    if pair_id != NO_PAIR:
        pairs.items[pair_id].count -= count


cdef inline bint has_pair(const TrackedPairs* pairs, token_t left, token_t right) noexcept nogil:
    return pairs.n > 0 and find_pair(pairs, left, right, hash_pair(left, right)) != NO_PAIR


cdef inline void enter_pair(TrackedPairs* pairs, uint64_t pair_hash, size_t pair_id) noexcept nogil:
    cdef size_t mask = pairs.n_slots - 1, index = pair_hash & mask
    while pairs.slots[index] != 0:
        index = (index + 1) & mask
    pairs.slots[index] = (pair_hash >> 32 << 32) | (pair_id + 1)


cdef inline int grow_slots(TrackedPairs* pairs) except -1 nogil:
    cdef size_t i, n_larger = max(pairs.n_slots * 2, <size_t>1 << 10)
    cdef uint64_t* slots = <uint64_t*>calloc(n_larger, sizeof(uint64_t))
    if slots == NULL or pairs.n >= NO_PAIR - 1:
        free(slots)
        with gil:
            raise MemoryError(f"no memory for {n_larger} slots of the pair table; train on less text at once")
    free(pairs.slots)
    pairs.slots, pairs.n_slots = slots, n_larger
    for i in range(pairs.n):
        enter_pair(pairs, hash_pair(pairs.items[i].left, pairs.items[i].right), i)
    return 0


cdef inline uint32_t add_pair(
    TrackedPairs* pairs, token_t left, token_t right, uint64_t pair_hash
) except? 0xFFFFFFFF nogil:
    """Add a pair, which has no occurrences yet, and return its id."""
    cdef TrackedPair* pair
    if (pairs.n + 1) * 2 > pairs.n_slots:
        grow_slots(pairs)
    pairs.items = <TrackedPair*>grow_array(pairs.items, &pairs.capacity, pairs.n + 1, sizeof(TrackedPair))
    pair = &pairs.items[pairs.n]
    memset(pair, 0, sizeof(TrackedPair))
    pair.left, pair.right, pair.list_start = left, right, NO_LIST
    enter_pair(pairs, pair_hash, pairs.n)
    pairs.n += 1
    return <uint32_t>(pairs.n - 1)


cdef inline void clear_pairs(TrackedPairs* pairs) noexcept nogil:
    """Forget all pairs; their memory stays."""
    pairs.n = 0
    if pairs.n_slots > 0:
        memset(pairs.slots, 0, pairs.n_slots * sizeof(uint64_t))


cdef inline void free_pairs(TrackedPairs* pairs) noexcept nogil:
    free(pairs.items)
    free(pairs.slots)
