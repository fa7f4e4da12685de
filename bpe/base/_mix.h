/* Hashes that nobody can choose keys for: multiplications by numbers that are secret and differ between processes.
 *
 * A product is 0 if one factor is, and simple if one is small. So each word of a key is combined with a secret before it
 * is multiplied by another one: with factors that are known, words can be chosen that all have the same hash, and looking
 * up n of them takes n * n steps. No result depends on a hash.
 */
#ifndef BPE_MIX_H
#define BPE_MIX_H

#include <stdint.h>

/* In a kernel, from the secret of Python's own hashes: PYTHONHASHSEED sets these too, and all kernels have the same ones. */
static uint64_t bpe_secrets[3] = {0x9E3779B97F4A7C15ull, 0xD6E8FEB86659FD93ull, 0x8EBC6AF09C88C6E3ull};

#ifdef Py_PYTHON_H
/* Run when the kernel is loaded, by an interpreter that has its secret already. */
__attribute__((constructor)) static void bpe_make_secrets(void) {
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t number[2] = {2 * i, 2 * i + 1};
        uint64_t low = (uint32_t)PyHash_GetFuncDef()->hash(&number[0], 8);
        uint64_t high = (uint32_t)PyHash_GetFuncDef()->hash(&number[1], 8);
        bpe_secrets[i] = high << 32 | low | 1;
    }
}
#endif

/* The two halves of a product, combined, in the style of wyhash. */
static inline uint64_t bpe_mix(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t low_a = (uint32_t)a, high_a = a >> 32, low_b = (uint32_t)b, high_b = b >> 32;
    uint64_t middle = high_a * low_b + (low_a * low_b >> 32), other = low_a * high_b + (uint32_t)middle;
    return a * b ^ (high_a * high_b + (middle >> 32) + (other >> 32));
#endif
}

static inline uint64_t bpe_hash_one(uint64_t a) { return bpe_mix(a, bpe_secrets[2]); } /* 0 has the hash 0 */
static inline uint64_t bpe_hash_two(uint64_t a, uint64_t b) { return bpe_mix(a ^ bpe_secrets[0], b ^ bpe_secrets[1]); }

#endif
