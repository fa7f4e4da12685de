"""Merging: the symbols of a piece, and what they become when the best pair is joined again and again.

A short piece keeps its merges in an array that is scanned for the best one; its live places are the bits of a word. A
long piece that windows cannot serve (`_long_merge.pyx`) goes over a heap. Merges of equal rank are applied from left to
right. Not here: the table of pairs (`_merge_table.pyx`), caches (`encode/_word_cache.pyx`).
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._ids cimport Ids, reserve
from bpe.base._interrupts cimport look
from bpe.base._memory cimport grown
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._merge_queue cimport pop, push
from bpe.merge._merge_table cimport NO_MERGE, Pairs, find_pair
from bpe.text._unicode cimport decode_char
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    int bpe_ctz(uint64_t bits)
    int bpe_clz(uint64_t bits)

cdef extern from "bpe/merge/_short_merge.h" nogil:
    int merging_level "bpe_merging_level"
    void set_merge "bpe_set_merge"(Row* row, Py_ssize_t at, uint64_t merge)
    void merge_row_avx512 "bpe_merge_row_avx512"(const Pairs* pairs, Row* row)
    void use_level_merge "bpe_use_level_merge"(int level) noexcept

cdef enum:
    FAR = 1 << 20             # entries of a heap between two looks for signals


follow_vector_level(use_level_merge)


cdef void free_scratch(Scratch* scratch) noexcept nogil:
    free(scratch.symbols)
    free(scratch.links)
    free(scratch.queue.entries)


cdef Py_ssize_t symbols_of(
    const Alphabet* alphabet, const byte_t* piece, Py_ssize_t size, token_t* symbols, Py_ssize_t* unknown
) noexcept nogil:
    """Write the symbols of a piece; how many they are. One without an id is the unknown token, or NO_TOKEN."""
    cdef Unread unread = Unread(piece=piece, size=size, pos=0, ended=False)
    return more_symbols(alphabet, &unread, symbols, 0, size + 1, unknown)


cdef Py_ssize_t more_symbols(
    const Alphabet* alphabet, Unread* unread, token_t* symbols, Py_ssize_t n, Py_ssize_t room, Py_ssize_t* unknown
) noexcept nogil:
    """Write symbols of a piece behind n that are there, as long as there is room for one more; how many there are."""
    cdef Py_ssize_t pos = unread.pos, length = 1, at
    cdef uint32_t code, token
    while pos < unread.size and n < room:
        at = pos
        if alphabet.chars:
            code = decode_char(unread.piece, pos, unread.size, &length)
        else:
            code = unread.piece[pos]
        pos += length
        token = NO_TOKEN
        if pos < unread.size:
            if code < alphabet.n_inner:
                token = alphabet.inner[code]
        elif code < alphabet.n_last:
            token = alphabet.last[code]
        if token == NO_TOKEN:
            token = alphabet.unk
            if token == NO_TOKEN:
                if unknown[0] < 0:
                    unknown[0] = at
            elif alphabet.fuse_unk and n > 0 and symbols[n - 1] == token:
                continue
        symbols[n] = token
        n += 1
    unread.pos = pos
    if pos == unread.size and n < room and not unread.ended:
        unread.ended = True
        if alphabet.mark != NO_TOKEN:
            symbols[n] = alphabet.mark
            n += 1
    return n


# Short pieces ---------------------------------------------------------------------------------------------------------


cdef inline int32_t least_order(const int32_t* order, Py_ssize_t n) noexcept nogil:
    """The least of n orders, n a multiple of 8; a loop that compilers turn into vector code."""
    cdef int32_t least = NEVER
    cdef Py_ssize_t i
    for i in range(n):
        least = order[i] if order[i] < least else least
    return least


cdef void merge_row(const Pairs* pairs, Row* row) noexcept nogil:
    """Merge the symbols of a row whose first merges are set: `live` then says where tokens are left.

    Worked example with GPT-2's ranks: `l o w e s t` has e s, then es t, l o and lo w; `low est` is left.
    """
    cdef Py_ssize_t at, behind, padded = (row.n + 7) & ~7
    cdef int32_t least
    cdef uint64_t rest
    if merging_level >= 3:
        merge_row_avx512(pairs, row)
        return
    row.live = ~<uint64_t>0 >> (64 - row.n)
    for at in range(row.n - 1, padded):
        row.order[at] = NEVER
    while True:
        least = least_order(row.order, padded)
        if least >= 0:
            return
        at = least & 63
        row.token[at + 1] = row.made[at + 1]
        rest = row.live & ~<uint64_t>1 << at               # those behind it
        behind = bpe_ctz(rest)
        rest &= rest - 1
        row.live ^= <uint64_t>1 << behind
        row.order[behind] = NEVER
        row.order[at] = NEVER
        if rest:
            set_merge(row, at, find_pair(pairs, row.token[at + 1], row.token[bpe_ctz(rest) + 1]))
        rest = row.live & ((<uint64_t>1 << at) - 1)
        if rest:
            behind = 63 - bpe_clz(rest)
            set_merge(row, behind, find_pair(pairs, row.token[behind + 1], row.token[at + 1]))


cdef Py_ssize_t merge_bytes(
    const Pairs* pairs, const Alphabet* alphabet, const byte_t* piece, Py_ssize_t size, token_t* out
) noexcept nogil:
    """The ids of a piece of 1 to SHORT bytes, where the alphabet is plain; how many they are."""
    cdef Row row
    row_of_bytes(&row, pairs, alphabet.inner, piece, size)
    merge_row(pairs, &row)
    return tokens_of(&row, out)


cdef Py_ssize_t merge_symbols(const Pairs* pairs, token_t* symbols, Py_ssize_t n) noexcept nogil:
    """Merge 1 to SHORT symbols in place; the new number."""
    cdef Row row
    row_of_symbols(&row, pairs, symbols, n)
    merge_row(pairs, &row)
    return tokens_of(&row, symbols)


# Long pieces by a heap ------------------------------------------------------------------------------------------------


cdef int merge_with_heap(
    const Pairs* pairs, const token_t* symbols, Py_ssize_t n, Scratch* scratch, Ids* out
) except -1 nogil:
    """Merge n symbols and append what is left: a heap of (rank, place) over a linked list.

    An entry is stale unless the symbol at its place still has a merge of that rank with the one behind it.
    """
    cdef uint64_t entry
    cdef size_t popped = 0
    begin_links(pairs, symbols, n, scratch)
    while scratch.queue.n > 0:
        entry = pop(&scratch.queue)
        popped += 1
        if popped % FAR == 0:
            look(&scratch.watch, out.n)
        if is_fresh(scratch, entry):
            join_behind(pairs, scratch, <uint32_t>entry, n)
    scratch.work += n + popped
    return append_links(scratch, n, out)


cdef int begin_links(const Pairs* pairs, const token_t* symbols, Py_ssize_t n, Scratch* scratch) except -1 nogil:
    """Make n symbols the linked list, and queue all their merges."""
    cdef Link* links
    cdef uint32_t none = <uint32_t>n
    cdef Py_ssize_t i
    if <size_t>n >= NO_TOKEN:
        with gil:
            raise ValueError(f"a piece of {n} symbols is too long to merge; at most 2**32 - 2 fit: split the text")
    scratch.links = <Link*>grown(scratch.links, &scratch.links_room, n, sizeof(Link))
    scratch.queue.entries = <uint64_t*>grown(scratch.queue.entries, &scratch.queue.room, n, sizeof(uint64_t))
    links = scratch.links
    scratch.queue.n = 0
    for i in range(n):
        links[i].token = symbols[i]
        links[i].before = <uint32_t>i - 1 if i > 0 else none
        links[i].behind = <uint32_t>i + 1
        links[i].merge = NO_MERGE
        if i < n - 1:
            links[i].merge = find_pair(pairs, symbols[i], symbols[i + 1])
        if links[i].merge != NO_MERGE:
            push(&scratch.queue, (links[i].merge >> 32) << 32 | <uint64_t>i)
    return 0


cdef int join_behind(const Pairs* pairs, Scratch* scratch, uint32_t at, Py_ssize_t n) except -1 nogil:
    """Make one token of a symbol and the one behind it."""
    cdef Link* links = scratch.links
    cdef uint32_t behind = links[at].behind, none = <uint32_t>n
    links[at].token = <token_t>links[at].merge
    links[at].behind = links[behind].behind
    links[behind].merge = NO_MERGE
    links[behind].token = NO_TOKEN
    if links[at].behind != none:
        links[links[at].behind].before = at
    look_behind(pairs, scratch, at, none)
    if links[at].before != none:
        look_behind(pairs, scratch, links[at].before, none)
    return 0


cdef int append_links(const Scratch* scratch, Py_ssize_t n, Ids* out) except -1 nogil:
    """Append the tokens that are left of n symbols."""
    cdef uint32_t at = 0
    while at != <uint32_t>n:
        reserve(out, 1)
        out.data[out.n] = scratch.links[at].token
        out.n += 1
        at = scratch.links[at].behind
    return 0


cdef int look_behind(const Pairs* pairs, Scratch* scratch, uint32_t at, uint32_t none) except -1 nogil:
    """Find the merge of a symbol with the one behind it, and queue it."""
    cdef Link* link = &scratch.links[at]
    link.merge = NO_MERGE
    if link.behind != none:
        link.merge = find_pair(pairs, link.token, scratch.links[link.behind].token)
        if link.merge != NO_MERGE:
            push(&scratch.queue, (link.merge >> 32) << 32 | at)
    return 0
