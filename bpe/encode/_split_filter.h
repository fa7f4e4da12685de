/* The split filter's tables, and splitting a slice of text by them with vector instructions.
 *
 * A candidate is a position between two adjacent characters of three bytes each. It is safe to split there if no token
 * contains bytes of both characters in this order. The filter is an array of 32-bit words, and a candidate is looked up
 * with one load: the last byte of the first character and the three bytes of the second hash to a word and to a bit of
 * it, which is set if some token starts inside the first character and reaches into the second. The first two bytes,
 * hashed with those four, give another bit of the same word, which is set if some token contains the first character
 * whole. A token that ends after the first byte of the second character would set 4,096 bits; such tokens have a table
 * of their own, `ends`, which fits two registers. base/_cpu.pyx chooses the version of each function.
 */
#ifndef BPE_SPLIT_FILTER_H
#define BPE_SPLIT_FILTER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/base/_vectors.h"
#include "bpe/pretokenize/_char_masks.h"

#define BPE_PAIR_FACTOR 0x9E3779B1u
#define BPE_FIRST_FACTOR 0x85EBCA6Bu

typedef struct {
    const uint32_t *bits; /* 2**(32 - shift) words, and one more with all bits set; NULL if nothing may be split */
    int shift;
    uint16_t ends[64];    /* by a character's last byte: a bit for each first byte of the next one that ends a token */
} bpe_split_tables;

static inline uint32_t bpe_pair_filter_hash(uint32_t last_and_three) { return last_and_three * BPE_PAIR_FACTOR; }
static inline uint32_t bpe_bit_within(uint32_t hash) { return (uint32_t)1 << (hash >> 14 & 31); }
static inline uint32_t bpe_bit_whole(uint32_t hash, uint32_t first_two) {
    return (uint32_t)1 << ((first_two ^ hash) * BPE_FIRST_FACTOR >> 27);
}

static inline uint32_t bpe_token_ends(const bpe_split_tables *splits, uint8_t last, uint8_t first) {
    return splits->ends[last & 63] >> (first & 15) & 1;
}

/* Whether the text may be split at a candidate; without a branch, which would be mispredicted. */
static inline int bpe_filter_allows_split(const bpe_split_tables *splits, const uint8_t *at) {
    uint32_t last_and_three, hash, joined;
    uint16_t first_two;
    memcpy(&last_and_three, at - 1, 4);
    memcpy(&first_two, at - 3, 2);
    hash = bpe_pair_filter_hash(last_and_three);
    joined = splits->bits[hash >> splits->shift] & (bpe_bit_within(hash) | bpe_bit_whole(hash, first_two));
    return (joined == 0) & (int)(bpe_token_ends(splits, at[-1], at[0]) ^ 1);
}

/* A slice of text of up to BPE_SLICE_WORDS * 64 bytes is split at once. Positions in it are bits of 64-bit words: bit i of
 * word w is the position before byte 64 * w + i. 64 zero bytes precede the slice, and 128 follow it. */
enum { BPE_SLICE_WORDS = 40 };

/* Masks of 64 bytes: those that are 0xE0-0xEF, which start a character of three bytes, and 0x80-0xBF, which continue one. */
#define BPE_LEADS(v) ((bpe_vector)(((v) & 0xF0) == 0xE0))
static inline void bpe_leads_and_tails(const uint8_t *text, uint64_t *leads, uint64_t *tails) {
    bpe_64_bytes block = bpe_load_64(text);
    *leads = BPE_MASK_64(BPE_LEADS, block);
    *tails = BPE_MASK_64(bpe_tails, block);
}
#undef BPE_LEADS

/* The candidates among 64 positions, from the masks of these bytes and of the 64 before and after. */
static inline uint64_t bpe_candidate_mask(
    uint64_t lead_before, uint64_t tail_before, uint64_t lead, uint64_t tail, uint64_t tail_after) {
    return lead & (lead << 3 | lead_before >> 61) & (tail << 1 | tail_before >> 63) & (tail << 2 | tail_before >> 62) &
           (tail >> 1 | tail_after << 63) & (tail >> 2 | tail_after << 62);
}

/* Set the bits of the positions of a slice where splitting is safe. */
typedef void (*bpe_find_splits_t)(const uint8_t *slice, size_t words, const bpe_split_tables *splits, uint64_t *safe);

