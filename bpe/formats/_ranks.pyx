"""Rank files: reading the lines that are plain, and recovering the merges that made the tokens.

Not here: what is wrong with lines that are not plain, and vocabularies that no training made
(`bpe/formats/tiktoken.py`).

Measured, cl100k: 290 ms with a dict of tokens and merging each token's bytes, 33 here.
"""

import numpy as np

from bpe.base._ids cimport Ids
from bpe.base._memory cimport mix, prefetch
from bpe.base._pages cimport release, zeroed
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._merge_table cimport Pairs, PairTable, find_pair, pair_hash
from bpe.merge._merging cimport Scratch, free_scratch, merge_with_heap
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

cdef extern from *:
    """
    #define BPE_BASE 0x9E3779B97F4A7C15ull
    """
    const uint64_t BASE "BPE_BASE"         # of the sums by which longer tokens are found

cdef enum:
    SHORT = 7                 # bytes that fit a key with their number
    FILTER_BITS = 20          # log2: 128 KB, which stay in the second-level cache
    FOREIGN = 64              # a byte that is no digit of base64
    PADDING = 61              # =
    SPACE = 32
    NEWLINE = 10
    AHEAD = 16                # tokens prefetched ahead of the one to enter; a power of two

cdef struct Slot:
    uint64_t key              # of `key_of`; 0 where empty
    uint64_t token

cdef struct Strings:          # the tokens and a table to find them by their bytes
    const byte_t* blob
    const int64_t* offsets
    Slot* slots
    size_t mask
    uint32_t* filter

cdef struct Split:            # of a token in two, both of which may be tokens
    Py_ssize_t cut
    uint64_t left             # keys
    uint64_t right

cdef struct Parts:            # the two tokens that a token is made of; -1, -1 where it is a byte, or never reached
    int left
    int right

cdef struct Found:            # the merges found so far
    const Pairs* pairs        # what they make is token << 32 | token, so that NO_MERGE is greater
    Parts* made_of            # by token

cdef struct Work:             # on one token: while it is under way, the next ones' memory is fetched
    Split* splits             # with room for one by place of the longest token; so the following
    Parts* parts              # the splits that are two tokens; the first is most likely the merge
    Py_ssize_t n


# Reading --------------------------------------------------------------------------------------------------------------


cdef int base64_digits(byte_t* digits) noexcept nogil:
    """The value of each digit of base64; FOREIGN for every other byte."""
    cdef int i
    memset(digits, FOREIGN, 256)
    for i in range(26):
        digits[65 + i] = i
        digits[97 + i] = 26 + i
    for i in range(10):
        digits[48 + i] = 52 + i
    digits[43], digits[47] = 62, 63
    return 0


cdef Py_ssize_t decode_base64(
    const byte_t* digits, const byte_t* text, Py_ssize_t size, byte_t* out, Py_ssize_t* used
) noexcept nogil:
    """The bytes of the base64 that a text begins with, written to `out`; how many, or -1 for what is not plain base64.

    `used` gets how long it is: what follows is no base64, or the end, or less than four digits.
    """
    cdef Py_ssize_t i = 0, n = 0
    cdef uint32_t a = FOREIGN, b = FOREIGN, c, d
    while i + 4 <= size:
        a, b, c, d = digits[text[i]], digits[text[i + 1]], digits[text[i + 2]], digits[text[i + 3]]
        if (a | b | c | d) >= FOREIGN:
            break
        a = a << 18 | b << 12 | c << 6 | d
        out[n], out[n + 1], out[n + 2] = <byte_t>(a >> 16), <byte_t>(a >> 8), <byte_t>a
        n += 3
        i += 4
    if i + 4 <= size and text[i + 3] == PADDING and (a | b) < FOREIGN:
        c = 0 if text[i + 2] == PADDING else digits[text[i + 2]]
        if c >= FOREIGN or (b & 15 if text[i + 2] == PADDING else c & 3):
            return -1
        out[n] = <byte_t>(a << 2 | b >> 4)
        n += 1
        if text[i + 2] != PADDING:
            out[n] = <byte_t>(b << 4 | c >> 2)
            n += 1
        i += 4
    used[0] = i
    return n


