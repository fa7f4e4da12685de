"""Merging a long piece window by window, which is what short pieces cost, and exact.

Tokens of which each two neighbours may stand side by side are what merging makes of their text (`_backtrack.pyx`), and
any that merging makes of a text are such tokens. So when windows are merged for themselves, only the borders where
their tokens are joined have to be asked about.

A step merges some windows that overlap, all at once:

    text     ....................................................
    windows  [ a | b  | c | d |e]
                          [ d | f | g  | h |i]
                                           [ i | j | k |l]
    tokens     a | b  | c | d | f | g  | h | i | j | k

In an overlap a border is sought that both have, and of which both sides may stand side by side (here d|f, h|i). Where
there is none, and at the end of the last window, the tokens nearest to the window's end are not kept: with more text
behind them they may come out otherwise. The next step begins behind those that were kept.

If its first token may not stand there, one more token is taken back and merged again with what follows; where that
leads nowhere the window grows, and if that does not help either, a piece that is one large window is merged as such
(in cl100k, a line of 71 `=` and a newline after a space), and a longer one is left to backtracking, which is slower and
needs a trie of all tokens, but is sure to end. A window with the text of the one before it comes to the same tokens: a
letter repeated a million times is merged once. Symbols of a long piece that are not its bytes are four bytes each, and
are taken as they are needed. Needs ranks in order, as backtracking does.
"""

from bpe.base._interrupts cimport look_if_due
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._backtrack cimport NO_LIMIT, Origins
from bpe.merge._merge_table cimport Pairs
from bpe.merge._merging cimport (
    ROWS,
    SHORT,
    Alphabet,
    Ids,
    Row,
    Scratch,
    Unread,
    merge_row,
    merge_rows,
    merge_with_heap,
    more_symbols,
    popcount,
    reserve,
    row_of_bytes,
    row_of_symbols,
    tokens_of,
)
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy, memmove

cdef extern from "bpe/pretokenize/_char_masks.h" nogil:
    int ctz "bpe_ctz"(uint64_t bits)

cdef enum:
    LARGE = 2048              # symbols of a window at most, where one of SHORT does not do
    OVERLAP = 10              # symbols that two windows of a step have in common
    STRIDE = SHORT - OVERLAP
    STEP = STRIDE * (ROWS - 1) + SHORT   # symbols of all of a step's windows
    MARGIN = 5                # symbols at a window's end whose tokens are not kept, at least
    TRIES = 3                 # steps in a row that may fail before the window grows to four times its size
    PATIENCE = 64             # steps that may fail before the piece is given up, but for those made good

cdef Py_ssize_t most_symbols = 1 << 16   # that are held of a piece; a quarter lies behind the furthest place

cdef struct Piece:
    const Pairs* pairs
    const Alphabet* alphabet
    const byte_t* text        # or NULL: `symbols` it is
    token_t* symbols          # those from `first` on
    Py_ssize_t first
    Py_ssize_t n              # symbols in all, or up to where they are known if that is not all
    Unread* unread            # what is not known, or NULL

cdef struct Window:
    Py_ssize_t at             # where it begins
    Py_ssize_t size           # in symbols
    Py_ssize_t n              # its tokens
    bint stepped              # it is a step of several, whose tokens are in rows
    token_t tokens[LARGE]


def hold_symbols(Py_ssize_t most):
    """How many symbols of a long piece are held at once, for tests; returns how many it were."""
    global most_symbols
    before, most_symbols = most_symbols, max(most, 2 * LARGE)
    return before


cdef bint merge_unread(
    const Pairs* pairs, const Alphabet* alphabet, Origins origins, const byte_t* text, Py_ssize_t size,
    Scratch* scratch, Py_ssize_t* unknown, Ids* out,
) except -1 nogil:
    """Append the ids of a long piece whose symbols are not its bytes, read as they are needed into `scratch.symbols`,
    which has room for `most_symbols`; False, and none are appended, where windows do not serve.
    """
    cdef Unread unread = Unread(piece=text, size=size, pos=0, ended=False)
    cdef Piece piece = Piece(
        pairs=pairs, alphabet=alphabet, text=NULL, symbols=scratch.symbols, first=0, n=0, unread=&unread
    )
    return merge_all(&piece, origins, scratch, unknown, out)


cdef bint merge_windows(
    const Pairs* pairs, const Alphabet* alphabet, Origins origins, const byte_t* text, Py_ssize_t n, Scratch* scratch,
    Ids* out,
) except -1 nogil:
    """The same for a piece of bytes, or if `text` is NULL of the n symbols of the scratch."""
    cdef Py_ssize_t unknown = -1
    cdef Piece piece = Piece(
        pairs=pairs, alphabet=alphabet, text=text, symbols=scratch.symbols, first=0, n=n, unread=NULL
    )
    return merge_all(&piece, origins, scratch, &unknown, out)


