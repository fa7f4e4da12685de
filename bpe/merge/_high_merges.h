/* Merging short rows of low tokens by the high merges (_high_merges.pyx).
 *
 * One table answers for two neighbouring tokens: whether their pair may be joined, and into which token. Its slots have 64
 * bits, so that the table of 100,000 merges stays in or near the second-level cache; a Bloom filter with two bits per pair
 * comes first. Tokens of high merges rise with their ranks: the least result is the best merge.
 */
#ifndef BPE_HIGH_MERGES_H
#define BPE_HIGH_MERGES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/pretokenize/_char_masks.h"

enum {
    BPE_TOKEN_BITS = 21,  /* of a token in a slot: left << 43 | right << 22 | result */
    BPE_RESULT_BITS = 22,
    BPE_NEVER = 0x3FFFFF, /* result: the pair is joined, but its two tokens have no merge; or nothing joins it */
    BPE_FEW = 12,         /* tokens of a row that is merged here, at most */
    BPE_PAIRS = 256,      /* pairs that are looked up at once */
};

typedef struct {
    const uint64_t *slots; /* open addressing, a power of two of them; UINT64_MAX is free */
    size_t mask;
    const uint32_t *filter;
    uint32_t filter_mask; /* of its words, at most 2**22 - 1 */
} bpe_high_table;

static inline uint64_t bpe_high_key(uint32_t left, uint32_t right) {
    return (uint64_t)left << (BPE_TOKEN_BITS + BPE_RESULT_BITS) | (uint64_t)right << BPE_RESULT_BITS;
}
static inline uint64_t bpe_high_hash(uint64_t key) { /* every bit depends on both tokens */
    uint64_t mixed = (key ^ key >> 32) * 0x9E3779B97F4A7C15ull;
    mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93ull;
    return mixed ^ mixed >> 32;
}
/* The filter has a hash of its own, of 32 bits, for vectors. */
static inline uint32_t bpe_filter_hash(uint32_t left, uint32_t right) {
    uint32_t mixed = left * 0x9E3779B1u + right * 0x85EBCA6Bu;
    return (mixed ^ mixed >> 15) * 0x2C1B3C6Du;
}
static inline uint32_t bpe_filter_two_bits(uint32_t hash) { return (uint32_t)1 << (hash & 31) | (uint32_t)1 << (hash >> 5 & 31); }
static inline int bpe_may_be_joined(const bpe_high_table *table, uint32_t left, uint32_t right) {
    uint32_t hash = bpe_filter_hash(left, right), bits = bpe_filter_two_bits(hash);
    return (table->filter[hash >> 10 & table->filter_mask] & bits) == bits;
}

/* Enter a pair, for which there is room; of two results the lesser counts. */
static inline void bpe_high_insert(bpe_high_table *table, uint32_t left, uint32_t right, uint32_t result) {
    uint64_t key = bpe_high_key(left, right), hash = bpe_high_hash(key), *slots = (uint64_t *)table->slots;
    size_t at = hash & table->mask;
    uint32_t short_hash = bpe_filter_hash(left, right);
    ((uint32_t *)table->filter)[short_hash >> 10 & table->filter_mask] |= bpe_filter_two_bits(short_hash);
    while (slots[at] != UINT64_MAX && slots[at] >> BPE_RESULT_BITS != key >> BPE_RESULT_BITS) at = (at + 1) & table->mask;
    if ((key | result) < slots[at]) slots[at] = key | result;
}

/* Whether a pair is in the table, and what it merges to, or BPE_NEVER. */
static inline int bpe_high_find(const bpe_high_table *table, uint64_t key, uint64_t hash, uint32_t *result) {
    size_t at = hash & table->mask;
    for (;;) {
        uint64_t slot = table->slots[at];
        *result = (uint32_t)slot & BPE_NEVER;
        if ((slot ^ key) < (uint64_t)1 << BPE_RESULT_BITS) return 1;
        if (slot == UINT64_MAX) return 0; /* and the result is BPE_NEVER */
        at = (at + 1) & table->mask;
    }
}

static inline uint32_t bpe_high_merge(const bpe_high_table *table, uint32_t left, uint32_t right) {
    uint64_t key = bpe_high_key(left, right);
    uint32_t result = BPE_NEVER;
    if (bpe_may_be_joined(table, left, right)) bpe_high_find(table, key, bpe_high_hash(key), &result);
    return result;
}

/* List the pairs (low[i - 1], low[i]), 0 <= i < n <= BPE_PAIRS, that the filter lets pass; up to 16 more are written. */
typedef size_t (*bpe_list_pairs_t)(const bpe_high_table *table, const uint32_t *low, size_t n, uint16_t *listed);

