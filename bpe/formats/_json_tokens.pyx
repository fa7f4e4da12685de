"""Read and write the vocab and the merges of a tokenizer.json without creating an object for each token.

Reading is a fast path for common files: valid JSON, distinct tokens. For all other files the functions return None, and
the caller uses `json`, which reports errors. Cost: linear. `bpe/formats/huggingface/lists.py` finds the two lists.

Measured, a tokenizer.json of 200,000 tokens: vocab and merges in 50 ms; 120 to 180 without prefetching, and with a
look-up for each merge's result.
"""

import numpy as np

from bpe.base._bounds cimport check_offsets
from bpe.base._json cimport JsonReader, accept, next_byte, read_string
from bpe.base._memory cimport hash_bytes
from bpe.base._string_index cimport (
    StringIndex, enter_strings, find_hashed, find_string, is_string, prefetch_slot
)
from bpe.base._types cimport byte_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t
from libc.string cimport memchr, memcpy, memmove

cdef enum:
    N_LETTER_CODES = 512      # GPT-2's byte letters are code points below this
    NOT_LETTERS = -2          # a string with other characters than byte letters
    MERGES_PER_BLOCK = 32     # merges that are read before their tokens are looked up

cdef struct MergeBlock:
    byte_t* text              # the parts of the merges, one after the other
    Py_ssize_t[MERGES_PER_BLOCK] start, middle, end        # merge i: text[start:middle] and text[middle:end]
    uint64_t[MERGES_PER_BLOCK] left_hash, right_hash
    Py_ssize_t next           # the index of the token after the last result


# Reading --------------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t read_letters(
    const int16_t* byte_of, const byte_t* token, Py_ssize_t size, byte_t* out
) noexcept nogil:
    """Write the bytes that a token of byte letters stands for, or a token of text as it is, to `out`.

    Returns the number of bytes, or NOT_LETTERS. `out` may be `token`, or lie before it.
    """
    cdef Py_ssize_t i = 0, n = 0
    cdef int code
    if byte_of == NULL:
        memmove(out, token, size)
        return size
    while i < size:
        code = token[i]
        if code >= 0x80:
            if not (0xC2 <= code <= 0xC7 and i + 1 < size and token[i + 1] & 0xC0 == 0x80):
                return NOT_LETTERS
            i += 1
            code = (code & 0x1F) << 6 | token[i] & 0x3F
        if byte_of[code] < 0:
            return NOT_LETTERS
        out[n] = <byte_t>byte_of[code]
        i += 1
        n += 1
    return n


cdef inline int64_t read_id(JsonReader* reader) noexcept nogil:
    """Read an id as JSON writes it; returns -1 for anything but a number below 2**31 - 1."""
    cdef int64_t token_id = 0
    cdef byte_t first_digit = next_byte(reader)
    cdef const byte_t* start = reader.at
    while reader.at < reader.end and c"0" <= reader.at[0] <= c"9" and reader.at - start < 10:
        token_id = token_id * 10 + (reader.at[0] - c"0")
        reader.at += 1
    if reader.at == start or token_id >= 0x7FFFFFFF or (reader.at - start > 1 and first_digit == c"0"):
        return -1
    return token_id


# The lists ------------------------------------------------------------------------------------------------------------


cdef Py_ssize_t count_remaining_bytes(const byte_t[::1] data, Py_ssize_t start) except -1:
    """Count the bytes from `start` on; ValueError unless it is in the data."""
    if not 0 <= start <= data.shape[0]:
        raise ValueError(f"start is {start}; it must be in the {data.shape[0]} bytes")
    return data.shape[0] - start


