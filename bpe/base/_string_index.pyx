"""A table of strings, as an object that owns its memory."""

from bpe.base._bounds cimport check_offsets


cdef class StringIndex:

    def __cinit__(self, const byte_t[::1] blob, const int64_t[::1] offsets, size_t n):
        """Make an empty table with room for n of the strings.

        Raises:
            ValueError: for offsets that are not within the blob.

        """
        check_offsets(offsets, offsets.shape[0] - 1, blob.shape[0])
        self.blob, self.offsets = blob, offsets
        self.table.blob, self.table.offsets = &self.blob[0] if blob.shape[0] else <const byte_t*>b"", &self.offsets[0]
        reserve_slots(&self.table, n)

    def __dealloc__(self):
        free(self.table.slots)
