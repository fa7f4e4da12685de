"""Calls for a text each, in the plain case: a str, nothing asked for by keyword, a kernel that takes texts as they are.

A frame of Python's costs as much as the ids of a few words. So a method that checks arguments keeps its frame for when
there is something to check, and a function here stands before it. Not here: what any other call does
(`bpe/textencoder.py`), and encoding itself (`encoder.pyx`).
"""

cimport numpy as cnp

from bpe._core.chunk cimport PIECES, Fragment
from bpe._core.encoder cimport SHORT_TEXT, Encoder, Workspace, feed_fragments
from bpe._core.scan cimport begin, scan
from bpe._core.types cimport byte_t, token_t
from bpe._core.wordcache cimport MIDDLE_WORD, SHORT_WORD, find_front, find_middle, find_short, short_key
from libc.stdint cimport uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy

cnp.import_array()

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    int PyUnicode_KIND(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    const void* PyUnicode_DATA(object text)
    int PyUnicode_1BYTE_KIND
    int PyUnicode_2BYTE_KIND

cdef enum:
    MOST_BYTES = 3            # of a character of two bytes in UTF-8
    FEW_BYTES = 256           # of a text for which filling a chunk takes longer than it spares

cdef object NOTHING = ()      # the defaults, known by identity
cdef object NEVER = 0.0


def before(method):
    """A function before `method`, which is `TextEncoder.encode`: it answers the plain case and hands on any other.

    The tokenizer's `_quick` is the kernel's `Encoder`, or None where it does not take texts as they are.
    """

    def encode(self, text, *, allowed_special=NOTHING, disallowed_special=NOTHING, dropout=NEVER, seed=None):
        if type(text) is str and allowed_special is NOTHING and disallowed_special is NOTHING and dropout is NEVER:
            quick = self._quick
            if quick is not None:
                ids = encode_short(<Encoder>quick, text)
                if ids is not None:
                    return ids
        return method(
            self, text,
            allowed_special=allowed_special, disallowed_special=disallowed_special, dropout=dropout, seed=seed,
        )

    return encode


cdef object encode_short(Encoder encoder, text):
    """The ids of a short str; None for a long one, and where more is to be done: surrogates, symbols without an id."""
    cdef byte_t utf8[SHORT_TEXT]
    cdef Fragment fragment
    cdef Workspace space
    cdef Py_ssize_t n = PyUnicode_GET_LENGTH(text)
    if n >= SHORT_TEXT:
        return None
    fragment.text, fragment.size = <const byte_t*>PyUnicode_DATA(text), n
    if not PyUnicode_IS_COMPACT_ASCII(text):
        if n > SHORT_TEXT // MOST_BYTES:
            return None
        if PyUnicode_KIND(text) == PyUnicode_2BYTE_KIND:
            fragment.size = to_utf8(<const uint16_t*>fragment.text, n, utf8)
        elif PyUnicode_KIND(text) == PyUnicode_1BYTE_KIND:
            fragment.size = to_utf8(<const uint8_t*>fragment.text, n, utf8)
        else:
            return None
        if fragment.size < 0:
            return None
        fragment.text = utf8
    space = encoder.workspace()
    if fragment.size <= FEW_BYTES and fragment.text != utf8:
        ids = encode_known(encoder, space, fragment.text, fragment.size)
        if ids is not None:
            encoder.give_back(space)
            return ids
    feed_fragments(space.feed, &fragment, 1, encoder.scanner)
    encoder.run(space, NULL)
    if space.unknown:
        encoder.give_back(space)
        return None
    return encoder.taken(space)


cdef object encode_known(Encoder encoder, Workspace space, const byte_t* text, Py_ssize_t size):
    """The ids of ASCII of at most FEW_BYTES whose words are all in the cache, with few ids each; else None."""
    cdef token_t ids[3 * FEW_BYTES + 3]
    cdef token_t* out = ids
    cdef const byte_t* word
    cdef uint64_t key, value
    cdef Py_ssize_t n, i, length
    cdef cnp.npy_intp n_ids
    begin(&space.feed.cursor, encoder.scanner, text, 0, size)
    n = scan(&space.feed.cursor, space.feed.start, space.feed.end, PIECES)
    for i in range(n):
        word, length = text + space.feed.start[i], space.feed.end[i] - space.feed.start[i]
        if length <= SHORT_WORD:
            key = short_key(word, length, text + size)
            value = find_front(&space.cache, key)
            if value == 0:
                value = find_short(&space.cache, key)
        elif length <= MIDDLE_WORD:
            memcpy(&key, word, 8)
            value = find_middle(&space.cache, key, short_key(word + 8, length - 8, text + size))
        else:
            return None
        if value & 3 == 0:
            return None
        out[0] = value >> 4 & 0xFFFFF
        out[1] = value >> 24 & 0xFFFFF
        out[2] = <token_t>(value >> 44)
        out += value & 3
    n_ids = out - ids
    array = cnp.PyArray_EMPTY(1, &n_ids, cnp.NPY_UINT32, 0)
    memcpy(cnp.PyArray_DATA(array), ids, n_ids * sizeof(token_t))
    return array


ctypedef fused unit_t:
    uint8_t
    uint16_t


cdef inline Py_ssize_t to_utf8(const unit_t* text, Py_ssize_t n, byte_t* out) noexcept nogil:
    """Write characters below U+10000 as UTF-8; how many bytes, or -1 for a surrogate."""
    cdef Py_ssize_t i
    cdef unsigned int code, surrogates = 0
    cdef byte_t* end = out
    for i in range(n):
        code = text[i]
        if code >= 0x800:
            surrogates |= code - 0xD800 < 0x800
            end[0] = 0xE0 | code >> 12
            end[1] = 0x80 | code >> 6 & 0x3F
            end[2] = 0x80 | code & 0x3F
            end += 3
        elif code >= 0x80:
            end[0] = 0xC0 | code >> 6
            end[1] = 0x80 | code & 0x3F
            end += 2
        else:
            end[0] = code
            end += 1
    return -1 if surrogates else end - out
