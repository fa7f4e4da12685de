"""Ids as arrays."""

from bpe.base._prefault cimport Fresh
from bpe.base._result_pool cimport Loan, ResultPool
from bpe.merge._merging cimport Ids

cdef enum:
    COPIED = 1 << 20          # ids: a longer output is handed over as it is; copying spares a shorter one new pages

cdef object as_array(Ids* ids, bint kept=*)

cdef object lent_as_array(Ids* ids, ResultPool pool, Loan* loan, const Fresh* fresh)