cdef class VocabTokens:
    """The tokens of a vocab: their bytes and ids, in the file's order. For a byte model, those spelled in byte letters.

    Attributes:
        blob, offsets: token i is `blob[offsets[i]:offsets[i + 1]]`.
        token_ids: the ids, int32.
        other_tokens: (JSON string, id) of the other tokens; the strings are not validated.
        end: the position in the file after the vocab.

    """

    cdef readonly object blob, offsets, token_ids, other_tokens
    cdef readonly Py_ssize_t end
    cdef StringIndex index
    cdef const int32_t[::1] ids
    cdef const int16_t[::1] letters   # None for a character model
    cdef const int16_t* byte_of       # (N_LETTER_CODES,): the byte that each code point stands for, or -1; NULL: none

    def __cinit__(self):
        self.index = StringIndex(b"", np.zeros(1, dtype=np.int64), 0)

    def __len__(self):
        return len(self.token_ids) + len(self.other_tokens)

    cdef bint enter_all(self) except -1:
        """Fill the hash table; False if a token occurs twice or there are none."""
        cdef Py_ssize_t n = len(self.token_ids)
        if n == 0:
            return False
        self.index, self.ids = StringIndex(self.blob, self.offsets, n), self.token_ids
        return enter_strings(&self.index.table, n)

    def find(self, const byte_t[::1] token):
        """Return the index of a token, given as bytes, or -1."""
        return find_string(&self.index.table, &token[0], token.shape[0]) if token.shape[0] else -1

    def read_merges(self, const byte_t[::1] data, Py_ssize_t start, Py_ssize_t n_prefix=0):
        """Read the merges, an array at `start`: (int32 pairs of ids, int32 ids of the merge results, end position).

        The right part of a merge loses its first `n_prefix` bytes in the result. Returns None if the array needs the
        general JSON reader.
        """
        # A merge takes at least 6 bytes: "a b",
        cdef Py_ssize_t max_items = count_remaining_bytes(data, start) // 6 + 1
        cdef Py_ssize_t n = 0, n_block = 0
        cdef JsonReader reader = JsonReader(&data[0] + start, &data[0] + data.shape[0], c"\n")
        cdef bint done, is_valid
        cdef byte_t[::1] buffer = np.empty(data.shape[0] - start + 8, dtype=np.uint8)
        cdef MergeBlock block
        parts, ids = np.empty((max_items, 2), dtype=np.int32), np.empty(max_items, dtype=np.int32)
        cdef int32_t[:, ::1] pairs = parts
        cdef int32_t[::1] results = ids
        block.text, block.next = &buffer[0], 0
        if not accept(&reader, c"["):
            return None
        done = accept(&reader, c"]")
        with nogil:
            while not done:
                n_block = self.read_block(&reader, &block, &done)
                if n_block < 0:
                    break
                is_valid = self.look_up(&block, n_block, n_prefix, &pairs[n, 0], &results[n])
                n += n_block
                if not is_valid:
                    n_block = -1
                    break
        return None if n_block < 0 else (parts[:n].copy(), ids[:n].copy(), reader.at - &data[0])

    cdef Py_ssize_t read_block(self, JsonReader* reader, MergeBlock* block, bint* done) noexcept nogil:
        """Read up to MERGES_PER_BLOCK merges; returns their number, or -1 if they need the general JSON reader.

        `done` becomes True at the end of the array. The slots of the parts in the hash table are prefetched.
        """
        cdef Py_ssize_t n = 0, left_size, right_size, text_size = 0
        cdef byte_t* token
        cdef byte_t* right_token
        cdef bint is_pair
        while n < MERGES_PER_BLOCK and not done[0]:
            token = block.text + text_size
            is_pair = accept(reader, c"[")
            if not accept(reader, c'"'):
                return -1
            left_size = read_string(reader, token)
            if left_size <= 0:
                return -1
            if is_pair:
                right_token = token + left_size
                if not (accept(reader, c",") and accept(reader, c'"')):
                    return -1
                right_size = read_string(reader, right_token)
                if right_size <= 0 or not accept(reader, c"]"):
                    return -1
            else:
                right_token = <byte_t*>memchr(token, c" ", left_size)
                if right_token == NULL:
                    return -1
                right_token += 1
                right_size = token + left_size - right_token
                left_size = right_token - 1 - token
                if memchr(right_token, c" ", right_size) != NULL:
                    return -1
            left_size = read_letters(self.byte_of, token, left_size, token)
            right_size = read_letters(self.byte_of, right_token, right_size, token + left_size) if left_size > 0 else 0
            if right_size <= 0:
                return -1
            block.start[n], block.middle[n] = text_size, text_size + left_size
            block.end[n] = block.middle[n] + right_size
            block.left_hash[n] = hash_bytes(token, left_size)
            block.right_hash[n] = hash_bytes(token + left_size, right_size)
            prefetch_slot(&self.index.table, block.left_hash[n])
            prefetch_slot(&self.index.table, block.right_hash[n])
            text_size += left_size + right_size
            n += 1
            done[0] = accept(reader, c"]")
            if not done[0] and not accept(reader, c","):
                return -1
        return n

    cdef bint look_up(
        self, MergeBlock* block, Py_ssize_t n, Py_ssize_t n_prefix, int32_t* pairs, int32_t* results
    ) noexcept nogil:
        """Look up the ids of the tokens of a block's merges; False if a token is not in the vocab."""
        cdef Py_ssize_t i, left_size, right_size, left_index, right_index, size
        cdef byte_t* token
        for i in range(n):
            token = block.text + block.start[i]
            left_size, right_size = block.middle[i] - block.start[i], block.end[i] - block.middle[i]
            left_index = find_hashed(&self.index.table, token, left_size, block.left_hash[i])
            right_index = find_hashed(&self.index.table, token + left_size, right_size, block.right_hash[i])
            if n_prefix:
                right_size -= n_prefix
                if right_size <= 0 or token[left_size + n_prefix] & 0xC0 == 0x80:
                    return False                           # no whole character is left
                memmove(token + left_size, token + left_size + n_prefix, right_size)
            # The tokens that merges make usually follow each other in the vocab: a look-up in twenty.
            size = left_size + right_size
            if block.next >= self.ids.shape[0] or not is_string(&self.index.table, block.next, token, size):
                block.next = find_string(&self.index.table, token, size)
            if left_index < 0 or right_index < 0 or block.next < 0:
                return False
            pairs[2 * i], pairs[2 * i + 1] = self.ids[left_index], self.ids[right_index]
            results[i] = self.ids[block.next]
            block.next += 1
        return True


