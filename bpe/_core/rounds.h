/* Merging a stretch of bytes in rounds, each of which merges many pairs at once, by AVX-512; what comes out is what
 * merging one pair after the other makes. What rounds leave is merged by `settling.h`.
 *
 * Ranks must be in order (`Origins.ordered`): what a token merges to then has a greater rank than its own merge. So a
 * pair that can be merged is merged in the end, if nothing of a smaller rank can ever take one of its two tokens from
 * it; and it may be merged at once, since what its token merges to comes later anyway. For the pair c d in
 *
 *     . . . a b | c d | e f . . .
 *
 * c can be taken by b, at the rank of b c; or by a token A that ends with b and is yet to be made, at the least rank
 * that any (A, c) has, and at a greater rank than that at which b was taken by what stands before it. With cross[i] for
 * a rank below which nothing takes the token behind border i from the left,
 *
 *     cross[i] = min(rank[i], max(least rank of any (A, c), 1 + cross[i - 1]))
 *
 * which goes back as many borders as one likes, as nothing at all is merged below the least rank of all. The same holds
 * from the right for d. Of pairs of equal rank, which only runs of one token have (a a a), the left one comes first. A
 * sure pair is sure in any part of the text as well: with a border less, nothing is merged at a smaller rank.
 *
 * The least ranks of (A, c) and (d, E) are known by the two bytes at the border while c (or d) is a byte, and by c (or
 * d) alone when it is more. Pairs around new tokens are looked up together, without a branch for each. Of the merges
 * that random letters have a first round makes 6 or 7 of 10, and a second one half of the others; further ones find too
 * little for what they take.
 */
#ifndef BPE_ROUNDS_H
#define BPE_ROUNDS_H

#include "merging.h"

/* A bound is a rank rounded down to 16 bits: 5 of exponent, 11 of mantissa. */
#define BPE_NO_BOUND 0x9FFFu /* stands for BPE_NO_RANK */

static inline uint16_t bpe_bound_of(uint32_t rank) {
    uint32_t exponent = 0;
    if (rank >= BPE_NO_RANK) return BPE_NO_BOUND;
    while (rank >> exponent >= 1u << 11) exponent++;
    return (uint16_t)(exponent << 11 | rank >> exponent);
}

enum { BPE_STRETCH = 320 }; /* bytes that are merged together: a multiple of 16 */

#if defined(__x86_64__) && defined(__GNUC__)

enum {
    BPE_DEPTH = 2,           /* borders that crossings are followed back; four find a little more, and take longer */
    BPE_FIRST = 16,          /* the index of a stretch's first token: there is a border before it that is written to */
    BPE_STRETCH_ROOM = BPE_FIRST + BPE_STRETCH + 32, /* arrays are read and written 16 at a time */
};

/* A stretch on its way to tokens. What is known of a border stands at the token before it; behind the last token there
 * is none. */
typedef struct {
    uint32_t token[BPE_STRETCH_ROOM];
    uint32_t rank[BPE_STRETCH_ROOM]; /* of what a token makes with the next one; from BPE_NO_RANK on, of nothing */
    uint32_t made[BPE_STRETCH_ROOM]; /* that token */
    bpe_bounds bounds[BPE_STRETCH_ROOM];
    uint32_t place[BPE_STRETCH_ROOM]; /* of its first byte; behind the last token BPE_STRETCH */
    int n;                            /* tokens */
} bpe_stretch;

/* Some borders of a stretch: 16 bits each, those from [16 * i] on in element i. */
typedef uint16_t bpe_borders[BPE_STRETCH_ROOM / 16];

