/* Merging rows of 64 bytes in rounds, each of which merges many pairs at once, by AVX-512; what comes out is what merging
 * one pair after the other makes.
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
 * from the right for d. Of pairs of equal rank, which only runs of one token have (a a a), the left one comes first.
 *
 * The least ranks of (A, c) and (d, E) are known by the two bytes at the border while c (or d) is a byte, and by c (or
 * d) alone when it is more. Pairs around new tokens are looked up together, without a branch for each. Of the merges
 * that random letters have a first round makes 6 or 7 of 10, and a second one half of the others; then what is left is
 * merged one pair after the other (`merging.h`). Further rounds could make all, but find too little for what they take:
 * with o200k one, two, three and four took 9.9, 8.9, 10.1 and 10.9 ns a byte, none 15.
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

#if defined(__x86_64__) && defined(__GNUC__)

enum {
    BPE_ROUNDS = 2,
    BPE_DEPTH = 2,           /* borders that crossings are followed back; four find a little more, and take longer */
    BPE_ROW_ROOM = 64 + 16,  /* 16 more, as arrays are read and written 16 at a time */
    BPE_ROWS_ROOM = 16 + BPE_ROWS * BPE_ROW_ROOM, /* the first row is not at 0, as the border before it is written to */
    BPE_SOUGHT_ROOM = BPE_ROWS * 64 + 16,
};

/* Rows of symbols on their way to tokens, those that are left side by side, row k from [bpe_row_at(k)] on. What is known
 * of a border stands at the token before it. */
typedef struct {
    uint32_t token[BPE_ROWS_ROOM];
    uint32_t rank[BPE_ROWS_ROOM]; /* of what a token makes with the next one; BPE_NO_RANK where it makes nothing */
    uint32_t made[BPE_ROWS_ROOM]; /* that token */
    bpe_bounds bounds[BPE_ROWS_ROOM];
    uint64_t live[BPE_ROWS];  /* the places where a token begins */
    uint64_t fresh[BPE_ROWS]; /* tokens that the last round made */
    int n[BPE_ROWS];          /* tokens */
    int longest;              /* the most tokens of a row */
} bpe_rounds;

static inline int bpe_row_at(int k) { return 16 + k * BPE_ROW_ROOM; }

BPE_INLINE_AVX512 uint64_t bpe_lowest(int n) { return _bzhi_u64(~(uint64_t)0, (unsigned)n); }

BPE_INLINE_AVX512 __m512i bpe_load_16(const void *at) { return _mm512_loadu_si512(at); }

BPE_INLINE_AVX512 void bpe_store_16(void *at, __m512i v) { _mm512_storeu_si512(at, v); }

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

/* Make 64 bytes row k. */
BPE_INLINE_AVX512 void bpe_begin_bytes(bpe_rounds *rows, int k, const bpe_pairs *pairs, const uint8_t *piece) {
    uint8_t bytes[65] = {0};
    memcpy(bytes, piece, 64); /* what pair the last one begins does not matter */
    rows->n[k] = 64;
    rows->live[k] = ~(uint64_t)0;
    for (int i = 0, at = bpe_row_at(k); i < 64; i += 16, at += 16) {
        __m512i a = bpe_load_four(pairs->of_bytes, bytes + i), b = bpe_load_four(pairs->of_bytes, bytes + i + 1);
        __m512i c = bpe_load_four(pairs->of_bytes, bytes + i + 2), d = bpe_load_four(pairs->of_bytes, bytes + i + 3);
        __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
        bpe_store_16(rows->rank + at, _mm512_unpacklo_epi64(ab, cd));
        bpe_store_16(rows->made + at, _mm512_unpackhi_epi64(ab, cd));
        ab = _mm512_unpackhi_epi32(a, b);
        cd = _mm512_unpackhi_epi32(c, d);
        bpe_store_16(rows->bounds + at, _mm512_unpacklo_epi64(ab, cd));
        bpe_store_16(rows->token + at, _mm512_unpackhi_epi64(ab, cd));
    }
}

/* A round ---------------------------------------------------------------------------------------------------------- */

/* The ranks that bounds stand for. */
BPE_INLINE_AVX512 __m512i bpe_rank_of(__m512i bound) {
    __m512i mantissa = _mm512_and_si512(bound, _mm512_set1_epi32(0x7FF));
    return _mm512_sllv_epi32(mantissa, _mm512_srli_epi32(bound, 11));
}

