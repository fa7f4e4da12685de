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
from bpe.base._interrupts cimport begin_long_watch, begin_watch, restart_count
from bpe.base._memory cimport check_allocated, check_lock, grow_array
from bpe.base._pages cimport ask_for_huge_pages
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.base._utf8 cimport UTF8_PADDING, CodeUnits, max_utf8_size, to_utf8, get_code_units_of_item
from bpe.base._visitor cimport Visitor
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport begin_feed
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace, prepare_output
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

#: Bytes of text in a part at most, and in the smallest parts, which are the first ones and the last ones.
MAX_PART_BYTES, MIN_PART_BYTES = 1 << 20, 1 << 16

cdef enum:
    TRANSCODE_BYTES = 1 << 17  # bytes that are transcoded at once, so that they stay in a cache
    MIN_PARTS_FOR_THREADS = 8  # with less text than 8 smallest parts, one thread works
    SPLIT_SEARCH_CHARS = 1 << 14  # characters that are searched for a split point
    MAX_COPIED_TEXT = 512     # bytes: shorter texts are copied into one buffer, since every end of a buffer takes time
    LONG_JOB_BYTES = 1 << 20  # whose watch is worth 0.2 microseconds to begin
    VISIT_IDS = 1 << 14       # ids that a Visitor takes at once, or some more: they stay in a cache
    VISIT_TEXTS = 512         # that are encoded for a Visitor at once


