"""Merging: the symbols of a piece, and joining their best pair again and again.

Up to 64 symbols are a row, whose merges are scanned for the best one (`_short_merge.h`). Large windows of a long piece,
and a piece that `_long_merge.pyx` gives up, are merged in passes while these are worth it, and then with a heap: O(n
log n) for n symbols. Merges of equal rank are applied from left to right.
"""

from bpe.base._cpu cimport follow_vector_level
from bpe.base._ids cimport Ids, append_id, reserve
from bpe.base._interrupts cimport count_work, poll_if_due
from bpe.base._memory cimport grow_array
from bpe.base._random cimport next_random
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._merge_queue cimport Queue, pop, push
from bpe.merge._merge_table cimport NO_MERGE, Merges, find_pair
from bpe.text._unicode cimport decode_char
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free

cdef extern from "bpe/merge/_short_merge.h" nogil:
    void bpe_merge_row(const Merges* merges, Row* row)
    void bpe_merge_rows(const Merges* merges, Row* rows, size_t n)
    void use_level_merge "bpe_use_level_merge"(int level) noexcept

cdef enum:
    MAX_SYMBOLS_PER_MERGE = 8  # a pass pays if it merges one symbol in this many


follow_vector_level(use_level_merge)


cdef void free_scratch(Scratch* scratch) noexcept nogil:
    free(scratch.symbols)
    free(scratch.links)
    free(scratch.queue.entries)
    free(scratch.window)


cdef Py_ssize_t write_symbols(
    const SymbolTokens* symbol_tokens, const byte_t* piece, Py_ssize_t size, Scratch* scratch, Py_ssize_t* unknown
) except -1 nogil:
    """Write the symbols of a piece; returns their number.

    A symbol that is not in the alphabet becomes the tokens of its bytes, if all of them have one; else the unknown
    token, else NO_TOKEN, or nothing. As in Hugging Face's `tokenizers`, an unknown token is held back until the
    next symbol of the alphabet or the next unknown one, so that byte tokens in between come before it.
    """
    cdef Py_ssize_t pos = 0, length = 1, n = 0, start, capacity = size + 1
    cdef uint32_t code
    cdef token_t token
    cdef token_t* symbols
    cdef bint pending = False                              # an unknown token is not written yet
    if symbol_tokens.byte_ids != NULL:
        capacity += size * symbol_tokens.prefix.size + symbol_tokens.suffix.size
    symbols = <token_t*>grow_array(scratch.symbols, &scratch.symbols_capacity, capacity, sizeof(token_t))
    scratch.symbols = symbols
    while pos < size:
        start = pos
        if symbol_tokens.is_char_model:
            code = decode_char(piece, pos, size, &length)
        else:
            code = piece[pos]
        pos += length
        token = find_symbol_token(symbol_tokens, code, start == 0, pos >= size)
        if token == NO_TOKEN:
            if symbol_tokens.byte_ids != NULL:
                if append_symbol_bytes(symbol_tokens, piece, start, min(pos, size), size, symbols, &n):
                    continue
            if symbol_tokens.unk_id != NO_TOKEN:
                if pending and not symbol_tokens.fuse_unk:
                    symbols[n] = symbol_tokens.unk_id
                    n += 1
                pending = True
                continue
            if symbol_tokens.drop_unknown:
                continue
            if unknown[0] < 0:
                unknown[0] = start
        if pending:
            symbols[n] = symbol_tokens.unk_id
            n += 1
            pending = False
        symbols[n] = token
        n += 1
    if pending:
        symbols[n] = symbol_tokens.unk_id
        n += 1
    if symbol_tokens.mark_id != NO_TOKEN:
        symbols[n] = symbol_tokens.mark_id
        n += 1
    return n


cdef inline token_t find_symbol_token(
    const SymbolTokens* symbol_tokens, uint32_t code, bint is_first, bint is_last
) noexcept nogil:
    """Find the token of a byte or code point at a position of a word, or NO_TOKEN."""
    cdef const TokensBySymbol* symbols = &symbol_tokens.inner
    if is_last:
        symbols = &symbol_tokens.only if is_first else &symbol_tokens.last
    elif is_first:
        symbols = &symbol_tokens.first
    return symbols.tokens[code] if code < symbols.n else NO_TOKEN


