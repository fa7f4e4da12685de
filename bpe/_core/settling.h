/* Merging what the rounds of `rounds.h` leave of a stretch of bytes, all at once, and proving that right.
 *
 * Of what the pairs make that two rounds leave, hardly anything is merged again: of o200k's random letters one in a
 * hundred. If nothing ever were, it would be plain what is merged: again and again a pair of a smaller rank than those
 * on both its sides, which then are no pairs any more. So that is worked out, and then the pairs are looked up that
 * would have been met on the way. Around a border that stays, with the tokens c d before it and e f behind it,
 *
 *     . . . c d | e f . . .     c d merged to X first, then e f to Y: X e is met, and then X Y
 *     . . . c d | e   . . .     c d merged to X: X e is met
 *
 * and the like the other way round. If none of all these can be merged, nothing else was ever possible.
 *
 * Where a pair that is there in the end can be merged, it is, provided that all around it has come to its end before,
 * and that what it makes makes nothing with its neighbours. Where that is not so, or where a pair that was met on the
 * way would have been merged, the tokens before it are kept and the rest is left out. They are what merging makes of
 * their own bytes, as the borders among them have the same ranks without what is behind them. Where less than half of a
 * stretch is left so, or choosing takes too long, as in a run of one token, nothing is settled.
 */
#ifndef BPE_SETTLING_H
#define BPE_SETTLING_H

#include "rounds.h"

#if defined(__x86_64__) && defined(__GNUC__)

enum {
    BPE_ROUNDS = 2,        /* before the rest is settled */
    BPE_MOST_ROUNDS = 3,   /* if too little was */
    BPE_MOST_CHOICES = 12, /* random text takes four to six; a run of one token as many as it is long */
    BPE_END = 5,           /* bytes at the end of a stretch whose tokens are not kept, at least */
    BPE_MOST_LATER = 16,   /* merges of pairs that are there in the end: what comes behind more of them is left out */
};

/* What becomes of the tokens of a stretch. */
typedef struct {
    bpe_borders merged;
    int choices;                   /* that it took: each goes over all borders */
    int cut;                       /* the index of the first token that is not kept */
    int n_later;                   /* tokens made of several that were settled before, from left to right */
    int first[BPE_MOST_LATER];     /* the indices of their first and last tokens */
    int last[BPE_MOST_LATER];
    uint32_t made[BPE_MOST_LATER];
} bpe_settled;

static inline int bpe_is_merged(const bpe_settled *settled, int at) {
    return settled->merged[at / 16] >> at % 16 & 1;
}

/* Choosing --------------------------------------------------------------------------------------------------------- */

/* Where a rank is less than those before and behind it; of equal ones the left one is. */
BPE_INLINE_AVX512 uint32_t bpe_local_least(__m512i before, __m512i rank, __m512i behind) {
    __mmask16 some = _mm512_cmplt_epi32_mask(rank, _mm512_min_epi32(before, _mm512_set1_epi32(BPE_NO_RANK)));
    return _mm512_mask_cmple_epi32_mask(some, rank, behind);
}

/* Merge each pair of a smaller rank than those beside it, which lose theirs; whether pairs are left. */
BPE_INLINE_AVX512 int bpe_choose_least(uint32_t *rank, int end, bpe_borders merged) {
    const __m512i none = _mm512_set1_epi32(BPE_NO_RANK);
    __m512i here = bpe_load_16(rank + BPE_FIRST);
    uint32_t before = 0, some = 0, now;
    now = bpe_local_least(bpe_load_16(rank + BPE_FIRST - 1), here, bpe_load_16(rank + BPE_FIRST + 1));
    for (int at = BPE_FIRST; at < end; at += 16) {
        __m512i next = bpe_load_16(rank + at + 16);
        uint32_t behind = bpe_local_least(_mm512_alignr_epi32(next, here, 15), next, bpe_load_16(rank + at + 17));
        uint32_t lost = now | now << 1 | now >> 1 | before >> 15 | behind << 15;
        here = _mm512_mask_mov_epi32(here, (__mmask16)lost, none);
        merged[at / 16] |= (uint16_t)now;
        some |= _mm512_cmplt_epi32_mask(here, none);
        bpe_store_16(rank + at, here);
        here = next;
        before = now;
        now = behind;
    }
    return some != 0;
}

/* What is merged if what is made is not merged again; 0 where that takes too long. */
BPE_INLINE_AVX512 int bpe_choose_merges(const bpe_stretch *stretch, bpe_settled *out) {
    uint32_t rank[BPE_STRETCH_ROOM];
    int end = BPE_FIRST + stretch->n;
    memset(out->merged, 0, sizeof out->merged);
    bpe_store_16(rank, _mm512_set1_epi32(BPE_NO_RANK));
    for (int at = BPE_FIRST; at < end; at += 16) bpe_store_16(rank + at, bpe_load_16(stretch->rank + at));
    for (int at = end; at < end + 32; at += 16) bpe_store_16(rank + at, _mm512_set1_epi32(BPE_NO_RANK));
    for (out->choices = 1; out->choices <= BPE_MOST_CHOICES; out->choices++)
        if (!bpe_choose_least(rank, end, out->merged)) return 1;
    return 0;
}

