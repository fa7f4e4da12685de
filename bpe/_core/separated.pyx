"""A large text of many documents to ids: the threads that encode the documents also find them.

The text is taken in stretches of equal size, and each border is moved on to a place where the text may be cut: where a
document, or certainly a pretoken, begins. So the thread that encodes a stretch finds its documents just before, while
the text is in that core's cache, and no thread has to wait until all documents are found:

    of equal size  |low low. Lo|w<|end|>low |lower low<||end|>low low
    moved          |low low. Low<|end|>|low| lower low<|end|>|low low

A stretch may begin with the rest of a document that began in the one before; either part may be empty, and their
numbers of ids are added. There is one document more than there are separators. Not here: how the stretches are shared
out (`gather.pyx`), separators that overlap themselves (`documents.pyx`).
"""

import numpy as np

from bpe._core.chunk cimport Fragment, feed_fragments
from bpe._core.documents cimport Needle, find
from bpe._core.gather cimport FRAGMENTS, Job, Room
from bpe._core.memory cimport grown
from bpe._core.pages cimport give_back
from bpe._core.transcoding cimport Units
from bpe._core.types cimport byte_t
from bpe._core.workspace cimport Workspace
from cpython.pythread cimport WAIT_LOCK, PyThread_acquire_lock, PyThread_release_lock
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

#: Bytes of a stretch, and those behind its border that may be cut there: looking takes time.
STRETCH, LOOKED = 1 << 18, 1 << 14

cdef enum:
    SEEN = 8                  # bytes before a place that say whether it may be cut there, or more
    GIVEN = 1 << 22           # bytes of a mapped file whose pages are given back at once

cdef enum:                    # a border that has no place
    UNKNOWN = 0               # as yet
    NONE = -1                 # since none was found before the next border: it is that one

cdef struct Stretch:
    Py_ssize_t border         # where it begins
    int64_t* counts           # of ids, of each of its documents
    size_t n
    size_t room


