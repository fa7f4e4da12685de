"""The trainer's priority queue: a binary heap of pairs, the greatest count first and ties in a total order.

The queue is lazy: an entry remembers the count that the pair had when it was pushed, and whoever pops it compares. Not
here: what a pair is.
"""

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
    size_t room
    before_t before           # decides ties of the count where not NULL
    const void* context

cdef int push(Heap* heap, Entry entry) except -1 nogil
cdef Entry pop(Heap* heap) noexcept nogil          # of a heap that is not empty
cdef int heapify(Heap* heap) noexcept nogil        # after entries were put in without push
