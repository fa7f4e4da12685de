/* Validate UTF-8: find the start of the first invalid sequence, 64 bytes at a time.
 *
 * With AVX2 the method is that of Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte", 2020. Each
 * kind of error is a bit. Three tables, indexed by the two halves of a byte and the upper half of the next one, list the
 * errors that are possible; a pair of bytes is invalid if a bit is set in all three. Without tables in registers, which
 * SSE2 lacks, the same bytes are compared with their limits. Blocks of ASCII are skipped.
 * Cost: linear.
 */
#ifndef BPE_UTF8_H
#define BPE_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/base/_vectors.h"

/* Count the characters of valid UTF-8. OUT max_char: a code point of the width in which a str stores them: 0x7F, 0xFF,
 * 0xFFFF or 0x10FFFF, as PyUnicode_New takes it. Of any bytes, 0x7F says that all are ASCII. */
static size_t bpe_count_characters(const uint8_t *text, size_t n, uint32_t *max_char) {
    size_t at = 0, end, n_chars = 0;
    uint8_t max_byte = 0;
    while (at < n) { /* counts of so few bytes fit in a byte, so that the loop is compiled to vectors of 16 bytes */
        uint8_t some = 0;
        for (end = n - at < 240 ? n : at + 240; at < end; at++) {
            some += (text[at] & 0xC0) != 0x80;
            max_byte = text[at] > max_byte ? text[at] : max_byte;
        }
        n_chars += some;
    }
    *max_char = max_byte < 0x80 ? 0x7F : max_byte < 0xC4 ? 0xFF : max_byte < 0xF0 ? 0xFFFF : 0x10FFFF;
    return n_chars;
}

static inline void bpe_write_unit(void *out, int width, size_t i, uint32_t code) {
    if (width == 1) ((uint8_t *)out)[i] = (uint8_t)code;
    else if (width == 2) ((uint16_t *)out)[i] = (uint16_t)code;
    else ((uint32_t *)out)[i] = code;
}

/* Write the code points of valid UTF-8 as units of 1, 2 or 4 bytes, which must be wide enough; ASCII 8 at a time. */
static inline void bpe_decode_utf8_as(const uint8_t *text, size_t n, int width, void *out) {
    size_t at = 0, i = 0;
    while (at < n) {
        uint32_t code = text[at];
        if (code < 0x80) {
            uint64_t next;
            while (n - at >= 8 && (memcpy(&next, text + at, 8), (next & 0x8080808080808080u) == 0)) {
                for (int k = 0; k < 8; k++) bpe_write_unit(out, width, i++, text[at++]);
            }
            while (at < n && text[at] < 0x80) bpe_write_unit(out, width, i++, text[at++]);
            continue;
        }
        if (code < 0xE0) {
            code = (code & 0x1F) << 6 | (text[at + 1] & 0x3F);
            at += 2;
        } else if (code < 0xF0) {
            code = (code & 0x0F) << 12 | (uint32_t)(text[at + 1] & 0x3F) << 6 | (text[at + 2] & 0x3F);
            at += 3;
        } else {
            code = (code & 0x07) << 18 | (uint32_t)(text[at + 1] & 0x3F) << 12 | (uint32_t)(text[at + 2] & 0x3F) << 6 |
                   (text[at + 3] & 0x3F);
            at += 4;
        }
        bpe_write_unit(out, width, i++, code);
    }
}

static void bpe_decode_utf8(const uint8_t *text, size_t n, int width, void *out) {
    if (width == 1) bpe_decode_utf8_as(text, n, 1, out);
    else if (width == 2) bpe_decode_utf8_as(text, n, 2, out);
    else bpe_decode_utf8_as(text, n, 4, out);
}

/* Return the start of the first sequence that is not UTF-8, or n: one character at a time. */
static size_t bpe_find_bad_character(const uint8_t *text, size_t n) {
    size_t at = 0, size, i;
    uint64_t word;
    while (at < n) {
        uint8_t lead = text[at], min_second = 0x80, max_second = 0xBF; /* limits of the second byte */
        if (lead < 0x80) {
            at++;
            while (at + 8 <= n) {
                memcpy(&word, text + at, 8);
                if (word & 0x8080808080808080u) break;
                at += 8;
            }
            continue;
        }
        if (lead < 0xC2 || lead > 0xF4) return at;
        size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (lead == 0xE0) min_second = 0xA0; /* no overlong form, surrogate or code point after U+10FFFF */
        if (lead == 0xED) max_second = 0x9F;
        if (lead == 0xF0) min_second = 0x90;
        if (lead == 0xF4) max_second = 0x8F;
        if (at + size > n || text[at + 1] < min_second || text[at + 1] > max_second) return at;
        for (i = 2; i < size; i++) {
            if ((text[at + i] & 0xC0) != 0x80) return at;
        }
        at += size;
    }
    return n;
}

