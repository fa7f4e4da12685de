/* Looking many short words up in the front table of a word cache: what needs vector instructions.
 *
 * A line of the table is four keys and their four values, 64 bytes. The level is chosen once, as for classify.h.
 */
#ifndef BPE_LOOKUP_H
#define BPE_LOOKUP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#include <stdlib.h>

#define BPE_SHORT_KEY_FACTOR 0x9E3779B97F4A7C15ull

typedef struct {
    uint64_t keys[4];
    uint64_t values[4];
} bpe_line;

/* Look up n words at once: word i is text[start[i] .. end[i]), and 8 bytes from its start on may be read.
 *
 * word, size and value get the words, their sizes and their values, from place `first` of the chunk on; a word of more than 8 bytes is no key, its value is 0
 * and its number goes to `others` (how many: the lower half of the result); the numbers of shorter ones that are not there
 * go to `missed` (how many: the upper half), their keys to `missed_key`. These three have room for 8 more than that. No word of up to 8 bytes may end in 0xFF.
 */
typedef uint64_t (*bpe_look_up_t)(const uint8_t *text, const ptrdiff_t *start, const ptrdiff_t *end, size_t n, size_t first,
                                  const bpe_line *lines, int shift, const uint8_t **word, ptrdiff_t *size, uint64_t *value,
                                  uint16_t *others, uint16_t *missed, uint64_t *missed_key);

enum { BPE_AHEAD = 32 }; /* words whose lines are fetched before the first is looked up */

#if defined(__GNUC__) || defined(__clang__)
#define BPE_PREFETCH(address) __builtin_prefetch(address)
#else
#define BPE_PREFETCH(address) ((void)(address))
#endif

/* Nothing here is a branch that depends on the words, since half of such branches would be guessed wrong. */
#define BPE_LOOK_UP(FIND)                                                                                             \
    size_t n_missed = 0, n_others = 0;                                                                                \
    uint64_t keys[BPE_AHEAD];                                                                                         \
    const bpe_line *places[BPE_AHEAD];                                                                                \
    for (size_t i = 0; i < n; i += BPE_AHEAD) {                                                                       \
        size_t m = n - i < BPE_AHEAD ? n - i : BPE_AHEAD;                                                             \
        for (size_t k = 0; k < m; k++) {                                                                              \
            ptrdiff_t length = end[i + k] - start[i + k];                                                             \
            uint64_t key, is_short = (uint64_t)(length - 9) >> 63;                                                    \
            word[first + i + k] = text + start[i + k];                                                                \
            size[first + i + k] = length;                                                                             \
            memcpy(&key, text + start[i + k], 8);                                                                     \
            key |= ~(uint64_t)0 << ((8 * length - 8) & 63) << 8;                                                      \
            keys[k] = key & -is_short;                                                                                \
            places[k] = &lines[keys[k] * BPE_SHORT_KEY_FACTOR >> shift];                                              \
            BPE_PREFETCH(places[k]);                                                                                  \
            others[n_others] = (uint16_t)(first + i + k);                                                             \
            n_others += is_short ^ 1;                                                                                 \
        }                                                                                                             \
        for (size_t k = 0; k < m; k++) {                                                                              \
            uint64_t key = keys[k], found;                                                                            \
            const bpe_line *line = places[k];                                                                         \
            FIND                                                                                                      \
            value[first + i + k] = found;                                                                             \
            missed[n_missed] = (uint16_t)(first + i + k);                                                             \
            missed_key[n_missed] = key;                                                                               \
            n_missed += (found == 0) & (key != 0);                                                                    \
        }                                                                                                             \
    }                                                                                                                 \
    return (uint64_t)n_missed << 32 | n_others;

