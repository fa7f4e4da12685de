"""Growing C arrays, and the keys and hashes of short byte strings: what every kernel with a table needs."""

cimport cython

from bpe.base._types cimport byte_t
from libc.stdint cimport uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "bpe's tables pack bytes little-endian; this machine is big-endian"
    #endif
    #if !defined(__GNUC__) && !defined(__clang__)
    #error "bpe needs GCC or Clang (on Windows clang-cl)"
    #endif
    /* The asm: else a function that only prefetches is one without effect, and calls of it are dropped. */
    #define bpe_prefetch(address) ({ __builtin_prefetch(address); __asm__ volatile(""); })
    #define bpe_add_overflows(a, b, sum) __builtin_add_overflow(a, b, sum)
    #define bpe_mul_overflows(a, b, product) __builtin_mul_overflow(a, b, product)
    """
    void prefetch "bpe_prefetch"(const void* address) nogil
    bint add_overflows "bpe_add_overflows"(long long a, long long b, long long* total) nogil
    bint mul_overflows "bpe_mul_overflows"(long long a, long long b, long long* product) nogil

cdef extern from "bpe/base/_mix.h" nogil:
    uint64_t[3] secrets "bpe_secrets"
    uint64_t hash_one "bpe_hash_one"(uint64_t a)
    uint64_t hash_two "bpe_hash_two"(uint64_t a, uint64_t b)

cdef enum:
    INLINE_BYTES = 15         # a key of at most this many bytes fits a Key


cdef struct Key:
    uint64_t lo               # bytes 0 to 7, little-endian, padded with zeros
    uint64_t hi               # bytes 8 to 14, and the length in the top byte: never 0 for a key


cdef extern from *:
    """
    static const uint64_t bpe_low_bytes[24] = {   /* at 8 + n, and from 8 on: a mask of the n lowest bytes */
        0, 0, 0, 0, 0, 0, 0, 0, 0,
        0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFF, 0xFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF,
        ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull
    };
    """
    const uint64_t* low_bytes "bpe_low_bytes"


cdef inline Key load_key(const byte_t* text, Py_ssize_t start, Py_ssize_t size, Py_ssize_t end) noexcept nogil:
    """Load the key of `text[start:start + size]`, 1 <= size <= 15; nothing at or past `text[end]` is read."""
    cdef Key key
    cdef uint64_t words[2]
    if start + 16 <= end:
        return load_near_key(text + start, size)
    words[0] = words[1] = 0
    memcpy(words, text + start, size)
    key.lo = words[0]
    key.hi = words[1] | <uint64_t>size << 56
    return key


cdef inline Key load_near_key(const byte_t* word, Py_ssize_t size) noexcept nogil:
    """Load the key of a word, 1 <= size <= 15, in memory that has 16 bytes from its start on; no branch."""
    cdef Key key
    memcpy(&key, word, 16)
    key.lo &= low_bytes[size + 8]
    key.hi &= low_bytes[size]
    key.hi |= <uint64_t>size << 56
    return key


cdef inline uint64_t hash_key(Key key) noexcept nogil:
    return hash_two(key.lo, key.hi)


cdef inline uint64_t hash_bytes(const byte_t* data, Py_ssize_t size) noexcept nogil:
    """Hash any bytes to 64 bits."""
    cdef uint64_t word, state = hash_two(<uint64_t>size, 0)
    while size >= 8:
        memcpy(&word, data, 8)
        state = hash_one(state ^ word)
        data += 8
        size -= 8
    if size > 0:
        word = 0
        memcpy(&word, data, size)
        state = hash_one(state ^ word)
    return state


cdef inline void* check_allocated(void* data, size_t n, const char* what) except NULL nogil:
    """Return `data`, which an allocator returned for n items; raises MemoryError if it is NULL."""
    if data == NULL:
        with gil:
            raise MemoryError(f"no memory for {n} {what.decode()}; give the process more, or less text")
    return data


cdef extern from *:
    """
    #define bpe_lock_of(lock) ((void *)*(lock))
    """
    void* lock_of "bpe_lock_of"(cython.pythread_type_lock* lock) nogil


cdef inline int check_lock(cython.pythread_type_lock* lock) except -1:
    """Raise MemoryError for an object's lock that could not be allocated: Cython does not."""
    check_allocated(lock_of(lock), 1, b"lock")
    return 0


cdef inline void* grow_array(void* data, size_t* capacity, size_t needed, size_t item) except NULL nogil:
    """Return `data` with room for `needed` items: itself, or moved to a block at least half as large again.

    Raises MemoryError, and leaves `data` as it was, where there is no memory.
    """
    cdef size_t larger
    cdef void* moved
    if needed <= capacity[0] and data != NULL:
        return data
    larger = capacity[0] + capacity[0] // 2 + 16
    if larger < needed:
        larger = needed
    moved = check_allocated(realloc(data, larger * item), larger * item, b"bytes of a list")
    capacity[0] = larger
    return moved
