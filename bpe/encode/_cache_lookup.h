/* Looking up many short words in the front table of a word cache, and writing ids, with vector instructions.
 *
 * A line of the table is four keys and their four values, 64 bytes. base/_cpu.pyx chooses the version of each function.
 * Only looking up has one for AVX-512, for AMD's processors: on Zen 4 English takes 1.08, Python code 1.11 of the time
 * without it (o200k), and on an Intel Xeon of 2023, which then has fewer units for vectors, 0.89 and 0.88 (cl100k).
 */
#ifndef BPE_CACHE_LOOKUP_H
#define BPE_CACHE_LOOKUP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bpe/base/_vectors.h"

#define BPE_SHORT_KEY_FACTOR 0x9E3779B97F4A7C15ull

typedef struct {
    uint64_t keys[4];
    uint64_t values[4];
} bpe_line;

/* Cache lines, not initialized; bpe_free_lines frees them. */
#if defined(_WIN32)
#include <malloc.h>
static inline bpe_line *bpe_new_lines(size_t n) { return _aligned_malloc(n * sizeof(bpe_line), sizeof(bpe_line)); }
static inline void bpe_free_lines(bpe_line *lines) { _aligned_free(lines); }
#else
static inline bpe_line *bpe_new_lines(size_t n) { return aligned_alloc(sizeof(bpe_line), n * sizeof(bpe_line)); }
static inline void bpe_free_lines(bpe_line *lines) { free(lines); }
#endif

/* Pieces of one text to look up: piece i is text[start[i] .. end[i]), and 8 bytes from its start are readable. */
typedef struct {
    const uint8_t *text;
    const uint32_t *start;
    const uint32_t *end;
    size_t n;
} bpe_run;

/* The results, in the arrays of a chunk; the first piece of the run is number `first` of the chunk.
 *
 * `values` gets the values, 0 for a miss. `missed` gets the numbers of the misses and `missed_keys` their keys;
 * `longer` gets the numbers of words of more than 8 bytes, which have no key. All arrays have
 * room for 8 more elements.
 */
typedef struct {
    size_t first;
    uint64_t *values;
    uint16_t *longer;
    size_t n_longer;
    uint16_t *missed;
    uint64_t *missed_keys;
    size_t n_missed;
} bpe_lookup_result;

/* Look up the pieces of a run. No word of up to 8 bytes may end in 0xFF; longer ones may have up to 2**32 - 1 bytes. */
static void (*bpe_look_up)(const bpe_run *run, const bpe_line *lines, int shift, bpe_lookup_result *found);

/* Write the ids of n values up to the first one that is 0 or has more than BPE_MAX_EMITTED_IDS ids.
 *
 * Returns the number of values written.
 * _word_cache.pxd has the layout of a value. The output needs room for BPE_MAX_EMITTED_IDS ids per value and 16 more.
 */
static size_t (*bpe_emit)(const uint64_t *value, size_t n, const uint32_t *spilled, uint32_t **out);

enum { BPE_MAX_EMITTED_IDS = 31 };

/* Write the spilled ids of a value; false if there is no value or it has more than BPE_MAX_EMITTED_IDS.
 *
 * With their number they take multiples of 32 bytes, which are copied whole. One copy is enough for nearly all words, but
 * leaving the loop for a longer one takes as long as writing 50 words: Python code with r50k, 6%.
 */
static inline int bpe_emit_spilled(uint64_t value, const uint32_t *spilled, uint32_t **to) {
    const uint32_t *from = spilled + (value >> 32);
    size_t n = *from++;
    if (value == 0 || n > BPE_MAX_EMITTED_IDS) return 0;
    memcpy(*to, from, 7 * sizeof *from);
    for (size_t i = 7; i < n; i += 8) memcpy(*to + i, from + i, 8 * sizeof *from);
    *to += n;
    return 1;
}

/* How many of n bytes start a character of three; more than n if one of them is 0xFF. */
static size_t (*bpe_count_three_byte_chars)(const uint8_t *text, size_t n);

