"""Long pieces window by window."""

from bpe._core.backtrack cimport Origins
from bpe._core.merging cimport Alphabet, Ids, Scratch
from bpe._core.pairtable cimport Pairs
from bpe._core.types cimport byte_t


cdef bint merge_windows(
    const Pairs* pairs,
    const Alphabet* alphabet,
    Origins origins,
    const byte_t* piece,      # of a plain alphabet; or NULL: the symbols of the scratch
    Py_ssize_t n,             # bytes or symbols
    Scratch* scratch,
    Ids* out,                 # IN and OUT: the ids are appended
) except -1 nogil