/* The borders of a row that surely are merged: bits by the token before them. `rank` and `bounds` are those of a row of
 * at most 16 * `vectors` tokens, a constant. */
BPE_INLINE_AVX512 uint64_t bpe_sure_merges(const __m512i *rank, const __m512i *bounds, const int vectors) {
    const __m512i none = _mm512_set1_epi32(BPE_NO_RANK), one = _mm512_set1_epi32(1);
    __m512i left[4], right[4], from_left[4], from_right[4], least = none; /* the last two: `cross` of both sides */
    uint64_t sure = 0;
    for (int i = 0; i < vectors; i++) least = _mm512_min_epi32(least, rank[i]);
    least = _mm512_add_epi32(_mm512_set1_epi32(_mm512_reduce_min_epi32(least)), one);
    for (int i = 0; i < vectors; i++) {
        left[i] = _mm512_max_epi32(bpe_rank_of(_mm512_and_si512(bounds[i], _mm512_set1_epi32(0xFFFF))), least);
        right[i] = _mm512_max_epi32(bpe_rank_of(_mm512_srli_epi32(bounds[i], 16)), least);
        from_left[i] = _mm512_min_epi32(rank[i], left[i]);
        from_right[i] = _mm512_min_epi32(rank[i], right[i]);
    }
    for (int step = 0; step < BPE_DEPTH; step++) {
        for (int i = vectors - 1; i >= 0; i--) {
            __m512i before = _mm512_alignr_epi32(from_left[i], i ? from_left[i - 1] : none, 15);
            before = _mm512_max_epi32(left[i], _mm512_add_epi32(before, one));
            from_left[i] = _mm512_min_epi32(rank[i], before);
        }
        for (int i = 0; i < vectors; i++) {
            __m512i behind = _mm512_alignr_epi32(i + 1 < vectors ? from_right[i + 1] : none, from_right[i], 1);
            behind = _mm512_max_epi32(right[i], _mm512_add_epi32(behind, one));
            from_right[i] = _mm512_min_epi32(rank[i], behind);
        }
    }
    for (int i = 0; i < vectors; i++) {
        __m512i before = _mm512_alignr_epi32(from_left[i], i ? from_left[i - 1] : none, 15);
        __m512i behind = _mm512_alignr_epi32(i + 1 < vectors ? from_right[i + 1] : none, from_right[i], 1);
        __mmask16 some = _mm512_cmplt_epi32_mask(rank[i], _mm512_min_epi32(before, none));
        sure |= (uint64_t)_mm512_mask_cmple_epi32_mask(some, rank[i], behind) << 16 * i;
    }
    return sure;
}

/* Merge the sure pairs of row k; what is around a token that they make makes nothing as yet. */
BPE_INLINE_AVX512 void bpe_merge_sure(bpe_rounds *rows, int k, const int vectors) {
    __m512i rank[4], bounds[4];
    const __m512i none = _mm512_set1_epi32(BPE_NO_RANK);
    const int first = bpe_row_at(k);
    uint64_t borders = bpe_lowest(rows->n[k] - 1), sure, keep;
    for (int i = 0; i < vectors; i++) {
        __mmask16 used = (__mmask16)(borders >> 16 * i);
        rank[i] = _mm512_mask_loadu_epi32(none, used, rows->rank + first + 16 * i);
        bounds[i] = _mm512_mask_loadu_epi32(
            _mm512_set1_epi16((short)BPE_NO_BOUND), used, rows->bounds + first + 16 * i);
    }
    sure = bpe_sure_merges(rank, bounds, vectors);
    keep = bpe_lowest(rows->n[k]) & ~(sure << 1);
    for (int i = 0, to = first; i < vectors; i++) {
        __mmask16 merged = (__mmask16)(sure >> 16 * i), kept = (__mmask16)(keep >> 16 * i);
        __m512i behind = _mm512_alignr_epi32(i + 1 < vectors ? bounds[i + 1] : bounds[i], bounds[i], 1);
        __m512i made = bpe_load_16(rows->made + first + 16 * i);
        __m512i token = _mm512_mask_mov_epi32(bpe_load_16(rows->token + first + 16 * i), merged, made);
        bpe_store_16(rows->token + to, _mm512_maskz_compress_epi32(kept, token));
        rank[i] = _mm512_mask_mov_epi32(rank[i], (__mmask16)((sure | sure >> 1) >> 16 * i), none);
        bpe_store_16(rows->rank + to, _mm512_maskz_compress_epi32(kept, rank[i]));
        bpe_store_16(rows->made + to, _mm512_maskz_compress_epi32(kept, made));
        bounds[i] = _mm512_mask_mov_epi32(bounds[i], merged, behind);
        bpe_store_16(rows->bounds + to, _mm512_maskz_compress_epi32(kept, bounds[i]));
        to += bpe_popcount(kept);
    }
    rows->n[k] = bpe_popcount(keep);
    rows->fresh[k] = _pext_u64(sure, keep);
    rows->live[k] = _pdep_u64(keep, rows->live[k]);
}

