"""Many texts to ids, on several threads: one flat array and the number of ids of each text.

Texts are divided into parts of up to a megabyte; a longer text is split where a pretoken certainly starts. The threads
take the parts in order. `base/_ordered_output.pyx` concatenates the ids of the parts; with one thread they are written
straight into the result. A str that is not ASCII is converted to UTF-8 in blocks, by the thread that encodes it; texts
in memory that another thread may write to are copied in the same way.
"""

import numpy as np

from bpe.base._interrupts import StoppedError

from bpe.base._atomic cimport store
from bpe.base._bounds cimport check_offsets, check_spans
from bpe.base._ordered_output cimport OrderedIds
from bpe.base._interrupts cimport begin_watch
from bpe.base._memory cimport check_allocated, check_lock, grow_array
from bpe.base._pages cimport ask_for_huge_pages
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.base._utf8 cimport UTF8_PADDING, CodeUnits, max_utf8_size, to_utf8, units_of_item
from bpe.base._visitor cimport Visitor
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport feed_fragments
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace, prepare_output
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

#: Bytes of text in a part at most, and in the smallest parts, which are the first ones and the last ones.
MAX_PART, MIN_PART = 1 << 20, 1 << 16

cdef enum:
    STEP = 1 << 17            # bytes that are transcoded at once, so that they stay in a cache
    SEVERAL = 8               # with less text than 8 smallest parts, one thread works
    LOOKED = 1 << 14          # characters that are searched for a split point
    COPIED = 512              # bytes: shorter texts are copied into one buffer, since every end of a buffer takes time
    VISITED = 1 << 14         # ids that a Visitor takes at once, or some more: they stay in a cache
    VISITED_TEXTS = 512       # that are encoded for a Visitor at once


cdef class Worker:
    """A thread's memory for texts, as fragments of UTF-8."""

    def __cinit__(self, size_t n):
        self.fragments = <Fragment*>check_allocated(malloc(max(n, <size_t>1) * sizeof(Fragment)), n, b"texts")

    def __dealloc__(self):
        free(self.fragments)
        free(self.utf8)

    cdef int reserve(self, size_t size) except -1 nogil:
        """Have memory for `size` bytes of UTF-8; its contents are lost if it grows."""
        if size <= self.size:
            return 0
        free(self.utf8)
        self.size = 0
        self.utf8 = NULL
        self.utf8 = <byte_t*>check_allocated(malloc(size), size, b"bytes of UTF-8")
        self.size = size
        ask_for_huge_pages(self.utf8, size)
        return 0