/* Pairs to look up, and fresh tokens. */
typedef struct {
    uint32_t left[BPE_STRETCH_ROOM];
    uint32_t right[BPE_STRETCH_ROOM];
    uint32_t border[BPE_STRETCH_ROOM]; /* an index into the arrays of the stretch */
    uint64_t pair[BPE_STRETCH_ROOM];   /* those that the filter lets through */
    uint64_t slot[BPE_STRETCH_ROOM];
    uint64_t merge[BPE_STRETCH_ROOM];  /* those that are in the table */
    uint32_t merged[BPE_STRETCH_ROOM]; /* their borders */
    uint32_t fresh[BPE_STRETCH_ROOM];
    uint32_t at[BPE_STRETCH_ROOM];     /* an index */
    int n, n_fresh;
} bpe_sought;

BPE_INLINE_AVX512 __m512i bpe_load_16(const void *at) { return _mm512_loadu_si512(at); }

BPE_INLINE_AVX512 void bpe_store_16(void *at, __m512i v) { _mm512_storeu_si512(at, v); }

/* Write the lanes of a mask side by side; how many. What is behind them is written to as well. */
BPE_INLINE_AVX512 int bpe_store_some(void *at, __mmask16 some, __m512i v) {
    bpe_store_16(at, _mm512_maskz_compress_epi32(some, v));
    return bpe_popcount(some);
}

/* The indices from `at` on. */
BPE_INLINE_AVX512 __m512i bpe_count_from(int at) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi32(lanes, _mm512_set1_epi32(at));
}

/* The lanes of the vector from `at` on that are before `end`. */
BPE_INLINE_AVX512 __mmask16 bpe_lanes_before(int at, int end) {
    return end - at < 16 ? (__mmask16)((1u << (end - at)) - 1) : (__mmask16)0xFFFF;
}

/* Bytes ------------------------------------------------------------------------------------------------------------ */

BPE_INLINE_AVX512 __m128i bpe_load_pair(const bpe_byte_pair *pairs, const uint8_t *bytes) {
    uint16_t two;
    memcpy(&two, bytes, 2);
    return _mm_loadu_si128((const __m128i *)&pairs[two]);
}

/* What is known of the pairs of bytes at 0, 4, 8 and 12. */
BPE_INLINE_AVX512 __m512i bpe_load_four(const bpe_byte_pair *pairs, const uint8_t *bytes) {
    __m512i four = _mm512_castsi128_si512(bpe_load_pair(pairs, bytes));
    four = _mm512_inserti32x4(four, bpe_load_pair(pairs, bytes + 4), 1);
    four = _mm512_inserti32x4(four, bpe_load_pair(pairs, bytes + 8), 2);
    return _mm512_inserti32x4(four, bpe_load_pair(pairs, bytes + 12), 3);
}

/* There is no border behind the last token. */
BPE_INLINE_AVX512 void bpe_end_stretch(bpe_stretch *stretch) {
    int end = BPE_FIRST + stretch->n;
    bpe_store_16(stretch->rank + end - 1, _mm512_set1_epi32(BPE_NO_RANK));
    bpe_store_16(stretch->bounds + end - 1, _mm512_set1_epi16((short)BPE_NO_BOUND));
    stretch->place[end] = BPE_STRETCH;
}

BPE_INLINE_AVX512 void bpe_begin_stretch(bpe_stretch *stretch, const bpe_pairs *pairs, const uint8_t *text) {
    uint8_t bytes[BPE_STRETCH + 1] = {0};
    memcpy(bytes, text, BPE_STRETCH); /* what pair the last one begins does not matter */
    for (int i = 0, at = BPE_FIRST; i < BPE_STRETCH; i += 16, at += 16) {
        __m512i a = bpe_load_four(pairs->of_bytes, bytes + i), b = bpe_load_four(pairs->of_bytes, bytes + i + 1);
        __m512i c = bpe_load_four(pairs->of_bytes, bytes + i + 2), d = bpe_load_four(pairs->of_bytes, bytes + i + 3);
        __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
        bpe_store_16(stretch->rank + at, _mm512_unpacklo_epi64(ab, cd));
        bpe_store_16(stretch->made + at, _mm512_unpackhi_epi64(ab, cd));
        ab = _mm512_unpackhi_epi32(a, b);
        cd = _mm512_unpackhi_epi32(c, d);
        bpe_store_16(stretch->bounds + at, _mm512_unpacklo_epi64(ab, cd));
        bpe_store_16(stretch->token + at, _mm512_unpackhi_epi64(ab, cd));
        bpe_store_16(stretch->place + at, bpe_count_from(i));
    }
    stretch->n = BPE_STRETCH;
    bpe_end_stretch(stretch);
}

