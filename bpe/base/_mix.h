/* A hash of two numbers in the style of wyhash: the two halves of their product, combined. */
#ifndef BPE_MIX_H
#define BPE_MIX_H

#include <stdint.h>

static inline uint64_t bpe_mix(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t x = (a ^ (b >> 32)) * 0x9E3779B97F4A7C15ull;
    x ^= (x >> 29) ^ (b * 0xD6E8FEB86659FD93ull);
    return x ^ (x >> 32);
#endif
}

#endif