cdef class EncodeJob:
    """Texts to encode: fill it with `add_…`, call `prepare`, `work` in each thread, then `result`."""

    def __cinit__(self, Encoder encoder not None, Py_ssize_t threads, *_):
        """`threads` is how many will work: with several, long texts are split. A subclass may take more arguments."""
        check_lock(&self.lock)
        self.encoder, self.threads = encoder, threads
        self.held = []
        self.unknown_at = -1
        self.prepended = self.appended = NO_TOKEN
        self.done = np.empty(0, dtype=np.uint32)

    def __dealloc__(self):
        free(self.parts)
        free(self.texts)
        free(self.firsts)

    # Filling ----------------------------------------------------------------------------------------------------------

    def surround(self, prepend, append):
        """Put an id before and after each text that is added from now on; None for none."""
        self.prepended = NO_TOKEN if prepend is None else prepend
        self.appended = NO_TOKEN if append is None else append

    def add_texts(self, texts, checked):
        """Add texts; what is no str is added as `checked(text)`, UTF-8 bytes."""
        cdef list held = list(texts)                       # of the job: nobody else changes it
        cdef Py_ssize_t i
        self.held.append(held)
        for i in range(len(held)):
            if not isinstance(held[i], str):
                held[i] = checked(held[i])
            begin_text(self)
            add_id(self, self.prepended)
            add_item(self, held[i])
            add_id(self, self.appended)

    def add_items(self, items, const int64_t[::1] bounds):
        """Add texts, each the items `bounds[i]` to `bounds[i + 1]`: UTF-8 bytes, str, or an id as int."""
        cdef list held = list(items)
        cdef Py_ssize_t i, k
        check_offsets(bounds, bounds.shape[0] - 1, len(held))
        self.held.append(held)
        for i in range(bounds.shape[0] - 1):
            begin_text(self)
            add_id(self, self.prepended)
            for k in range(bounds[i], bounds[i + 1]):
                add_item(self, held[k])
            add_id(self, self.appended)

    def add_documents(
        self, const byte_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] ends, bint copies=False
    ):
        """Add texts in one buffer: text i is `buffer[starts[i]:ends[i]]`.

        With `copies`, a text is copied before it is read for the first time: another thread may write to the buffer.

        Raises:
            ValueError: for a text that is not within the buffer.

        """
        cdef Py_ssize_t i, size = buffer.shape[0]
        cdef int64_t start, end
        cdef const byte_t* text = b""                      # where there is none in the buffer
        if starts.shape[0] != ends.shape[0]:
            raise ValueError(f"there are {starts.shape[0]} starts and {ends.shape[0]} ends; they must be as many")
        self.copies = copies
        if size:
            text = &buffer[0]
            self.buffer_end = text + size
            if copies:
                self.buffer_end = NULL
        self.held.append(buffer)
        for i in range(starts.shape[0]):
            start, end = starts[i], ends[i]                # read once: the arrays may be a caller's
            if not 0 <= start <= end <= size:
                raise ValueError(
                    f"document {i} is from {start} to {end}, which is not within the buffer of {size} bytes"
                )
            begin_text(self)
            add_id(self, self.prepended)
            add_text(self, CodeUnits(data=text + start, n=end - start, width=0))
            add_id(self, self.appended)

    # Working ----------------------------------------------------------------------------------------------------------

    def prepare(self):
        """Divide the texts into parts, after all are added; the number of parts.

        Parts get smaller towards the end, so that no thread waits long for another.
        """
        cdef Py_ssize_t i, size = 0, wanted = MIN_PART, done = 0
        begin_text(self)                                   # the end of the last one
        if self.n_bytes < SEVERAL * <Py_ssize_t>MIN_PART:
            self.threads = 1
        self.counted = np.zeros(self.n + 1, dtype=np.int64)
        self.counts = self.counted
        add_part(self, 0)
        for i in range(self.n if self.threads > 1 else 0):
            size += max(max_utf8_size(&self.texts[i].units), <Py_ssize_t>0) + 16
            if size >= wanted and i + 1 < self.n:
                add_part(self, i + 1)
                done += size
                size = 0
                wanted = min(2 * wanted, MAX_PART, (self.n_bytes - done) // (4 * self.threads))
                wanted = max(wanted, <Py_ssize_t>MIN_PART)
        add_part(self, self.n)
        self.n_parts -= 1
        self.share_out()
        return self.n_parts

    cdef int share_out(self) except -1:
        """Allocate what threads share, once the number of parts is known."""
        if self.n_parts > 1:
            self.output = OrderedIds(self.n_parts, self.n_bytes + 1024, self.encoder.pool)
        return 0

    def work(self):
        """Encode parts until none is left: each thread calls this."""
        cdef Worker worker = self.new_worker()
        cdef Workspace work = self.encoder.workspace()
        begin_watch(&work.scratch.watch)
        work.scratch.watch.stopped = &self.stopped
        try:
            with nogil:
                while self.do_next(work, worker):
                    pass
        except BaseException as error:
            self.stop()
            if not isinstance(error, MemoryError):         # after which the workspace may be inconsistent
                self.encoder.give_back(work)
            if not isinstance(error, StoppedError):
                raise
        else:
            self.finish(work)

    cdef int finish(self, Workspace work) except -1:
        """End a thread's work when no part is left."""
        if self.n_parts == 1 and work.out.n:
            self.done = self.encoder.take_ids(work)
        else:
            self.encoder.give_back(work)
        return 0

    def stop(self):
        """Make all threads stop, even within a long part."""
        store(&self.stopped, 1)
        with self.lock:
            self.begun = self.n_parts

    cdef Worker new_worker(self):
        return Worker(min(self.n, <Py_ssize_t>FRAGMENTS))

    cdef bint do_next(self, Workspace work, Worker worker) except -1 nogil:
        """Encode the next part; False if there is none."""
        cdef Py_ssize_t number = self.begin()
        if number >= self.n_parts:
            return False
        if self.n_parts > 1:
            self.do_part(work, worker, number)
        else:
            prepare_output(work, self.n_bytes)
            self.unknown_at = self.encode(work, worker, 0, self.n)
        return True

    cdef Py_ssize_t begin(self) noexcept nogil:
        """The number of the next part; at least `n_parts` if there is none."""
        cdef Py_ssize_t number
        with self.lock:
            number = self.begun
            self.begun += 1
        return number

    cdef int do_part(self, Workspace work, Worker worker, Py_ssize_t number) except -1 nogil:
        """Encode a part and deliver its ids."""
        cdef Py_ssize_t unknown = self.encode_part(work, worker, number)
        if unknown >= 0:
            with self.lock:
                self.unknown_at = unknown if self.unknown_at < 0 else min(unknown, self.unknown_at)
        work.scratch.watch.next -= work.out.n              # the next part counts from 0
        return self.output.finish(number, &work.out)

    cdef Py_ssize_t encode_part(self, Workspace work, Worker worker, Py_ssize_t number) except -2 nogil:
        """Encode a part; its first text with a symbol that has no id, or -1."""
        return self.encode(work, worker, self.parts[number], self.parts[number + 1])

    cdef Py_ssize_t encode(self, Workspace work, Worker worker, Py_ssize_t start, Py_ssize_t end) except -2 nogil:
        """Encode texts `start` to `end`; the first with a symbol that has no id, or -1."""
        cdef Py_ssize_t n, unknown = -1
        while start < end:
            n = feed(self, work, worker, start, end)
            self.encoder.encode_feed(work, &self.counts[start + 1])
            if work.unknown_at >= 0 and unknown < 0:
                unknown = start + work.unknown_at
            start += n
        return unknown

    def result(self):
        """After all threads are done: (uint32 ids; int64 number of ids of each text; the first text with a symbol that
        has no id, or -1).
        """
        first_unknown = -1
        firsts = np.asarray(<int64_t[: self.n_texts]>self.firsts)
        lengths = np.diff(np.cumsum(self.counted)[firsts])
        if self.unknown_at >= 0:
            first_unknown = int(np.searchsorted(firsts, self.unknown_at, side="right")) - 1
        ids = self.done if self.n_parts == 1 else self.output.take_ids()
        return ids, lengths, first_unknown


cdef int add_text(EncodeJob job, CodeUnits text) except -1:
    """Add a text: in pieces if it is long and several threads work, or it has to be copied."""
    cdef CodeUnits rest = text, piece
    cdef Py_ssize_t size = MAX_PART // 8 if job.threads > 1 else STEP if text.width or job.copies else 0
    while True:
        piece = rest
        if 0 < size < rest.n // 2:
            with nogil:
                piece.n = find_split(job, &rest, size)
            PyErr_CheckSignals()                       # reading a mapped file may be slow
        append_text(job, piece, 0)
        rest.data += piece.n * max(piece.width, 1)
        rest.n -= piece.n
        if rest.n <= 0:
            break
    job.n_bytes += max_utf8_size(&text)
    return 0


cdef Py_ssize_t find_split(EncodeJob job, const CodeUnits* text, Py_ssize_t size) noexcept nogil:
    """A split point of a text soon after one of the multiples of a size; its length if there is none."""
    cdef CodeUnits looked = text[0]
    cdef Py_ssize_t at = size, found
    while job.encoder.scanner >= 0 and at + LOOKED < text.n:
        looked.n = at + LOOKED
        found = job.encoder.next_split(&looked, at)
        if found < looked.n:
            return found
        at += size
    return text.n


cdef int append_text(EncodeJob job, CodeUnits units, token_t token) except -1:
    job.texts = <Text*>grow_array(job.texts, &job.capacity, job.n + 1, sizeof(Text))
    job.texts[job.n] = Text(units=units, token=token)
    job.n += 1
    return 0


cdef int begin_text(EncodeJob job) except -1:
    job.firsts = <int64_t*>grow_array(job.firsts, &job.firsts_capacity, job.n_texts + 1, sizeof(int64_t))
    job.firsts[job.n_texts] = job.n
    job.n_texts += 1
    return 0


cdef int add_id(EncodeJob job, token_t token) except -1:
    """Add an id; nothing for NO_TOKEN."""
    return 0 if token == NO_TOKEN else append_text(job, CodeUnits(data=NULL, n=-1, width=0), token)


cdef int add_item(EncodeJob job, item) except -1:
    if isinstance(item, (str, bytes)):
        return add_text(job, units_of_item(item))
    return add_id(job, <token_t>item)


cdef int add_part(EncodeJob job, Py_ssize_t first) except -1:
    job.parts = <Py_ssize_t*>grow_array(job.parts, &job.parts_capacity, job.n_parts + 1, sizeof(Py_ssize_t))
    job.parts[job.n_parts] = first
    job.n_parts += 1
    return 0


cdef Py_ssize_t feed(EncodeJob job, Workspace work, Worker worker, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
    """Feed the encoder with texts from `start` on, as many as there is room for; their number."""
    cdef const Text* text = &job.texts[start]
    cdef Fragment* fragment = worker.fragments
    cdef bint copied = is_copied(job, text)
    cdef Py_ssize_t n = 0, used = 0, max_used
    while n < FRAGMENTS and start + n < end and is_copied(job, text) == copied:
        fragment.text, fragment.size, fragment.token = text.units.data, text.units.n, text.token
        if copied and text.units.n > 0:
            max_used = used + max_utf8_size(&text.units) + UTF8_PADDING
            if n and max_used > STEP:
                break
            worker.reserve(max(max_used, <Py_ssize_t>STEP))  # enough for all but a long first one
            fragment.text = worker.utf8 + used
            if text.units.width:
                fragment.size = to_utf8(&text.units, worker.utf8 + used)
            else:
                memcpy(worker.utf8 + used, text.units.data, text.units.n)
            used += fragment.size
        n += 1
        text += 1
        fragment += 1
    feed_fragments(work.feed, worker.fragments, n, job.encoder.scanner)
    if copied or job.buffer_end != NULL:
        work.feed.shared = True
        work.feed.readable = job.buffer_end
        if copied:
            work.feed.readable = worker.utf8 + used
    return n


cdef bint is_copied(EncodeJob job, const Text* text) noexcept nogil:
    """Whether a text is copied to a buffer with others."""
    return text.units.width != 0 or job.copies or (text.units.n <= COPIED and job.buffer_end == NULL)


def visit(
    Encoder encoder not None,
    Visitor visitor not None,
    const byte_t[::1] buffer,
    const int64_t[::1] starts,
    const int64_t[::1] ends,
):
    """Give a visitor the ids of texts in one buffer; the first text with a symbol that has no id, or -1.

    Text i is `buffer[starts[i]:ends[i]]`. Nobody may write to any of the arrays meanwhile.

    Raises:
        ValueError: for a text that is not within the buffer.

    """
    cdef const byte_t* text = &buffer[0] if buffer.shape[0] else NULL
    cdef Py_ssize_t n = starts.shape[0]
    cdef const int64_t[::1] sizes
    check_spans(starts, ends, buffer.shape[0])
    sizes = np.subtract(ends, starts)
    return visit_spans(encoder, visitor, text, buffer.shape[0], &starts[0], &sizes[0], n) if n else -1


cdef Py_ssize_t visit_spans(
    Encoder encoder, Visitor visitor, const byte_t* text, Py_ssize_t size, const int64_t* starts, const int64_t* sizes,
    Py_ssize_t n,
) except -2:
    """Give a visitor the ids of n texts in `size` bytes: text i has `sizes[i]` bytes from `text + starts[i]` on."""
    cdef Workspace work = encoder.workspace()
    cdef Py_ssize_t unknown
    begin_watch(&work.scratch.watch)
    try:
        with nogil:
            unknown = visit_texts(encoder, work, visitor, text, size, starts, sizes, n)
    except MemoryError:                                    # the workspace may be inconsistent: drop it
        raise
    except BaseException:
        encoder.give_back(work)
        raise
    encoder.give_back(work)
    return unknown


cdef Py_ssize_t visit_texts(
    Encoder encoder, Workspace work, Visitor visitor, const byte_t* text, Py_ssize_t size, const int64_t* starts,
    const int64_t* sizes, Py_ssize_t n,
) except -2 nogil:
    """Give a visitor the ids of n texts, encoded in this workspace."""
    cdef Fragment fragments[VISITED_TEXTS]
    cdef int64_t lengths[VISITED_TEXTS]
    cdef Py_ssize_t i, given, done = 0, ended
    cdef size_t first
    cdef bint more
    while done < n:
        given = min(n - done, <Py_ssize_t>VISITED_TEXTS)
        for i in range(given):
            fragments[i].text, fragments[i].size = text + starts[done + i], sizes[done + i]
        feed_fragments(work.feed, fragments, given, encoder.scanner)
        work.feed.shared, work.feed.readable = True, text + size
        first, ended, more = 0, 0, True
        while more:
            more = encoder.encode_chunk(work, lengths, &first)
            if work.unknown_at >= 0:
                return done + work.unknown_at
            if work.out.n >= VISITED or not more:
                visitor.take(work.out.data, work.out.n, lengths + ended, work.feed.done - ended)
                ended = work.feed.done
                first -= work.out.n                        # before the output, for the rest of a text
                work.scratch.watch.next -= work.out.n
                work.out.n = 0
        done += given
    return -1
