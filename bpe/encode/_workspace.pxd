"""The memory of one call."""

from bpe.base._ids cimport Ids, append_ids, reserve
from bpe.base._result_pool cimport Block, ResultPool
from bpe.base._types cimport token_t
from bpe.encode._chunk cimport Chunk, Feed
from bpe.encode._word_cache cimport Cache, SharedWordTable, has_ids
from bpe.merge._merging cimport Scratch
from libc.stdint cimport uint64_t


cdef class Workspace:
    """The memory of one call: front tables, a chunk, the output, scratch memory for merging."""

    cdef SharedWordTable table      # shared with other workspaces
    cdef Cache cache          # of its words
    cdef Cache earlier_cache  # of its parts that do not end a word, if ends of words are marked
    cdef Scratch scratch
    cdef Chunk* chunk
    cdef Feed* feed
    cdef Ids out
    cdef Ids pending_low      # of a superword vocabulary: tokens of its first stage, of the last unit
    cdef size_t n_in_open_run  # of these, tokens at the start known to be one run, still open
    cdef ResultPool pool      # lends memory for a large output, or None
    cdef Block block          # that memory
    cdef Workspace next       # in the chain of idle ones
    cdef bint unknown         # a symbol has no id
    cdef Py_ssize_t unknown_at   # the first fragment that has such a symbol, or -1

    cdef int use(self, SharedWordTable table) noexcept
    cdef int reset(self) noexcept nogil


cdef void prepare_output(Workspace space, size_t n_bytes) noexcept nogil


cdef inline int emit_spilled(Workspace space, uint64_t value) except -1 nogil:
    """Write the spilled ids of a value."""
    cdef const token_t* spilled = space.cache.words.spilled + (value >> 32)
    return append_ids(&space.out, spilled + 1, spilled[0])


cdef inline int emit_value(Workspace space, uint64_t value) except -1 nogil:
    """Write the ids of any value."""
    cdef Ids* out = &space.out
    if not has_ids(value):
        return emit_spilled(space, value)
    reserve(out, 2)
    out.data[out.n] = <token_t>value - 1
    out.data[out.n + 1] = <token_t>(value >> 32) - 1
    out.n += 1 + (value >> 32 != 0)
    return 0
