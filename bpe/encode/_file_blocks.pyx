"""The blocks of a file or stream to ids: each thread takes the next block in order.

A block is read by the thread that encodes it, so that the text is in that core's cache. Blocks are handed out one at a
time and numbered in that order, which is the order of the ids. Not here: where blocks end (`bpe/corpus/reading.py`),
preparing them (`bpe/encode/engine.py`), concatenating ids (`base/_delivery.pyx`).
"""

from threading import Lock

import numpy as np

from bpe.base._types cimport byte_t, token_t
from bpe.encode._batch cimport FRAGMENTS, EncodeJob, Worker
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport feed_fragments
from bpe.encode._workspace cimport Workspace, prepare_output
from libc.stdint cimport int64_t

#: Blocks of one job at most: shared memory is allocated for so many. Another job takes the rest.
BLOCKS = 4096


cdef struct Rows:             # of a block: texts, and ids between them
    const byte_t* text
    Py_ssize_t size           # of the text
    Py_ssize_t n
    const int64_t* starts     # of the rows in the text; of a row without text, its id
    const int64_t* sizes      # in bytes; -1 for an id
    int64_t* lengths          # OUT: ids of each row


cdef class BlockWorker(Worker):
    """The memory of a thread that encodes a block."""

    cdef Rows rows
    cdef tuple held                        # objects that they point into
    cdef object note, lengths


cdef class BlockJob(EncodeJob):
    """Blocks to encode; nothing is added.

    Args:
        encoder, threads: as for any job.
        blocks: an iterator, advanced by one thread at a time.
        prepared: called as prepared(block) in the thread that encodes it; returns (buffer, starts, sizes, note). Row i
            is `buffer[starts[i]:starts[i] + sizes[i]]`, or the id `starts[i]` if its size is -1; both are int64.
        done: called as done(note, lengths, bad) after a block is encoded, with the int64 number of ids of each row, and
            the first row with a symbol that has no id, or -1. `result` returns its values.
        n_bytes: the amount of text, about.
        most: take no more blocks after so many bytes.

    """

    cdef object blocks, prepared, done_with, reading
    cdef Py_ssize_t most, taken
    cdef bint over                         # no more blocks are taken
    cdef dict results, errors              # by number

    def __init__(self, encoder, threads, blocks, prepared, done, Py_ssize_t n_bytes, Py_ssize_t most):
        self.blocks, self.prepared, self.done_with, self.most = blocks, prepared, done, most
        self.n_bytes = n_bytes
        self.reading = Lock()
        self.results, self.errors = {}, {}
        self.n_parts = 1 if threads == 1 else BLOCKS
        self.share_out()

    def prepare(self):
        """The number of threads that may work."""
        return self.threads

    cdef Worker new_worker(self):
        return BlockWorker(FRAGMENTS)

    def stop(self):
        """As for any job."""
        self.over = True
        EncodeJob.stop(self)

    cdef bint do_next(self, Workspace space, Worker worker) except -1 nogil:
        """Take the next block and encode it; False if there is none."""
        cdef Py_ssize_t number = -1
        with gil:
            block = self.next_block(&number)
            if block is None:
                return False
            if not self.prepare_block(<BlockWorker>worker, block, number):
                return False
        if self.n_parts > 1:
            self.do_part(space, worker, number)
        else:
            if number == 0:
                prepare_output(space, self.n_bytes)
            self.encode_part(space, worker, number)
        with gil:
            return self.end_block(<BlockWorker>worker, number, space.unknown_at)

    cdef object next_block(self, Py_ssize_t* number):
        """The next block, or None."""
        with self.reading:
            if self.over or self.taken >= self.most or (self.threads > 1 and self.begun >= self.n_parts):
                return None
            number[0] = self.begin()
            try:
                block = next(self.blocks, None)
            except Exception as error:
                self.errors[number[0]] = error
                block = None
            if block is None:
                self.over = True
            else:
                self.taken += max(block.size, len(block.text))    # a compressed file has less on disk
            return block

    cdef bint prepare_block(self, BlockWorker worker, block, Py_ssize_t number) except -1:
        """Prepare the rows of a block; False after an error, which `result` raises."""
        cdef const byte_t[::1] text
        cdef const int64_t[::1] starts, sizes
        cdef int64_t[::1] lengths
        cdef Py_ssize_t i, n
        try:
            text, starts, sizes, note = self.prepared(block)
            n = min(starts.shape[0], sizes.shape[0])
            for i in range(n):
                if sizes[i] >= 0 and not 0 <= starts[i] <= text.shape[0] - sizes[i]:
                    raise ValueError(f"row {i} is not within its block of {text.shape[0]} bytes")
        except Exception as error:
            self.over = True
            self.errors[number] = error
            return False
        counted = np.empty(n, dtype=np.int64)
        lengths = counted
        worker.held = (text, starts, sizes)
        worker.note, worker.lengths = note, counted
        worker.rows = Rows(text=NULL, size=text.shape[0], n=n, starts=NULL, sizes=NULL, lengths=NULL)
        if text.shape[0]:
            worker.rows.text = &text[0]
        if n:
            worker.rows.starts, worker.rows.sizes, worker.rows.lengths = &starts[0], &sizes[0], &lengths[0]
        return True

    cdef bint end_block(self, BlockWorker worker, Py_ssize_t number, Py_ssize_t bad) except -1:
        """Call `done` for an encoded block, and keep its value; False after an error, which `result` raises."""
        worker.held = None                                   # the buffer may be reused
        try:
            self.results[number] = self.done_with(worker.note, worker.lengths, bad)
        except Exception as error:
            self.over = True
            self.errors[number] = error
            return False
        return True

    cdef Py_ssize_t encode_part(self, Workspace space, Worker worker, Py_ssize_t number) except -2 nogil:
        """Encode a block."""
        cdef Rows* rows = &(<BlockWorker>worker).rows
        cdef Fragment* fragments = worker.fragments
        cdef Py_ssize_t i, n, first = 0
        while first < rows.n:
            n = min(rows.n - first, <Py_ssize_t>FRAGMENTS)
            for i in range(n):
                fragments[i].size = rows.sizes[first + i]
                if fragments[i].size < 0:
                    fragments[i].text, fragments[i].token = NULL, <token_t>rows.starts[first + i]
                else:
                    fragments[i].text = rows.text + rows.starts[first + i]
            feed_fragments(space.feed, fragments, n, self.encoder.scanner)
            space.feed.shared, space.feed.readable = True, rows.text + rows.size
            self.encoder.run(space, rows.lengths + first)
            if space.unknown_at >= 0:
                space.unknown_at += first
                return space.unknown_at
            first += n
        return -1

    def result(self):
        """After all threads are done: (uint32 ids, the values of `done` in the order of the blocks).

        Raises:
            Exception: that of the first block with an error.

        """
        if self.errors:
            raise self.errors[min(self.errors)]
        ids = self.done if self.n_parts == 1 else self.delivery.taken()
        return ids, [self.results[number] for number in sorted(self.results)]