/* The bits of a key after a word, by its length; all of them for 9, which stands for every longer word. */
static const uint64_t bpe_bits_after_word[10] = {
    ~0ull, ~0ull << 8, ~0ull << 16, ~0ull << 24, ~0ull << 32, ~0ull << 40, ~0ull << 48, ~0ull << 56, 0, ~0ull};

static inline uint64_t bpe_key_of(const uint8_t *word, uint32_t length) {
    uint64_t key;
    memcpy(&key, word, 8);
    return key | bpe_bits_after_word[length < 9 ? length : 9];
}

/* The value of the line's word that is the key, or 0. */
static inline uint64_t bpe_value_in_line(const bpe_line *line, uint64_t key) {
    const bpe_vector64 keys = {key, key};
    bpe_vector64 low = bpe_equal_64(bpe_load_two(line->keys), keys) & bpe_load_two(line->values);
    bpe_vector64 high = bpe_equal_64(bpe_load_two(line->keys + 2), keys) & bpe_load_two(line->values + 2);
    bpe_vector64 value = low | high;
    return value[0] | value[1];
}

enum { BPE_GROUP = 64 }; /* words that are looked up before the first that was not found is listed */

/* No branch depends on one word, since it would be mispredicted for half of them. The key of a longer word is that of a free
 * entry, whose value is 0. */
static void bpe_look_up_plain(const bpe_run *run, const bpe_line *lines, int shift, bpe_lookup_result *out) {
    size_t n_missed = out->n_missed, n_longer = out->n_longer;
    for (size_t i = 0; i < run->n; i += BPE_GROUP) {
        const uint32_t *starts = run->start + i, *ends = run->end + i;
        size_t number = out->first + i, m = run->n - i < BPE_GROUP ? run->n - i : BPE_GROUP;
        uint64_t *values = out->values + number, not_found = 0;
        for (size_t k = m; k-- > 0;) {
            uint64_t key = bpe_key_of(run->text + starts[k], ends[k] - starts[k]), found;
            const bpe_line *line = &lines[key * BPE_SHORT_KEY_FACTOR >> shift];
            values[k] = found = bpe_value_in_line(line, key);
            not_found = not_found + not_found + (found == 0);
        }
        for (; not_found; not_found &= not_found - 1) {
            int k = __builtin_ctzll(not_found);
            uint32_t length = ends[k] - starts[k], is_long = length > 8;
            out->missed[n_missed] = out->longer[n_longer] = (uint16_t)(number + (size_t)k);
            out->missed_keys[n_missed] = bpe_key_of(run->text + starts[k], length);
            n_missed += is_long ^ 1;
            n_longer += is_long;
        }
    }
    out->n_missed = n_missed;
    out->n_longer = n_longer;
}

static size_t bpe_emit_plain(const uint64_t *value, size_t n, const uint32_t *spilled, uint32_t **out) {
    uint32_t *to = *out;
    size_t i = 0;
    for (; i < n; i++) {
        if ((uint32_t)value[i]) {
            uint64_t ids = value[i] - 0x100000001u; /* both are one less */
            memcpy(to, &ids, 8);
            to += 1 + (value[i] > 0xFFFFFFFFu);
        } else if (!bpe_emit_spilled(value[i], spilled, &to)) {
            break;
        }
    }
    *out = to;
    return i;
}

static size_t bpe_count_three_byte_chars_plain(const uint8_t *text, size_t n) {
    size_t count = 0, at = 0, end;
    uint8_t max_byte = 0;
    while (at < n) { /* counts of so few bytes fit in a byte, so that the loop is compiled to vectors of 16 bytes */
        uint8_t some = 0;
        for (end = n - at < 240 ? n : at + 240; at < end; at++) {
            some += (text[at] & 0xF0) == 0xE0;
            max_byte = text[at] > max_byte ? text[at] : max_byte;
        }
        count += some;
    }
    return max_byte == 0xFF ? n + 1 : count;
}

#ifdef BPE_X86

typedef struct { /* up to 64 words of a run, padded to a multiple of 8 with empty words */
    const uint32_t *start;
    const uint32_t *end;
    size_t n;
    uint32_t starts[BPE_GROUP];
    uint32_t ends[BPE_GROUP];
} bpe_group;

