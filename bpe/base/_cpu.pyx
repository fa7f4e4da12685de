"""The vector level of this process: the best one that the processor and the compiler offer, chosen once.

A kernel with several versions has a function that takes a level and sets its function pointers. It registers that
function here when it is imported (`follow_vector_level`), so that all kernels run at the same level. The environment
variable BPE_VECTORS (none, avx2 or avx512) lowers the level; it never changes a result.
"""

import os

cdef extern from *:
    """
    #if defined(__x86_64__)
    #include <cpuid.h>
    #endif

    #define BPE_HAS(feature) __builtin_cpu_supports(#feature)

    /* The level that this machine has. A level needs all instructions that any kernel uses at that level
     * (base/_levels.h), and the operating system's support of its registers, which __builtin_cpu_supports checks.
     *
     * Not all compilers know "lzcnt" there. Without LZCNT the same code is BSR, which has another result. */
    static int bpe_machine_level(void) {
    #if defined(__x86_64__)
        unsigned a, b, c = 0, d;
        int lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) && c >> 5 & 1;
        __builtin_cpu_init();
        if (BPE_HAS(avx2) && BPE_HAS(bmi) && BPE_HAS(bmi2) && lzcnt && BPE_HAS(popcnt)) {
            if (BPE_HAS(avx512f) && BPE_HAS(avx512bw) && BPE_HAS(avx512dq) && BPE_HAS(avx512vl) &&
                BPE_HAS(avx512vbmi) && BPE_HAS(avx512vbmi2))
                return 3;
            return 2;
        }
    #endif
        return 0;
    }

    /* What the compiler was allowed to use everywhere (CFLAGS=-march=native, say) and this processor lacks; or "". */
    static const char *bpe_missing_instructions(void) {
    #if defined(__AVX512BW__)
        if (!(BPE_HAS(avx512f) && BPE_HAS(avx512bw) && BPE_HAS(avx512dq) && BPE_HAS(avx512vl))) return "AVX-512";
    #endif
    #if defined(__AVX2__)
        if (!(BPE_HAS(avx2) && BPE_HAS(bmi) && BPE_HAS(bmi2) && BPE_HAS(fma))) return "AVX2";
    #endif
    #if defined(__SSE4_2__)
        if (!(BPE_HAS(sse4.2) && BPE_HAS(popcnt))) return "SSE4.2";
    #endif
        return "";
    }
    #undef BPE_HAS
    """
    int machine_level "bpe_machine_level"()
    const char* missing_instructions "bpe_missing_instructions"()

cdef enum:
    MAX_FOLLOWERS = 16

#: The levels by name.
LEVELS = {"none": PLAIN, "avx2": AVX2, "avx512": AVX512}


cdef int parse_level(name) except -1:
    if name not in LEVELS:
        raise ValueError(f"BPE_VECTORS is {name!r}; it must be one of {', '.join(LEVELS)}")
    return LEVELS[name]


cdef int check_processor() except -1:
    """Refuse to run where instructions are missing that the compiler was allowed to use in all kernels.

    This module itself is compiled with -O1 (`LIGHT` in setup.py), which has not put them into its initialization.
    """
    missing = missing_instructions().decode()
    if missing:
        raise ImportError(f"they are compiled for processors with {missing}, which this one lacks")
    return 0


check_processor()
cdef int level = min(machine_level(), parse_level(os.environ.get("BPE_VECTORS") or "avx512"))
cdef use_level_t[MAX_FOLLOWERS] followers
cdef int n_followers = 0


cdef int follow_vector_level(use_level_t use_level) except -1:
    """Call `use_level` with the level, now and whenever a test changes it."""
    global n_followers
    if n_followers == MAX_FOLLOWERS:
        raise RuntimeError(f"more than {MAX_FOLLOWERS} kernels have vector levels: raise MAX_FOLLOWERS")
    use_level(level)
    followers[n_followers] = use_level
    n_followers += 1
    return 0


def get_vector_level():
    """Return the level that all kernels run at."""
    return level


def set_vector_level(int max_level):
    """Run all kernels at a level, or at the machine's if that is lower, for tests. Returns the level."""
    global level
    cdef int i
    if max_level not in LEVELS.values():
        raise ValueError(f"the level is {max_level}; it must be one of {LEVELS}")
    level = min(max_level, machine_level())
    for i in range(n_followers):
        followers[i](level)
    return level
