/* Convert the characters of a str to UTF-8, 16 at a time with AVX-512, else 8 at a time.
 *
 * A str stores its code points in units of 1, 2 or 4 bytes (PEP 393). A surrogate pair is converted to the character it
 * encodes, and a lone surrogate to U+FFFD, as tiktoken does. Cost: linear. The level is chosen once
 * (_cpu.pyx).
 */
#ifndef BPE_TRANSCODE_H
#define BPE_TRANSCODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/base/_vectors.h"

typedef uint8_t *(*bpe_transcode_t)(const void *text, int width, size_t n, uint8_t *out);

static inline uint32_t bpe_unit(const void *text, int width, size_t at) {
    return width == 1 ? ((const uint8_t *)text)[at] : width == 2 ? ((const uint16_t *)text)[at]
                                                                 : ((const uint32_t *)text)[at];
}

/* Return the character at `*at` and advance `*at` past it. */
static inline uint32_t bpe_next_character(const void *text, int width, size_t n, size_t *at) {
    uint32_t code = bpe_unit(text, width, (*at)++), low;
    if (width == 1 || code - 0xD800 >= 0x800) return code;
    if (code < 0xDC00 && *at < n && (low = bpe_unit(text, width, *at)) - 0xDC00 < 0x400) {
        (*at)++;
        return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return 0xFFFD;
}

/* Write the UTF-8 of a character and return the position after it. */
static inline uint8_t *bpe_write_character(uint8_t *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (uint8_t)code;
        return out;
    }
    if (code < 0x800) {
        *out++ = (uint8_t)(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *out++ = (uint8_t)(0xE0 | code >> 12);
        } else {
            *out++ = (uint8_t)(0xF0 | code >> 18);
            *out++ = (uint8_t)(0x80 | (code >> 12 & 0x3F));
        }
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    }
    *out++ = (uint8_t)(0x80 | (code & 0x3F));
    return out;
}

/* Write the characters that begin before `until` and advance `*at` past them. */
static inline uint8_t *bpe_transcode_until(const void *text, int width, size_t n, size_t *at, size_t until,
                                          uint8_t *out) {
    while (*at < until) out = bpe_write_character(out, bpe_next_character(text, width, n, at));
    return out;
}

/* 8 units, as numbers of 32 bits. */
typedef struct {
    bpe_vector32 half[2];
} bpe_8_units;

BPE_INLINE static inline bpe_8_units bpe_load_8_units(const void *text, int width, size_t at) {
    const uint8_t *from = (const uint8_t *)text + at * (size_t)width;
    const bpe_vector zero = {0};
    bpe_vector units = zero;
    if (width == 4) return (bpe_8_units){{(bpe_vector32)bpe_load(from), (bpe_vector32)bpe_load(from + 16)}};
    memcpy(&units, from, width == 1 ? 8 : 16);
    if (width == 1) units = bpe_interleave_low(units, zero);
    return (bpe_8_units){{(bpe_vector32)bpe_widen_low(units), (bpe_vector32)bpe_widen_high(units)}};
}

/* The UTF-8 of 4 characters below U+10000 that are no surrogates, as a number each, first byte lowest, and its size. */
static inline void bpe_transcode_4(bpe_vector32 code, uint32_t *utf8, uint32_t *size) {
    bpe_vector32 two = code > 0x7F, three = code > 0x7FF;
    bpe_vector32 last = ((code & 0x3F) | 0x80) << 8, rest = code >> 6, bytes = rest | last | 0xC0;
    bpe_vector32 of_three = rest >> 6 | ((rest & 0x3F) | 0x80) << 8 | last << 8 | 0xE0, sizes = 1 - two - three;
    bytes = (bytes & ~three) | (of_three & three);
    bytes = (code & ~two) | (bytes & two);
    memcpy(utf8, &bytes, 16);
    memcpy(size, &sizes, 16);
}

/* Up to 3 bytes are written after the result. */
BPE_INLINE static inline uint8_t *bpe_transcode_units(const void *text, int width, size_t n, uint8_t *out) {
    uint32_t utf8[8], size[8];
    size_t at = 0;
    while (at + 8 <= n) {
        bpe_8_units units = bpe_load_8_units(text, width, at);
        BPE_PREFETCH_AHEAD((const char *)text + at * (size_t)width);
        bpe_vector32 low = units.half[0], high = units.half[1];
        if (!bpe_any_top_bit((bpe_vector)((low | high) > 0x7F))) {
            bpe_vector even = bpe_even_bytes((bpe_vector)low, (bpe_vector)high), bytes = bpe_even_bytes(even, even);
            memcpy(out, &bytes, 8);
            out += 8, at += 8;
            continue;
        }
        bpe_vector32 other = ((low & 0xF800) == 0xD800) | ((high & 0xF800) == 0xD800) | ((low | high) > 0xFFFF);
        if (width > 1 && bpe_any_top_bit((bpe_vector)other)) {
            out = bpe_transcode_until(text, width, n, &at, at + 8, out);
            continue;
        }
        bpe_transcode_4(low, utf8, size);
        bpe_transcode_4(high, utf8 + 4, size + 4);
        for (size_t k = 0; k < 8; k++) {
            memcpy(out, &utf8[k], 4);
            out += size[k];
        }
        at += 8;
    }
    return bpe_transcode_until(text, width, n, &at, n, out);
}

