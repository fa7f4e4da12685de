/* Find the letters among the characters of two and three bytes, 64 bytes of text at a time, for scripts beyond ASCII.
 *
 * With AVX-512, tables of 64 to 256 bytes are held in registers, and one instruction looks up 64 positions at once.
 * - Characters of two bytes, and those of three bytes below U+2000 (scripts of South and Southeast Asia, Georgian,
 *   Vietnamese letters, old Greek), mix letters with marks or have case: the tables have one bit for each of them.
 * - From U+2000 on, the first two bytes of a character select one of 896 ranges of 64 characters. In most ranges all
 *   characters are letters, or none is: the tables have one bit for each range. Seven mixed ranges that are common in
 *   text (kana, punctuation; `bpe_row_blocks`) have a row: a table indexed by the third byte.
 * - Characters of the other mixed ranges are looked up one at a time in a bitmap of all letters.
 * With AVX2, the ranges that consist of letters are found as an interval of second bytes for each first byte, with one
 * exception (`bpe_letter_spans`). Together with the rows, this covers nearly all of Korean, Japanese and Chinese; the
 * bitmap decides all else.
 * With SSE2 or NEON, the two longest runs of such ranges (CJK, Hangul), and those of letters among the kana, are found by
 * comparing two bytes with their bounds (`bpe_letter_runs`); bitmaps decide all else.
 * The level is chosen once (base/_cpu.pyx).
 */
#ifndef BPE_LETTERS_H
#define BPE_LETTERS_H

#include "bpe/pretokenize/_char_masks.h"
#include "bpe/text/_unicode_classes.h"

typedef struct { /* a bit is set at the first byte of each character of the kind */
    uint64_t two;      /* letters of two bytes; if `cased`, at least those without case */
    uint64_t upper;    /* capitals among them, if `cased` */
    uint64_t uncased;  /* those without case, if `cased` */
    uint64_t others;   /* some characters of two bytes that are no letters, numbers, spaces or, if `cased`, marks */
    uint64_t three;    /* letters of three bytes; if `cased`, those without case */
    uint64_t other;    /* some characters of three bytes of the same kind as `others` */
    uint64_t cased;    /* if `cased`, some letters of three bytes with case, */
    uint64_t capital;  /* capitals among them, */
    uint64_t mark;     /* and some marks of three bytes */
} bpe_wide_letters;

typedef void (*bpe_find_letters_t)(const uint8_t *text, int cased, bpe_wide_letters *out); /* reads 66 bytes */

/* Bit b of entry a: whether the character a << 6 | b is a letter or, in the second bitmap, one without case. Those of two
 * bytes are in entry 1024 + a; no bit of an overlong form is set. */
static uint64_t bpe_bitmaps[2][1024 + 32];

/* The same for `others` and, without AVX2, `other`; the second bitmap is for `cased`. */
static uint64_t bpe_others[2][1024 + 32];

/* Whether a character is one of `others` or `other`. U+0345 is white space to CLIP; NEW is looked up one at a time. */
static inline int bpe_is_other(unsigned code, int cased) {
    int bits = bpe_class_of(code), mark = cased && bits & (BPE_UPPER | BPE_LOWER);
    return !(bits & (BPE_LETTER | BPE_NUMBER | BPE_SPACE)) && !mark && bits != BPE_NEW && code != 0x345;
}

static void bpe_fill_bitmaps(int level) {
    const int uncased = BPE_LETTER | BPE_UPPER | BPE_LOWER;
    memset(bpe_bitmaps, 0, sizeof bpe_bitmaps);
    memset(bpe_others, 0, sizeof bpe_others);
    for (unsigned code = 0x80; code < 0x10000; code++) {
        unsigned at = code < 0x800 ? 1024 + (code >> 6) : code >> 6;
        int bits = bpe_class_of(code);
        bpe_bitmaps[0][at] |= (uint64_t)((bits & BPE_LETTER) != 0) << (code & 63);
        bpe_bitmaps[1][at] |= (uint64_t)((bits & uncased) == uncased) << (code & 63);
        if ((code >= 0x800 && level >= 2) || code >> 11 == 0xD800 >> 11) continue; /* a surrogate is no character */
        for (int cased = 0; cased < 2; cased++)
            bpe_others[cased][at] |= (uint64_t)bpe_is_other(code, cased) << (code & 63);
    }
}

