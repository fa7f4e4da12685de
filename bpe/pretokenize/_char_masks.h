/* Classify 64 bytes of text at a time into bit masks, one mask for each character class: bit i is set if byte i belongs
 * to the class (as in simdjson: Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019).
 *
 * The scanners work on the masks with plain 64-bit arithmetic (_boundaries.pxd); this file holds only the code that
 * needs vector instructions. The level is chosen once, when the module is loaded: AVX-512 or AVX2 on x86-64, else
 * vectors of 128 bits, which the compiler translates to SSE2, NEON or scalar code.
 */
#ifndef BPE_CHAR_MASKS_H
#define BPE_CHAR_MASKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/base/_vectors.h"

typedef struct {
    uint64_t letter;     /* A-Z a-z; the scanner adds letters of other scripts */
    uint64_t upper;      /* A-Z; the scanner adds capitals of other scripts */
    uint64_t number;     /* 0-9 */
    uint64_t space;      /* white space: 9-13 and 32; the scanner adds that of other scripts */
    uint64_t newline;    /* 10 and 13 */
    uint64_t blank;      /* 32 */
    uint64_t apostrophe; /* 39 */
    uint64_t slash;      /* 47; known for ASCII with AVX-512; else all bits are set, and the text must be read */
    uint64_t lead;       /* 0xC0-0xFF: lead bytes of longer characters; without any, the text is ASCII or invalid */
    uint64_t tail;       /* set by the scanner: bytes of a character after its first */
    uint64_t uncased;    /* set by the scanner: letters of scripts without capitals */
    uint64_t undecided;       /* set by the scanner: characters for which the character scanner must decide */
} bpe_masks;

typedef struct {
    uint64_t two;        /* a byte 0xC2-0xDF before a byte 0x80-0xBF: a character of two bytes */
    uint64_t three;      /* a byte 0xE0-0xEF before two bytes 0x80-0xBF: a character of three bytes, or invalid */
} bpe_wide;

typedef struct {         /* bits at the apostrophes of contractions, by their letters */
    uint64_t one;        /* s, t, d, m */
    uint64_t two;        /* ll, ve, re */
} bpe_endings;

static inline int bpe_ctz(uint64_t bits) { return __builtin_ctzll(bits); }
static inline int bpe_clz(uint64_t bits) { return __builtin_clzll(bits); }

#define LEVEL(name) static inline void bpe_simd128_##name
#define BLOCK(name, text) const bpe_64_bytes name = bpe_load_64(text)
#define MASK(test, block) BPE_MASK_64(test, block)
#define SET(c) ((bpe_vector){0} + (uint8_t)(c))
#define OR(a, b) ((a) | (b))
#define IN(v, low, span) bpe_between(v, low, (uint8_t)((low) + (span) - 1))
#define IS(v, c) ((bpe_vector)((v) == (uint8_t)(c)))
#define TAIL(v) bpe_tails(v)
#include "bpe/pretokenize/_char_masks_level.h"

#ifdef BPE_X86

/* A byte is in [low, low + span) if byte - low, as an unsigned number, is below span. AVX2 has no unsigned comparison:
 * x <= m is tested as min(x, m) == x. */
#define LEVEL(name) BPE_TARGET_AVX2 static inline void bpe_avx2_##name
#define BLOCK(name, text)                                                                                             \
    const __m256i name[2] = {                                                                                         \
        _mm256_loadu_si256((const __m256i *)(text)), _mm256_loadu_si256((const __m256i *)((text) + 32))}
#define BITS(mask) ((uint64_t)(uint32_t)_mm256_movemask_epi8(mask))
#define MASK(test, block) (BITS(test((block)[0])) | BITS(test((block)[1])) << 32)
#define SET(c) _mm256_set1_epi8((char)(c))
#define OR(a, b) _mm256_or_si256(a, b)
#define IN(v, low, span)                                                                                              \
    _mm256_cmpeq_epi8(_mm256_min_epu8(_mm256_sub_epi8(v, SET(low)), SET((span) - 1)), _mm256_sub_epi8(v, SET(low)))
#define IS(v, c) _mm256_cmpeq_epi8(v, SET(c))
#define TAIL(v) _mm256_cmpgt_epi8(SET(0xC0), v)
#include "bpe/pretokenize/_char_masks_level.h"
#undef BITS

/* With AVX-512 (VBMI) one permutation looks up 64 bytes in a table of 128 entries, with one bit for each class. */
static const uint8_t bpe_ascii_class[128] __attribute__((aligned(64))) = {
    ['A' ... 'Z'] = 1 | 2, ['a' ... 'z'] = 1, ['0' ... '9'] = 4, [9] = 8, [10] = 8 | 16, [11 ... 12] = 8,
    [13] = 8 | 16, [' '] = 8 | 32, ['\''] = 64, ['/'] = 128,
};

/* Hide from the compiler that a value is a mask: GCC would otherwise feed one comparison's result into the next as its
 * mask to save an `and`, which makes the comparisons wait for each other. */
BPE_TARGET_AVX512 static inline uint64_t bpe_bits(__mmask64 mask) {
    uint64_t bits = mask;
    __asm__("" : "+r"(bits));
    return bits;
}

#define BIT(v, n) bpe_bits(_mm512_movepi8_mask(_mm512_slli_epi16(v, 7 - (n))))
BPE_TARGET_AVX512 static inline void bpe_avx512_bits(__m512i class, bpe_masks *out) {
    out->letter = BIT(class, 0);
    out->upper = BIT(class, 1);
    out->number = BIT(class, 2);
    out->space = BIT(class, 3);
    out->newline = BIT(class, 4);
    out->blank = BIT(class, 5);
    out->apostrophe = BIT(class, 6);
}

