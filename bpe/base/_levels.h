/* Versions of a function for vector levels (_cpu.pyx): the targets that they are compiled for, and the choice of one. */
#ifndef BPE_LEVELS_H
#define BPE_LEVELS_H

/* A function that is compiled for the same target as its caller can be inlined.
 *
 * BPE_BEST(level, plain, avx2, avx512) is the version for a level; only x86-64 has the last two. */
#if defined(__x86_64__)
#define BPE_X86 1
#define BPE_FOR_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define BPE_FOR_AVX512 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vbmi,avx512vbmi2")))
#define BPE_BEST(level, plain, avx2, avx512) ((level) >= 3 ? (avx512) : (level) >= 2 ? (avx2) : (plain))
#else
#define BPE_FOR_AVX2
#define BPE_FOR_AVX512
#define BPE_BEST(level, plain, avx2, avx512) ((void)(level), (plain))
#endif

#endif
