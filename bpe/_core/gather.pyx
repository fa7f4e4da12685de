"""Many texts to ids, on several threads: one flat array and the number of ids of each text.

Texts are shared out in parts of about a megabyte, a longer one cut where a pretoken certainly starts. Each thread
encodes a part into a buffer of its own, which stays in its caches, and copies the ids from there to their place in the
result as soon as all parts before have theirs. With one thread the result is written where it stays.

Not here: what the texts are made of (`bpe/encoding.py`), starting threads (`bpe/threads.py`).
"""

import numpy as np

from bpe._core.chunk cimport Fragment
from bpe._core.encoder cimport Encoder, Workspace, as_array, feed_fragments, prepare_output
from bpe._core.merging cimport Ids, reserve
from bpe._core.scan cimport certain_start
from bpe._core.types cimport byte_t, token_t
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

#: Bytes of text in a part.
PART = 1 << 20


cdef class Waiting:
    """The ids of a part that is done before one that comes before it."""

    cdef Ids ids

    def __dealloc__(self):
        free(self.ids.data)


cdef class Job:
    """Texts to encode: fill it with `add_…`, let threads `work`, take the `result`."""

    cdef Encoder encoder
    cdef Fragment* fragments
    cdef Py_ssize_t n                  # of fragments
    cdef size_t room
    cdef readonly Py_ssize_t n_bytes
    cdef const byte_t* buffer_end      # of the one buffer that all texts lie in, or NULL
    cdef Py_ssize_t part_size          # 0: no text is cut
    cdef list held                     # what the fragments point into
    cdef list text_starts              # the first fragment of each text, where texts are not one fragment each
    cdef int64_t[::1] counts           # ids of each fragment, from place 1 on
    cdef object counted
    cdef list parts                    # the first fragment of each part, and their number
    cdef Py_ssize_t begun              # parts that a thread has taken
    cdef Py_ssize_t delivered          # parts whose ids are in place
    cdef dict waiting
    cdef object lock
    cdef Ids ids
    cdef object done                   # the result of a single thread
    cdef Py_ssize_t unknown_at         # the first fragment with a symbol without an id, or -1

    def __cinit__(self, Encoder encoder, bint cutting, lock):
        """`cutting`: several threads will work, so that long texts are shared out; `lock`: a `threading.Lock`."""
        self.encoder = encoder
        self.part_size = PART if cutting else 0
        self.held, self.waiting, self.parts = [], {}, []
        self.text_starts = None
        self.lock = lock
        self.unknown_at = -1

    def __dealloc__(self):
        free(self.fragments)
        free(self.ids.data)

    # Filling ----------------------------------------------------------------------------------------------------------

    cdef int add(self, const byte_t* text, Py_ssize_t size, token_t token) except -1:
        """Add a text, in parts if it is long; or an id, where the size is -1."""
        cdef Py_ssize_t at = 0, end
        while True:
            end = size
            if self.part_size and size - at > 2 * self.part_size and self.encoder.scanner >= 0:
                with nogil:
                    end = certain_start(self.encoder.scanner, text, at + self.part_size, size)
            if <size_t>self.n == self.room:
                self.grow()
            self.fragments[self.n] = Fragment(text=text + max(at, <Py_ssize_t>0), size=end - at, token=token)
            self.n += 1
            at = end
            if at >= size:
                break
        if size > 0:
            self.n_bytes += size
        return 0

    cdef int grow(self) except -1:
        cdef size_t room = self.room + self.room // 2 + 64
        cdef Fragment* fragments = <Fragment*>realloc(self.fragments, room * sizeof(Fragment))
        if fragments == NULL:
            raise MemoryError(f"no memory for a list of {room} texts")
        self.fragments, self.room = fragments, room
        return 0

    def add_items(self, list items, const int64_t[::1] bounds):
        """Add texts, each the items `bounds[i]` to `bounds[i + 1]`: UTF-8 bytes, str, or an id as int."""
        cdef Py_ssize_t i, k, size
        cdef const byte_t* text
        self.held.append(items)
        self.text_starts = starts = []
        for i in range(bounds.shape[0] - 1):
            starts.append(self.n)
            for k in range(bounds[i], bounds[i + 1]):
                item = items[k]
                if isinstance(item, str):
                    if PyUnicode_IS_ASCII(item):
                        text = <const byte_t*>PyUnicode_AsUTF8AndSize(item, &size)
                        self.add(text, size, 0)
                        continue
                    item = item.encode()
                    self.held.append(item)
                if isinstance(item, bytes):
                    self.add(<bytes>item, len(<bytes>item), 0)
                else:
                    self.add(NULL, -1, <token_t>item)

    def add_documents(self, const byte_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] ends):
        """Add texts that lie in one buffer: text i is `buffer[starts[i]:ends[i]]`.

        Raises:
            ValueError: for a text that is not within the buffer.

        """
        cdef Py_ssize_t i, size = buffer.shape[0]
        cdef const byte_t* text = NULL
        if size:
            text = &buffer[0]
            self.buffer_end = text + size
        self.held.append(buffer)
        self.text_starts = first = []
        for i in range(starts.shape[0]):
            if not 0 <= starts[i] <= ends[i] <= size:
                raise ValueError(
                    f"document {i} is from {starts[i]} to {ends[i]}, which is not within the buffer of {size} bytes"
                )
            first.append(self.n)
            self.add(text + starts[i] if size else text, ends[i] - starts[i], 0)

    # Working ----------------------------------------------------------------------------------------------------------

    def prepare(self):
        """Share the fragments out, when all are in; how many parts there are."""
        cdef Py_ssize_t i, total = 0
        self.counted = np.zeros(self.n + 1, dtype=np.int64)
        self.counts = self.counted
        for i in range(self.n if self.part_size else 0):
            if total == 0:
                self.parts.append(i)
            total += max(self.fragments[i].size, <Py_ssize_t>0) + 16
            if total >= self.part_size:
                total = 0
        if not self.parts:
            self.parts.append(0)
        self.parts.append(self.n)
        return len(self.parts) - 1

    def work(self):
        """Encode parts until none is left: what each thread does."""
        cdef Workspace space = self.encoder.workspace()
        cdef Py_ssize_t part, n_parts = len(self.parts) - 1, start, end
        while True:
            with self.lock:
                part = self.begun
                self.begun += 1
            if part >= n_parts:
                break
            start, end = self.parts[part], self.parts[part + 1]
            feed_fragments(space.feed, self.fragments + start, end - start, self.encoder.scanner)
            if self.buffer_end != NULL:
                space.feed.shared, space.feed.readable = True, self.buffer_end
            with nogil:
                if n_parts == 1:
                    prepare_output(space, self.n_bytes)
                self.encoder.run(space, &self.counts[start + 1])
            with self.lock:
                if space.unknown_at >= 0 and (self.unknown_at < 0 or start + space.unknown_at < self.unknown_at):
                    self.unknown_at = start + space.unknown_at
                if n_parts > 1:
                    self.deliver(part, space)
        if n_parts == 1 and space.out.n:
            self.done = self.encoder.taken(space)
        else:
            self.encoder.give_back(space)

    cdef int deliver(self, Py_ssize_t part, Workspace space) except -1:
        """Put the ids of a part in place, or let them wait for those before; the lock is held."""
        cdef Waiting waiting
        if part != self.delivered:
            waiting = Waiting()
            waiting.ids = space.out
            space.out = Ids(data=NULL, n=0, room=0)
            self.waiting[part] = waiting
            return 0
        self.append(&space.out)
        while self.delivered in self.waiting:
            waiting = self.waiting.pop(self.delivered)
            self.append(&waiting.ids)
        return 0

    cdef int append(self, Ids* ids) except -1:
        with nogil:
            reserve(&self.ids, max(ids.n, <size_t>self.n_bytes // 2 if self.delivered == 0 else <size_t>0))
            memcpy(self.ids.data + self.ids.n, ids.data, ids.n * sizeof(token_t))
            self.ids.n += ids.n
            ids.n = 0
        self.delivered += 1
        return 0

    def result(self):
        """When all threads are done: (uint32 ids; int64 ids of each text; the first text with a symbol without an id,
        or -1).
        """
        bad = -1
        lengths = self.counted[1:]
        if self.text_starts is not None:
            starts = np.array([*self.text_starts, self.n], dtype=np.int64)
            lengths = np.diff(np.cumsum(self.counted)[starts])
            if self.unknown_at >= 0:
                bad = int(np.searchsorted(starts, self.unknown_at, side="right")) - 1
        ids = self.done if self.done is not None else as_array(&self.ids)
        return ids, lengths, bad
