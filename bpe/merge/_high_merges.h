/* Merging rows of low tokens by the high merges (_high_merges.pyx), a block of them at a time.
 *
 * One table answers for two neighbouring tokens: whether their pair may be joined, and into which token. Its slots have 64
 * bits, so that the table of 100,000 merges stays near the second-level cache; a Bloom filter with two bits per pair comes
 * first. Tokens of high merges rise with their ranks: the least result is the best merge.
 *
 * Branches on what the text is are mispredicted, and waiting for one look-up after the other takes long. So every step is
 * taken for all pairs or segments of a block before the next one, mostly without branches.
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
    BPE_LINE = 8,         /* slots of a cache line; they are filled in order */
    BPE_FEW = 24,         /* tokens of a segment that is merged here, at most */
    BPE_BLOCK = 256,      /* low tokens of a block */
};
#define BPE_HOLE 0xFFFFFFFEu /* in place of a token that was merged with the one before it */

typedef struct {
    const uint64_t *slots; /* a pair's first line is given by its hash; UINT64_MAX is free */
    uint32_t last_line;    /* there are a power of two of them */
    int shift;             /* of a hash, that leaves the line */
    const uint32_t *filter;
    uint32_t filter_mask; /* of its words, at most 2**22 - 1 */
} bpe_high_table;

typedef struct {
    uint32_t tokens[BPE_BLOCK + 16]; /* with holes */
    uint32_t results[BPE_BLOCK];     /* at the place of the left token of a joined pair: what it merges to */
    uint16_t pairs[BPE_BLOCK + 16];  /* the places of pairs to look up, or of joined ones */
    uint32_t lines[BPE_BLOCK + 16];  /* of the pairs to look up */
    uint16_t starts[BPE_BLOCK / 2], sizes[BPE_BLOCK / 2]; /* of segments of some tokens that are not done */
    uint16_t long_starts[BPE_BLOCK / BPE_FEW + 1], long_sizes[BPE_BLOCK / BPE_FEW + 1]; /* of those not merged here */
    size_t n_long;
    size_t last; /* the start of the last segment, which may go on after the block */
} bpe_high_block;

static inline uint64_t bpe_high_key(uint32_t left, uint32_t right) {
    return (uint64_t)left << (BPE_TOKEN_BITS + BPE_RESULT_BITS) | (uint64_t)right << BPE_RESULT_BITS;
}
static inline uint32_t bpe_high_hash(uint32_t left, uint32_t right) {
    uint32_t mixed = left * 0x9E3779B1u + right * 0x85EBCA6Bu;
    return (mixed ^ mixed >> 15) * 0x2C1B3C6Du;
}
static inline uint32_t bpe_high_line(const bpe_high_table *table, uint32_t hash) {
    return hash * 0x9E3779B1u >> table->shift;
}
static inline uint32_t bpe_filter_two_bits(uint32_t hash) { return (uint32_t)1 << (hash & 31) | (uint32_t)1 << (hash >> 5 & 31); }
static inline int bpe_may_be_joined(const bpe_high_table *table, uint32_t hash) {
    uint32_t bits = bpe_filter_two_bits(hash);
    return (table->filter[hash >> 10 & table->filter_mask] & bits) == bits;
}

/* Enter a pair, for which there is room; of two results the lesser counts. */
static inline void bpe_high_insert(bpe_high_table *table, uint32_t left, uint32_t right, uint32_t result) {
    uint64_t key = bpe_high_key(left, right), *slots = (uint64_t *)table->slots;
    uint32_t hash = bpe_high_hash(left, right);
    size_t at = (size_t)bpe_high_line(table, hash) * BPE_LINE, last = (size_t)table->last_line * BPE_LINE + BPE_LINE - 1;
    ((uint32_t *)table->filter)[hash >> 10 & table->filter_mask] |= bpe_filter_two_bits(hash);
    while (slots[at] != UINT64_MAX && slots[at] >> BPE_RESULT_BITS != key >> BPE_RESULT_BITS) at = (at + 1) & last;
    if ((key | result) < slots[at]) slots[at] = key | result;
}

