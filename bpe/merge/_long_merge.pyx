"""Merging a long piece window by window, in linear time and exactly.

If every two adjacent tokens of a sequence are a valid pair (`_token_tree.pyx`), the sequence is what merging gives for
its text. So windows of a piece are merged independently, and only the pairs where they meet are checked:

    text     ....................................
    windows  [ a | b  | c | d |e]
                          [ d | f | g  | h |i]
                                       [ h | j | k |l]
    tokens     a | b  | c | d | f | g  | h | j | k

The tokens nearest to the end of a window are dropped, since text after them may change them; the next window starts
after the tokens that were kept. If its first token and the last one kept are no valid pair, that last one is dropped
and merged again with the text after it; after several failures the window grows. After more failures the piece is given
up, and a heap merges all of it: with cl100k this happens to a line of 71 `=` and a newline after a space, with other
vocabularies to tokens longer than a window. A window is merged as a row, or in passes and by a heap if it is larger.

The heap takes some 36 bytes for each symbol. So a piece of more than a million of them that is given up is merged once
more, in windows of at least a million.

Requires ranks in order (`TokenTree.is_ordered`). Symbols that are not the bytes of the piece take four bytes each.
"""

from bpe.base._ids cimport Ids, append_ids, reserve
from bpe.base._interrupts cimport count_work, poll_if_due
from bpe.base._memory cimport grow_array
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._merge_table cimport NO_MERGE, Merges, find_pair
from bpe.merge._merging cimport (
    MAX_ROW_SYMBOLS, Row, Scratch, copy_row_tokens, fill_row_from_bytes, fill_row_from_symbols, merge_in_passes,
    merge_row, merge_with_heap,
)
from bpe.merge._token_tree cimport TokenTree, is_valid_pair
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    N_WINDOW_SIZES = 4        # sizes of windows: each four times the one before
    MAX_WINDOW = 2048         # symbols of a window at most, after failures with MAX_ROW_SYMBOLS
    MIN_DROPPED_SYMBOLS = 5   # symbols at the end of a window whose tokens are dropped, at least
    TRIES_PER_SIZE = 3        # windows in a row that may fail before the next one is four times as large
    MAX_FAILURES = 24         # failures before the piece is given up; a window that gets further cancels one

cdef Py_ssize_t huge_window = 1 << 20  # symbols of the windows that a piece is merged in after it was given up


def set_huge_window(Py_ssize_t symbols):
    """Set the size of the largest windows, for tests. Returns the previous size."""
    global huge_window
    previous, huge_window = huge_window, symbols
    return previous


cdef struct Windows:
    token_t* tokens           # room for those of the largest one; NULL: use the scratch memory
    Py_ssize_t min_size       # symbols of the first ones
    Py_ssize_t max_size       # and of the largest ones
    Py_ssize_t failures_left


cdef bint merge_long_piece(
    const Merges* merges, TokenTree tree, const byte_t* text, const token_t* ids, Py_ssize_t n,
    Scratch* scratch, Ids* out,
) except -1 nogil:
    """Append the ids of a long piece; False, and no ids, if windows fail too often."""
    cdef token_t tokens[MAX_WINDOW]
    cdef Windows windows = Windows(
        tokens=&tokens[0], min_size=MAX_ROW_SYMBOLS, max_size=MAX_WINDOW,
        failures_left=MAX_FAILURES if n > MAX_WINDOW else 2 * TRIES_PER_SIZE,
    )
    if merge_by_windows(merges, tree, text, ids, n, scratch, out, &windows):
        return True
    if n <= huge_window:
        return False
    windows = Windows(tokens=NULL, min_size=huge_window, max_size=n, failures_left=MAX_FAILURES)
    return merge_by_windows(merges, tree, text, ids, n, scratch, out, &windows)


