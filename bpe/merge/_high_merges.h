/* Merging rows of low tokens by the high merges (_high_merges.pyx), a block of them at a time.
 *
 * One table answers for two neighbouring tokens: whether their pair may be joined, and into which token. It is a
 * perfect hash table: every pair in it has a slot of its own. Pairs fall into small buckets. The pilot of a bucket, a
 * number that is chosen when the table is built, sends all its pairs to free slots. Beside the pilot is a Bloom filter,
 * where most pairs end that are not in the table. Tokens of high merges rise with their ranks: the least result is the
 * best merge.
 *
 * Branches on what the text is are mispredicted, and waiting for one look-up after the other takes long. So every step
 * is taken for all pairs or runs of a block before the next one; with AVX-512, for sixteen at a time without
 * branches (_high_merges_avx512.h).
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
    BPE_NEVER = 0x3FFFFF, /* result: the pair is joined, but its two tokens have no merge */
    BPE_PILOTS = 256,
    BPE_MAX_RUN = 24,     /* tokens of a run that is merged here, at most */
    BPE_BLOCK = 1024,     /* low tokens of a block */
    BPE_LANES = 16,       /* of a vector; runs of a group */
    BPE_MAX_RUNS = BPE_BLOCK / 3 + 1, /* runs of three tokens or more, at most */
    BPE_GROUPS = BPE_MAX_RUNS / BPE_LANES + 1,
    /* Rows of all groups. They are sorted by size: the longest run of a group is not longer than any of the next one,
     * which has sixteen unless it is the last. So but for the last two, they have a sixteenth of the tokens at most. */
    BPE_ROWS = BPE_BLOCK / BPE_LANES + 2 * BPE_MAX_RUN + BPE_GROUPS,
};
/* In place of a token that was merged with the one before it, or of none; its lower bits are those of no token. */
#define BPE_HOLE 0xFFFFFFFEu
#define BPE_PRETOKEN_BREAK BPE_HOLE /* between two pretokens */
#define BPE_APART 0xFFFFFFFFu /* result: nothing joins the pair */

typedef struct {
    uint64_t *slots;   /* UINT64_MAX is free */
    uint32_t *buckets; /* a bucket's pilot | its filter << 8, with two bits per pair */
    int slot_shift, bucket_shift; /* of a hash, that leave the slot and the bucket */
} bpe_high_table;

typedef struct {
    uint32_t lefts[BPE_BLOCK + BPE_LANES], rights[BPE_BLOCK + BPE_LANES], results[BPE_BLOCK + BPE_LANES];
    uint32_t slots[BPE_BLOCK + BPE_LANES];
    uint16_t places[BPE_BLOCK + BPE_LANES]; /* with AVX-512, of those kept: a mask of each sixteen */
} bpe_high_pairs;

/* Runs of about one size, each in a lane. Row k of their tokens and results has the k-th ones of each. */
typedef struct {
    size_t row, size;                           /* the first row, and the most tokens of a run that goes on */
    uint32_t at[BPE_LANES];                     /* where the last round merged two tokens */
    uint32_t left[BPE_LANES], right[BPE_LANES]; /* the tokens beside their result, or HOLE */
} bpe_high_group;

typedef struct {
    bpe_high_pairs pairs, kept;                 /* those of a round, and those that the filter lets pass */
    uint32_t tokens[BPE_BLOCK + BPE_LANES + 1]; /* with holes */
    uint32_t results[BPE_BLOCK + 64];           /* at the place of the left token of a pair: what it merges to */
    uint64_t joined[BPE_BLOCK / 64 + 2];        /* bit i % 64 of word i / 64 + 1: token i is joined with the next */
    uint16_t starts[BPE_MAX_RUNS], sizes[BPE_MAX_RUNS]; /* of runs of a few tokens */
    /* Of runs that are not merged here. */
    uint16_t long_starts[BPE_BLOCK / BPE_MAX_RUN + 1], long_sizes[BPE_BLOCK / BPE_MAX_RUN + 1];
    size_t n_long;
    size_t last; /* the start of the last run, which may go on after the block */
    uint16_t sorted[BPE_MAX_RUNS]; /* numbers of runs, by size */
    uint32_t row_tokens[BPE_ROWS][BPE_LANES] __attribute__((aligned(64)));
    uint32_t row_results[BPE_ROWS][BPE_LANES] __attribute__((aligned(64)));
    bpe_high_group groups[BPE_GROUPS];
} bpe_high_block;

