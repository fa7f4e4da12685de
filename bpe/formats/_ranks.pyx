"""Read rank files (tiktoken's format), and recover the merges from the ranks of the tokens.

A rank file has tokens and ranks but no merges. In a vocabulary produced by training, the merge of a token is the pair
of tokens that remains when the token's bytes are merged with all merges of better rank. Instead of merging bytes, this
module tests for each split of a token into two tokens whether it is that pair (`is_valid_pair`).

Cost: O(n) to read; for each token, one lookup for each split and O(depth) for the splits that are two tokens. Malformed
lines, and vocabularies that no training produces: `bpe/formats/tiktoken.py`.

Measured, cl100k: 33 ms; 290 ms with a dict of tokens and merging each token's bytes.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._memory cimport grow_array, hash_one, prefetch, secrets
from bpe.base._pages cimport release, allocate_zeroed
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.merge._merge_table cimport Merges, MergeTable, pair_hash
from bpe.merge._token_tree cimport TokenParts, is_valid_pair
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from bpe.errors import FormatError

cdef enum:
    MAX_SHORT_KEY = 7         # bytes that fit into a key together with their number
    FILTER_BITS = 20          # log2 of the bits: 128 KB, which stay in the L2 cache
    NOT_BASE64 = 64           # value of a byte that is not a base64 digit
    BASE64_PADDING = 61       # =
    SPACE = 32
    NEWLINE = 10
    PREFETCH_DISTANCE = 16    # tokens prefetched before they are entered; a power of two
    MAX_EQUAL_KEYS = 16       # tokens with the key of another one

cdef struct StringSlot:
    uint64_t key              # from `make_key`; 0 if empty
    uint64_t token

cdef struct TokenStrings:     # the tokens, and a hash table from bytes to token
    const byte_t* blob
    const int64_t* offsets
    StringSlot* slots
    size_t mask
    uint32_t* filter

cdef struct TokenSplit:       # the split of a token into two parts that may both be tokens
    Py_ssize_t cut
    uint64_t left_key         # of the left part
    uint64_t right_key

cdef struct MergedPair:       # two tokens that make a third
    int left
    int right

cdef struct RecoveredMerges:
    const Merges* pairs       # the merge of a token has its number
    TokenParts* parts         # by token; `rank_plus_one` is 0 for bytes and unmerged tokens; `size` is not used

cdef struct SplitWork:        # for one token; three are in progress to hide memory latency
    TokenSplit* splits        # room for one per byte of the longest token, as in `pairs`
    MergedPair* pairs         # the splits into two tokens, the most likely merge first
    Py_ssize_t n


# Reading --------------------------------------------------------------------------------------------------------------


cdef void fill_base64_digits(byte_t* digits) noexcept nogil:
    """Fill a table with the value of each base64 digit; NOT_BASE64 for every other byte."""
    cdef int i
    memset(digits, NOT_BASE64, 256)
    for i in range(26):
        digits[65 + i] = i
        digits[97 + i] = 26 + i
    for i in range(10):
        digits[48 + i] = 52 + i
    digits[43], digits[47] = 62, 63


cdef Py_ssize_t decode_base64(
    const byte_t* digits, const byte_t* text, Py_ssize_t size, byte_t* out, Py_ssize_t* used
) noexcept nogil:
    """Decode the base64 at the start of a text to `out`; returns the number of bytes, or -1 for non-canonical padding.

    `used` receives the length of the base64, which ends at another character or before an incomplete group of four.
    """
    cdef Py_ssize_t i = 0, n = 0
    cdef uint32_t a = NOT_BASE64, b = NOT_BASE64, c, d
    while i + 4 <= size:
        a, b, c, d = digits[text[i]], digits[text[i + 1]], digits[text[i + 2]], digits[text[i + 3]]
        if (a | b | c | d) >= NOT_BASE64:
            break
        a = a << 18 | b << 12 | c << 6 | d
        out[n], out[n + 1], out[n + 2] = <byte_t>(a >> 16), <byte_t>(a >> 8), <byte_t>a
        n += 3
        i += 4
    if i + 4 <= size and text[i + 3] == BASE64_PADDING and (a | b) < NOT_BASE64:
        c = 0 if text[i + 2] == BASE64_PADDING else digits[text[i + 2]]
        if c >= NOT_BASE64 or (b & 15 if text[i + 2] == BASE64_PADDING else c & 3):
            return -1
        out[n] = <byte_t>(a << 2 | b >> 4)
        n += 1
        if text[i + 2] != BASE64_PADDING:
            out[n] = <byte_t>(b << 4 | c >> 2)
            n += 1
        i += 4
    used[0] = i
    return n


cdef Py_ssize_t read_number(const byte_t* text, Py_ssize_t size, int64_t* number) noexcept nogil:
    """Read a number of one to ten digits at the start of a text; returns the number of digits, or -1."""
    cdef Py_ssize_t i = 0
    number[0] = 0
    while i < size and 48 <= text[i] <= 57 and i <= 10:
        number[0] = number[0] * 10 + text[i] - 48
        i += 1
    return i if 1 <= i <= 10 else -1


def read_ranks(const byte_t[::1] data):
    """Read a rank file if every line is `BASE64 RANK`, in order of rising rank.

    Returns:
        (the tokens' bytes; int64 offsets, shape (n + 1,): token i is `blob[offsets[i]:offsets[i + 1]]`; int32 ranks,
        shape (n,)), or None for a file with any other line, valid or not.

    """
    cdef Py_ssize_t size = data.shape[0], pos = 0, n = 0, n_bytes, n_digits, length = 0, blob_size = 0
    cdef const byte_t* text
    cdef byte_t digits[256]
    cdef int64_t rank = 0, last_rank = -1
    if size == 0:
        return None
    text = &data[0]
    blob = np.empty(size, dtype=np.uint8)                  # base64 is longer than the bytes it encodes
    ends = np.empty(size // 6 + 2, dtype=np.int64)         # a line has at least 6 bytes and a newline
    ranks = np.empty(size // 6 + 1, dtype=np.int32)
    cdef byte_t[::1] out = blob
    cdef int64_t[::1] end_view = ends
    cdef int[::1] rank_view = ranks
    with nogil:
        fill_base64_digits(digits)
        end_view[0] = 0
        while pos < size:
            n_bytes = decode_base64(digits, text + pos, size - pos, &out[blob_size], &length)
            pos += length + 1
            if n_bytes < 1 or pos >= size or text[pos - 1] != SPACE:
                n = 0
                break
            n_digits = read_number(text + pos, size - pos, &rank)
            pos += n_digits + 1
            if n_digits < 0 or not last_rank < rank < (<int64_t>1 << 31) or (pos <= size and text[pos - 1] != NEWLINE):
                n = 0
                break
            blob_size += n_bytes
            end_view[n + 1] = blob_size
            rank_view[n] = <int>rank
            last_rank = rank
            n += 1
    if n == 0:
        return None
    return blob[:blob_size].tobytes(), ends[:n + 1], ranks[:n]


# Finding tokens by their bytes ----------------------------------------------------------------------------------------


cdef inline uint64_t make_short_key(const byte_t* data, Py_ssize_t size) noexcept nogil:
    """Return the key of up to 7 bytes: the bytes and their number. Reads 8 bytes; the blob has that much padding."""
    cdef uint64_t word
    memcpy(&word, data, 8)
    return word & (<uint64_t>1 << 8 * size) - 1 | <uint64_t>size << 56


cdef inline uint64_t make_long_key(uint64_t sum) noexcept nogil:
    """Return the key of more bytes from `sum`: byte i times a secret ** (size - 1 - i) for all i, modulo 2**64."""
    return sum | <uint64_t>0xFF << 56


cdef inline uint64_t make_key(const byte_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint64_t sum = 0
    cdef Py_ssize_t i
    if size <= MAX_SHORT_KEY:
        return make_short_key(data, size)
    for i in range(size):
        sum = sum * secrets[0] + data[i]
    return make_long_key(sum)


cdef inline bint may_be_entered(const uint32_t* filter, uint64_t key_hash) noexcept nogil:
    """Whether a key with this hash may be in the table (a Bloom filter with one hash); False is certain."""
    cdef uint64_t bit = key_hash >> (64 - FILTER_BITS)
    return filter[bit >> 5] >> (bit & 31) & 1


cdef inline size_t find_slot(
    const TokenStrings* strings, const byte_t* data, Py_ssize_t size, uint64_t key, Py_ssize_t* n_equal_keys
) noexcept nogil:
    """Return the index of the slot of the token with these bytes, or of the empty slot for it (linear probing).

    `n_equal_keys` is raised by the number of other tokens with the key that were passed.
    """
    cdef size_t slot = hash_one(key) & strings.mask
    cdef uint64_t token
    while strings.slots[slot].key != 0:
        if strings.slots[slot].key == key:
            token = strings.slots[slot].token
            if size <= MAX_SHORT_KEY or (
                strings.offsets[token + 1] - strings.offsets[token] == size
                and memcmp(strings.blob + strings.offsets[token], data, size) == 0
            ):
                break
            n_equal_keys[0] += 1
        slot = (slot + 1) & strings.mask
    return slot


cdef inline token_t find_string(
    const TokenStrings* strings, const byte_t* data, Py_ssize_t size, uint64_t key
) noexcept nogil:
    """Return the token with these bytes, or NO_TOKEN."""
    cdef Py_ssize_t n_equal_keys = 0
    cdef const StringSlot* slot = &strings.slots[find_slot(strings, data, size, key, &n_equal_keys)]
    return <token_t>slot.token if slot.key != 0 else NO_TOKEN


cdef bint enter_string(TokenStrings* strings, token_t token, uint64_t key) except -1 nogil:
    """Enter a token; False if a token with the same bytes is in the table.

    Tokens of 1,024 bytes and more can be written that have one key whatever the secret (those of the Thue-Morse
    sequence and its complement), and each one would be compared with all before it. Chance makes no two such tokens.

    Raises:
        FormatError: if there are many.

    """
    cdef const byte_t* data = strings.blob + strings.offsets[token]
    cdef Py_ssize_t size = strings.offsets[token + 1] - strings.offsets[token], n_equal_keys = 0
    cdef size_t slot = find_slot(strings, data, size, key, &n_equal_keys), bit = hash_one(key) >> (64 - FILTER_BITS)
    if n_equal_keys > MAX_EQUAL_KEYS:
        with gil:
            raise FormatError(
                f"more than {MAX_EQUAL_KEYS} tokens of {size} bytes have one hash, as no training makes them; leave "
                "out tokens of 1,024 bytes and more"
            )
    if strings.slots[slot].key != 0:
        return False
    strings.slots[slot] = StringSlot(key, token)
    strings.filter[bit >> 5] |= <uint32_t>1 << (bit & 31)
    return True


cdef bint enter_strings(TokenStrings* strings, Py_ssize_t n) except -1 nogil:
    """Enter all tokens, prefetching the slots PREFETCH_DISTANCE tokens in advance; False if two tokens are equal."""
    cdef uint64_t keys[PREFETCH_DISTANCE]
    cdef uint64_t key
    cdef Py_ssize_t i
    for i in range(n + PREFETCH_DISTANCE):
        if i >= PREFETCH_DISTANCE and not enter_string(
            strings, <token_t>(i - PREFETCH_DISTANCE), keys[i & (PREFETCH_DISTANCE - 1)]
        ):
            return False
        if i < n:
            keys[i & (PREFETCH_DISTANCE - 1)] = key = make_key(
                strings.blob + strings.offsets[i], strings.offsets[i + 1] - strings.offsets[i]
            )
            prefetch(&strings.slots[hash_one(key) & strings.mask])
    return True


# Merges ---------------------------------------------------------------------------------------------------------------


cdef void find_splits(const TokenStrings* strings, uint64_t* sums, token_t token, SplitWork* work) noexcept nogil:
    """Find the splits of a token whose parts may both be tokens, and prefetch the slots of these parts.

    Hashes of all prefixes and suffixes are computed in O(size); the filter rejects most parts without a cache miss.
    `sums` has room for one hash for each byte of the token.
    """
    cdef const byte_t* data = strings.blob + strings.offsets[token]
    cdef Py_ssize_t size = strings.offsets[token + 1] - strings.offsets[token], cut, n = 0
    cdef uint64_t left_sum = 0, right_sum = 0, power = 1, left_key, right_key, left_hash, right_hash
    cdef TokenSplit* splits = work.splits
    if size > MAX_SHORT_KEY + 1:
        for cut in range(size - 1, 0, -1):
            right_sum += data[cut] * power
            power *= secrets[0]
            sums[cut] = right_sum
    for cut in range(1, size):
        left_sum = left_sum * secrets[0] + data[cut - 1]
        left_key = make_short_key(data, cut) if cut <= MAX_SHORT_KEY else make_long_key(left_sum)
        right_key = make_short_key(data + cut, size - cut) if size - cut <= MAX_SHORT_KEY else make_long_key(sums[cut])
        left_hash, right_hash = hash_one(left_key), hash_one(right_key)
        splits[n].cut, splits[n].left_key, splits[n].right_key = cut, left_key, right_key
        # No branch, which would often be mispredicted.
        n += may_be_entered(strings.filter, left_hash) & may_be_entered(strings.filter, right_hash)
    for cut in range(n):
        prefetch(&strings.slots[hash_one(splits[cut].left_key) & strings.mask])
        prefetch(&strings.slots[hash_one(splits[cut].right_key) & strings.mask])
    work.n = n


cdef inline bint look_up_split(
    const TokenStrings* strings, token_t token, const TokenSplit* split, MergedPair* pair
) noexcept nogil:
    """Look up both parts of a split of a token; False if one of them is not a token."""
    cdef const byte_t* data = strings.blob + strings.offsets[token]
    cdef Py_ssize_t size = strings.offsets[token + 1] - strings.offsets[token]
    cdef token_t right, left = find_string(strings, data, split.cut, split.left_key)
    if left == NO_TOKEN:
        return False
    right = find_string(strings, data + split.cut, size - split.cut, split.right_key)
    pair[0] = MergedPair(<int>left, <int>right)
    return right != NO_TOKEN


cdef void find_pairs(
    const TokenStrings* strings, const RecoveredMerges* merges, token_t token, SplitWork* work
) noexcept nogil:
    """Find the splits into two tokens, and prefetch the merges of these tokens.

    The split whose worse part has the best rank is put first: in nine cases of ten it is the merge.
    """
    cdef Py_ssize_t i, n = 0
    cdef int worst = 0x7FFFFFFF
    cdef MergedPair* pairs = work.pairs
    cdef uint64_t pair
    for i in range(work.n):
        if not look_up_split(strings, token, &work.splits[i], &pairs[n]):
            continue
        prefetch(&merges.parts[pairs[n].left])
        prefetch(&merges.parts[pairs[n].right])
        if max(pairs[n].left, pairs[n].right) < worst:
            worst = max(pairs[n].left, pairs[n].right)
            pairs[0], pairs[n] = pairs[n], pairs[0]
        n += 1
    if n:
        pair = <uint64_t>pairs[0].left << 32 | <uint64_t>pairs[0].right
        prefetch(&merges.pairs.slots[pair_hash(pair) & merges.pairs.mask])
    work.n = n


cdef inline bint is_reachable(const TokenStrings* strings, const RecoveredMerges* merges, token_t token) noexcept nogil:
    """Whether a token is a single byte or the result of a merge known so far."""
    return merges.parts[token].rank_plus_one > 0 or strings.offsets[token + 1] - strings.offsets[token] == 1


cdef bint find_merge(
    const TokenStrings* strings, const RecoveredMerges* merges, MergeTable table, token_t token, const SplitWork* work
) noexcept nogil:
    """Find the pair that a token is merged from and enter it; False if merging its bytes gives other tokens."""
    cdef Py_ssize_t i
    cdef token_t left, right
    for i in range(work.n):
        left, right = <token_t>work.pairs[i].left, <token_t>work.pairs[i].right
        if (
            is_reachable(strings, merges, left) and is_reachable(strings, merges, right)
            and is_valid_pair(merges.pairs, merges.parts, left, right, NO_TOKEN)
        ):
            merges.parts[token] = TokenParts(left=left, right=right, rank_plus_one=token + 1, size=0)
            table.insert(left, right, token)
            return True
    return False


cdef class RankTable:
    """Tokens in order of rising rank, token i being `blob[offsets[i]:offsets[i + 1]]`, and a hash table of them.

    The merge of a token is the pair of tokens that its bytes give with the merges of better rank; at most one split of
    the token is such a pair. A token without one is not made by merging, and is part of no merge.

    Attributes:
        distinct: whether all tokens are different.

    """

    cdef readonly bint distinct
    cdef Py_ssize_t n
    cdef bytes padded_blob
    cdef const int64_t[::1] offsets
    cdef TokenStrings strings
    cdef SplitWork works[3]
    cdef uint64_t* sums       # room for one hash for each byte of the longest token

    def __cinit__(self, bytes blob, const int64_t[::1] offsets):
        cdef Py_ssize_t longest = max(np.diff(offsets).max(initial=0), 1)
        cdef size_t size = 16
        cdef SplitWork* work
        self.n = offsets.shape[0] - 1
        check_offsets(offsets, self.n, len(blob))
        self.padded_blob, self.offsets = blob + bytes(8), offsets
        while size < <size_t>(self.n + self.n // 4):
            size *= 2
        self.strings.blob, self.strings.offsets, self.strings.mask = self.padded_blob, &offsets[0], size - 1
        self.strings.slots = <StringSlot*>allocate_zeroed(size * sizeof(StringSlot))
        self.strings.filter = <uint32_t*>calloc(1 << (FILTER_BITS - 5), sizeof(uint32_t))
        self.sums = <uint64_t*>calloc(longest, sizeof(uint64_t))
        if not (self.strings.slots and self.strings.filter and self.sums):
            raise MemoryError(f"no memory for a table of {self.n} tokens")
        for i in range(3):
            work = &self.works[i]
            work.splits = <TokenSplit*>calloc(longest, sizeof(TokenSplit))
            work.pairs = <MergedPair*>calloc(longest, sizeof(MergedPair))
            if not (work.splits and work.pairs):
                raise MemoryError(f"no memory for the splits of a token of {longest} bytes")
        with nogil:
            self.distinct = enter_strings(&self.strings, self.n)

    def __dealloc__(self):
        release(self.strings.slots, (self.strings.mask + 1) * sizeof(StringSlot))
        free(self.strings.filter)
        free(self.sums)
        for i in range(3):
            free(self.works[i].splits)
            free(self.works[i].pairs)

    def recover_pairs(self):
        """Recover the merges of distinct tokens: int32 pairs of tokens, shape (n, 2); -1, -1 for tokens without one.

        Each token takes three steps. The steps of three tokens are interleaved (software pipelining), so that the
        memory that a step prefetches arrives before the next step of the same token.
        """
        cdef RecoveredMerges merges
        cdef SplitWork* first = &self.works[0]
        cdef SplitWork* second = &self.works[1]
        cdef SplitWork* third = &self.works[2]
        cdef Py_ssize_t i, n = self.n
        parts = np.zeros((n, 4), dtype=np.uint32)
        cdef uint32_t[:, ::1] parts_view = parts
        cdef MergeTable table = MergeTable(None, None, None, n)
        if n == 0:
            return np.empty((0, 2), dtype=np.int32)
        merges.pairs, merges.parts = &table.merges, <TokenParts*>&parts_view[0, 0]
        with nogil:
            for i in range(n + 2):
                if i < n:
                    find_splits(&self.strings, self.sums, <token_t>i, first)
                if 1 <= i <= n:
                    find_pairs(&self.strings, &merges, <token_t>(i - 1), second)
                if i >= 2:
                    find_merge(&self.strings, &merges, table, <token_t>(i - 2), third)
                first, second, third = third, first, second
        return np.where(parts[:, 2:3] > 0, parts[:, :2].view(np.int32), np.int32(-1))

    def list_splits(self, const int64_t[::1] tokens):
        """Return every split of these distinct tokens into two tokens: int32, shape (n, 3): left, right, token.

        The splits of one token are sorted by the length of the left part.
        """
        cdef Py_ssize_t i, k, n = 0
        cdef size_t capacity = 0
        cdef SplitWork* work = &self.works[0]
        cdef MergedPair pair
        cdef int* rows = NULL
        for i in range(tokens.shape[0]):
            if not 0 <= tokens[i] < self.n:
                raise ValueError(f"token {tokens[i]} does not exist; there are {self.n} tokens")
        try:
            with nogil:
                for i in range(tokens.shape[0]):
                    find_splits(&self.strings, self.sums, <token_t>tokens[i], work)
                    rows = <int*>grow_array(rows, &capacity, <size_t>(n + work.n + 1), 3 * sizeof(int))
                    for k in range(work.n):
                        if look_up_split(&self.strings, <token_t>tokens[i], &work.splits[k], &pair):
                            rows[3 * n], rows[3 * n + 1], rows[3 * n + 2] = pair.left, pair.right, <int>tokens[i]
                            n += 1
            return np.asarray(<int[:n, :3]>rows).copy() if n else np.empty((0, 3), dtype=np.int32)
        finally:
            free(rows)