/* Copied by vectors: `memset` and `memcpy` of GCC are string instructions here, a tenth of the time of 200 characters. */
BPE_TARGET_AVX2 static inline void bpe_load_group(const bpe_run *run, size_t i, bpe_group *group) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    group->start = run->start + i;
    group->end = run->end + i;
    group->n = run->n - i < BPE_GROUP ? run->n - i : BPE_GROUP;
    if (group->n % 8 == 0) return;
    for (size_t k = 0; k < group->n; k += 8) {
        __m256i used = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(group->n - k)), lanes);
        __m256i starts = _mm256_maskload_epi32((const int *)group->start + k, used);
        __m256i ends = _mm256_maskload_epi32((const int *)group->end + k, used);
        _mm256_storeu_si256((__m256i *)(group->starts + k), starts);
        _mm256_storeu_si256((__m256i *)(group->ends + k), ends);
    }
    group->start = group->starts;
    group->end = group->ends;
}

/* The indexes of the bits that are set in each mask of eight bits: the permutation that packs eight values of 32 bits. */
static uint64_t bpe_packing[256];

static void bpe_fill_packing(void) {
    for (unsigned mask = 0; mask < 256; mask++) {
        uint8_t indexes[8] = {0};
        for (unsigned bit = 0, n = 0; bit < 8; bit++)
            if (mask >> bit & 1) indexes[n++] = (uint8_t)bit;
        memcpy(&bpe_packing[mask], indexes, 8);
    }
}

BPE_TARGET_AVX2 static inline __m128i bpe_packing_of(unsigned mask) { return _mm_cvtsi64_si128((long long)bpe_packing[mask]); }

BPE_TARGET_AVX2 static inline __m256i bpe_pack(__m256i values, unsigned mask) {
    return _mm256_permutevar8x32_epi32(values, _mm256_cvtepu8_epi32(bpe_packing_of(mask)));
}

BPE_TARGET_AVX2 static inline long long bpe_load_8_bytes(const uint8_t *text) {
    long long eight;
    memcpy(&eight, text, 8);
    return eight;
}

/* Reduce two vectors, each with at most one element that is not 0, to (a, b, a, b). */
BPE_TARGET_AVX2 static inline __m256i bpe_join(__m256i a, __m256i b) {
    return _mm256_or_si256(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

BPE_TARGET_AVX2 static inline __m256i bpe_join_all(__m256i ab, __m256i cd) {
    return _mm256_or_si256(_mm256_permute2x128_si256(ab, cd, 0x20), _mm256_permute2x128_si256(ab, cd, 0x31));
}

/* The values of a line's words that are the key, 0 at the others. */
BPE_TARGET_AVX2 static inline __m256i bpe_match_avx2(const bpe_line *line, uint64_t key) {
    __m256i same = _mm256_cmpeq_epi64(
        _mm256_loadu_si256((const __m256i *)line->keys), _mm256_set1_epi64x((long long)key));
    return _mm256_and_si256(same, _mm256_loadu_si256((const __m256i *)line->values));
}

BPE_TARGET_AVX2 static inline __m256i bpe_times_factor(__m256i key) {
    const __m256i factor = _mm256_set1_epi64x((long long)BPE_SHORT_KEY_FACTOR);
    __m256i across = _mm256_add_epi64(
        _mm256_mul_epu32(_mm256_srli_epi64(key, 32), factor), _mm256_mul_epu32(key, _mm256_srli_epi64(factor, 32)));
    return _mm256_add_epi64(_mm256_mul_epu32(key, factor), _mm256_slli_epi64(across, 32));
}

/* The keys of four words, all bits set for longer ones, and the offsets of their lines. A shift by 64 or more gives 0. */
BPE_TARGET_AVX2 static inline void bpe_keys_of_four(
    const uint8_t *text, const uint32_t *start, const uint32_t *end, __m128i down, uint64_t *keys, uint32_t *lines) {
    __m128i length = _mm_sub_epi32(_mm_loadu_si128((const __m128i *)end), _mm_loadu_si128((const __m128i *)start));
    __m256i is_long = _mm256_cvtepi32_epi64(_mm_cmpeq_epi32(_mm_max_epu32(length, _mm_set1_epi32(9)), length));
    __m256i bits = _mm256_cvtepu32_epi64(_mm_slli_epi32(length, 3)), key = _mm256_set_epi64x(
        bpe_load_8_bytes(text + start[3]), bpe_load_8_bytes(text + start[2]), bpe_load_8_bytes(text + start[1]), bpe_load_8_bytes(text + start[0]));
    key = _mm256_or_si256(_mm256_or_si256(key, is_long), _mm256_sllv_epi64(_mm256_set1_epi64x(-1), bits));
    __m256i offset = _mm256_slli_epi64(_mm256_srl_epi64(bpe_times_factor(key), down), 6);
    _mm256_storeu_si256((__m256i *)keys, key);
    _mm_storeu_si128((__m128i *)lines, _mm256_castsi256_si128(
        _mm256_permutevar8x32_epi32(offset, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6))));
}

/* Look up four keys: the result is a mask of those without a value. `long_words` gets a mask of words without a key. */
BPE_TARGET_AVX2 static inline unsigned bpe_find_four(
    const bpe_line *lines, const uint64_t *keys, const uint32_t *offsets, uint64_t *values, unsigned *long_words) {
    __m256i match[4], value, is_long = _mm256_cmpeq_epi64(
        _mm256_loadu_si256((const __m256i *)keys), _mm256_set1_epi64x(-1));
    for (int k = 0; k < 4; k++) match[k] = bpe_match_avx2((const bpe_line *)((const char *)lines + offsets[k]), keys[k]);
    value = bpe_join_all(bpe_join(match[0], match[1]), bpe_join(match[2], match[3]));
    value = _mm256_andnot_si256(is_long, value);
    _mm256_storeu_si256((__m256i *)values, value);
    *long_words = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(is_long));
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(value, _mm256_setzero_si256())));
}

