/* Classify 64 bytes of text into bit masks for the measures of a vocabulary: bit i belongs to byte i.
 *
 * The plain version takes 16 bytes at a time, that for AVX-512 a block. `_tally.pyx` decodes the other characters.
 */
#ifndef BPE_BLOCK_MASKS_H
#define BPE_BLOCK_MASKS_H

#include <stdint.h>
#include <string.h>

#include "bpe/base/_vectors.h"

typedef struct {
    uint64_t high;  /* bytes from 0x80 on */
    uint64_t tail;  /* 0x80-0xBF: in UTF-8, bytes of a character after its first */
    uint64_t space; /* ASCII white space: 9-13 and 32 */
    uint64_t digit; /* 0-9 */
    uint64_t likely_cjk;  /* 0xE3-0xE9: lead bytes of U+3000 to U+9FFF, most of them Chinese or Japanese */
    uint64_t undecided;   /* lead bytes of characters that must be decoded to know what they are */
    uint64_t ascii; /* 1 for a block of ASCII; then only `space` and `digit` are set */
} bpe_block_masks;

static inline uint64_t bpe_undecided_of_e3(uint64_t e3, uint64_t x80, uint64_t hangul) {
    /* U+3000, which is white space, and U+3100 to U+327F, some of which are Hangul. A lead byte among
     * the last two bytes of the block is undecided too, since its next bytes are in the next block. */
    hangul = hangul >> 1 | (uint64_t)1 << 63;
    return e3 & (hangul | ((x80 >> 1 | (uint64_t)1 << 63) & (x80 >> 2 | (uint64_t)3 << 62)));
}

static inline void bpe_classify_block(const uint8_t *text, bpe_block_masks *out) {
    bpe_64_bytes block = bpe_load_64(text);
#define IS(v, byte) ((bpe_vector)((v) == (byte)))
#define SPACE(v) (bpe_between(v, 9, 13) | IS(v, 32))
#define DIGIT(v) bpe_between(v, '0', '9')
    out->space = BPE_MASK_64(SPACE, block);
    out->digit = BPE_MASK_64(DIGIT, block);
    out->ascii = bpe_all_ascii(text);
    if (out->ascii) return;
#define LIKELY_CJK(v) bpe_between(v, 0xE3, 0xE9)
#define UNDECIDED(v) (IS(v, 0xC2) | bpe_between(v, 0xE0, 0xE2) | IS(v, 0xEF) | IS(v, 0xF0))
#define IS_E3(v) IS(v, 0xE3)
#define IS_80(v) IS(v, 0x80)
#define HANGUL(v) bpe_between(v, 0x84, 0x89)
    out->high = BPE_MASK_64(bpe_top_bits, block);
    out->tail = BPE_MASK_64(bpe_tails, block);
    out->likely_cjk = BPE_MASK_64(LIKELY_CJK, block);
    out->undecided = BPE_MASK_64(UNDECIDED, block);
    out->undecided |= bpe_undecided_of_e3(
        BPE_MASK_64(IS_E3, block), BPE_MASK_64(IS_80, block), BPE_MASK_64(HANGUL, block));
#undef IS
#undef SPACE
#undef DIGIT
#undef LIKELY_CJK
#undef UNDECIDED
#undef IS_E3
#undef IS_80
#undef HANGUL
}

static void bpe_classify_plain(const uint8_t *text, size_t n, bpe_block_masks *out) {
    for (size_t k = 0; k < n; k++) bpe_classify_block(text + 64 * k, out + k);
}

/* Bit i of bits[k] is the top bit of byte 64 k + i; the bytes become 0. */
static void bpe_take_bits_plain(uint8_t *bytes, uint64_t *bits, size_t n) {
    for (size_t k = 0; k < n; k++, bytes += 64) {
        bpe_64_bytes block = bpe_load_64(bytes);
        bits[k] = BPE_MASK_64(bpe_top_bits, block);
        memset(bytes, 0, 64);
    }
}

/* The number of bits that are set. */
static uint64_t bpe_count_bits_plain(const uint64_t *bits, size_t n) {
    uint64_t count = 0;
    for (size_t k = 0; k < n; k++) count += (uint64_t)bpe_popcount(0, bits[k]);
    return count;
}

