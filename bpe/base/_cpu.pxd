"""The vector level: which of a kernel's versions this process runs. It is chosen once, when this module is imported."""

cdef enum:
    PLAIN = 0                 # C, with the compiler's 16-byte vectors (SSE2, NEON and others) for character masks
    AVX2 = 2                  # with BMI1, BMI2, LZCNT and POPCNT
    AVX512 = 3                # with F, BW, DQ, VL, VBMI and VBMI2: Ice Lake, Zen 4 and later

ctypedef void (*use_level_t)(int level) noexcept

cdef int follow_vector_level(use_level_t use_level) except -1
