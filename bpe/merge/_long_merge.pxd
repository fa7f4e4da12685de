"""Long pieces, merged window by window."""

from bpe.base._ids cimport Ids
from bpe.base._types cimport byte_t, token_t
from bpe.merge._merge_table cimport Merges
from bpe.merge._merging cimport Scratch
from bpe.merge._token_tree cimport TokenTree

cdef bint merge_runs(
    const Merges* merges,
    const byte_t* text,       # IN (n,), n >= 1; `ids` has the token of each byte
    const token_t* ids,
    Py_ssize_t n,
    Ids* out,                 # IN and OUT: the ids are appended
) except -1 nogil

cdef bint merge_long_piece(
    const Merges* merges,
    TokenTree tree,
    const byte_t* text,       # IN (n,) or NULL; `ids` has the token of each byte
    const token_t* ids,
    Py_ssize_t n,             # symbols
    Scratch* scratch,         # has the symbols if `text` is NULL
    Ids* out,                 # IN and OUT: the ids are appended
) except -1 nogil
