/* Merging up to 64 symbols: looking pairs up, and keeping all orders in vector registers.
 *
 * An order is rank << 6 | place of a pair that can be merged, so that the least is the next one to merge; a pair without a
 * merge has one of at least 2**31. The level is chosen once, as for pretokenize/_char_masks.h.
 */
#ifndef BPE_MERGING_H
#define BPE_MERGING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/pretokenize/_char_masks.h"

#define BPE_NO_MERGE UINT64_MAX /* a free slot of the table; as a merge, none */

typedef struct {
    uint64_t pair;  /* left << 32 | right, or BPE_NO_MERGE where the slot is free */
    uint64_t merge; /* rank << 32 | id of the token that they make; BPE_NO_MERGE where the slot is free */
} bpe_slot;

typedef struct {
    const bpe_slot *slots; /* open addressing, a power of two of them, at most half of them used */
    size_t mask;
    const uint64_t *known; /* two bits of a word per pair that has a merge: most have none, and this stays near */
    size_t known_mask;     /* of words */
    const uint64_t *of_bytes; /* merges of two bytes, by the first | the second << 8; NULL in a character model */
} bpe_pairs;

static const bpe_slot bpe_free_slot = {BPE_NO_MERGE, BPE_NO_MERGE};

static inline uint64_t bpe_pair_hash(uint64_t pair) {
    uint64_t product = pair * 0x9E3779B97F4A7C15ull;
    return product ^ product >> 32;
}

/* Where the filter has the two bits of a pair: the word, and the bits. */
static inline size_t bpe_known_word(const bpe_pairs *pairs, uint64_t hash) {
    return hash >> 38 & pairs->known_mask;
}

static inline uint64_t bpe_known_bits(uint64_t hash) {
    return (uint64_t)1 << (hash >> 32 & 63) | (uint64_t)1 << (hash >> 58);
}

/* What two tokens make: rank << 32 | id, or BPE_NO_MERGE. */
static inline uint64_t bpe_find_pair(const bpe_pairs *pairs, uint32_t left, uint32_t right) {
    uint64_t pair = (uint64_t)left << 32 | right, hash = bpe_pair_hash(pair);
    uint64_t missing = bpe_known_bits(hash) & ~pairs->known[bpe_known_word(pairs, hash)];
    size_t at = hash & pairs->mask;
    const bpe_slot *slot = &pairs->slots[at];
    slot = missing ? &bpe_free_slot : slot;
    while (slot->pair != pair && slot->pair != BPE_NO_MERGE) {
        at = (at + 1) & pairs->mask;
        slot = &pairs->slots[at];
    }
    return slot->merge;
}

/* The merge of two bytes: rank << 32 | id, or BPE_NO_MERGE. */
static inline uint64_t bpe_find_bytes(const bpe_pairs *pairs, const uint8_t *bytes) {
    return pairs->of_bytes[bytes[0] | (size_t)bytes[1] << 8];
}

/* Up to 64 symbols on their way to tokens. Place i is [i + 1] of the first two arrays, so that there is one before the
 * first and one behind the last; there is room for 16 to be written at once. */
typedef struct {
    uint32_t token[66 + 16];
    uint32_t made[66 + 16]; /* what the token at a place makes with the one behind it, if anything */
    int32_t order[64]; /* of that pair: rank << 6 | place, less 2**31; at least 0 for what makes nothing and for no pair */
    uint64_t live;     /* the places where a token begins */
    ptrdiff_t n;       /* symbols */
} bpe_row;

static inline int32_t bpe_order(uint32_t rank, unsigned at) {
    return (int32_t)((rank << 6 | at) ^ 0x80000000u);
}

static inline void bpe_set_merge(bpe_row *row, ptrdiff_t at, uint64_t merge) {
    row->made[at + 1] = (uint32_t)merge;
    row->order[at] = bpe_order((uint32_t)(merge >> 32), (unsigned)at);
}

/* The row of 1 to 64 bytes, `ids` being the token of each byte. */
static inline void bpe_row_of_bytes(
    bpe_row *row, const bpe_pairs *pairs, const uint32_t *ids, const uint8_t *piece, ptrdiff_t n) {
    row->n = n;
    for (ptrdiff_t i = 0; i < n - 1; i++) {
        row->token[i + 1] = ids[piece[i]];
        bpe_set_merge(row, i, bpe_find_bytes(pairs, piece + i));
    }
    row->token[n] = ids[piece[n - 1]];
}

static inline void bpe_row_of_symbols(bpe_row *row, const bpe_pairs *pairs, const uint32_t *symbols, ptrdiff_t n) {
    row->n = n;
    for (ptrdiff_t i = 0; i < n - 1; i++) {
        row->token[i + 1] = symbols[i];
        bpe_set_merge(row, i, bpe_find_pair(pairs, symbols[i], symbols[i + 1]));
    }
    row->token[n] = symbols[n - 1];
}

