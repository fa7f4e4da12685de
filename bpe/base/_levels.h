/* Versions of a function for vector levels (_cpu.pyx): the targets that they are compiled for, and the choice of one.
 *
 * A level's target has all instructions that _cpu.pyx requires for it. A function that is compiled for the same target as
 * its caller can be inlined. BPE_BEST(level, plain, avx2, avx512) is the version for a level; only x86-64 has the last two.
 */
#ifndef BPE_LEVELS_H
#define BPE_LEVELS_H

#include <stdint.h>

/* For a function that each level's version inlines, with the level as a constant. */
#define BPE_INLINE __attribute__((always_inline))

#if defined(__x86_64__)
#include <immintrin.h>
#define BPE_X86 1
#define BPE_AVX2_FEATURES "avx2,bmi,bmi2,lzcnt,popcnt"
#define BPE_TARGET_AVX2 __attribute__((target(BPE_AVX2_FEATURES)))
#define BPE_TARGET_AVX512 \
    __attribute__((target(BPE_AVX2_FEATURES ",avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")))
/* Only where __builtin_cpu_supports("pclmul"), beside AVX2's level: no level requires it. */
#define BPE_TARGET_PCLMUL __attribute__((target(BPE_AVX2_FEATURES ",pclmul")))
#define BPE_BEST(level, plain, avx2, avx512) ((level) >= 3 ? (avx512) : (level) >= 2 ? (avx2) : (plain))
#else
#define BPE_TARGET_AVX2
#define BPE_TARGET_AVX512
#define BPE_BEST(level, plain, avx2, avx512) ((void)(level), (plain))
#endif

#ifdef BPE_X86 /* instructions that x86-64 has from AVX2's level on */
BPE_TARGET_AVX2 static inline int bpe_popcount_avx2(uint64_t bits) { return __builtin_popcountll(bits); }
BPE_TARGET_AVX2 static inline int bpe_next_bit_avx2(uint64_t bits) { return (int)_tzcnt_u64(bits); }
#endif

/* The number of bits that are set. */
BPE_INLINE static inline int bpe_popcount(int level, uint64_t bits) {
#ifdef BPE_X86
    if (level >= 2) return bpe_popcount_avx2(bits);
    bits -= bits >> 1 & 0x5555555555555555u; /* the builtin would call a function */
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    return (int)(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
#else
    (void)level;
    return __builtin_popcountll(bits);
#endif
}

/* The index of the lowest bit that is set; of none, any index. */
BPE_INLINE static inline int bpe_next_bit(int level, uint64_t bits) {
#ifdef BPE_X86
    if (level >= 2) return bpe_next_bit_avx2(bits);
#endif
    (void)level;
    return __builtin_ctzll(bits | (uint64_t)1 << 63);
}

#endif