cdef Py_ssize_t read_number(const byte_t* text, Py_ssize_t size, int64_t* number) noexcept nogil:
    """The number of up to ten digits that a text begins with; how many digits, or -1 if there is none or too many."""
    cdef Py_ssize_t i = 0
    number[0] = 0
    while i < size and 48 <= text[i] <= 57 and i <= 10:
        number[0] = number[0] * 10 + text[i] - 48
        i += 1
    return i if 1 <= i <= 10 else -1


def read_ranks(const byte_t[::1] data):
    """Read a rank file whose every line is `BASE64 RANK`, by rising rank.

    Returns:
        (the tokens' bytes; int64 offsets, shape (n + 1,): token i is `blob[offsets[i]:offsets[i + 1]]`; int32 ranks,
        shape (n,)), or None for a file that has any other line, wrong or not.

    """
    cdef Py_ssize_t size = data.shape[0], pos = 0, n = 0, got, n_digits, length = 0, used = 0
    cdef const byte_t* text
    cdef byte_t digits[256]
    cdef int64_t rank = 0, last = -1
    if size == 0:
        return None
    text = &data[0]
    blob = np.empty(size, dtype=np.uint8)                  # base64 is longer than what it stands for
    ends = np.empty(size // 6 + 2, dtype=np.int64)         # a line has 6 bytes and a newline
    numbers = np.empty(size // 6 + 1, dtype=np.int32)
    cdef byte_t[::1] out = blob
    cdef int64_t[::1] end = ends
    cdef int[::1] number = numbers
    with nogil:
        base64_digits(digits)
        end[0] = 0
        while pos < size:
            got = decode_base64(digits, text + pos, size - pos, &out[used], &length)
            pos += length + 1
            if got < 1 or pos >= size or text[pos - 1] != SPACE:
                n = 0
                break
            n_digits = read_number(text + pos, size - pos, &rank)
            pos += n_digits + 1
            if n_digits < 0 or not last < rank < (<int64_t>1 << 31) or (pos <= size and text[pos - 1] != NEWLINE):
                n = 0
                break
            used += got
            end[n + 1] = used
            number[n] = <int>rank
            last = rank
            n += 1
    if n == 0:
        return None
    return blob[:used].tobytes(), ends[:n + 1], numbers[:n]


# Finding tokens by their bytes ----------------------------------------------------------------------------------------


cdef inline uint64_t short_key(const byte_t* data, Py_ssize_t size) noexcept nogil:
    """Up to 7 bytes and their number as they are. 8 bytes are read: the blob is followed by as many."""
    cdef uint64_t word
    memcpy(&word, data, 8)
    return word & (<uint64_t>1 << 8 * size) - 1 | <uint64_t>size << 56


cdef inline uint64_t long_key(uint64_t sum) noexcept nogil:
    """The key of more bytes than that, by the sum of byte i times BASE ** (size - 1 - i), modulo 2**64."""
    return sum | <uint64_t>0xFF << 56


cdef inline uint64_t key_of(const byte_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint64_t sum = 0
    cdef Py_ssize_t i
    if size <= SHORT:
        return short_key(data, size)
    for i in range(size):
        sum = sum * BASE + data[i]
    return long_key(sum)


cdef inline uint64_t scattered(uint64_t key) noexcept nogil:
    return mix(key, <uint64_t>0xD6E8FEB86659FD93)


cdef inline bint seen(const uint32_t* filter, uint64_t hashed) noexcept nogil:
    """Whether something of this hash may have been noted; False is certain."""
    cdef uint64_t bit = hashed >> (64 - FILTER_BITS)
    return filter[bit >> 5] >> (bit & 31) & 1


cdef inline void note(uint32_t* filter, uint64_t hashed) noexcept nogil:
    cdef uint64_t bit = hashed >> (64 - FILTER_BITS)
    filter[bit >> 5] |= <uint32_t>1 << (bit & 31)


cdef bint is_string(
    const Strings* strings, token_t token, const byte_t* data, Py_ssize_t size
) noexcept nogil:
    """Whether a token of more bytes than a key has is these, where the keys are the same."""
    return (
        strings.offsets[token + 1] - strings.offsets[token] == size
        and memcmp(strings.blob + strings.offsets[token], data, size) == 0
    )


cdef inline token_t find_string(
    const Strings* strings, const byte_t* data, Py_ssize_t size, uint64_t key
) noexcept nogil:
    """The token of these bytes, or NO_TOKEN."""
    cdef size_t at = scattered(key) & strings.mask
    cdef token_t token
    while strings.slots[at].key != 0:
        if strings.slots[at].key == key:
            token = <token_t>strings.slots[at].token
            if size <= SHORT or is_string(strings, token, data, size):
                return token
        at = (at + 1) & strings.mask
    return NO_TOKEN


cdef bint enter_string(Strings* strings, token_t token, uint64_t key) noexcept nogil:
    """Enter a token; False where one of the same bytes is in."""
    cdef const byte_t* data = strings.blob + strings.offsets[token]
    cdef Py_ssize_t size = strings.offsets[token + 1] - strings.offsets[token]
    cdef uint64_t hashed = scattered(key)
    cdef size_t at = hashed & strings.mask
    while strings.slots[at].key != 0:
        if strings.slots[at].key == key and (
            size <= SHORT or is_string(strings, <token_t>strings.slots[at].token, data, size)
        ):
            return False
        at = (at + 1) & strings.mask
    strings.slots[at].key = key
    strings.slots[at].token = token
    note(strings.filter, hashed)
    return True


cdef bint enter_strings(Strings* strings, Py_ssize_t n) noexcept nogil:
    """Enter all tokens; False where two are the same."""
    cdef uint64_t keys[AHEAD]
    cdef uint64_t key
    cdef Py_ssize_t i
    for i in range(n + AHEAD):
        if i >= AHEAD and not enter_string(strings, <token_t>(i - AHEAD), keys[i & (AHEAD - 1)]):
            return False
        if i < n:
            keys[i & (AHEAD - 1)] = key = key_of(
                strings.blob + strings.offsets[i], strings.offsets[i + 1] - strings.offsets[i]
            )
            prefetch(&strings.slots[scattered(key) & strings.mask])
    return True


# Merges ---------------------------------------------------------------------------------------------------------------


cdef bint stay_apart(const Found* merges, token_t left, token_t right) noexcept nogil:
    """Whether the bytes of two tokens, one after the other, come to just these two by the merges known so far.

    Both sides are taken apart in the order opposite to merging, the later merge first, and at each step it is asked
    whether the two that then touch would have been merged before what was taken apart last.

    Worked example: `low` and `er`, made of lo w and e r, the latter later. Nothing may make one token of low|er. Take
    er apart: nothing before er of low|e. Take low apart: nothing before low of w|e. These are single bytes: done.
    """
    cdef uint64_t limit = NO_TOKEN             # merges of this token and later ones do not come into it
    cdef Parts left_parts, right_parts
    while True:
        if find_pair(merges.pairs, left, right) >> 32 < limit:
            return False
        left_parts, right_parts = merges.made_of[left], merges.made_of[right]
        if left_parts.right >= 0 and (right_parts.left < 0 or left > right):
            limit = left
            left = <token_t>left_parts.right
        elif right_parts.left >= 0:
            limit = right + 1                  # at equal tokens the left one is merged first
            right = <token_t>right_parts.left
        else:
            return True


cdef void find_splits(const Strings* strings, uint64_t* sums, token_t token, Work* work) noexcept nogil:
    """Find the splits of a token whose parts may both be tokens, and have the tokens' slots fetched.

    `sums` has room for one by place of the token.
    """
    cdef const byte_t* data = strings.blob + strings.offsets[token]
    cdef Py_ssize_t size = strings.offsets[token + 1] - strings.offsets[token], cut, n = 0
    cdef uint64_t left_sum = 0, right_sum = 0, power = 1, left, right, left_hash, right_hash
    cdef Split* splits = work.splits
    if size > SHORT + 1:
        for cut in range(size - 1, 0, -1):
            right_sum += data[cut] * power
            power *= BASE
            sums[cut] = right_sum
    for cut in range(1, size):
        left_sum = left_sum * BASE + data[cut - 1]
        left = short_key(data, cut) if cut <= SHORT else long_key(left_sum)
        right = short_key(data + cut, size - cut) if size - cut <= SHORT else long_key(sums[cut])
        left_hash, right_hash = scattered(left), scattered(right)
        splits[n].cut, splits[n].left, splits[n].right = cut, left, right
        n += seen(strings.filter, left_hash) & seen(strings.filter, right_hash)    # a branch would often go wrong
    for cut in range(n):
        prefetch(&strings.slots[scattered(splits[cut].left) & strings.mask])
        prefetch(&strings.slots[scattered(splits[cut].right) & strings.mask])
    work.n = n


cdef void find_parts(const Strings* strings, const Found* merges, token_t token, Work* work) noexcept nogil:
    """Find the splits that are two tokens, and have fetched what is known of these.

    The first of them is the one whose worse part is best: nine times of ten that is the merge.
    """
    cdef const byte_t* data = strings.blob + strings.offsets[token]
    cdef Py_ssize_t size = strings.offsets[token + 1] - strings.offsets[token], i, n = 0
    cdef token_t left, right, worst = NO_TOKEN
    cdef Parts* parts = work.parts
    cdef uint64_t pair
    cdef Split split
    for i in range(work.n):
        split = work.splits[i]
        left = find_string(strings, data, split.cut, split.left)
        if left == NO_TOKEN:
            continue
        right = find_string(strings, data + split.cut, size - split.cut, split.right)
        if right == NO_TOKEN:
            continue
        prefetch(&merges.made_of[left])
        prefetch(&merges.made_of[right])
        parts[n] = Parts(<int>left, <int>right)
        if max(left, right) < worst:
            worst = max(left, right)
            parts[0], parts[n] = parts[n], parts[0]
        n += 1
    if n:
        pair = <uint64_t>parts[0].left << 32 | <uint64_t>parts[0].right
        prefetch(&merges.pairs.slots[pair_hash(pair) & merges.pairs.mask])
    work.n = n


cdef inline bint is_made(const Strings* strings, const Found* merges, token_t token) noexcept nogil:
    """Whether a token is a byte, or the merges known so far make it."""
    return merges.made_of[token].left >= 0 or strings.offsets[token + 1] - strings.offsets[token] == 1


cdef bint find_merge(
    const Strings* strings, const Found* merges, PairTable table, token_t token, const Work* work
) noexcept nogil:
    """Find the two tokens that a token is made of and enter the pair; False where its bytes come to other tokens."""
    cdef Py_ssize_t i
    cdef token_t left, right
    for i in range(work.n):
        left, right = <token_t>work.parts[i].left, <token_t>work.parts[i].right
        if is_made(strings, merges, left) and is_made(strings, merges, right) and stay_apart(merges, left, right):
            merges.made_of[token] = work.parts[i]
            table.insert(left, right, <uint64_t>token << 32 | token)
            return True
    return False


cdef int find_merges(
    const Strings* strings, const Found* merges, PairTable table, uint64_t* sums, Work* works, Py_ssize_t n
) noexcept nogil:
    """Find the merges of n tokens, each in three steps; `works` has three of them, which take turns."""
    cdef Py_ssize_t i
    cdef Work* first = works
    cdef Work* second = works + 1
    cdef Work* third = works + 2
    for i in range(n + 2):
        if i < n:
            find_splits(strings, sums, <token_t>i, first)
        if 1 <= i <= n:
            find_parts(strings, merges, <token_t>(i - 1), second)
        if i >= 2:
            find_merge(strings, merges, table, <token_t>(i - 2), third)
        first, second, third = third, first, second
    return 0


cdef struct Tables:           # all memory for finding merges
    size_t room               # bytes of the slots
    Strings strings
    uint64_t* sums            # one by place of the longest token, as what follows for each of three works
    Split* splits
    Parts* parts


cdef int open_tables(Tables* tables, const byte_t* blob, const int64_t[::1] offsets, Py_ssize_t longest) except -1:
    """Empty tables for tokens; what there is of them has to be closed even if this raises."""
    cdef size_t size = 16, n = <size_t>(offsets.shape[0] - 1)
    while size < n + n // 4:
        size *= 2
    memset(tables, 0, sizeof(Tables))
    tables.room = size * sizeof(Slot)
    tables.strings = Strings(
        blob=blob, offsets=&offsets[0], slots=<Slot*>zeroed(tables.room), mask=size - 1,
        filter=<uint32_t*>calloc(1 << (FILTER_BITS - 5), sizeof(uint32_t)),
    )
    tables.sums = <uint64_t*>calloc(longest, sizeof(uint64_t))
    tables.splits = <Split*>calloc(3 * longest, sizeof(Split))
    tables.parts = <Parts*>calloc(3 * longest, sizeof(Parts))
    if not (tables.strings.slots and tables.strings.filter and tables.sums and tables.splits and tables.parts):
        raise MemoryError(f"no memory for a table of {n} merges")
    return 0


cdef void close_tables(Tables* tables) noexcept:
    release(tables.strings.slots, tables.room)
    free(tables.strings.filter)
    free(tables.sums)
    free(tables.splits)
    free(tables.parts)


def merges_of_ranks(bytes blob, const int64_t[::1] offsets):
    """Recover the merges of tokens given by rising rank: token i is `blob[offsets[i]:offsets[i + 1]]`.

    A token's merge is the pair of tokens that its bytes come to by the merges of better rank; at most one split of the
    token is such a pair. A token that has none is never reached by merging, and is part of no merge.

    Returns:
        int32 pairs of places, shape (n, 2); -1, -1 for a token of one byte and for one that merging never reaches. None
        where two tokens are the same.

    """
    cdef Py_ssize_t n = offsets.shape[0] - 1, longest = max(np.diff(offsets).max(initial=0), 1)
    cdef bytes padded = blob + bytes(8)
    cdef bint distinct = False
    cdef Tables tables
    cdef Found merges
    cdef PairTable table
    cdef Work works[3]
    cdef int i
    found = np.full((n, 2), -1, dtype=np.int32)
    cdef int[:, ::1] made_of = found
    if n == 0:
        return found
    table = PairTable.__new__(PairTable)
    table.allocate(n // 2 + n // 8)                        # fuller than for encoding, to stay in a cache
    merges.pairs, merges.made_of = &table.pairs, <Parts*>&made_of[0, 0]
    try:
        open_tables(&tables, padded, offsets, longest)
        for i in range(3):
            works[i] = Work(splits=tables.splits + i * longest, parts=tables.parts + i * longest, n=0)
        with nogil:
            distinct = enter_strings(&tables.strings, n)
            if distinct:
                find_merges(&tables.strings, &merges, table, tables.sums, works, n)
    finally:
        close_tables(&tables)
    return found if distinct else None


cdef Py_ssize_t splits_of(
    const Strings* strings, uint64_t* sums, token_t token, Work* work, int* out
) noexcept nogil:
    """Find the splits of one token that are two tokens, written to `out` as (left, right, token) unless it is NULL.

    Linear in the token's length, but for comparing the parts that are tokens.
    """
    cdef const byte_t* data = strings.blob + strings.offsets[token]
    cdef Py_ssize_t size = strings.offsets[token + 1] - strings.offsets[token], i, n = 0
    cdef token_t left, right
    find_splits(strings, sums, token, work)
    for i in range(work.n):
        left = find_string(strings, data, work.splits[i].cut, work.splits[i].left)
        if left == NO_TOKEN:
            continue
        right = find_string(strings, data + work.splits[i].cut, size - work.splits[i].cut, work.splits[i].right)
        if right == NO_TOKEN:
            continue
        if out != NULL:
            out[3 * n], out[3 * n + 1], out[3 * n + 2] = <int>left, <int>right, <int>token
        n += 1
    return n


def splits_of_ranks(bytes blob, const int64_t[::1] offsets, const int64_t[::1] wanted):
    """Every split of the tokens at the places `wanted` in two tokens: int32, shape (n, 3): left, right, the token.

    Tokens are given as for `merges_of_ranks` and are distinct. The splits of one token are in order of its left part's
    length.
    """
    cdef Py_ssize_t n = offsets.shape[0] - 1, longest = max(np.diff(offsets).max(initial=0), 1), i, total = 0
    cdef bytes padded = blob + bytes(8)
    cdef Tables tables
    cdef Work work
    cdef int* out = NULL
    cdef int[:, ::1] rows
    found = np.empty((0, 3), dtype=np.int32)
    if n == 0 or wanted.shape[0] == 0:
        return found
    try:
        open_tables(&tables, padded, offsets, longest)
        work = Work(splits=tables.splits, parts=tables.parts, n=0)
        with nogil:
            enter_strings(&tables.strings, n)
            for i in range(wanted.shape[0]):
                total += splits_of(&tables.strings, tables.sums, <token_t>wanted[i], &work, NULL)
        if total:
            found = np.empty((total, 3), dtype=np.int32)
            rows = found
            out = &rows[0, 0]
            with nogil:
                for i in range(wanted.shape[0]):
                    out += 3 * splits_of(&tables.strings, tables.sums, <token_t>wanted[i], &work, out)
    finally:
        close_tables(&tables)
    return found


def any_comes_together(
    bytes blob, const int64_t[::1] offsets, const int64_t[::1] wanted, const int[:, ::1] splits
):
    """Whether merging the bytes of any token at the places `wanted` by tiktoken's rule gives that token.

    `splits` are those of all tokens; a place is a rank too. O(n log n) in the tokens' bytes.
    """
    cdef Py_ssize_t i, at, size, longest = max(np.diff(offsets).max(initial=0), 1)
    cdef const byte_t* data = blob
    cdef token_t[::1] symbols = np.empty(longest, dtype=np.uint32)
    cdef token_t of_byte[256]
    cdef Scratch scratch
    cdef Ids out
    cdef bint found = False
    made = np.ascontiguousarray(splits[:, 2])
    cdef PairTable table = PairTable(np.ascontiguousarray(splits[:, :2]), made, made)
    memset(of_byte, 0xFF, sizeof(of_byte))
    for i in range(offsets.shape[0] - 1):
        if offsets[i + 1] - offsets[i] == 1:
            of_byte[data[offsets[i]]] = <token_t>i
    memset(&scratch, 0, sizeof(Scratch))
    memset(&out, 0, sizeof(Ids))
    try:
        with nogil:
            for i in range(wanted.shape[0]):
                at = wanted[i]
                size = offsets[at + 1] - offsets[at]
                for at in range(size):
                    symbols[at] = of_byte[data[offsets[wanted[i]] + at]]
                out.n = 0
                merge_with_heap(&table.pairs, &symbols[0], size, &scratch, &out)
                if out.n == 1:
                    found = True
                    break
    finally:
        free_scratch(&scratch)
        free(out.data)
    return found


def in_ids(const int[:, ::1] made_of, const int64_t[::1] offsets, const int[::1] ids):
    """What `merges_of_ranks` finds, by the tokens' ids: token i, of the bytes from `offsets[i]` on, is `ids[i]`.

    Returns:
        (int32 pairs of ids, shape (n, 2); int32, shape (n,), the ids that they make; int64 places of the tokens of two
        bytes and more that no pair makes).

    """
    cdef Py_ssize_t n = made_of.shape[0], i, n_made = 0, n_without = 0
    for i in range(n):
        n_made += made_of[i, 0] >= 0
        n_without += made_of[i, 0] < 0 and offsets[i + 1] - offsets[i] > 1
    pairs = np.empty((n_made, 2), dtype=np.int32)
    made = np.empty(n_made, dtype=np.int32)
    without = np.empty(n_without, dtype=np.int64)
    cdef int[:, ::1] pair = pairs
    cdef int[::1] makes = made
    cdef int64_t[::1] place = without
    n_made = n_without = 0
    for i in range(n):
        if made_of[i, 0] >= 0:
            pair[n_made, 0], pair[n_made, 1] = ids[made_of[i, 0]], ids[made_of[i, 1]]
            makes[n_made] = ids[i]
            n_made += 1
        elif offsets[i + 1] - offsets[i] > 1:
            place[n_without] = i
            n_without += 1
    return pairs, made, without