cdef bint merge_by_windows(
    const Merges* merges, TokenTree tree, const byte_t* text, const token_t* ids, Py_ssize_t n,
    Scratch* scratch, Ids* out, const Windows* windows,
) except -1 nogil:
    """Append the ids of a piece that is merged in windows of these sizes; False, and no ids, if they fail too often."""
    cdef token_t* tokens = windows.tokens
    cdef Py_ssize_t position = 0, max_position = 0, n_failed = 0, failures_left = windows.failures_left
    cdef Py_ssize_t size, n_tokens, n_kept
    cdef size_t base = out.n
    cdef token_t last
    while position < n:
        poll_if_due(&scratch.watch, out.n)
        size = windows.min_size << 2 * min(n_failed // TRIES_PER_SIZE, N_WINDOW_SIZES - 1)
        size = min(size, min(windows.max_size, n - position))
        if windows.tokens == NULL:
            scratch.window = <token_t*>grow_array(scratch.window, &scratch.window_capacity, size, sizeof(token_t))
            tokens = scratch.window
        if text != NULL:
            n_tokens = merge_one_window(merges, text + position, ids, size, tokens, scratch, out)
        else:
            n_tokens = merge_one_window(merges, NULL, scratch.symbols + position, size, tokens, scratch, out)
        count_work(&scratch.watch, size)                   # a token may be long, and merging it takes as long
        last = out.data[out.n - 1] if out.n > base else NO_TOKEN
        if (
            last != NO_TOKEN and tokens[0] != NO_TOKEN
            and not is_valid_pair(merges, tree.parts, last, tokens[0], NO_TOKEN)
        ):
            out.n -= 1
            position -= count_symbols(tree, last)
            n_failed += 1
            failures_left -= 1
        else:
            n_kept = append_kept(tree, tokens, n_tokens, size, position + size == n, out)
            position += n_kept
            if position > max_position:
                max_position = position
                n_failed = 0
                failures_left = min(failures_left + 1, <Py_ssize_t>MAX_FAILURES)
            else:
                n_failed += 1 if n_kept else TRIES_PER_SIZE
                failures_left -= 1
        if failures_left == 0:
            out.n = base
            return False
    return True


cdef Py_ssize_t merge_one_window(
    const Merges* merges, const byte_t* text, const token_t* ids, Py_ssize_t size,
    token_t* tokens, Scratch* scratch, Ids* out,
) except -1 nogil:
    """Merge a window of `size` bytes whose tokens are in `ids`, or of symbols if `text` is NULL.

    Returns the number of its tokens. `out` may grow, but nothing is appended.
    """
    cdef Row row
    cdef Py_ssize_t i, n
    cdef size_t base = out.n
    if size <= MAX_ROW_SYMBOLS:
        if text != NULL:
            fill_row_from_bytes(&row, merges, ids, text, size)
        else:
            fill_row_from_symbols(&row, merges, ids, size)
        merge_row(merges, &row)
        return copy_row_tokens(&row, tokens)
    for i in range(size):
        tokens[i] = ids[text[i]] if text != NULL else ids[i]
    merge_with_heap(merges, tokens, merge_in_passes(merges, tokens, size, scratch, out.n), scratch, out, NULL)
    n = out.n - base
    memcpy(tokens, out.data + base, n * sizeof(token_t))
    out.n = base
    return n


cdef inline Py_ssize_t count_symbols(TokenTree tree, token_t token) noexcept nogil:
    """Count the symbols of a token; 1 for NO_TOKEN."""
    return 1 if token >= tree.limit or tree.parts[token].size == 0 else tree.parts[token].size


cdef inline Py_ssize_t append_kept(
    TokenTree tree, const token_t* tokens, Py_ssize_t n, Py_ssize_t size, bint is_last, Ids* out
) except -1 nogil:
    """Append n tokens of `size` symbols, but those at the end unless `is_last`; returns the number of symbols kept."""
    cdef Py_ssize_t n_dropped = 0
    while not is_last and n > 0 and n_dropped < MIN_DROPPED_SYMBOLS:
        n -= 1
        n_dropped += count_symbols(tree, tokens[n])
    append_ids(out, tokens, n)
    return size - n_dropped


# Runs of equal bytes --------------------------------------------------------------------------------------------------

cdef enum:
    MAX_FIRST_RUNS = 8        # runs of equal bytes in the piece
    MAX_RUNS = 96             # runs of equal tokens between two merges
    RUN_STEP = 64             # bytes compared at once


cdef struct Run:
    token_t token
    Py_ssize_t count


cdef struct RunList:          # adjacent runs have different tokens
    Run runs[MAX_RUNS]
    int n


cdef bint merge_runs(
    const Merges* merges, const byte_t* text, const token_t* ids, Py_ssize_t n, Ids* out
) except -1 nogil:
    """Merge a piece of n bytes as runs of equal tokens; False, and no ids, if there are too many runs.

    Each step merges the best pair everywhere, as far as possible from left to right: with ranks in order, every pair
    with the result ranks worse. It takes time in proportion to the number of runs, whatever their lengths.

        a × 7    →    aa × 3, a × 1    →    aaaa × 1, aa × 1, a × 1
    """
    cdef RunList[2] lists
    cdef RunList* old = &lists[0]
    cdef RunList* new = &lists[1]
    cdef Py_ssize_t i = 0, count
    cdef int at
    cdef uint64_t merge
    cdef token_t left = NO_TOKEN, right = NO_TOKEN
    old.n = 0
    while i < n:
        if old.n == MAX_FIRST_RUNS:
            return False
        count = measure_run(text + i, n - i)
        append_run(old, ids[text[i]], count)
        i += count
    while True:
        merge = find_best_pair(merges, old, &left, &right)
        if merge == NO_MERGE:
            break
        if 3 * old.n > MAX_RUNS:
            return False
        merge_pair_of_runs(old, left, right, <token_t>merge, new)
        old, new = new, old
    for at in range(old.n):
        count = old.runs[at].count
        reserve(out, count)
        for i in range(count):
            out.data[out.n + i] = old.runs[at].token
        out.n += count
    return True


cdef inline Py_ssize_t measure_run(const byte_t* text, Py_ssize_t n) noexcept nogil:
    """Count the bytes at the start of a text that equal its first one."""
    cdef Py_ssize_t count = 1
    while count + RUN_STEP <= n and memcmp(text, text + count, RUN_STEP) == 0:
        count += RUN_STEP
    while count < n and text[count] == text[0]:
        count += 1
    return count


cdef uint64_t find_best_pair(const Merges* merges, const RunList* runs, token_t* left, token_t* right) noexcept nogil:
    """Find the merge of adjacent tokens with the best rank: rank << 32 | id, or NO_MERGE."""
    cdef uint64_t best = NO_MERGE, merge
    cdef const Run* run
    cdef int at, step
    for at in range(runs.n):
        run = &runs.runs[at]
        for step in range(run.count == 1, 2 if at + 1 < runs.n else 1):
            merge = find_pair(merges, run.token, run[step].token)
            if merge < best:
                best, left[0], right[0] = merge, run.token, run[step].token
    return best


cdef void merge_pair_of_runs(RunList* old, token_t left, token_t right, token_t result, RunList* new) noexcept nogil:
    """Write the runs after merging a pair everywhere; there are up to three for each one before."""
    cdef Run* run
    cdef int at
    new.n = 0
    for at in range(old.n):
        run = &old.runs[at]
        if run.token != left:
            append_run(new, run.token, run.count)
        elif left == right:
            append_run(new, result, run.count >> 1)
            append_run(new, left, run.count & 1)
        elif at + 1 < old.n and run[1].token == right:
            append_run(new, left, run.count - 1)
            append_run(new, result, 1)
            run[1].count -= 1
        else:
            append_run(new, left, run.count)


cdef inline void append_run(RunList* runs, token_t token, Py_ssize_t count) noexcept nogil:
    """Append a run, or lengthen the last one; nothing if it is empty."""
    if count == 0:
        return
    if runs.n and runs.runs[runs.n - 1].token == token:
        runs.runs[runs.n - 1].count += count
        return
    runs.runs[runs.n] = Run(token=token, count=count)
    runs.n += 1
