"""Merging: the symbols of a piece, and what they become when the best pair is joined again and again.

A short piece keeps its merges in an array that is scanned for the best one; its live places are the bits of a word. A
long piece of a vocabulary that backtracking cannot serve (`backtrack.pyx`) goes over a heap. Merges of equal rank are
applied from left to right. Not here: the table of pairs (`pairtable.pyx`), caches (`wordcache.pyx`).
"""

from bpe._core.memory cimport grown
from bpe._core.pairtable cimport NO_MERGE, Pairs, find_pair
from bpe._core.queue cimport pop, push
from bpe._core.types cimport NO_TOKEN, byte_t, token_t
from bpe._core.unicode cimport decode_char
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

cdef extern from "classify.h" nogil:
    int bpe_ctz(uint64_t bits)
    int bpe_clz(uint64_t bits)

cdef extern from "lookup.h" nogil:
    void bpe_advise_huge(void* memory, size_t used, size_t size)

cdef extern from *:
    """
    #define BPE_NEVER INT32_MAX
    """
    const int32_t NEVER "BPE_NEVER"          # the order of a place where nothing merges


cdef int make_room(Ids* ids, size_t more) except -1 nogil:
    """Grow an array of ids, in large pages where the system has them: fresh small ones are a tenth of all time."""
    ids.data = <token_t*>grown(ids.data, &ids.room, ids.n + more, sizeof(token_t))
    bpe_advise_huge(ids.data, ids.n * sizeof(token_t), ids.room * sizeof(token_t))
    return 0


cdef void free_scratch(Scratch* scratch) noexcept nogil:
    free(scratch.symbols)
    free(scratch.links)
    free(scratch.queue.entries)
    free(scratch.failed)


cdef Py_ssize_t symbols_of(
    const Alphabet* alphabet, const byte_t* piece, Py_ssize_t size, token_t* symbols, Py_ssize_t* unknown
) noexcept nogil:
    """Write the symbols of a piece; how many they are. One without an id is the unknown token, or NO_TOKEN."""
    cdef Py_ssize_t pos = 0, length = 1, n = 0, at
    cdef uint32_t code, token
    while pos < size:
        at = pos
        if alphabet.chars:
            code = decode_char(piece, pos, size, &length)
        else:
            code = piece[pos]
        pos += length
        token = NO_TOKEN
        if pos < size:
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
    if alphabet.mark != NO_TOKEN:
        symbols[n] = alphabet.mark
        n += 1
    return n


# Short pieces ---------------------------------------------------------------------------------------------------------


cdef inline void set_merge(uint64_t merge, Py_ssize_t at, int32_t* order, token_t* made) noexcept nogil:
    """Note what the symbol at a place makes with the one behind it: by rank, then from left to right."""
    order[at] = NEVER if merge == NO_MERGE else <int32_t>(merge >> 32 << 6 | <uint64_t>at)
    made[at] = <token_t>merge


cdef inline int32_t best_of(const int32_t* order, Py_ssize_t n) noexcept nogil:
    """The least of n orders, n a multiple of 8; a loop that compilers turn into vector code."""
    cdef int32_t best = NEVER
    cdef Py_ssize_t i
    for i in range(n):
        best = order[i] if order[i] < best else best
    return best


cdef inline Py_ssize_t merge_placed(
    const Pairs* pairs, token_t* tokens, int32_t* order, token_t* made, Py_ssize_t n
) noexcept nogil:
    """Merge n symbols whose first merges are noted; those left are moved to the front.

    Worked example with GPT-2's ranks: `l o w e s t` has e s, then es t, l o and lo w; `low est` is left.
    """
    cdef uint64_t live = ~<uint64_t>0 >> (64 - n), rest
    cdef Py_ssize_t at, behind, padded = (n + 7) & ~7, kept = 0
    cdef int32_t best
    for at in range(n - 1, padded):
        order[at] = NEVER
    while True:
        best = best_of(order, padded)
        if best == NEVER:
            break
        at = best & 63
        tokens[at] = made[at]
        rest = live & ~<uint64_t>1 << at                   # those behind it
        behind = bpe_ctz(rest)
        rest &= rest - 1
        live &= ~(<uint64_t>1 << behind)
        order[behind] = NEVER
        if rest:
            set_merge(find_pair(pairs, tokens[at], tokens[bpe_ctz(rest)]), at, order, made)
        else:
            order[at] = NEVER
        rest = live & ((<uint64_t>1 << at) - 1)
        if rest:
            behind = 63 - bpe_clz(rest)
            set_merge(find_pair(pairs, tokens[behind], tokens[at]), behind, order, made)
    while live:
        tokens[kept] = tokens[bpe_ctz(live)]
        kept += 1
        live &= live - 1
    return kept