/* Merge the sure pairs of all rows. Their longest one says how much of all is read: a branch for each would often
 * be guessed wrong. */
BPE_INLINE_AVX512 void bpe_merge_round(bpe_rounds *rows) {
    if (rows->longest > 48)
        for (int k = 0; k < BPE_ROWS; k++) bpe_merge_sure(rows, k, 4);
    else if (rows->longest > 32)
        for (int k = 0; k < BPE_ROWS; k++) bpe_merge_sure(rows, k, 3);
    else
        for (int k = 0; k < BPE_ROWS; k++) bpe_merge_sure(rows, k, 2);
    rows->longest = 0;
    for (int k = 0; k < BPE_ROWS; k++) rows->longest = rows->n[k] > rows->longest ? rows->n[k] : rows->longest;
}

/* Look-ups --------------------------------------------------------------------------------------------------------- */

/* Pairs to look up, and fresh tokens, of all rows together. */
typedef struct {
    uint32_t left[BPE_SOUGHT_ROOM];
    uint32_t right[BPE_SOUGHT_ROOM];
    uint32_t border[BPE_SOUGHT_ROOM]; /* an index into the arrays of the rows */
    uint64_t pair[BPE_SOUGHT_ROOM];   /* those that the filter lets through */
    uint64_t slot[BPE_SOUGHT_ROOM];
    uint64_t merge[BPE_SOUGHT_ROOM];  /* those that are in the table */
    uint32_t merged[BPE_SOUGHT_ROOM]; /* their borders */
    uint32_t fresh[BPE_SOUGHT_ROOM];
    uint32_t at[BPE_SOUGHT_ROOM];     /* an index */
    int n, n_fresh;
} bpe_sought;

/* List the fresh tokens of row k, and the pairs around them. */
BPE_INLINE_AVX512 void bpe_list_pairs(bpe_sought *sought, const bpe_rounds *rows, int k) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    uint64_t fresh = rows->fresh[k], around = (fresh | fresh >> 1) & bpe_lowest(rows->n[k] - 1);
    int n = sought->n, n_fresh = sought->n_fresh;
    for (int i = 0, at = bpe_row_at(k), end = rows->longest; i < end; i += 16, at += 16) {
        __mmask16 here = (__mmask16)(around >> i), fresh_here = (__mmask16)(fresh >> i);
        __m512i left = bpe_load_16(rows->token + at), right = bpe_load_16(rows->token + at + 1);
        __m512i border = _mm512_add_epi32(lanes, _mm512_set1_epi32(at));
        bpe_store_16(sought->fresh + n_fresh, _mm512_maskz_compress_epi32(fresh_here, left));
        bpe_store_16(sought->at + n_fresh, _mm512_maskz_compress_epi32(fresh_here, border));
        bpe_store_16(sought->left + n, _mm512_maskz_compress_epi32(here, left));
        bpe_store_16(sought->right + n, _mm512_maskz_compress_epi32(here, right));
        bpe_store_16(sought->border + n, _mm512_maskz_compress_epi32(here, border));
        n_fresh += bpe_popcount(fresh_here);
        n += bpe_popcount(here);
    }
    sought->n = n;
    sought->n_fresh = n_fresh;
}