cdef bint merge_all(
    Piece* piece, Origins origins, Scratch* scratch, Py_ssize_t* unknown, Ids* out
) except -1 nogil:
    """The same for a piece, however its symbols are known."""
    cdef Window window
    cdef Row rows[ROWS]
    cdef Py_ssize_t at = 0, furthest = 0, patience, failed = 0, kept
    cdef size_t base = out.n
    cdef token_t last
    window.size = 0
    read_on(piece, 0, scratch, unknown)
    patience = PATIENCE if piece.n > LARGE else 2 * TRIES
    while at < piece.n:
        look_if_due(&scratch.watch, out.n)
        merge_next(piece, &window, rows, at, failed, scratch, out)
        last = out.data[out.n - 1] if out.n > base else NO_TOKEN
        if not may_join(piece, origins, last, window.tokens[0]):
            out.n -= 1
            at -= symbols_in(origins, last)
            failed += 1
            patience -= 1
        else:
            if window.stepped:
                kept = keep_step(piece, origins, rows, out)
            else:
                kept = keep(origins, window.tokens, window.n, window.size, at + window.size == piece.n, out)
            at += kept
            if at > furthest:
                furthest = at
                failed = 0
                patience = min(patience + 1, <Py_ssize_t>PATIENCE)
            else:
                failed += 1 if kept else TRIES
                patience -= 1
        read_on(piece, furthest, scratch, unknown)
        if patience == 0 or at < piece.first:
            out.n = base
            return piece.n <= LARGE and merge_whole(piece, &window, scratch, out)
    return True


