"""Encoding short texts, for kernels that make other objects of the ids."""

from bpe.base._types cimport byte_t
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace

cdef enum:
    MAX_TINY_BYTES = 128       # bytes: a shorter text is encoded faster without a chunk
    MAX_SHORT_TEXTS = 1 << 10  # that are short together, at most

cdef bint are_short_together(list texts) except -1
cdef object encode_to_array(Encoder encoder, text)         # an array, or None
cdef bint append_short_text(Encoder encoder, Workspace workspace, text) except -1
cdef bint append_padded(
    Encoder encoder, Workspace workspace, const byte_t* text, Py_ssize_t size, bint is_ascii
) except -1
cdef bint is_repeated(Workspace workspace, const byte_t* text, Py_ssize_t size) noexcept nogil
cdef bint may_have_name(str text, str prefix) except -1