cdef Py_ssize_t merge_bytes(
    const Pairs* pairs, const Alphabet* alphabet, const byte_t* piece, Py_ssize_t size, token_t* out
) noexcept nogil:
    """The ids of a piece of 1 to SHORT bytes, where the alphabet is plain; how many they are."""
    cdef int32_t order[SHORT]
    cdef token_t made[SHORT]
    cdef token_t tokens[SHORT]
    cdef Py_ssize_t i
    for i in range(size - 1):
        tokens[i] = alphabet.inner[piece[i]]
        set_merge(pairs.of_bytes[<size_t>piece[i] << 8 | piece[i + 1]], i, order, made)
    tokens[size - 1] = alphabet.inner[piece[size - 1]]
    i = merge_placed(pairs, tokens, order, made, size)
    memcpy(out, tokens, i * sizeof(token_t))
    return i


cdef Py_ssize_t merge_symbols(const Pairs* pairs, token_t* symbols, Py_ssize_t n) noexcept nogil:
    """Merge 1 to SHORT symbols in place; the new number."""
    cdef int32_t order[SHORT]
    cdef token_t made[SHORT]
    cdef Py_ssize_t i
    for i in range(n - 1):
        set_merge(find_pair(pairs, symbols[i], symbols[i + 1]), i, order, made)
    return merge_placed(pairs, symbols, order, made, n)


# Long pieces by a heap ------------------------------------------------------------------------------------------------


cdef int merge_with_heap(const Pairs* pairs, Scratch* scratch, Py_ssize_t n, Ids* out) except -1 nogil:
    """Merge the n symbols of `scratch` and append what is left: a heap of (rank, place) over a linked list.

    An entry is stale unless the symbol at its place still has a merge of that rank with the one behind it.
    """
    cdef Link* links
    cdef uint64_t entry
    cdef uint32_t at, behind, none = <uint32_t>n
    cdef Py_ssize_t i
    if <size_t>n >= NO_TOKEN:
        with gil:
            raise ValueError(f"a piece of {n} symbols is too long to merge; at most 2**32 - 2 fit: split the text")
    scratch.links = <Link*>grown(scratch.links, &scratch.links_room, n, sizeof(Link))
    scratch.queue.entries = <uint64_t*>grown(scratch.queue.entries, &scratch.queue.room, n, sizeof(uint64_t))
    links = scratch.links
    scratch.queue.n = 0
    for i in range(n):
        links[i].token = scratch.symbols[i]
        links[i].before = <uint32_t>i - 1 if i > 0 else none
        links[i].behind = <uint32_t>i + 1
        links[i].merge = NO_MERGE
        if i < n - 1:
            links[i].merge = find_pair(pairs, scratch.symbols[i], scratch.symbols[i + 1])
        if links[i].merge != NO_MERGE:
            push(&scratch.queue, (links[i].merge >> 32) << 32 | <uint64_t>i)
    while scratch.queue.n > 0:
        entry = pop(&scratch.queue)
        at = <uint32_t>entry
        if links[at].merge == NO_MERGE or links[at].merge >> 32 != entry >> 32:
            continue
        behind = links[at].behind
        links[at].token = <token_t>links[at].merge
        links[at].behind = links[behind].behind
        links[behind].merge = NO_MERGE
        links[behind].token = NO_TOKEN
        if links[at].behind != none:
            links[links[at].behind].before = at
        look_behind(pairs, scratch, at, none)
        if links[at].before != none:
            look_behind(pairs, scratch, links[at].before, none)
    at = 0
    while at != none:
        reserve(out, 1)
        out.data[out.n] = links[at].token
        out.n += 1
        at = links[at].behind
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
