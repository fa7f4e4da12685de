"""Writing the array of symbols from the words, and compacting it; `_symbol_array.pxd` says what it is."""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._memory cimport add_overflows, check_allocated, grow_array, mul_overflows, prefetch
from bpe.base._pages cimport ask_for_huge_pages, forget_mapped
from bpe.base._team cimport MAX_PARTS, Team
from bpe.base._types cimport NO_TOKEN, byte_t, cell_t, count_t
from bpe.text._unicode cimport decode_char
from bpe.training._token_table cimport Tokens
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset


def count_symbols(
    const byte_t[::1] blob,            # IN the words' bytes
    const int64_t[::1] offsets,        # IN (n + 1,)
    const int64_t[::1] counts,         # IN (n,)
    bint is_char_model,                # symbols are characters, not bytes
    int64_t[::1] inner_counts,         # OUT occurrences of each symbol before the end of a word
    int64_t[::1] last_counts,          # OUT and at the end of a word
):
    """Count the symbols of words.

    Returns (the symbols of the distinct words, those of the corpus with one more for each word, or None if these
    overflow).

    The counts are added to `inner_counts` and `last_counts`.
    """
    cdef Py_ssize_t i, pos, end, length, n = counts.shape[0]
    cdef size_t n_symbols = min(inner_counts.shape[0], last_counts.shape[0])
    cdef int64_t cells = 0, n_word_symbols
    cdef long long total = 0, weighted = 0
    cdef uint32_t code
    cdef bint overflow = False
    check_offsets(offsets, n, blob.shape[0])
    if n == 0 or blob.shape[0] == 0:
        return 0, 0
    with nogil:
        for i in range(n):
            n_word_symbols = 0
            pos, end = offsets[i], offsets[i + 1]
            while pos < end:
                if is_char_model:
                    code = decode_char(&blob[0], pos, end, &length)
                else:
                    code, length = blob[pos], 1
                pos += length
                n_word_symbols += 1
                if code >= n_symbols:                      # not UTF-8: the caller has checked
                    continue
                if pos < end:
                    inner_counts[code] += counts[i]
                else:
                    last_counts[code] += counts[i]
            cells += n_word_symbols
            # One more per word leaves room for an end-of-word mark.
            overflow = mul_overflows(n_word_symbols + 1, counts[i], &weighted) or add_overflows(total, weighted, &total)
            if overflow:
                break
    return cells, None if overflow else total


# Writing --------------------------------------------------------------------------------------------------------------

cdef enum:
    FORGET_EVERY = 1 << 16    # cells between two times that the pages of a mapped file are let go
    PREFETCH_DISTANCE = 16    # words between the one that is prefetched and the one that is written

cdef enum SymbolKind:         # what the bytes of a word are
    BYTES = 0                 # its symbols
    CHARS = 1                 # its symbols in UTF-8
    TOKENS = 2                # the tokens that it begins with, four bytes each in the machine's order

cdef struct WordInput:        # word i is blob[offsets[i]:offsets[i + 1]]
    const byte_t* blob
    const int64_t* offsets
    const int64_t* counts
    size_t mapped             # the bytes of the blob if it is a file that is mapped for reading, else 0
    SymbolKind symbol_kind
    const uint32_t* inner_tokens  # the token of a byte or code point; NO_TOKEN outside the alphabet; unused for TOKENS
    const uint32_t* last_tokens   # the same at the end of a word
    size_t n_symbols          # the length of both
    size_t n_tokens           # what is not below this is no token
    uint32_t mark             # the end-of-word mark where it is a symbol of its own, else NO_TOKEN
    byte_t* occurs            # (parts, n_tokens + 1) OUT: set for each token that a part writes

cdef struct Layout:           # writing the words in an order, in parts
    const WordInput* words
    const int64_t* order
    size_t n_words
    int parts
    bint writes               # this is the second walk; the first counts cells and lists classes
    SymbolArray* symbols
    SymbolArray counted[MAX_PARTS]  # by part: its classes and the number of its cells, as if it began at 0
    size_t begins[MAX_PARTS]  # the first cell of a part


