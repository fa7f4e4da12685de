"""Cutting the pieces that a scanner found into shorter ones, where that is safe."""

from bpe.base._types cimport byte_t
from bpe.encode._chunk cimport Feed
from bpe.encode._split_filter cimport Joints


cdef Py_ssize_t cut_found(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil

cdef Py_ssize_t cut_pieces(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil
