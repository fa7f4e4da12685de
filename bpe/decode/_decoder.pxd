"""The bytes of tokens, for other kernels that decode."""

from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t, uint32_t

cdef struct TokenText:        # the bytes of tokens
    byte_t* data
    size_t capacity
    Py_ssize_t n


cdef class TokenTable:
    """The bytes of all tokens: token i is `blob[offsets[i]:offsets[i + 1]]`; empty for an id that is no token."""

    cdef const byte_t[::1] blob
    cdef const int64_t[::1] offsets
    cdef byte_t[:, ::1] cells              # a token of at most 15 bytes, and its size
    cdef byte_t[::1] sizes                 # 0 for an id that is no token, LONG_TOKEN for one of more than 15 bytes

    cpdef object get_token(self, token_id)
    cdef object decode_short(self, ids, bint as_text, bytes is_kept=*)
    cdef int64_t measure_token(self, uint32_t token) noexcept nogil
    cdef bint append_tokens(self, const uint32_t* ids, Py_ssize_t n, Py_ssize_t* first, TokenText* out) noexcept nogil
