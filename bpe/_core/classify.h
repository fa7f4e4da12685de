/* The classes of ASCII bytes, 64 at a time, as bit masks: bit i is set where byte i is of the class.
 *
 * What the scanners do with the masks is plain 64-bit arithmetic in scan.pyx; this file holds only what needs vector
 * instructions. The level is chosen once, when the module is loaded: AVX-512, AVX2 or SSE2 on x86-64, NEON on AArch64 by the
 * portable loop below, which compilers turn into vector code where they can, and which every other machine runs as it is.
 */
#ifndef BPE_CLASSIFY_H
#define BPE_CLASSIFY_H

#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t letter;     /* A-Z a-z; the scanner adds letters of other scripts */
    uint64_t upper;      /* A-Z */
    uint64_t number;     /* 0-9 */
    uint64_t space;      /* white space: 9-13 and 32; the scanner adds that of other scripts */
    uint64_t newline;    /* 10 and 13 */
    uint64_t blank;      /* 32 */
    uint64_t apostrophe; /* 39 */
    uint64_t lead;       /* 0xC0-0xFF: a character of several bytes may begin here */
    uint64_t tail;       /* left 0; the scanner's: bytes of a character after its first */
    uint64_t hard;       /* left 0; the scanner's: characters that the masks cannot tell enough of */
} bpe_masks;

typedef void (*bpe_classify_t)(const uint8_t *text, bpe_masks *out);

static void bpe_classify_plain(const uint8_t *text, bpe_masks *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 64; i++) {
        uint8_t byte = text[i];
        uint64_t bit = (uint64_t)1 << i;
        if ((uint8_t)((byte | 0x20) - 'a') < 26) out->letter |= bit;
        if ((uint8_t)(byte - 'A') < 26) out->upper |= bit;
        if ((uint8_t)(byte - '0') < 10) out->number |= bit;
        if (byte == ' ' || (uint8_t)(byte - 9) < 5) out->space |= bit;
        if (byte == 10 || byte == 13) out->newline |= bit;
        if (byte == ' ') out->blank |= bit;
        if (byte == '\'') out->apostrophe |= bit;
        if (byte >= 0xC0) out->lead |= bit;
    }
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define BPE_X86 1
#include <immintrin.h>

/* A byte is in [low, low + span) where byte - low, as an unsigned number, is below span; min(x, m) == x says x <= m. */
#define BPE_LOOP(STEP, BITS)                                                                                          \
    memset(out, 0, sizeof *out);                                                                                      \
    for (int at = 0; at < 64; at += STEP) {                                                                           \
        BITS                                                                                                          \
    }

static void bpe_classify_sse2(const uint8_t *text, bpe_masks *out) {
#define SET(c) _mm_set1_epi8((char)(c))
#define IN(v, low, span) _mm_cmpeq_epi8(_mm_min_epu8(_mm_sub_epi8(v, SET(low)), SET((span) - 1)), _mm_sub_epi8(v, SET(low)))
#define IS(v, c) _mm_cmpeq_epi8(v, SET(c))
#define BITS(field, mask) out->field |= (uint64_t)(uint32_t)_mm_movemask_epi8(mask) << at
    BPE_LOOP(16, {
        __m128i v = _mm_loadu_si128((const __m128i *)(text + at));
        __m128i blank = IS(v, ' ');
        BITS(letter, IN(_mm_or_si128(v, SET(0x20)), 'a', 26));
        BITS(upper, IN(v, 'A', 26));
        BITS(number, IN(v, '0', 10));
        BITS(space, _mm_or_si128(blank, IN(v, 9, 5)));
        BITS(newline, _mm_or_si128(IS(v, 10), IS(v, 13)));
        BITS(blank, blank);
        BITS(apostrophe, IS(v, '\''));
        BITS(lead, IN(v, 0xC0, 64));
    })
#undef SET
#undef IN
#undef IS
#undef BITS
}

__attribute__((target("avx2"))) static void bpe_classify_avx2(const uint8_t *text, bpe_masks *out) {
#define SET(c) _mm256_set1_epi8((char)(c))
#define IN(v, low, span)                                                                                              \
    _mm256_cmpeq_epi8(_mm256_min_epu8(_mm256_sub_epi8(v, SET(low)), SET((span) - 1)), _mm256_sub_epi8(v, SET(low)))
#define IS(v, c) _mm256_cmpeq_epi8(v, SET(c))
#define BITS(field, mask) out->field |= (uint64_t)(uint32_t)_mm256_movemask_epi8(mask) << at
    BPE_LOOP(32, {
        __m256i v = _mm256_loadu_si256((const __m256i *)(text + at));
        __m256i blank = IS(v, ' ');
        BITS(letter, IN(_mm256_or_si256(v, SET(0x20)), 'a', 26));
        BITS(upper, IN(v, 'A', 26));
        BITS(number, IN(v, '0', 10));
        BITS(space, _mm256_or_si256(blank, IN(v, 9, 5)));
        BITS(newline, _mm256_or_si256(IS(v, 10), IS(v, 13)));
        BITS(blank, blank);
        BITS(apostrophe, IS(v, '\''));
        BITS(lead, IN(v, 0xC0, 64));
    })
#undef SET
#undef IN
#undef IS
#undef BITS
}

__attribute__((target("avx512bw"))) static void bpe_classify_avx512(const uint8_t *text, bpe_masks *out) {
#define SET(c) _mm512_set1_epi8((char)(c))
#define IN(v, low, span) _mm512_cmplt_epu8_mask(_mm512_sub_epi8(v, SET(low)), SET(span))
#define IS(v, c) _mm512_cmpeq_epi8_mask(v, SET(c))
    __m512i v = _mm512_loadu_si512((const void *)text);
    out->letter = IN(_mm512_or_si512(v, SET(0x20)), 'a', 26);
    out->upper = IN(v, 'A', 26);
    out->number = IN(v, '0', 10);
    out->blank = IS(v, ' ');
    out->space = out->blank | IN(v, 9, 5);
    out->newline = IS(v, 10) | IS(v, 13);
    out->apostrophe = IS(v, '\'');
    out->lead = IN(v, 0xC0, 64);
    out->tail = out->hard = 0;
#undef SET
#undef IN
#undef IS
}
#endif

static bpe_classify_t bpe_classify = bpe_classify_plain;

/* Choose the best level that this machine has, at most `most` (0 plain, 1 SSE2, 2 AVX2, 3 AVX-512); the level chosen. */
static int bpe_choose_classify(int most) {
    bpe_classify = bpe_classify_plain;
#ifdef BPE_X86
    __builtin_cpu_init();
    if (most >= 3 && __builtin_cpu_supports("avx512bw")) { bpe_classify = bpe_classify_avx512; return 3; }
    if (most >= 2 && __builtin_cpu_supports("avx2")) { bpe_classify = bpe_classify_avx2; return 2; }
    if (most >= 1) { bpe_classify = bpe_classify_sse2; return 1; }
#else
    (void)most;
#endif
    return 0;
}

static inline int bpe_ctz(uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctzll(bits);
#else
    int n = 0;
    while (!(bits & 1)) { bits >>= 1; n++; }
    return n;
#endif
}

static inline int bpe_clz(uint64_t bits) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_clzll(bits);
#else
    int n = 0;
    while (!(bits >> 63)) { bits <<= 1; n++; }
    return n;
#endif
}

#endif