/* A round ---------------------------------------------------------------------------------------------------------- */

/* The ranks that bounds stand for. */
BPE_INLINE_AVX512 __m512i bpe_rank_of(__m512i bound) {
    __m512i mantissa = _mm512_and_si512(bound, _mm512_set1_epi32(0x7FF));
    return _mm512_sllv_epi32(mantissa, _mm512_srli_epi32(bound, 11));
}

/* One more than the least rank of all borders. */
BPE_INLINE_AVX512 __m512i bpe_least_crossing(const bpe_stretch *stretch) {
    __m512i least = _mm512_set1_epi32(BPE_NO_RANK);
    for (int at = BPE_FIRST, end = BPE_FIRST + stretch->n; at < end; at += 16)
        least = _mm512_min_epi32(least, bpe_load_16(stretch->rank + at));
    return _mm512_set1_epi32(_mm512_reduce_min_epi32(least) + 1);
}

/* The borders whose pair no merge from the left comes before. */
BPE_INLINE_AVX512 void bpe_sure_from_left(const bpe_stretch *stretch, __m512i least, bpe_borders sure) {
    const __m512i none = _mm512_set1_epi32(BPE_NO_RANK), one = _mm512_set1_epi32(1);
    __m512i last[BPE_DEPTH + 1]; /* crossings of the vector before, by step */
    for (int step = 0; step <= BPE_DEPTH; step++) last[step] = none;
    for (int at = BPE_FIRST, end = BPE_FIRST + stretch->n; at < end; at += 16) {
        __m512i rank = bpe_load_16(stretch->rank + at), bounds = bpe_load_16(stretch->bounds + at), before;
        __m512i bound = _mm512_max_epi32(bpe_rank_of(_mm512_and_si512(bounds, _mm512_set1_epi32(0xFFFF))), least);
        __m512i cross = _mm512_min_epi32(rank, bound);
        for (int step = 0; step < BPE_DEPTH; step++) {
            before = _mm512_alignr_epi32(cross, last[step], 15);
            last[step] = cross;
            cross = _mm512_min_epi32(rank, _mm512_max_epi32(bound, _mm512_add_epi32(before, one)));
        }
        before = _mm512_alignr_epi32(cross, last[BPE_DEPTH], 15);
        last[BPE_DEPTH] = cross;
        sure[at / 16] = _mm512_cmplt_epi32_mask(rank, _mm512_min_epi32(before, none));
    }
}

/* Of some borders, those whose pair no merge from the right comes before. */
BPE_INLINE_AVX512 void bpe_sure_from_right(const bpe_stretch *stretch, __m512i least, bpe_borders sure) {
    const __m512i one = _mm512_set1_epi32(1);
    __m512i last[BPE_DEPTH + 1];
    for (int step = 0; step <= BPE_DEPTH; step++) last[step] = _mm512_set1_epi32(BPE_NO_RANK);
    for (int at = BPE_FIRST + (stretch->n - 1) / 16 * 16; at >= BPE_FIRST; at -= 16) {
        __m512i rank = bpe_load_16(stretch->rank + at), bounds = bpe_load_16(stretch->bounds + at), behind;
        __m512i bound = _mm512_max_epi32(bpe_rank_of(_mm512_srli_epi32(bounds, 16)), least);
        __m512i cross = _mm512_min_epi32(rank, bound);
        for (int step = 0; step < BPE_DEPTH; step++) {
            behind = _mm512_alignr_epi32(last[step], cross, 1);
            last[step] = cross;
            cross = _mm512_min_epi32(rank, _mm512_max_epi32(bound, _mm512_add_epi32(behind, one)));
        }
        behind = _mm512_alignr_epi32(last[BPE_DEPTH], cross, 1);
        last[BPE_DEPTH] = cross;
        sure[at / 16] &= _mm512_cmple_epi32_mask(rank, behind);
    }
}