static inline uint64_t bpe_high_key(uint32_t left, uint32_t right) {
    return (uint64_t)left << (BPE_TOKEN_BITS + BPE_RESULT_BITS) | (uint64_t)right << BPE_RESULT_BITS;
}
static inline uint32_t bpe_high_hash(uint32_t left, uint32_t right) {
    uint32_t mixed = left * 0x9E3779B1u + right * 0x85EBCA6Bu;
    return (mixed ^ mixed >> 15) * 0x2C1B3C6Du;
}
static inline uint32_t bpe_high_bits(uint32_t hash) { return 1u << (8 + (hash & 15)) | 1u << (24 + (hash >> 4 & 7)); }
static inline uint32_t bpe_high_slot(const bpe_high_table *table, uint32_t left, uint32_t right, uint32_t pilot) {
    uint32_t mixed = (left * 0xC2B2AE3Du + right) * 0x27D4EB2Fu ^ pilot * 0x165667B1u;
    return (mixed ^ mixed >> 15) * 0x9E3779B1u >> table->slot_shift;
}
static inline uint32_t bpe_high_bucket(const bpe_high_table *table, uint32_t hash) {
    return table->buckets[hash >> table->bucket_shift];
}
static inline int bpe_may_be_joined(uint32_t bucket, uint32_t hash) {
    uint32_t bits = bpe_high_bits(hash);
    return (bucket & bits) == bits;
}
/* What a pair merges to, or NEVER, or APART, given where it would be. */
static inline uint32_t bpe_high_result(const bpe_high_table *table, uint32_t left, uint32_t right, uint32_t slot) {
    uint64_t rest = table->slots[slot] ^ bpe_high_key(left, right);
    return (uint32_t)rest | ((uint32_t)(rest >> BPE_RESULT_BITS == 0) - 1);
}
static inline int bpe_is_joined(const bpe_high_table *table, uint32_t left, uint32_t right) {
    uint32_t pilot = bpe_high_bucket(table, bpe_high_hash(left, right)) % BPE_PILOTS;
    return bpe_high_result(table, left, right, bpe_high_slot(table, left, right, pilot)) != BPE_APART;
}

/* The results of n pairs. */
static inline void bpe_find_pairs(
    const bpe_high_table *table, const uint32_t *left, const uint32_t *right, size_t n, bpe_high_pairs *kept,
    uint32_t *results) {
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t hash = bpe_high_hash(left[i], right[i]), bucket = bpe_high_bucket(table, hash);
        results[i] = BPE_APART;
        kept->places[n_kept] = (uint16_t)i;
        kept->slots[n_kept] = bucket % BPE_PILOTS;
        n_kept += (size_t)bpe_may_be_joined(bucket, hash);
    }
    for (size_t i = 0; i < n_kept; i++) {
        size_t at = kept->places[i];
        kept->slots[i] = bpe_high_slot(table, left[at], right[at], kept->slots[i]);
        __builtin_prefetch(&table->slots[kept->slots[i]]);
    }
    for (size_t i = 0; i < n_kept; i++) {
        size_t at = kept->places[i];
        results[at] = bpe_high_result(table, left[at], right[at], kept->slots[i]);
    }
}

/* The number of tokens from one on that are joined with the next. */
static inline size_t bpe_n_joined(const uint64_t *joined, size_t at) {
    for (size_t n = 0;;) {
        const uint64_t *word = joined + 1 + (at + n) / 64;
        size_t bit = (at + n) % 64;
        uint64_t apart = ~(word[0] >> bit | word[1] << 1 << (63 - bit));
        if (apart) return n + (size_t)__builtin_ctzll(apart);
        n += 64;
    }
}

