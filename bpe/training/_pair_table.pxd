"""The table of the pairs that a training tracks: their counts and the places where they occur.

Only pairs that may be merged before the next recount are here; the others cost nothing.
"""

from bpe.base._memory cimport grown, mix, prefetch
from bpe.base._types cimport cell_t, count_t, token_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef extern from *:
    """
    #define BPE_NO_PAIR UINT32_MAX
    #define BPE_NO_LIST SIZE_MAX
    """
    const uint32_t NO_PAIR "BPE_NO_PAIR"     # no such pair
    const size_t NO_LIST "BPE_NO_LIST"       # a pair whose places are not listed: they are found by reading all cells

cdef struct Pair:
    token_t left
    token_t right
    count_t count             # exact; it only falls
    size_t places             # where in the pool its list begins, or NO_LIST
    uint32_t n                # places in the list: first cells of its occurrences, ascending, stale ones among them
    uint32_t head             # those before this one are stale

cdef struct Pairs:
    Pair* items
    size_t n
    size_t room
    uint64_t* slots           # (hash's upper half << 32 | number + 1), 0 where empty
    size_t n_slots            # a power of two, or 0


cdef inline uint64_t pair_hash(token_t left, token_t right) noexcept nogil:
    return mix((<uint64_t>left << 32 | right) ^ <uint64_t>0xE7037ED1A0B428DB, <uint64_t>0x9E3779B97F4A7C15)


cdef inline void prefetch_pair(const Pairs* pairs, uint64_t hashed) noexcept nogil:
    prefetch(&pairs.slots[hashed & (pairs.n_slots - 1)])


cdef inline uint32_t find_pair(const Pairs* pairs, token_t left, token_t right, uint64_t hashed) noexcept nogil:
    """The number of a pair, or NO_PAIR."""
    cdef size_t mask = pairs.n_slots - 1, at = hashed & mask
    cdef uint64_t slot = pairs.slots[at]
    cdef const Pair* pair
    while slot != 0:
        if (slot ^ hashed) >> 32 == 0:
            pair = &pairs.items[<uint32_t>slot - 1]
            if pair.left == left and pair.right == right:
                return <uint32_t>slot - 1
        at = (at + 1) & mask
        slot = pairs.slots[at]
    return NO_PAIR


cdef inline void enter_pair(Pairs* pairs, uint64_t hashed, size_t number) noexcept nogil:
    cdef size_t mask = pairs.n_slots - 1, at = hashed & mask
    while pairs.slots[at] != 0:
        at = (at + 1) & mask
    pairs.slots[at] = (hashed >> 32 << 32) | (number + 1)


cdef inline int grow_slots(Pairs* pairs) except -1 nogil:
    cdef size_t i, larger = max(pairs.n_slots * 2, <size_t>1 << 10)
    cdef uint64_t* slots = <uint64_t*>calloc(larger, sizeof(uint64_t))
    if slots == NULL or pairs.n >= NO_PAIR - 1:
        free(slots)
        with gil:
            raise MemoryError(f"no memory for {larger} slots of the pair table; train on less text at once")
    free(pairs.slots)
    pairs.slots, pairs.n_slots = slots, larger
    for i in range(pairs.n):
        enter_pair(pairs, pair_hash(pairs.items[i].left, pairs.items[i].right), i)
    return 0


cdef inline uint32_t add_pair(Pairs* pairs, token_t left, token_t right, uint64_t hashed) except? 0xFFFFFFFF nogil:
    """The number of a new pair, which has no occurrences yet."""
    cdef Pair* pair
    if (pairs.n + 1) * 2 > pairs.n_slots:
        grow_slots(pairs)
    pairs.items = <Pair*>grown(pairs.items, &pairs.room, pairs.n + 1, sizeof(Pair))
    pair = &pairs.items[pairs.n]
    memset(pair, 0, sizeof(Pair))
    pair.left, pair.right, pair.places = left, right, NO_LIST
    enter_pair(pairs, hashed, pairs.n)
    pairs.n += 1
    return <uint32_t>(pairs.n - 1)


cdef inline void clear_pairs(Pairs* pairs) noexcept nogil:
    """Forget all pairs; their memory stays."""
    pairs.n = 0
    if pairs.n_slots > 0:
        memset(pairs.slots, 0, pairs.n_slots * sizeof(uint64_t))


cdef inline void free_pairs(Pairs* pairs) noexcept nogil:
    free(pairs.items)
    free(pairs.slots)
