"""A hash table of strings that lie one after the other: open addressing, at most half full.

Not here: strings that are found in a text (`_aho_corasick.pyx`).
"""

from bpe.base._bounds cimport check_offsets
from bpe.base._memory cimport hash_bytes
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp


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
        self.slots = <uint64_t*>calloc(size, sizeof(uint64_t))
        if self.slots == NULL:
            raise MemoryError(f"no memory for a table of {most} strings")

    def __dealloc__(self):
        free(self.slots)

    cdef size_t slot_of(self, const byte_t* string, Py_ssize_t size, uint64_t hashed) noexcept nogil:
        """The slot of a string, or the empty slot to enter it in."""
        cdef size_t at = hashed & self.mask
        cdef Py_ssize_t i
        while self.slots[at] != 0:
            if self.slots[at] >> 32 == hashed >> 32:
                i = <Py_ssize_t>(<uint32_t>self.slots[at]) - 1
                if self.offsets[i + 1] - self.offsets[i] == size:
                    if memcmp(&self.blob[0] + self.offsets[i], string, size) == 0:
                        break
            at = (at + 1) & self.mask
        return at

    cdef bint enter(self, Py_ssize_t i) noexcept nogil:
        """Enter string i, for which there is room; False if an equal one is there."""
        cdef const byte_t* string = &self.blob[0] + self.offsets[i]
        cdef Py_ssize_t size = self.offsets[i + 1] - self.offsets[i]
        cdef uint64_t hashed = hash_bytes(string, size)
        cdef size_t at = self.slot_of(string, size, hashed)
        if self.slots[at] != 0:
            return False
        self.slots[at] = hashed >> 32 << 32 | <uint64_t>(i + 1)
        return True

    cdef Py_ssize_t find(self, const byte_t* string, Py_ssize_t size) noexcept nogil:
        """The index of a string, or -1."""
        return <Py_ssize_t>(<uint32_t>self.slots[self.slot_of(string, size, hash_bytes(string, size))]) - 1
