"""Finding many strings in a text at once: special tokens, added tokens, what separates documents.

An Aho-Corasick automaton of the strings reversed reads the text from right to left. Its state at a position is the
longest string that begins there, so going through the positions from left to right gives the occurrences, at each
position the longest and none overlapping the one before. The time is linear in the strings and in the text, whatever
they hold. Not here: what the strings mean (`bpe/vocab/special_tokens.py`).

The tree of `ab` and `b`, reversed, numbered level by level:

    0 --b--> 1 "b" --a--> 2 "ab"        nodes of one parent have consecutive numbers, in the order of their bytes
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
    /* Whether any of 64 bytes is one of four; compilers make vector instructions of it. */
    static inline int bpe_any_of(const uint8_t *text, const uint8_t *wanted) {
        uint8_t found = 0;
        for (int i = 0; i < 64; i++)
            found |= (text[i] == wanted[0]) | (text[i] == wanted[1]) | (text[i] == wanted[2]) | (text[i] == wanted[3]);
        return found;
    }
    """
    bint any_of "bpe_any_of"(const byte_t* text, const byte_t* wanted) noexcept nogil

cdef enum:
    BLOCK = 1 << 18           # positions whose occurrences are held at a time; at least four times the longest string
    FEW = 4                   # last bytes of strings that are looked for 64 bytes at a time
    FAR = 1 << 24             # bytes between two looks for signals

cdef struct Tree:             # of the strings reversed, with the links of Aho and Corasick
    byte_t* label             # by node: the byte that leads to it
    uint32_t* first           # by node, and one more: its first child; the next node's first child ends them
    uint32_t* shorter         # by node: the node of its longest proper suffix in the tree
    int32_t* string           # by node: the longest string that is a suffix of it, or -1
    uint32_t root[256]        # the node that each byte leads to from node 0; 0 if none
    byte_t last[4]            # the bytes in `root`, if those are few; one may be there several times
    bint few

cdef struct Occurrence:
    int64_t start
    int64_t number


cdef inline uint32_t child(const Tree* tree, uint32_t node, byte_t byte) noexcept nogil:
    """The child of a node by a byte; 0 if none."""
    cdef uint32_t low = tree.first[node], high = tree.first[node + 1], end = high, middle
    while low < high:
        middle = (low + high) >> 1
        if tree.label[middle] < byte:
            low = middle + 1
        else:
            high = middle
    return low if low < end and tree.label[low] == byte else 0


cdef inline uint32_t step(const Tree* tree, uint32_t node, byte_t byte) noexcept nogil:
    """The node after one more byte."""
    cdef uint32_t found
    while node:
        found = child(tree, node, byte)
        if found:
            return found
        node = tree.shorter[node]
    return tree.root[byte]


cdef inline Py_ssize_t skip(const Tree* tree, const byte_t* text, Py_ssize_t pos, Py_ssize_t low) noexcept nogil:
    """The greatest position at most `pos`, and at least `low`, where a string may end; below `low` if none."""
    cdef Py_ssize_t near
    while pos >= low:
        while tree.few and pos - 63 >= low and not any_of(text + pos - 63, tree.last):
            pos -= 64
        near = max(pos - 63, low)
        while pos >= near and not tree.root[text[pos]]:
            pos -= 1
        if pos >= near:
            break
    return pos


cdef struct Range:            # of the strings, in the order of their reversals, that end with a node's bytes
    uint32_t low
    uint32_t high
    uint32_t depth


cdef uint32_t grow_tree(
    Tree* tree, const byte_t* blob, const int64_t* offsets, const int64_t* order, Py_ssize_t n, Range* ranges
) noexcept nogil:
    """Make the nodes of the tree, level by level; how many they are. `order[i]` is the i-th string when reversed.

    All strings' bytes are read once, so this is linear in them.
    """
    cdef uint32_t node = 0, n_nodes = 1, i, start
    cdef Range here
    cdef byte_t byte
    ranges[0] = Range(0, <uint32_t>n, 0)
    while node < n_nodes:
        here = ranges[node]
        tree.first[node] = n_nodes
        tree.string[node] = -1
        i = here.low
        if offsets[order[i] + 1] - offsets[order[i]] == here.depth:        # it is the shortest, and so the first
            tree.string[node] = <int32_t>order[i]
            i += 1
        while i < here.high:
            start, byte = i, blob[offsets[order[i] + 1] - 1 - here.depth]
            while i < here.high and blob[offsets[order[i] + 1] - 1 - here.depth] == byte:
                i += 1
            tree.label[n_nodes] = byte
            ranges[n_nodes] = Range(start, i, here.depth + 1)
            n_nodes += 1
        node += 1
    tree.first[n_nodes] = n_nodes
    return n_nodes


