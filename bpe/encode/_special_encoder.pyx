"""Texts with special tokens: one search finds their names, and the kernel encodes what is between them.

For tokenizers whose kernel takes text unchanged, and special tokens that one search finds (`vocab/special_tokens.py`).
"""

from bpe.base._aho_corasick cimport Finder, MatchList
from bpe.base._ids cimport append_id
from bpe.base._memory cimport check_allocated
from bpe.base._types cimport byte_t, token_t
from bpe.base._utf8 cimport UTF8_PADDING, CodeUnits, copy_padded, max_utf8_size, to_utf8, get_code_units
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport begin_feed
from bpe.encode._encoder cimport MAX_SHORT_TEXT, Encoder, encode_feed_without_gil
from bpe.encode._fast_path cimport MAX_TINY_BYTES, append_padded, is_repeated
from bpe.encode._workspace cimport Workspace
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef class SpecialEncoder:

    def __cinit__(self, Encoder encoder not None, Finder finder not None, const uint32_t[::1] token_ids not None):
        if token_ids.shape[0] != finder.sizes.shape[0]:
            raise ValueError(f"token_ids has {token_ids.shape[0]} elements; it must have {finder.sizes.shape[0]}")
        self.encoder, self.finder, self.token_ids = encoder, finder, token_ids

    cpdef object encode(self, text):
        """Encode a str, or bytes of UTF-8, to an array; None for a symbol without an id."""
        cdef Workspace workspace = self.encoder.take_workspace()
        if self.append(workspace, text):
            return self.encoder.take_ids(workspace)
        self.encoder.give_back(workspace)
        return None

    cdef bint append(self, Workspace workspace, text) except -1:
        """Append the ids of a text; False, and any ids, where `encode` is None."""
        cdef byte_t utf8[MAX_SHORT_TEXT + UTF8_PADDING]
        cdef byte_t* long_utf8 = NULL
        cdef CodeUnits units
        cdef bytes data                                    # keeps the memory of `units`
        cdef bint is_ascii = False
        cdef Py_ssize_t capacity
        if isinstance(text, str):
            units = get_code_units(text)
            is_ascii = units.width == 0
        else:
            data = text
            units = CodeUnits(data=data, n=len(data), width=0)
        try:
            if units.width:
                capacity = max_utf8_size(&units)
                if capacity <= MAX_SHORT_TEXT:
                    units.n, units.data = to_utf8(&units, utf8), utf8
                else:                                      # `str.encode` would hold the GIL
                    long_utf8 = <byte_t*>check_allocated(malloc(capacity + UTF8_PADDING), capacity, b"bytes")
                    with nogil:
                        units.n, units.data = to_utf8(&units, long_utf8), long_utf8
            if units.n > MAX_SHORT_TEXT:
                return self.append_long(workspace, &units, is_ascii)
            if units.data == utf8:                             # the scanner reads vectors of the text
                memset(utf8 + units.n, 0, UTF8_PADDING)
            else:
                copy_padded(units.data, units.n, utf8)
            units.data = utf8
            return self.append_short(workspace, &units, is_ascii)
        finally:
            free(long_utf8)

    cdef bint append_short(self, Workspace workspace, const CodeUnits* text, bint is_ascii) except -1:
        """Append the ids of UTF-8 after which UTF8_PADDING bytes can be read.

        Fragments that `append_padded` would encode by a chunk each are put together, with the special tokens between.
        """
        cdef MatchList matches = MatchList(rows=NULL, n=0, capacity=0)
        cdef Fragment* fragments = NULL
        cdef const byte_t* fragment = text.data
        cdef const byte_t* readable = text.data + text.n + UTF8_PADDING
        cdef Py_ssize_t i, size, n = 0
        cdef token_t token
        try:
            self.finder.find_leftmost_longest(text.data, 0, text.n, &matches)
            for i in range(matches.n + 1):
                size = text.data + (matches.rows[i].start if i < matches.n else text.n) - fragment
                if size > MAX_TINY_BYTES and (is_ascii or not is_repeated(workspace, fragment, size)):
                    if fragments == NULL:
                        fragments = new_fragments(&matches)
                    fragments[n] = Fragment(text=fragment, size=size, token=0)
                    n += 1
                elif size > 0:
                    if n and not self.append_fragments(workspace, fragments, n, readable, is_ascii):
                        return False
                    n = 0
                    if not append_padded(self.encoder, workspace, fragment, size, is_ascii):
                        return False
                if i < matches.n:
                    token = self.token_ids[matches.rows[i].string_index]
                    fragment = text.data + matches.rows[i].end
                    if n:
                        fragments[n] = Fragment(text=NULL, size=-1, token=token)
                        n += 1
                    else:
                        append_id(&workspace.out, token)
            return n == 0 or self.append_fragments(workspace, fragments, n, readable, is_ascii)
        finally:
            free(matches.rows)
            free(fragments)

    cdef bint append_fragments(
        self, Workspace workspace, const Fragment* fragments, Py_ssize_t n, const byte_t* readable, bint is_ascii
    ) except -1:
        """Append the ids of fragments of short UTF-8, as one feed."""
        begin_feed(workspace.feed, fragments, n, self.encoder.scanner)
        workspace.feed.in_one_buffer, workspace.feed.readable = True, readable
        workspace.feed.is_ascii = is_ascii
        self.encoder.encode_feed(workspace, NULL)
        return not workspace.unknown

    cdef bint append_long(self, Workspace workspace, const CodeUnits* text, bint is_ascii) except -1:
        """Append the ids of UTF-8, the fragments as one feed, without the GIL."""
        cdef MatchList matches = MatchList(rows=NULL, n=0, capacity=0)
        cdef Fragment* fragments = NULL
        cdef Py_ssize_t n
        try:
            with nogil:
                self.finder.find_leftmost_longest(text.data, 0, text.n, &matches)
            fragments = new_fragments(&matches)
            n = self.divide(text.data, text.n, &matches, fragments)
            begin_feed(workspace.feed, fragments, n, self.encoder.scanner)
            workspace.feed.in_one_buffer, workspace.feed.readable = True, text.data + text.n
            workspace.feed.is_ascii = is_ascii
            encode_feed_without_gil(self.encoder, workspace, text.n)
        finally:
            free(matches.rows)
            free(fragments)
        return not workspace.unknown

    cdef Py_ssize_t divide(
        self, const byte_t* text, Py_ssize_t size, const MatchList* matches, Fragment* fragments
    ) noexcept:
        """Set the fragments of a text: special tokens, and what is between them; returns their number."""
        cdef Py_ssize_t i, start, text_start = 0, n = 0
        for i in range(matches.n + 1):
            start = matches.rows[i].start if i < matches.n else size
            if start > text_start:
                fragments[n] = Fragment(text=text + text_start, size=start - text_start, token=0)
                n += 1
            if i < matches.n:
                fragments[n] = Fragment(text=NULL, size=-1, token=self.token_ids[matches.rows[i].string_index])
                n += 1
                text_start = matches.rows[i].end
        return n


cdef Fragment* new_fragments(const MatchList* matches) except NULL:
    """Allocate memory for the matches and what is between them."""
    cdef Py_ssize_t n = 2 * matches.n + 1
    return <Fragment*>check_allocated(malloc(n * sizeof(Fragment)), n, b"texts")
