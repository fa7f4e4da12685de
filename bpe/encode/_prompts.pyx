"""Blocks of prompts, the search for those that a text begins with, and their ids (`bpe/prompts.py`).

A str is compared as it is stored, in units of 1, 2 or 4 bytes, without converting it to UTF-8. Measured on a prompt of
900 KB with some characters that are not ASCII: 190 µs for converting it, 60 for comparing it here.
"""

cimport cython
cimport numpy as cnp

from bpe.base._cpu cimport follow_vector_level
from bpe.base._types cimport token_t
from bpe.base._utf8 cimport CodeUnits, get_code_units_of_item
from libc.string cimport memcpy

cnp.import_array()

cdef extern from *:
    """
    #include "bpe/base/_vectors.h"

    /* Compare 256 units at a time: compilers make vector instructions of a loop without an exit. */
    #define BPE_COMPARE(narrow_t, wide_t)                                                                       \
        const narrow_t* a = (const narrow_t*)narrow;                                                            \
        const wide_t* b = (const wide_t*)wide;                                                                  \
        wide_t difference = 0;                                                                                  \
        for (; n >= 256 && !difference; n -= 256, a += 256, b += 256)                                           \
            for (int i = 0; i < 256; i++) difference |= a[i] ^ b[i];                                            \
        for (size_t i = 0; i < n; i++) difference |= a[i] ^ b[i];                                               \
        return !difference;

    #define BPE_UNITS_EQUAL(name)                                                                               \
        static int name(const void* narrow, int narrow_width, const void* wide, int wide_width, size_t n) {     \
            if (narrow_width == wide_width) return !memcmp(narrow, wide, n * wide_width);                       \
            if (wide_width == 2) { BPE_COMPARE(uint8_t, uint16_t) }                                             \
            if (narrow_width == 2) { BPE_COMPARE(uint16_t, uint32_t) }                                          \
            BPE_COMPARE(uint8_t, uint32_t)                                                                      \
        }

    BPE_UNITS_EQUAL(bpe_units_equal_plain)
    #ifdef BPE_X86
    BPE_TARGET_AVX2 BPE_UNITS_EQUAL(bpe_units_equal_avx2)
    #endif

    /* Whether n units are equal; `narrow` must not have wider ones than `wide`. */
    static int (*bpe_units_equal)(const void* narrow, int narrow_width, const void* wide, int wide_width, size_t n);

    static void bpe_use_level_prompts(int level) {
        bpe_units_equal = BPE_BEST(level, bpe_units_equal_plain, bpe_units_equal_avx2, bpe_units_equal_avx2);
    }
    """
    bint bpe_units_equal(const void* narrow, int narrow_width, const void* wide, int wide_width, size_t n) nogil
    void use_level_prompts "bpe_use_level_prompts"(int level) noexcept


follow_vector_level(use_level_prompts)


@cython.trashcan(True)                     # a chain of blocks may be long
cdef class Block:
    """A part of texts, after the parts before it."""

    cdef readonly bytes window             # the text in which the end of the block was found
    cdef readonly str characters           # of the window; None if it is ASCII, or no UTF-8
    cdef readonly Py_ssize_t size          # how much of the window the block is, in bytes
    cdef Py_ssize_t n_chars                # and in characters
    cdef bint is_ascii                     # whether the window is
    cdef readonly Py_ssize_t n_ids         # the number of ids of the block and of all before it
    cdef readonly cnp.ndarray ids          # the ids of the block
    cdef readonly dict children            # the blocks that follow it in some text, by their windows
    cdef public Block latest               # the one of them that was used last
    cdef public cnp.ndarray rest           # the ids of the last text that ended after it without another block
    cdef public Py_ssize_t last_use        # the number of the call that used it last
    cdef public bint is_dropped            # whether the cache does not have it any more

    def __cinit__(self, bytes window not None, Py_ssize_t size, cnp.ndarray ids not None, Py_ssize_t n_ids):
        if not 0 <= size <= len(window):
            raise ValueError(f"size is {size}; it must be at least 0 and at most {len(window)}, the window's")
        self.window, self.size, self.ids, self.n_ids = window, size, ids, n_ids
        self.children = {}
        self.is_ascii, self.n_chars = window.isascii(), size
        if not self.is_ascii:
            try:
                self.characters, self.n_chars = window.decode(), len(window[:size].decode())
            except UnicodeDecodeError:
                self.characters = None


