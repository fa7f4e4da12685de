"""Hashes of the content of texts."""

from bpe.base._types cimport byte_t
from libc.stdint cimport uint64_t

cdef extern from "bpe/corpus/_blake2b.h" nogil:
    uint64_t hash_content "bpe_blake2b"(const byte_t* text, size_t n)   # BLAKE2b, 8 bytes, as a little-endian number