/* Whether a pair is in the table, and what it merges to, or BPE_NEVER. A line is compared whole, without a branch. */
static inline int bpe_high_find(const bpe_high_table *table, uint64_t key, uint32_t line, uint32_t *result) {
    for (;;) {
        const uint64_t *slots = table->slots + (size_t)line * BPE_LINE;
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < BPE_LINE; i++) least = (slots[i] ^ key) < least ? slots[i] ^ key : least;
        int found = least < (uint64_t)1 << BPE_RESULT_BITS;
        *result = found ? (uint32_t)least : BPE_NEVER;
        if (found | (slots[BPE_LINE - 1] == UINT64_MAX)) return found;
        line = (line + 1) & table->last_line;
    }
}
static inline int bpe_is_joined(const bpe_high_table *table, uint32_t left, uint32_t right) {
    uint32_t unused, hash = bpe_high_hash(left, right);
    return bpe_high_find(table, bpe_high_key(left, right), bpe_high_line(table, hash), &unused);
}

/* List the pairs of n low tokens that the filter lets pass; their number. */
static inline size_t bpe_list_pairs(const bpe_high_table *table, const uint32_t *low, size_t n, bpe_high_block *block) {
    size_t found = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        uint32_t hash = bpe_high_hash(low[i], low[i + 1]);
        block->pairs[found] = (uint16_t)i;
        block->lines[found] = bpe_high_line(table, hash);
        found += (size_t)bpe_may_be_joined(table, hash);
    }
    return found;
}

/* In a loop of two or three rounds, which vectors only slow down. */
#define BPE_AS_WRITTEN __asm__ volatile("")

/* Merge the best pair of each of n segments, and list the new pairs; the number of segments that go on. */
BPE_INLINE static inline size_t bpe_merge_best(const bpe_high_table *table, bpe_high_block *block, size_t n, size_t *n_pairs) {
    size_t going_on = 0, listed = 0;
    for (size_t k = 0; k < n; k++) {
        size_t start = block->starts[k], size = block->sizes[k] - (size_t)1, at = 0;
        uint32_t *tokens = block->tokens + start, *results = block->results + start;
        for (size_t i = 1; i < size; i++) {
            BPE_AS_WRITTEN;
            at = results[i] < results[at] ? i : at;
        }
        if (results[at] == BPE_NEVER) continue;
        tokens[at] = results[at];
        for (size_t i = at + 1; i < size; i++) {
            BPE_AS_WRITTEN;
            tokens[i] = tokens[i + 1];
        }
        for (size_t i = at; i + 1 < size; i++) {
            BPE_AS_WRITTEN;
            results[i] = results[i + 1];
        }
        tokens[size] = BPE_HOLE;
        for (size_t i = at - (at > 0); i <= at && i + 1 < size; i++) {
            uint32_t hash = bpe_high_hash(tokens[i], tokens[i + 1]);
            results[i] = BPE_NEVER;
            block->pairs[listed] = (uint16_t)(start + i);
            block->lines[listed] = bpe_high_line(table, hash);
            listed += (size_t)bpe_may_be_joined(table, hash);
        }
        block->starts[going_on] = (uint16_t)start;
        block->sizes[going_on] = (uint16_t)size;
        going_on += size > 1;
    }
    *n_pairs = listed;
    return going_on;
}

#ifdef BPE_X86
#define BPE_FOR_PAIRS __attribute__((target("avx512f,avx512bw,avx512vl,bmi,bmi2,popcnt")))

BPE_FOR_PAIRS static inline int bpe_high_find_avx512(
    const bpe_high_table *table, uint64_t key, uint32_t line, uint32_t *result) {
    for (;;) {
        const uint64_t *slots = table->slots + (size_t)line * BPE_LINE;
        __m512i rest = _mm512_xor_si512(_mm512_loadu_si512((const void *)slots), _mm512_set1_epi64((long long)key));
        __mmask8 same = _mm512_cmplt_epu64_mask(rest, _mm512_set1_epi64((long long)1 << BPE_RESULT_BITS));
        uint32_t value = (uint32_t)_mm512_cvtsi512_si32(_mm512_maskz_compress_epi64(same, rest));
        *result = same ? value : BPE_NEVER;
        if ((same != 0) | (slots[BPE_LINE - 1] == UINT64_MAX)) return same != 0;
        line = (line + 1) & table->last_line;
    }
}

