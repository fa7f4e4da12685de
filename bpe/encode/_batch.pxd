"""A job of many texts, and a thread at work on it.

A *text* here is one that the caller gave, a piece of a long one, or the id of a special token between two pieces. Texts
are shared out in *parts*, which threads take in order and encode, so many *fragments* of a part at once as one call of
the encoder takes; a str has become UTF-8 by then. Three texts given, the second one long, in two parts:

    given       [ first ] [ second ....................... ] [ third ]
    texts       0         1         2          3             4            firsts  0 1 4 5
    parts       0                              1                          parts   0 3 5
    counts                                                                of ids, one by text

The Job is what threads share; each has a Room of its own. Two things pass between threads under the Job's lock or its
Delivery's: which part is next (`begun`), and the ids (`delivery`).
"""

from bpe.base._delivery cimport Delivery
from bpe.base._types cimport byte_t, token_t
from bpe.base._utf8 cimport Units
from bpe.encode._chunk cimport Fragment
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace
from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int64_t

cdef enum:
    FRAGMENTS = 4096          # that are encoded at once

cdef struct Text:             # a text or a piece of one, or an id between texts
    Units units               # its size is -1 for an id
    token_t token


cdef class Room:              # what one thread needs
    cdef Workspace space
    cdef Fragment* fragments           # those that are encoded now
    cdef byte_t* utf8                  # theirs, of str and of short texts, one behind the other
    cdef size_t size                   # of that memory

    cdef int reserve(self, size_t size) except -1 nogil


cdef class Job:
    # The texts, which nobody changes once `prepare` has shared them out.
    cdef Encoder encoder
    cdef Py_ssize_t threads
    cdef Text* texts
    cdef Py_ssize_t n                  # how many they are
    cdef size_t room                   # for how many there is memory
    cdef readonly Py_ssize_t n_bytes   # of UTF-8 at most
    cdef const byte_t* buffer_end      # of the one buffer that all texts lie in, or NULL
    cdef list held                     # what the texts point into
    cdef token_t prepended             # the id before each text that is added, and that after it; or NO_TOKEN
    cdef token_t appended
    cdef int64_t* firsts               # the number of the first text of each that was given, and `n` behind them
    cdef size_t firsts_room
    cdef Py_ssize_t n_texts            # how many were given; one more from `prepare` on
    cdef Py_ssize_t* parts             # the number of the first text of each part, and `n` behind them
    cdef size_t parts_room
    cdef Py_ssize_t n_parts
    cdef int64_t[::1] counts           # ids of each text, from place 1 on: each thread writes those of its parts
    cdef object counted                # the same as an array
    # What threads share, under this lock.
    cdef PyThread_type_lock lock
    cdef Py_ssize_t begun              # parts that a thread has taken
    cdef Py_ssize_t stopped            # 1 when no thread is to go on
    cdef Py_ssize_t unknown_at         # the first text with a symbol without an id, or -1
    # The result.
    cdef Delivery delivery             # of several parts: it has a lock of its own
    cdef object done                   # of a single part

    cdef int add(self, Units text) except -1
    cdef Py_ssize_t cut(self, const Units* text, Py_ssize_t size) noexcept nogil
    cdef int put(self, Units units, token_t token) except -1
    cdef int begin_text(self) except -1
    cdef int add_id(self, token_t token) except -1
    cdef int add_item(self, item) except -1
    cdef int add_part(self, Py_ssize_t first) except -1
    cdef Room new_room(self)
    cdef int share_out(self) except -1
    cdef bint do_next(self, Workspace space, Room room) except -1 nogil
    cdef Py_ssize_t begin(self) noexcept nogil
    cdef int give_up(self, Room room) except -1
    cdef int do_part(self, Workspace space, Room room, Py_ssize_t number) except -1 nogil
    cdef Py_ssize_t encode_part(self, Workspace space, Room room, Py_ssize_t number) except -2 nogil
    cdef Py_ssize_t encode(self, Workspace space, Room room, Py_ssize_t start, Py_ssize_t end) except -2 nogil
    cdef Py_ssize_t feed(self, Workspace space, Room room, Py_ssize_t start, Py_ssize_t end) except -1 nogil
    cdef bint is_copied(self, const Text* text) noexcept nogil
