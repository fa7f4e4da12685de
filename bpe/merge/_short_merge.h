/* Looking up merges, and merging rows of up to 64 symbols without a heap.
 *
 * The pairs of a row of symbols have a priority each, rank << 6 | position, in an array that is scanned for the least one:
 * the next pair to merge. A pair without a merge has a priority of at least 2**31. The scan is vector code; base/_cpu.pyx
 * chooses its version. Merging 64 symbols takes at most 63 scans of 64 priorities.
 *
 * Each merge waits for the look-ups of the one before it, and those of new words are seldom in a near cache. So several
 * rows are merged at once, a merge of each in turn: what one waits for is fetched while the others take the same step.
 */
#ifndef BPE_SHORT_MERGE_H
#define BPE_SHORT_MERGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/base/_mix.h"
#include "bpe/pretokenize/_char_masks.h"

#define BPE_NO_MERGE UINT64_MAX /* as a merge: there is none; in a slot: it is free */

typedef struct {
    /* Open addressing, a power of two of slots. A slot has the key of a pair and, below it, the index of its merge. */
    const uint64_t *slots;
    size_t mask;
    int token_bits, index_bits;
    uint32_t first_result;    /* merge i has the rank i and the result first_result + i, */
    const uint64_t *merges;   /* unless there is an array of rank << 32 | result */
    const uint64_t *pairs;    /* NULL, or the pair of each merge, if tokens have so many bits that pairs may share a key */
    const uint64_t *filter;   /* a Bloom filter with two bits per merge: most pairs have none, and it stays in a near cache */
    size_t filter_mask;       /* of words */
    const uint64_t *byte_pair_merges; /* of two bytes, by the first | the second << 8; NULL in a character model */
} bpe_merges;

static const uint64_t bpe_free_slot = BPE_NO_MERGE;

static inline uint64_t bpe_pair_hash(uint64_t pair) { return bpe_hash_one(pair); }

/* The word of the filter for a pair, and its two bits there. */
static inline size_t bpe_filter_word(const bpe_merges *merges, uint64_t hash) { return hash >> 38 & merges->filter_mask; }
static inline uint64_t bpe_filter_bits(uint64_t hash) {
    return (uint64_t)1 << (hash >> 32 & 63) | (uint64_t)1 << (hash >> 58);
}

/* Whether the filter lets a pair pass; else it has no merge. */
static inline int bpe_may_merge(const bpe_merges *merges, uint64_t hash) {
    return !(bpe_filter_bits(hash) & ~merges->filter[bpe_filter_word(merges, hash)]);
}

/* What the slot of a pair, left << 32 | right, has above the index of its merge. */
static inline uint64_t bpe_pair_key(const bpe_merges *merges, uint64_t pair) {
    return (pair >> 32 << merges->token_bits ^ (uint32_t)pair) << merges->index_bits;
}

/* A merge by its index: rank << 32 | result. */
static inline uint64_t bpe_get_merge(const bpe_merges *merges, uint64_t merge_index) {
    if (merges->merges) return merges->merges[merge_index];
    return merge_index << 32 | (uint32_t)(merge_index + merges->first_result);
}

/* Whether a slot that is not free is that of a pair. */
static inline int bpe_is_slot_of(const bpe_merges *merges, uint64_t slot, uint64_t key, uint64_t pair) {
    uint64_t merge_index = slot ^ key;
    return merge_index >> merges->index_bits == 0 && (merges->pairs == NULL || merges->pairs[merge_index] == pair);
}

/* The merge of a pair, from the slot where the search for it begins. */
static inline uint64_t bpe_merge_from(const bpe_merges *merges, const uint64_t *slot, uint64_t pair, uint64_t hash) {
    uint64_t key = bpe_pair_key(merges, pair);
    for (size_t at = hash & merges->mask; *slot != BPE_NO_MERGE; slot = &merges->slots[at]) {
        if (bpe_is_slot_of(merges, *slot, key, pair)) return bpe_get_merge(merges, *slot ^ key);
        at = (at + 1) & merges->mask;
    }
    return BPE_NO_MERGE;
}

