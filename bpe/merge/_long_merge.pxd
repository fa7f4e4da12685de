"""Long pieces window by window."""

from bpe.base._ids cimport Ids
from bpe.base._types cimport byte_t
from bpe.merge._merge_table cimport Pairs
from bpe.merge._merging cimport Alphabet, Scratch
from bpe.merge._origins cimport Origins

cdef bint merge_windows(
    const Pairs* pairs,
    const Alphabet* alphabet,
    Origins origins,
    const byte_t* text,       # IN (size,)
    Py_ssize_t size,
    Scratch* scratch,
    Py_ssize_t* unknown,      # OUT: the offset of the first symbol without an id; left alone if there is none
    Ids* out,                 # IN and OUT: the ids are appended
) except -1 nogil
