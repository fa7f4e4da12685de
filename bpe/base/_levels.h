/* Versions of a function for vector levels (_cpu.pyx): the targets that they are compiled for, and the choice of one.
 *
 * A level's target has all instructions that _cpu.pyx requires for it. A function that is compiled for the same target as
 * its caller can be inlined. BPE_BEST(level, plain, avx2, avx512) is the version for a level; only x86-64 has the last two.
 */
#ifndef BPE_LEVELS_H
#define BPE_LEVELS_H

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

#endif
