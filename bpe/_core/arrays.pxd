"""Ids as arrays."""

from bpe._core.merging cimport Ids

cdef enum:
    COPIED = 1 << 20          # ids: a longer output is handed over as it is; copying spares a shorter one new pages

cdef object as_array(Ids* ids, bint kept=*)