static uint64_t bpe_look_up_plain(const uint8_t *text, const ptrdiff_t *start, const ptrdiff_t *end, size_t n, size_t first,
                                  const bpe_line *lines, int shift, const uint8_t **word, ptrdiff_t *size, uint64_t *value,
                                  uint16_t *others, uint16_t *missed, uint64_t *missed_key) {
    BPE_LOOK_UP({
        found = (line->values[0] & -(uint64_t)(line->keys[0] == key)) |
                (line->values[1] & -(uint64_t)(line->keys[1] == key)) |
                (line->values[2] & -(uint64_t)(line->keys[2] == key)) |
                (line->values[3] & -(uint64_t)(line->keys[3] == key));
    })
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>

__attribute__((target("avx2,bmi,bmi2"))) static uint64_t bpe_look_up_avx2(
    const uint8_t *text, const ptrdiff_t *start, const ptrdiff_t *end, size_t n, size_t first,
    const bpe_line *lines, int shift, const uint8_t **word, ptrdiff_t *size, uint64_t *value, uint16_t *others, uint16_t *missed, uint64_t *missed_key) {
    BPE_LOOK_UP({
        __m256i same = _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *)line->keys), _mm256_set1_epi64x((long long)key));
        unsigned mask = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(same));
        found = line->values[_tzcnt_u32(mask | 8)] & -(uint64_t)(mask != 0);
    })
}

#if defined(__GNUC__)
static inline long long bpe_eight(const uint8_t *text) {
    long long eight;
    memcpy(&eight, text, 8);
    return eight;
}

/* Eight words at a time. Shifts of 64 bits and more give 0 here, so that a word of 8 bytes and a longer one need no care. */
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi2"))) static uint64_t bpe_look_up_avx512(
    const uint8_t *text, const ptrdiff_t *start, const ptrdiff_t *end, size_t n, size_t first,
    const bpe_line *lines, int shift, const uint8_t **word, ptrdiff_t *size, uint64_t *value, uint16_t *others,
    uint16_t *missed, uint64_t *missed_key) {
    size_t n_missed = 0, n_others = 0, i = 0;
    const __m512i ones = _mm512_set1_epi64(-1), factor = _mm512_set1_epi64((long long)BPE_SHORT_KEY_FACTOR);
    const __m128i down = _mm_cvtsi32_si128(shift);
    uint64_t keys[8], places[8];
    for (; i + 8 <= n; i += 8) {
        __m512i from = _mm512_loadu_si512((const void *)(start + i));
        __m512i length = _mm512_sub_epi64(_mm512_loadu_si512((const void *)(end + i)), from);
        __mmask8 is_short = _mm512_cmplt_epi64_mask(length, _mm512_set1_epi64(9));
        __m128i number = _mm_add_epi16(_mm_set1_epi16((short)(first + i)), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
        __m512i found, key = _mm512_set_epi64(                        /* a gather takes twice as long on Zen 4 */
            bpe_eight(text + start[i + 7]), bpe_eight(text + start[i + 6]), bpe_eight(text + start[i + 5]),
            bpe_eight(text + start[i + 4]), bpe_eight(text + start[i + 3]), bpe_eight(text + start[i + 2]),
            bpe_eight(text + start[i + 1]), bpe_eight(text + start[i]));
        key = _mm512_or_si512(key, _mm512_sllv_epi64(ones, _mm512_slli_epi64(length, 3)));
        key = _mm512_maskz_mov_epi64(is_short, key);
        _mm512_storeu_si512((void *)keys, key);
        _mm512_storeu_si512((void *)places, _mm512_srl_epi64(_mm512_mullo_epi64(key, factor), down));
        _mm512_storeu_si512((void *)(word + first + i), _mm512_add_epi64(from, _mm512_set1_epi64((long long)(uintptr_t)text)));
        _mm512_storeu_si512((void *)(size + first + i), length);
        for (int k = 0; k < 8; k++) {
            const bpe_line *line = &lines[places[k]];
            __mmask8 same = _mm256_cmpeq_epi64_mask(
                _mm256_loadu_si256((const __m256i *)line->keys), _mm256_set1_epi64x((long long)keys[k]));
            __m256i at = _mm256_maskz_compress_epi64(same, _mm256_loadu_si256((const __m256i *)line->values));
            value[first + i + k] = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(at));
        }
        found = _mm512_loadu_si512((const void *)(value + first + i));
        __mmask8 miss = _mm512_testn_epi64_mask(found, found) & is_short;
        _mm_storeu_si128((__m128i *)(others + n_others), _mm_maskz_compress_epi16((__mmask8)~is_short, number));
        n_others += (size_t)__builtin_popcount((uint8_t)~is_short);
        _mm_storeu_si128((__m128i *)(missed + n_missed), _mm_maskz_compress_epi16(miss, number));
        _mm512_storeu_si512((void *)(missed_key + n_missed), _mm512_maskz_compress_epi64(miss, key));
        n_missed += (size_t)__builtin_popcount(miss);
    }
    if (i < n) {
        uint64_t rest = bpe_look_up_avx2(text, start + i, end + i, n - i, first + i, lines, shift, word, size, value,
                                         others + n_others, missed + n_missed, missed_key + n_missed);
        n_others += (uint32_t)rest;
        n_missed += (size_t)(rest >> 32);
    }
    return (uint64_t)n_missed << 32 | n_others;
}
#endif
#endif