static uint8_t *bpe_transcode_plain(const void *text, int width, size_t n, uint8_t *out) {
    if (width == 1) return bpe_transcode_units(text, 1, n, out);
    if (width == 2) return bpe_transcode_units(text, 2, n, out);
    return bpe_transcode_units(text, 4, n, out);
}

#ifdef BPE_X86

/* The bytes in use of four lanes of 32 bits, by which characters have over one byte (bits 0 to 3) and over two (4 to 7). */
static uint8_t bpe_used_bytes[256][16];

static void bpe_fill_used_bytes(void) {
    memset(bpe_used_bytes, 0x80, sizeof bpe_used_bytes); /* a shuffle writes 0 for it */
    for (int index = 0; index < 256; index++) {
        for (int lane = 0, n = 0; lane < 4; lane++)
            for (int i = 0; i <= (index >> lane & 1) + (index >> (4 + lane) & 1); i++)
                bpe_used_bytes[index][n++] = (uint8_t)(4 * lane + i);
    }
}

/* Write the used bytes of four lanes and return the position after them. */
BPE_TARGET_AVX2 static inline uint8_t *bpe_write_lanes_avx2(uint8_t *out, __m128i bytes, unsigned index) {
    __m128i used = _mm_loadu_si128((const __m128i *)bpe_used_bytes[index]);
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(bytes, used));
    return out + 4 + __builtin_popcount(index);
}

/* Units of 2 bytes: encode each character in its own 32-bit lane, first byte lowest, then remove the unused bytes. */
BPE_TARGET_AVX2 static uint8_t *bpe_transcode_avx2(const void *text, int width, size_t n, uint8_t *out) {
    const __m256i six = _mm256_set1_epi32(0x3F), tail = _mm256_set1_epi32(0x80);
    size_t at = 0;
    if (width != 2) return bpe_transcode_plain(text, width, n, out);
    while (at + 8 <= n) {
        __m128i units = _mm_loadu_si128((const __m128i *)((const uint16_t *)text + at));
        BPE_PREFETCH_AHEAD((const uint16_t *)text + at);
        if (_mm_testz_si128(units, _mm_set1_epi16(~0x7F))) { /* ASCII */
            _mm_storel_epi64((__m128i *)out, _mm_packus_epi16(units, units));
            out += 8, at += 8;
            continue;
        }
        __m256i code = _mm256_cvtepu16_epi32(units);
        __m256i two = _mm256_cmpgt_epi32(code, _mm256_set1_epi32(0x7F));
        __m256i three = _mm256_cmpgt_epi32(code, _mm256_set1_epi32(0x7FF));
        __m256i upper = _mm256_and_si256(code, _mm256_set1_epi32(0xF800));
        if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(upper, _mm256_set1_epi32(0xD800)))) { /* a surrogate */
            out = bpe_transcode_until(text, 2, n, &at, at + 8, out);
            continue;
        }
        __m256i last = _mm256_or_si256(tail, _mm256_and_si256(code, six)), rest = _mm256_srli_epi32(code, 6);
        __m256i first = _mm256_or_si256(_mm256_set1_epi32(0xC0), rest);
        __m256i bytes = _mm256_blendv_epi8(code, _mm256_or_si256(first, _mm256_slli_epi32(last, 8)), two);
        __m256i second = _mm256_or_si256(tail, _mm256_and_si256(rest, six));
        first = _mm256_or_si256(_mm256_set1_epi32(0xE0), _mm256_srli_epi32(rest, 6));
        last = _mm256_or_si256(_mm256_slli_epi32(second, 8), _mm256_slli_epi32(last, 16));
        bytes = _mm256_blendv_epi8(bytes, _mm256_or_si256(first, last), three);
        unsigned above_one = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(two));
        unsigned above_two = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(three));
        out = bpe_write_lanes_avx2(out, _mm256_castsi256_si128(bytes), (above_one & 15) | (above_two & 15) << 4);
        out = bpe_write_lanes_avx2(out, _mm256_extracti128_si256(bytes, 1), above_one >> 4 | (above_two & 0xF0));
        at += 8;
    }
    return bpe_transcode_until(text, 2, n, &at, n, out);
}

