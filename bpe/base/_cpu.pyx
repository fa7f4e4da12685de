"""The vector level of this process: the best one that the processor and the compiler offer, chosen once.

A kernel with several versions has a function that takes a level and sets its function pointers. It registers that
function here when it is imported (`follow_vector_level`), so that all kernels run at the same level. The environment
variable BPE_VECTORS (none, simd128, avx2 or avx512) lowers the level; it never changes a result.

Not here: the versions themselves, which are next to what they compute.
"""

import os

cdef extern from *:
    """
    /* The level that this machine has. A level needs all instructions that any kernel uses at that level. */
    static int bpe_machine_level(void) {
    #if defined(__x86_64__)
        __builtin_cpu_init();
    #define BPE_HAS(feature) __builtin_cpu_supports(#feature)
        if (BPE_HAS(avx2) && BPE_HAS(bmi) && BPE_HAS(bmi2) && BPE_HAS(popcnt)) {
            if (BPE_HAS(avx512bw) && BPE_HAS(avx512dq) && BPE_HAS(avx512vl) && BPE_HAS(avx512vbmi) &&
                BPE_HAS(avx512vbmi2))
                return 3;
            return 2;
        }
    #undef BPE_HAS
    #endif
        return 1;
    }
    """
    int machine_level "bpe_machine_level"()

cdef enum:
    MOST_FOLLOWERS = 16

#: The levels by name.
LEVELS = {"none": SCALAR, "simd128": SIMD128, "avx2": AVX2, "avx512": AVX512}

cdef int level = min(machine_level(), <int>LEVELS.get(os.environ.get("BPE_VECTORS", ""), AVX512))
cdef use_level_t[MOST_FOLLOWERS] followers
cdef int n_followers = 0


cdef void follow_vector_level(use_level_t use_level) noexcept:
    """Call `use_level` with the level, now and whenever a test changes it."""
    global n_followers
    use_level(level)
    if n_followers < MOST_FOLLOWERS:
        followers[n_followers] = use_level
        n_followers += 1


def vector_level():
    """The level that all kernels run at."""
    return level


def set_vector_level(int most):
    """Have all kernels run at a level, or at the machine's if that is lower; the level that they run at. For tests."""
    global level
    cdef int i
    level = max(min(most, machine_level()), <int>SCALAR)
    for i in range(n_followers):
        followers[i](level)
    return level
