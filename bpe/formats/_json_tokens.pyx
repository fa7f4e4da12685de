"""The two long lists of a tokenizer.json, vocab and merges, read without an object for each token.

This is a quick way for files as they usually are: valid JSON, a byte-level model, each token there once. For anything
else the functions here answer None, and the file is read by `json`, which says what is wrong with it. Not here: what
else is in the file (`bpe/formats/huggingface.py`).

Measured, a tokenizer.json of cl100k: 255 ms through `json`, 64 here.
"""

import numpy as np

from bpe.base._memory cimport hash_bytes
from bpe.base._types cimport byte_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

cdef enum:
    LETTERS = 512             # GPT-2's letters are below this code point
    MOST = 1 << 16            # bytes of a token
    OTHER = -1                # a string that is not all letters
    WRONG = -2


# Places in the text ---------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t behind_blanks(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    while pos < end and (text[pos] == 32 or text[pos] == 10 or text[pos] == 13 or text[pos] == 9):
        pos += 1
    return pos


cdef inline Py_ssize_t behind_string(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where the string that begins at `pos` ends; `end` and more if it does not."""
    pos += 1
    while pos < end and text[pos] != c'"':
        pos += 2 if text[pos] == c"\\" else 1
    return pos + 1


cdef Py_ssize_t behind_value(const byte_t* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where a value ends, if it is valid; brackets are counted, not matched."""
    cdef int depth = 0
    while pos < end:
        if text[pos] == c'"':
            pos = behind_string(text, pos, end)
            if depth == 0:
                return pos
            continue
        if text[pos] == c"{" or text[pos] == c"[":
            depth += 1
        elif text[pos] == c"}" or text[pos] == c"]":
            depth -= 1
            if depth <= 0:
                return pos + 1 if depth == 0 else pos
        elif text[pos] == c"," and depth == 0:
            return pos
        pos += 1
    return end + 1


cdef Py_ssize_t member(
    const byte_t* text, Py_ssize_t pos, Py_ssize_t end, const byte_t* name, Py_ssize_t size
) noexcept nogil:
    """Where the value of a member of the object at `pos` begins; -1 if there is none, or no object."""
    cdef Py_ssize_t key, size_of_key
    if pos >= end or text[pos] != c"{":
        return -1
    while True:
        key = behind_blanks(text, pos + 1, end)            # behind a bracket or a comma
        if key >= end or text[key] != c'"':
            return -1
        pos = behind_string(text, key, end)
        if pos >= end:
            return -1
        size_of_key = pos - key - 2
        pos = behind_blanks(text, pos, end)
        if pos >= end or text[pos] != c":":
            return -1
        pos = behind_blanks(text, pos + 1, end)
        if size_of_key == size and memcmp(text + key + 1, name, size) == 0:
            return pos if pos < end else -1
        pos = behind_blanks(text, behind_value(text, pos, end), end)
        if pos >= end or text[pos] != c",":
            return -1


def sections(const byte_t[::1] data):
    """Where the vocab and the merges of the model lie: (start, end, start, end) in their order; None if not found."""
    cdef Py_ssize_t end = data.shape[0], model, vocab, merges, behind_vocab, behind_merges
    cdef const byte_t* text
    if end == 0:
        return None
    text = &data[0]
    model = member(text, behind_blanks(text, 0, end), end, b"model", 5)
    vocab = member(text, model, end, b"vocab", 5) if model >= 0 else -1
    merges = member(text, model, end, b"merges", 6) if model >= 0 else -1
    if vocab < 0 or merges < 0 or text[vocab] != c"{" or text[merges] != c"[":
        return None
    behind_vocab, behind_merges = behind_value(text, vocab, end), behind_value(text, merges, end)
    if behind_vocab > end or behind_merges > end:
        return None
    return vocab, behind_vocab, merges, behind_merges


# Strings --------------------------------------------------------------------------------------------------------------


cdef inline int hexadecimal(const byte_t* text) noexcept nogil:
    """The number that four hexadecimal digits are, or -1."""
    cdef int i, digit, number = 0
    for i in range(4):
        digit = text[i]
        if c"0" <= digit <= c"9":
            digit -= c"0"
        elif c"a" <= (digit | 32) <= c"f":
            digit = (digit | 32) - c"a" + 10
        else:
            return -1
        number = number << 4 | digit
    return number


cdef inline Py_ssize_t letters_at(
    const byte_t* text, Py_ssize_t* pos, Py_ssize_t end, byte_t stop, const int16_t* byte_of, byte_t* out
) noexcept nogil:
    """Read letters up to `stop` or the quote that ends the string; how many bytes they stand for, or OTHER or WRONG.

    `pos` moves behind that character, or stays. `text` is read before `end` only.
    """
    cdef Py_ssize_t at = pos[0], n = 0
    cdef int code
    while at < end and n < MOST:
        code = text[at]
        if code == stop or code == c'"':
            pos[0] = at + 1
            return n if code == stop else WRONG
        if code < 32:
            return WRONG
        if code == c"\\":
            if at + 1 >= end:
                return WRONG
            code = text[at + 1]
            at += 2
            if code == c"u":
                if at + 4 > end:
                    return WRONG
                code = hexadecimal(text + at)
                at += 4
            elif code != c'"' and code != c"\\" and code != c"/":
                return OTHER
        elif code < 0x80:
            at += 1
        elif 0xC2 <= code <= 0xC7 and at + 1 < end and text[at + 1] & 0xC0 == 0x80:
            code = (code & 0x1F) << 6 | text[at + 1] & 0x3F
            at += 2
        else:
            return OTHER
        if not 0 <= code < LETTERS or byte_of[code] < 0:
            return OTHER
        out[n] = <byte_t>byte_of[code]
        n += 1
    return WRONG


# The vocab ------------------------------------------------------------------------------------------------------------


cdef class Listed:
    """The tokens of a vocab that are spelled in GPT-2's letters: their bytes and ids, in the file's order.

    Attributes:
        blob, offsets: token i is `blob[offsets[i]:offsets[i + 1]]`.
        numbers: int32: the ids.
        others: the tokens that are not so spelled: (a JSON string, which may be wrong; id).

    """

    cdef readonly object blob, offsets, numbers, others
    cdef const byte_t* tokens
    cdef const int64_t* places
    cdef const int32_t* ids
    cdef uint64_t* slots              # hash << 32 | number of a token + 1
    cdef uint64_t mask
    cdef int16_t[::1] byte_of

    def __cinit__(self):
        self.slots = NULL

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return len(self.numbers) + len(self.others)

    cdef Py_ssize_t look_up(self, const byte_t* token, Py_ssize_t size, bint add, Py_ssize_t number) noexcept nogil:
        """The place of a token, or -1; with `add` a token that is not there gets this number."""
        cdef uint64_t hashed = hash_bytes(token, size), slot, at = hashed & self.mask
        cdef Py_ssize_t known
        while True:
            slot = self.slots[at]
            if slot == 0:
                if add:
                    self.slots[at] = hashed >> 32 << 32 | <uint64_t>(number + 1)
                return -1
            if slot >> 32 == hashed >> 32:
                known = <Py_ssize_t>(slot & <uint64_t>0xFFFFFFFF) - 1
                if self.places[known + 1] - self.places[known] == size:
                    if memcmp(self.tokens + self.places[known], token, size) == 0:
                        return known
            at = (at + 1) & self.mask

    cdef bint index(self) except -1:
        """Fill the table; False where a token is there twice."""
        cdef Py_ssize_t i, n = len(self.numbers), size = 16
        cdef const byte_t[::1] blob = self.blob
        cdef const int64_t[::1] offsets = self.offsets
        cdef const int32_t[::1] numbers = self.numbers
        while size < 2 * n:
            size *= 2
        if n == 0:
            return False
        self.tokens, self.places, self.ids = &blob[0], &offsets[0], &numbers[0]
        self.slots = <uint64_t*>calloc(size, sizeof(uint64_t))
        if self.slots == NULL:
            raise MemoryError(f"no memory for a table of {n} tokens")
        self.mask = size - 1
        for i in range(n):
            if self.look_up(self.tokens + self.places[i], self.places[i + 1] - self.places[i], True, i) >= 0:
                return False
        return True

    def find(self, const byte_t[::1] token):
        """The place of a token, given as bytes, or -1."""
        return self.look_up(&token[0], token.shape[0], False, 0) if token.shape[0] else -1

    def merges(self, const byte_t[::1] data, Py_ssize_t start, Py_ssize_t end):
        """The merges in `data[start:end]` as (int32 pairs of ids, int32 ids made); None where anything is unusual."""
        cdef Py_ssize_t most = (end - start) // 6 + 1, n = 0, pos = start + 1, left, right
        cdef Py_ssize_t first, second, product
        cdef const byte_t* text = &data[0]
        cdef bint pair, empty
        scratch = np.empty(2 * MOST, dtype=np.uint8)
        cdef byte_t[::1] room = scratch
        cdef byte_t* token = &room[0]
        parts, ids = np.empty((most, 2), dtype=np.int32), np.empty(most, dtype=np.int32)
        cdef int32_t[:, ::1] pairs = parts
        cdef int32_t[::1] made = ids
        cdef const int16_t* byte_of = &self.byte_of[0]
        end -= 1                                           # the closing bracket
        pos = behind_blanks(text, pos, end)
        empty = pos >= end
        while not empty:
            pair = pos < end and text[pos] == c"["
            if pair:
                pos = behind_blanks(text, pos + 1, end)
            if pos >= end or text[pos] != c'"':
                return None
            pos += 1
            left = letters_at(text, &pos, end, c'"' if pair else c" ", byte_of, token)
            if left <= 0:
                return None
            if pair:
                pos = behind_blanks(text, pos, end)
                if pos >= end or text[pos] != c",":
                    return None
                pos = behind_blanks(text, pos + 1, end)
                if pos >= end or text[pos] != c'"':
                    return None
                pos += 1
            right = letters_at(text, &pos, end, c'"', byte_of, token + left)
            if right <= 0:
                return None
            first = self.look_up(token, left, False, 0)
            second = self.look_up(token + left, right, False, 0)
            product = self.look_up(token, left + right, False, 0)
            if first < 0 or second < 0 or product < 0 or n == most:
                return None
            pairs[n, 0], pairs[n, 1], made[n] = self.ids[first], self.ids[second], self.ids[product]
            n += 1
            pos = behind_blanks(text, pos, end)
            if pair:
                if pos >= end or text[pos] != c"]":
                    return None
                pos = behind_blanks(text, pos + 1, end)
            if pos == end:
                break
            if text[pos] != c",":
                return None
            pos = behind_blanks(text, pos + 1, end)
        return (parts[:n].copy(), ids[:n].copy()) if data[end] == c"]" else None


def listed(const byte_t[::1] data, Py_ssize_t start, Py_ssize_t end, int16_t[::1] byte_of):
    """The tokens of the vocab `data[start:end]`, a JSON object; None where anything is unusual.

    `byte_of` has the byte that each code point below 512 is GPT-2's letter of, or -1.
    """
    cdef Py_ssize_t most = (end - start) // 6 + 1, n = 0, pos = start + 1, size = 0, found, begin, behind = 0
    cdef const byte_t* text = &data[0]
    cdef int64_t number
    cdef int digits
    cdef Listed made = Listed.__new__(Listed)
    if byte_of.shape[0] != LETTERS or end - start < 2:
        return None
    blob = np.empty(end - start + MOST, dtype=np.uint8)
    offsets, numbers = np.empty(most + 1, dtype=np.int64), np.empty(most, dtype=np.int32)
    cdef byte_t[::1] bytes_out = blob
    cdef int64_t[::1] places = offsets
    cdef int32_t[::1] ids = numbers
    made.byte_of = byte_of
    made.others = []
    places[0] = 0
    end -= 1                                               # the closing bracket
    while True:
        pos = behind_blanks(text, pos, end)
        if pos >= end or text[pos] != c'"' or n == most:
            return None
        begin = pos
        pos += 1
        found = letters_at(text, &pos, end, c'"', &byte_of[0], &bytes_out[size])
        if found == WRONG or found == 0:
            return None
        if found == OTHER:
            pos = behind_string(text, begin, end)
            behind = pos
        pos = behind_blanks(text, pos, end)
        if pos >= end or text[pos] != c":":
            return None
        pos = behind_blanks(text, pos + 1, end)
        number, digits = 0, 0
        while pos < end and c"0" <= text[pos] <= c"9" and digits < 10:
            number = number * 10 + (text[pos] - c"0")
            digits += 1
            pos += 1
        if digits == 0 or number >= 0x7FFFFFFF or (digits > 1 and text[pos - digits] == c"0"):
            return None
        if found == OTHER:
            made.others.append((bytes(data[begin:behind]), number))
        else:
            size += found
            ids[n] = <int32_t>number
            n += 1
            places[n] = size
        pos = behind_blanks(text, pos, end)
        if pos == end:
            break
        if text[pos] != c",":
            return None
        pos += 1
    if data[end] != c"}":
        return None
    made.blob, made.offsets, made.numbers = blob[:size].copy(), offsets[: n + 1].copy(), numbers[:n].copy()
    return made if made.index() else None
