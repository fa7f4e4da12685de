"""A job of many texts, and a thread at work on it."""

from bpe._core.chunk cimport Fragment
from bpe._core.delivery cimport Delivery
from bpe._core.encoder cimport Encoder
from bpe._core.fresh cimport Fresh
from bpe._core.learned cimport Words
from bpe._core.transcoding cimport Units
from bpe._core.types cimport byte_t, token_t
from bpe._core.workspace cimport Workspace
from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int64_t

cdef enum:
    FRAGMENTS = 4096          # that are encoded at once

cdef struct Text:             # a text or a piece of one, or an id between texts
    Units units               # its size is -1 for an id
    token_t token


cdef class Room:
    cdef Workspace space
    cdef Py_ssize_t heard              # of how many parts it knows what others have worked out
    cdef Fragment* fragments
    cdef byte_t* utf8
    cdef size_t size
    cdef Fresh fresh                   # of that memory
    cdef Words noted                   # what it works out for a part

    cdef int reserve(self, size_t size) except -1 nogil


cdef class Job:
    cdef Encoder encoder
    cdef Py_ssize_t threads
    cdef Text* texts
    cdef Py_ssize_t n                  # of texts and pieces of texts
    cdef size_t room
    cdef readonly Py_ssize_t n_bytes
    cdef const byte_t* buffer_end      # of the one buffer that all texts lie in, or NULL
    cdef list held                     # what the texts point into
    cdef int64_t* firsts               # the first piece of each text
    cdef size_t firsts_room
    cdef Py_ssize_t n_texts
    cdef int64_t[::1] counts           # ids of each piece, from place 1 on
    cdef object counted
    cdef Py_ssize_t* parts             # the first piece of each part, and their number
    cdef size_t parts_room
    cdef Py_ssize_t n_parts
    cdef PyThread_type_lock lock       # of what follows
    cdef Py_ssize_t begun              # parts that a thread has taken
    cdef Py_ssize_t stopped            # 1 when no thread is to go on
    cdef Words* told                   # the words that threads have worked out, part by part
    cdef Py_ssize_t n_told             # of how many parts
    cdef size_t n_learned              # how many words these are
    cdef Delivery delivery             # of the ids of several parts
    cdef object done                   # the result of a single one
    cdef Py_ssize_t unknown_at         # the first piece with a symbol without an id, or -1

    cdef int add(self, Units text) except -1
    cdef Py_ssize_t cut(self, const Units* text, Py_ssize_t size) noexcept nogil
    cdef int put(self, Units units, token_t token) except -1
    cdef int begin_text(self) except -1
    cdef int add_item(self, item) except -1
    cdef int add_part(self, Py_ssize_t first) except -1
    cdef void tidy(self) noexcept nogil
    cdef Py_ssize_t most_fragments(self) noexcept
    cdef bint do_next(self, Workspace space, Room room) except -1 nogil
    cdef Py_ssize_t begin(self, Py_ssize_t* n_told, bint* telling) noexcept nogil
    cdef int give_up(self, Room room) except -1
    cdef int do_part(self, Workspace space, Room room, Py_ssize_t number, bint telling) except -1 nogil
    cdef void tell(self, const Words* words) noexcept nogil
    cdef Py_ssize_t encode(self, Workspace space, Room room, Py_ssize_t start, Py_ssize_t end) except -2 nogil
    cdef Py_ssize_t feed(self, Workspace space, Room room, Py_ssize_t start, Py_ssize_t end) except -1 nogil
    cdef bint is_copied(self, const Text* text) noexcept nogil
