"""The trainer's priority queue: a binary heap of pairs, the greatest count first and ties in a total order.

The queue is lazy: an entry remembers the count that the pair had when it was pushed, and whoever pops it compares.
"""

from bpe.base._memory cimport grow_array
from bpe.base._types cimport count_t
from libc.stdint cimport uint32_t, uint64_t

cdef struct Entry:
    count_t count
    uint64_t key              # decides ties, smallest first, unless the heap has a `before` of its own
    uint32_t pair             # which pair this is

ctypedef bint (*before_t)(const void* context, const Entry* a, const Entry* b) noexcept nogil

cdef struct Heap:
    Entry* entries
    size_t size
    size_t capacity
    before_t before           # decides ties of the count where not NULL
    const void* context


cdef inline bint goes_before(const Heap* heap, const Entry* a, const Entry* b) noexcept nogil:
    """Whether a is popped before b: the order is total, so the result never depends on the order of pushes."""
    if a.count != b.count:
        return a.count > b.count
    if heap.before != NULL:
        return heap.before(heap.context, a, b)
    return a.key < b.key


cdef inline void sift_up(Heap* heap, size_t index, Entry entry) noexcept nogil:
    cdef size_t parent
    while index > 0:
        parent = (index - 1) >> 1
        if not goes_before(heap, &entry, &heap.entries[parent]):
            break
        heap.entries[index] = heap.entries[parent]
        index = parent
    heap.entries[index] = entry


cdef inline void sift_down(Heap* heap, size_t index, Entry entry) noexcept nogil:
    cdef size_t child
    while True:
        child = 2 * index + 1
        if child >= heap.size:
            break
        if child + 1 < heap.size and goes_before(heap, &heap.entries[child + 1], &heap.entries[child]):
            child += 1
        if not goes_before(heap, &heap.entries[child], &entry):
            break
        heap.entries[index] = heap.entries[child]
        index = child
    heap.entries[index] = entry


cdef inline int push(Heap* heap, Entry entry) except -1 nogil:
    heap.entries = <Entry*>grow_array(heap.entries, &heap.capacity, heap.size + 1, sizeof(Entry))
    heap.size += 1
    sift_up(heap, heap.size - 1, entry)
    return 0


cdef inline Entry pop(Heap* heap) noexcept nogil:
    """Remove and return the first entry of a heap that is not empty."""
    cdef Entry top = heap.entries[0]
    heap.size -= 1
    if heap.size > 0:
        sift_down(heap, 0, heap.entries[heap.size])
    return top


cdef inline int heapify(Heap* heap) noexcept nogil:
    """Put entries that were not pushed in order."""
    cdef size_t index = heap.size // 2
    while index > 0:
        index -= 1
        sift_down(heap, index, heap.entries[index])
    return 0
