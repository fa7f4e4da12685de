"""Splitting the pieces that a scanner found at safe positions."""

from bpe.base._types cimport byte_t
from bpe.encode._chunk cimport Feed
from bpe.encode._split_filter cimport SplitTables


cdef Py_ssize_t split_pieces(Feed* feed, const SplitTables* splits, Py_ssize_t capacity, byte_t* role) noexcept nogil

cdef Py_ssize_t split_singly(Feed* feed, const SplitTables* splits, Py_ssize_t capacity, byte_t* role) noexcept nogil
