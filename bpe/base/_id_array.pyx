"""Ids as arrays: how a kernel's output becomes a result.

A large output is written to memory of a pool (`_result_pool.pyx`), which becomes the array's; a smaller one is copied.
Not here: the output of a call that is going on (`encode/_workspace.pyx`), results of several parts (`_delivery.pyx`).
"""

cimport cython
cimport numpy as cnp

from bpe.base._ids cimport Ids
from bpe.base._result_pool cimport Block, ResultPool
from bpe.base._types cimport token_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cnp.import_array()


@cython.no_gc                 # it is in no cycle, and needs the pool to the end
cdef class Memory:
    """Keeps the memory of an array that was handed over."""

    cdef void* data           # of the C library
    cdef Block block          # or of a pool
    cdef ResultPool pool

    def __dealloc__(self):
        free(self.data)
        if self.block.data != NULL:
            self.pool.take_back(self.block)


cdef void large_output(Ids* ids, ResultPool pool, Block* block, size_t n) noexcept nogil:
    """Have an empty output lie in memory of a pool, with room for n ids, if there is such memory."""
    block[0] = pool.lend(n * sizeof(token_t))
    if block.data != NULL:
        free(ids.data)
        ids[0] = Ids(data=<token_t*>block.data, n=0, room=block.size // sizeof(token_t), lent=True)


cdef object as_array(Ids* ids, ResultPool pool=None, Block* block=NULL):
    """Ids as an array: few are copied, of more it takes over the memory."""
    cdef Memory memory
    cdef void* data
    cdef cnp.npy_intp n = ids.n
    if n <= <cnp.npy_intp>LARGE:
        array = cnp.PyArray_EMPTY(1, &n, cnp.NPY_UINT32, 0)
        if n:
            memcpy(cnp.PyArray_DATA(array), ids.data, n * sizeof(token_t))
        return array
    memory = Memory()
    data = ids.data
    if ids.lent:
        memory.block, memory.pool = block[0], pool
        block.data = NULL
    else:
        memory.data = realloc(data, n * sizeof(token_t))
        if memory.data == NULL:
            memory.data = ids.data
        data = memory.data
    ids[0] = Ids(data=NULL, n=0, room=0, lent=False)
    array = cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT32, data)
    cnp.set_array_base(array, memory)
    return array