static bpe_look_up_t bpe_look_up = bpe_look_up_plain;

/* Use vector instructions where this machine has them, at most the level of classify.h given. */
static int bpe_choose_look_up(int most) {
    bpe_look_up = bpe_look_up_plain;
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
#if defined(__GNUC__)
    if (most >= 3 && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2")) {
        bpe_look_up = bpe_look_up_avx512;
        return 3;
    }
#endif
    if (most >= 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
        bpe_look_up = bpe_look_up_avx2;
        return 2;
    }
#else
    (void)most;
#endif
    return 0;
}

/* How many of n bytes are beyond ASCII; any number above n if one of them is 0xFF. */
static size_t bpe_count_high(const uint8_t *text, size_t n) {
    size_t count = 0, i = 0;
    uint64_t all = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t eight;
        memcpy(&eight, text + i, 8);
        eight &= 0x8080808080808080ull;
        all |= eight;
        if (eight) {
            uint64_t bytes;
            memcpy(&bytes, text + i, 8);
            if ((((bytes & 0x7F7F7F7F7F7F7F7Full) + 0x0101010101010101ull) & bytes & 0x8080808080808080ull) != 0) return n + 1;
            count += (size_t)(((eight >> 7) * 0x0101010101010101ull) >> 56);
        }
    }
    for (; i < n; i++) {
        if (text[i] == 0xFF) return n + 1;
        count += text[i] >> 7;
    }
    return count;
}

/* Memory for a large table, in pages of 2 MB where the system has them; freed by free(). Its content is undefined. */
static void *bpe_table_memory(size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const size_t huge = (size_t)1 << 21;
    void *memory = NULL;
    if (bytes >= huge / 8) {
        if (bytes < huge) bytes = huge;
        if (posix_memalign(&memory, huge, bytes) != 0) return NULL;
        madvise(memory, bytes, MADV_HUGEPAGE);
        return memory;
    }
#endif
    return malloc(bytes);
}

/* Ask for pages of 2 MB in a growing array, of which the first `used` bytes are in use. */
static void bpe_advise_huge(void *memory, size_t used, size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const size_t page = 4096;
    if (bytes - used >= ((size_t)1 << 22)) {
        uintptr_t start = ((uintptr_t)memory + used + page - 1) & ~(uintptr_t)(page - 1);
        uintptr_t end = ((uintptr_t)memory + bytes) & ~(uintptr_t)(page - 1);
        madvise((void *)start, end - start, MADV_HUGEPAGE);
    }
#else
    (void)memory; (void)used; (void)bytes;
#endif
}

#endif
