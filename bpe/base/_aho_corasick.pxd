"""Finding many strings in a text in one pass; see `_aho_corasick.pyx`."""

from bpe.base._types cimport byte_t
from libc.stdint cimport int32_t, int64_t, uint32_t

cdef struct Tree:             # the tree of the reversed strings, with suffix links
    byte_t* label             # by node: the byte on the edge to it
    uint32_t* first           # by node: its first child; the children end at the next node's first
    uint32_t* suffix_link     # by node: its suffix link, the longest proper suffix in the tree
    int32_t* string           # by node: the longest string that is its suffix, or -1
    uint32_t root[256]        # the child of node 0 by each byte; 0 if none
    int last                  # the byte that all strings end with; -1 if they end with several

cdef struct Occurrence:
    int64_t start
    int64_t string_index

cdef struct Match:            # an occurrence that overlaps no other
    int64_t start
    int64_t end
    int64_t string_index

cdef struct MatchList:
    Match* rows
    Py_ssize_t n
    size_t capacity


cdef class Finder:
    cdef Tree tree
    cdef int64_t[::1] sizes
    cdef readonly Py_ssize_t longest       # bytes of the longest string
    cdef object arrays                                     # keeps the memory of the pointers in `tree` alive

    cdef int find_leftmost_longest(
        self, const byte_t* text, Py_ssize_t start, Py_ssize_t end, MatchList* matches
    ) except -1 nogil
    cdef bint crosses_in(self, const byte_t* text, Py_ssize_t at, Py_ssize_t end) except -1 nogil
    cdef Py_ssize_t find_last_in(self, const byte_t* text, Py_ssize_t start, Py_ssize_t end) except -2 nogil
    cdef bint occurs_in(self, const byte_t* text, Py_ssize_t end) except -1 nogil