#define BPE_UTF8_BLOCK 64

/* The bytes that are invalid after the three before them. */
static inline bpe_vector bpe_bad_bytes(const uint8_t *text) {
    bpe_vector here = bpe_load(text), first = bpe_load(text - 1), second = bpe_load(text - 2), third = bpe_load(text - 3);
#define IS(v, byte) ((bpe_vector)((v) == (byte)))
#define FROM(v, byte) ((bpe_vector)((v) >= (byte)))
    bpe_vector below_90 = ~FROM(here, 0x90), below_A0 = ~FROM(here, 0xA0);
    bpe_vector bad = bpe_tails(here) ^ (FROM(first, 0xC0) | FROM(second, 0xE0) | FROM(third, 0xF0));
    bad |= FROM(here, 0xF5) | IS(here & 0xFE, 0xC0);
    bad |= (IS(first, 0xE0) & below_A0) | (IS(first, 0xED) & ~below_A0); /* overlong forms, and surrogates */
    bad |= (IS(first, 0xF0) & below_90) | (IS(first, 0xF4) & ~below_90); /* overlong forms, and after U+10FFFF */
#undef IS
#undef FROM
    return bad;
}

#ifdef BPE_X86

enum {
    TOO_SHORT = 1,    /* a lead byte or ASCII where a continuation byte is due */
    TOO_LONG = 2,     /* a continuation byte after ASCII */
    OVERLONG_3 = 4,   /* E0 80 to E0 9F */
    TOO_LARGE = 8,    /* after U+10FFFF: F4 90 and more */
    SURROGATE = 16,   /* ED A0 to ED BF */
    OVERLONG_2 = 32,  /* C0, C1 */
    OVERLONG_4 = 64,  /* F0 80 to F0 8F; also F5 and more before 80 to 8F */
    TWO_MORE = 128,   /* two continuation bytes: valid only after the lead byte of a longer character */
    ANY_LOW = TOO_SHORT | TOO_LONG | TWO_MORE
};

static const uint8_t bpe_utf8_first_high[16] = {
    TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
    TWO_MORE, TWO_MORE, TWO_MORE, TWO_MORE,
    TOO_SHORT | OVERLONG_2, TOO_SHORT, TOO_SHORT | OVERLONG_3 | SURROGATE, TOO_SHORT | TOO_LARGE | OVERLONG_4,
};
static const uint8_t bpe_utf8_first_low[16] = {
    ANY_LOW | OVERLONG_2 | OVERLONG_3 | OVERLONG_4, ANY_LOW | OVERLONG_2, ANY_LOW, ANY_LOW, ANY_LOW | TOO_LARGE,
    ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4,
    ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4,
    ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4 | SURROGATE,
    ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4,
};
static const uint8_t bpe_utf8_second_high[16] = {
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
    TOO_LONG | TWO_MORE | OVERLONG_2 | OVERLONG_3 | OVERLONG_4,
    TOO_LONG | TWO_MORE | OVERLONG_2 | OVERLONG_3 | TOO_LARGE,
    TOO_LONG | TWO_MORE | OVERLONG_2 | SURROGATE | TOO_LARGE, TOO_LONG | TWO_MORE | OVERLONG_2 | SURROGATE | TOO_LARGE,
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
};

BPE_TARGET_AVX2 static inline __m256i bpe_utf8_halves(const uint8_t table[16], __m256i halves) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), halves);
}

/* Return the errors at each byte; 0 if none. Reads three bytes before `text`. */
BPE_TARGET_AVX2 static inline __m256i bpe_bad_bytes_avx2(const uint8_t *text) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i here = _mm256_loadu_si256((const __m256i *)text), first = _mm256_loadu_si256((const __m256i *)(text - 1));
    __m256i second = _mm256_loadu_si256((const __m256i *)(text - 2));
    __m256i third = _mm256_loadu_si256((const __m256i *)(text - 3));
    __m256i more = _mm256_or_si256(_mm256_subs_epu8(second, _mm256_set1_epi8(0xE0 - 0x80)),
                                   _mm256_subs_epu8(third, _mm256_set1_epi8(0xF0 - 0x80)));
    __m256i wrong = _mm256_and_si256(
        _mm256_and_si256(bpe_utf8_halves(bpe_utf8_first_high, _mm256_and_si256(_mm256_srli_epi16(first, 4), low)),
                         bpe_utf8_halves(bpe_utf8_first_low, _mm256_and_si256(first, low))),
        bpe_utf8_halves(bpe_utf8_second_high, _mm256_and_si256(_mm256_srli_epi16(here, 4), low)));
    return _mm256_xor_si256(wrong, _mm256_and_si256(more, _mm256_set1_epi8((char)TWO_MORE)));
}

