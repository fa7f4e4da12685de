"""A hash table of strings that lie one after the other: open addressing, at most half full.

`_aho_corasick.pyx` finds strings in a text.
"""

cimport cython

from bpe.base._bounds cimport check_offsets
from bpe.base._memory cimport allocated, hash_bytes, prefetch
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

cdef enum:
    AHEAD = 16                # strings whose slots are prefetched before they are entered


@cython.final
cdef class StringIndex:

    def __cinit__(self, const byte_t[::1] blob, const int64_t[::1] offsets, Py_ssize_t most):
        """An empty table with room for `most` of the strings.

        Raises:
            ValueError: for offsets that are not within the blob.

        """
        cdef size_t size = 16
        check_offsets(offsets, offsets.shape[0] - 1, blob.shape[0])
        while size < 2 * <size_t>most:
            size *= 2
        self.blob, self.offsets, self.mask = blob, offsets, size - 1
        self.slots = <uint64_t*>allocated(calloc(size, sizeof(uint64_t)), size, b"slots of a table of strings")

    def __dealloc__(self):
        free(self.slots)

    cdef size_t slot_of(self, const byte_t* string, Py_ssize_t size, uint64_t hashed) noexcept nogil:
        """The slot of a string, or the empty slot to enter it in."""
        cdef size_t at = hashed & self.mask
        while self.slots[at] != 0:
            if self.slots[at] >> 32 == hashed >> 32:
                if self.is_string(<Py_ssize_t>(<uint32_t>self.slots[at]) - 1, string, size):
                    break
            at = (at + 1) & self.mask
        return at

    cdef bint is_string(self, Py_ssize_t i, const byte_t* string, Py_ssize_t size) noexcept nogil:
        """Whether string i, of those that there are, equals this one."""
        cdef const int64_t* at = &self.offsets[i]
        return at[1] - at[0] == size and memcmp(&self.blob[0] + at[0], string, size) == 0

    cdef bint enter(self, Py_ssize_t i) noexcept nogil:
        """Enter string i, for which there is room; False if an equal one is there."""
        return self.enter_hashed(i, self.hash_of(i))

    cdef bint enter_first(self, Py_ssize_t n) noexcept nogil:
        """Enter the first n strings, for which there is room; False if two are equal, and then not all are entered."""
        cdef uint64_t hashed[AHEAD]
        cdef uint64_t current
        cdef Py_ssize_t i
        for i in range(min(n, <Py_ssize_t>AHEAD)):
            hashed[i] = self.hash_of(i)
        for i in range(n):
            current = hashed[i % AHEAD]
            if i + AHEAD < n:
                hashed[i % AHEAD] = self.hash_of(i + AHEAD)
                self.prefetch_slot(hashed[i % AHEAD])
            if not self.enter_hashed(i, current):
                return False
        return True

    cdef uint64_t hash_of(self, Py_ssize_t i) noexcept nogil:
        return hash_bytes(&self.blob[0] + self.offsets[i], self.offsets[i + 1] - self.offsets[i])

    cdef bint enter_hashed(self, Py_ssize_t i, uint64_t hashed) noexcept nogil:
        """`enter` of a string with this hash."""
        cdef size_t at = self.slot_of(&self.blob[0] + self.offsets[i], self.offsets[i + 1] - self.offsets[i], hashed)
        if self.slots[at] != 0:
            return False
        self.slots[at] = hashed >> 32 << 32 | <uint64_t>(i + 1)
        return True

    cdef Py_ssize_t find(self, const byte_t* string, Py_ssize_t size) noexcept nogil:
        """The index of a string, or -1."""
        return self.find_hashed(string, size, hash_bytes(string, size))

    cdef void prefetch_slot(self, uint64_t hashed) noexcept nogil:
        """Prefetch what `find_hashed` reads first."""
        prefetch(&self.slots[hashed & self.mask])

    cdef Py_ssize_t find_hashed(self, const byte_t* string, Py_ssize_t size, uint64_t hashed) noexcept nogil:
        """The index of a string with this hash, or -1."""
        return <Py_ssize_t>(<uint32_t>self.slots[self.slot_of(string, size, hashed)]) - 1