/* Append `number` plus the indexes of the bits that are set in a mask of eight. */
BPE_TARGET_AVX2 static inline void bpe_append_indexes(uint16_t *list, size_t *n, size_t number, unsigned mask) {
    __m128i numbers = _mm_add_epi16(_mm_set1_epi16((short)number), _mm_cvtepu8_epi16(bpe_packing_of(mask)));
    _mm_storeu_si128((__m128i *)(list + *n), numbers);
    *n += (size_t)__builtin_popcount(mask);
}

/* Compute the keys of 64 words, then look them up: the loads of many words are in flight together. */
BPE_TARGET_AVX2 static void bpe_look_up_avx2(const bpe_run *run, const bpe_line *lines, int shift, bpe_lookup_result *out) {
    const __m128i down = _mm_cvtsi32_si128(shift);
    uint64_t keys[BPE_GROUP];
    uint32_t offsets[BPE_GROUP];
    bpe_group group;
    bpe_lookup_result found = *out; /* in registers */
    for (size_t i = 0; i < run->n; i += BPE_GROUP) {
        bpe_load_group(run, i, &group);
        for (size_t k = 0; k < group.n; k += 8)
            for (size_t j = k; j < k + 8; j += 4)
                bpe_keys_of_four(run->text, group.start + j, group.end + j, down, keys + j, offsets + j);
        for (size_t k = 0; k < group.n; k += 8) {
            size_t number = found.first + i + k;
            unsigned any = group.n - k < 8 ? (1u << (group.n - k)) - 1 : 0xFF, low, high;
            unsigned zeros = bpe_find_four(lines, keys + k, offsets + k, found.values + number, &low);
            zeros |= bpe_find_four(lines, keys + k + 4, offsets + k + 4, found.values + number + 4, &high) << 4;
            low |= high << 4;
            bpe_append_indexes(found.longer, &found.n_longer, number, low & any);
            for (unsigned missed = zeros & ~low & any; missed; missed &= missed - 1) {
                unsigned bit = (unsigned)__builtin_ctz(missed);
                found.missed[found.n_missed] = (uint16_t)(number + bit);
                found.missed_keys[found.n_missed++] = keys[k + bit];
            }
        }
    }
    out->n_missed = found.n_missed;
    out->n_longer = found.n_longer;
}