/* Look up the characters of three bytes that begin at some positions. */
static inline uint64_t bpe_look_up_three(const uint64_t *bitmap, const uint8_t *text, uint64_t where) {
    uint64_t found = 0;
    for (; where; where &= where - 1) {
        const uint8_t *at = text + bpe_ctz(where);
        found |= (bitmap[(at[0] & 15) << 6 | (at[1] & 63)] >> (at[2] & 63) & 1) << (at - text);
    }
    return found;
}

/* Look up the characters of two bytes that begin at some positions, in a bitmap of 32 entries. */
static inline uint64_t bpe_look_up_two(const uint64_t *bitmap, const uint8_t *text, uint64_t where) {
    uint64_t found = 0;
    for (; where; where &= where - 1) {
        const uint8_t *at = text + bpe_ctz(where);
        found |= (bitmap[at[0] & 31] >> (at[1] & 63) & 1) << (at - text);
    }
    return found;
}

/* Set the letters and the others among the characters of two bytes at some positions. */
static inline void bpe_set_two(const uint8_t *text, uint64_t where, int cased, bpe_wide_letters *out) {
    out->two = bpe_look_up_two(bpe_bitmaps[cased != 0] + 1024, text, where);
    out->others = bpe_look_up_two(bpe_others[cased != 0] + 1024, text, where & ~out->two);
    if (cased) out->uncased = out->two;
}

/* Two runs of numbers of 16 bits, as four bounds: the greatest number before each run, and the last one in it. */
typedef struct {
    bpe_vector16 bounds[4];
} bpe_runs;

static inline bpe_vector16 bpe_in_runs(bpe_vector16 v, const bpe_runs *runs) {
    return ((v > runs->bounds[0]) ^ (v > runs->bounds[1])) ^ ((v > runs->bounds[2]) ^ (v > runs->bounds[3]));
}

/* Runs of letters: of ranges, by the first and the second byte, and of kana and other characters below U+3100, by the second
 * and the third byte. */
typedef struct {
    bpe_runs ranges;
    bpe_runs kana;
} bpe_letter_runs;

static bpe_letter_runs bpe_runs_of_letters[2]; /* the second is for `cased` */

/* The two longest runs among `n` flags, where flag i stands for the bytes `base` + (i >> 6) and 0x80 | (i & 63). */
static void bpe_fill_runs(uint8_t *flags, int n, int base, bpe_runs *runs) {
    int starts[2], ends[2];
    for (int run = 0; run < 2; run++) {
        starts[run] = ends[run] = 0;
        for (int i = 0, start = 0; i < n; i++) {
            if (!flags[i]) start = i + 1;
            else if (i + 1 - start > ends[run] - starts[run]) starts[run] = start, ends[run] = i + 1;
        }
        memset(flags + starts[run], 0, (size_t)(ends[run] - starts[run]));
    }
    for (int k = 0, first = starts[0] > starts[1]; k < 4; k++) {
        int run = k / 2 ^ first, i = k % 2 ? ends[run] : starts[run];
        runs->bounds[k] = (bpe_vector16){0} + (int16_t)(((base + (i >> 6)) << 8 | 0x80 | (i & 63)) - 1);
    }
}

static void bpe_fill_letter_runs(int cased) {
    const uint64_t *bitmap = bpe_bitmaps[cased];
    uint8_t flags[1024];
    for (int i = 0; i < 1024; i++) flags[i] = bitmap[i] == ~(uint64_t)0;
    bpe_fill_runs(flags, 1024, 0xE0, &bpe_runs_of_letters[cased].ranges);
    for (int i = 0; i < 256; i++) flags[i] = bitmap[0xC0 + i / 64] >> i % 64 & 1;
    bpe_fill_runs(flags, 256, 0x80, &bpe_runs_of_letters[cased].kana);
}

