"""What reads ids while they are in the processor's cache, as they are written."""

from bpe.base._types cimport token_t
from libc.stdint cimport int64_t


cdef class Visitor:
    cdef int take(
        self,
        const token_t* ids,            # the next ones; valid during the call only
        size_t n,
        const int64_t* lengths,        # ids of each text that ends with one of them, those of earlier calls included
        Py_ssize_t n_ended,
    ) except -1 nogil
