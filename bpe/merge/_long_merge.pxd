"""Long pieces window by window."""

from bpe.base._types cimport byte_t
from bpe.merge._backtrack cimport Origins
from bpe.merge._merge_table cimport Pairs
from bpe.merge._merging cimport Alphabet, Ids, Scratch


cdef Py_ssize_t most_symbols  # of a piece that are held at once

cdef bint merge_unread(
    const Pairs* pairs,
    const Alphabet* alphabet,
    Origins origins,
    const byte_t* text,       # IN (size,)
    Py_ssize_t size,
    Scratch* scratch,         # with room for `most_symbols` symbols
    Py_ssize_t* unknown,      # OUT: the offset of the first symbol without an id; left alone if there is none
    Ids* out,                 # IN and OUT: the ids are appended
) except -1 nogil

cdef bint merge_windows(
    const Pairs* pairs,
    const Alphabet* alphabet,
    Origins origins,
    const byte_t* piece,      # of a plain alphabet; or NULL: the symbols of the scratch
    Py_ssize_t n,             # bytes or symbols
    Scratch* scratch,
    Ids* out,                 # IN and OUT: the ids are appended
) except -1 nogil
