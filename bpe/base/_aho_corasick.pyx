"""Find many strings in a text in one pass: special tokens, added tokens, document separators.

An Aho-Corasick automaton (Aho and Corasick, "Efficient string matching", 1975) of the reversed strings reads the text
from right to left. Its state at a position gives the longest string that begins there. A walk over these positions from
left to right then selects occurrences that do not overlap, the longest at each position. Building takes time linear in
the strings but for sorting them; searching takes time linear in the text, whatever it contains. Not here: the meaning
of the strings (`bpe/vocab/special_tokens.py`).

Example: the tree of the strings `ab` and `b`, reversed. Nodes are numbered level by level, and the children of a node
have consecutive numbers, ordered by byte:

    0 --b--> 1 "b" --a--> 2 "ab"
"""

import numpy as np

from bpe.base._bounds cimport check_spans
from bpe.base._interrupts cimport check_signals
from bpe.base._memory cimport grown
from bpe.base._types cimport byte_t
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memset

cdef extern from *:
    """
    /* Whether any of 64 bytes equals one of four; compilers vectorize the loop. */
    static inline int bpe_any_of(const uint8_t *text, const uint8_t *wanted) {
        uint8_t found = 0;
        for (int i = 0; i < 64; i++)
            found |= (text[i] == wanted[0]) | (text[i] == wanted[1]) | (text[i] == wanted[2]) | (text[i] == wanted[3]);
        return found;
    }
    """
    bint any_of "bpe_any_of"(const byte_t* text, const byte_t* wanted) noexcept nogil

cdef enum:
    BLOCK = 1 << 18           # positions searched at a time; more if the longest string needs it
    MAX_LAST = 4              # search for the strings' last bytes in blocks if so few are distinct
    POLL_INTERVAL = 1 << 24   # bytes between two checks for signals

cdef struct Tree:             # of the reversed strings, with suffix links
    byte_t* label             # by node: the byte on the edge to it
    uint32_t* first           # by node: its first child; the children end at the next node's first
    uint32_t* shorter         # by node: its suffix link, the longest proper suffix in the tree
    int32_t* string           # by node: the longest string that is its suffix, or -1
    uint32_t root[256]        # the child of node 0 by each byte; 0 if none
    byte_t last[4]            # the bytes with a child in `root`, if at most MAX_LAST; repeated to fill
    bint use_last

cdef struct Occurrence:
    int64_t start
    int64_t number


cdef inline uint32_t child(const Tree* tree, uint32_t node, byte_t byte) noexcept nogil:
    """Return the child of a node by a byte; 0 if there is none."""
    cdef uint32_t low = tree.first[node], high = tree.first[node + 1], end = high, middle
    while low < high:
        middle = (low + high) >> 1
        if tree.label[middle] < byte:
            low = middle + 1
        else:
            high = middle
    return low if low < end and tree.label[low] == byte else 0


cdef inline uint32_t step(const Tree* tree, uint32_t node, byte_t byte) noexcept nogil:
    """Return the state after one more byte: follow suffix links until a node has a child by this byte."""
    cdef uint32_t found
    while node:
        found = child(tree, node, byte)
        if found:
            return found
        node = tree.shorter[node]
    return tree.root[byte]


cdef inline Py_ssize_t skip(const Tree* tree, const byte_t* text, Py_ssize_t pos, Py_ssize_t low) noexcept nogil:
    """Return the last position from `low` to `pos` where a string may end; less than `low` if there is none."""
    cdef Py_ssize_t near
    while pos >= low:
        while tree.use_last and pos - 63 >= low and not any_of(text + pos - 63, tree.last):
            pos -= 64
        near = max(pos - 63, low)
        while pos >= near and not tree.root[text[pos]]:
            pos -= 1
        if pos >= near:
            break
    return pos


cdef struct Range:            # of the strings below a node, sorted by their reversals
    uint32_t low
    uint32_t high
    uint32_t depth


cdef uint32_t grow_tree(
    Tree* tree, const byte_t* blob, const int64_t* offsets, const int64_t* order, Py_ssize_t n, Range* ranges
) noexcept nogil:
    """Create the nodes of the tree level by level; returns their number. `order` sorts the strings by their reversals.

    Strings with a common beginning are adjacent in that order, so each node stands for a range of them. Each byte of
    the strings is read once: the time is linear.
    """
    cdef uint32_t node = 0, n_nodes = 1, i, start
    cdef Range node_range
    cdef byte_t byte
    ranges[0] = Range(0, <uint32_t>n, 0)
    while node < n_nodes:
        node_range = ranges[node]
        tree.first[node] = n_nodes
        tree.string[node] = -1
        i = node_range.low
        if offsets[order[i] + 1] - offsets[order[i]] == node_range.depth:  # the shortest comes first
            tree.string[node] = <int32_t>order[i]
            i += 1
        while i < node_range.high:
            start, byte = i, blob[offsets[order[i] + 1] - 1 - node_range.depth]
            while i < node_range.high and blob[offsets[order[i] + 1] - 1 - node_range.depth] == byte:
                i += 1
            tree.label[n_nodes] = byte
            ranges[n_nodes] = Range(start, i, node_range.depth + 1)
            n_nodes += 1
        node += 1
    tree.first[n_nodes] = n_nodes
    return n_nodes


