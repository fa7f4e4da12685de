"""Filling chunks; `_chunk_filler.pyx` says how."""

from bpe.base._types cimport byte_t, token_t
from bpe.encode._chunk cimport Chunk, Feed, Fragment
from bpe.encode._split_filter cimport SplitTables
from bpe.encode._word_cache cimport Cache
from libc.stdint cimport uint64_t

cdef void begin_feed(Feed* feed, const Fragment* fragments, Py_ssize_t n, int scanner) noexcept nogil

cdef void want_ids(Feed* feed, Py_ssize_t n) noexcept nogil

cdef void close_fragment(Feed* feed) noexcept nogil

cdef void fill_chunk(
    Chunk* chunk, Feed* feed, const SplitTables* splits, const Cache* cache,
    const Cache* inner_cache,  # for parts before the last of their piece; may be `cache`
) noexcept nogil

cdef size_t emit_values(const uint64_t* value, size_t n, const token_t* spilled, token_t** out) noexcept nogil

cdef size_t count_three_byte_chars(const byte_t* text, size_t n) noexcept nogil