cdef bint append_symbol_bytes(
    const SymbolTokens* symbol_tokens, const byte_t* piece, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size,
    token_t* symbols, Py_ssize_t* n,
) noexcept nogil:
    """Append the tokens of the bytes of a symbol, of its prefix and its suffix; False, and nothing, if one has none."""
    cdef Py_ssize_t written = n[0]
    cdef const Affix* prefix = &symbol_tokens.prefix
    cdef const Affix* suffix = &symbol_tokens.suffix
    if start > 0 and not append_byte_tokens(symbol_tokens, prefix.data, prefix.size, symbols, &written):
        return False
    if not append_byte_tokens(symbol_tokens, piece + start, end - start, symbols, &written):
        return False
    if end == size and not append_byte_tokens(symbol_tokens, suffix.data, suffix.size, symbols, &written):
        return False
    n[0] = written
    return True


cdef inline bint append_byte_tokens(
    const SymbolTokens* symbol_tokens, const byte_t* data, Py_ssize_t size, token_t* symbols, Py_ssize_t* n
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        symbols[n[0]] = symbol_tokens.byte_ids[data[i]]
        if symbols[n[0]] == NO_TOKEN:
            return False
        n[0] += 1
    return True


cdef void merge_row(const Merges* merges, Row* row) noexcept nogil:
    """Merge a row."""
    bpe_merge_row(merges, row)


cdef int merge_and_append_row(const Merges* merges, Row* row, Ids* out) except -1 nogil:
    """Merge a row, and append its tokens."""
    bpe_merge_row(merges, row)
    reserve(out, row.n)
    out.n += copy_row_tokens(row, out.data + out.n)
    return 0


cdef void merge_rows(const Merges* merges, Row* rows, size_t n) noexcept nogil:
    """Merge up to MAX_ROWS rows, a merge of each in turn."""
    bpe_merge_rows(merges, rows, n)


# Long pieces in passes and with a heap --------------------------------------------------------------------------------


cdef Py_ssize_t merge_in_passes(
    const Merges* merges, token_t* tokens, Py_ssize_t n, Scratch* scratch, size_t written
) except -1 nogil:
    """Apply the best merge everywhere in one pass, from left to right, and so on; returns the number of tokens left.

    For ranks in order only: pairs with a new token have higher ranks, so no other merge comes between those of a pass.
    Passes end with one that merges less than an eighth of the symbols, so that they are linear together. In runs of one
    symbol each pass halves the symbols, and the heap has little to do: runs of `=` of random lengths take 35 ns a byte
    instead of 550.
    """
    cdef uint64_t* pair_merges
    cdef uint64_t best
    cdef Py_ssize_t i, n_before = n + n
    scratch.queue.entries = <uint64_t*>grow_array(scratch.queue.entries, &scratch.queue.capacity, n, sizeof(uint64_t))
    pair_merges = scratch.queue.entries
    for i in range(n - 1):
        pair_merges[i] = find_pair(merges, tokens[i], tokens[i + 1])
    while n > 1 and n_before - n >= n_before // MAX_SYMBOLS_PER_MERGE:
        best = NO_MERGE
        for i in range(n - 1):
            best = min(best, pair_merges[i])
        if best == NO_MERGE:
            break
        n_before = n
        n = apply_everywhere(merges, best >> 32, tokens, pair_merges, n)
        count_work(&scratch.watch, n_before)
        poll_if_due(&scratch.watch, written)
    return n


cdef Py_ssize_t apply_everywhere(
    const Merges* merges, uint64_t rank, token_t* tokens, uint64_t* pair_merges, Py_ssize_t n
) noexcept nogil:
    """Merge every pair of a rank, from left to right; returns the number of tokens left.

    `pair_merges[i]` is the merge of `tokens[i]` and `tokens[i + 1]`, and is kept up to date.
    """
    cdef Py_ssize_t i = 0, n_kept = 0
    cdef uint64_t merge
    cdef bint is_new = False, was_new
    while i < n:
        merge = pair_merges[i] if i < n - 1 else NO_MERGE
        was_new = is_new
        is_new = merge >> 32 == rank
        tokens[n_kept] = <token_t>merge if is_new else tokens[i]
        i += 2 if is_new else 1
        if n_kept and (is_new or was_new):
            pair_merges[n_kept - 1] = find_pair(merges, tokens[n_kept - 1], tokens[n_kept])
        if not is_new:
            pair_merges[n_kept] = merge                    # replaced if a new token follows
        n_kept += 1
    return n_kept


cdef int check_length(Py_ssize_t n) except -1 nogil:
    """Raise ValueError if positions in a piece of n symbols do not fit in 32 bits."""
    if <size_t>n >= NO_TOKEN:
        with gil:
            raise ValueError(f"a piece of {n} symbols is too long to merge; at most 2**32 - 2 fit: split the text")
    return 0


cdef int merge_with_heap(
    const Merges* merges, const token_t* symbols, Py_ssize_t n, Scratch* scratch, Ids* out, DropoutState* dropout
) except -1 nogil:
    """Merge n symbols and append the tokens: a heap of (rank, position) over a linked list.

    An entry is stale unless the symbol at its position still has a merge of that rank with the next one.
    """
    cdef uint64_t entry
    link_symbols(merges, symbols, n, scratch)
    count_work(&scratch.watch, n)
    while scratch.queue.n > 0:
        entry = pop(&scratch.queue)
        count_work(&scratch.watch, IDS_PER_STEP)
        poll_if_due(&scratch.watch, out.n)
        if is_current(scratch, entry) and (dropout == NULL or not is_dropped(dropout, entry)):
            merge_with_next(merges, scratch, <uint32_t>entry, n)
            while dropout != NULL and dropout.dropped.n > 0:
                dropout.dropped.n -= 1
                push(&scratch.queue, dropout.dropped.entries[dropout.dropped.n])
    return append_links(scratch, n, out)


cdef bint is_dropped(DropoutState* dropout, uint64_t entry) except -1 nogil:
    """Whether to leave out a merge until the next one is made. An entry can be in the queue twice, at equal ranks."""
    cdef Queue* dropped = &dropout.dropped
    if dropped.n and dropped.entries[dropped.n - 1] == entry:
        return True
    if next_random(&dropout.state) >> 11 >= dropout.drop_threshold:
        return False
    dropped.entries = <uint64_t*>grow_array(dropped.entries, &dropped.capacity, dropped.n + 1, sizeof(uint64_t))
    dropped.entries[dropped.n] = entry
    dropped.n += 1
    return True


cdef inline bint is_current(const Scratch* scratch, uint64_t entry) noexcept nogil:
    """Whether an entry of the queue is still the merge of its symbol with the next one."""
    cdef uint64_t merge = scratch.links[<uint32_t>entry].merge
    return merge != NO_MERGE and merge >> 32 == entry >> 32


cdef int link_symbols(const Merges* merges, const token_t* symbols, Py_ssize_t n, Scratch* scratch) except -1 nogil:
    """Make a linked list of n symbols, and queue all their merges."""
    cdef Link* links
    cdef uint32_t none = <uint32_t>n
    cdef Py_ssize_t i
    check_length(n)
    scratch.links = <Link*>grow_array(scratch.links, &scratch.links_capacity, n, sizeof(Link))
    scratch.queue.entries = <uint64_t*>grow_array(scratch.queue.entries, &scratch.queue.capacity, n, sizeof(uint64_t))
    links = scratch.links
    scratch.queue.n = 0
    for i in range(n):
        links[i] = Link(
            merge=NO_MERGE, token=symbols[i], previous=<uint32_t>i - 1 if i > 0 else none, next=<uint32_t>i + 1
        )
    for i in range(n - 1):
        queue_merge(merges, scratch, <uint32_t>i)
    return 0


cdef int merge_with_next(const Merges* merges, Scratch* scratch, uint32_t index, Py_ssize_t n) except -1 nogil:
    """Merge a symbol with the next one, and queue the merges of the result with its neighbours."""
    cdef Link* links = scratch.links
    cdef uint32_t next = links[index].next, none = <uint32_t>n
    links[index].token = <token_t>links[index].merge
    links[index].next = links[next].next
    links[index].merge = links[next].merge = NO_MERGE
    if links[index].next != none:
        links[links[index].next].previous = index
        queue_merge(merges, scratch, index)
    if links[index].previous != none:
        queue_merge(merges, scratch, links[index].previous)
    return 0


cdef int append_links(const Scratch* scratch, Py_ssize_t n, Ids* out) except -1 nogil:
    """Append the tokens that n symbols became."""
    cdef uint32_t index = 0
    while index != <uint32_t>n:
        append_id(out, scratch.links[index].token)
        index = scratch.links[index].next
    return 0


cdef int queue_merge(const Merges* merges, Scratch* scratch, uint32_t index) except -1 nogil:
    """Find the merge of a symbol with the next one, and queue it."""
    cdef Link* link = &scratch.links[index]
    link.merge = find_pair(merges, link.token, scratch.links[link.next].token)
    if link.merge != NO_MERGE:
        push(&scratch.queue, (link.merge >> 32) << 32 | index)
    return 0