static void bpe_find_splits_plain(const uint8_t *slice, size_t words, const bpe_split_tables *splits, uint64_t *safe) {
    uint64_t lead_before = 0, tail_before = 0, lead, tail, lead_after, tail_after;
    bpe_leads_and_tails(slice, &lead, &tail);
    for (size_t i = 0; i < words; i++) {
        uint64_t found = 0, mask;
        bpe_leads_and_tails(slice + 64 * i + 64, &lead_after, &tail_after);
        mask = bpe_candidate_mask(lead_before, tail_before, lead, tail, tail_after);
        for (; mask; mask &= mask - 1) {
            int bit = bpe_ctz(mask);
            found |= (uint64_t)bpe_filter_allows_split(splits, slice + 64 * i + bit) << bit;
        }
        safe[i] = found;
        lead_before = lead, tail_before = tail, lead = lead_after, tail = tail_after;
    }
}

/* The parts of a slice, to be added to the chunk. The arrays have room for 64 more than `capacity`. */
typedef struct {
    ptrdiff_t *start;
    ptrdiff_t *end;
    uint8_t *role;         /* of each: 0 for a whole piece, 1 for the last part of one, 2 for an inner part */
    size_t capacity;
    ptrdiff_t at;          /* start of the next part */
    uint64_t starts_piece; /* 1 if a piece starts there too, else 0 */
    size_t n;
    size_t n_ended;        /* pieces whose last part is one of these */
} bpe_split_parts;

/* List the parts that end at safe positions and at ends of pieces while there is room; the slice starts at `text`. */
typedef void (*bpe_list_parts_t)(
    const uint64_t *safe, const uint64_t *ends, size_t words, ptrdiff_t text, bpe_split_parts *parts);

/* One position at a time, until the room ends. */
static void bpe_list_last_parts(
    const uint64_t *safe, const uint64_t *ends, size_t words, ptrdiff_t text, bpe_split_parts *parts) {
    for (size_t i = 0; i < words; i++) {
        for (uint64_t found = safe[i] | ends[i]; found; found &= found - 1) {
            int bit = bpe_ctz(found);
            uint64_t last = ends[i] >> bit & 1;
            if (parts->n == parts->capacity) return;
            parts->start[parts->n] = parts->at;
            parts->end[parts->n] = parts->at = text + (ptrdiff_t)(64 * i) + bit;
            parts->role[parts->n++] = (uint8_t)(last ? ~parts->starts_piece & 1 : 2);
            parts->starts_piece = last;
            parts->n_ended += last;
        }
    }
}

/* Four positions at a time without a branch for each, but for the last words, where room may run out. */
BPE_INLINE static inline void bpe_list_parts_at(
    int level, const uint64_t *safe, const uint64_t *ends, size_t words, ptrdiff_t text, bpe_split_parts *parts) {
    size_t i = 0;
    for (; i < words; i++, text += 64) {
        uint64_t found = safe[i] | ends[i], left = found, before = parts->starts_piece, last;
        size_t count = (size_t)bpe_popcount(level, found);
        ptrdiff_t *start = parts->start + parts->n, *end = parts->end + parts->n;
        uint8_t *role = parts->role + parts->n;
        if (count == 0) continue;
        if (count > parts->capacity - parts->n) break;
        start[0] = parts->at;
        for (size_t k = 0; k < count; k += 4) {
            for (size_t j = k; j < k + 4; j++) {
                int bit = bpe_next_bit(level, left);
                end[j] = start[j + 1] = text + bit;
                last = ends[i] >> (bit & 63) & 1;
                role[j] = (uint8_t)(2 - last - (last & before));
                before = last;
                left &= left - 1;
            }
        }
        parts->at = start[count];
        parts->starts_piece = ends[i] >> (63 - bpe_clz(found)) & 1;
        parts->n += count;
        parts->n_ended += (size_t)bpe_popcount(level, ends[i]);
    }
    bpe_list_last_parts(safe + i, ends + i, words - i, text, parts);
}

static void bpe_list_parts_plain(
    const uint64_t *safe, const uint64_t *ends, size_t words, ptrdiff_t text, bpe_split_parts *parts) {
    bpe_list_parts_at(0, safe, ends, words, text, parts);
}

#ifdef BPE_X86
enum { BPE_CANDIDATES = BPE_SLICE_WORDS * 22 + 32 }; /* of a slice at most, and 32 that are written past them */