/* Merge pairs; the borders around what they make get the rank `sought`, at least BPE_NO_RANK. */
BPE_INLINE_AVX512 void bpe_merge_sure(bpe_stretch *stretch, const bpe_borders sure, uint32_t sought, bpe_sought *out) {
    int to = BPE_FIRST, n_fresh = 0;
    for (int at = BPE_FIRST, end = BPE_FIRST + stretch->n; at < end; at += 16) {
        uint32_t here = sure[at / 16], around = here | (uint32_t)(sure[at / 16 + 1] & 1) << 16;
        __mmask16 merged = (__mmask16)here, kept = (__mmask16)~(here << 1 | sure[at / 16 - 1] >> 15), fresh;
        __m512i made = bpe_load_16(stretch->made + at), rank = bpe_load_16(stretch->rank + at);
        __m512i token = _mm512_mask_mov_epi32(bpe_load_16(stretch->token + at), merged, made);
        __m512i bounds = _mm512_mask_loadu_epi32(
            bpe_load_16(stretch->bounds + at), merged, stretch->bounds + at + 1);
        __m512i place = bpe_load_16(stretch->place + at);
        kept &= bpe_lanes_before(at, end);
        rank = _mm512_mask_mov_epi32(rank, (__mmask16)(around | around >> 1), _mm512_set1_epi32((int)sought));
        fresh = (__mmask16)_pext_u32(here, kept);
        bpe_store_some(out->at + n_fresh, fresh, bpe_count_from(to));
        n_fresh += bpe_store_some(out->fresh + n_fresh, merged, made);
        bpe_store_some(stretch->rank + to, kept, rank);
        bpe_store_some(stretch->made + to, kept, made);
        bpe_store_some(stretch->bounds + to, kept, bounds);
        bpe_store_some(stretch->place + to, kept, place);
        to += bpe_store_some(stretch->token + to, kept, token);
    }
    out->n_fresh = n_fresh;
    stretch->n = to - BPE_FIRST;
    bpe_end_stretch(stretch);
}

/* Look-ups --------------------------------------------------------------------------------------------------------- */

/* List the pairs at borders of the rank `sought`. */
BPE_INLINE_AVX512 void bpe_list_pairs(const bpe_stretch *stretch, uint32_t sought, bpe_sought *out) {
    int n = 0;
    for (int at = BPE_FIRST, end = BPE_FIRST + stretch->n; at < end; at += 16) {
        __m512i rank = bpe_load_16(stretch->rank + at);
        __mmask16 some = _mm512_cmpeq_epi32_mask(rank, _mm512_set1_epi32((int)sought));
        bpe_store_some(out->left + n, some, bpe_load_16(stretch->token + at));
        bpe_store_some(out->right + n, some, bpe_load_16(stretch->token + at + 1));
        n += bpe_store_some(out->border + n, some, bpe_count_from(at));
    }
    out->n = n;
}