/* The bytes at which a letter of three bytes begins, if a character of three bytes begins there; not all of them. */
static inline bpe_vector bpe_run_letters(const uint8_t *text, const bpe_letter_runs *runs) {
    bpe_vector first = bpe_load(text), second = bpe_load(text + 1), third = bpe_load(text + 2);
#define IN_RUNS(high, low, runs)                                                                                       \
    bpe_narrow(                                                                                                        \
        bpe_in_runs((bpe_vector16)bpe_interleave_low(low, high), runs),                                                \
        bpe_in_runs((bpe_vector16)bpe_interleave_high(low, high), runs))
    bpe_vector kana = IN_RUNS(second, third, &runs->kana) & (bpe_vector)(first == 0xE3);
    return kana | IN_RUNS(first, second, &runs->ranges);
#undef IN_RUNS
}

static void bpe_find_letters_plain(const uint8_t *text, int cased, bpe_wide_letters *out) {
    const bpe_letter_runs *runs = &bpe_runs_of_letters[cased != 0];
    uint64_t rest;
    bpe_wide wide;
    memset(out, 0, sizeof *out);
    bpe_simd128_wide(text, &wide);
    if (wide.three) {
        out->three = wide.three & bpe_mask_of_64(bpe_run_letters(text, runs), bpe_run_letters(text + 16, runs),
                                                 bpe_run_letters(text + 32, runs), bpe_run_letters(text + 48, runs));
        rest = wide.three & ~out->three;
        out->three |= bpe_look_up_three(bpe_bitmaps[cased != 0], text, rest);
        out->other = bpe_look_up_three(bpe_others[cased != 0], text, rest & ~out->three);
    }
    bpe_set_two(text, wide.two, cased, out);
}

#ifdef BPE_X86
/* Indexed by six bits of a byte and one or two bits of the lead byte above them; the lead's lowest three bits select a
 * bit of the entry. */
typedef struct {
    uint8_t all[128];    /* ranges that consist of letters */
    uint8_t some[128];   /* mixed ranges without a row */
    uint8_t row[64];     /* letters of the ranges with a row, by the third byte; bit i is row i */
    uint8_t other[64];   /* the same for characters of no class */
    uint8_t two[256];    /* letters of two bytes */
    uint8_t upper[256];
    uint8_t uncased[256];
    uint8_t others[256];
    uint8_t low[5][3][256]; /* three bytes below U+2000: for each BPE_LOW_ kind, three parts of 2,048 characters */
} bpe_letter_tables;

enum { BPE_LOW_LETTER, BPE_LOW_OTHER, BPE_LOW_CASED, BPE_LOW_CAPITAL, BPE_LOW_MARK };

/* Ranges with rows: U+3000-30FF (kana, CJK punctuation), U+FF00-FF7F (full-width forms), U+2000-203F (quotes). */
enum { BPE_ROWS = 7 };
static const uint16_t bpe_row_blocks[BPE_ROWS] = {0xC0, 0xC1, 0xC2, 0xC3, 0x3FC, 0x3FD, 0x80};
static bpe_letter_tables bpe_tables[2]; /* bpe_tables[1] is for `cased` */

/* Set a character's bit in a table of 2,048 characters. */
static void bpe_enter(uint8_t *table, unsigned code) {
    table[(code >> 3 & 192) | (code & 63)] |= (uint8_t)(1u << (code >> 6 & 7));
}

static void bpe_fill_low(bpe_letter_tables *tables, unsigned code, int cased) {
    unsigned part = code / 2048 - 1;
    int bits = bpe_class_of(code), with_case = cased && (bits & (BPE_UPPER | BPE_LOWER)) != (BPE_UPPER | BPE_LOWER);
    if (bits & BPE_LETTER) {
        bpe_enter(tables->low[with_case ? BPE_LOW_CASED : BPE_LOW_LETTER][part], code);
        if (with_case && !(bits & BPE_LOWER)) bpe_enter(tables->low[BPE_LOW_CAPITAL][part], code);
    } else if (!(bits & (BPE_NUMBER | BPE_SPACE)) && bits != BPE_NEW) { /* only NEW: looked up one at a time */
        int mark = cased && bits & (BPE_UPPER | BPE_LOWER);
        bpe_enter(tables->low[mark ? BPE_LOW_MARK : BPE_LOW_OTHER][part], code);
    }
}