/* List the candidates of a slice; the result is their number. Eight zeros follow them. */
BPE_TARGET_AVX2 static size_t bpe_list_candidates_avx2(const uint8_t *slice, size_t words, uint32_t *candidates) {
    uint64_t lead_before = 0, tail_before = 0, lead, tail, lead_after, tail_after;
    size_t n = 0;
    bpe_leads_and_tails(slice, &lead, &tail);
    for (size_t i = 0; i < words; i++) {
        bpe_leads_and_tails(slice + 64 * i + 64, &lead_after, &tail_after);
        uint64_t mask = bpe_candidate_mask(lead_before, tail_before, lead, tail, tail_after);
        n += (size_t)bpe_bit_positions(2, mask, (uint32_t)(64 * i), candidates + n);
        lead_before = lead, tail_before = tail, lead = lead_after, tail = tail_after;
    }
    _mm256_storeu_si256((__m256i *)(candidates + n), _mm256_setzero_si256());
    return n;
}

/* All bits set for those of eight candidates after which a token ends with the next byte. The table of 64 times 16 bits is
 * four vectors of eight words: all four are permuted by three bits of the index, and two more choose among the results. */
BPE_TARGET_AVX2 static inline __m256i bpe_token_ends_avx2(const bpe_split_tables *splits, __m256i last_and_three) {
    const __m256i *table = (const __m256i *)splits->ends;
    __m256i index = _mm256_srli_epi32(last_and_three, 1); /* of the word of two entries */
#define LOOK_UP(i) _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(_mm256_loadu_si256(table + i), index))
#define CHOOSE(a, b, bit) _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(last_and_three, 31 - bit)))
    __m256 word = CHOOSE(CHOOSE(LOOK_UP(0), LOOK_UP(1), 4), CHOOSE(LOOK_UP(2), LOOK_UP(3), 4), 5);
#undef LOOK_UP
#undef CHOOSE
    __m256i half = _mm256_and_si256(_mm256_slli_epi32(last_and_three, 4), _mm256_set1_epi32(16));
    __m256i first = _mm256_and_si256(_mm256_srli_epi32(last_and_three, 8), _mm256_set1_epi32(15));
    __m256i bit = _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_or_si256(half, first));
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(word), bit), bit);
}

/* For eight candidates: the indexes of their words in the filter, and the bits to test there. */
BPE_TARGET_AVX2 static inline void bpe_hash_candidates_avx2(
    const uint8_t *slice, const bpe_split_tables *splits, const uint32_t *candidates, uint32_t *word_index, uint32_t *bits) {
    const __m256i one = _mm256_set1_epi32(1);
    uint64_t eight[8];
    for (int i = 0; i < 8; i++) memcpy(&eight[i], slice + candidates[i] - 3, 8);
    /* The shuffle takes halves lane by lane, so the third and the fourth candidate are in the first lane of `b`. */
    __m256i a = _mm256_set_epi64x((int64_t)eight[5], (int64_t)eight[4], (int64_t)eight[1], (int64_t)eight[0]);
    __m256i b = _mm256_set_epi64x((int64_t)eight[7], (int64_t)eight[6], (int64_t)eight[3], (int64_t)eight[2]);
#define LOW_HALVES(a, b) _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88))
    __m256i two = _mm256_and_si256(LOW_HALVES(a, b), _mm256_set1_epi32(0xFFFF));
    __m256i four = LOW_HALVES(_mm256_srli_epi64(a, 16), _mm256_srli_epi64(b, 16));
#undef LOW_HALVES
    __m256i hash = _mm256_mullo_epi32(four, _mm256_set1_epi32((int)BPE_PAIR_FACTOR));
    two = _mm256_mullo_epi32(_mm256_xor_si256(two, hash), _mm256_set1_epi32((int)BPE_FIRST_FACTOR));
    __m256i within = _mm256_and_si256(_mm256_srli_epi32(hash, 14), _mm256_set1_epi32(31));
    __m256i both = _mm256_or_si256(_mm256_sllv_epi32(one, within), _mm256_sllv_epi32(one, _mm256_srli_epi32(two, 27)));
    __m256i index = _mm256_srl_epi32(hash, _mm_cvtsi32_si128(splits->shift));
    __m256i all_set = _mm256_sll_epi32(one, _mm_cvtsi32_si128(32 - splits->shift));
    index = _mm256_blendv_epi8(index, all_set, bpe_token_ends_avx2(splits, four));
    _mm256_storeu_si256((__m256i *)word_index, index);
    _mm256_storeu_si256((__m256i *)bits, both);
}

/* List all candidates, hash them eight at a time, then load and test their words, with a byte for each result: no step waits
 * for another, and nothing branches on the data. (`pdep` is slow microcode before Zen 3.) */