def read_vocab(const byte_t[::1] data, Py_ssize_t start, const int16_t[::1] byte_of):
    """Read the vocab, a JSON object at `start`; None if it needs the general JSON reader.

    `byte_of` has the byte that each code point below 512 stands for as a GPT-2 byte letter, or -1. Without it, tokens
    are text; the caller checks that the object is UTF-8.
    """
    cdef Py_ssize_t n_remaining = count_remaining_bytes(data, start), n = 0, size = 0, n_bytes
    cdef Py_ssize_t max_items = n_remaining // 6 + 1       # a token takes at least 6 bytes: "a":1,
    cdef JsonReader reader = JsonReader(&data[0] + start, &data[0] + data.shape[0], c"\n")
    cdef const byte_t* string
    cdef int64_t token_id
    cdef VocabTokens tokens = VocabTokens.__new__(VocabTokens)
    blob = np.empty(n_remaining + 8, dtype=np.uint8)
    offsets, token_ids = np.empty(max_items + 1, dtype=np.int64), np.empty(max_items, dtype=np.int32)
    cdef byte_t[::1] bytes_out = blob
    cdef int64_t[::1] starts = offsets
    cdef int32_t[::1] ids = token_ids
    tokens.letters, tokens.other_tokens = byte_of, []
    starts[0] = 0
    if byte_of is not None:
        if byte_of.shape[0] != N_LETTER_CODES:
            return None
        tokens.byte_of = &byte_of[0]
    if not accept(&reader, c"{"):
        return None
    while True:
        if not accept(&reader, c'"'):
            return None
        string = reader.at - 1
        n_bytes = read_string(&reader, &bytes_out[size])
        if n_bytes <= 0:
            return None
        n_bytes = read_letters(tokens.byte_of, &bytes_out[size], n_bytes, &bytes_out[size])
        if n_bytes == NOT_LETTERS:
            other_string = string[: reader.at - string]
        token_id = read_id(&reader) if accept(&reader, c":") else -1
        if token_id < 0:
            return None
        if n_bytes == NOT_LETTERS:
            tokens.other_tokens.append((other_string, token_id))
        else:
            size += n_bytes
            ids[n] = <int32_t>token_id
            n += 1
            starts[n] = size
        if accept(&reader, c"}"):
            break
        if not accept(&reader, c","):
            return None
    tokens.blob, tokens.offsets, tokens.token_ids = blob[:size].copy(), offsets[: n + 1].copy(), token_ids[:n].copy()
    tokens.end = reader.at - &data[0]
    return tokens if tokens.enter_all() else None