/* The index of the slot of a pair, or of the free one where it would be. */
static inline size_t bpe_find_slot(const bpe_merges *merges, uint64_t pair, uint64_t hash) {
    uint64_t key = bpe_pair_key(merges, pair);
    size_t at = hash & merges->mask;
    while (merges->slots[at] != BPE_NO_MERGE && !bpe_is_slot_of(merges, merges->slots[at], key, pair))
        at = (at + 1) & merges->mask;
    return at;
}

/* The merge of two tokens: rank << 32 | id, or BPE_NO_MERGE. */
static inline uint64_t bpe_find_pair(const bpe_merges *merges, uint32_t left, uint32_t right) {
    uint64_t pair = (uint64_t)left << 32 | right, hash = bpe_pair_hash(pair);
    const uint64_t *slot = &merges->slots[hash & merges->mask];
    return bpe_merge_from(merges, bpe_may_merge(merges, hash) ? slot : &bpe_free_slot, pair, hash);
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
static inline void bpe_fill_row_from_bytes(
    bpe_row *row, const bpe_merges *merges, const uint32_t *ids, const uint8_t *piece, ptrdiff_t n) {
    row->n = n;
    for (ptrdiff_t i = 0; i < n; i++) row->token[i] = ids[piece[i]];
    for (ptrdiff_t i = 0; i < n - 1; i++)
        bpe_set_merge(row, i, merges->byte_pair_merges[piece[i] | (size_t)piece[i + 1] << 8]);
}

static inline void bpe_fill_row_from_symbols(bpe_row *row, const bpe_merges *merges, const uint32_t *symbols, ptrdiff_t n) {
    row->n = n;
    memcpy(row->token, symbols, (size_t)n * sizeof *symbols);
    for (ptrdiff_t i = 0; i < n - 1; i++) bpe_set_merge(row, i, bpe_find_pair(merges, symbols[i], symbols[i + 1]));
}

/* Copy the tokens of a merged row to `out`; their number. */
static inline ptrdiff_t bpe_copy_row_tokens(const bpe_row *row, uint32_t *out) {
    ptrdiff_t n = 0;
    for (uint64_t live = row->live; live; live &= live - 1) out[n++] = row->token[bpe_ctz(live)];
    return n;
}

/* A token that a merge has made, and the positions of its neighbours. */
typedef struct {
    int at, left, right;       /* without a neighbour, any position of the row */
    int has_left, has_right;
} bpe_joined;

/* Prepare a row for merging: its pairs have their priorities. */
static inline void bpe_open_row(bpe_row *row) {
    row->live = ~(uint64_t)0 >> (64 - row->n);
    for (ptrdiff_t i = row->n - 1; i < ((row->n + 7) & ~(ptrdiff_t)7); i++) row->priority[i] = INT32_MAX;
}

/* Apply the best merge of a row, if there is one. The new token's pairs are without a merge until they are looked up. */
BPE_INLINE static inline int bpe_merge_best_pair(bpe_row *row, bpe_joined *joined) {
    int32_t best = INT32_MAX;
    ptrdiff_t padded = (row->n + 7) & ~(ptrdiff_t)7;
    uint64_t after, before;
    for (ptrdiff_t i = 0; i < padded; i++) best = row->priority[i] < best ? row->priority[i] : best;
    if (best >= 0) return 0;
    joined->at = best & 63;
    after = row->live & ~(uint64_t)1 << joined->at, before = row->live & (((uint64_t)1 << joined->at) - 1);
    row->token[joined->at] = row->result[joined->at];
    row->priority[joined->at] = row->priority[bpe_ctz(after)] = INT32_MAX;
    row->live ^= after & (0 - after);
    after &= after - 1;
    joined->has_left = before != 0, joined->has_right = after != 0;
    joined->left = 63 - bpe_clz(before | 1), joined->right = after ? bpe_ctz(after) : joined->at;
    return 1;
}

/* Merge the symbols of a row. Example with GPT-2's ranks: `l o w e s t` merges e s, es t, l o, lo w; `low est` is left. */
BPE_INLINE static inline void bpe_merge_symbols(const bpe_merges *merges, bpe_row *row) {
    const uint32_t *token = row->token;
    bpe_joined new;
    bpe_open_row(row);
    while (bpe_merge_best_pair(row, &new)) {
        if (new.has_right) bpe_set_merge(row, new.at, bpe_find_pair(merges, token[new.at], token[new.right]));
        if (new.has_left) bpe_set_merge(row, new.left, bpe_find_pair(merges, token[new.left], token[new.at]));
    }
}

enum { BPE_MAX_ROWS = 16 }; /* rows that are merged at once, at most */

/* A pair whose merge is to be looked up. */
typedef struct {
    uint64_t pair, hash;
    bpe_row *row;
    int at; /* of its left token */
} bpe_wanted;

static inline void bpe_want_pair(const bpe_merges *merges, bpe_row *row, int left, int right, bpe_wanted *wanted) {
    wanted->pair = (uint64_t)row->token[left] << 32 | row->token[right];
    wanted->hash = bpe_pair_hash(wanted->pair);
    wanted->row = row;
    wanted->at = left;
    __builtin_prefetch(&merges->filter[bpe_filter_word(merges, wanted->hash)]);
}

/* Merge the symbols of n <= BPE_MAX_ROWS rows. */
BPE_INLINE static inline void bpe_merge_together(const bpe_merges *merges, bpe_row *rows, size_t n) {
    bpe_row *going_on[BPE_MAX_ROWS];
    bpe_wanted wanted[2 * BPE_MAX_ROWS];
    for (size_t i = 0; i < n; i++) bpe_open_row(going_on[i] = &rows[i]);
    while (n) {
        size_t left = 0, n_wanted = 0, n_kept = 0;
        for (size_t i = 0; i < n; i++) {
            bpe_row *row = going_on[i];
            bpe_joined new;
            if (!bpe_merge_best_pair(row, &new)) continue;
            going_on[left++] = row;
            bpe_want_pair(merges, row, new.at, new.right, &wanted[n_wanted]);
            n_wanted += (size_t)new.has_right;
            bpe_want_pair(merges, row, new.left, new.at, &wanted[n_wanted]);
            n_wanted += (size_t)new.has_left;
            if (new.has_left) row->priority[new.left] = INT32_MAX;
        }
        for (size_t i = 0; i < n_wanted; i++) {
            uint64_t hash = wanted[i].hash;
            wanted[n_kept] = wanted[i];
            __builtin_prefetch(&merges->slots[hash & merges->mask]);
            n_kept += (size_t)bpe_may_merge(merges, hash);
        }
        for (size_t i = 0; i < n_kept; i++) {
            const uint64_t *slot = &merges->slots[wanted[i].hash & merges->mask];
            bpe_set_merge(
                wanted[i].row, wanted[i].at, bpe_merge_from(merges, slot, wanted[i].pair, wanted[i].hash));
        }
        n = left;
    }
}

/* Both functions for a vector level. */
#define BPE_MERGES_AT(target, level)                                                                                   \
    target static void bpe_merge_row_##level(const bpe_merges *merges, bpe_row *row) { bpe_merge_symbols(merges, row); } \
    target static void bpe_merge_rows_##level(const bpe_merges *merges, bpe_row *rows, size_t n) {                     \
        bpe_merge_together(merges, rows, n);                                                                           \
    }

BPE_MERGES_AT(, 0)
BPE_MERGES_AT(BPE_TARGET_AVX2, 2)

static void (*bpe_merge_row)(const bpe_merges *merges, bpe_row *row) = bpe_merge_row_0;
static void (*bpe_merge_rows)(const bpe_merges *merges, bpe_row *rows, size_t n) = bpe_merge_rows_0;

/* Use the versions of a vector level (base/_cpu.pxd). */
static void bpe_use_level_merge(int level) {
    bpe_merge_row = level >= 2 ? bpe_merge_row_2 : bpe_merge_row_0;
    bpe_merge_rows = level >= 2 ? bpe_merge_rows_2 : bpe_merge_rows_0;
}

#endif
