"""Where a piece or a text may be cut: between two characters that no token holds side by side."""

from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport Units
from libc.stdint cimport uint16_t, uint32_t

cdef extern from "bpe/encode/_split_filter.h" nogil:
    ctypedef struct Joints "bpe_joints":
        const uint32_t* bits      # NULL where nothing may be cut
        int shift                 # 32 - log2 of how many words of 32 bits there are, but for one with all bits set
        uint16_t ends[64]         # by a character's last byte, a bit for each first byte that tokens end after it with
    bint may_cut "bpe_may_cut"(const Joints* joints, const byte_t* border)


cdef inline bint is_three(const byte_t* text) noexcept nogil:
    """Whether a character of three bytes stands there."""
    return text[0] & 0xF0 == 0xE0 and text[1] & 0xC0 == 0x80 and text[2] & 0xC0 == 0x80


cdef inline bint is_joint(const byte_t* text) noexcept nogil:
    """Whether two characters of three bytes stand there."""
    return is_three(text) and is_three(text + 3)


cdef Py_ssize_t first_parting(const Joints* joints, const Units* text, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t last_parting(
    const Joints* joints, const byte_t* text, Py_ssize_t low, Py_ssize_t end
) noexcept nogil


cdef class SplitFilter:
    """The filter and its memory."""

    cdef Joints joints
    cdef uint32_t[::1] held
    cdef Py_ssize_t left      # how many bits may still be set before the filter is given up

    cdef int add(
        self, const byte_t* blob, Py_ssize_t start, Py_ssize_t before, Py_ssize_t behind, Py_ssize_t end
    ) noexcept nogil
    cdef int set_bit(self, const byte_t* six, bint whole) noexcept nogil