/* Merge runs of two tokens, and list the longer ones of n tokens; the number of the short ones. */
static inline size_t bpe_find_runs(bpe_high_block *block, size_t n) {
    size_t found = 0;
    block->n_long = 0;
    for (size_t i = 0; i < n; i += 64) {
        const uint64_t *word = block->joined + i / 64 + 1;
        uint64_t before = word[0] << 1 | word[-1] >> 63, after = word[0] >> 1 | word[1] << 63;
        for (uint64_t bits = word[0] & ~before & ~after; bits; bits &= bits - 1) {
            size_t at = i + (size_t)__builtin_ctzll(bits);
            uint32_t result = block->results[at], merged = (uint32_t)(result == BPE_NEVER) - 1;
            block->tokens[at] = (result & merged) | (block->tokens[at] & ~merged);
            block->tokens[at + 1] = (BPE_HOLE & merged) | (block->tokens[at + 1] & ~merged);
        }
        for (uint64_t bits = word[0] & ~before & after; bits; bits &= bits - 1) {
            size_t at = i + (size_t)__builtin_ctzll(bits), size = bpe_n_joined(block->joined, at) + 1;
            if (size > BPE_MAX_RUN) {
                block->long_starts[block->n_long] = (uint16_t)at;
                block->long_sizes[block->n_long++] = (uint16_t)size;
                continue;
            }
            block->starts[found] = (uint16_t)at;
            block->sizes[found++] = (uint16_t)size;
        }
    }
    for (block->last = n - 1; block->last > 0 && block->results[block->last - 1] != BPE_APART;) block->last--;
    return found;
}

/* In a loop of two or three rounds, which vectors only slow down. */
#define BPE_AS_WRITTEN __asm__ volatile("")

/* Merge the best pair of each of n runs, and list the new pairs; the number of runs that go on. */
static inline size_t bpe_merge_best(bpe_high_block *block, size_t n, size_t *n_pairs) {
    bpe_high_pairs *pairs = &block->pairs;
    size_t going_on = 0, listed = 0;
    for (size_t k = 0; k < n; k++) {
        size_t start = block->starts[k], size = block->sizes[k] - (size_t)1, at = 0;
        uint32_t *tokens = block->tokens + start, *results = block->results + start;
        for (size_t i = 1; i < size; i++) {
            BPE_AS_WRITTEN;
            at = results[i] < results[at] ? i : at;
        }
        if (results[at] >= BPE_NEVER) continue;
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
            pairs->lefts[listed] = tokens[i];
            pairs->rights[listed] = tokens[i + 1];
            pairs->places[listed++] = (uint16_t)(start + i);
        }
        block->starts[going_on] = (uint16_t)start;
        block->sizes[going_on] = (uint16_t)size;
        going_on += size > 1;
    }
    *n_pairs = listed;
    return going_on;
}

/* Merge n <= BPE_BLOCK low tokens, but for long runs. */
static void bpe_merge_block_plain(const bpe_high_table *table, const uint32_t *low, size_t n, bpe_high_block *block) {
    bpe_high_pairs *pairs = &block->pairs;
    size_t n_runs, n_pairs;
    memcpy(block->tokens, low, n * sizeof *low);
    bpe_find_pairs(table, low, low + 1, n - 1, &block->kept, block->results);
    memset(block->results + n - 1, 0xFF, 64 * sizeof *low); /* the last token has no next one */
    memset(block->joined, 0, ((n + 63) / 64 + 2) * sizeof *block->joined);
    for (size_t i = 0; i < n; i++) block->joined[i / 64 + 1] |= (uint64_t)(block->results[i] != BPE_APART) << i % 64;
    n_runs = bpe_find_runs(block, n);
    while (n_runs) {
        n_runs = bpe_merge_best(block, n_runs, &n_pairs);
        bpe_find_pairs(table, pairs->lefts, pairs->rights, n_pairs, &block->kept, pairs->results);
        for (size_t i = 0; i < n_pairs; i++) block->results[pairs->places[i]] = pairs->results[i];
    }
}

/* Write n tokens without the holes; their number. Up to 16 more elements of `out` are written. */
static size_t bpe_copy_without_breaks_plain(const uint32_t *tokens, size_t n, uint32_t *out) {
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        out[written] = tokens[i];
        written += tokens[i] != BPE_HOLE;
    }
    return written;
}

static void (*bpe_merge_block)(const bpe_high_table *, const uint32_t *, size_t, bpe_high_block *) =
    bpe_merge_block_plain;
static size_t (*bpe_copy_without_breaks)(const uint32_t *, size_t, uint32_t *) = bpe_copy_without_breaks_plain;

#ifdef BPE_X86
#include "bpe/merge/_high_merges_avx512.h"
#endif

/* Use the versions of a vector level (base/_cpu.pxd). */
static void bpe_use_level_pairs(int level) {
    bpe_merge_block = BPE_BEST(level, bpe_merge_block_plain, bpe_merge_block_plain, bpe_merge_block_avx512);
    bpe_copy_without_breaks =
        BPE_BEST(level, bpe_copy_without_breaks_plain, bpe_copy_without_breaks_plain, bpe_copy_without_breaks_avx512);
}

#endif