/* Four values with one permutation; in a group with spilled ids, the values between those. */
BPE_TARGET_AVX2 static size_t bpe_emit_avx2(const uint64_t *value, size_t n, const uint32_t *spilled, uint32_t **out) {
    uint32_t *to = *out;
    for (size_t i = 0; i < n; i += 4) {
        unsigned all = n - i < 4 ? (1u << 2 * (n - i)) - 1 : 0xFF;
        __m256i ids = _mm256_loadu_si256((const __m256i *)(value + i));
        unsigned zeros = (unsigned)_mm256_movemask_ps(
            _mm256_castsi256_ps(_mm256_cmpeq_epi32(ids, _mm256_setzero_si256())));
        unsigned inline_ids = ~zeros & all, spilled_ids = zeros & all & 0x55;
        ids = _mm256_sub_epi32(ids, _mm256_set1_epi32(1));
        while (spilled_ids) {
            unsigned first = spilled_ids & -spilled_ids, before = inline_ids & (first - 1);
            size_t k = i + ((size_t)__builtin_ctz(spilled_ids) >> 1);
            _mm256_storeu_si256((__m256i *)to, bpe_pack(ids, before));
            to += __builtin_popcount(before);
            if (!bpe_emit_spilled(value[k], spilled, &to)) {
                *out = to;
                return k;
            }
            inline_ids &= ~(4 * first - 1);
            spilled_ids &= spilled_ids - 1;
        }
        _mm256_storeu_si256((__m256i *)to, bpe_pack(ids, inline_ids));
        to += __builtin_popcount(inline_ids);
    }
    *out = to;
    return n;
}

BPE_TARGET_AVX2 static size_t bpe_count_three_byte_chars_avx2(const uint8_t *text, size_t n) {
    size_t count = 0, i = 0;
    int contains_0xFF = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(text + i));
        __m256i high = _mm256_and_si256(bytes, _mm256_set1_epi8((char)0xF0));
        __m256i three = _mm256_cmpeq_epi8(high, _mm256_set1_epi8((char)0xE0));
        count += (size_t)__builtin_popcount((unsigned)_mm256_movemask_epi8(three));
        contains_0xFF |= _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(-1)));
    }
    size_t rest = bpe_count_three_byte_chars_plain(text + i, n - i);
    return contains_0xFF || rest > n - i ? n + 1 : count + rest;
}

/* The values of a line's words that are the key, 0 at the others. */
BPE_TARGET_AVX512 static inline __m256i bpe_match(const bpe_line *line, uint64_t key) {
    __mmask8 same = _mm256_cmpeq_epi64_mask(
        _mm256_loadu_si256((const __m256i *)line->keys), _mm256_set1_epi64x((long long)key));
    return _mm256_maskz_loadu_epi64(same, line->values);
}

/* The keys of eight words, 0 for longer ones, and the offsets of their lines; the result is a mask of the short words. A
 * shift by 64 or more gives 0, which is right for a word of 8 bytes. A gather takes twice as long as eight loads on Zen 4. */
BPE_TARGET_AVX512 static inline __mmask8 bpe_keys_of_eight(
    const uint8_t *text, const uint32_t *start, const uint32_t *end, __m128i down, uint64_t *keys, uint32_t *lines) {
    __m256i length = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)end), _mm256_loadu_si256((const __m256i *)start));
    __mmask8 is_short = _mm256_cmplt_epu32_mask(length, _mm256_set1_epi32(9));
    __m512i bits = _mm512_cvtepu32_epi64(_mm256_slli_epi32(length, 3)), key = _mm512_set_epi64(
        bpe_load_8_bytes(text + start[7]), bpe_load_8_bytes(text + start[6]), bpe_load_8_bytes(text + start[5]), bpe_load_8_bytes(text + start[4]),
        bpe_load_8_bytes(text + start[3]), bpe_load_8_bytes(text + start[2]), bpe_load_8_bytes(text + start[1]), bpe_load_8_bytes(text + start[0]));
    key = _mm512_maskz_or_epi64(is_short, key, _mm512_sllv_epi64(_mm512_set1_epi64(-1), bits));
    __m512i hash = _mm512_mullo_epi64(key, _mm512_set1_epi64((long long)BPE_SHORT_KEY_FACTOR));
    _mm512_storeu_si512((void *)keys, key);
    _mm256_storeu_si256((__m256i *)lines, _mm512_cvtepi64_epi32(_mm512_slli_epi64(_mm512_srl_epi64(hash, down), 6)));
    return is_short;
}