static void bpe_fill_tables(bpe_letter_tables *tables, int cased) {
    const uint64_t *bitmap = bpe_bitmaps[cased != 0];
    memset(tables, 0, sizeof *tables);
    for (unsigned code = 0x800; code < 0x2000; code++) bpe_fill_low(tables, code, cased);
    for (unsigned block = 128; block < 1024; block++) {
        unsigned at = (block >> 3 & 64) | (block & 63), bit = 1u << (block >> 6 & 7), row = 0;
        while (row < BPE_ROWS && bpe_row_blocks[row] != block) row++;
        for (unsigned i = 0; i < 64 && row < BPE_ROWS; i++) {
            int any = BPE_LETTER | BPE_NUMBER | BPE_SPACE | BPE_UPPER | BPE_LOWER;
            tables->row[i] |= (uint8_t)((bitmap[block] >> i & 1) << row);
            int bits = bpe_class_of(block << 6 | i);
            tables->other[i] |= (uint8_t)((!(bits & any) && bits != BPE_NEW) << row);
        }
        if (row < BPE_ROWS) continue;
        if (bitmap[block] == ~(uint64_t)0) tables->all[at] |= (uint8_t)bit;
        else if (bitmap[block]) tables->some[at] |= (uint8_t)bit;
    }
    for (unsigned code = 128; code < 2048; code++) {
        int bits = bpe_class_of(code);
        if (bpe_is_other(code, cased)) bpe_enter(tables->others, code);
        if (!(bits & BPE_LETTER)) continue;
        bpe_enter(tables->two, code);
        if (!cased) continue;
        if (!(bits & BPE_LOWER)) bpe_enter(tables->upper, code);
        else if (bits & BPE_UPPER) bpe_enter(tables->uncased, code);
    }
}

/* Indexed by the low four bits of the first byte: all characters with a second byte from `low` to `high`, except
 * `hole`, are letters. */
typedef struct {
    uint8_t low[16];
    uint8_t high[16];
    uint8_t hole[16];
} bpe_letter_spans;

static bpe_letter_spans bpe_spans[2];

/* Find the longest interval for each first byte. */
static void bpe_fill_spans(bpe_letter_spans *spans, int cased) {
    const uint64_t *bitmap = bpe_bitmaps[cased != 0];
    memset(spans->low, 0xFF, sizeof spans->low); /* an empty interval */
    memset(spans->high, 0, sizeof spans->high);
    memset(spans->hole, 0, sizeof spans->hole);
    for (int lead = 0; lead < 16; lead++) {
        int longest = 0;
        for (int low = lead ? 0 : 32; low < 64; low++) {
            int hole = -1;
            for (int high = low; high < 64; high++) {
                if (bitmap[lead << 6 | high] != ~(uint64_t)0) {
                    if (hole >= 0 || high == low) break;
                    hole = high;
                } else if (high - low + (hole < 0) > longest) {
                    longest = high - low + (hole < 0);
                    spans->low[lead] = (uint8_t)(0x80 | low);
                    spans->high[lead] = (uint8_t)(0x80 | high);
                    spans->hole[lead] = (uint8_t)(hole < 0 ? 0 : 0x80 | hole);
                }
            }
        }
    }
}

#define SET(c) _mm256_set1_epi8((char)(c))
#define IS(v, c) _mm256_cmpeq_epi8(v, SET(c))
#define BITS(mask) ((uint64_t)(uint32_t)_mm256_movemask_epi8(mask))
/* Look up each byte of `index` in a table of 16 bytes. */
BPE_TARGET_AVX2 static inline __m256i bpe_in_16_avx2(const uint8_t *table, __m256i index) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), index);
}

/* Look up the lowest six bits of each byte of `index` in a table of 64 bytes: in each quarter of the table, of which
 * bits 4 and 5 select one. */