cdef size_t count_cells(const WordInput* words, size_t i) noexcept nogil:
    """Count the cells of a word, with the NONE after it; 0 for a word without a pair and one that does not occur."""
    cdef int64_t pos = words.offsets[i], end = words.offsets[i + 1]
    cdef size_t n = <size_t>(end - pos)
    if words.counts[i] <= 0:
        return 0
    if words.symbol_kind == TOKENS:
        n //= sizeof(uint32_t)
    elif words.symbol_kind == CHARS:
        n = 0
        while pos < end:
            n += words.blob[pos] & 0xC0 != 0x80
            pos += 1
    n += words.mark != NO_TOKEN
    return n + 1 if n > 1 else 0


cdef inline uint32_t read_symbol(const WordInput* words, int64_t* pos, int64_t end) noexcept nogil:
    """Read the token of the symbol at a position, and move past it; NO_TOKEN for one outside the alphabet."""
    cdef Py_ssize_t length = 1
    cdef uint32_t code = 0
    if words.symbol_kind == TOKENS:
        memcpy(&code, words.blob + pos[0], sizeof(uint32_t))
        pos[0] += sizeof(uint32_t)
    else:
        if words.symbol_kind == CHARS:
            code = decode_char(words.blob, pos[0], end, &length)
        else:
            code = words.blob[pos[0]]
        pos[0] += length
        if code >= words.n_symbols:
            return NO_TOKEN
        code = words.inner_tokens[code] if pos[0] < end else words.last_tokens[code]
    return code if code < words.n_tokens else NO_TOKEN


cdef size_t write_word(id_t* cells, size_t cell, const WordInput* words, size_t i, size_t n_cells) noexcept nogil:
    """Write a word's symbols and a NONE; returns the position after it. No pair crosses a symbol outside the alphabet.

    Exactly `n_cells` cells are written, the result of `count_cells`, whatever the bytes are.
    """
    cdef int64_t pos = words.offsets[i], end = words.offsets[i + 1]
    cdef size_t n_left = n_cells - 1 - (words.mark != NO_TOKEN)
    cdef uint32_t token
    while n_left > 0:
        token = read_symbol(words, &pos, end) if pos < end else NO_TOKEN
        if token != NO_TOKEN:
            words.occurs[token] = True
        cells[cell] = <id_t>token
        cell += 1
        n_left -= 1
    if words.mark != NO_TOKEN:
        words.occurs[words.mark] = True
        cells[cell] = <id_t>words.mark
        cell += 1
    cells[cell] = <id_t>NO_TOKEN
    return cell + 1


