"""Encoding texts with special tokens."""

from bpe.base._aho_corasick cimport Finder, MatchList
from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport CodeUnits
from bpe.encode._chunk cimport Fragment
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace
from libc.stdint cimport uint32_t


cdef class SpecialEncoder:
    cdef Encoder encoder
    cdef Finder finder        # of the names of the special tokens
    cdef const uint32_t[::1] token_ids  # of each name

    cdef bint append(self, Workspace workspace, text) except -1
    cdef bint append_short(self, Workspace workspace, const CodeUnits* text, bint is_ascii) except -1
    cdef bint append_fragments(
        self, Workspace workspace, const Fragment* fragments, Py_ssize_t n, const byte_t* readable, bint is_ascii
    ) except -1
    cdef bint append_long(self, Workspace workspace, const CodeUnits* text, bint is_ascii) except -1
    cdef Py_ssize_t divide(
        self, const byte_t* text, Py_ssize_t size, const MatchList* matches, Fragment* fragments
    ) noexcept
    cpdef object encode(self, text)
