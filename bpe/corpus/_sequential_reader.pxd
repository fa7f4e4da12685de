"""Reading text that only one thread at a time can read."""

from bpe.base._types cimport byte_t
from bpe.corpus._file_reader cimport FileReader


cdef class SequentialReader(FileReader):
    cdef object texts, fill_text, count_disk_bytes, read_header
    cdef bint is_open                  # the current file
    cdef byte_t* rest                  # what was read after the last block's end
    cdef Py_ssize_t n_rest
    cdef size_t rest_capacity
    cdef Py_ssize_t n_lines            # of the unit before the next block
    cdef Py_ssize_t column, n_columns  # as for a block
