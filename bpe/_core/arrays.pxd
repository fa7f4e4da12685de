"""Ids as arrays."""

from bpe._core.fresh cimport Fresh
from bpe._core.merging cimport Ids
from bpe._core.resultpool cimport Loan, ResultPool

cdef enum:
    COPIED = 1 << 20          # ids: a longer output is handed over as it is; copying spares a shorter one new pages

cdef object as_array(Ids* ids, bint kept=*)

cdef object lent_as_array(Ids* ids, ResultPool pool, Loan* loan, const Fresh* fresh)