/* Move the tokens of a merged row to `out`, which may be the row's own array; how many they are. */
static inline ptrdiff_t bpe_tokens_of(const bpe_row *row, uint32_t *out) {
    ptrdiff_t n = 0;
    for (uint64_t live = row->live; live; live &= live - 1) out[n++] = row->token[bpe_ctz(live) + 1];
    return n;
}

static int bpe_merging_level = 0; /* 3: rows are merged by AVX-512 */

#if defined(__x86_64__)
#include <immintrin.h>
#define BPE_MERGING_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,lzcnt,popcnt")))
#define BPE_INLINE_AVX512 BPE_MERGING_AVX512 static inline __attribute__((always_inline))

/* The orders of one row: `registers` of 16 each, a constant. */
typedef struct {
    __m512i v[4];
} bpe_orders;

BPE_INLINE_AVX512 void bpe_begin_row(bpe_row *row, bpe_orders *orders, const int registers) {
    for (ptrdiff_t i = row->n - 1; i < 16 * registers; i++) row->order[i] = INT32_MAX;
    for (int i = 0; i < registers; i++) orders->v[i] = _mm512_loadu_si512((const void *)(row->order + 16 * i));
    row->token[0] = row->token[row->n + 1] = row->token[65] = UINT32_MAX; /* no token */
    row->live = ~(uint64_t)0 >> (64 - row->n);
}

/* The least order of a row: negative where there is something to merge. */
BPE_INLINE_AVX512 int32_t bpe_least_order(const bpe_orders *orders, const int registers) {
    __m512i least = orders->v[0];
    if (registers == 2) least = _mm512_min_epi32(least, orders->v[1]);
    if (registers == 4)
        least = _mm512_min_epi32(
            _mm512_min_epi32(least, orders->v[1]), _mm512_min_epi32(orders->v[2], orders->v[3]));
    return _mm512_reduce_min_epi32(least);
}

/* Merge the pair that has the least order. */
BPE_INLINE_AVX512 void bpe_merge_pair(
    const bpe_pairs *pairs, bpe_row *row, bpe_orders *orders, int32_t least, const int registers) {
    unsigned at = least & 63;
    uint32_t token = row->made[at + 1];
    uint64_t at_bit = (uint64_t)1 << at, rest = row->live & ~(at_bit | (at_bit - 1)), front = row->live & (at_bit - 1);
    uint64_t behind = rest & (0 - rest);
    size_t before = 64 - _lzcnt_u64(front); /* as an index: 0 where nothing stands before it */
    uint64_t before_bit = ((uint64_t)1 << before) >> 1;
    rest ^= behind;
    row->live ^= behind;
    row->token[at + 1] = token;
    uint64_t merge = bpe_find_pair(pairs, token, row->token[_tzcnt_u64(rest) + 1]);
    uint64_t merge_before = bpe_find_pair(pairs, row->token[before], token);
    row->made[at + 1] = (uint32_t)merge;
    row->made[before] = (uint32_t)merge_before;
    int32_t order = bpe_order((uint32_t)(merge >> 32), at);
    int32_t order_before = bpe_order((uint32_t)(merge_before >> 32), (unsigned)(before - 1) & 63);
    for (int i = 0; i < registers; i++) {
        orders->v[i] = _mm512_mask_set1_epi32(orders->v[i], (__mmask16)(behind >> 16 * i), INT32_MAX);
        orders->v[i] = _mm512_mask_set1_epi32(orders->v[i], (__mmask16)(at_bit >> 16 * i), order);
        orders->v[i] = _mm512_mask_set1_epi32(orders->v[i], (__mmask16)(before_bit >> 16 * i), order_before);
    }
}

BPE_INLINE_AVX512 void bpe_merge_in_registers(const bpe_pairs *pairs, bpe_row *row, const int registers) {
    bpe_orders orders;
    int32_t least;
    bpe_begin_row(row, &orders, registers);
    while ((least = bpe_least_order(&orders, registers)) < 0) bpe_merge_pair(pairs, row, &orders, least, registers);
}

/* Merge a row of any length. */
BPE_MERGING_AVX512 static void bpe_merge_row_avx512(const bpe_pairs *pairs, bpe_row *row) {
    if (row->n <= 16) bpe_merge_in_registers(pairs, row, 1);
    else if (row->n <= 32) bpe_merge_in_registers(pairs, row, 2);
    else bpe_merge_in_registers(pairs, row, 4);
}
#else
static void bpe_merge_row_avx512(const bpe_pairs *pairs, bpe_row *row) {
    (void)pairs;
    (void)row;
}
#endif

/* Use the version of a vector level (base/_cpu.pxd). */
static void bpe_use_level_merge(int level) {
#if defined(__x86_64__)
    bpe_merging_level = level >= 3 ? 3 : 0;
#else
    (void)level;
#endif
}

#endif
