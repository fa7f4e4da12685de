"""A hash table of strings that lie one after the other: open addressing, at most half full.

`_aho_corasick.pyx` finds strings in a text.
"""

cimport cython

from bpe.base._memory cimport check_allocated, hash_bytes, prefetch
from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

cdef enum:
    PREFETCH_AHEAD = 16       # strings whose slots are prefetched before they are entered

cdef struct StringTable:      # string i is `blob[offsets[i]:offsets[i + 1]]`; those that are entered are found
    const byte_t* blob
    const int64_t* offsets
    uint64_t* slots           # upper half of the hash << 32 | index of a string + 1; 0 if empty
    size_t mask


cdef inline int reserve_slots(StringTable* table, size_t n) except -1 nogil:
    """Empty a table, and give it room for n strings."""
    cdef size_t size = 16
    cdef uint64_t* slots
    while size < 2 * n:
        size *= 2
    slots = <uint64_t*>check_allocated(calloc(size, sizeof(uint64_t)), size, b"slots of a table of strings")
    free(table.slots)
    table.slots, table.mask = slots, size - 1
    return 0


cdef inline bint is_string(
    const StringTable* table, Py_ssize_t i, const byte_t* string, Py_ssize_t size
) noexcept nogil:
    """Whether string i equals this one."""
    cdef const int64_t* at = &table.offsets[i]
    return at[1] - at[0] == size and memcmp(table.blob + at[0], string, size) == 0


cdef inline size_t find_slot(
    const StringTable* table, const byte_t* string, Py_ssize_t size, uint64_t hashed
) noexcept nogil:
    """Find the slot of a string, or the empty slot to enter it in."""
    cdef size_t at = hashed & table.mask
    while table.slots[at] != 0:
        if table.slots[at] >> 32 == hashed >> 32:
            if is_string(table, <Py_ssize_t>(<uint32_t>table.slots[at]) - 1, string, size):
                break
        at = (at + 1) & table.mask
    return at


cdef inline Py_ssize_t find_hashed(
    const StringTable* table, const byte_t* string, Py_ssize_t size, uint64_t hashed
) noexcept nogil:
    """Find the index of a string with this hash, or -1."""
    return <Py_ssize_t>(<uint32_t>table.slots[find_slot(table, string, size, hashed)]) - 1


cdef inline Py_ssize_t find_string(const StringTable* table, const byte_t* string, Py_ssize_t size) noexcept nogil:
    """Find the index of a string, or -1."""
    return find_hashed(table, string, size, hash_bytes(string, size))


cdef inline void prefetch_slot(const StringTable* table, uint64_t hashed) noexcept nogil:
    """Prefetch what `find_hashed` reads first."""
    prefetch(&table.slots[hashed & table.mask])


cdef inline uint64_t hash_string(const StringTable* table, Py_ssize_t i) noexcept nogil:
    return hash_bytes(table.blob + table.offsets[i], table.offsets[i + 1] - table.offsets[i])


cdef inline bint enter_string(StringTable* table, Py_ssize_t i, uint64_t hashed) noexcept nogil:
    """Enter string i, for which there is room; False if an equal one is there, which stays."""
    cdef int64_t start = table.offsets[i]
    cdef size_t at = find_slot(table, table.blob + start, table.offsets[i + 1] - start, hashed)
    if table.slots[at] != 0:
        return False
    table.slots[at] = hashed >> 32 << 32 | <uint64_t>(i + 1)
    return True


cdef inline bint enter_strings(StringTable* table, Py_ssize_t n) noexcept nogil:
    """Enter the first n strings, for which there is room; False if two are equal."""
    cdef uint64_t hashed[PREFETCH_AHEAD]
    cdef uint64_t hash
    cdef Py_ssize_t i
    cdef bint distinct = True
    for i in range(min(n, <Py_ssize_t>PREFETCH_AHEAD)):
        hashed[i] = hash_string(table, i)
    for i in range(n):
        hash = hashed[i % PREFETCH_AHEAD]
        if i + PREFETCH_AHEAD < n:
            hashed[i % PREFETCH_AHEAD] = hash_string(table, i + PREFETCH_AHEAD)
            prefetch_slot(table, hashed[i % PREFETCH_AHEAD])
        distinct &= enter_string(table, i, hash)
    return distinct


@cython.final
cdef class StringIndex:
    """A table and its memory."""

    cdef StringTable table
    cdef const byte_t[::1] blob
    cdef const int64_t[::1] offsets