BPE_TARGET_AVX2 static inline __m256i bpe_in_64_avx2(const uint8_t *table, __m256i index) {
    __m256i four = _mm256_and_si256(index, SET(15));
    __m256i fifth = _mm256_slli_epi16(index, 3), sixth = _mm256_slli_epi16(index, 2); /* as each byte's highest bit */
    __m256i low = _mm256_blendv_epi8(bpe_in_16_avx2(table, four), bpe_in_16_avx2(table + 16, four), fifth);
    __m256i high = _mm256_blendv_epi8(bpe_in_16_avx2(table + 32, four), bpe_in_16_avx2(table + 48, four), fifth);
    return _mm256_blendv_epi8(low, high, sixth);
}

typedef struct { /* masks of 32 positions */
    uint64_t letters;
    uint64_t other;
    uint64_t known; /* decided by a row or an interval; the bitmap decides the rest */
} bpe_three_found;

BPE_TARGET_AVX2 static inline bpe_three_found bpe_find_three_avx2(
    const uint8_t *text, const bpe_letter_tables *tables, const bpe_letter_spans *spans) {
    static const uint8_t kana_row[16] = {1, 2, 4, 8}, full_row[16] = {16, 32}; /* 1 << the row */
    __m256i first = _mm256_loadu_si256((const __m256i *)text);
    __m256i second = _mm256_loadu_si256((const __m256i *)(text + 1));
    __m256i third = _mm256_loadu_si256((const __m256i *)(text + 2));
    __m256i lead = _mm256_and_si256(first, SET(15)), few = _mm256_and_si256(second, SET(3));
    __m256i low = bpe_in_16_avx2(spans->low, lead), high = bpe_in_16_avx2(spans->high, lead);
    __m256i all = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_max_epu8(second, low), second),
                                   _mm256_cmpeq_epi8(_mm256_min_epu8(second, high), second));
    all = _mm256_andnot_si256(_mm256_cmpeq_epi8(second, bpe_in_16_avx2(spans->hole, lead)), all);
    __m256i kana = _mm256_and_si256(IS(first, 0xE3), _mm256_cmpeq_epi8(_mm256_xor_si256(second, SET(0x80)), few));
    __m256i full = _mm256_and_si256(IS(first, 0xEF), IS(_mm256_or_si256(second, SET(1)), 0xBD));
    __m256i marks = _mm256_and_si256(IS(first, 0xE2), IS(second, 0x80));
    __m256i row = _mm256_and_si256(kana, bpe_in_16_avx2(kana_row, few));
    row = _mm256_or_si256(row, _mm256_and_si256(marks, SET(64)));
    row = _mm256_or_si256(row, _mm256_and_si256(full, bpe_in_16_avx2(full_row, _mm256_and_si256(second, SET(1)))));
    __m256i none = _mm256_setzero_si256(); /* equal to a row's bit that is not set in the table */
    __m256i no_letter = _mm256_cmpeq_epi8(_mm256_and_si256(row, bpe_in_64_avx2(tables->row, third)), none);
    __m256i no_other = _mm256_cmpeq_epi8(_mm256_and_si256(row, bpe_in_64_avx2(tables->other, third)), none);
    bpe_three_found found;
    found.letters = BITS(_mm256_or_si256(all, _mm256_andnot_si256(no_letter, SET(-1))));
    found.other = BITS(_mm256_andnot_si256(no_other, SET(-1)));
    found.known = BITS(_mm256_or_si256(_mm256_or_si256(all, kana), _mm256_or_si256(full, marks)));
    return found;
}
#undef SET
#undef IS
#undef BITS

