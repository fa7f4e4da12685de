"""Ids as arrays."""

from bpe.base._ids cimport Ids
from bpe.base._result_pool cimport MemoryBlock, ResultPool

cdef enum:
    MIN_LARGE_IDS = 1 << 19   # a longer output is handed over as it is; copying spares a shorter one new pages

cdef void reserve_large_output(Ids* ids, ResultPool pool, MemoryBlock* block, size_t n) noexcept nogil

cdef object as_array(Ids* ids, ResultPool pool=*, MemoryBlock* block=*)
