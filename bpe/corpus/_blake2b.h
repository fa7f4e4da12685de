/* BLAKE2b with a digest of 8 bytes and without a key (RFC 7693), as a little-endian number. */
#ifndef BPE_BLAKE2B_H
#define BPE_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const uint64_t bpe_blake2b_start[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

/* The order in which each round takes the words of a block; the last two rounds repeat the first two. */
static const uint8_t bpe_blake2b_order[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t bpe_rotate_right(uint64_t word, int n) { return word >> n | word << (64 - n); }

static inline void bpe_blake2b_mix(uint64_t *a, uint64_t *b, uint64_t *c, uint64_t *d, uint64_t x, uint64_t y) {
    *a += *b + x;
    *d = bpe_rotate_right(*d ^ *a, 32);
    *c += *d;
    *b = bpe_rotate_right(*b ^ *c, 24);
    *a += *b + y;
    *d = bpe_rotate_right(*d ^ *a, 16);
    *c += *d;
    *b = bpe_rotate_right(*b ^ *c, 63);
}

/* Mix a block of 128 bytes into the state; `n` is the number of bytes up to its end. */
static inline void bpe_blake2b_block(uint64_t state[8], const uint8_t *block, uint64_t n, int is_last) {
    uint64_t words[16], v[16];
    memcpy(words, block, 128);
    memcpy(v, state, 64);
    memcpy(v + 8, bpe_blake2b_start, 64);
    v[12] ^= n;
    if (is_last) v[14] = ~v[14];
    for (int round = 0; round < 12; round++) {
        const uint8_t *at = bpe_blake2b_order[round];
        for (int i = 0; i < 4; i++)
            bpe_blake2b_mix(v + i, v + 4 + i, v + 8 + i, v + 12 + i, words[at[2 * i]], words[at[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            bpe_blake2b_mix(v + i, v + 4 + (i + 1) % 4, v + 8 + (i + 2) % 4, v + 12 + (i + 3) % 4,
                            words[at[8 + 2 * i]], words[at[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
}

static inline uint64_t bpe_blake2b(const uint8_t *text, size_t n) {
    uint64_t state[8];
    uint8_t last[128] = {0};
    size_t done = 0;
    memcpy(state, bpe_blake2b_start, 64);
    state[0] ^= 0x01010008; /* no key, a digest of 8 bytes */
    for (; n - done > 128; done += 128) bpe_blake2b_block(state, text + done, done + 128, 0);
    memcpy(last, text + done, n - done);
    bpe_blake2b_block(state, last, n, 1);
    return state[0];
}

#endif