/* Encode each character in its own 32-bit lane, first byte lowest, then remove the unused bytes with one compress. */
BPE_TARGET_AVX512 static uint8_t *bpe_transcode_avx512(const void *text, int width, size_t n, uint8_t *out) {
    const __m512i six = _mm512_set1_epi32(0x3F), tail = _mm512_set1_epi32(0x80);
    size_t at = 0;
    while (at < n) {
        const char *from = (const char *)text + at * (size_t)width;
        BPE_PREFETCH_AHEAD(from);
        size_t some = n - at < 16 ? n - at : 16;
        __mmask16 lanes = (__mmask16)(((uint32_t)1 << some) - 1);
        __m512i code = width == 1   ? _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, from))
                       : width == 2 ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from))
                                    : _mm512_maskz_loadu_epi32(lanes, from);
        __mmask16 two = _mm512_cmpge_epu32_mask(code, _mm512_set1_epi32(0x80));
        if (!two) {
            _mm_storeu_si128((__m128i *)out, _mm512_cvtepi32_epi8(code));
            out += some;
            at += some;
            continue;
        }
        __mmask16 three = _mm512_cmpge_epu32_mask(code, _mm512_set1_epi32(0x800));
        __mmask16 four = _mm512_cmpge_epu32_mask(code, _mm512_set1_epi32(0x10000));
        if (_mm512_cmpeq_epi32_mask(_mm512_and_si512(code, _mm512_set1_epi32(~0x7FF)), _mm512_set1_epi32(0xD800))) {
            out = bpe_transcode_until(text, width, n, &at, at + some, out);
            continue;
        }
        __m512i last = _mm512_or_si512(tail, _mm512_and_si512(code, six));
        __m512i rest = _mm512_srli_epi32(code, 6);          /* the bits of all bytes but the last */
        __m512i bytes = _mm512_mask_mov_epi32(
            code, two, _mm512_or_si512(_mm512_or_si512(_mm512_set1_epi32(0xC0), rest), _mm512_slli_epi32(last, 8)));
        __m512i third = _mm512_or_si512(tail, _mm512_and_si512(rest, six));
        rest = _mm512_srli_epi32(rest, 6);
        last = _mm512_or_si512(_mm512_slli_epi32(third, 8), _mm512_slli_epi32(last, 16));
        bytes = _mm512_mask_or_epi32(bytes, three, _mm512_or_si512(_mm512_set1_epi32(0xE0), rest), last);
        __m512i markers = _mm512_mask_set1_epi32(tail, two, 0x8080); /* bit 7 of each byte in use */
        markers = _mm512_mask_set1_epi32(markers, three, 0x808080);
        if (four) {
            __m512i second = _mm512_or_si512(tail, _mm512_and_si512(rest, six));
            last = _mm512_or_si512(_mm512_slli_epi32(second, 8), _mm512_slli_epi32(last, 8));
            rest = _mm512_or_si512(_mm512_set1_epi32(0xF0), _mm512_srli_epi32(rest, 6));
            bytes = _mm512_mask_or_epi32(bytes, four, rest, last);
            markers = _mm512_mask_set1_epi32(markers, four, (int)0x80808080);
        }
        __mmask64 kept = _mm512_movepi8_mask(_mm512_maskz_mov_epi32(lanes, markers));
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, bytes));
        out += __builtin_popcountll(kept);
        at += some;
    }
    return out;
}
#endif

static bpe_transcode_t bpe_transcode = bpe_transcode_plain;

/* Copy a text, and write 64 zeros after it. */
static void bpe_copy_padded_plain(const uint8_t *text, size_t n, uint8_t *out) {
    memcpy(out, text, n);
    memset(out + n, 0, 64);
}

#ifdef BPE_X86
/* In vectors of 64 bytes, as the scanner loads them: a load waits for the stores of its bytes unless one store has all. */
BPE_TARGET_AVX512 static void bpe_copy_padded_avx512(const uint8_t *text, size_t n, uint8_t *out) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64) _mm512_storeu_si512(out + i, _mm512_loadu_si512(text + i));
    _mm512_storeu_si512(out + n, _mm512_setzero_si512());
    _mm512_storeu_si512(out + i, _mm512_maskz_loadu_epi8(((uint64_t)1 << (n - i)) - 1, text + i));
}
#endif

static void (*bpe_copy_padded)(const uint8_t *text, size_t n, uint8_t *out) = bpe_copy_padded_plain;

/* Select the version for a vector level (base/_cpu.pxd). */
static void bpe_use_level_transcode(int level) {
#ifdef BPE_X86
    bpe_fill_used_bytes();
#endif
    bpe_transcode = BPE_BEST(level, bpe_transcode_plain, bpe_transcode_avx2, bpe_transcode_avx512);
    bpe_copy_padded = BPE_BEST(level, bpe_copy_padded_plain, bpe_copy_padded_plain, bpe_copy_padded_avx512);
}

#endif