/* Look up eight keys; append the misses and the words without a key, of the words in the mask `any`. */
BPE_TARGET_AVX512 static inline void bpe_find_eight(
    const bpe_line *lines, const uint64_t *keys, const uint32_t *offsets, __mmask8 is_short, __mmask8 any, size_t number,
    bpe_lookup_result *out) {
    __m256i match[8];
    for (int k = 0; k < 8; k++) match[k] = bpe_match((const bpe_line *)((const char *)lines + offsets[k]), keys[k]);
    __m256i low = bpe_join_all(bpe_join(match[0], match[1]), bpe_join(match[2], match[3]));
    __m256i high = bpe_join_all(bpe_join(match[4], match[5]), bpe_join(match[6], match[7]));
    __m512i value = _mm512_maskz_mov_epi64(is_short, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
    __mmask8 missed = _mm512_testn_epi64_mask(value, value) & is_short & any, other = (__mmask8)~is_short & any;
    __m512i missed_keys = _mm512_maskz_compress_epi64(missed, _mm512_loadu_si512((const void *)keys));
    __m128i numbers = _mm_add_epi16(_mm_set1_epi16((short)number), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
    _mm512_storeu_si512((void *)(out->values + number), value);
    _mm_storeu_si128(
        (__m128i *)(out->longer + out->n_longer), _mm_maskz_compress_epi16(other, numbers));
    _mm_storeu_si128((__m128i *)(out->missed + out->n_missed), _mm_maskz_compress_epi16(missed, numbers));
    _mm512_storeu_si512((void *)(out->missed_keys + out->n_missed), missed_keys);
    out->n_longer += (size_t)__builtin_popcount(other);
    out->n_missed += (size_t)__builtin_popcount(missed);
}

/* Compute the keys of 64 words, then look them up: the loads of many words are in flight together. */
BPE_TARGET_AVX512 static void bpe_look_up_avx512(const bpe_run *run, const bpe_line *lines, int shift, bpe_lookup_result *out) {
    const __m128i down = _mm_cvtsi32_si128(shift);
    uint64_t keys[BPE_GROUP];
    uint32_t offsets[BPE_GROUP];
    __mmask8 is_short[BPE_GROUP / 8];
    bpe_group group;
    bpe_lookup_result found = *out; /* in registers */
    for (size_t i = 0; i < run->n; i += BPE_GROUP) {
        bpe_load_group(run, i, &group);
        for (size_t k = 0; k < group.n; k += 8)
            is_short[k / 8] = bpe_keys_of_eight(run->text, group.start + k, group.end + k, down, keys + k, offsets + k);
        for (size_t k = 0; k < group.n; k += 8) {
            __mmask8 any = group.n - k < 8 ? (__mmask8)((1u << (group.n - k)) - 1) : 0xFF;
            bpe_find_eight(lines, keys + k, offsets + k, is_short[k / 8], any, found.first + i + k, &found);
        }
    }
    out->n_missed = found.n_missed;
    out->n_longer = found.n_longer;
}
#endif

/* Use the versions of a vector level (base/_cpu.pxd). */
static void bpe_use_level_look_up(int level) {
#ifdef BPE_X86
    bpe_fill_packing();
    if (level >= 3 && !__builtin_cpu_is("amd")) level = 2;
#endif
    bpe_look_up = BPE_BEST(level, bpe_look_up_plain, bpe_look_up_avx2, bpe_look_up_avx512);
    bpe_emit = BPE_BEST(level, bpe_emit_plain, bpe_emit_avx2, bpe_emit_avx2);
    bpe_count_three_byte_chars = BPE_BEST(
        level, bpe_count_three_byte_chars_plain, bpe_count_three_byte_chars_avx2, bpe_count_three_byte_chars_avx2);
}

#endif
