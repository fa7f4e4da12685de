"""Where a piece may be cut: between two characters that no token holds side by side."""

from bpe._core.types cimport byte_t
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #define BPE_SIX_BYTES 0xFFFFFFFFFFFFull
    #define BPE_LAST_AND_THREE 0xFFFFFFFF0000ull
    #define BPE_LEADS_AND_TAILS 0xC0C0F0C0C0F0ull
    #define BPE_TWO_CHARACTERS 0x8080E08080E0ull
    """
    const uint64_t SIX_BYTES "BPE_SIX_BYTES"
    const uint64_t LAST_AND_THREE "BPE_LAST_AND_THREE"        # the last byte of the first character, and the second
    const uint64_t LEADS_AND_TAILS "BPE_LEADS_AND_TAILS"      # the bits of six bytes that say where characters begin
    const uint64_t TWO_CHARACTERS "BPE_TWO_CHARACTERS"        # and what they are in two characters of three bytes

cdef enum:
    JOINT_BITS = 18           # log2 of the filter's bits while it is filled: 32 KB
    FEWEST_BITS = 12          # and at least, when it is folded

cdef struct Joints:
    const uint64_t* bits      # NULL where nothing may be cut
    int shift                 # 64 - log2 of how many bits there are


cdef inline uint64_t six_bytes(const byte_t* text) noexcept nogil:
    """Six bytes in the lowest places; loaded as they are put together, since one load of two stores would wait."""
    cdef uint32_t first
    cdef uint16_t last
    memcpy(&first, text, 4)
    memcpy(&last, text + 4, 2)
    return <uint64_t>last << 32 | first


cdef inline bint joint_bit(const Joints* joints, uint64_t context) noexcept nogil:
    cdef uint64_t at = context * <uint64_t>0x9E3779B97F4A7C15 >> joints.shift
    return joints.bits[at >> 6] >> (at & 63) & 1


cdef inline bint may_cut(const Joints* joints, uint64_t two) noexcept nogil:
    """Whether two characters of three bytes, in the lowest six bytes of `two`, may be cut apart."""
    return (joint_bit(joints, two & SIX_BYTES) | joint_bit(joints, two & LAST_AND_THREE)) ^ 1


cdef class SplitFilter:
    """The filter and its memory."""

    cdef Joints joints
    cdef uint64_t[::1] held
    cdef Py_ssize_t left      # how many bits may still be set before the filter is given up

    cdef int add(
        self, const byte_t* blob, Py_ssize_t start, Py_ssize_t before, Py_ssize_t behind, Py_ssize_t end
    ) noexcept nogil
    cdef int set_bit(self, const byte_t* six, bint both) noexcept nogil
