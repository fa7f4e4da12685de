"""A priority queue of numbers, the least first: the merges of one piece as rank << 32 | position.

So the merge of the lowest rank is first, and of equal ones the leftmost. Training has a queue of its own, ordered by
its tie rule (`training/_pair_heap.pxd`).
"""

from bpe.base._memory cimport grow_array
from libc.stdint cimport uint64_t

cdef struct Queue:            # a binary heap; its owner sets it to NULL and zeros first, and frees `entries` last
    uint64_t* entries
    size_t n
    size_t capacity


cdef inline int push(Queue* queue, uint64_t entry) except -1 nogil:
    cdef size_t at = queue.n, parent
    queue.entries = <uint64_t*>grow_array(queue.entries, &queue.capacity, at + 1, sizeof(uint64_t))
    queue.n += 1
    while at > 0:
        parent = (at - 1) >> 1
        if queue.entries[parent] <= entry:
            break
        queue.entries[at] = queue.entries[parent]
        at = parent
    queue.entries[at] = entry
    return 0


cdef inline uint64_t pop(Queue* queue) noexcept nogil:
    cdef uint64_t top = queue.entries[0], entry
    cdef size_t at = 0, child
    queue.n -= 1
    entry = queue.entries[queue.n]
    while True:
        child = 2 * at + 1
        if child >= queue.n:
            break
        if child + 1 < queue.n and queue.entries[child + 1] < queue.entries[child]:
            child += 1
        if entry <= queue.entries[child]:
            break
        queue.entries[at] = queue.entries[child]
        at = child
    queue.entries[at] = entry
    return top