/* Sixteen pairs at a time. */
BPE_FOR_PAIRS static inline size_t bpe_list_pairs_avx512(
    const bpe_high_table *table, const uint32_t *low, size_t n, bpe_high_block *block) {
    const __m512i one = _mm512_set1_epi32(1), low_bits = _mm512_set1_epi32(31);
    const __m128i shift = _mm_cvtsi32_si128(table->shift);
    __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t found = 0;
    for (size_t i = 0; i + 1 < n; i += 16) {
        __mmask16 any = n - 1 - i < 16 ? (__mmask16)((1u << (n - 1 - i)) - 1) : 0xFFFF;
        __m512i left = _mm512_maskz_loadu_epi32(any, low + i);
        __m512i right = _mm512_maskz_loadu_epi32(any, low + i + 1), hash, words, bits;
        hash = _mm512_add_epi32(_mm512_mullo_epi32(left, _mm512_set1_epi32((int)0x9E3779B1u)),
                                _mm512_mullo_epi32(right, _mm512_set1_epi32((int)0x85EBCA6Bu)));
        hash = _mm512_xor_si512(hash, _mm512_srli_epi32(hash, 15));
        hash = _mm512_mullo_epi32(hash, _mm512_set1_epi32((int)0x2C1B3C6Du));
        words = _mm512_and_si512(_mm512_srli_epi32(hash, 10), _mm512_set1_epi32((int)table->filter_mask));
        words = _mm512_i32gather_epi32(words, (const void *)table->filter, 4);
        bits = _mm512_or_si512(_mm512_sllv_epi32(one, _mm512_and_si512(hash, low_bits)),
                               _mm512_sllv_epi32(one, _mm512_and_si512(_mm512_srli_epi32(hash, 5), low_bits)));
        any = _mm512_mask_cmpeq_epi32_mask(any, _mm512_and_si512(words, bits), bits);
        hash = _mm512_srl_epi32(_mm512_mullo_epi32(hash, _mm512_set1_epi32((int)0x9E3779B1u)), shift);
        _mm256_storeu_si256((__m256i *)(block->pairs + found),
                            _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(any, numbers)));
        _mm512_storeu_si512((void *)(block->lines + found), _mm512_maskz_compress_epi32(any, hash));
        found += (size_t)__builtin_popcount(any);
        numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16));
    }
    return found;
}

#endif

/* Look up the first n pairs listed; the number of those that are joined, which are the first ones then. */
BPE_INLINE static inline size_t bpe_look_up_pairs(const bpe_high_table *table, int level, bpe_high_block *block, size_t n) {
    size_t joined = 0;
    for (size_t i = 0; i < n; i++) __builtin_prefetch(&table->slots[(size_t)block->lines[i] * BPE_LINE]);
    for (size_t i = 0; i < n; i++) {
        uint16_t at = block->pairs[i];
        uint64_t key = bpe_high_key(block->tokens[at], block->tokens[at + 1]);
        block->pairs[joined] = at;
#ifdef BPE_X86
        if (level == 3) joined += (size_t)bpe_high_find_avx512(table, key, block->lines[i], &block->results[at]);
        else
#endif
            joined += (size_t)bpe_high_find(table, key, block->lines[i], &block->results[at]);
    }
    (void)level;
    return joined;
}