/* Looking up ------------------------------------------------------------------------------------------------------- */

/* List the pairs around merges that are there in the end, and those that were there for a while. */
BPE_INLINE_AVX512 void bpe_list_met(
    const bpe_stretch *stretch, const bpe_borders merged, bpe_sought *lasting, bpe_sought *passing) {
    lasting->n = passing->n = 0;
    for (int at = BPE_FIRST, end = BPE_FIRST + stretch->n - 1; at < end; at += 16) {
        uint32_t here = merged[at / 16];
        __mmask16 before = (__mmask16)(here << 1 | merged[at / 16 - 1] >> 15);
        __mmask16 behind = (__mmask16)(here >> 1 | (uint32_t)merged[at / 16 + 1] << 15);
        __mmask16 stays = (__mmask16)~here & bpe_lanes_before(at, end), some = (before | behind) & stays;
        __mmask16 both = before & behind & stays, left_first;
        __m512i left = bpe_load_16(stretch->token + at), left_made = bpe_load_16(stretch->made + at - 1);
        __m512i right = bpe_load_16(stretch->token + at + 1), right_made = bpe_load_16(stretch->made + at + 1);
        left_first = _mm512_cmple_epi32_mask(bpe_load_16(stretch->rank + at - 1), bpe_load_16(stretch->rank + at + 1));
        bpe_store_some(lasting->left + lasting->n, some, _mm512_mask_mov_epi32(left, before, left_made));
        bpe_store_some(lasting->right + lasting->n, some, _mm512_mask_mov_epi32(right, behind, right_made));
        lasting->n += bpe_store_some(lasting->border + lasting->n, some, bpe_count_from(at));
        bpe_store_some(passing->left + passing->n, both, _mm512_mask_mov_epi32(left, left_first, left_made));
        bpe_store_some(passing->right + passing->n, both, _mm512_mask_mov_epi32(right_made, left_first, right));
        passing->n += bpe_store_some(passing->border + passing->n, both, bpe_count_from(at));
    }
}

/* What a pair that the filter has let through makes. */
static inline uint64_t bpe_find_sought(const bpe_pairs *pairs, const bpe_sought *sought, int i) {
    size_t at = sought->slot[i];
    while (pairs->slots[at].pair != sought->pair[i] && pairs->slots[at].pair != BPE_NO_MERGE)
        at = (at + 1) & pairs->mask;
    return pairs->slots[at].merge;
}

/* Cut before a border if its pair would have been merged while it was there, which is until the later one of the merges
 * at both its sides. Of equal ranks the left one comes first. */
static inline void bpe_cut_passing(const bpe_stretch *stretch, int at, uint64_t merge, bpe_settled *out) {
    uint32_t left = stretch->rank[at - 1], right = stretch->rank[at + 1];
    if (merge >> 32 < (left <= right ? right + 1 : left) && at - 1 < out->cut) out->cut = at - 1;
}

/* Merge what is there in the end at both sides of a border, if that is certain; or else cut before it. */
static inline void bpe_merge_later(
    const bpe_pairs *pairs, const bpe_stretch *stretch, int at, uint64_t merge, bpe_settled *out) {
    uint32_t rank = (uint32_t)(merge >> 32), made = (uint32_t)merge;
    int first = bpe_is_merged(out, at - 1) ? at - 1 : at, last = bpe_is_merged(out, at + 1) ? at + 2 : at + 1;
    int before = bpe_is_merged(out, first - 2), behind = bpe_is_merged(out, last + 1);
    int taken = out->n_later ? out->last[out->n_later - 1] + 1 : 0; /* the token behind it has to be one that stays */
    int certain = first > taken && last < out->cut && out->n_later < BPE_MOST_LATER &&
                  !(before && stretch->rank[first - 2] >= rank) && !(behind && stretch->rank[last + 1] >= rank);
    if (certain && first > BPE_FIRST) {
        uint32_t left = before ? stretch->made[first - 2] : stretch->token[first - 1];
        certain = bpe_find_pair(pairs, left, made) == BPE_NO_MERGE;
    }
    if (certain && last + 1 < BPE_FIRST + stretch->n) {
        uint32_t right = behind ? stretch->made[last + 1] : stretch->token[last + 1];
        certain = bpe_find_pair(pairs, made, right) == BPE_NO_MERGE;
    }
    if (!certain) {
        out->cut = first;
        return;
    }
    out->first[out->n_later] = first;
    out->last[out->n_later] = last;
    out->made[out->n_later++] = made;
}