cdef inline int merge_next(
    const Piece* piece, Window* window, Row* rows, Py_ssize_t at, Py_ssize_t failed, Scratch* scratch, Ids* out
) except -1 nogil:
    """Merge what begins at a place: a step of several windows, or after failures one window, which is as large as
    `failed` of them in a row ask for. The window before is used again where the text is the same.
    """
    cdef Py_ssize_t wanted = min(<Py_ssize_t>SHORT << 2 * min(failed // TRIES, 3), LARGE)
    window.stepped = False
    if window.size < wanted or not comes_again(piece, window, at):
        window.at = at
        window.size = min(wanted, piece.n - at)
        window.stepped = failed == 0 and piece.n - at >= STEP
        if window.stepped:
            merge_step(piece, window, rows)
        else:
            merge_window(piece, window, scratch, out)
        scratch.watch.next -= window.size                  # a token may be long, and merging it takes as long
    scratch.work += STEP if window.stepped else window.size
    window.at = at
    return 0


# Symbols --------------------------------------------------------------------------------------------------------------


cdef inline const token_t* symbols_at(const Piece* piece, Py_ssize_t at) noexcept nogil:
    """The symbols from a place on."""
    return piece.symbols + (at - piece.first)


cdef inline void read_on(Piece* piece, Py_ssize_t furthest, Scratch* scratch, Py_ssize_t* unknown) noexcept nogil:
    """Have the symbols of a large window behind the furthest place, and one more, unless the piece ends before."""
    if piece.unread != NULL and not piece.unread.ended and piece.n - furthest <= LARGE:
        slide(piece, furthest, scratch, unknown)


cdef void slide(Piece* piece, Py_ssize_t furthest, Scratch* scratch, Py_ssize_t* unknown) noexcept nogil:
    """Read on; symbols that lie far behind the furthest place make room."""
    cdef Py_ssize_t first = max(piece.first, furthest - most_symbols // 4)
    cdef Py_ssize_t held = piece.n - first
    memmove(piece.symbols, symbols_at(piece, first), held * sizeof(token_t))
    scratch.work += held
    piece.first = first
    piece.n = first + more_symbols(piece.alphabet, piece.unread, piece.symbols, held, most_symbols, unknown)


# Windows --------------------------------------------------------------------------------------------------------------


cdef inline bint comes_again(const Piece* piece, const Window* window, Py_ssize_t at) noexcept nogil:
    """Whether the text from a place on is that of the window."""
    if window.size == 0 or window.size > piece.n - at:
        return False
    if piece.text != NULL:
        return memcmp(piece.text + at, piece.text + window.at, window.size) == 0
    if window.at < piece.first:
        return False
    return memcmp(symbols_at(piece, at), symbols_at(piece, window.at), window.size * sizeof(token_t)) == 0


cdef inline void begin_row(const Piece* piece, Row* row, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """Set a row to symbols of the piece."""
    if piece.text != NULL:
        row_of_bytes(row, piece.pairs, piece.alphabet.inner, piece.text + at, size)
    else:
        row_of_symbols(row, piece.pairs, symbols_at(piece, at), size)


cdef void merge_step(const Piece* piece, Window* window, Row* rows) noexcept nogil:
    """Merge the windows of a step, of which the first one is `window`."""
    cdef Py_ssize_t i
    for i in range(ROWS):
        begin_row(piece, &rows[i], window.at + i * STRIDE, SHORT)
    merge_rows(piece.pairs, rows)
    window.n = popcount(rows[0].live)
    memcpy(window.tokens, rows[0].token, SHORT * sizeof(token_t))


cdef int merge_window(const Piece* piece, Window* window, Scratch* scratch, Ids* out) except -1 nogil:
    """Merge one window; `out` may grow but gets nothing."""
    cdef Row row
    cdef Py_ssize_t i
    cdef size_t base = out.n
    cdef const token_t* symbols = window.tokens
    if window.size <= SHORT:
        begin_row(piece, &row, window.at, window.size)
        merge_row(piece.pairs, &row)
        window.n = tokens_of(&row, window.tokens)
        return 0
    if piece.text == NULL:
        symbols = symbols_at(piece, window.at)
    else:
        for i in range(window.size):
            window.tokens[i] = piece.alphabet.inner[piece.text[window.at + i]]
    merge_with_heap(piece.pairs, symbols, window.size, scratch, out)
    window.n = out.n - base
    memcpy(window.tokens, out.data + base, window.n * sizeof(token_t))
    out.n = base
    return 0


cdef bint merge_whole(const Piece* piece, Window* window, Scratch* scratch, Ids* out) except -1 nogil:
    """Append the ids of a piece that is not longer than a window can be; True."""
    window.at, window.size = 0, piece.n
    merge_window(piece, window, scratch, out)
    reserve(out, window.n)
    memcpy(out.data + out.n, window.tokens, window.n * sizeof(token_t))
    out.n += window.n
    return True


# Tokens ---------------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t symbols_in(Origins origins, token_t token) noexcept nogil:
    """How many symbols a token is made of; what stands for a symbol outside the alphabet is one."""
    return 1 if token >= origins.limit or origins.parts[token].size == 0 else origins.parts[token].size


cdef inline bint may_join(const Piece* piece, Origins origins, token_t left, token_t right) noexcept nogil:
    """Whether two tokens may stand side by side; any may stand beside none."""
    return left == NO_TOKEN or right == NO_TOKEN or origins.side_by_side(piece.pairs, left, right, NO_LIMIT)


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


cdef Py_ssize_t keep_step(const Piece* piece, Origins origins, const Row* rows, Ids* out) except -1 nogil:
    """Append the tokens of a step's windows as far as they can be joined; how many symbols are kept."""
    cdef Py_ssize_t i, n, begin = 0, border = 0            # of what is kept of a window: the place, and the token
    cdef Py_ssize_t first = 0
    for i in range(ROWS):
        n = popcount(rows[i].live)
        border = common_border(piece, origins, &rows[i], &rows[i + 1]) if i < ROWS - 1 else 0
        if border == 0:
            break
        n = tokens_before(&rows[i], STRIDE + border)
        reserve(out, n - first)
        memcpy(out.data + out.n, rows[i].token + first, (n - first) * sizeof(token_t))
        out.n += n - first
        begin = border
        first = tokens_before(&rows[i + 1], border)
    return i * STRIDE + begin + keep(origins, rows[i].token + first, n - first, SHORT - begin, False, out)


cdef inline Py_ssize_t common_border(
    const Piece* piece, Origins origins, const Row* left, const Row* right
) noexcept nogil:
    """A place of the right one of two windows, after its first, where their tokens can be joined; 0 if there is none.

    Places in the middle of what they have in common are tried first.
    """
    cdef uint64_t both = left.live >> STRIDE & right.live, upper
    cdef Py_ssize_t at, _tries
    both &= (<uint64_t>1 << OVERLAP) - 2
    upper = both >> (OVERLAP // 2 - 1) << (OVERLAP // 2 - 1)
    for _tries in range(2):
        if upper == 0:
            upper = both
        if upper == 0:
            return 0
        at = ctz(upper)
        if may_join(
            piece, origins, left.token[tokens_before(left, STRIDE + at) - 1], right.token[tokens_before(right, at)]
        ):
            return at
        both &= ~(<uint64_t>1 << at)
        upper &= both
    return 0


cdef inline Py_ssize_t tokens_before(const Row* row, Py_ssize_t place) noexcept nogil:
    """How many tokens begin before a place."""
    return popcount(row.live & ((<uint64_t>1 << place) - 1))
