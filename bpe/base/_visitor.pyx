"""Reading ids in parts, without an array of all of them."""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._types cimport token_t
from libc.stdint cimport int64_t


cdef class Visitor:
    """What reads the ids of texts; a subclass has `take`."""

    cdef int take(self, const token_t* ids, size_t n, const int64_t* lengths, Py_ssize_t n_ended) except -1 nogil:
        with gil:
            raise NotImplementedError(f"{type(self).__name__} takes no ids; it must have a method take")

    def visit(self, const token_t[::1] ids, const int64_t[::1] offsets):
        """Take the ids of whole texts: those of text i are `ids[offsets[i]:offsets[i + 1]]`.

        Raises:
            ValueError: for offsets that do not fit.

        """
        cdef Py_ssize_t n = offsets.shape[0] - 1
        cdef const int64_t[::1] lengths
        check_offsets(offsets, n, ids.shape[0])
        lengths = np.diff(offsets)
        with nogil:
            self.take(&ids[0] if ids.shape[0] else NULL, ids.shape[0], &lengths[0] if n > 0 else NULL, n)
