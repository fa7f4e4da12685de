"""Ids as arrays: how a kernel's output becomes a result.

Not here: the output of a call that is going on (`workspace.pyx`), results of several parts (`gather.pyx`).
"""

cimport numpy as cnp

from bpe._core.merging cimport Ids
from bpe._core.types cimport token_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cnp.import_array()

cdef enum:
    FEW = 1 << 14             # ids that are copied sooner than memory is cut to what they take


cdef class Memory:
    """Keeps the memory of an array that was handed over."""

    cdef void* data

    def __dealloc__(self):
        free(self.data)


cdef object as_array(Ids* ids, bint kept=True):
    """Ids as an array: short ones are copied, of more the memory is handed over; so it is where it need not be kept."""
    cdef cnp.npy_intp n = ids.n
    cdef Memory memory
    cdef void* data
    if n <= (COPIED if kept else FEW):
        array = cnp.PyArray_EMPTY(1, &n, cnp.NPY_UINT32, 0)
        if n:
            memcpy(cnp.PyArray_DATA(array), ids.data, n * sizeof(token_t))
        return array
    memory = Memory()
    data = realloc(ids.data, n * sizeof(token_t))
    memory.data = data if data != NULL else <void*>ids.data
    ids[0] = Ids(data=NULL, n=0, room=0, lent=False)
    array = cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT32, memory.data)
    cnp.set_array_base(array, memory)
    return array
