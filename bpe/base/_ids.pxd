"""A growing array of token ids."""

from bpe.base._memory cimport grown
from bpe.base._pages cimport ask_for_huge_pages
from bpe.base._types cimport token_t
from libc.string cimport memcpy

cdef struct Ids:              # a growing array of ids
    token_t* data
    size_t n
    size_t room
    bint lent                 # it lies in memory of others: if it has to grow, it moves out


cdef inline int make_room(Ids* ids, size_t more) except -1 nogil:
    """Grow an array of ids, in large pages where the system has them: fresh small ones are a tenth of all time."""
    cdef token_t* lent = ids.data if ids.lent else NULL
    if ids.lent:
        ids.data, ids.room = NULL, 0
    ids.data = <token_t*>grown(ids.data, &ids.room, ids.n + more, sizeof(token_t))
    if ids.lent:
        memcpy(ids.data, lent, ids.n * sizeof(token_t))
        ids.lent = False
    ask_for_huge_pages(ids.data, ids.room * sizeof(token_t))
    return 0


cdef inline int reserve(Ids* ids, size_t more) except -1 nogil:
    """Room for `more` ids after those of the array."""
    if ids.n + more > ids.room:
        return make_room(ids, more)
    return 0