cdef class ThreadBuffers:
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
        """Take the number of threads that will work: with several, long texts are split. A subclass may take more."""
        check_lock(&self.lock)
        self.encoder, self.threads = encoder, threads
        self.owners = []
        self.unknown_item = -1
        self.prepended = self.appended = NO_TOKEN
        self.single_part_ids = np.empty(0, dtype=np.uint32)

    def __dealloc__(self):
        free(self.parts)
        free(self.items)
        free(self.first_items)

    # Filling ----------------------------------------------------------------------------------------------------------

    def surround(self, prepend, append):
        """Put an id before and after each text that is added from now on; None for none."""
        self.prepended = NO_TOKEN if prepend is None else prepend
        self.appended = NO_TOKEN if append is None else append

    def add_texts(self, texts, check_text):
        """Add texts; what is no str is added as `check_text(text)`, UTF-8 bytes."""
        cdef list text_list = list(texts)                  # the job's own list: nobody else changes it
        cdef Py_ssize_t i
        self.owners.append(text_list)
        for i in range(len(text_list)):
            if not isinstance(text_list[i], str):
                text_list[i] = check_text(text_list[i])
            begin_text(self)
            add_id(self, self.prepended)
            add_item(self, text_list[i])
            add_id(self, self.appended)

    def add_items(self, items, const int64_t[::1] bounds):
        """Add texts, each the items `bounds[i]` to `bounds[i + 1]`: UTF-8 bytes, str, or an id as int."""
        cdef list item_list = list(items)
        cdef Py_ssize_t i, k
        check_offsets(bounds, bounds.shape[0] - 1, len(item_list))
        self.owners.append(item_list)
        for i in range(bounds.shape[0] - 1):
            begin_text(self)
            add_id(self, self.prepended)
            for k in range(bounds[i], bounds[i + 1]):
                add_item(self, item_list[k])
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
        self.owners.append(buffer)
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

    def write_to(self, out):
        """Write the ids to this array, C-contiguous and of uint32 or uint16, if several threads encode parts."""
        self.out = out

    # Working ----------------------------------------------------------------------------------------------------------

    def prepare(self):
        """Divide the items into parts, after all are added; returns the number of parts.

        Parts get smaller towards the end, so that no thread waits long for another.
        """
        cdef Py_ssize_t i, size = 0, min_size = MIN_PART_BYTES, n_done = 0
        begin_text(self)                                   # the end of the last one
        if self.n_bytes < MIN_PARTS_FOR_THREADS * <Py_ssize_t>MIN_PART_BYTES:
            self.threads = 1
        self.counts_array = np.zeros(self.n_items + 1, dtype=np.int64)
        self.counts = self.counts_array
        add_part(self, 0)
        for i in range(self.n_items if self.threads > 1 else 0):
            size += max(max_utf8_size(&self.items[i].units), <Py_ssize_t>0) + 16
            if size >= min_size and i + 1 < self.n_items:
                add_part(self, i + 1)
                n_done += size
                size = 0
                min_size = min(2 * min_size, MAX_PART_BYTES, (self.n_bytes - n_done) // (4 * self.threads))
                min_size = max(min_size, <Py_ssize_t>MIN_PART_BYTES)
        add_part(self, self.n_items)
        self.n_parts -= 1
        self.allocate_shared()
        return self.n_parts

    cdef int allocate_shared(self) except -1:
        """Allocate what threads share, once the number of parts is known."""
        if self.n_parts > 1:
            self.output = OrderedIds(self.n_bytes + 1024, self.encoder.pool, self.out)
        return 0

    def work(self):
        """Encode parts until none is left: each thread calls this."""
        cdef ThreadBuffers buffers = self.new_buffers()
        cdef Workspace workspace = self.encoder.take_workspace()
        if self.n_bytes < LONG_JOB_BYTES:
            begin_watch(&workspace.scratch.watch)
        else:
            begin_long_watch(&workspace.scratch.watch)
        workspace.scratch.watch.stopped = &self.stopped
        self.encoder.want_beginnings(workspace, self.max_ids)
        try:
            with nogil:
                while self.encode_next(workspace, buffers):
                    pass
        except BaseException as error:
            if self.keep_error(buffers, error):
                self.finish(workspace)
                return
            self.stop()
            self.encoder.abandon(workspace, error)
            if not isinstance(error, StoppedError):
                raise
        else:
            self.finish(workspace)

    cdef bint keep_error(self, ThreadBuffers buffers, error) except -1:
        """Keep an error that ends the work of its thread only; False if there is none such."""
        return False

    cdef int finish(self, Workspace workspace) except -1:
        """End a thread's work when no part is left."""
        if self.n_parts == 1 and workspace.out.n:
            self.single_part_ids = self.encoder.take_ids(workspace)
        else:
            self.encoder.give_back(workspace)
        return 0

    def stop(self):
        """Make all threads stop, even within a long part."""
        store(&self.stopped, 1)
        with self.lock:
            self.n_taken = self.n_parts

    cdef ThreadBuffers new_buffers(self):
        return ThreadBuffers(min(self.n_items, <Py_ssize_t>MAX_FRAGMENTS))

    cdef bint encode_next(self, Workspace workspace, ThreadBuffers buffers) except -1 nogil:
        """Encode the next part; False if there is none."""
        cdef Py_ssize_t part = self.take_part()
        if part >= self.n_parts:
            return False
        if self.n_parts > 1:
            self.encode_and_deliver(workspace, buffers, part)
        else:
            prepare_output(workspace, self.n_bytes)
            self.unknown_item = self.encode_items(workspace, buffers, 0, self.n_items)
        return True

    cdef Py_ssize_t take_part(self) noexcept nogil:
        """Take the next part; returns its number, at least `n_parts` if there is none."""
        cdef Py_ssize_t part
        with self.lock:
            part = self.n_taken
            self.n_taken += 1
        return part

    cdef int encode_and_deliver(self, Workspace workspace, ThreadBuffers buffers, Py_ssize_t part) except -1 nogil:
        """Encode a part and deliver its ids."""
        cdef Py_ssize_t unknown_item = self.encode_part(workspace, buffers, part)
        if unknown_item >= 0:
            with self.lock:
                self.unknown_item = unknown_item if self.unknown_item < 0 else min(unknown_item, self.unknown_item)
        restart_count(&workspace.scratch.watch, workspace.out.n)
        return self.output.finish(part, &workspace.out)

    cdef Py_ssize_t encode_part(self, Workspace workspace, ThreadBuffers buffers, Py_ssize_t part) except -2 nogil:
        """Encode a part; returns its first item with a symbol that has no id, or -1."""
        return self.encode_items(workspace, buffers, self.parts[part], self.parts[part + 1])

    cdef Py_ssize_t encode_items(
        self, Workspace workspace, ThreadBuffers buffers, Py_ssize_t start, Py_ssize_t end
    ) except -2 nogil:
        """Encode items `start` to `end`; returns the first with a symbol that has no id, or -1."""
        cdef Py_ssize_t n, unknown_item = -1
        while start < end:
            n = feed_items(self, workspace, buffers, start, end)
            self.encoder.encode_feed(workspace, &self.counts[start + 1])
            if workspace.unknown_fragment >= 0 and unknown_item < 0:
                unknown_item = start + workspace.unknown_fragment
            start += n
        return unknown_item

    def result(self):
        """Return the result, after all threads are done: (uint32 ids; int64 number of ids of each text; the first text
        with a symbol that has no id, or -1).
        """
        first_unknown = -1
        first_items = np.asarray(<int64_t[: self.n_texts]>self.first_items)
        lengths = np.diff(np.cumsum(self.counts_array)[first_items])
        if self.unknown_item >= 0:
            first_unknown = int(np.searchsorted(first_items, self.unknown_item, side="right")) - 1
        ids = self.single_part_ids if self.n_parts == 1 else self.output.take_ids()
        return ids, lengths, first_unknown


cdef int add_text(EncodeJob job, CodeUnits text) except -1:
    """Add a text: in stretches if it is long and several threads work, or it has to be copied."""
    cdef CodeUnits remaining = text, stretch
    cdef Py_ssize_t size = TRANSCODE_BYTES if text.width or job.copies else 0
    if job.threads > 1:
        size = MAX_PART_BYTES // 8
    while True:
        stretch = remaining
        if 0 < size < remaining.n // 2:
            with nogil:
                stretch.n = find_split(job, &remaining, size)
            PyErr_CheckSignals()                       # reading a mapped file may be slow
        append_item(job, stretch, 0)
        remaining.data += stretch.n * max(stretch.width, 1)
        remaining.n -= stretch.n
        if remaining.n <= 0:
            break
    job.n_bytes += max_utf8_size(&text)
    return 0


cdef Py_ssize_t find_split(EncodeJob job, const CodeUnits* text, Py_ssize_t size) noexcept nogil:
    """Find a split point of a text soon after one of the multiples of a size; the text's length if there is none."""
    cdef CodeUnits searched = text[0]
    cdef Py_ssize_t position = size, split
    while job.encoder.scanner >= 0 and position + SPLIT_SEARCH_CHARS < text.n:
        searched.n = position + SPLIT_SEARCH_CHARS
        split = job.encoder.find_next_split(&searched, position)
        if split < searched.n:
            return split
        position += size
    return text.n


cdef int append_item(EncodeJob job, CodeUnits units, token_t token) except -1:
    job.items = <Item*>grow_array(job.items, &job.item_capacity, job.n_items + 1, sizeof(Item))
    job.items[job.n_items] = Item(units=units, token=token)
    job.n_items += 1
    return 0


cdef int begin_text(EncodeJob job) except -1:
    job.first_items = <int64_t*>grow_array(job.first_items, &job.first_items_capacity, job.n_texts + 1, sizeof(int64_t))
    job.first_items[job.n_texts] = job.n_items
    job.n_texts += 1
    return 0


cdef int add_id(EncodeJob job, token_t token) except -1:
    """Add an id; nothing for NO_TOKEN."""
    return 0 if token == NO_TOKEN else append_item(job, CodeUnits(data=NULL, n=-1, width=0), token)


cdef int add_item(EncodeJob job, item) except -1:
    if isinstance(item, (str, bytes)):
        return add_text(job, get_code_units_of_item(item))
    return add_id(job, <token_t>item)


cdef int add_part(EncodeJob job, Py_ssize_t first) except -1:
    job.parts = <Py_ssize_t*>grow_array(job.parts, &job.parts_capacity, job.n_parts + 1, sizeof(Py_ssize_t))
    job.parts[job.n_parts] = first
    job.n_parts += 1
    return 0


cdef Py_ssize_t feed_items(
    EncodeJob job, Workspace workspace, ThreadBuffers buffers, Py_ssize_t start, Py_ssize_t end
) except -1 nogil:
    """Feed the encoder with items from `start` on, as many as there is room for; returns their number."""
    cdef const Item* item = &job.items[start]
    cdef Fragment* fragment = buffers.fragments
    cdef bint copied = is_copied(job, item)
    cdef Py_ssize_t n = 0, used = 0, max_used
    while n < MAX_FRAGMENTS and start + n < end and is_copied(job, item) == copied:
        fragment.text, fragment.size, fragment.token = item.units.data, item.units.n, item.token
        if copied and item.units.n > 0:
            max_used = used + max_utf8_size(&item.units) + UTF8_PADDING
            if n and max_used > TRANSCODE_BYTES:
                break
            buffers.reserve(max(max_used, <Py_ssize_t>TRANSCODE_BYTES))  # enough for all but a long first one
            fragment.text = buffers.utf8 + used
            if item.units.width:
                fragment.size = to_utf8(&item.units, buffers.utf8 + used)
            else:
                memcpy(buffers.utf8 + used, item.units.data, item.units.n)
            used += fragment.size
        n += 1
        item += 1
        fragment += 1
    begin_feed(workspace.feed, buffers.fragments, n, job.encoder.scanner)
    if copied or job.buffer_end != NULL:
        workspace.feed.in_one_buffer = True
        workspace.feed.readable = job.buffer_end
        if copied:
            workspace.feed.readable = buffers.utf8 + used
    return n


cdef bint is_copied(EncodeJob job, const Item* item) noexcept nogil:
    """Whether an item is copied to a buffer with others."""
    return item.units.width != 0 or job.copies or (item.units.n <= MAX_COPIED_TEXT and job.buffer_end == NULL)


def visit(
    Encoder encoder not None,
    Visitor visitor not None,
    const byte_t[::1] buffer,
    const int64_t[::1] starts,
    const int64_t[::1] ends,
):
    """Give a visitor the ids of texts in one buffer; returns the first text with a symbol that has no id, or -1.

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
    cdef Workspace workspace = encoder.take_workspace()
    cdef Py_ssize_t unknown
    begin_watch(&workspace.scratch.watch)
    try:
        with nogil:
            unknown = visit_texts(encoder, workspace, visitor, text, size, starts, sizes, n)
    except BaseException as error:
        encoder.abandon(workspace, error)
        raise
    encoder.give_back(workspace)
    return unknown


cdef Py_ssize_t visit_texts(
    Encoder encoder, Workspace workspace, Visitor visitor, const byte_t* text, Py_ssize_t size, const int64_t* starts,
    const int64_t* sizes, Py_ssize_t n,
) except -2 nogil:
    """Give a visitor the ids of n texts, encoded in this workspace."""
    cdef Fragment fragments[VISIT_TEXTS]
    cdef int64_t lengths[VISIT_TEXTS]
    cdef Py_ssize_t i, n_given, n_done = 0, n_visited
    cdef size_t fragment_start
    cdef bint more
    while n_done < n:
        n_given = min(n - n_done, <Py_ssize_t>VISIT_TEXTS)
        for i in range(n_given):
            fragments[i].text, fragments[i].size = text + starts[n_done + i], sizes[n_done + i]
        begin_feed(workspace.feed, fragments, n_given, encoder.scanner)
        workspace.feed.in_one_buffer, workspace.feed.readable = True, text + size
        fragment_start, n_visited, more = 0, 0, True
        while more:
            more = encoder.encode_chunk(workspace, lengths, &fragment_start)
            if workspace.unknown_fragment >= 0:
                return n_done + workspace.unknown_fragment
            if workspace.out.n >= VISIT_IDS or not more:
                visitor.take(
                    workspace.out.data, workspace.out.n, lengths + n_visited, workspace.feed.n_done - n_visited
                )
                n_visited = workspace.feed.n_done
                # Now negative (it wraps): `out.n - fragment_start` still counts the ids that were visited.
                fragment_start -= workspace.out.n
                restart_count(&workspace.scratch.watch, workspace.out.n)
                workspace.out.n = 0
        n_done += n_given
    return -1
