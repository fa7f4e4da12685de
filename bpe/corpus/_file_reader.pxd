"""Reading a text file in small blocks without the GIL."""

cimport cython

from bpe.base._aho_corasick cimport Finder, MatchList
from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t

#: Called as last(context, text, low, end): the last position greater than `low` where `text[:end]` may be cut whatever
#: follows it, or `low`.
ctypedef Py_ssize_t (*find_last_t)(void* context, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil


cdef class FileReader


cdef class FileBlock:
    cdef bytearray buffer
    cdef byte_t* data                  # of the buffer
    cdef Py_ssize_t capacity           # bytes of the buffer
    cdef Py_ssize_t n                  # bytes of the text, which the buffer begins with
    cdef Py_ssize_t offset             # of the text in the file
    cdef readonly Py_ssize_t size      # bytes that were read for it
    cdef readonly Py_ssize_t index     # among the blocks of its file
    cdef readonly bint begins_document  # with a new document rather than the rest of one
    cdef readonly bint ends_document   # the last document ends with the block
    cdef FileReader reader             # where it comes from
    cdef int64_t* starts               # of the documents
    cdef int64_t* sizes                # in bytes
    cdef Py_ssize_t n_documents
    cdef size_t starts_capacity, sizes_capacity
    cdef MatchList matches             # of separators

    cdef int reserve(self, Py_ssize_t size, Py_ssize_t kept) except -1 nogil
    cdef int split(self, FileReader reader) except -1 nogil
    cdef int add_document(self, Py_ssize_t start, Py_ssize_t end) except -1 nogil


cdef class FileReader:
    cdef int file
    cdef readonly object source
    cdef Py_ssize_t size, n_read       # bytes of the file, and those that were read
    cdef Py_ssize_t block_bytes        # bytes to read at once
    cdef readonly Py_ssize_t n_blocks  # that were read
    cdef readonly bint finished        # every byte is in a block
    cdef public Py_ssize_t file_index  # of the file among its sources
    cdef list separators
    cdef bint keep_separator
    cdef bint separator_ends           # a separator at the end starts no empty document
    cdef readonly bint requires_utf8
    cdef Finder separator_finder       # finds separators
    cdef bytes separator_bytes         # the separator
    cdef const char* separator
    cdef Finder unsplittable_finder    # finds strings that must not be cut
    cdef byte_t* remainder             # read, but not in a block yet
    cdef Py_ssize_t n_remainder
    cdef size_t remainder_capacity
    cdef bint begins_document          # the next block, with a new document
    cdef cython.pythread_type_lock lock    # held while `take_block` reads; never acquired while holding the GIL

    cdef bint take_block(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil
    cdef bint read_next(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil
