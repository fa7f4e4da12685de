"""A tokenizer's merges, and the choice of how a piece is merged.

Up to 64 symbols are merged as a row (`_merging.pyx`), more by windows, or as runs of equal tokens if they are a few
runs of one byte each (`_long_merge.pyx`). If windows fail, or the merges do not allow them, a heap merges the whole
piece. New words are merged as rows together, where their symbols are the tokens of their bytes.

Only long pieces need the tree of tokens, which would take a tenth of the time of loading a vocabulary. So the first one
of them builds it, or the first word table that gets the vocabulary's tokens.
"""

cimport cython

import numpy as np

from bpe.base._atomic cimport load, store
from bpe.base._ids cimport Ids
from bpe.base._types cimport NO_TOKEN, byte_t
from bpe.merge._long_merge cimport merge_runs, merge_long_piece
from bpe.merge._merge_table cimport MergeTable
from bpe.merge._merging cimport (
    MAX_ROW_SYMBOLS, Affix, Row, Scratch, SymbolTokens, TokensBySymbol, fill_row_from_bytes, fill_row_from_symbols,
    merge_and_append_row, merge_in_passes, merge_rows, merge_with_heap, write_symbols,
)
from bpe.merge._token_tree cimport TokenTree
from libc.stdint cimport uint32_t

from bpe.merge.tables import (
    can_drop_in_wide_chars, check_merges, check_symbols, find_symbol_tokens, has_merges_of_unknown,
)
from bpe.vocab.vocabulary import AFTER_MERGING

cdef enum:
    MAX_RANK = 1 << 25        # a row has bits for smaller ones


cdef inline bint are_byte_tokens(
    const SymbolTokens* symbol_tokens, const byte_t* piece, Py_ssize_t size
) noexcept nogil:
    """Whether the symbols of a piece are the tokens of its bytes; many vocabularies have none for bytes like 0xFF."""
    cdef Py_ssize_t i
    if symbol_tokens.has_all_bytes or not symbol_tokens.one_token_per_byte:
        return symbol_tokens.one_token_per_byte
    for i in range(size):
        if symbol_tokens.inner.tokens[piece[i]] == NO_TOKEN:
            return False
    return True