cdef void link_tree(Tree* tree, uint32_t n_nodes) noexcept nogil:
    """Set each node's suffix link; a node without a string inherits the string of the node that it links to."""
    cdef uint32_t node, at
    tree.shorter[0] = 0
    memset(tree.root, 0, sizeof(tree.root))
    for node in range(tree.first[0], tree.first[1]):
        tree.root[tree.label[node]] = node
    for node in range(n_nodes):
        if node and tree.string[node] < 0:
            tree.string[node] = tree.string[tree.shorter[node]]
        for at in range(tree.first[node], tree.first[node + 1]):
            tree.shorter[at] = step(tree, tree.shorter[node], tree.label[at]) if node else 0


cdef class Finder:
    """Finds occurrences of given strings in texts. Immutable, so any number of threads may use it.

    Args:
        strings: a list of distinct, non-empty bytes; an occurrence names a string by its index in this list.
    """

    cdef Tree tree
    cdef int64_t[::1] sizes
    cdef readonly Py_ssize_t longest       # bytes of the longest string
    cdef object arrays                                     # keeps the memory of the pointers in `tree` alive

    def __init__(self, list strings):
        cdef bytes blob = b"".join(strings)
        cdef const byte_t* data = blob
        cdef Py_ssize_t n = len(strings), i, room = len(blob) + 2, n_last
        cdef Tree* tree = &self.tree
        cdef int64_t[::1] offsets, order
        cdef byte_t[::1] label
        cdef uint32_t[::1] first, shorter
        cdef int32_t[::1] string
        cdef uint32_t[:, ::1] ranges
        if room > (1 << 31):
            raise ValueError(f"the strings to find have {room - 2} bytes together; at most 2 GB can be found at once")
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=n)
        ends = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(lengths, out=ends[1:])
        offsets = ends
        reversals = [each[::-1] for each in strings]
        order = np.array(sorted(range(n), key=reversals.__getitem__), dtype=np.int64)
        labels, firsts = np.zeros(room, dtype=np.uint8), np.zeros(room + 1, dtype=np.uint32)
        links, found = np.zeros(room, dtype=np.uint32), np.full(room, -1, dtype=np.int32)
        label, first, shorter, string = labels, firsts, links, found
        self.sizes, self.longest = lengths, int(lengths.max(initial=0))
        self.arrays = labels, firsts, links, found
        tree.label, tree.first, tree.shorter, tree.string = &label[0], &first[0], &shorter[0], &string[0]
        memset(tree.root, 0, sizeof(tree.root))
        if n == 0:
            return
        ranges = np.empty((room, 3), dtype=np.uint32)
        with nogil:
            link_tree(tree, grow_tree(tree, data, &offsets[0], &order[0], n, <Range*>&ranges[0, 0]))
        n_last = tree.first[1] - tree.first[0]
        tree.use_last = n_last <= MAX_LAST
        for i in range(MAX_LAST):
            tree.last[i] = tree.label[tree.first[0] + min(i, n_last - 1)]

    cdef Py_ssize_t occurrences(
        self, const byte_t* text, Py_ssize_t low, Py_ssize_t high, Py_ssize_t end, Occurrence** out, size_t* room
    ) except -1 nogil:
        """Find the longest string that begins at each position from `low` up to `high`; returns the number found.

        Occurrences are written to `out` from last to first. If `out` is NULL, the search stops at the first one found.
        """
        cdef const Tree* tree = &self.tree
        cdef Py_ssize_t pos = min(high + self.longest - 1, end) - 1, n = 0, last_poll = pos
        cdef uint32_t node = 0
        while pos >= low:
            if node == 0:
                pos = skip(tree, text, pos, low)
                if pos < low:
                    break
            node = step(tree, node, text[pos])
            if tree.string[node] >= 0 and pos < high:
                if out == NULL:
                    return 1
                out[0] = <Occurrence*>grown(out[0], room, n + 1, sizeof(Occurrence))
                out[0][n] = Occurrence(pos, tree.string[node])
                n += 1
            pos -= 1
            if last_poll - pos > POLL_INTERVAL:
                check_signals()
                last_poll = pos
        return n

    def occurs(self, text):
        """Whether any of the strings occurs in a text."""
        cdef Py_buffer view                    # a typed memoryview would cost as much as searching a short text
        cdef Py_ssize_t n = 0
        PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
        try:
            if self.longest:
                with nogil:
                    n = self.occurrences(<const byte_t*>view.buf, 0, view.len, view.len, NULL, NULL)
        finally:
            PyBuffer_Release(&view)
        return n > 0

    def find(self, text, Py_ssize_t start=0):
        """Find the leftmost-longest occurrences at or after `start`, in order and without overlaps.

        Returns:
            (int64 starts, int64 ends, int64 indices into the list of strings), or None if there are none.
        """
        cdef Py_buffer view
        cdef Py_ssize_t i, n = 0
        cdef int64_t* kept = NULL
        cdef int64_t[:, ::1] rows
        PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
        try:
            if self.longest and start < view.len:
                with nogil:
                    n = self.leftmost_longest(<const byte_t*>view.buf, max(start, <Py_ssize_t>0), view.len, &kept)
            if n == 0:
                return None
            found = np.empty((3, n), dtype=np.int64)
            rows = found
            for i in range(n):
                rows[0, i], rows[1, i], rows[2, i] = kept[3 * i], kept[3 * i + 1], kept[3 * i + 2]
            return found[0], found[1], found[2]
        finally:
            free(kept)
            PyBuffer_Release(&view)

    def between(self, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends):
        """Split the spans `text[starts[i]:ends[i]]` at the strings, found in each span as by `find`.

        Returns:
            (int64 starts, int64 ends) of the non-empty spans between the strings.
        """
        cdef int64_t* out = NULL
        cdef int64_t* kept = NULL
        cdef size_t room = 0
        cdef Py_ssize_t i, k, n, last_end, size = 0
        cdef const byte_t* data = &text[0] if text.shape[0] else NULL
        cdef int64_t[:, ::1] rows
        check_spans(starts, ends, text.shape[0])
        try:
            with nogil:
                for i in range(starts.shape[0]):
                    n = self.leftmost_longest(data, starts[i], ends[i], &kept)
                    out = <int64_t*>grown(out, &room, 2 * (size + n + 1), sizeof(int64_t))
                    last_end = starts[i]
                    for k in range(n + 1):
                        if last_end < (kept[3 * k] if k < n else ends[i]):
                            out[2 * size], out[2 * size + 1] = last_end, kept[3 * k] if k < n else ends[i]
                            size += 1
                        if k < n:
                            last_end = kept[3 * k + 1]
                    free(kept)
                    kept = NULL
            found = np.empty((2, size), dtype=np.int64)
            rows = found
            for i in range(size):
                rows[0, i], rows[1, i] = out[2 * i], out[2 * i + 1]
            return found[0], found[1]
        finally:
            free(out)
            free(kept)

    cdef Py_ssize_t leftmost_longest(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t end, int64_t** kept
    ) except -1 nogil:
        """Find the occurrences of `find`; returns their number and writes (start, end, string) of each to `kept`."""
        cdef Occurrence* hits = NULL
        cdef size_t room = 0, kept_room = 0
        cdef Py_ssize_t low = start, high, last_end = start, i, n = 0, block = max(<Py_ssize_t>BLOCK, 4 * self.longest)
        try:
            while low < end:
                high = min(low + block, end)
                i = self.occurrences(text, low, high, end, &hits, &room)
                while i > 0:
                    i -= 1
                    if hits[i].start >= last_end:
                        last_end = hits[i].start + self.sizes[hits[i].number]
                        kept[0] = <int64_t*>grown(kept[0], &kept_room, 3 * n + 3, sizeof(int64_t))
                        kept[0][3 * n], kept[0][3 * n + 1], kept[0][3 * n + 2] = hits[i].start, last_end, hits[i].number
                        n += 1
                low = max(high, last_end)
        finally:
            free(hits)
        return n

    def crosses(self, const byte_t[::1] text, Py_ssize_t at):
        """Whether the longest string at some position before `at` ends after `at`, overlapping others or not."""
        cdef Py_ssize_t low = max(at - self.longest + 1, <Py_ssize_t>0), n, i
        cdef bint found = False
        cdef Occurrence* hits = NULL
        cdef size_t room = 0
        if not 0 < at < text.shape[0] or not self.longest:
            return False
        try:
            with nogil:
                n = self.occurrences(&text[0], low, at, text.shape[0], &hits, &room)
                for i in range(n):
                    found |= hits[i].start + self.sizes[hits[i].number] > at
            return found
        finally:
            free(hits)
