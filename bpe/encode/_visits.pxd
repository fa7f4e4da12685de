"""Ids that a Visitor takes as they are written."""

from bpe.base._types cimport byte_t
from bpe.corpus._file_reader cimport FileBlock, FileReader
from libc.stdint cimport int64_t


cdef struct Encoders:         # of several tokenizers
    void** each               # `Encoder`s
    Py_ssize_t n


cdef class CommonCuts:
    """Where text may be cut for several tokenizers."""

    cdef tuple held
    cdef Encoders encoders
