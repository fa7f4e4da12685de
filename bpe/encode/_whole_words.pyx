"""Whole words that are a token whatever the merges say: a hash table by their bytes.

Not here: which pieces are whole words, and which words need an entry (`_encoder.pyx`).
"""

from bpe.base._bounds cimport check_offsets
from bpe.base._memory cimport hash_bytes
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp


cdef class WholeWords:

    def __cinit__(
        self,
        const byte_t[::1] blob,            # word i is `blob[offsets[i]:offsets[i + 1]]`
        const int64_t[::1] offsets,
        const uint32_t[::1] ids,
        const int64_t[::1] chosen,         # indexes of the words to enter
    ):
        cdef size_t size = 16, at
        cdef Py_ssize_t i, j
        check_offsets(offsets, ids.shape[0], blob.shape[0])
        while size < <size_t>chosen.shape[0] * 2:
            size *= 2
        self.slots = <uint32_t*>calloc(size, sizeof(uint32_t))
        if self.slots == NULL:
            raise MemoryError("no memory for the table of whole words")
        self.mask = size - 1
        self.blob, self.offsets, self.ids = blob, offsets, ids
        for j in range(chosen.shape[0]):
            i = chosen[j]
            if not 0 <= i < ids.shape[0]:
                raise ValueError(f"word {i} is chosen; there are {ids.shape[0]}")
            at = hash_bytes(&blob[0] + offsets[i], offsets[i + 1] - offsets[i]) & self.mask
            while self.slots[at] != 0:
                at = (at + 1) & self.mask
            self.slots[at] = <uint32_t>(i + 1)

    def __dealloc__(self):
        free(self.slots)

    cdef token_t find(self, const byte_t* word, Py_ssize_t size) noexcept nogil:
        """The token of a whole word, or NO_TOKEN."""
        cdef size_t at = hash_bytes(word, size) & self.mask
        cdef Py_ssize_t i
        while self.slots[at] != 0:
            i = self.slots[at] - 1
            if (
                self.offsets[i + 1] - self.offsets[i] == size
                and memcmp(&self.blob[0] + self.offsets[i], word, size) == 0
            ):
                return self.ids[i]
            at = (at + 1) & self.mask
        return NO_TOKEN