BPE_TARGET_AVX512 static inline void bpe_avx512_ascii(const uint8_t *text, bpe_masks *out) {
    __m512i v = _mm512_loadu_si512((const void *)text), low = _mm512_load_si512((const void *)bpe_ascii_class);
    __m512i high = _mm512_load_si512((const void *)(bpe_ascii_class + 64));
    memset(out, 0, sizeof *out);
    bpe_avx512_bits(_mm512_maskz_permutex2var_epi8(~_mm512_movepi8_mask(v), low, v, high), out);
    out->lead = BIT(v, 7) & BIT(v, 6);
}

/* Classify before knowing whether all bytes are ASCII, so that the lookup does not wait for that test; 0 if not. */
BPE_TARGET_AVX512 static inline int bpe_avx512_all_ascii(const uint8_t *text, bpe_masks *out) {
    __m512i v = _mm512_loadu_si512((const void *)text), low = _mm512_load_si512((const void *)bpe_ascii_class);
    __m512i class = _mm512_permutex2var_epi8(low, v, _mm512_load_si512((const void *)(bpe_ascii_class + 64)));
    if (bpe_bits(_mm512_movepi8_mask(v))) return 0;
    bpe_avx512_bits(class, out);
    out->slash = BIT(class, 7);
    return 1;
}
#undef BIT
#endif

/* Classify 64 bytes. */
static void (*bpe_classify_ascii)(const uint8_t *text, bpe_masks *out) = bpe_simd128_ascii;

/* Classify 64 bytes with a level's instructions; the caller is compiled for that level and inlines this. Returns 0,
 * with `out` invalid, if a character of several bytes begins there. */
BPE_INLINE static inline int bpe_ascii_classes(int level, const uint8_t *text, bpe_masks *out) {
#ifdef BPE_X86
    if (level == 3) return bpe_avx512_all_ascii(text, out);
    if (level == 2) {
        bpe_avx2_ascii(text, out);
        out->slash = ~(uint64_t)0;
        return out->lead == 0;
    }
#endif
    (void)level;
    if (!bpe_all_ascii(text)) return 0;
    bpe_simd128_ascii(text, out);
    out->slash = ~(uint64_t)0;
    return 1;
}

/* Find which of some apostrophes begin a contraction; the two bytes after each are readable. */
static inline void bpe_contractions(const uint8_t *text, uint64_t apostrophes, int any_case, bpe_endings *out) {
    uint8_t fold = any_case ? 0x20 : 0;
    out->one = out->two = 0;
    for (; apostrophes; apostrophes &= apostrophes - 1) {
        int at = bpe_ctz(apostrophes);
        uint8_t first = text[at + 1] | fold, second = text[at + 2] | fold;
        int one = (first == 's') | (first == 't') | (first == 'd') | (first == 'm');
        int two = ((first == 'l') & (second == 'l')) | (((first == 'v') | (first == 'r')) & (second == 'e'));
        out->one |= (uint64_t)one << at;
        out->two |= (uint64_t)two << at;
    }
}

/* Write `base` plus the position of each set bit, in rising order, and return the number of set bits. `out` has room
 * for 64 positions; entries after the last one are overwritten with arbitrary values. */
#ifdef BPE_X86
static const uint8_t bpe_byte_indexes[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
    28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55,
    56, 57, 58, 59, 60, 61, 62, 63};

BPE_TARGET_AVX512 static inline ptrdiff_t bpe_avx512_positions(uint64_t bits, uint32_t base, uint32_t *out) {
    __m512i found = _mm512_maskz_compress_epi8((__mmask64)bits, _mm512_loadu_si512((const void *)bpe_byte_indexes));
    __m512i from = _mm512_set1_epi32((int)base);
    ptrdiff_t n = __builtin_popcountll(bits);
#define STORE(part)                                                                                                  \
    _mm512_storeu_si512((void *)(out + 16 * part),                                                                    \
                        _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(found, part)), from))
    STORE(0);
    _mm256_storeu_si256((__m256i *)(out + 16), _mm256_add_epi32(_mm256_cvtepu8_epi32(_mm512_extracti32x4_epi32(found, 1)),
                                                                _mm512_castsi512_si256(from)));
    if (n > 24) { /* rare: a predicted branch costs less than storing one more vector across two cache lines */
        STORE(1);
        STORE(2);
        STORE(3);
    }
#undef STORE
    return n;
}

#endif

/* Eight positions at a time, without a branch for each. */
BPE_INLINE static inline ptrdiff_t bpe_bit_positions(int level, uint64_t bits, uint32_t base, uint32_t *out) {
#ifdef BPE_X86
    if (level == 3) return bpe_avx512_positions(bits, base, out);
#endif
    ptrdiff_t n = bpe_popcount(level, bits);
    for (ptrdiff_t i = 0; i < n; i += 8) {
        for (int j = 0; j < 8; j++) {
            out[i + j] = base + (uint32_t)bpe_next_bit(level, bits);
            bits &= bits - 1;
        }
    }
    return n;
}

/* Use the versions of a vector level (base/_cpu.pxd). */
static void bpe_use_level_masks(int level) {
    bpe_classify_ascii = BPE_BEST(level, bpe_simd128_ascii, bpe_avx2_ascii, bpe_avx512_ascii);
}

#endif