BPE_TARGET_AVX2 static void bpe_find_splits_avx2(
    const uint8_t *slice, size_t words, const bpe_split_tables *splits, uint64_t *safe) {
    uint32_t candidates[BPE_CANDIDATES], word_index[BPE_CANDIDATES], bits[BPE_CANDIDATES];
    uint8_t allowed[64 * BPE_SLICE_WORDS];
    size_t n = bpe_list_candidates_avx2(slice, words, candidates);
    memset(allowed, 0, 64 * words);
    for (size_t k = 0; k < n; k += 8) bpe_hash_candidates_avx2(slice, splits, candidates + k, word_index + k, bits + k);
    for (size_t k = 0; k < n; k++) allowed[candidates[k]] = (splits->bits[word_index[k]] & bits[k]) == 0;
    for (size_t i = 0; i < 2 * words; i++) {
        __m256i some = _mm256_loadu_si256((const __m256i *)(allowed + 32 * i));
        uint32_t found = (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(some, 7));
        memcpy((uint8_t *)safe + 4 * i, &found, 4);
    }
}

BPE_TARGET_AVX2 static void bpe_list_parts_avx2(
    const uint64_t *safe, const uint64_t *ends, size_t words, ptrdiff_t text, bpe_split_parts *parts) {
    bpe_list_parts_at(2, safe, ends, words, text, parts);
}

/* Hash all candidates, sixteen at a time, then load their words, then test them: independent loads take half the time of a
 * gather on Zen 4. */
BPE_TARGET_AVX512 static void bpe_find_splits_avx512(
    const uint8_t *slice, size_t words, const bpe_split_tables *splits, uint64_t *safe) {
    const __m512i all_indexes = _mm512_loadu_si512((const void *)bpe_byte_indexes);
    const __m128i down = _mm_cvtsi32_si128(splits->shift);
    const __m512i one = _mm512_set1_epi32(1), all_set = _mm512_sll_epi32(one, _mm_cvtsi32_si128(32 - splits->shift));
    const __m512i ends_low = _mm512_loadu_si512((const void *)splits->ends);
    const __m512i ends_high = _mm512_loadu_si512((const void *)(splits->ends + 32));
    uint32_t word_index[BPE_CANDIDATES], bits[BPE_CANDIDATES];
    uint16_t allowed[BPE_CANDIDATES / 16 + 8];
    uint64_t leads[BPE_SLICE_WORDS + 2], tails[BPE_SLICE_WORDS + 2];
    size_t n = 0, at = 0;
    leads[0] = tails[0] = 0;
    for (size_t i = 0; i <= words; i++) {
        __m512i v = _mm512_loadu_si512((const void *)(slice + 64 * i));
        __m512i high = _mm512_and_si512(v, _mm512_set1_epi8((char)0xF0));
        leads[i + 1] = _mm512_cmpeq_epi8_mask(high, _mm512_set1_epi8((char)0xE0));
        tails[i + 1] = _mm512_cmplt_epi8_mask(v, _mm512_set1_epi8((char)0xC0));
    }
    for (size_t i = 0; i < words; i++) {
        uint64_t mask = bpe_candidate_mask(leads[i], tails[i], leads[i + 1], tails[i + 1], tails[i + 2]);
        __m512i low = _mm512_loadu_si512((const void *)(slice + 64 * i - 3));
        __m512i high = _mm512_loadu_si512((const void *)(slice + 64 * i + 61));
        __m512i indexes = _mm512_maskz_compress_epi8(mask, all_indexes);
        size_t count = (size_t)__builtin_popcountll(mask);
        safe[i] = mask;
        for (size_t k = 0; k < count; k += 16) {
            __m512i index = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(indexes));
            index = _mm512_mullo_epi32(index, _mm512_set1_epi32(0x01010101));
            __m512i four = _mm512_permutex2var_epi8(low, _mm512_add_epi8(index, _mm512_set1_epi32(0x05040302)), high);
            __m512i two = _mm512_permutex2var_epi8(low, _mm512_add_epi8(index, _mm512_set1_epi32(0x00000100)), high);
            two = _mm512_and_si512(two, _mm512_set1_epi32(0xFFFF));
            __m512i hash = _mm512_mullo_epi32(four, _mm512_set1_epi32((int)BPE_PAIR_FACTOR));
            two = _mm512_mullo_epi32(_mm512_xor_si512(two, hash), _mm512_set1_epi32((int)BPE_FIRST_FACTOR));
            __m512i within = _mm512_and_si512(_mm512_srli_epi32(hash, 14), _mm512_set1_epi32(31));
            within = _mm512_sllv_epi32(one, within);
            two = _mm512_sllv_epi32(one, _mm512_srli_epi32(two, 27));
            __m512i first = _mm512_and_si512(_mm512_srli_epi32(four, 8), _mm512_set1_epi32(15));
            __m512i ends = _mm512_permutex2var_epi16(ends_low, four, ends_high); /* in the lower half of each */
            __mmask16 unsafe = _mm512_test_epi32_mask(ends, _mm512_sllv_epi32(one, first));
            hash = _mm512_mask_mov_epi32(_mm512_srl_epi32(hash, down), unsafe, all_set);
            _mm512_storeu_si512((void *)(word_index + n + k), hash);
            _mm512_storeu_si512((void *)(bits + n + k), _mm512_or_si512(within, two));
            indexes = _mm512_shuffle_i64x2(indexes, indexes, 0x39);
        }
        n += count;
    }
    for (size_t k = 0; k < n; k++) bits[k] &= splits->bits[word_index[k]];
    for (size_t k = 0; k < n; k += 16) {
        __m512i set = _mm512_loadu_si512((const void *)(bits + k));
        allowed[k / 16] = (uint16_t)_mm512_testn_epi32_mask(set, set);
    }
    for (size_t i = 0; i < words; i++) {
        uint32_t some;
        memcpy(&some, (const uint8_t *)allowed + at / 8, 4);
        size_t count = (size_t)__builtin_popcountll(safe[i]);
        safe[i] = _pdep_u64(some >> (at & 7), safe[i]);
        at += count;
    }
}

