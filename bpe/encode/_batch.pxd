"""A job of many texts, and the threads that work on it.

An *item* is a text, a stretch of a long one, or the id of a special token between two stretches. Items are divided into
*parts*, which threads take in order and encode, as many *fragments* of a part at once as one call of the encoder takes;
a str has been converted to UTF-8 by then. Three texts, the second one long, in two parts:

    texts        [ first ] [ second ....................... ] [ third ]
    items        0         1         2          3             4            first_items  0 1 4 5
    parts        0                              1                          parts        0 3 5
    counts                                                                 ids of each item

Threads share the EncodeJob; each has ThreadBuffers of its own. Two things pass between threads under a lock, the
job's or its OrderedIds': the next part (`n_taken`) and the ids (`output`).
"""

cimport cython

from bpe.base._ordered_output cimport OrderedIds
from bpe.base._types cimport byte_t, token_t
from bpe.base._utf8 cimport CodeUnits
from bpe.base._visitor cimport Visitor
from bpe.encode._chunk cimport Fragment
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace
from libc.stdint cimport int64_t

cdef enum:
    MAX_FRAGMENTS = 4096      # encoded at once, at most

cdef struct Item:             # a text, a stretch of a long one, or an id between stretches
    CodeUnits units           # of size -1 for an id
    token_t token


cdef class ThreadBuffers:     # the memory of one thread
    cdef Fragment* fragments           # the fragments that are encoded now
    cdef byte_t* utf8                  # the UTF-8 of the texts that are copied
    cdef size_t size                   # bytes of `utf8`

    cdef int reserve(self, size_t size) except -1 nogil


cdef class EncodeJob:
    # The items, immutable after `prepare`.
    cdef Encoder encoder
    cdef Py_ssize_t threads
    cdef Item* items
    cdef Py_ssize_t n_items            # the number of items
    cdef size_t item_capacity          # items for which there is memory
    cdef readonly Py_ssize_t n_bytes   # bytes of UTF-8, at most
    cdef const byte_t* buffer_end      # the end of the buffer, if all texts are in one and not copied; else NULL
    cdef bint copies                   # another thread may write to the buffer: copy texts before they are read
    cdef list owners                   # objects that the items point into
    cdef token_t prepended             # the ids before and after each text that is added, or NO_TOKEN
    cdef token_t appended
    cdef public Py_ssize_t max_ids     # of each text, after which its rest may be left out; 0 if all are wanted
    cdef int64_t* first_items          # the first item of each text; `n_items` at the end
    cdef size_t first_items_capacity
    cdef Py_ssize_t n_texts            # one more from `prepare` on
    cdef Py_ssize_t* parts             # the first item of each part; `n_items` at the end
    cdef size_t parts_capacity
    cdef Py_ssize_t n_parts
    cdef int64_t[::1] counts           # ids of each item, after a 0; each thread writes those of its parts
    cdef object counts_array           # `counts` as an array
    # State that threads share, under this lock.
    cdef cython.pythread_type_lock lock
    cdef Py_ssize_t n_taken            # parts that a thread has taken
    cdef Py_ssize_t stopped            # 1 when all threads must stop
    cdef Py_ssize_t unknown_item       # the first item with a symbol that has no id, or -1
    # The result.
    cdef object out                    # the array that several parts are written to; None for a new one
    cdef OrderedIds output             # the ids of several parts; the output has a lock of its own
    cdef object single_part_ids        # the ids of a single part

    cdef bint keep_error(self, ThreadBuffers buffers, error) except -1
    cdef int finish(self, Workspace workspace) except -1
    cdef ThreadBuffers new_buffers(self)
    cdef int allocate_shared(self) except -1
    cdef bint encode_next(self, Workspace workspace, ThreadBuffers buffers) except -1 nogil
    cdef Py_ssize_t take_part(self) noexcept nogil
    cdef int encode_and_deliver(self, Workspace workspace, ThreadBuffers buffers, Py_ssize_t part) except -1 nogil
    cdef Py_ssize_t encode_part(self, Workspace workspace, ThreadBuffers buffers, Py_ssize_t part) except -2 nogil
    cdef Py_ssize_t encode_items(
        self, Workspace workspace, ThreadBuffers buffers, Py_ssize_t start, Py_ssize_t end
    ) except -2 nogil


cdef Py_ssize_t visit_spans(
    Encoder encoder, Visitor visitor, const byte_t* text, Py_ssize_t size, const int64_t* starts, const int64_t* sizes,
    Py_ssize_t n,
) except -2