/* Keep the pairs that the filter lets through. */
BPE_INLINE_AVX512 void bpe_filter_pairs(const bpe_pairs *pairs, bpe_sought *sought) {
    const __m512i one = _mm512_set1_epi64(1);
    int n = 0;
    for (int i = 0; i < sought->n; i += 8) {
        __mmask8 used = (__mmask8)bpe_lanes_before(i, sought->n), known;
        __m512i left = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(sought->left + i)));
        __m512i right = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(sought->right + i)));
        __m256i border = _mm256_loadu_si256((const __m256i *)(sought->border + i));
        __m512i pair = _mm512_or_si512(_mm512_slli_epi64(left, 32), right); /* from here on as `bpe_find_pair` */
        __m512i hash = _mm512_mullo_epi64(pair, _mm512_set1_epi64((long long)BPE_PAIR_FACTOR)), at, bits, missing;
        hash = _mm512_xor_si512(hash, _mm512_srli_epi64(hash, 32));
        at = _mm512_and_si512(_mm512_srli_epi64(hash, 38), _mm512_set1_epi64((long long)pairs->known_mask));
        bits = _mm512_sllv_epi64(one, _mm512_and_si512(_mm512_srli_epi64(hash, 32), _mm512_set1_epi64(63)));
        bits = _mm512_or_si512(bits, _mm512_sllv_epi64(one, _mm512_srli_epi64(hash, 58)));
        missing = _mm512_andnot_si512(_mm512_mask_i64gather_epi64(hash, used, at, pairs->known, 8), bits);
        known = _mm512_mask_testn_epi64_mask(used, missing, missing);
        hash = _mm512_and_si512(hash, _mm512_set1_epi64((long long)pairs->mask));
        _mm512_storeu_si512((void *)(sought->pair + n), _mm512_maskz_compress_epi64(known, pair));
        _mm512_storeu_si512((void *)(sought->slot + n), _mm512_maskz_compress_epi64(known, hash));
        _mm256_storeu_si256((__m256i *)(sought->border + n), _mm256_maskz_compress_epi32(known, border));
        n += bpe_popcount(known);
    }
    for (int i = 0; i < n; i++) __builtin_prefetch(&pairs->slots[sought->slot[i]]);
    sought->n = n;
}

/* Set the bounds at the borders of the fresh tokens. */
static inline void bpe_set_bounds(const bpe_pairs *pairs, const bpe_sought *sought, bpe_stretch *stretch) {
    for (int i = 0, end = sought->n_fresh; i < end; i++) {
        bpe_bounds known = pairs->bounds[sought->fresh[i]];
        stretch->bounds[sought->at[i] - 1].left = known.left;
        stretch->bounds[sought->at[i]].right = known.right;
    }
}

/* Find the pairs in the table, and set what they make. One by one, but without a branch for each: a gather takes as long
 * as its slowest line. Those that are not in their own slot come again. */
static inline void bpe_find_known(const bpe_pairs *pairs, bpe_sought *sought, bpe_stretch *stretch) {
    while (sought->n) {
        int n = 0, n_merged = 0;
        for (int i = 0, end = sought->n; i < end; i++) {
            uint64_t pair = sought->pair[i], at = sought->slot[i];
            uint32_t border = sought->border[i];
            const bpe_slot *slot = &pairs->slots[at];
            sought->merge[n_merged] = slot->merge;
            sought->merged[n_merged] = border;
            n_merged += slot->pair == pair;
            sought->pair[n] = pair;
            sought->slot[n] = (at + 1) & pairs->mask;
            sought->border[n] = border;
            n += (slot->pair != pair) & (slot->pair != BPE_NO_MERGE);
        }
        for (int i = 0; i < n_merged; i++) {
            stretch->rank[sought->merged[i]] = (uint32_t)(sought->merge[i] >> 32);
            stretch->made[sought->merged[i]] = (uint32_t)sought->merge[i];
        }
        sought->n = n;
    }
}

/* Merge the pairs that are sure, and look up those around them. Round after round has another rank for these, from
 * BPE_NO_RANK + 1 on, as those that make nothing keep it. */
BPE_INLINE_AVX512 void bpe_merge_round(const bpe_pairs *pairs, bpe_stretch *stretch, uint32_t sought) {
    bpe_sought found;
    bpe_borders sure = {0};
    __m512i least = bpe_least_crossing(stretch);
    bpe_sure_from_left(stretch, least, sure);
    bpe_sure_from_right(stretch, least, sure);
    bpe_merge_sure(stretch, sure, sought, &found);
    bpe_list_pairs(stretch, sought, &found);
    bpe_filter_pairs(pairs, &found);
    bpe_set_bounds(pairs, &found, stretch);
    bpe_find_known(pairs, &found, stretch);
}
#endif

#endif
