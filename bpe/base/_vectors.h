/* Vectors of 16 bytes by the extensions of GCC and Clang, which compile for every machine (SSE2, NEON or scalar code).
 *
 * The bytes of a comparison's result are 0 or 255.
 */
#ifndef BPE_VECTORS_H
#define BPE_VECTORS_H

#include <stdint.h>
#include <string.h>

#include "bpe/base/_levels.h"

typedef uint8_t bpe_vector __attribute__((vector_size(16)));
typedef int8_t bpe_signed_vector __attribute__((vector_size(16)));

static inline bpe_vector bpe_load(const uint8_t *from) {
    bpe_vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline bpe_vector bpe_between(bpe_vector v, uint8_t low, uint8_t high) {
    return (bpe_vector)((bpe_vector)(v - low) <= (uint8_t)(high - low));
}

/* Bit i is the highest bit of byte i. A multiplication gathers those of eight bytes. */
static inline uint64_t bpe_top_bits(bpe_vector v) {
#ifdef BPE_X86
    return (uint64_t)(uint32_t)_mm_movemask_epi8((__m128i)v);
#else
    uint64_t half[2];
    memcpy(half, &v, sizeof half);
    for (int i = 0; i < 2; i++) half[i] = (half[i] >> 7 & 0x0101010101010101u) * 0x0102040810204080u >> 56;
    return half[0] | half[1] << 8;
#endif
}

#endif
