"""A tokenizer's merges, and the choice of how a piece is merged.

Up to 64 symbols are merged as a row (`_merging.pyx`), more by windows (`_long_merge.pyx`). If windows fail, or the
merges do not allow them, a heap merges the whole piece. Not here: pieces whose ids are known (`encode/_piece_ids.pyx`).
"""

import numpy as np

from bpe.base._ids cimport Ids, reserve
from bpe.base._types cimport NO_TOKEN, byte_t
from bpe.merge._long_merge cimport merge_windows
from bpe.merge._merge_table cimport MergeTable
from bpe.merge._merging cimport (
    SHORT,
    Alphabet,
    Row,
    Scratch,
    merge_in_passes,
    merge_row,
    merge_with_heap,
    row_of_bytes,
    row_of_symbols,
    symbols_of,
    tokens_of,
)
from bpe.merge._origins cimport Origins
from libc.stdint cimport uint32_t

cdef enum:
    MAX_RANK = 1 << 25        # a row has bits for smaller ones


cdef int check_merges(merges) except -1:
    """Raise ValueError unless merges are of ids below the limit, and their ranks rise or stay."""
    pairs, results, ranks = np.asarray(merges.pairs), np.asarray(merges.results), np.asarray(merges.ranks)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or results.shape != (len(pairs),) or ranks.shape != results.shape:
        raise ValueError(
            f"merges, results and ranks have the shapes {pairs.shape}, {results.shape} and {ranks.shape}; they must "
            "have (n, 2), (n,) and (n,)"
        )
    if not len(pairs):
        return 0
    for found in (pairs, results):
        if found.min() < 0 or found.max() >= merges.limit:
            raise ValueError(
                f"merges have ids from {found.min()} to {found.max()}; ids are from 0 to {merges.limit - 1}"
            )
    if ranks[0] < 0 or (ranks[1:] < ranks[: len(ranks) - 1]).any():
        raise ValueError("the ranks of merges must be at least 0 and must not fall")
    return 0


cdef class Merger:

    def __init__(self, merges, symbols):
        cdef const uint32_t[::1] inner = symbols.inner, last = symbols.last
        check_merges(merges)
        if not symbols.chars and (inner.shape[0] < 256 or last.shape[0] < 256):
            raise ValueError(f"there are tokens for {inner.shape[0]} and {last.shape[0]} bytes; there must be 256")
        unk = symbols.unk
        if inner.shape[0] == 0 or last.shape[0] == 0 or (unk != NO_TOKEN and unk >= merges.limit):
            raise ValueError(f"the unknown token is {unk}; ids are below {merges.limit}, and there must be symbols")
        self.merges, self.symbols = merges, symbols
        self.alphabet.inner, self.alphabet.n_inner = &inner[0], inner.shape[0]
        self.alphabet.last, self.alphabet.n_last = &last[0], last.shape[0]
        self.alphabet.mark, self.alphabet.unk = symbols.mark, unk
        self.alphabet.fuse_unk, self.alphabet.chars = symbols.fuse_unk, symbols.chars
        self.unmarked = self.alphabet
        self.unmarked.last, self.unmarked.n_last, self.unmarked.mark = &inner[0], inner.shape[0], NO_TOKEN
        self.unmarked.plain = not symbols.chars and not np.any(np.asarray(inner) == NO_TOKEN)
        self.alphabet.plain = self.unmarked.plain and symbols.mark == NO_TOKEN and np.array_equal(inner, last)
        is_symbol = np.zeros(merges.limit, dtype=np.bool_)               # np.unique would import numpy.ma: 8 ms
        for ids in (np.asarray(inner), np.asarray(last), np.array([symbols.mark], dtype=np.uint32)):
            is_symbol[ids[ids != NO_TOKEN]] = True
        self.table = MergeTable(merges.pairs, merges.results, merges.ranks)
        if not symbols.chars:
            self.table.index_bytes(inner)
        self.origins = Origins(self.table, np.flatnonzero(is_symbol).astype(np.uint32), merges)
        if unk != NO_TOKEN and not is_symbol[unk] and (np.any(merges.pairs == unk) or np.any(merges.results == unk)):
            self.origins.ordered = False                   # merging can go on from symbols that no alphabet has
        self.small_ranks = not len(merges.ranks) or int(merges.ranks[len(merges.ranks) - 1]) < MAX_RANK

    cdef int merge(
        self, const byte_t* piece, Py_ssize_t size, bint earlier, Scratch* scratch, Ids* out, bint* unknown
    ) except -1 nogil:
        """Append the ids of a piece, which is not empty; `earlier` if it is not the end of its word.

        `unknown` becomes True if it has a symbol without an id.
        """
        cdef const Alphabet* alphabet = &self.unmarked if earlier else &self.alphabet
        cdef Py_ssize_t n = size, unknown_at = -1
        cdef const byte_t* text = piece
        cdef Row row
        if not (alphabet.plain and self.small_ranks):
            text = NULL
            n = symbols_of(alphabet, piece, size, scratch, &unknown_at)
            unknown[0] |= unknown_at >= 0
        if n <= SHORT and self.small_ranks:
            if text != NULL:
                row_of_bytes(&row, &self.table.merges, alphabet.inner, text, n)
            else:
                row_of_symbols(&row, &self.table.merges, scratch.symbols, n)
            merge_row(&self.table.merges, &row)
            reserve(out, n)
            out.n += tokens_of(&row, out.data + out.n)
            return 0
        if self.small_ranks and self.origins.ordered and merge_windows(
            &self.table.merges, self.origins, text, alphabet.inner, n, scratch, out
        ):
            return 0
        if text != NULL:
            n = symbols_of(alphabet, piece, size, scratch, &unknown_at)
        if self.small_ranks and self.origins.ordered:
            n = merge_in_passes(&self.table.merges, scratch.symbols, n, scratch, out.n)
        return merge_with_heap(&self.table.merges, scratch.symbols, n, scratch, out)
