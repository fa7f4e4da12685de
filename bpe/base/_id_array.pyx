"""Make a NumPy array of the ids that a kernel has written.

A small result is copied into an array of its own. A large one is written to memory of a pool from the beginning
(`_result_pool.pyx`), and the array takes that memory over without a copy.
"""

cimport cython
cimport numpy as cnp

from bpe.base._ids cimport Ids
from bpe.base._result_pool cimport MemoryBlock, ResultPool
from bpe.base._types cimport token_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cnp.import_array()


@cython.no_gc                 # it is part of no cycle, and __dealloc__ needs the pool
cdef class Memory:
    """The owner of an array's memory, which is freed or given back to its pool with the array."""

    cdef void* data           # memory from malloc, or NULL
    cdef MemoryBlock block    # memory of the pool, or `block.data` NULL
    cdef ResultPool pool

    def __dealloc__(self):
        free(self.data)
        if self.block.data != NULL:
            self.pool.take_back(self.block)


cdef void reserve_large_output(Ids* ids, ResultPool pool, MemoryBlock* block, size_t n) noexcept nogil:
    """Give an empty output a pool's memory with room for `n` ids; without such memory it stays as it is."""
    block[0] = pool.lend(n * sizeof(token_t))
    if block.data != NULL:
        free(ids.data)
        ids[0] = Ids(data=<token_t*>block.data, n=0, capacity=block.size // sizeof(token_t), lent=True)


cdef object as_array(Ids* ids, ResultPool pool=None, MemoryBlock* block=NULL):
    """Return the ids as an array: a copy of at most MIN_LARGE_IDS, else their memory, and `ids` becomes empty."""
    cdef Memory memory
    cdef void* data
    cdef cnp.npy_intp n = ids.n
    if n <= <cnp.npy_intp>MIN_LARGE_IDS:
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
    ids[0] = Ids(data=NULL, n=0, capacity=0, lent=False)
    array = cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT32, data)
    cnp.set_array_base(array, memory)
    return array