cdef class SeparatedJob(Job):
    """A text of documents to encode. Nothing is added to it."""

    cdef const byte_t* text
    cdef Py_ssize_t size
    cdef Needle separator              # of no bytes where there is none; it does not overlap itself
    cdef bint keep                     # it belongs to the document before it
    cdef Py_ssize_t stretch_size
    cdef Py_ssize_t looked
    cdef Stretch* stretches
    cdef bint mapped                   # the text is a file's, and its pages are given back
    cdef Py_ssize_t given              # how far

    def __cinit__(self, _encoder, _threads, const byte_t[::1] buffer, bytes separator, bint keep, bint mapped):
        cdef Py_ssize_t at
        self.held += [buffer, separator]
        self.separator.bytes, self.separator.size = separator, len(separator)
        self.keep, self.mapped = keep, mapped
        self.stretch_size, self.looked = STRETCH, LOOKED
        self.size = self.n_bytes = buffer.shape[0]
        self.text = &buffer[0] if self.size else NULL
        self.buffer_end = self.text + self.size
        for at in range(0, self.size, self.stretch_size):
            self.put(Units(data=self.text + at, n=min(self.stretch_size, self.size - at), width=0), 0)
        self.stretches = <Stretch*>calloc(self.n + 1, sizeof(Stretch))
        if self.stretches == NULL:
            raise MemoryError(f"no memory for a list of {self.n} stretches of text")
        self.stretches[self.n].border = self.size

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.stretches != NULL:
            for i in range(self.n):
                free(self.stretches[i].counts)
        free(self.stretches)

    cdef Py_ssize_t most_fragments(self) noexcept:
        return FRAGMENTS

    cdef Py_ssize_t encode(self, Workspace space, Room room, Py_ssize_t start, Py_ssize_t end) except -2 nogil:
        """Encode some of the stretches; the first that has a symbol without an id, or -1."""
        cdef Py_ssize_t i
        for i in range(start, end):
            self.encode_stretch(space, room, &self.stretches[i], self.border(i), self.border(i + 1))
            if space.unknown_at >= 0:
                return i
        return -1

    cdef int encode_stretch(
        self, Workspace space, Room room, Stretch* stretch, Py_ssize_t start, Py_ssize_t end
    ) except -1 nogil:
        """Find and encode the documents of a stretch."""
        cdef Fragment* fragments = room.fragments
        cdef Py_ssize_t n, found
        cdef bint last = False
        while not last:
            n = 0
            while n < FRAGMENTS and not last:
                found = find(self.text, start, end, &self.separator) if self.separator.size else end
                last = found == end
                fragments[n].text, fragments[n].size = self.text + start, found - start
                if self.keep and not last:
                    fragments[n].size += self.separator.size
                start = found + self.separator.size
                n += 1
            stretch.counts = <int64_t*>grown(stretch.counts, &stretch.room, stretch.n + n, sizeof(int64_t))
            feed_fragments(space.feed, fragments, n, self.encoder.scanner)
            space.feed.shared, space.feed.readable = True, self.buffer_end
            self.encoder.run(space, stretch.counts + stretch.n)
            stretch.n += n
        return 0

    cdef void tidy(self) noexcept nogil:
        """Give back the pages of a mapped file: some milliseconds, which the caller alone would take at the end."""
        cdef Py_ssize_t start
        while self.mapped:
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
            start = self.given
            self.given = min(start + GIVEN, self.size)
            PyThread_release_lock(self.lock)
            if start == self.size:
                return
            give_back(self.text + start, self.text + min(start + GIVEN, self.size))

    cdef Py_ssize_t border(self, Py_ssize_t number) noexcept nogil:
        """Where a stretch begins. Whoever asks first finds out; if two do, they find the same."""
        cdef Py_ssize_t found
        if number == 0:
            return 0
        while True:
            found = self.stretches[number].border
            if found == UNKNOWN:
                found = self.find_border(number * self.stretch_size)
                self.stretches[number].border = found
            if found != NONE:
                return found
            number += 1

    cdef Py_ssize_t find_border(self, Py_ssize_t place) noexcept nogil:
        """A place at or after one where the text may be cut, if that is found before the next border; else NONE."""
        cdef Py_ssize_t n = self.separator.size
        cdef Py_ssize_t end = min(place + self.stretch_size, self.size), looked = min(place + self.looked, end)
        cdef Py_ssize_t document = max(place - SEEN, <Py_ssize_t>0)  # one has begun by there
        cdef Py_ssize_t found, at = max(place - SEEN - n, <Py_ssize_t>0)
        cdef Units rest
        while n:
            found = find(self.text, at, min(looked + n, self.size), &self.separator)
            if found >= place:
                looked = min(found, looked)
                break
            at = found + n
            if at >= place:
                return at
            document = max(document, at)
        rest.data, rest.n, rest.width = self.text + document, looked - document, 0
        found = document + self.encoder.cut(&rest, place - document)
        if found < looked:
            return found
        found = find(self.text, place, min(end + n, self.size), &self.separator) if n else end
        return found + n if found < end else NONE

    def result(self):
        """As of any job, but of a symbol without an id it says only that there is one."""
        cdef Py_ssize_t i, k, last = 0, n = 1
        cdef int64_t[::1] out
        for i in range(self.n):
            n += self.stretches[i].n - 1
        lengths = np.zeros(n, dtype=np.int64)
        out = lengths
        for i in range(self.n):
            for k in range(<Py_ssize_t>self.stretches[i].n):
                last += k > 0
                out[last] += self.stretches[i].counts[k]
        if self.keep and find(self.text, self.size - self.separator.size, self.size, &self.separator) < self.size:
            lengths = lengths[: n - 1]                     # nothing is behind the last separator
        return Job.result(self)[0], lengths, self.unknown_at
