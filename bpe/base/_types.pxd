"""The C types that the kernels share, each with the reason for its width.

`tests/base/test_types.py` asserts that the NumPy dtypes on the Python side agree.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

ctypedef uint32_t token_t     # a token id: vocabularies go up to 2**31
ctypedef int64_t count_t      # occurrences: a corpus of 20 GB has pairs beyond 2**31
ctypedef uint32_t cell_t      # a place in the trainer's symbol array, which is refused beyond 2**32 - 2 cells
ctypedef uint8_t byte_t       # a byte of UTF-8 (or of anything else)

cdef extern from *:
    """
    #define BPE_NO_TOKEN UINT32_MAX
    """
    const token_t NO_TOKEN "BPE_NO_TOKEN"    # no such token: an unknown symbol, a separator
