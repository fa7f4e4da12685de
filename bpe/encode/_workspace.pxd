"""The memory of one call."""

from bpe.base._ids cimport Ids, append_ids, reserve
from bpe.base._result_pool cimport MemoryBlock, ResultPool
from bpe.base._types cimport token_t
from bpe.encode._chunk cimport Chunk, Feed
from bpe.encode._word_cache cimport Cache, SharedWordTable, has_ids
from bpe.merge._merging cimport Scratch
from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    N_RECENT_TEXTS = 1 << 8   # short texts that are recognized when they come again


cdef class Workspace:
    """The memory of one call: front tables, a chunk, the output, scratch memory for merging."""

    cdef SharedWordTable table      # shared with other workspaces
    cdef Cache cache          # the cache of whole words
    cdef Cache inner_cache    # the cache of parts that do not end a word, if ends of words are marked
    cdef Scratch scratch
    cdef Chunk* chunk
    cdef Feed* feed
    cdef uint32_t recent_texts[N_RECENT_TEXTS]  # half of the hash of each; some bits of the rest are the index
    cdef Ids out
    cdef Ids pending_low      # the low tokens of the last pretoken, with a superword vocabulary
    cdef size_t n_in_open_run  # tokens at the start of `pending_low` that are one run, still open
    cdef ResultPool pool      # the lender of memory for a large output, or None
    cdef MemoryBlock block    # the memory that the pool lent
    cdef Workspace next       # the next one in the list of idle workspaces
    cdef bint unknown         # whether a symbol has no id
    cdef Py_ssize_t unknown_fragment  # the first fragment that has a symbol without an id, or -1

    cdef int use(self, SharedWordTable table) noexcept
    cdef int reset(self) noexcept nogil


cdef void prepare_output(Workspace workspace, size_t n_bytes) noexcept nogil


cdef inline int emit_spilled(Workspace workspace, uint64_t value) except -1 nogil:
    """Write the spilled ids of a value."""
    cdef const token_t* spilled = workspace.cache.table.spilled + (value >> 32)
    return append_ids(&workspace.out, spilled + 1, spilled[0])


cdef inline int emit_value(Workspace workspace, uint64_t value) except -1 nogil:
    """Write the ids of any value."""
    cdef Ids* out = &workspace.out
    if not has_ids(value):
        return emit_spilled(workspace, value)
    reserve(out, 2)
    out.data[out.n] = <token_t>value - 1
    out.data[out.n + 1] = <token_t>(value >> 32) - 1
    out.n += 1 + (value >> 32 != 0)
    return 0