BPE_TARGET_AVX2 static void bpe_find_letters_avx2(const uint8_t *text, int cased, bpe_wide_letters *out) {
    const uint64_t *bitmap = bpe_bitmaps[cased != 0];
    bpe_wide wide;
    memset(out, 0, sizeof *out);
    bpe_avx2_wide(text, &wide);
    if (wide.three) {
        bpe_three_found low = bpe_find_three_avx2(text, &bpe_tables[cased != 0], &bpe_spans[cased != 0]);
        bpe_three_found high = bpe_find_three_avx2(text + 32, &bpe_tables[cased != 0], &bpe_spans[cased != 0]);
        out->three = wide.three & (low.letters | high.letters << 32);
        out->other = wide.three & (low.other | high.other << 32);
        out->three |= bpe_look_up_three(bitmap, text, wide.three & ~(low.known | high.known << 32));
    }
    bpe_set_two(text, wide.two, cased, out);
}

/* Test bits in a table of 64 bytes: return a mask of the positions whose entry has any bit of `bits`. Only the lowest
 * six bits of each byte of `index` count. */
BPE_TARGET_AVX512 static inline uint64_t bpe_in_64(const uint8_t *table, __m512i index, __m512i bits) {
    return _mm512_test_epi8_mask(_mm512_permutexvar_epi8(index, _mm512_loadu_si512((const void *)table)), bits);
}

/* Test bits in a table of 128 bytes; the lowest seven bits of `index` count. */
BPE_TARGET_AVX512 static inline uint64_t bpe_in_128(const uint8_t *table, __m512i index, __m512i bits) {
    __m512i low = _mm512_loadu_si512((const void *)table), high = _mm512_loadu_si512((const void *)(table + 64));
    return _mm512_test_epi8_mask(_mm512_permutex2var_epi8(low, index, high), bits);
}

/* Test bits in a table of 256 bytes; `upper` has the positions that use its upper half. */
BPE_TARGET_AVX512 static inline uint64_t bpe_in_256(
    const uint8_t *table, __m512i index, __m512i bits, uint64_t upper) {
    return (bpe_in_128(table, index, bits) & ~upper) | (bpe_in_128(table + 128, index, bits) & upper);
}

/* Classify the characters of three bytes below U+2000 at `where`, which belong to one part of the tables. The
 * second and third byte index the tables as the two bytes of shorter characters do. */
BPE_TARGET_AVX512 static void bpe_find_low(
    const bpe_letter_tables *tables, int part, uint64_t where, const uint8_t *text, int cased, bpe_wide_letters *out) {
    const __m512i powers = _mm512_set1_epi64((long long)0x8040201008040201ull);
    __m512i second = _mm512_loadu_si512((const void *)(text + 1)), third = _mm512_loadu_si512((const void *)(text + 2));
    __m512i index = _mm512_ternarylogic_epi32(
        _mm512_set1_epi8(64), _mm512_slli_epi16(second, 3), third, 0xCA); /* one bit of the second, six of the third */
    __m512i bits = _mm512_shuffle_epi8(powers, _mm512_and_si512(second, _mm512_set1_epi8(7)));
    uint64_t upper = _mm512_test_epi8_mask(second, _mm512_set1_epi8(16));
    out->three |= where & bpe_in_256(tables->low[BPE_LOW_LETTER][part], index, bits, upper);
    out->other |= where & bpe_in_256(tables->low[BPE_LOW_OTHER][part], index, bits, upper);
    if (cased) {
        out->mark |= where & bpe_in_256(tables->low[BPE_LOW_MARK][part], index, bits, upper);
        if (part == 0) return; /* no letter below U+1000 has case */
        out->cased |= where & bpe_in_256(tables->low[BPE_LOW_CASED][part], index, bits, upper);
        out->capital |= where & bpe_in_256(tables->low[BPE_LOW_CAPITAL][part], index, bits, upper);
    }
}

