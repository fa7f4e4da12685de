"""CRC-32 as zlib's (`_crc32.h`), for kernels."""

from bpe.base._types cimport byte_t
from libc.stdint cimport uint32_t, uint64_t

cdef uint32_t add_crc32(
    uint32_t before,          # 0, or the CRC of what was before
    const byte_t* data,       # IN (n,)
    size_t n,
) noexcept nogil

# The CRC of two byte strings, one after the other, from theirs; `n` is the second's size.
cdef uint32_t combine_crcs(uint32_t first, uint32_t second, size_t n) noexcept nogil

# The CRC of a part of a byte string, moved back over the `end` bytes before the part's end.
cdef uint32_t move_crc_back(uint32_t crc, uint64_t end) noexcept nogil
