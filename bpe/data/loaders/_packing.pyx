"""Packing documents into rows: best fit, and best fit with cropping."""

import numpy as np

from libc.stdint cimport int64_t


cdef class Queues:
    """First-in, first-out queues of items by size: of rows by the room that they have left, of documents by length.

    A segment tree over the sizes finds the next one that has items: O(log of the largest size) for each operation.
    """
    cdef int64_t leaves                # a power of two, more than the largest size
    cdef char[::1] tree                # node i has the children 2i and 2i + 1: whether a queue below it has items
    cdef int64_t[::1] heads, tails     # the oldest and the newest item of each size
    cdef int64_t[::1] next             # the item after each item

    def __cinit__(self, int64_t max_size, Py_ssize_t n):
        self.leaves = 1 << int(max_size).bit_length()
        self.tree = np.zeros(2 * self.leaves, dtype=np.int8)
        self.heads, self.tails, self.next = (np.zeros(size, dtype=np.int64) for size in (max_size + 1, max_size + 1, n))

    cdef void push(self, int64_t size, int64_t item) noexcept nogil:
        cdef int64_t node = size + self.leaves
        if self.tree[node]:
            self.next[self.tails[size]] = item
        else:
            self.heads[size] = item
        self.tails[size] = item
        while node and not self.tree[node]:
            self.tree[node] = 1
            node >>= 1

    cdef int64_t pop(self, int64_t size) noexcept nogil:
        """Remove and return the oldest item of a size that has one."""
        cdef int64_t item = self.heads[size], node = size + self.leaves
        if item != self.tails[size]:
            self.heads[size] = self.next[item]
            return item
        self.tree[node] = 0
        while node > 1 and not self.tree[node ^ 1]:
            node >>= 1
            self.tree[node] = 0
        return item

    cdef int64_t nearest(self, int64_t size, bint up) noexcept nogil:
        """Find the smallest size with items from `size` upwards, or the largest downwards; -1 if there is none."""
        cdef int64_t node = size + self.leaves
        if self.tree[node]:
            return size
        while node > 1 and ((node & 1) == up or not self.tree[node ^ 1]):   # until a sibling on that side has items
            node >>= 1
        if node <= 1:
            return -1
        node ^= 1
        while node < self.leaves:
            node = 2 * node + (not up)
            if not self.tree[node]:
                node ^= 1
        return node - self.leaves


def best_fit(
    const int64_t[::1] lengths,        # IN of the documents, in decreasing order, each from 1 to `capacity`
    int64_t capacity,                  # ids in a row
    int64_t[::1] rows,                 # OUT the row of each document
):
    """Put each document into the fullest row that has room for it; of several, the one that has had it longest."""
    cdef int64_t n = lengths.shape[0], i, size, row, n_rows = 0
    cdef Queues queues = make_queues(lengths, capacity, rows.shape[0])
    with nogil:
        for i in range(n):
            size = queues.nearest(lengths[i], True)
            if size < 0:
                size, row = capacity, n_rows
                n_rows += 1
            else:
                row = queues.pop(size)
            rows[i] = row
            if size > lengths[i]:
                queues.push(size - lengths[i], row)
    return n_rows


def best_fit_crop(
    const int64_t[::1] lengths,        # IN of the documents, each from 1 to `capacity`
    int64_t capacity,                  # ids in a row
    int64_t[:, ::1] placed,            # OUT of each that is placed: document; row; ids kept
):
    """Fill each row with the longest document left that fits; crop the shortest to close a gap.

    Of equally long documents, the first is taken.
    """
    cdef int64_t n = lengths.shape[0], i, size, left = capacity, row = 0
    cdef Queues queues = make_queues(lengths, capacity, placed.shape[0] if placed.shape[1] == 3 else -1)
    with nogil:
        for i in range(n):
            queues.push(lengths[i], i)
        for i in range(n):
            size = queues.nearest(left, False)
            if size < 0:
                size = queues.nearest(left, True)
            placed[i, 0], placed[i, 1], placed[i, 2] = queues.pop(size), row, min(size, left)
            left -= placed[i, 2]
            if left == 0:
                left, row = capacity, row + 1
    return row + (left < capacity)


cdef Queues make_queues(const int64_t[::1] lengths, int64_t capacity, int64_t outputs):
    """Make empty queues for documents; ValueError unless the lengths and the output suit."""
    if outputs < lengths.shape[0] or lengths.shape[0] and not 1 <= np.min(lengths) <= np.max(lengths) <= capacity:
        raise ValueError(f"there must be an output for each document, and lengths from 1 to {capacity}")
    return Queues(capacity, lengths.shape[0])
