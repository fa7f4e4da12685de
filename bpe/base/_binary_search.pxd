"""Looking a number up among rising ones."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t

ctypedef fused rising_t:
    uint8_t
    uint16_t
    uint32_t


cdef inline size_t lower_bound(const rising_t* numbers, size_t n, rising_t min_value) noexcept nogil:
    """Find the first of n rising numbers that is not below `min_value`: its index; n if all are below."""
    cdef size_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < min_value:
            low = middle + 1
        else:
            high = middle
    return low
