"""Find many strings in a text in one pass: special tokens, added tokens, document separators.

An Aho-Corasick automaton (Aho and Corasick, "Efficient string matching", 1975) of the reversed strings reads the text
from right to left. Its state at a position gives the longest string that begins there. A walk over these positions from
left to right then selects occurrences that do not overlap, the longest at each position. Building takes time linear in
the strings but for sorting them; searching takes time linear in the text, whatever it contains.

Example: the tree of the strings `ab` and `b`, reversed. Nodes are numbered level by level, and the children of a node
have consecutive numbers, ordered by byte:

    0 --b--> 1 "b" --a--> 2 "ab"
"""

import numpy as np

from bpe.base._binary_search cimport lower_bound
from bpe.base._bounds cimport check_spans
from bpe.base._interrupts cimport check_signals
from bpe.base._memory cimport grow_array
from bpe.base._types cimport byte_t
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #include <string.h>
    static const void* bpe_find_last_byte(const void* text, int byte, size_t size) {
    #ifdef __GLIBC__
        return memrchr(text, byte, size);
    #else
        const unsigned char* bytes = (const unsigned char*)text;
        while (size--)
            if (bytes[size] == (unsigned char)byte) return bytes + size;
        return NULL;
    #endif
    }
    """
    const void* find_last_byte "bpe_find_last_byte"(const void* text, int byte, size_t size) noexcept nogil

cdef enum:
    NO_LIMIT = 0x7FFFFFFF     # occurrences: no more are found at once
    BLOCK_POSITIONS = 1 << 18  # positions searched at a time; more if the longest string needs it
    POLL_INTERVAL = 1 << 24   # bytes between two checks for signals


cdef copy_rows(const MatchList* matches):
    """Copy the rows to an int64 array, shape (n, 3)."""
    rows = np.empty((matches.n, 3), dtype=np.int64)
    cdef int64_t[:, ::1] out = rows
    if matches.n:
        memcpy(&out[0, 0], matches.rows, matches.n * sizeof(Match))
    return rows


cdef inline uint32_t find_child(const Tree* tree, uint32_t node, byte_t byte) noexcept nogil:
    """Return the child of a node by a byte; 0 if there is none."""
    cdef uint32_t first = tree.first[node], end = tree.first[node + 1], at
    if end - first == 1:                                   # inside a name, nearly always
        return first if tree.label[first] == byte else 0
    at = first + <uint32_t>lower_bound(tree.label + first, end - first, byte)
    return at if at < end and tree.label[at] == byte else 0


cdef inline uint32_t find_next_state(const Tree* tree, uint32_t node, byte_t byte) noexcept nogil:
    """Return the state after one more byte: follow suffix links until a node has a child by this byte."""
    cdef uint32_t next_node
    while node:
        next_node = find_child(tree, node, byte)
        if next_node:
            return next_node
        node = tree.suffix_link[node]
    return tree.root[byte]


cdef inline Py_ssize_t skip(const Tree* tree, const byte_t* text, Py_ssize_t pos, Py_ssize_t start) noexcept nogil:
    """Return the last position from `start` to `pos` where a string may end; less than `start` if there is none."""
    cdef const byte_t* match
    if tree.last >= 0:
        match = <const byte_t*>find_last_byte(text + start, tree.last, pos - start + 1)
        return start - 1 if match == NULL else match - text
    while pos >= start and not tree.root[text[pos]]:
        pos -= 1
    return pos


cdef struct Range:            # the strings below a node, sorted by their reversals
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
    tree.suffix_link[0] = 0
    memset(tree.root, 0, sizeof(tree.root))
    for node in range(tree.first[0], tree.first[1]):
        tree.root[tree.label[node]] = node
    for node in range(n_nodes):
        if node and tree.string[node] < 0:
            tree.string[node] = tree.string[tree.suffix_link[node]]
        for at in range(tree.first[node], tree.first[node + 1]):
            tree.suffix_link[at] = find_next_state(tree, tree.suffix_link[node], tree.label[at]) if node else 0


cdef class Finder:
    """Finds occurrences of given strings in texts. Immutable, so any number of threads may use it.

    Args:
        strings: a list of distinct, non-empty bytes; an occurrence names a string by its index in this list.
    """

    def __cinit__(self, list strings):
        cdef bytes blob = b"".join(strings)
        cdef const byte_t* data = blob
        cdef Py_ssize_t n = len(strings), capacity = len(blob) + 2
        cdef Tree* tree = &self.tree
        cdef int64_t[::1] offsets, order
        cdef byte_t[::1] label
        cdef uint32_t[::1] first, suffix_link
        cdef int32_t[::1] string
        cdef uint32_t[:, ::1] ranges
        if capacity > (1 << 31):
            raise ValueError(f"the strings to find have {len(blob)} bytes together; at most 2 GB can be found at once")
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=n)
        ends = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(lengths, out=ends[1:])
        offsets = ends
        reversals = []
        for string_bytes in strings:
            reversals.append(string_bytes[::-1])
        order = np.array(sorted(range(n), key=reversals.__getitem__), dtype=np.int64)
        labels, firsts = np.zeros(capacity, dtype=np.uint8), np.zeros(capacity + 1, dtype=np.uint32)
        links, string_of_node = np.zeros(capacity, dtype=np.uint32), np.full(capacity, -1, dtype=np.int32)
        label, first, suffix_link, string = labels, firsts, links, string_of_node
        self.sizes, self.longest = lengths, int(lengths.max(initial=0))
        self.arrays = labels, firsts, links, string_of_node
        tree.label, tree.first, tree.suffix_link, tree.string = &label[0], &first[0], &suffix_link[0], &string[0]
        memset(tree.root, 0, sizeof(tree.root))
        if n == 0:
            return
        ranges = np.empty((capacity, 3), dtype=np.uint32)
        with nogil:
            link_tree(tree, grow_tree(tree, data, &offsets[0], &order[0], n, <Range*>&ranges[0, 0]))
        tree.last = tree.label[1] if tree.first[1] == 2 else -1

    def occurs(self, text):
        """Whether any of the strings occurs in a text."""
        cdef Py_buffer view                    # a typed memoryview would cost as much as searching a short text
        cdef bint occurs
        PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                occurs = self.occurs_in(<const byte_t*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        return occurs

    def find(self, text, Py_ssize_t start=0):
        """Find the leftmost-longest occurrences at or after `start`, in order and without overlaps.

        Returns:
            (int64 starts, int64 ends, int64 indices into the list of strings), or None if there are none.
        """
        cdef Py_buffer view
        cdef MatchList matches = MatchList(rows=NULL, n=0, capacity=0)
        PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
        try:
            if self.longest and start < view.len:
                with nogil:
                    self.find_leftmost_longest(<const byte_t*>view.buf, max(start, <Py_ssize_t>0), view.len, &matches)
            return tuple(np.ascontiguousarray(copy_rows(&matches).T)) if matches.n else None
        finally:
            free(matches.rows)
            PyBuffer_Release(&view)

    def find_in(self, const byte_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends):
        """Find the occurrences in each span `text[starts[i]:ends[i]]` as by `find`.

        Returns:
            int64 (n, 3), the start, the end and the string of each; int64 (spans,), how many there are up to the end of
            each span.
        """
        cdef Py_ssize_t i
        cdef const byte_t* data = &text[0] if text.shape[0] else NULL
        cdef MatchList matches = MatchList(rows=NULL, n=0, capacity=0)
        check_spans(starts, ends, text.shape[0])
        counts = np.zeros(starts.shape[0], dtype=np.int64)
        cdef int64_t[::1] count = counts
        try:
            with nogil:
                for i in range(starts.shape[0] if self.longest else 0):
                    self.find_leftmost_longest(data, starts[i], ends[i], &matches)
                    count[i] = matches.n
            return copy_rows(&matches), counts
        finally:
            free(matches.rows)

    def find_last(self, const byte_t[::1] text, Py_ssize_t start, Py_ssize_t end):
        """Find the last position in `text[start:end]` where one of the strings is; -1 if there is none."""
        start, end = max(start, <Py_ssize_t>0), min(end, text.shape[0])
        if start >= end:
            return -1
        with nogil:
            start = self.find_last_in(&text[0], start, end)
        return start

    cdef Py_ssize_t find_last_in(self, const byte_t* text, Py_ssize_t start, Py_ssize_t end) except -2 nogil:
        """Find the last position in `text[start:end]` where one of the strings is, or -1; `start` is below `end`."""
        cdef Occurrence* hits = NULL
        cdef size_t capacity = 0
        try:
            if self.longest and find_occurrences(self, text, start, end, end, &hits, &capacity, 1):
                return hits[0].start
            return -1
        finally:
            free(hits)

    cdef int find_leftmost_longest(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t end, MatchList* matches
    ) except -1 nogil:
        """Append the occurrences of `find`."""
        cdef Occurrence* hits = NULL
        cdef size_t capacity = 0
        cdef Py_ssize_t low = start, high, last_end = start, i
        cdef Py_ssize_t block = max(<Py_ssize_t>BLOCK_POSITIONS, 4 * self.longest)
        try:
            while low < end:
                high = min(low + block, end)
                i = find_occurrences(self, text, low, high, end, &hits, &capacity, NO_LIMIT)
                matches.rows = <Match*>grow_array(matches.rows, &matches.capacity, matches.n + i, sizeof(Match))
                while i > 0:
                    i -= 1
                    if hits[i].start >= last_end:
                        last_end = hits[i].start + self.sizes[hits[i].string_index]
                        matches.rows[matches.n] = Match(hits[i].start, last_end, hits[i].string_index)
                        matches.n += 1
                low = max(high, last_end)
        finally:
            free(hits)
        return 0

    def crosses(self, const byte_t[::1] text, Py_ssize_t at):
        """Whether the longest string at some position before `at` ends after `at`, overlapping others or not."""
        return 0 < at < text.shape[0] and self.crosses_in(&text[0], at, text.shape[0])

    cdef bint crosses_in(self, const byte_t* text, Py_ssize_t position, Py_ssize_t end) except -1 nogil:
        """Whether the longest string at some position before `position` ends after `position` in `text[:end]`."""
        cdef Py_ssize_t start = max(position - self.longest + 1, <Py_ssize_t>0), n, i
        cdef bint crosses = False
        cdef Occurrence* hits = NULL
        cdef size_t capacity = 0
        if not self.longest:
            return False
        try:
            n = find_occurrences(self, text, start, position, end, &hits, &capacity, NO_LIMIT)
            for i in range(n):
                crosses |= hits[i].start + self.sizes[hits[i].string_index] > position
        finally:
            free(hits)
        return crosses

    cdef bint occurs_in(self, const byte_t* text, Py_ssize_t end) except -1 nogil:
        """Whether any of the strings occurs in `text[:end]`."""
        return self.find_last_in(text, 0, end) >= 0


cdef Py_ssize_t find_occurrences(
    Finder finder, const byte_t* text, Py_ssize_t low, Py_ssize_t high, Py_ssize_t end, Occurrence** out,
    size_t* capacity, Py_ssize_t max_hits,
) except -1 nogil:
    """Find the longest string that begins at each position from `low` up to `high`; returns the number found.

    The last `max_hits` occurrences are written to `out`, from last to first.
    """
    cdef const Tree* tree = &finder.tree
    cdef Py_ssize_t pos = min(high + finder.longest - 1, end) - 1, n = 0, last_poll = pos
    cdef uint32_t node = 0, child
    while pos >= low:
        if node == 0:
            pos = skip(tree, text, pos, low)
            if pos < low:
                break
        node = find_next_state(tree, node, text[pos])
        if tree.string[node] >= 0 and pos < high:
            out[0] = <Occurrence*>grow_array(out[0], capacity, n + 1, sizeof(Occurrence))
            out[0][n] = Occurrence(pos, tree.string[node])
            n += 1
            if n == max_hits:
                break
        pos -= 1
        child = tree.first[node]                           # inside a name, where most bytes are those of an only child
        while pos >= low and tree.first[node + 1] == child + 1 and tree.label[child] == text[pos]:
            if tree.string[child] >= 0:
                break
            node, pos = child, pos - 1
            child = tree.first[node]
        if last_poll - pos > POLL_INTERVAL:
            check_signals()
            last_poll = pos
    return n
