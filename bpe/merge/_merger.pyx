"""A tokenizer's merges, and the choice of how a piece is merged.

A short piece is merged in registers (`_merging.pyx`), a long one by windows (`_long_merge.pyx`). Where windows do not
fit together, or the merges do not allow them, a heap is used for the whole piece. Not here: pieces whose ids are known
already (`encode/_piece_ids.pyx`).
"""

import numpy as np

from bpe.base._ids cimport Ids, reserve
from bpe.base._memory cimport grown
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._long_merge cimport merge_windows
from bpe.merge._merge_table cimport PairTable
from bpe.merge._merging cimport (
    SHORT,
    Alphabet,
    Scratch,
    merge_bytes,
    merge_symbols,
    merge_with_heap,
    symbols_of,
)
from bpe.merge._origins cimport Origins
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

cdef enum:
    MOST_RANK = 1 << 25       # what the merging of short pieces has bits for


cdef int check_merges(merges, ids, ranks, limit) except -1:
    """Raise ValueError unless merges are of ids below a limit, and their ranks rise or stay."""
    pairs, made, order = np.asarray(merges), np.asarray(ids), np.asarray(ranks)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or made.shape != (len(pairs),) or order.shape != made.shape:
        raise ValueError(
            f"merges, ids and ranks are of the shapes {pairs.shape}, {made.shape} and {order.shape}; they must be of "
            "(n, 2), (n,) and (n,)"
        )
    if not len(pairs):
        return 0
    for found in (pairs, made):
        if found.min() < 0 or found.max() >= limit:
            raise ValueError(f"merges have ids from {found.min()} to {found.max()}; ids are from 0 to {limit - 1}")
    if order[0] < 0 or (order[1:] < order[: len(order) - 1]).any():
        raise ValueError("the ranks of merges must be at least 0 and must not fall")
    return 0


cdef class Merger:

    def __init__(
        self,
        const uint32_t[::1] inner,         # token of a byte or code point; NO_TOKEN outside the alphabet
        const uint32_t[::1] last,          # the same at the last place of a word
        merges,                            # int32 (n, 2): pairs of tokens, best rank first
        ids,                               # int32 (n,): the token that each makes
        ranks,                             # int32 (n,): rising; merges of one rank make one token
        size_t limit,                      # one more than the greatest id
        uint32_t mark,                     # the end-of-word mark where it is a symbol of its own, else NO_TOKEN
        uint32_t unk,                      # the unknown token, or NO_TOKEN
        bint fuse_unk,
        bint chars,                        # symbols are characters, not bytes
        unreached,                         # int32: tokens that merging their own bytes does not give; None: not known
    ):
        check_merges(merges, ids, ranks, limit)
        if not chars and (inner.shape[0] < 256 or last.shape[0] < 256):
            raise ValueError(f"there are tokens for {inner.shape[0]} and {last.shape[0]} bytes; there must be 256")
        if inner.shape[0] == 0 or last.shape[0] == 0 or (unk != NO_TOKEN and unk >= limit):
            raise ValueError(f"the unknown token is {unk}; ids are below {limit}, and there must be symbols")
        self.held = (inner, last)
        self.alphabet.inner, self.alphabet.n_inner = &inner[0], inner.shape[0]
        self.alphabet.last, self.alphabet.n_last = &last[0], last.shape[0]
        self.alphabet.mark = mark
        self.alphabet.unk = unk
        self.alphabet.fuse_unk = fuse_unk
        self.alphabet.chars = chars
        self.unmarked = self.alphabet
        self.unmarked.last, self.unmarked.n_last, self.unmarked.mark = &inner[0], inner.shape[0], NO_TOKEN
        self.unmarked.plain = not chars and not np.any(np.asarray(inner) == NO_TOKEN)
        self.alphabet.plain = self.unmarked.plain and mark == NO_TOKEN and np.array_equal(inner, last)
        is_symbol = np.zeros(limit, dtype=np.bool_)                      # np.unique would import numpy.ma: 8 ms
        for some in (np.asarray(inner), np.asarray(last), np.array([mark], dtype=np.uint32)):
            is_symbol[some[some != NO_TOKEN]] = True
        symbols = np.flatnonzero(is_symbol).astype(np.uint32)
        self.table = PairTable(merges, ids, ranks)
        if not chars:
            self.table.index_bytes(inner)
        self.origins = Origins(self.table, symbols, merges, ids, ranks, limit, unreached)
        if unk != NO_TOKEN and unk not in symbols and (
            np.any(np.asarray(merges) == unk) or np.any(np.asarray(ids) == unk)
        ):
            self.origins.ordered = False                   # merging can go on from symbols that no alphabet has
        self.small_ranks = not len(ranks) or int(ranks[len(ranks) - 1]) < MOST_RANK

    cdef int merge(
        self, const byte_t* piece, Py_ssize_t size, bint earlier, Scratch* scratch, Ids* out, bint* unknown
    ) except -1 nogil:
        """Write the ids of a piece, which is not empty; `earlier` where it is not the end of its word.

        `unknown` becomes True where it has a symbol without an id.
        """
        cdef Py_ssize_t n, unknown_at = -1
        cdef const Alphabet* alphabet = &self.unmarked if earlier else &self.alphabet
        if alphabet.plain and size <= SHORT and self.small_ranks:
            reserve(out, size)
            out.n += merge_bytes(&self.table.pairs, alphabet, piece, size, out.data + out.n)
            return 0
        if size > SHORT and self.small_ranks and self.origins.ordered:
            if merge_windows(&self.table.pairs, alphabet, self.origins, piece, size, scratch, &unknown_at, out):
                unknown[0] |= unknown_at >= 0
                return 0
        scratch.symbols = <token_t*>grown(scratch.symbols, &scratch.symbols_room, size + 1, sizeof(token_t))
        n = symbols_of(alphabet, piece, size, scratch.symbols, &unknown_at)
        unknown[0] |= unknown_at >= 0
        if n > SHORT or not self.small_ranks:
            return merge_with_heap(&self.table.pairs, scratch.symbols, n, scratch, out)
        n = merge_symbols(&self.table.pairs, scratch.symbols, n)
        reserve(out, n)
        memcpy(out.data + out.n, scratch.symbols, n * sizeof(token_t))
        out.n += n
        return 0
