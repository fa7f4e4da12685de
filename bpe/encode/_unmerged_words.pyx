"""Words that are one token whatever the merges say, found by their bytes."""

from bpe.base._string_index cimport StringIndex, enter_string, find_string, hash_string
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from libc.stdint cimport int64_t, uint32_t


cdef class UnmergedWords:

    def __cinit__(
        self,
        const byte_t[::1] blob,            # word i is `blob[offsets[i]:offsets[i + 1]]`
        const int64_t[::1] offsets,
        const uint32_t[::1] ids,
        const int64_t[::1] indices,        # indexes of the words to enter
    ):
        cdef Py_ssize_t i
        self.words, self.ids = StringIndex(blob, offsets, indices.shape[0]), ids
        for i in range(indices.shape[0]):
            if not 0 <= indices[i] < min(ids.shape[0], offsets.shape[0] - 1):
                raise ValueError(f"word {indices[i]} is chosen; there are {ids.shape[0]}")
            enter_string(&self.words.table, indices[i], hash_string(&self.words.table, indices[i]))

    cdef token_t find(self, const byte_t* word, Py_ssize_t size) noexcept nogil:
        """Find the token of an unmerged word, or NO_TOKEN."""
        cdef Py_ssize_t i = find_string(&self.words.table, word, size)
        return self.ids[i] if i >= 0 else NO_TOKEN
