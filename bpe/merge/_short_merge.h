/* Looking up merges, and merging up to 64 symbols without a heap.
 *
 * The pairs of a row of symbols have a priority each, rank << 6 | position, in an array that is scanned for the least one:
 * the next pair to merge. A pair without a merge has a priority of at least 2**31. The scan is vector code; base/_cpu.pyx
 * chooses its version. Merging 64 symbols takes at most 63 scans of 64 priorities.
 */
#ifndef BPE_SHORT_MERGE_H
#define BPE_SHORT_MERGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/pretokenize/_char_masks.h"

#define BPE_NO_MERGE UINT64_MAX /* in a slot: it is free; as a merge: there is none */

typedef struct {
    uint64_t pair;  /* left << 32 | right */
    uint64_t merge; /* rank << 32 | id of the merge result */
} bpe_slot;

typedef struct {
    const bpe_slot *slots; /* open addressing, a power of two of them, at most half of them used */
    size_t mask;
    const uint64_t *filter; /* a Bloom filter with two bits per merge: most pairs have none, and it stays in a near cache */
    size_t filter_mask;     /* of words */
    const uint64_t *of_bytes; /* merges of two bytes, by the first | the second << 8; NULL in a character model */
} bpe_merges;

static const bpe_slot bpe_free_slot = {BPE_NO_MERGE, BPE_NO_MERGE};

static inline uint64_t bpe_pair_hash(uint64_t pair) {
    uint64_t product = pair * 0x9E3779B97F4A7C15ull;
    return product ^ product >> 32;
}

/* The word of the filter for a pair, and its two bits there. */
static inline size_t bpe_filter_word(const bpe_merges *merges, uint64_t hash) { return hash >> 38 & merges->filter_mask; }
static inline uint64_t bpe_filter_bits(uint64_t hash) {
    return (uint64_t)1 << (hash >> 32 & 63) | (uint64_t)1 << (hash >> 58);
}

/* The merge of two tokens: rank << 32 | id, or BPE_NO_MERGE. */
static inline uint64_t bpe_find_pair(const bpe_merges *merges, uint32_t left, uint32_t right) {
    uint64_t pair = (uint64_t)left << 32 | right, hash = bpe_pair_hash(pair);
    uint64_t missing = bpe_filter_bits(hash) & ~merges->filter[bpe_filter_word(merges, hash)];
    size_t at = hash & merges->mask;
    const bpe_slot *slot = &merges->slots[at];
    slot = missing ? &bpe_free_slot : slot;
    while (slot->pair != pair && slot->pair != BPE_NO_MERGE) {
        at = (at + 1) & merges->mask;
        slot = &merges->slots[at];
    }
    return slot->merge;
}

/* Up to 64 symbols that become tokens. A token is at the position of its first symbol. */
typedef struct {
    uint32_t token[64];
    uint32_t result[64];  /* merge result of the token at a position and the next token, if they have one */
    int32_t priority[64]; /* of that merge: rank << 6 | position, less 2**31; INT32_MAX if there is none */
    uint64_t live;        /* positions where a token starts */
    ptrdiff_t n;          /* symbols */
} bpe_row;

static inline void bpe_set_merge(bpe_row *row, ptrdiff_t at, uint64_t merge) {
    row->result[at] = (uint32_t)merge;
    row->priority[at] = (int32_t)(((uint32_t)(merge >> 32) << 6 | (uint32_t)at) ^ 0x80000000u);
}

/* The row of 1 to 64 bytes; `ids` has the token of each byte. */
static inline void bpe_row_of_bytes(
    bpe_row *row, const bpe_merges *merges, const uint32_t *ids, const uint8_t *piece, ptrdiff_t n) {
    row->n = n;
    for (ptrdiff_t i = 0; i < n; i++) row->token[i] = ids[piece[i]];
    for (ptrdiff_t i = 0; i < n - 1; i++)
        bpe_set_merge(row, i, merges->of_bytes[piece[i] | (size_t)piece[i + 1] << 8]);
}

static inline void bpe_row_of_symbols(bpe_row *row, const bpe_merges *merges, const uint32_t *symbols, ptrdiff_t n) {
    row->n = n;
    memcpy(row->token, symbols, (size_t)n * sizeof *symbols);
    for (ptrdiff_t i = 0; i < n - 1; i++) bpe_set_merge(row, i, bpe_find_pair(merges, symbols[i], symbols[i + 1]));
}

/* Copy the tokens of a merged row to `out`; their number. */
static inline ptrdiff_t bpe_tokens_of(const bpe_row *row, uint32_t *out) {
    ptrdiff_t n = 0;
    for (uint64_t live = row->live; live; live &= live - 1) out[n++] = row->token[bpe_ctz(live)];
    return n;
}

/* Merge the symbols of a row. Example with GPT-2's ranks: `l o w e s t` merges e s, es t, l o, lo w; `low est` is left. */
BPE_INLINE static inline void bpe_merge_symbols(const bpe_merges *merges, bpe_row *row) {
    ptrdiff_t padded = (row->n + 7) & ~(ptrdiff_t)7;
    row->live = ~(uint64_t)0 >> (64 - row->n);
    for (ptrdiff_t i = row->n - 1; i < padded; i++) row->priority[i] = INT32_MAX;
    for (;;) {
        int32_t least = INT32_MAX;
        for (ptrdiff_t i = 0; i < padded; i++) least = row->priority[i] < least ? row->priority[i] : least;
        if (least >= 0) return;
        int at = least & 63;
        uint64_t after = row->live & ~(uint64_t)1 << at, before = row->live & (((uint64_t)1 << at) - 1);
        row->token[at] = row->result[at];
        row->priority[at] = row->priority[bpe_ctz(after)] = INT32_MAX;
        row->live ^= after & (0 - after);
        after &= after - 1;
        if (after) bpe_set_merge(row, at, bpe_find_pair(merges, row->token[at], row->token[bpe_ctz(after)]));
        if (before) {
            int left = 63 - bpe_clz(before);
            bpe_set_merge(row, left, bpe_find_pair(merges, row->token[left], row->token[at]));
        }
    }
}

static void bpe_merge_row_plain(const bpe_merges *merges, bpe_row *row) { bpe_merge_symbols(merges, row); }
BPE_FOR_AVX2 static void bpe_merge_row_avx2(const bpe_merges *merges, bpe_row *row) { bpe_merge_symbols(merges, row); }

static void (*bpe_merge_row)(const bpe_merges *merges, bpe_row *row) = bpe_merge_row_plain;

/* Use the version of a vector level (base/_cpu.pxd). */
static void bpe_use_level_merge(int level) { bpe_merge_row = level >= 2 ? bpe_merge_row_avx2 : bpe_merge_row_plain; }

#endif
