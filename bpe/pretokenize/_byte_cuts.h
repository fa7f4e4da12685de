/* Cutting text between two bytes that no merge joins, 64 positions at a time.
 *
 * The bytes that may stand before a cut are in eight groups. Each byte that may stand after one has a set of groups, as
 * bits: the text may be cut between `a` and `b` if group[a] & after[b]. What is decided depends on two bytes alone, so
 * no state passes from one block to the next. base/_cpu.pyx chooses the version.
 */
#ifndef BPE_BYTE_CUTS_H
#define BPE_BYTE_CUTS_H

#include "bpe/pretokenize/_char_masks.h"

typedef struct {
    uint8_t group[256]; /* one bit of eight */
    uint8_t after[256]; /* groups */
} bpe_byte_cuts;

static inline int bpe_is_cut(const bpe_byte_cuts *cuts, uint8_t before, uint8_t next) {
    return (cuts->group[before] & cuts->after[next]) != 0;
}

#ifdef BPE_X86
BPE_TARGET_AVX512 static inline __m512i bpe_look_up_bytes(const uint8_t *table, __m512i bytes) {
    __m512i low = _mm512_permutex2var_epi8(
        _mm512_loadu_si512((const void *)table), bytes, _mm512_loadu_si512((const void *)(table + 64)));
    __m512i high = _mm512_permutex2var_epi8(
        _mm512_loadu_si512((const void *)(table + 128)), bytes, _mm512_loadu_si512((const void *)(table + 192)));
    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high);
}

BPE_TARGET_AVX512 static inline uint64_t bpe_cut_mask_avx512(const bpe_byte_cuts *cuts, const uint8_t *text) {
    __m512i groups = bpe_look_up_bytes(cuts->group, _mm512_loadu_si512((const void *)(text - 1)));
    __m512i after = bpe_look_up_bytes(cuts->after, _mm512_loadu_si512((const void *)text));
    return _mm512_test_epi8_mask(groups, after);
}
#endif

/* Bit i: the text may be cut before text[i]; 64 bytes, and the one before them, are read. */
BPE_INLINE static inline uint64_t bpe_cut_mask(const bpe_byte_cuts *cuts, int level, const uint8_t *text) {
    uint64_t mask = 0;
#ifdef BPE_X86
    if (level == 3) return bpe_cut_mask_avx512(cuts, text);
#endif
    (void)level;
    for (int i = 0; i < 64; i++) mask |= (uint64_t)bpe_is_cut(cuts, text[i - 1], text[i]) << i;
    return mask;
}

/* The first position from `pos` on where the text may be cut after text[position]; the last position if there is none. */
BPE_INLINE static inline ptrdiff_t bpe_next_cut_at(
    const bpe_byte_cuts *cuts, int level, const uint8_t *text, ptrdiff_t pos, ptrdiff_t end) {
    for (; end - pos > 64; pos += 64) {
        if (bpe_is_cut(cuts, text[pos], text[pos + 1])) return pos;
        uint64_t mask = bpe_cut_mask(cuts, level, text + pos + 1);
        if (mask) return pos + bpe_ctz(mask);
    }
    while (pos + 1 < end && !bpe_is_cut(cuts, text[pos], text[pos + 1])) pos++;
    return pos;
}

/* The cuts in text[pos .. end), relative to `pos`, which is the first; the number found, at most `limit` >= 64.
 *
 * `done` tells whether all of the text was read; else more cuts may follow the last one. Up to 64 more elements of `out`
 * are written. */
BPE_INLINE static inline ptrdiff_t bpe_list_cuts(
    const bpe_byte_cuts *cuts, int level, const uint8_t *text, ptrdiff_t pos, ptrdiff_t end, ptrdiff_t span,
    uint32_t *out, ptrdiff_t limit, int *done) {
    int left_out = 0;
    ptrdiff_t n = 0, first = pos, stop = end - pos > span ? pos + span : end;
    uint8_t padded[1 + 64];
    while (pos < stop && (n + 64 <= limit || n < 2)) {
        const uint8_t *block = text + pos;
        uint64_t mask, all = ~(uint64_t)0;
        if (pos == first || end - pos < 64) { /* nothing before the first position or after the last is read */
            ptrdiff_t size = end - pos < 64 ? end - pos : 64;
            memset(padded, 0, sizeof padded);
            if (pos != first) padded[0] = text[pos - 1];
            memcpy(padded + 1, block, (size_t)size);
            block = padded + 1;
            if (size < 64) all = ((uint64_t)1 << size) - 1;
        }
        mask = bpe_cut_mask(cuts, level, block);
        mask = pos == first ? (mask & all) | 1 : mask & all;
        if (n + 64 > limit) { /* n is 1: one more cut, so that the first piece has an end */
            left_out = (mask & (mask - 1)) != 0;
            mask &= 0 - mask;
        }
        n += bpe_bit_positions(level, mask, (uint32_t)(pos - first), out + n);
        pos = pos + 64 < end ? pos + 64 : end;
    }
    *done = pos == end && !left_out;
    return n;
}

/* Both functions for a vector level. */
#define BPE_CUTS_AT(target, level)                                                                                     \
    target static ptrdiff_t bpe_list_cuts_##level(                                                                     \
        const bpe_byte_cuts *cuts, const uint8_t *text, ptrdiff_t pos, ptrdiff_t end, ptrdiff_t span, uint32_t *out,   \
        ptrdiff_t limit, int *done) {                                                                                  \
        return bpe_list_cuts(cuts, level, text, pos, end, span, out, limit, done);                                     \
    }                                                                                                                  \
    target static ptrdiff_t bpe_next_cut_##level(                                                                      \
        const bpe_byte_cuts *cuts, const uint8_t *text, ptrdiff_t pos, ptrdiff_t end) {                                \
        return bpe_next_cut_at(cuts, level, text, pos, end);                                                           \
    }

BPE_CUTS_AT(, 0)
static ptrdiff_t (*bpe_cuts_in)(
    const bpe_byte_cuts *, const uint8_t *, ptrdiff_t, ptrdiff_t, ptrdiff_t, uint32_t *, ptrdiff_t, int *) = bpe_list_cuts_0;
static ptrdiff_t (*bpe_next_cut)(const bpe_byte_cuts *, const uint8_t *, ptrdiff_t, ptrdiff_t) = bpe_next_cut_0;
#ifdef BPE_X86
BPE_CUTS_AT(BPE_TARGET_AVX2, 2)
BPE_CUTS_AT(BPE_TARGET_AVX512, 3)
#endif

/* Use the versions of a vector level (base/_cpu.pxd). */
static void bpe_use_level_cuts(int level) {
    bpe_cuts_in = BPE_BEST(level, bpe_list_cuts_0, bpe_list_cuts_2, bpe_list_cuts_3);
    bpe_next_cut = BPE_BEST(level, bpe_next_cut_0, bpe_next_cut_2, bpe_next_cut_3);
}

#endif
