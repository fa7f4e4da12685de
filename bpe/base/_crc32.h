/* CRC-32 as zlib's: eight bytes at a time by tables, or 64 by carry-less multiplication.
 *
 * 2 and 15 GB/s of a core. A CRC is the remainder of the data, as a polynomial over GF(2), by the CRC's; four vectors of
 * 16 bytes are multiplied by x**512 modulo it and added to the next ones. Method and constants: Gopal and others, "Fast
 * CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
 */
#ifndef BPE_CRC32_H
#define BPE_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpe/base/_levels.h"

#define BPE_CRC32_POLYNOMIAL 0xEDB88320u /* reversed: bit 31 - k is the coefficient of x**k */

static uint32_t bpe_crc32_tables[8][256]; /* [k][b]: of byte b and k zero bytes */
static uint32_t bpe_crc32_powers[32];     /* [k]: x**(8 * 2**k); the power 8 * 2**(k + 32) is the same */

/* Multiply two polynomials modulo the CRC's; bit 31 is the coefficient of x**0. */
static uint32_t bpe_crc32_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (; a; a <<= 1) {
        if (a >> 31) product ^= b;
        b = b >> 1 ^ (b & 1 ? BPE_CRC32_POLYNOMIAL : 0);
    }
    return product;
}

static void bpe_crc32_fill_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? BPE_CRC32_POLYNOMIAL : 0);
        bpe_crc32_tables[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = bpe_crc32_tables[k - 1][byte];
            bpe_crc32_tables[k][byte] = crc >> 8 ^ bpe_crc32_tables[0][crc & 255];
        }
    }
    bpe_crc32_powers[0] = 1u << 23;
    for (int k = 1; k < 32; k++) {
        bpe_crc32_powers[k] = bpe_crc32_multiply(bpe_crc32_powers[k - 1], bpe_crc32_powers[k - 1]);
    }
}

/* Go on with a CRC whose bits are inverted, as while it is computed. */
static uint32_t bpe_crc32_go_on_plain(uint32_t crc, const uint8_t *data, size_t n) {
    uint32_t(*tables)[256] = bpe_crc32_tables;
    for (; n >= 8; n -= 8, data += 8) {
        uint32_t a, b;
        memcpy(&a, data, 4);
        memcpy(&b, data + 4, 4);
        a ^= crc;
        crc = tables[7][a & 255] ^ tables[6][a >> 8 & 255] ^ tables[5][a >> 16 & 255] ^ tables[4][a >> 24] ^
              tables[3][b & 255] ^ tables[2][b >> 8 & 255] ^ tables[1][b >> 16 & 255] ^ tables[0][b >> 24];
    }
    while (n--) crc = crc >> 8 ^ tables[0][(crc ^ *data++) & 255];
    return crc;
}

#ifdef BPE_X86
/* Multiply both halves of a by a power of x each, and add b. */
BPE_TARGET_PCLMUL static inline __m128i bpe_crc32_fold(__m128i a, __m128i powers, __m128i b) {
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, powers, 0x00), _mm_clmulepi64_si128(a, powers, 0x11)), b);
}

BPE_TARGET_PCLMUL static uint32_t bpe_crc32_go_on_multiply(uint32_t crc, const uint8_t *data, size_t n) {
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i sums[4];
    uint8_t rest[16];
    if (n < 64) return bpe_crc32_go_on_plain(crc, data, n);
    memcpy(sums, data, 64);
    sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int)crc));
    for (data += 64, n -= 64; n >= 64; data += 64, n -= 64) {
        for (int i = 0; i < 4; i++) {
            sums[i] = bpe_crc32_fold(sums[i], by_512, _mm_loadu_si128((const __m128i *)data + i));
        }
    }
    for (int i = 1; i < 4; i++) sums[i] = bpe_crc32_fold(sums[i - 1], by_128, sums[i]);
    memcpy(rest, &sums[3], 16); /* 16 bytes with the same remainder as all before */
    return bpe_crc32_go_on_plain(bpe_crc32_go_on_plain(0, rest, 16), data, n);
}
#endif

/* Return the CRC of what was before, and n bytes more. */
static uint32_t bpe_crc32(uint32_t before, const uint8_t *data, size_t n, int level) {
#ifdef BPE_X86
    if (level >= 2 && __builtin_cpu_supports("pclmul")) return ~bpe_crc32_go_on_multiply(~before, data, n);
#endif
    (void)level;
    return ~bpe_crc32_go_on_plain(~before, data, n);
}

/* Return the CRC of two byte strings, one after the other, from theirs; n is the second's size: O(log n). */
static uint32_t bpe_crc32_combine(uint32_t first, uint32_t second, size_t n) {
    for (int k = 0; n && first; n >>= 1, k++) {
        if (n & 1) first = bpe_crc32_multiply(first, bpe_crc32_powers[k & 31]);
    }
    return first ^ second;
}

/* Return the CRC of a part of a byte string, moved back over the `end` bytes from the string's start to the part's end.
 *
 * The XOR of these numbers of all parts, moved on over the size of the string (`bpe_crc32_combine` with 0), is its CRC.
 * Each zero byte multiplies a CRC by x**8. As the powers of x repeat after 2**32 - 1, n zero bytes are undone by
 * 2**32 - 1 - n of them.
 */
static uint32_t bpe_crc32_move_back(uint32_t crc, uint64_t end) {
    const uint64_t period = 0xFFFFFFFFu;
    return bpe_crc32_combine(crc, 0, (size_t)(period - end % period));
}

#endif
