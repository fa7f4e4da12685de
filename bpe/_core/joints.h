/* Where two characters of three bytes meet, 58 places at a time: what cutting text needs vector instructions for. */
#ifndef BPE_JOINTS_H
#define BPE_JOINTS_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The bits of 64 bytes that are 0xE0-0xEF, where characters of three bytes begin, and 0x80-0xBF, which go on with one. */
static inline void bpe_leads_and_tails(const uint8_t *text, uint64_t *leads, uint64_t *tails) {
    uint64_t lead = 0, tail = 0;
#if defined(__SSE2__)
    for (int at = 0; at < 64; at += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(text + at));
        __m128i high = _mm_and_si128(v, _mm_set1_epi8((char)0xF0));
        lead |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(high, _mm_set1_epi8((char)0xE0))) << at;
        tail |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmplt_epi8(v, _mm_set1_epi8((char)0xC0))) << at;
    }
#else
    for (int at = 0; at < 64; at++) {
        lead |= (uint64_t)((text[at] & 0xF0) == 0xE0) << at;
        tail |= (uint64_t)((text[at] & 0xC0) == 0x80) << at;
    }
#endif
    *leads = lead;
    *tails = tail;
}

/* The places of 64 bytes, from the fourth to the sixty-second, where a character of three bytes follows another. */
static inline uint64_t bpe_meetings(const uint8_t *text) {
    uint64_t lead, tail;
    bpe_leads_and_tails(text, &lead, &tail);
    return lead & lead << 3 & tail << 1 & tail << 2 & tail >> 1 & tail >> 2;
}

#endif