cdef class Merger:

    def __cinit__(self, merges, symbols, *_):
        cdef const uint32_t[::1] inner = symbols.inner_ids, last = symbols.last_ids, byte_ids
        cdef const uint32_t[::1] first = symbols.inner_ids if symbols.first_ids is None else symbols.first_ids
        cdef const uint32_t[::1] only = symbols.last_ids if symbols.only_ids is None else symbols.only_ids
        check_merges(merges)
        check_symbols(merges, symbols)
        find_symbol_tokens(merges, symbols)                # raises IndexError for a symbol outside the vocabulary
        self.merges, self.symbols = merges, symbols
        self.symbol_tokens.inner = TokensBySymbol(tokens=&inner[0], n=inner.shape[0])
        self.symbol_tokens.last = TokensBySymbol(tokens=&last[0], n=last.shape[0])
        self.symbol_tokens.first = TokensBySymbol(tokens=&first[0], n=first.shape[0])
        self.symbol_tokens.only = TokensBySymbol(tokens=&only[0], n=only.shape[0])
        self.prefix, self.suffix = symbols.prefix, symbols.suffix
        self.symbol_tokens.prefix = Affix(data=self.prefix, size=len(self.prefix))
        self.symbol_tokens.suffix = Affix(data=self.suffix, size=len(self.suffix))
        if symbols.byte_ids is not None:
            byte_ids = symbols.byte_ids
            self.symbol_tokens.byte_ids = &byte_ids[0]
        self.symbol_tokens.mark_id, self.symbol_tokens.unk_id = symbols.mark_id, symbols.unk_id
        self.symbol_tokens.fuse_unk, self.symbol_tokens.is_char_model = symbols.fuse_unk, symbols.is_char_model
        self.symbol_tokens.drop_unknown = symbols.drop_unknown is True
        self.drops_after_merging = symbols.drop_unknown == AFTER_MERGING
        self.inner_symbol_tokens = self.symbol_tokens
        self.inner_symbol_tokens.last = self.symbol_tokens.inner
        self.inner_symbol_tokens.only = self.symbol_tokens.first
        self.inner_symbol_tokens.mark_id = NO_TOKEN
        self.inner_symbol_tokens.suffix.size = 0
        self.inner_symbol_tokens.one_token_per_byte = (
            not symbols.is_char_model and np.array_equal(first, symbols.inner_ids)
        )
        self.symbol_tokens.one_token_per_byte = (
            self.inner_symbol_tokens.one_token_per_byte
            and symbols.mark_id == NO_TOKEN
            and np.array_equal(symbols.inner_ids, symbols.last_ids)
        )
        has_all_bytes = not np.any(symbols.inner_ids == NO_TOKEN)
        self.symbol_tokens.has_all_bytes = self.inner_symbol_tokens.has_all_bytes = has_all_bytes
        self.table = MergeTable(merges.pairs, merges.results, merges.ranks, merges.limit)
        if not symbols.is_char_model:
            self.table.index_bytes(inner)
        self.merges_unknown = has_merges_of_unknown(merges, symbols)
        # Else merging can go on from symbols that are in no text, or a token does not spell its text.
        self.knows_tokens = not self.merges_unknown and not self.prefix
        all_bytes_known = symbols.byte_ids is not None and not np.any(symbols.byte_ids == NO_TOKEN)
        depends_on_neighbours = symbols.fuse_unk or can_drop_in_wide_chars(symbols) or symbols.byte_ids is not None
        self.can_split = not self.prefix and not self.merges_unknown and (all_bytes_known or not depends_on_neighbours)
        n = len(merges.results)
        self.ranks_fit_row = n == 0 or (n - 1 if merges.ranks is None else int(merges.ranks[n - 1])) < MAX_RANK

    cdef int build_tree(self) except -1 nogil:
        """Build the tree of tokens, unless it is there."""
        if not load(&self.has_tree):
            with gil:
                build_tree_with_gil(self)
        return 0

    cdef bint fits_row(self, const byte_t* piece, Py_ssize_t size) noexcept nogil:
        """Whether a piece can be merged together with others."""
        return size <= MAX_ROW_SYMBOLS and self.ranks_fit_row and are_byte_tokens(&self.symbol_tokens, piece, size)

    cdef void merge_together(
        self, const byte_t** pieces, const Py_ssize_t* sizes, size_t n, Row* rows
    ) noexcept nogil:
        """Merge n <= MAX_ROWS pieces that fit rows."""
        cdef size_t i
        for i in range(n):
            fill_row_from_bytes(&rows[i], &self.table.merges, self.symbol_tokens.inner.tokens, pieces[i], sizes[i])
        merge_rows(&self.table.merges, rows, n)

    cdef int merge(
        self, const byte_t* piece, Py_ssize_t size, bint is_inner, Scratch* scratch, Ids* out, bint* unknown
    ) except -1 nogil:
        """Append the ids of a piece, which is not empty; `is_inner` if it is not the end of its word.

        `unknown` becomes True if it has a symbol without an id.
        """
        cdef const SymbolTokens* symbol_tokens = &self.inner_symbol_tokens if is_inner else &self.symbol_tokens
        cdef Py_ssize_t n = size, unknown_offset = -1
        cdef const byte_t* text = piece
        cdef Row row
        if not (self.ranks_fit_row and are_byte_tokens(symbol_tokens, piece, size)):
            text = NULL
            n = write_symbols(symbol_tokens, piece, size, scratch, &unknown_offset)
            if self.drops_after_merging and unknown_offset >= 0:
                return self.merge_between_unknown(n, scratch, out)
            unknown[0] |= unknown_offset >= 0
            if n == 0:                                     # all symbols were left out
                return 0
        if n <= MAX_ROW_SYMBOLS and self.ranks_fit_row:
            if text != NULL:
                fill_row_from_bytes(&row, &self.table.merges, symbol_tokens.inner.tokens, text, n)
            else:
                fill_row_from_symbols(&row, &self.table.merges, scratch.symbols, n)
            return merge_and_append_row(&self.table.merges, &row, out)
        self.build_tree()
        if text != NULL and self.tree.is_ordered:
            if merge_runs(&self.table.merges, text, symbol_tokens.inner.tokens, n, out):
                return 0
        if self.ranks_fit_row and self.tree.is_ordered and merge_long_piece(
            &self.table.merges, self.tree, text, symbol_tokens.inner.tokens, n, scratch, out
        ):
            return 0
        if text != NULL:
            n = write_symbols(symbol_tokens, piece, size, scratch, &unknown_offset)
        if self.ranks_fit_row and self.tree.is_ordered:
            n = merge_in_passes(&self.table.merges, scratch.symbols, n, scratch, out.n)
        return merge_with_heap(&self.table.merges, scratch.symbols, n, scratch, out, NULL)

    cdef int merge_between_unknown(self, Py_ssize_t n, Scratch* scratch, Ids* out) except -1 nogil:
        """Append the ids of the n symbols in `scratch`, without those that have none, which no merge crosses."""
        cdef Py_ssize_t start = 0, end
        cdef Row row
        while start < n:
            end = start
            while end < n and scratch.symbols[end] != NO_TOKEN:
                end += 1
            if 0 < end - start <= MAX_ROW_SYMBOLS and self.ranks_fit_row:
                fill_row_from_symbols(&row, &self.table.merges, scratch.symbols + start, end - start)
                merge_and_append_row(&self.table.merges, &row, out)
            elif start < end:
                merge_with_heap(&self.table.merges, scratch.symbols + start, end - start, scratch, out, NULL)
            start = end + 1
        return 0


cdef int build_tree_with_gil(Merger merger) except -1:
    """Build the tree of tokens; of several threads, the first one's stays."""
    is_symbol = find_symbol_tokens(merger.merges, merger.symbols)
    tree = TokenTree(merger.table, np.flatnonzero(is_symbol).astype(np.uint32), merger.merges)
    tree.is_ordered = tree.is_ordered and merger.knows_tokens
    with cython.critical_section(merger):
        if not load(&merger.has_tree):
            merger.tree = tree
            store(&merger.has_tree, 1)
    return 0