cdef void link_tree(Tree* tree, uint32_t n_nodes) noexcept nogil:
    """Link each node to its longest proper suffix that is a node, and let it have that node's string if it has none."""
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
    """Finds some strings in texts. Immutable once it is made, and safe to use from any number of threads.

    Args:
        strings: a list of bytes, distinct and not empty; occurrences are given by their places in it.
    """

    cdef Tree tree
    cdef int64_t[::1] sizes
    cdef readonly Py_ssize_t longest       # bytes of the longest string
    cdef object held                       # the arrays behind the pointers

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
        self.held = labels, firsts, links, found
        tree.label, tree.first, tree.shorter, tree.string = &label[0], &first[0], &shorter[0], &string[0]
        memset(tree.root, 0, sizeof(tree.root))
        if n == 0:
            return
        ranges = np.empty((room, 3), dtype=np.uint32)
        with nogil:
            link_tree(tree, grow_tree(tree, data, &offsets[0], &order[0], n, <Range*>&ranges[0, 0]))
        n_last = tree.first[1] - tree.first[0]
        tree.few = n_last <= FEW
        for i in range(FEW):
            tree.last[i] = tree.label[tree.first[0] + min(i, n_last - 1)]

    cdef Py_ssize_t occurrences(
        self, const byte_t* text, Py_ssize_t low, Py_ssize_t high, Py_ssize_t end, Occurrence** out, size_t* room
    ) except -1 nogil:
        """Find the longest string at each position from `low` to `high` that one begins at; how many such there are.

        They are written to `out` from the last one to the first, unless `out` is NULL: then one is enough.
        """
        cdef const Tree* tree = &self.tree
        cdef Py_ssize_t pos = min(high + self.longest - 1, end) - 1, n = 0, heard = pos
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
            if heard - pos > FAR:
                check_signals()
                heard = pos
        return n

    def occurs(self, text):
        """Whether any of the strings is in a text."""
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
        """The occurrences at or after `start`, from left to right, the longest at a position, none overlapping another.

        Returns:
            (int64 starts, int64 ends, int64 places in the list of strings), or None if there is none.
        """
        cdef Py_buffer view
        cdef Py_ssize_t i, n = 0
        cdef int64_t* kept = NULL
        cdef int64_t[:, ::1] rows
        PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
        try:
            if self.longest and start < view.len:
                with nogil:
                    n = self.chosen(<const byte_t*>view.buf, max(start, <Py_ssize_t>0), view.len, &kept)
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
        """Cut the parts `text[starts[i]:ends[i]]` at the strings, found in each part as by `find`.

        Returns:
            (int64 starts, int64 ends) of what lies between, empty ones left out.
        """
        cdef int64_t* out = NULL
        cdef int64_t* kept = NULL
        cdef size_t room = 0
        cdef Py_ssize_t i, k, n, done, size = 0
        cdef const byte_t* data = &text[0] if text.shape[0] else NULL
        cdef int64_t[:, ::1] rows
        check_spans(starts, ends, text.shape[0])
        try:
            with nogil:
                for i in range(starts.shape[0]):
                    n = self.chosen(data, starts[i], ends[i], &kept)
                    out = <int64_t*>grown(out, &room, 2 * (size + n + 1), sizeof(int64_t))
                    done = starts[i]
                    for k in range(n + 1):
                        if done < (kept[3 * k] if k < n else ends[i]):
                            out[2 * size], out[2 * size + 1] = done, kept[3 * k] if k < n else ends[i]
                            size += 1
                        if k < n:
                            done = kept[3 * k + 1]
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

    cdef Py_ssize_t chosen(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t end, int64_t** kept
    ) except -1 nogil:
        """Choose the occurrences of `find`; how many they are. Three numbers for each are written to `kept`."""
        cdef Occurrence* here = NULL
        cdef size_t room = 0, kept_room = 0
        cdef Py_ssize_t low = start, high, done = start, i, n = 0, block = max(<Py_ssize_t>BLOCK, 4 * self.longest)
        try:
            while low < end:
                high = min(low + block, end)
                i = self.occurrences(text, low, high, end, &here, &room)
                while i > 0:
                    i -= 1
                    if here[i].start >= done:
                        done = here[i].start + self.sizes[here[i].number]
                        kept[0] = <int64_t*>grown(kept[0], &kept_room, 3 * n + 3, sizeof(int64_t))
                        kept[0][3 * n], kept[0][3 * n + 1], kept[0][3 * n + 2] = here[i].start, done, here[i].number
                        n += 1
                low = max(high, done)
        finally:
            free(here)
        return n

    def crosses(self, const byte_t[::1] text, Py_ssize_t at):
        """Whether any occurrence, be it part of another or not, begins before `at` and ends after it."""
        cdef Py_ssize_t low = max(at - self.longest + 1, <Py_ssize_t>0), n, i
        cdef bint found = False
        cdef Occurrence* here = NULL
        cdef size_t room = 0
        if not 0 < at < text.shape[0] or not self.longest:
            return False
        try:
            with nogil:
                n = self.occurrences(&text[0], low, at, text.shape[0], &here, &room)
                for i in range(n):
                    found |= here[i].start + self.sizes[here[i].number] > at
            return found
        finally:
            free(here)