cdef void write_words(id_t* cells, const Layout* layout, int part) noexcept nogil:
    """Write the words of a part from its first cell on."""
    cdef WordInput part_words = layout.words[0]
    cdef const WordInput* words = &part_words
    cdef const int64_t* order = layout.order
    cdef size_t n_cells, cell = layout.begins[part], forgotten_until = cell, i, n = layout.n_words
    part_words.occurs += part * (words.n_tokens + 1)
    if part == 0:
        cells[0] = <id_t>NO_TOKEN
    for i in range(n * part // layout.parts, n * (part + 1) // layout.parts):
        prefetch(&words.offsets[order[min(i + 2 * PREFETCH_DISTANCE, n - 1)]])
        prefetch(words.blob + words.offsets[order[min(i + PREFETCH_DISTANCE, n - 1)]])
        n_cells = count_cells(words, order[i])
        if n_cells:
            cell = write_word(cells, cell, words, order[i], n_cells)
        if words.mapped and cell - forgotten_until > FORGET_EVERY:
            forget_mapped(words.blob, words.mapped)
            forgotten_until = cell


cdef int add_class(SymbolArray* symbols, size_t start, count_t count) except -1 nogil:
    """Begin a class at a position, unless the one before it has the same count."""
    cdef size_t capacity = symbols.capacity
    if symbols.n_classes > 0 and symbols.counts[symbols.n_classes - 1] == count:
        return 0
    symbols.starts = <cell_t*>grow_array(symbols.starts, &capacity, symbols.n_classes + 2, sizeof(cell_t))
    symbols.counts = <count_t*>grow_array(symbols.counts, &symbols.capacity, symbols.n_classes + 2, sizeof(count_t))
    symbols.starts[symbols.n_classes] = <cell_t>start
    symbols.counts[symbols.n_classes] = count
    symbols.n_classes += 1
    return 0


cdef int open_cells(SymbolArray* symbols, size_t n) except -1 nogil:
    """Allocate n cells, which end the last class."""
    cdef size_t size = n * (sizeof(uint32_t) if symbols.wide else sizeof(uint16_t))
    symbols.n = n
    symbols.cells = check_allocated(malloc(size), n, b"symbols of training")
    ask_for_huge_pages(symbols.cells, size)
    if symbols.n_classes > 0:
        symbols.starts[symbols.n_classes] = <cell_t>n
    return 0


cdef int count_words(Layout* layout, int part) except -1 nogil:
    """Count the cells of a part's words, and list their classes."""
    cdef const WordInput* words = layout.words
    cdef SymbolArray* counted = &layout.counted[part]
    cdef size_t n_cells, i, ahead, n = layout.n_words
    for i in range(n * part // layout.parts, n * (part + 1) // layout.parts):
        ahead = layout.order[min(i + PREFETCH_DISTANCE, n - 1)]
        prefetch(&words.offsets[ahead])
        prefetch(&words.counts[ahead])
        n_cells = count_cells(words, layout.order[i])
        if n_cells:
            add_class(counted, counted.n, words.counts[layout.order[i]])
            counted.n += n_cells
    return 0


cdef int walk_words(void* data, int part) except -1 nogil:
    cdef Layout* layout = <Layout*>data
    if not layout.writes:
        return count_words(layout, part)
    if layout.symbols.wide:
        write_words(<uint32_t*>layout.symbols.cells, layout, part)
    else:
        write_words(<uint16_t*>layout.symbols.cells, layout, part)
    return 0


cdef int join_classes(Layout* layout) except -1 nogil:
    """Add up the cells of all parts, and allocate them; neighbours of equal counts share a class, also across parts."""
    cdef const SymbolArray* counted
    cdef size_t count_class, n = 1
    cdef int part
    for part in range(layout.parts):
        counted = &layout.counted[part]
        for count_class in range(counted.n_classes):
            add_class(layout.symbols, n + counted.starts[count_class], counted.counts[count_class])
        layout.begins[part] = n
        n += counted.n
    return open_cells(layout.symbols, n)


cdef int lay_out(SymbolArray* symbols, const WordInput* words, const int64_t[::1] order, Team team) except -1 nogil:
    """Write the words of at least two symbols in this order, each part of it on a thread of its own."""
    cdef Layout layout
    cdef int part
    memset(&layout, 0, sizeof(Layout))
    layout.words, layout.symbols, layout.n_words, layout.parts = words, symbols, order.shape[0], team.size
    if layout.n_words:
        layout.order = &order[0]
    try:
        team.share(layout.parts, walk_words, &layout)
        join_classes(&layout)
        layout.writes = True
        team.share(layout.parts, walk_words, &layout)
    finally:
        for part in range(layout.parts):
            free_symbols(&layout.counted[part])
    choose_anchors(symbols)
    return 0


cdef int write_symbols(SymbolArray* symbols, Tokens* tokens, words, initial, bint by_count, Team team) except -1:
    """Write the symbols of a `WordArrays`, given an `InitialTokens`: the highest count first if `by_count`.

    The team's helpers must be running.

    A token that occurs gets a length of at least 1, since no merge may have it as its result.
    """
    cdef const byte_t[::1] blob = words.blob
    cdef const int64_t[::1] offsets = words.offsets, counts = words.counts, order = words.choose_layout_order(by_count)
    cdef const uint32_t[::1] inner_tokens = initial.inner_tokens, last_tokens = initial.last_tokens
    cdef WordInput word_input
    cdef size_t i
    is_encoded = initial.symbol_kind == TOKENS
    has_tables = inner_tokens is not None, last_tokens is not None
    if initial.symbol_kind not in (BYTES, CHARS, TOKENS) or has_tables != (not is_encoded, not is_encoded):
        raise ValueError(f"symbol_kind is {initial.symbol_kind}; bytes and characters need tables, tokens have none")
    check_offsets(offsets, counts.shape[0], blob.shape[0])
    if order.shape[0] and not 0 <= np.min(order) <= np.max(order) < counts.shape[0]:
        raise ValueError(f"the order names words {np.min(order)} to {np.max(order)}; there are {counts.shape[0]} words")
    if initial.mark_token != NO_TOKEN and initial.mark_token >= tokens.n:
        raise ValueError(f"the end-of-word mark is token {initial.mark_token}; the vocabulary has {tokens.n} tokens")
    memset(&word_input, 0, sizeof(word_input))
    word_input.symbol_kind, word_input.mark, word_input.n_tokens = initial.symbol_kind, initial.mark_token, tokens.n
    word_input.offsets = &offsets[0]
    if blob.shape[0]:
        word_input.blob, word_input.mapped = &blob[0], blob.shape[0] if words.is_mapped else 0
    if counts.shape[0]:
        word_input.counts = &counts[0]
    if not is_encoded and inner_tokens.shape[0] and last_tokens.shape[0]:
        word_input.inner_tokens, word_input.last_tokens = &inner_tokens[0], &last_tokens[0]
        word_input.n_symbols = min(inner_tokens.shape[0], last_tokens.shape[0])
    cdef byte_t[:, ::1] occurs = np.zeros((team.size, tokens.n + 1), dtype=np.uint8)
    word_input.occurs = &occurs[0, 0]
    with nogil:
        lay_out(symbols, &word_input, order, team)
    occurring = np.any(occurs, axis=0)
    for i in range(tokens.n):
        tokens.items[i].length = max(tokens.items[i].length, <uint32_t>occurring[i])
    return 0


cdef void free_symbols(SymbolArray* symbols) noexcept nogil:
    free(symbols.cells)
    free(symbols.starts)
    free(symbols.counts)


# Compacting -----------------------------------------------------------------------------------------------------------

cdef void compact_cells(id_t* cells, SymbolArray* symbols, const uint32_t* width) noexcept nogil:
    """Make every token one cell, and drop words that are one token, and classes without words."""
    cdef size_t count_class, r, end, word, begin, w = 1, n_kept = 0
    cdef id_t token
    for count_class in range(symbols.n_classes):
        r, end, begin = symbols.starts[count_class], symbols.starts[count_class + 1], w
        while r < end:
            word = w
            token = cells[r]
            while token != <id_t>NO_TOKEN:
                cells[w] = token
                w += 1
                r += width[token]
                token = cells[r]
            r += 1
            if w - word < 2:
                w = word
            else:
                cells[w] = <id_t>NO_TOKEN
                w += 1
        if w > begin:
            symbols.starts[n_kept], symbols.counts[n_kept] = <cell_t>begin, symbols.counts[count_class]
            n_kept += 1
    symbols.starts[n_kept] = <cell_t>w
    symbols.n_classes = n_kept
    symbols.n = w


cdef int compact(SymbolArray* symbols, uint32_t* width, size_t n_tokens) except -1 nogil:
    """Make every token one cell wide (its `width` too), drop words that are one token, and give memory back."""
    cdef size_t old_n = symbols.n, token
    cdef void* shrunk
    if symbols.n_classes == 0:
        return 0
    if symbols.wide:
        compact_cells(<uint32_t*>symbols.cells, symbols, width)
    else:
        compact_cells(<uint16_t*>symbols.cells, symbols, width)
    for token in range(n_tokens):
        width[token] = 1
    if symbols.n < old_n:
        shrunk = realloc(symbols.cells, symbols.n * (sizeof(uint32_t) if symbols.wide else sizeof(uint16_t)))
        if shrunk != NULL:
            symbols.cells = shrunk
    choose_anchors(symbols)
    return 0


cdef void find_anchors(const id_t* cells, SymbolArray* symbols) noexcept nogil:
    cdef size_t i, cell = 1
    for i in range(<size_t>N_ANCHORS):
        cell = max(cell, 1 + (symbols.n - 1) * i // N_ANCHORS)
        while cell < symbols.n and cells[cell - 1] != <id_t>NO_TOKEN:
            cell += 1
        symbols.anchors[i] = <cell_t>cell
    symbols.anchors[N_ANCHORS] = <cell_t>symbols.n


cdef void choose_anchors(SymbolArray* symbols) noexcept nogil:
    """Choose the anchors, when every token is one cell wide: later, NONE may be within a token."""
    if symbols.wide:
        find_anchors(<const uint32_t*>symbols.cells, symbols)
    else:
        find_anchors(<const uint16_t*>symbols.cells, symbols)


cdef int widen(SymbolArray* symbols) except -1 nogil:
    """Make 16-bit cells 32-bit ones."""
    cdef const uint16_t* narrow = <const uint16_t*>symbols.cells
    cdef size_t i, n = symbols.n
    cdef uint32_t* wide = <uint32_t*>check_allocated(malloc(n * sizeof(uint32_t)), n, b"symbols of training")
    for i in range(n):
        wide[i] = narrow[i] if narrow[i] != <uint16_t>NO_TOKEN else NO_TOKEN
    free(symbols.cells)
    symbols.cells = wide
    symbols.wide = True
    return 0
