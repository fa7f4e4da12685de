"""Reading one field of JSON Lines without creating objects."""

from bpe.base._json cimport JsonReader
from bpe.base._types cimport byte_t

cdef enum:
    MAX_NAMES = 16            # of fields within each other

cdef struct Path:             # the names that lead to a field, from the outermost
    const byte_t* names[MAX_NAMES]
    Py_ssize_t sizes[MAX_NAMES]
    int n

cdef class FieldPath:
    cdef list names           # which the path points into
    cdef Path path

    cdef Py_ssize_t read_record(self, JsonReader* reader, byte_t* out) noexcept nogil