/* Merge segments of two tokens, given n joined pairs of `size` low tokens, and list the others; the number of the short. */
BPE_INLINE static inline size_t bpe_find_segments(bpe_high_block *block, const uint32_t *low, size_t size, size_t n) {
    size_t found = 0, n_long = 0, start = 0, before = 0;
    block->pairs[n] = BPE_BLOCK; /* which is next to no pair */
    for (size_t i = 0; i < n; i++) {
        size_t at = block->pairs[i], after = block->pairs[i + 1] == at + 1, is_long;
        uint32_t result = block->results[at], merged = (uint32_t)((before | after) | (result == BPE_NEVER)) - 1;
        block->tokens[at] = (result & merged) | (low[at] & ~merged);
        block->tokens[at + 1] = (BPE_HOLE & merged) | (low[at + 1] & ~merged);
        start ^= (start ^ at) & (before - 1);
        is_long = at + 2 - start > BPE_FEW;
        block->starts[found] = block->long_starts[n_long] = (uint16_t)start;
        block->sizes[found] = block->long_sizes[n_long] = (uint16_t)(at + 2 - start);
        found += (before > after) & !is_long;
        n_long += (before > after) & is_long;
        before = after;
    }
    block->n_long = n_long;
    block->last = n && block->pairs[n - 1] + (size_t)2 == size ? start : size - 1;
    return found;
}

/* Merge n <= BPE_BLOCK low tokens, but for long segments. */
BPE_INLINE static inline void bpe_merge_block_at(
    const bpe_high_table *table, int level, const uint32_t *low, size_t n, bpe_high_block *block) {
    size_t n_pairs, n_segments;
    memcpy(block->tokens, low, n * sizeof *low);
#ifdef BPE_X86
    n_pairs = level == 3 ? bpe_list_pairs_avx512(table, low, n, block) : bpe_list_pairs(table, low, n, block);
#else
    n_pairs = bpe_list_pairs(table, low, n, block);
#endif
    n_pairs = bpe_look_up_pairs(table, level, block, n_pairs);
    n_segments = bpe_find_segments(block, low, n, n_pairs);
    while (n_segments) {
        n_segments = bpe_merge_best(table, block, n_segments, &n_pairs);
        bpe_look_up_pairs(table, level, block, n_pairs);
    }
}

static void bpe_merge_block_plain(const bpe_high_table *table, const uint32_t *low, size_t n, bpe_high_block *block) {
    bpe_merge_block_at(table, 0, low, n, block);
}

/* Write n tokens without the holes; their number. Up to 16 more elements of `out` are written. */
static size_t bpe_without_holes_plain(const uint32_t *tokens, size_t n, uint32_t *out) {
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        out[written] = tokens[i];
        written += tokens[i] != BPE_HOLE;
    }
    return written;
}

static void (*bpe_merge_block)(const bpe_high_table *, const uint32_t *, size_t, bpe_high_block *) = bpe_merge_block_plain;
static size_t (*bpe_without_holes)(const uint32_t *, size_t, uint32_t *) = bpe_without_holes_plain;

#ifdef BPE_X86
BPE_FOR_PAIRS static void bpe_merge_block_avx512(
    const bpe_high_table *table, const uint32_t *low, size_t n, bpe_high_block *block) {
    bpe_merge_block_at(table, 3, low, n, block);
}

BPE_FOR_PAIRS static size_t bpe_without_holes_avx512(const uint32_t *tokens, size_t n, uint32_t *out) {
    const __m512i hole = _mm512_set1_epi32((int)BPE_HOLE);
    size_t written = 0;
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 any = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xFFFF;
        __m512i some = _mm512_maskz_loadu_epi32(any, tokens + i);
        any = _mm512_mask_cmpneq_epi32_mask(any, some, hole);
        _mm512_storeu_si512((void *)(out + written), _mm512_maskz_compress_epi32(any, some));
        written += (size_t)__builtin_popcount(any);
    }
    return written;
}
#endif

/* Use the versions of a vector level (base/_cpu.pxd). */
static void bpe_use_level_pairs(int level) {
    bpe_merge_block = bpe_merge_block_plain;
    bpe_without_holes = bpe_without_holes_plain;
#ifdef BPE_X86
    if (level >= 3) bpe_merge_block = bpe_merge_block_avx512, bpe_without_holes = bpe_without_holes_avx512;
#endif
    (void)level;
}

#endif
