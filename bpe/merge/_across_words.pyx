"""Merging across words: the second level of a BoundlessBPE model, on the ids of a text.

Ids from `first` on stand for a whole pretoken that is one token. All supermerges are applied, by rank, within each run
of such ids. Runs end with the document.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._id_array cimport as_array
from bpe.base._ids cimport Ids, reserve
from bpe.base._interrupts cimport begin_watch, poll_if_due
from bpe.base._types cimport token_t
from bpe.merge._merge_table cimport MergeTable
from bpe.merge._merging cimport (
    MAX_ROW_SYMBOLS, Row, Scratch, merge_and_append_row, free_scratch, merge_with_heap, fill_row_from_symbols
)
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memset

cdef enum:
    PREFETCH_AHEAD = 16       # ids between prefetching the merge of a pair and looking it up


cdef class AcrossWordTable:
    """The supermerges of a tokenizer. Immutable; any number of threads may use it at once."""

    cdef MergeTable table
    cdef token_t first        # ids from here on stand for whole pretokens
    cdef const uint32_t[::1] word_tokens

    def __cinit__(self, pairs, results, token_t first, const uint32_t[::1] word_tokens):
        """Take merges by rank.

        Args:
            pairs: int32 (n, 2): supertokens, or `first` + i for a pretoken that is the token `word_tokens[i]`.
            results: int32 (n,): the supertokens.
            first: more than any id of a token.
            word_tokens: uint32: token ids, by i.

        """
        self.table = MergeTable(pairs, results, None, first + word_tokens.shape[0])
        self.first, self.word_tokens = first, word_tokens

    cdef int merge_run(self, const token_t* ids, Py_ssize_t n, Scratch* scratch, Ids* out) except -1 nogil:
        """Append the ids of a run of whole pretokens."""
        cdef Row row
        cdef size_t i, n_before = out.n
        reserve(out, n)
        if n > MAX_ROW_SYMBOLS:
            merge_with_heap(&self.table.merges, ids, n, scratch, out, NULL)
        else:
            fill_row_from_symbols(&row, &self.table.merges, ids, n)
            merge_and_append_row(&self.table.merges, &row, out)
        for i in range(n_before, out.n):
            if out.data[i] - self.first < <token_t>self.word_tokens.shape[0]:  # unsigned: also if below `first`
                out.data[i] = self.word_tokens[out.data[i] - self.first]
        return 0

    cdef int merge_document(
        self, const token_t* ids, Py_ssize_t n, Scratch* scratch, Ids* out
    ) except -1 nogil:
        """Append the ids of a document."""
        cdef Py_ssize_t position = 0, end
        cdef token_t n_word_tokens = <token_t>self.word_tokens.shape[0]
        reserve(out, n)
        while position < n:
            end = position
            while end < n and ids[end] - self.first < n_word_tokens:
                if end + PREFETCH_AHEAD < n:
                    self.table.prefetch_slot(ids[end + PREFETCH_AHEAD - 1], ids[end + PREFETCH_AHEAD])
                end += 1
            if end > position:
                self.merge_run(ids + position, end - position, scratch, out)
                poll_if_due(&scratch.watch, out.n)
                position = end
            else:
                out.data[out.n] = ids[position]
                out.n += 1
                position += 1
        return 0

    def merge(self, const uint32_t[::1] ids, const int64_t[::1] offsets):
        """Apply the supermerges: (uint32 array, int64 number of ids of each document).

        Document i has the ids `offsets[i]` to `offsets[i + 1]`.
        """
        cdef Py_ssize_t i, n = offsets.shape[0] - 1
        cdef Ids out
        cdef Scratch scratch
        cdef size_t n_before
        check_offsets(offsets, n, ids.shape[0])
        lengths = np.zeros(n, dtype=np.int64)
        cdef int64_t[::1] length = lengths
        memset(&out, 0, sizeof(Ids))
        memset(&scratch, 0, sizeof(Scratch))
        begin_watch(&scratch.watch)
        try:
            with nogil:
                reserve(&out, ids.shape[0])
                for i in range(n):
                    n_before = out.n
                    if offsets[i] < offsets[i + 1]:
                        self.merge_document(&ids[offsets[i]], offsets[i + 1] - offsets[i], &scratch, &out)
                    length[i] = <int64_t>(out.n - n_before)
            return as_array(&out), lengths
        finally:
            free(out.data)
            free_scratch(&scratch)
