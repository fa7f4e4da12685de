/* Classify 64 bytes of text into bit masks for the measures of a vocabulary: bit i belongs to byte i.
 *
 * Vectors of 16 bytes by the extensions of GCC and Clang, which compile for every machine; with SSE2, which every
 * x86-64 has, one instruction gathers a mask. Not here: characters that need to be decoded (`_tally.pyx`).
 */
#ifndef BPE_BLOCK_MASKS_H
#define BPE_BLOCK_MASKS_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef struct {
    uint64_t high;  /* bytes from 0x80 on */
    uint64_t tail;  /* 0x80-0xBF: in UTF-8, bytes of a character after its first */
    uint64_t space; /* ASCII white space: 9-13 and 32 */
    uint64_t digit; /* 0-9 */
    uint64_t ideo;  /* 0xE3-0xE9: lead bytes of U+3000 to U+9FFF, most of which are Chinese or Japanese */
    uint64_t odd;   /* lead bytes of characters that must be decoded: they may be white space or Chinese, …, or not */
} bpe_block_masks;

typedef uint8_t bpe_bytes __attribute__((vector_size(16)));

static inline bpe_bytes bpe_between(bpe_bytes v, uint8_t low, uint8_t high) {
    return (bpe_bytes)((bpe_bytes)(v - low) <= (bpe_bytes)((bpe_bytes){0} + (uint8_t)(high - low)));
}

static inline uint64_t bpe_top_bits(bpe_bytes mask) {
#if defined(__SSE2__)
    return (uint64_t)(uint32_t)_mm_movemask_epi8((__m128i)mask);
#else
    uint64_t half[2];
    memcpy(half, &mask, sizeof half);
    for (int i = 0; i < 2; i++) half[i] = (half[i] & 0x8040201008040201u) * 0x0101010101010101u >> 56;
    return half[0] | half[1] << 8;
#endif
}

/* Returns whether the block is ASCII; then only `space` and `digit` are set. */
static inline int bpe_classify_block(const uint8_t *text, bpe_block_masks *out) {
    bpe_bytes v[4], high = {0};
    uint64_t space = 0, digit = 0;
    for (int i = 0; i < 4; i++) {
        memcpy(&v[i], text + 16 * i, 16);
        high |= v[i];
        space |= bpe_top_bits(bpe_between(v[i], 9, 13) | (bpe_bytes)(v[i] == 32)) << (16 * i);
        digit |= bpe_top_bits(bpe_between(v[i], '0', '9')) << (16 * i);
    }
    out->space = space, out->digit = digit;
    if (!bpe_top_bits((bpe_bytes)(high >= 0x80))) return 1;
    uint64_t x80 = 0, hangul = 0, e3 = 0;
    out->high = out->tail = out->ideo = out->odd = 0;
    for (int i = 0; i < 4; i++) {
        bpe_bytes ideo = bpe_between(v[i], 0xE3, 0xE9);
        bpe_bytes odd = (bpe_bytes)(v[i] == 0xC2) | bpe_between(v[i], 0xE0, 0xE2) | (bpe_bytes)(v[i] == 0xEF) |
                        (bpe_bytes)(v[i] == 0xF0);
        out->high |= bpe_top_bits((bpe_bytes)(v[i] >= 0x80)) << (16 * i);
        out->tail |= bpe_top_bits(bpe_between(v[i], 0x80, 0xBF)) << (16 * i);
        out->ideo |= bpe_top_bits(ideo) << (16 * i);
        out->odd |= bpe_top_bits(odd) << (16 * i);
        e3 |= bpe_top_bits((bpe_bytes)(v[i] == 0xE3)) << (16 * i);
        x80 |= bpe_top_bits((bpe_bytes)(v[i] == 0x80)) << (16 * i);
        hangul |= bpe_top_bits(bpe_between(v[i], 0x84, 0x89)) << (16 * i);
    }
    /* U+3000, which is white space, and U+3100 to U+327F, some of which are Hangul. What the last bytes begin may be. */
    hangul = hangul >> 1 | (uint64_t)1 << 63;
    out->odd |= e3 & (hangul | ((x80 >> 1 | (uint64_t)1 << 63) & (x80 >> 2 | (uint64_t)3 << 62)));
    return 0;
}

/* The number of bits that are set; without the instruction, which the default target of x86-64 lacks. */
static inline int bpe_count_bits(uint64_t bits) {
#if defined(__POPCNT__)
    return __builtin_popcountll(bits);
#else
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    return (int)(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
#endif
}

static inline int bpe_first_bit(uint64_t bits) { return __builtin_ctzll(bits); }

static inline uint64_t bpe_add_bits(uint64_t a, uint64_t b, uint64_t *carry) {
    uint64_t sum, with;
    uint64_t over = __builtin_add_overflow(a, b, &sum);
    over |= __builtin_add_overflow(sum, *carry, &with);
    *carry = over;
    return with;
}
#endif