static inline uint32_t bpe_find_greatest(const uint32_t *ids, size_t n) {
    uint32_t greatest = 0;
    for (size_t i = 0; i < n; i++) greatest = ids[i] > greatest ? ids[i] : greatest;
    return greatest;
}
static uint32_t bpe_greatest_plain(const uint32_t *ids, size_t n) { return bpe_find_greatest(ids, n); }

static void (*bpe_classify)(const uint8_t *, size_t, bpe_block_masks *) = bpe_classify_plain;
static void (*bpe_take_bits)(uint8_t *, uint64_t *, size_t) = bpe_take_bits_plain;
static uint64_t (*bpe_count_bits)(const uint64_t *, size_t) = bpe_count_bits_plain;
static uint32_t (*bpe_greatest)(const uint32_t *, size_t) = bpe_greatest_plain;

#ifdef BPE_X86
#define BPE_BYTES(byte) _mm512_set1_epi8((char)(byte))
#define BPE_IS(byte) _mm512_cmpeq_epi8_mask(v, BPE_BYTES(byte))
#define BPE_FROM_TO(low, high) _mm512_cmple_epu8_mask(_mm512_sub_epi8(v, BPE_BYTES(low)), BPE_BYTES((high) - (low)))

BPE_TARGET_AVX512 static void bpe_classify_avx512(const uint8_t *text, size_t n, bpe_block_masks *out) {
    for (size_t k = 0; k < n; k++, out++) {
        __m512i v = _mm512_loadu_si512((const void *)(text + 64 * k));
        out->space = BPE_FROM_TO(9, 13) | BPE_IS(32);
        out->digit = BPE_FROM_TO('0', '9');
        out->high = _mm512_movepi8_mask(v);
        out->ascii = out->high == 0;
        if (out->ascii) continue;
        out->tail = BPE_FROM_TO(0x80, 0xBF);
        out->likely_cjk = BPE_FROM_TO(0xE3, 0xE9);
        out->undecided = BPE_IS(0xC2) | BPE_FROM_TO(0xE0, 0xE2) | BPE_IS(0xEF) | BPE_IS(0xF0);
        out->undecided |= bpe_undecided_of_e3(BPE_IS(0xE3), BPE_IS(0x80), BPE_FROM_TO(0x84, 0x89));
    }
}

BPE_TARGET_AVX512 static void bpe_take_bits_avx512(uint8_t *bytes, uint64_t *bits, size_t n) {
    for (size_t k = 0; k < n; k++) {
        bits[k] = _mm512_movepi8_mask(_mm512_loadu_si512((const void *)(bytes + 64 * k)));
        _mm512_storeu_si512((void *)(bytes + 64 * k), _mm512_setzero_si512());
    }
}

BPE_TARGET_AVX2 static uint64_t bpe_count_bits_avx2(const uint64_t *bits, size_t n) {
    uint64_t count = 0;
    for (size_t k = 0; k < n; k++) count += (uint64_t)bpe_popcount(2, bits[k]);
    return count;
}

BPE_TARGET_AVX2 static uint32_t bpe_greatest_avx2(const uint32_t *ids, size_t n) { return bpe_find_greatest(ids, n); }
#endif

/* Select the versions for a vector level (base/_cpu.pxd). */
static void bpe_use_level_tally(int level) {
    bpe_classify = BPE_BEST(level, bpe_classify_plain, bpe_classify_plain, bpe_classify_avx512);
    bpe_take_bits = BPE_BEST(level, bpe_take_bits_plain, bpe_take_bits_plain, bpe_take_bits_avx512);
    bpe_count_bits = BPE_BEST(level, bpe_count_bits_plain, bpe_count_bits_avx2, bpe_count_bits_avx2);
    bpe_greatest = BPE_BEST(level, bpe_greatest_plain, bpe_greatest_avx2, bpe_greatest_avx2);
}

static inline uint64_t bpe_add_bits(uint64_t a, uint64_t b, uint64_t *carry) {
    uint64_t sum, with;
    uint64_t over = __builtin_add_overflow(a, b, &sum);
    over |= __builtin_add_overflow(sum, *carry, &with);
    *carry = over;
    return with;
}
#endif