BPE_TARGET_AVX512 static void bpe_find_letters_avx512(const uint8_t *text, int cased, bpe_wide_letters *out) {
    const bpe_letter_tables *tables = &bpe_tables[cased != 0];
    const uint64_t *bitmap = bpe_bitmaps[cased != 0];
    const __m512i powers = _mm512_set1_epi64((long long)0x8040201008040201ull);
    __m512i first = _mm512_loadu_si512((const void *)text), second = _mm512_loadu_si512((const void *)(text + 1));
    __m512i third = _mm512_loadu_si512((const void *)(text + 2));
#define SET(c) _mm512_set1_epi8((char)(c))
#define IS(v, c) _mm512_cmpeq_epi8_mask(v, SET(c))
    uint64_t tail = _mm512_cmplt_epi8_mask(second, SET(0xC0));
    uint64_t tails = tail & _mm512_cmplt_epi8_mask(third, SET(0xC0));
    uint64_t two = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(first, SET(0xC2)), SET(30)) & tail;
    uint64_t three = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(first, SET(0xE0)), SET(16)) & tails;
    __m512i six = _mm512_and_si512(second, SET(63));
    /* Shifting 16-bit lanes by 3 moves bit 3 of each lead to bit 6; the mask removes bits of the neighbouring byte. */
    __m512i index = _mm512_or_si512(six, _mm512_and_si512(_mm512_slli_epi16(first, 3), SET(64)));
    __m512i bits = _mm512_shuffle_epi8(powers, _mm512_and_si512(first, SET(7)));
    memset(out, 0, sizeof *out);
    if (three) {
        uint64_t kana = IS(first, 0xE3) & _mm512_cmplt_epu8_mask(six, SET(4));
        uint64_t full = IS(first, 0xEF) & IS(_mm512_or_si512(six, SET(1)), 0x3D);
        uint64_t marks = IS(first, 0xE2) & IS(second, 0x80);
        __m512i row = _mm512_shuffle_epi8(powers, _mm512_and_si512(second, SET(3)));  /* 1 << (second & 3) */
        __m512i wide = _mm512_shuffle_epi8(powers, _mm512_add_epi8(_mm512_and_si512(second, SET(1)), SET(4)));
        row = _mm512_mask_mov_epi8(row, full, wide);
        row = _mm512_mask_mov_epi8(row, marks, SET(64));
        row = _mm512_maskz_mov_epi8(kana | full | marks, row);
        out->three = three & (bpe_in_128(tables->all, index, bits) | bpe_in_64(tables->row, third, row));
        out->other = three & bpe_in_64(tables->other, third, row);
        out->three |= bpe_look_up_three(bitmap, text, bpe_in_128(tables->some, index, bits) & three);
        uint64_t low = three & _mm512_cmplt_epu8_mask(first, SET(0xE2)), high = _mm512_test_epi8_mask(second, SET(32));
        if (low) {
            uint64_t e1 = low & IS(first, 0xE1), e0 = low & ~e1 & high; /* a lower second byte is an overlong form */
            if (e0) bpe_find_low(tables, 0, e0, text, cased, out);
            if (e1 & ~high) bpe_find_low(tables, 1, e1 & ~high, text, cased, out);
            if (e1 & high) bpe_find_low(tables, 2, e1 & high, text, cased, out);
        }
    }
    if (two) {
        uint64_t upper = _mm512_test_epi8_mask(first, SET(16));
        out->two = bpe_in_256(tables->two, index, bits, upper) & two;
        if (two & ~out->two) out->others = bpe_in_256(tables->others, index, bits, upper) & two;
        if (cased) {
            out->upper = bpe_in_256(tables->upper, index, bits, upper) & two;
            out->uncased = bpe_in_256(tables->uncased, index, bits, upper) & two;
        }
    }
#undef SET
#undef IS
}
#endif

static bpe_find_letters_t bpe_find_letters = bpe_find_letters_plain;

/* Use the versions of a vector level (base/_cpu.pxd). */
static void bpe_use_level_letters(int level) {
    bpe_fill_bitmaps(level);
    bpe_find_letters = bpe_find_letters_plain;
    for (int cased = 0; cased < 2 && level < 2; cased++) bpe_fill_letter_runs(cased);
#ifdef BPE_X86
    if (level < 2) return;
    for (int cased = 0; cased < 2; cased++) {
        bpe_fill_tables(&bpe_tables[cased], cased);
        bpe_fill_spans(&bpe_spans[cased], cased);
    }
    bpe_find_letters = level >= 3 ? bpe_find_letters_avx512 : bpe_find_letters_avx2;
#endif
}

#endif
