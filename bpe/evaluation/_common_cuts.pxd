"""Where blocks of text may end for several tokenizers at once."""

from bpe.base._types cimport byte_t

cdef struct Encoders:         # the encoders of several tokenizers
    void** kernels            # `Encoder`s
    Py_ssize_t n


cdef Py_ssize_t find_block_end(void* encoders, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil


cdef class CommonCuts:
    cdef tuple kernels
    cdef Encoders encoders