def find_value_end(const byte_t[::1] data, Py_ssize_t start):
    """Find the index after the JSON object or array at `start`; -1 if its brackets are not balanced.

    Only strings and brackets are read: whether the rest is JSON is for its reader to find.
    """
    count_remaining_bytes(data, start)
    cdef JsonReader reader = JsonReader(&data[0] + start, &data[0] + data.shape[0], c"\n")
    cdef Py_ssize_t depth = 0, end = -1
    cdef byte_t byte
    with nogil:
        while end < 0 and reader.at < reader.end:
            byte = reader.at[0]
            if byte == c" ":
                next_byte(&reader)
                continue
            reader.at += 1
            if byte == c'"':
                if read_string(&reader, NULL) < 0:
                    break
            elif byte == c"{" or byte == c"[":
                depth += 1
            elif byte == c"}" or byte == c"]":
                depth -= 1
                if depth <= 0:
                    end = reader.at - &data[0]
    return end if depth == 0 else -1


# Writing --------------------------------------------------------------------------------------------------------------


cdef enum:
    MAX_COLUMNS = 2
    MAX_DIGITS = 20           # of an int64

cdef struct Column:           # the texts of the lines, or numbers
    const byte_t* blob
    const int64_t* starts     # line i has blob[starts[i]:starts[i] + lengths[i]]; for numbers, the numbers
    const int64_t* lengths    # NULL for numbers

cdef struct Constant:
    const char* text
    Py_ssize_t size


def spell_letters(const byte_t[::1] blob, const int64_t[::1] offsets, const byte_t[:, ::1] letters):
    """Spell each byte of tokens as one or two bytes: those of its row of `letters`, of which the second may be 0.

    Token i is `blob[offsets[i]:offsets[i + 1]]`. Returns (bytes, int64 offsets).
    """
    cdef Py_ssize_t i, j, n = 0, n_tokens = offsets.shape[0] - 1
    check_offsets(offsets, n_tokens, blob.shape[0])
    if letters.shape[0] != 256 or letters.shape[1] != 2:
        raise ValueError("letters must have the shape (256, 2)")
    spelled, bounds = np.empty(2 * blob.shape[0], dtype=np.uint8), np.zeros(n_tokens + 1, dtype=np.int64)
    cdef byte_t[::1] out = spelled
    cdef int64_t[::1] out_bounds = bounds
    with nogil:
        for i in range(n_tokens):
            for j in range(offsets[i], offsets[i + 1]):
                out[n] = letters[blob[j], 0]
                n += 1
                if letters[blob[j], 1]:
                    out[n] = letters[blob[j], 1]
                    n += 1
            out_bounds[i + 1] = n
    return spelled[:n], bounds


