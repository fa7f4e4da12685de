/* Vectors of 16 bytes by the extensions of GCC and Clang, which compile for every machine; what the extensions lack, by
 * SSE2 and NEON, which every x86-64 and every aarch64 has.
 *
 * The bytes of a comparison's result are 0 or 255.
 */
#ifndef BPE_VECTORS_H
#define BPE_VECTORS_H

#include <stdint.h>
#include <string.h>

#include "bpe/base/_levels.h"

#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#define BPE_NEON 1
#endif

typedef uint8_t bpe_vector __attribute__((vector_size(16)));
typedef int8_t bpe_signed_vector __attribute__((vector_size(16)));
typedef int16_t bpe_vector16 __attribute__((vector_size(16)));
typedef int32_t bpe_vector32 __attribute__((vector_size(16)));
typedef uint64_t bpe_vector64 __attribute__((vector_size(16)));

#ifdef __clang__
#define BPE_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define BPE_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (bpe_vector){__VA_ARGS__})
#endif

/* Prefetch what a loop through a text reads some time later: the processor foresees no more than the rest of a page. */
#define BPE_READ_AHEAD 2048
#define BPE_PREFETCH_AHEAD(text) __builtin_prefetch((const char *)(text) + BPE_READ_AHEAD)

static inline bpe_vector bpe_load(const uint8_t *from) {
    bpe_vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline bpe_vector bpe_between(bpe_vector v, uint8_t low, uint8_t high) {
    return (bpe_vector)((bpe_vector)(v - low) <= (uint8_t)(high - low));
}

/* From a multiple of 16 bytes. */
static inline bpe_vector64 bpe_load_two(const uint64_t *from) {
    bpe_vector64 v;
    memcpy(&v, __builtin_assume_aligned(from, 16), sizeof v);
    return v;
}

static inline bpe_vector64 bpe_equal_64(bpe_vector64 a, bpe_vector64 b) {
#ifdef BPE_X86 /* SSE2 compares numbers of up to 32 bits; GCC would compare those of 64 one by one */
    __m128i same = _mm_cmpeq_epi32((__m128i)a, (__m128i)b);
    return (bpe_vector64)_mm_and_si128(same, _mm_shuffle_epi32(same, 0xB1));
#else
    return (bpe_vector64)(a == b);
#endif
}

/* a0 b0 a1 b1 ... of the lower or of the upper halves. */
static inline bpe_vector bpe_interleave_low(bpe_vector a, bpe_vector b) {
    return BPE_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
static inline bpe_vector bpe_interleave_high(bpe_vector a, bpe_vector b) {
    return BPE_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* The lower or the upper four numbers of 16 bits, as numbers of 32. */
static inline bpe_vector bpe_widen_low(bpe_vector v) {
    const bpe_vector zero = {0};
    return BPE_SHUFFLE(v, zero, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
}
static inline bpe_vector bpe_widen_high(bpe_vector v) {
    const bpe_vector zero = {0};
    return BPE_SHUFFLE(v, zero, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
}

/* a0 a2 a4 ... b0 b2 b4 ... */
static inline bpe_vector bpe_even_bytes(bpe_vector a, bpe_vector b) {
    return BPE_SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

/* The results of comparing numbers of 16 bits, as results of a byte each. */
static inline bpe_vector bpe_narrow(bpe_vector16 a, bpe_vector16 b) {
#ifdef BPE_X86
    return (bpe_vector)_mm_packs_epi16((__m128i)a, (__m128i)b);
#else
    return bpe_even_bytes((bpe_vector)a, (bpe_vector)b);
#endif
}

/* The bytes 0x80 to 0xBF, which continue a character of UTF-8. */
static inline bpe_vector bpe_tails(bpe_vector v) { return (bpe_vector)((bpe_signed_vector)v < (int8_t)0xC0); }

/* The bytes from 0x80 on. */
static inline bpe_vector bpe_top_bits(bpe_vector v) { return (bpe_vector)((bpe_signed_vector)v < 0); }

/* Whether a byte has its highest bit set. */
static inline int bpe_any_top_bit(bpe_vector v) {
#if defined(BPE_X86)
    return _mm_movemask_epi8((__m128i)v) != 0;
#elif defined(BPE_NEON)
    return vmaxvq_u8((uint8x16_t)v) >= 0x80;
#else
    uint64_t half[2];
    memcpy(half, &v, sizeof half);
    return ((half[0] | half[1]) & 0x8080808080808080u) != 0;
#endif
}

/* The results of comparing 64 bytes as a mask: bit i is set if byte i is 255. With NEON each byte keeps the bit of its
 * position among eight, and neighbours are added three times; elsewhere a multiplication gathers the bits of eight bytes. */
static inline uint64_t bpe_mask_of_64(bpe_vector a, bpe_vector b, bpe_vector c, bpe_vector d) {
#if defined(BPE_X86)
#define BPE_BITS(v) ((uint64_t)(uint32_t)_mm_movemask_epi8((__m128i)(v)))
    return BPE_BITS(a) | BPE_BITS(b) << 16 | (BPE_BITS(c) | BPE_BITS(d) << 16) << 32;
#undef BPE_BITS
#elif defined(BPE_NEON)
    const bpe_vector bits = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
#define BPE_ADD_PAIRS(v, w) ((bpe_vector)vpaddq_u8((uint8x16_t)(v), (uint8x16_t)(w)))
    bpe_vector sums = BPE_ADD_PAIRS(BPE_ADD_PAIRS(a & bits, b & bits), BPE_ADD_PAIRS(c & bits, d & bits));
    return vgetq_lane_u64((uint64x2_t)BPE_ADD_PAIRS(sums, sums), 0);
#undef BPE_ADD_PAIRS
#else
    uint64_t eight[8], mask = 0;
    memcpy(eight, &a, 16), memcpy(eight + 2, &b, 16), memcpy(eight + 4, &c, 16), memcpy(eight + 6, &d, 16);
    for (int i = 0; i < 8; i++) mask |= ((eight[i] & 0x0101010101010101u) * 0x0102040810204080u >> 56) << 8 * i;
    return mask;
#endif
}

typedef struct {
    bpe_vector part[4];
} bpe_64_bytes;

static inline bpe_64_bytes bpe_load_64(const uint8_t *from) {
    return (bpe_64_bytes){{bpe_load(from), bpe_load(from + 16), bpe_load(from + 32), bpe_load(from + 48)}};
}

static inline int bpe_all_ascii(const uint8_t *text) {
    bpe_64_bytes block = bpe_load_64(text);
    return !bpe_any_top_bit((block.part[0] | block.part[1]) | (block.part[2] | block.part[3]));
}

/* The bytes of a block that pass a test, a function or macro of a vector, as a mask. */
#define BPE_MASK_64(test, block)                                                                                       \
    bpe_mask_of_64(test((block).part[0]), test((block).part[1]), test((block).part[2]), test((block).part[3]))

#endif
