"""Lists of ids for other kernels."""

from bpe.base._types cimport token_t


cdef list make_list(const token_t* ids, Py_ssize_t n)
cdef bint read_ids(list ids, Py_ssize_t n, token_t* out)
