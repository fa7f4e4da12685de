"""Merging a long piece window by window, in linear time and exactly.

Tokens of which each two neighbours may be adjacent are what merging makes of their text (`_origins.pyx`). So windows of
a piece are merged by themselves, and only the borders where their tokens meet have to be checked:

    text     ....................................
    windows  [ a | b  | c | d |e]
                          [ d | f | g  | h |i]
                                       [ h | j | k |l]
    tokens     a | b  | c | d | f | g  | h | j | k

The tokens nearest to a window's end are not kept: with more text after them they may come out otherwise. The next
window begins after those that were kept. If its first token may not follow the last one kept, that one is dropped and
merged again with what follows; where this fails several times, the window grows. After some failures the piece is given
up, and a heap merges the whole of it: in cl100k that happens to a line of 71 `=` and a newline after a space, and in
other vocabularies to tokens longer than a window. A window is merged in registers, or by a heap where it is larger.

Symbols of a long piece that are not its bytes take four bytes each, and are read as they are needed. Requires ranks in
order, as `Origins.ordered` says.
"""

from bpe.base._ids cimport Ids, reserve
from bpe.base._interrupts cimport look_if_due
from bpe.base._memory cimport grown
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._merge_table cimport Pairs
from bpe.merge._merging cimport (
    SHORT,
    Alphabet,
    Row,
    Scratch,
    Unread,
    merge_row,
    merge_with_heap,
    more_symbols,
    row_of_bytes,
    row_of_symbols,
    tokens_of,
)
from bpe.merge._origins cimport NO_LIMIT, Origins
from libc.string cimport memcpy, memmove

cdef enum:
    LARGE = 2048              # symbols of a window at most, where one of SHORT does not do
    MARGIN = 5                # symbols at a window's end whose tokens are not kept, at least
    TRIES = 3                 # windows in a row that may fail before the next one is four times as large
    PATIENCE = 24             # windows that may fail before the piece is given up, less those made good

cdef Py_ssize_t most_symbols = 1 << 16   # held of a piece; a quarter of them before the furthest position

cdef struct Piece:
    const Pairs* pairs
    const Alphabet* alphabet
    const byte_t* text        # of a plain alphabet; else NULL, and `symbols` are given
    token_t* symbols          # those from `first` on
    Py_ssize_t first
    Py_ssize_t n              # symbols in all, or those read so far
    Unread* unread            # the rest, or NULL


def hold_symbols(Py_ssize_t most):
    """Set how many symbols of a long piece are held at once, for tests; return how many it was."""
    global most_symbols
    before, most_symbols = most_symbols, max(most, 2 * LARGE)
    return before