BPE_TARGET_AVX2 static inline __m256i bpe_either(const uint8_t *text) {
    return _mm256_or_si256(_mm256_loadu_si256((const __m256i *)text), _mm256_loadu_si256((const __m256i *)(text + 32)));
}

BPE_TARGET_AVX2 static inline int bpe_bad_block_avx2(const uint8_t *text) {
    __m256i bad = _mm256_or_si256(bpe_bad_bytes_avx2(text), bpe_bad_bytes_avx2(text + 32));
    return !_mm256_testz_si256(bad, bad);
}

BPE_TARGET_AVX2 static inline int bpe_is_ascii_avx2(const uint8_t *text) {
    return !_mm256_movemask_epi8(bpe_either(text));
}

BPE_TARGET_AVX2 static inline int bpe_four_are_ascii_avx2(const uint8_t *text) {
    __m256i first = _mm256_or_si256(bpe_either(text), bpe_either(text + 64));
    __m256i second = _mm256_or_si256(bpe_either(text + 128), bpe_either(text + 192));
    return !_mm256_movemask_epi8(_mm256_or_si256(first, second));
}
#endif

BPE_INLINE static inline int bpe_is_ascii_block(int level, const uint8_t *text) {
#ifdef BPE_X86
    if (level >= 2) return bpe_is_ascii_avx2(text);
#endif
    (void)level;
    return bpe_all_ascii(text);
}

/* Whether a block of 64 bytes is invalid. The bytes before it are valid, but their last character may be incomplete. */
BPE_INLINE static inline int bpe_bad_block(int level, const uint8_t *text) {
    if (bpe_is_ascii_block(level, text) && text[-1] < 0xC0 && text[-2] < 0xE0 && text[-3] < 0xF0) return 0;
#ifdef BPE_X86
    if (level >= 2) return bpe_bad_block_avx2(text);
#endif
    return bpe_any_top_bit(
        bpe_bad_bytes(text) | bpe_bad_bytes(text + 16) | bpe_bad_bytes(text + 32) | bpe_bad_bytes(text + 48));
}

BPE_INLINE static inline int bpe_four_blocks_are_ascii(int level, const uint8_t *text) {
    bpe_vector any = {0};
#ifdef BPE_X86
    if (level >= 2) return bpe_four_are_ascii_avx2(text);
#endif
    (void)level;
    for (int i = 0; i < 256; i += 16) any |= bpe_load(text + i);
    return !bpe_any_top_bit(any);
}

/* Return the start of the first sequence that is not UTF-8, or n. */
BPE_INLINE static inline size_t bpe_find_bad_utf8(int level, const uint8_t *text, size_t n) {
    uint8_t edge[BPE_UTF8_BLOCK + 3]; /* the first or last block, padded with zeros */
    size_t at = 0, some, before;
    for (; at <= n; at += BPE_UTF8_BLOCK) { /* the empty block at n finds a character that the text cuts off */
        if (at >= 3 && at + BPE_UTF8_BLOCK <= n) {
            if (bpe_bad_block(level, text + at)) break;
            while (text[at + BPE_UTF8_BLOCK - 1] < 0x80 && at + 5 * BPE_UTF8_BLOCK <= n &&
                   bpe_four_blocks_are_ascii(level, text + at + BPE_UTF8_BLOCK))
                at += 4 * BPE_UTF8_BLOCK;
        } else {
            some = n - at < BPE_UTF8_BLOCK ? n - at : BPE_UTF8_BLOCK;
            before = at < 3 ? at : 3;
            memset(edge, 0, sizeof(edge));
            if (some + before) memcpy(edge + 3 - before, text + at - before, some + before);
            if (bpe_bad_block(level, edge + 3)) break;
        }
    }
    if (at > n) return n;
    for (some = 0; some < 3 && at > 0; some++) { /* the invalid sequence may begin before the block */
        at--;
        if (text[at] >= 0xC0) break;
    }
    while (at > 0 && (text[at] & 0xC0) == 0x80) at--;
    return at + bpe_find_bad_character(text + at, n - at);
}

static size_t bpe_bad_utf8_plain(const uint8_t *text, size_t n) { return bpe_find_bad_utf8(0, text, n); }
#ifdef BPE_X86
BPE_TARGET_AVX2 static size_t bpe_bad_utf8_avx2(const uint8_t *text, size_t n) { return bpe_find_bad_utf8(2, text, n); }
#endif

static size_t (*bpe_bad_utf8)(const uint8_t *text, size_t n) = bpe_bad_utf8_plain;

/* Select the version for a vector level (base/_cpu.pxd). */
static void bpe_use_level_utf8(int level) {
    bpe_bad_utf8 = BPE_BEST(level, bpe_bad_utf8_plain, bpe_bad_utf8_avx2, bpe_bad_utf8_avx2);
}

#endif
