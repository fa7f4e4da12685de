"""Filling chunks; `_chunk_filler.pyx` says how."""

from bpe.base._types cimport byte_t, token_t
from bpe.encode._chunk cimport Chunk, Feed, Fragment
from bpe.encode._split_filter cimport Joints
from bpe.encode._word_cache cimport Cache
from libc.stdint cimport uint64_t

cdef void feed_fragments(Feed* feed, const Fragment* fragments, Py_ssize_t n, int scanner) noexcept nogil

cdef void fill(
    Chunk* chunk, Feed* feed, const Joints* joints, const Cache* cache,
    const Cache* earlier,      # of the parts before the last ones, if it is not `cache`
) noexcept nogil

cdef size_t emit_values(const uint64_t* value, size_t n, const token_t* listed, token_t** out) noexcept nogil

cdef size_t count_threes(const byte_t* text, size_t n) noexcept nogil
