/* The ids of characters of three bytes, sixteen at a time where AVX-512 is.
 *
 * The level is chosen once, as for classify.h.
 */
#ifndef BPE_RUNS_H
#define BPE_RUNS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A character of three bytes that no token reaches out of. */
typedef struct {
    uint32_t ids[3];
    uint32_t n; /* 0 where it has not come yet */
} bpe_lone;

/* Its code point. */
static inline size_t bpe_code_of_three(const uint8_t *text) {
    return (size_t)(text[0] & 15) << 12 | (size_t)(text[1] & 63) << 6 | (text[2] & 63);
}

/* Write the ids of characters up to the first that has not come yet, from a table by code point; where that stands, or the
 * end. `*out` moves on behind the ids; room is needed for as many as the text has bytes and one more. */
typedef const uint8_t *(*bpe_emit_lone_t)(
    const bpe_lone *table, const uint8_t *text, const uint8_t *end, uint32_t **out);

static const uint8_t *bpe_emit_lone_plain(
    const bpe_lone *table, const uint8_t *text, const uint8_t *end, uint32_t **out) {
    uint32_t *to = *out;
    for (; text < end; text += 3) {
        const bpe_lone *lone = &table[bpe_code_of_three(text)];
        if (lone->n == 0) break;
        memcpy(to, lone, sizeof *lone);
        to += lone->n;
    }
    *out = to;
    return text;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* The code points of sixteen characters at once: each one's bytes in 32 bits, the last one lowest, six bits of each. */
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) static const uint8_t *bpe_emit_lone_avx512(
    const bpe_lone *table, const uint8_t *text, const uint8_t *end, uint32_t **out) {
    const __m512i order = _mm512_set_epi32(
        0x2D2E2F, 0x2A2B2C, 0x272829, 0x242526, 0x212223, 0x1E1F20, 0x1B1C1D, 0x18191A, 0x151617, 0x121314, 0x0F1011,
        0x0C0D0E, 0x090A0B, 0x060708, 0x030405, 0x000102);
    const __m512i bits = _mm512_set1_epi32(0x000F3F3F), two = _mm512_set1_epi32(0x00014001);
    uint32_t codes[16], *to = *out;
    while (end - text >= 48) {
        __m512i bytes = _mm512_permutexvar_epi8(order, _mm512_maskz_loadu_epi8(0xFFFFFFFFFFFF, text));
        bytes = _mm512_maddubs_epi16(_mm512_and_si512(bytes, bits), two);
        _mm512_storeu_si512((void *)codes, _mm512_madd_epi16(bytes, _mm512_set1_epi32(0x10000001)));
        uint32_t *next = to, missing = 0;
        for (int i = 0; i < 16; i++) {
            const bpe_lone *lone = &table[codes[i]];
            memcpy(next, lone, sizeof *lone);
            next += lone->n;
            missing |= lone->n == 0;
        }
        if (missing) break;
        to = next;
        text += 48;
    }
    *out = to;
    return bpe_emit_lone_plain(table, text, end, out);
}
#endif

static bpe_emit_lone_t bpe_emit_lone = bpe_emit_lone_plain;

/* Use vector instructions where this machine has them, at most the level of classify.h given; the level used. */
static int bpe_choose_runs(int most) {
    bpe_emit_lone = bpe_emit_lone_plain;
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (most >= 3 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi")) {
        bpe_emit_lone = bpe_emit_lone_avx512;
        return 3;
    }
#endif
    (void)most;
    return 0;
}

#endif