static size_t bpe_list_pairs_plain(const bpe_high_table *table, const uint32_t *low, size_t n, uint16_t *listed) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        listed[found] = (uint16_t)i;
        found += (size_t)bpe_may_be_joined(table, low[(ptrdiff_t)i - 1], low[i]);
    }
    return found;
}

static bpe_list_pairs_t bpe_list_pairs = bpe_list_pairs_plain;

#ifdef BPE_X86
/* Sixteen pairs at a time: 5 ns a pair instead of 9, on a loaded Xeon. */
__attribute__((target("avx512f,avx512bw,avx512vl,popcnt"))) static size_t bpe_list_pairs_avx512(
    const bpe_high_table *table, const uint32_t *low, size_t n, uint16_t *listed) {
    const __m512i one = _mm512_set1_epi32(1), low_bits = _mm512_set1_epi32(31);
    __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t found = 0;
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 any = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xFFFF;
        __m512i left = _mm512_maskz_loadu_epi32(any, low + (ptrdiff_t)i - 1);
        __m512i right = _mm512_maskz_loadu_epi32(any, low + i), hash, words, bits;
        hash = _mm512_add_epi32(_mm512_mullo_epi32(left, _mm512_set1_epi32((int)0x9E3779B1u)),
                                _mm512_mullo_epi32(right, _mm512_set1_epi32((int)0x85EBCA6Bu)));
        hash = _mm512_xor_si512(hash, _mm512_srli_epi32(hash, 15));
        hash = _mm512_mullo_epi32(hash, _mm512_set1_epi32((int)0x2C1B3C6Du));
        words = _mm512_and_si512(_mm512_srli_epi32(hash, 10), _mm512_set1_epi32((int)table->filter_mask));
        words = _mm512_i32gather_epi32(words, (const void *)table->filter, 4);
        bits = _mm512_or_si512(_mm512_sllv_epi32(one, _mm512_and_si512(hash, low_bits)),
                               _mm512_sllv_epi32(one, _mm512_and_si512(_mm512_srli_epi32(hash, 5), low_bits)));
        any = _mm512_mask_cmpeq_epi32_mask(any, _mm512_and_si512(words, bits), bits);
        _mm256_storeu_si256((__m256i *)(listed + found),
                            _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(any, numbers)));
        found += (size_t)__builtin_popcount(any);
        numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16));
    }
    return found;
}
#endif

/* Use the version of a vector level (base/_cpu.pxd). */
static void bpe_use_level_pairs(int level) {
    bpe_list_pairs = bpe_list_pairs_plain;
#ifdef BPE_X86
    if (level >= 3) bpe_list_pairs = bpe_list_pairs_avx512;
#endif
    (void)level;
}

/* List the pairs that are joined, and what they merge to; their number. `joined` has room for 16 more. */
static inline size_t bpe_find_joined(
    const bpe_high_table *table, const uint32_t *low, size_t n, uint16_t *joined, uint32_t *results) {
    uint64_t hashes[BPE_PAIRS];
    size_t maybe = bpe_list_pairs(table, low, n, joined), found = 0;
    for (size_t i = 0; i < maybe; i++) {
        hashes[i] = bpe_high_hash(bpe_high_key(low[(ptrdiff_t)joined[i] - 1], low[joined[i]]));
        __builtin_prefetch(&table->slots[hashes[i] & table->mask]);
    }
    for (size_t i = 0; i < maybe; i++) {
        uint64_t key = bpe_high_key(low[(ptrdiff_t)joined[i] - 1], low[joined[i]]);
        joined[found] = joined[i];
        found += (size_t)bpe_high_find(table, key, hashes[i], &results[found]);
    }
    return found;
}

/* Merge n <= BPE_FEW tokens, given what each merges to with the next one; writes the tokens, returns their number. */
static inline size_t bpe_merge_few(const bpe_high_table *table, const uint32_t *low, const uint32_t *given, size_t n, uint32_t *out) {
    uint32_t results[BPE_FEW];
    if (n == 2) { /* more than half of all; without a branch on the result */
        out[0] = given[0] == BPE_NEVER ? low[0] : given[0];
        out[1] = low[1];
        return 1 + (given[0] == BPE_NEVER);
    }
    for (size_t i = 0; i < n; i++) out[i] = low[i];
    for (size_t i = 0; i + 1 < n; i++) results[i] = given[i];
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i < n - 1; i++) best = results[i] < results[best] ? i : best;
        if (results[best] == BPE_NEVER) break;
        out[best] = results[best];
        n--;
        for (size_t i = best + 1; i < n; i++) out[i] = out[i + 1];
        for (size_t i = best; i < n - 1; i++) results[i] = results[i + 1];
        if (best > 0) results[best - 1] = bpe_high_merge(table, out[best - 1], out[best]);
        if (best < n - 1) results[best] = bpe_high_merge(table, out[best], out[best + 1]);
    }
    return n;
}

#endif