cdef bint merge_windows(
    const Pairs* pairs, const Alphabet* alphabet, Origins origins, const byte_t* text, Py_ssize_t size,
    Scratch* scratch, Py_ssize_t* unknown, Ids* out,
) except -1 nogil:
    """Append the ids of a long piece; False, and none are appended, where windows fail too often."""
    cdef Unread unread = Unread(piece=text, size=size, pos=0, ended=False)
    cdef Piece piece = Piece(pairs=pairs, alphabet=alphabet, text=text, symbols=NULL, first=0, n=size, unread=NULL)
    cdef token_t tokens[LARGE]
    cdef Py_ssize_t at = 0, furthest = 0, failed = 0, patience = PATIENCE, wanted, n, kept
    cdef size_t base = out.n
    cdef token_t last
    if not alphabet.plain:
        scratch.symbols = <token_t*>grown(scratch.symbols, &scratch.symbols_room, most_symbols, sizeof(token_t))
        piece.text, piece.symbols, piece.n, piece.unread = NULL, scratch.symbols, 0, &unread
        read_on(&piece, 0, scratch, unknown)
    if piece.n <= LARGE:
        patience = 2 * TRIES
    while at < piece.n:
        look_if_due(&scratch.watch, out.n)
        wanted = min(<Py_ssize_t>SHORT << 2 * min(failed // TRIES, 3), min(LARGE, piece.n - at))
        n = merge_window(&piece, at, wanted, tokens, scratch, out)
        scratch.watch.next -= wanted                       # a token may be long, and merging it takes as long
        scratch.work += wanted
        last = out.data[out.n - 1] if out.n > base else NO_TOKEN
        if last != NO_TOKEN and tokens[0] != NO_TOKEN and not origins.side_by_side(pairs, last, tokens[0], NO_LIMIT):
            out.n -= 1
            at -= symbols_in(origins, last)
            failed += 1
            patience -= 1
        else:
            kept = keep(origins, tokens, n, wanted, at + wanted == piece.n, out)
            at += kept
            if at > furthest:
                furthest = at
                failed = 0
                patience = min(patience + 1, <Py_ssize_t>PATIENCE)
            else:
                failed += 1 if kept else TRIES
                patience -= 1
        read_on(&piece, furthest, scratch, unknown)
        if patience == 0 or at < piece.first:
            out.n = base
            return False
    return True


cdef inline const token_t* symbols_at(const Piece* piece, Py_ssize_t at) noexcept nogil:
    """The symbols from a position on."""
    return piece.symbols + (at - piece.first)


cdef inline void read_on(Piece* piece, Py_ssize_t furthest, Scratch* scratch, Py_ssize_t* unknown) noexcept nogil:
    """Have the symbols of a large window after the furthest position, and one more, unless the piece ends before.

    Symbols far before it make room.
    """
    cdef Py_ssize_t first, held
    if piece.unread == NULL or piece.unread.ended or piece.n - furthest > LARGE:
        return
    first = max(piece.first, furthest - most_symbols // 4)
    held = piece.n - first
    memmove(piece.symbols, symbols_at(piece, first), held * sizeof(token_t))
    scratch.work += held
    piece.first = first
    piece.n = first + more_symbols(piece.alphabet, piece.unread, piece.symbols, held, most_symbols, unknown)


cdef Py_ssize_t merge_window(
    const Piece* piece, Py_ssize_t at, Py_ssize_t size, token_t* tokens, Scratch* scratch, Ids* out
) except -1 nogil:
    """Merge the window of so many symbols at a position; its number of tokens. `out` may grow but gets nothing."""
    cdef Row row
    cdef Py_ssize_t i, n
    cdef size_t base = out.n
    if size <= SHORT:
        if piece.text != NULL:
            row_of_bytes(&row, piece.pairs, piece.alphabet.inner, piece.text + at, size)
        else:
            row_of_symbols(&row, piece.pairs, symbols_at(piece, at), size)
        merge_row(piece.pairs, &row)
        return tokens_of(&row, tokens)
    if piece.text == NULL:
        memcpy(tokens, symbols_at(piece, at), size * sizeof(token_t))
    else:
        for i in range(size):
            tokens[i] = piece.alphabet.inner[piece.text[at + i]]
    merge_with_heap(piece.pairs, tokens, size, scratch, out)
    n = out.n - base
    memcpy(tokens, out.data + base, n * sizeof(token_t))
    out.n = base
    return n


cdef inline Py_ssize_t symbols_in(Origins origins, token_t token) noexcept nogil:
    """How many symbols a token is made of; what stands for a symbol outside the alphabet is one."""
    return 1 if token >= origins.limit or origins.parts[token].size == 0 else origins.parts[token].size


cdef inline Py_ssize_t keep(
    Origins origins, const token_t* tokens, Py_ssize_t n, Py_ssize_t size, bint all_of_them, Ids* out
) except -1 nogil:
    """Append n tokens of `size` symbols but for those at their end; how many symbols are kept."""
    cdef Py_ssize_t left_out = 0
    while not all_of_them and n > 0 and left_out < MARGIN:
        n -= 1
        left_out += symbols_in(origins, tokens[n])
    if n:                                                  # an output without ids may have no memory
        reserve(out, n)
        memcpy(out.data + out.n, tokens, n * sizeof(token_t))
        out.n += n
    return size - left_out