/* Keep the pairs that the filter lets through. */
BPE_INLINE_AVX512 void bpe_filter_pairs(const bpe_pairs *pairs, bpe_sought *sought) {
    int n = 0;
    for (int i = 0; i < sought->n; i += 8) {
        __mmask8 used = (__mmask8)bpe_lowest(sought->n - i < 8 ? sought->n - i : 8), known;
        __m512i left = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(sought->left + i)));
        __m512i right = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(sought->right + i)));
        __m256i border = _mm256_loadu_si256((const __m256i *)(sought->border + i));
        __m512i pair = _mm512_or_si512(_mm512_slli_epi64(left, 32), right); /* from here on as `bpe_find_pair` */
        __m512i hash = _mm512_mullo_epi64(pair, _mm512_set1_epi64((long long)BPE_PAIR_FACTOR)), bit, word;
        hash = _mm512_xor_si512(hash, _mm512_srli_epi64(hash, 32));
        bit = _mm512_and_si512(_mm512_srli_epi64(hash, 32), _mm512_set1_epi64((long long)pairs->known_mask));
        word = _mm512_mask_i64gather_epi64(pair, used, _mm512_srli_epi64(bit, 6), pairs->known, 8);
        word = _mm512_srlv_epi64(word, _mm512_and_si512(bit, _mm512_set1_epi64(63)));
        known = _mm512_mask_test_epi64_mask(used, word, _mm512_set1_epi64(1));
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
static inline void bpe_set_bounds(const bpe_pairs *pairs, const bpe_sought *sought, bpe_rounds *rows) {
    for (int i = 0, end = sought->n_fresh; i < end; i++) {
        bpe_bounds known = pairs->bounds[sought->fresh[i]];
        rows->bounds[sought->at[i] - 1].left = known.left;
        rows->bounds[sought->at[i]].right = known.right;
    }
}

/* Find the pairs in the table, and set what they make. One by one, but without a branch for each: a gather takes as long
 * as its slowest line. Those that are not in their own slot come again. */
static inline void bpe_find_known(const bpe_pairs *pairs, bpe_sought *sought, bpe_rounds *rows) {
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
            rows->rank[sought->merged[i]] = (uint32_t)(sought->merge[i] >> 32);
            rows->made[sought->merged[i]] = (uint32_t)sought->merge[i];
        }
        sought->n = n;
    }
}

/* Rows ------------------------------------------------------------------------------------------------------------- */

/* Go on with row k where pairs are merged one after the other. */
BPE_INLINE_AVX512 void bpe_leave_rounds(const bpe_rounds *rows, int k, bpe_row *out) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (int i = 0, at = bpe_row_at(k); i < rows->longest; i += 16, at += 16) {
        __m512i order = _mm512_slli_epi32(bpe_load_16(rows->rank + at), 6);
        order = _mm512_or_si512(order, _mm512_add_epi32(lanes, _mm512_set1_epi32(i)));
        bpe_store_16(out->order + i, _mm512_xor_si512(order, _mm512_set1_epi32(INT32_MIN)));
        bpe_store_16(out->token + i + 1, bpe_load_16(rows->token + at));
        bpe_store_16(out->made + i + 1, bpe_load_16(rows->made + at));
    }
    out->n = rows->n[k];
}

/* Merge rows of 64 bytes of a text that begin `stride` bytes apart; their tokens lie side by side. */
BPE_MERGING_AVX512 static void bpe_merge_in_rounds(
    const bpe_pairs *pairs, const uint8_t *text, ptrdiff_t stride, bpe_row *out) {
    bpe_rounds rows;
    bpe_sought sought;
    rows.longest = 64;
    for (int k = 0; k < BPE_ROWS; k++) bpe_begin_bytes(&rows, k, pairs, text + k * stride);
    for (int round = 0; round < BPE_ROUNDS; round++) {
        bpe_merge_round(&rows);
        sought.n = sought.n_fresh = 0;
        for (int k = 0; k < BPE_ROWS; k++) bpe_list_pairs(&sought, &rows, k);
        bpe_filter_pairs(pairs, &sought);
        if (round < BPE_ROUNDS - 1) bpe_set_bounds(pairs, &sought, &rows);
        bpe_find_known(pairs, &sought, &rows);
    }
    for (int k = 0; k < BPE_ROWS; k++) bpe_leave_rounds(&rows, k, &out[k]);
    bpe_merge_rows_avx512(pairs, out);
    for (int k = 0; k < BPE_ROWS; k++) {
        bpe_tokens_of(&out[k], out[k].token);
        out[k].live = _pdep_u64(out[k].live, rows.live[k]);
    }
}
#else
static void bpe_merge_in_rounds(const bpe_pairs *pairs, const uint8_t *text, ptrdiff_t stride, bpe_row *out) {
    (void)pairs;
    (void)text;
    (void)stride;
    (void)out;
}
#endif

#endif