def follow_latest(Block block not None, text not None, Py_ssize_t start, Py_ssize_t use, list path not None):
    """Append the blocks that a text has after `start` to `path`, as long as each is the latest child of the one before.

    `text` is bytes or str. Returns where the text after them begins. The caller has the lock of the blocks.
    """
    cdef CodeUnits units = get_code_units_of_item(text)
    cdef bint is_str = isinstance(text, str)
    cdef Block child
    if start < 0:
        raise ValueError(f"start is {start}; it must be at least 0")
    while True:
        child = block.latest
        if child is None or not has_window(&units, start, child, is_str):
            return start
        child.last_use = use
        path.append(child)
        start += child.n_chars if is_str else child.size
        block = child


cdef bint has_window(const CodeUnits* text, Py_ssize_t start, Block block, bint is_str) except -1:
    """Whether a text, a str or bytes, has the window of a block at `start`."""
    cdef CodeUnits window = get_code_units_of_item(block.window)
    cdef int width = max(text.width, 1), window_width
    if is_str and not block.is_ascii:
        if block.characters is None:
            return False
        window = get_code_units_of_item(block.characters)
    window_width = max(window.width, 1)
    if window.n > text.n - start or window_width > width:
        return False
    return bpe_units_equal(window.data, window_width, text.data + start * width, width, window.n)


def join_ids(list blocks not None, list arrays not None):
    """Join the first of three arrays of ids, the ids of blocks, and the other two: a new array of uint32."""
    cdef cnp.ndarray head, rest, tail, joined_ids
    cdef cnp.npy_intp n
    cdef Block block
    cdef token_t* out
    head, rest, tail = arrays
    n = get_size(head) + get_size(rest) + get_size(tail)
    for block in blocks:
        if block is None:
            raise TypeError("blocks has None; each must be a Block")
        n += get_size(block.ids)
    joined_ids = cnp.PyArray_EMPTY(1, &n, cnp.NPY_UINT32, 0)
    out = append_ids(<token_t*>cnp.PyArray_DATA(joined_ids), head)
    for block in blocks:
        out = append_ids(out, block.ids)
    append_ids(append_ids(out, rest), tail)
    return joined_ids


cdef token_t* append_ids(token_t* out, cnp.ndarray ids) except NULL:
    """Copy ids to `out`, which has room for them; return the position after them."""
    cdef Py_ssize_t n = get_size(ids)
    memcpy(out, cnp.PyArray_DATA(ids), n * sizeof(token_t))
    return out + n


cdef Py_ssize_t get_size(cnp.ndarray ids) except -1:
    """Return the number of ids in an array, which must be contiguous and of uint32."""
    if ids is None or cnp.PyArray_TYPE(ids) != cnp.NPY_UINT32 or not cnp.PyArray_ISCARRAY_RO(ids):
        raise TypeError("ids are no contiguous array of uint32")
    return cnp.PyArray_SIZE(ids)


def count_common(cnp.ndarray ids not None, Py_ssize_t start, Block block not None):
    """Count the ids from `start` on that texts had, too, after the same blocks."""
    cdef const token_t* data = <const token_t*>cnp.PyArray_DATA(ids)
    cdef const token_t* earlier
    cdef Py_ssize_t n = get_size(ids), n_common = 0, i
    cdef cnp.ndarray earlier_ids
    if not 0 <= start <= n:
        raise ValueError(f"start is {start}; it must be from 0 to {n}")
    for earlier_ids in (block.rest, None if block.latest is None else block.latest.ids):
        if earlier_ids is not None:
            earlier, i = <const token_t*>cnp.PyArray_DATA(earlier_ids), 0
            while i < min(get_size(earlier_ids), n - start) and data[start + i] == earlier[i]:
                i += 1
            n_common = max(n_common, i)
    return n_common
