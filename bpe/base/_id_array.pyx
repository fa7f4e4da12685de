"""Ids as arrays: how a kernel's output becomes a result.

Not here: where the memory of large ones comes from and goes (`_result_pool.pyx`), the output of a call that is going on
(`encode/_workspace.pyx`), results of several parts (`_delivery.pyx`).
"""

cimport cython
cimport numpy as cnp

from bpe.base._prefault cimport Fresh, fresh_touched
from bpe.base._result_pool cimport Loan, ResultPool
from bpe.base._types cimport token_t
from bpe.merge._merging cimport Ids
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cnp.import_array()

cdef enum:
    FEW = 1 << 14             # ids that are copied sooner than memory is cut to what they take


@cython.no_gc                 # it is in no cycle, and needs the pool to the end
cdef class Memory:
    """Keeps the memory of an array that was handed over."""

    cdef void* data           # of the C library
    cdef Loan loan            # or of a pool
    cdef ResultPool pool

    def __dealloc__(self):
        free(self.data)
        if self.loan.data != NULL:
            self.pool.take_back(&self.loan, 0, self.loan.size)


cdef object as_array(Ids* ids, bint kept=True):
    """Ids as an array: short ones are copied, of more the memory is handed over; so it is where it need not be kept."""
    cdef Memory memory
    cdef void* data
    cdef size_t n = ids.n
    if n <= <size_t>(COPIED if kept else FEW):
        return copied(ids)
    memory = Memory()
    data = realloc(ids.data, n * sizeof(token_t))
    memory.data = data if data != NULL else <void*>ids.data
    ids[0] = Ids(data=NULL, n=0, room=0, lent=False)
    return array_of(memory, memory.data, n)


cdef object lent_as_array(Ids* ids, ResultPool pool, Loan* loan, const Fresh* fresh):
    """Ids in the memory of a loan as an array, which that becomes part of, unless they are few."""
    cdef Memory memory
    cdef size_t n = ids.n
    if n <= FEW:
        return copied(ids)
    memory = Memory()
    pool.take_back(loan, n * sizeof(token_t), fresh_touched(fresh, loan.data))
    memory.loan, memory.pool = loan[0], pool
    loan[0] = Loan(data=NULL, size=0)
    ids[0] = Ids(data=NULL, n=0, room=0, lent=False)
    return array_of(memory, memory.loan.data, n)


cdef object copied(const Ids* ids):
    cdef cnp.npy_intp n = ids.n
    array = cnp.PyArray_EMPTY(1, &n, cnp.NPY_UINT32, 0)
    if n:
        memcpy(cnp.PyArray_DATA(array), ids.data, n * sizeof(token_t))
    return array


cdef object array_of(Memory memory, void* data, cnp.npy_intp n):
    """An array that keeps the memory it lies in."""
    array = cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT32, data)
    cnp.set_array_base(array, memory)
    return array
