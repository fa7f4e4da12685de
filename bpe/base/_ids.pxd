"""A growing array of token ids."""

from bpe.base._memory cimport grow_array
from bpe.base._pages cimport ask_for_huge_pages
from bpe.base._types cimport token_t
from libc.string cimport memcpy

cdef struct Ids:              # a growing array of ids
    token_t* data
    size_t n
    size_t capacity
    bint lent                 # the array lies in memory of others: if it has to grow, it moves out


cdef inline int grow_ids(Ids* ids, size_t more) except -1 nogil:
    """Grow an array of ids, in large pages where the system has them: fresh small ones are a tenth of all time."""
    cdef token_t* lent = ids.data if ids.lent else NULL
    if ids.lent:
        ids.data, ids.capacity = NULL, 0
    ids.data = <token_t*>grow_array(ids.data, &ids.capacity, ids.n + more, sizeof(token_t))
    if ids.lent:
        memcpy(ids.data, lent, ids.n * sizeof(token_t))
        ids.lent = False
    ask_for_huge_pages(ids.data, ids.capacity * sizeof(token_t))
    return 0


cdef inline int reserve(Ids* ids, size_t more) except -1 nogil:
    """Make room for `more` ids after those of the array."""
    if ids.n + more > ids.capacity:
        return grow_ids(ids, more)
    return 0


cdef inline int append_id(Ids* ids, token_t token) except -1 nogil:
    reserve(ids, 1)
    ids.data[ids.n] = token
    ids.n += 1
    return 0


cdef inline int append_ids(Ids* ids, const token_t* data, size_t n) except -1 nogil:
    if n:                                                  # without ids, `data` may be NULL
        reserve(ids, n)
        memcpy(ids.data + ids.n, data, n * sizeof(token_t))
        ids.n += n
    return 0