BPE_TARGET_AVX512 static void bpe_list_parts_avx512(
    const uint64_t *safe, const uint64_t *ends, size_t words, ptrdiff_t text, bpe_split_parts *parts) {
    const __m512i all_indexes = _mm512_loadu_si512((const void *)bpe_byte_indexes);
    size_t n = parts->n, n_ended = parts->n_ended;
    uint64_t starts_piece = parts->starts_piece;
    parts->start[n] = parts->at;
    for (size_t i = 0; i < words && n < parts->capacity; i++) {
        uint64_t found = safe[i] | ends[i], last;
        size_t count = (size_t)__builtin_popcountll(found);
        if (count == 0) continue;
        if (count > parts->capacity - n) {
            count = parts->capacity - n;
            found = _pdep_u64(((uint64_t)1 << count) - 1, found);
        }
        last = _pext_u64(ends[i], found);
        __m512i indexes = _mm512_maskz_compress_epi8(found, all_indexes);
        __m512i from = _mm512_set1_epi64(text + (ptrdiff_t)(64 * i));
        for (size_t k = 0; k < count; k += 8) {
            __m512i eight = _mm512_add_epi64(from, _mm512_cvtepu8_epi64(_mm512_castsi512_si128(indexes)));
            _mm512_storeu_si512((void *)(parts->end + n + k), eight);
            _mm512_storeu_si512((void *)(parts->start + n + k + 1), eight);
            indexes = _mm512_alignr_epi64(indexes, indexes, 1);
        }
        __m512i role = _mm512_andnot_si512(_mm512_movm_epi8(last & (last << 1 | starts_piece)), _mm512_set1_epi8(1));
        role = _mm512_sub_epi8(role, _mm512_movm_epi8(~last));
        _mm512_storeu_si512((void *)(parts->role + n), role);
        starts_piece = last >> (count - 1) & 1;
        n_ended += (size_t)__builtin_popcountll(last);
        n += count;
    }
    parts->at = parts->start[n];
    parts->starts_piece = starts_piece;
    parts->n = n;
    parts->n_ended = n_ended;
}
#endif

static bpe_find_splits_t bpe_find_splits = bpe_find_splits_plain;
static bpe_list_parts_t bpe_list_parts = bpe_list_parts_plain;

/* Use the versions of a vector level (base/_cpu.pxd). */
static void bpe_use_level_split_filter(int level) {
    bpe_find_splits = BPE_BEST(level, bpe_find_splits_plain, bpe_find_splits_avx2, bpe_find_splits_avx512);
    bpe_list_parts = BPE_BEST(level, bpe_list_parts_plain, bpe_list_parts_avx2, bpe_list_parts_avx512);
}

#endif
