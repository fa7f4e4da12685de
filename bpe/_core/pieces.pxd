"""Cutting the pieces that a scanner found into shorter ones, where that is safe."""

from bpe._core.chunk cimport Feed
from bpe._core.splits cimport Joints
from bpe._core.types cimport byte_t


cdef Py_ssize_t cut_found(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil

cdef Py_ssize_t cut_pieces(Feed* feed, const Joints* joints, Py_ssize_t room, byte_t* part) noexcept nogil