/* Settle what a stretch comes to, as far as that is certain. */
BPE_INLINE_AVX512 void bpe_settle(const bpe_pairs *pairs, const bpe_stretch *stretch, bpe_settled *out) {
    bpe_sought lasting, passing;
    out->cut = BPE_FIRST;
    out->n_later = 0;
    if (!bpe_choose_merges(stretch, out)) return;
    bpe_list_met(stretch, out->merged, &lasting, &passing);
    bpe_filter_pairs(pairs, &lasting);
    bpe_filter_pairs(pairs, &passing);
    out->cut = BPE_FIRST + stretch->n;
    for (int i = 0; i < passing.n; i++)
        bpe_cut_passing(stretch, (int)passing.border[i], bpe_find_sought(pairs, &passing, i), out);
    for (int i = 0; i < lasting.n && (int)lasting.border[i] < out->cut; i++) {
        uint64_t merge = bpe_find_sought(pairs, &lasting, i);
        if (merge != BPE_NO_MERGE) bpe_merge_later(pairs, stretch, (int)lasting.border[i], merge, out);
    }
}

/* Writing ---------------------------------------------------------------------------------------------------------- */

/* Apply the later merges, and mark the tokens that are parts of others but for their first ones. */
static inline void bpe_apply_later(bpe_stretch *stretch, const bpe_settled *settled, bpe_borders parts) {
    parts[0] = 0;
    for (int i = 1; i < BPE_STRETCH_ROOM / 16; i++)
        parts[i] = (uint16_t)(settled->merged[i] << 1 | settled->merged[i - 1] >> 15);
    for (int k = 0; k < settled->n_later && settled->last[k] < settled->cut; k++) {
        int first = settled->first[k];
        stretch->token[first] = stretch->made[first] = settled->made[k];
        for (int at = first + 1; at <= settled->last[k]; at++) parts[at / 16] |= (uint16_t)(1u << at % 16);
    }
}

/* Where the tokens that are kept end: before the cut, or some bytes before the end of the text. */
static inline int bpe_kept_end(const bpe_stretch *stretch, const bpe_settled *settled, const bpe_borders parts) {
    int end = settled->cut;
    if (end < BPE_FIRST + stretch->n) return end;
    while (end > BPE_FIRST && stretch->place[end] > BPE_STRETCH - BPE_END) end--;
    while (parts[end / 16] >> end % 16 & 1) end--;
    return end;
}

/* Write the tokens that are kept; how many. `size` becomes the number of their bytes. */
BPE_INLINE_AVX512 int bpe_write_settled(
    bpe_stretch *stretch, const bpe_settled *settled, uint32_t *tokens, ptrdiff_t *size) {
    bpe_borders parts;
    int end, n = 0;
    bpe_apply_later(stretch, settled, parts);
    end = bpe_kept_end(stretch, settled, parts);
    for (int at = BPE_FIRST; at < end; at += 16) {
        __m512i token = bpe_load_16(stretch->token + at);
        token = _mm512_mask_loadu_epi32(token, settled->merged[at / 16], stretch->made + at);
        n += bpe_store_some(tokens + n, (__mmask16)~parts[at / 16] & bpe_lanes_before(at, end), token);
    }
    *size = stretch->place[end];
    return n;
}

/* Merge the BPE_STRETCH bytes that a text begins with, as far as that is certain: write the tokens, and up to 16 more
 * behind them; how many they are. `size` becomes the number of their bytes: 0 where less than half of all are
 * certain. `work` grows by what is gone over. */
BPE_MERGING_AVX512 static ptrdiff_t bpe_merge_stretch(
    const bpe_pairs *pairs, const uint8_t *text, uint32_t *tokens, ptrdiff_t *size, size_t *work) {
    bpe_stretch stretch;
    bpe_settled settled;
    bpe_begin_stretch(&stretch, pairs, text);
    for (int round = 1; round <= BPE_MOST_ROUNDS; round++) {
        bpe_merge_round(pairs, &stretch, BPE_NO_RANK + (uint32_t)round);
        *work += BPE_STRETCH;
        if (round < BPE_ROUNDS) continue;
        bpe_settle(pairs, &stretch, &settled);
        *work += (size_t)settled.choices * BPE_STRETCH;
        if (stretch.place[settled.cut] >= BPE_STRETCH / 2) return bpe_write_settled(&stretch, &settled, tokens, size);
    }
    *size = 0;
    return 0;
}
#else
static ptrdiff_t bpe_merge_stretch(
    const bpe_pairs *pairs, const uint8_t *text, uint32_t *tokens, ptrdiff_t *size, size_t *work) {
    (void)pairs;
    (void)text;
    (void)tokens;
    (void)work;
    *size = 0;
    return 0;
}
#endif

#endif