def join_lines(list constants not None, list columns not None):
    """Join one text of each column to a line, with constants before, between and after them.

    Args:
        constants: bytes, one more than there are columns.
        columns: int64 numbers, or (blob, starts, lengths): text i is `blob[starts[i]:starts[i] + lengths[i]]`.

    """
    cdef Constant[MAX_COLUMNS + 1] texts
    cdef Column[MAX_COLUMNS] cells
    cdef const byte_t[::1] blob
    cdef const int64_t[::1] starts, lengths
    cdef Py_ssize_t k, i, n_columns = len(columns), n = -1, size = 0
    cdef list owners = []
    if not 0 < n_columns <= MAX_COLUMNS or len(constants) != n_columns + 1:
        raise ValueError(f"there are {n_columns} columns and {len(constants)} constants; give 1 or 2, and one more")
    for k in range(n_columns + 1):
        text = <bytes?>constants[k]
        texts[k] = Constant(PyBytes_AS_STRING(text), len(text))
    for k in range(n_columns):
        cells[k] = Column(b"", NULL, NULL)
        if isinstance(columns[k], tuple):
            blob, starts, lengths = columns[k]
            check_slices(blob, starts, lengths)
            if blob.shape[0]:
                cells[k].blob = &blob[0]
            owners += (blob, lengths)
        else:
            starts = columns[k]
        owners.append(starts)
        if n >= 0 and starts.shape[0] != n:
            raise ValueError(f"columns have {n} and {starts.shape[0]} lines; they must have as many")
        n = starts.shape[0]
        if n:
            cells[k].starts = &starts[0]
            if isinstance(columns[k], tuple):
                cells[k].lengths = &lengths[0]
    with nogil:
        for i in range(n):
            size += write_line(NULL, texts, cells, n_columns, i)
    lines = PyBytes_FromStringAndSize(NULL, size)
    cdef char* out = PyBytes_AS_STRING(lines)
    with nogil:
        for i in range(n):
            out += write_line(out, texts, cells, n_columns, i)
    return lines


cdef int check_slices(const byte_t[::1] blob, const int64_t[::1] starts, const int64_t[::1] lengths) except -1:
    """Check that slices lie within their blob."""
    cdef Py_ssize_t i, size = blob.shape[0]
    if starts.shape[0] != lengths.shape[0]:
        raise ValueError(f"there are {starts.shape[0]} starts and {lengths.shape[0]} lengths; give as many")
    for i in range(starts.shape[0]):
        if not 0 <= lengths[i] <= size or not 0 <= starts[i] <= size - lengths[i]:
            raise ValueError(f"slice {i} does not lie within the {size} bytes of its blob")
    return 0


cdef Py_ssize_t write_line(
    char* out, const Constant* texts, const Column* cells, Py_ssize_t n_columns, Py_ssize_t i
) noexcept nogil:
    """Write line i to `out`, unless that is NULL; return its size."""
    cdef char[MAX_DIGITS] digits
    cdef Py_ssize_t k, size = 0, n
    cdef const char* text
    for k in range(n_columns + 1):
        if out != NULL:
            memcpy(out + size, texts[k].text, texts[k].size)
        size += texts[k].size
        if k == n_columns:
            break
        if cells[k].lengths == NULL:
            n = spell_number(cells[k].starts[i], digits)
            text = digits + MAX_DIGITS - n
        else:
            n, text = cells[k].lengths[i], <const char*>cells[k].blob + cells[k].starts[i]
        if out != NULL:
            memcpy(out + size, text, n)
        size += n
    return size


cdef Py_ssize_t spell_number(int64_t number, char* digits) noexcept nogil:
    """Write a number in decimal digits to the end of MAX_DIGITS bytes; return how many."""
    cdef uint64_t rest = <uint64_t>number if number >= 0 else 0 - <uint64_t>number
    cdef Py_ssize_t n = 0
    while n == 0 or rest:
        n += 1
        digits[MAX_DIGITS - n] = <char>(48 + rest % 10)
        rest //= 10
    if number < 0:
        n += 1
        digits[MAX_DIGITS - n] = 45
    return n
