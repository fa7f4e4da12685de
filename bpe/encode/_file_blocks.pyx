"""A text that comes in blocks, such as a file that is being read, to ids: each thread takes the next block in order.

A block is read by the thread that encodes it, so that the text is in that core's cache. The blocks are handed out one
at a time, and are numbered in that order, which is that of the ids. Not here: where blocks end
(`bpe/corpus/reading.py`), what is done to them before (`bpe/encode/engine.py`), how ids are put together
(`base/_delivery.pyx`).
"""

from threading import Lock

import numpy as np

from bpe.base._types cimport byte_t, token_t
from bpe.encode._batch cimport FRAGMENTS, Job, Room
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport feed_fragments
from bpe.encode._workspace cimport Workspace, prepare_output
from libc.stdint cimport int64_t

#: The most blocks of one job: what several threads share is made for so many. More are for another job.
BLOCKS = 4096


cdef struct Rows:             # of a block: texts, and ids between them
    const byte_t* text
    Py_ssize_t size           # of the text, and of what may be read after it
    Py_ssize_t n
    const int64_t* starts     # where a row begins in the text; the id where it has none
    const int64_t* sizes      # bytes of each row; -1 for an id
    int64_t* lengths          # OUT: ids of each row


cdef class BlockRoom(Room):
    """A thread at work on a block."""

    cdef Rows rows
    cdef tuple held                        # what these point into
    cdef object note, lengths


cdef class BlockJob(Job):
    """Blocks to encode. Nothing is added to it.

    Args:
        encoder, threads: as for any job.
        blocks: an iterator; only one thread at a time asks it for the next.
        prepared: called as prepared(block) in the thread that has it; answers (its buffer, starts, sizes, note). Row i
            of the block, int64, is `buffer[starts[i]:starts[i] + sizes[i]]`, or the id `starts[i]` if its size is -1.
        done: called as done(note, lengths, bad) when a block is encoded: int64 ids of each row, and the first row that
            has a symbol without an id, or -1. What it answers is kept for `result`.
        n_bytes: about how much text there will be.
        most: take no block when so many bytes have been taken.

    """

    cdef object blocks, prepared, done_with, reading
    cdef Py_ssize_t most, taken
    cdef bint over                         # there are no more blocks, or none is wanted
    cdef dict results, errors              # by number

    def __init__(self, encoder, threads, blocks, prepared, done, Py_ssize_t n_bytes, Py_ssize_t most):
        self.blocks, self.prepared, self.done_with, self.most = blocks, prepared, done, most
        self.n_bytes = n_bytes
        self.reading = Lock()
        self.results, self.errors = {}, {}
        self.n_parts = 1 if threads == 1 else BLOCKS
        self.share_out()

    def prepare(self):
        """How many threads may work."""
        return self.threads

    cdef Room new_room(self):
        return BlockRoom(FRAGMENTS)

    def stop(self):
        """As of any job."""
        self.over = True
        Job.stop(self)

    cdef bint do_next(self, Workspace space, Room room) except -1 nogil:
        """Take the next block and encode it; False if there is none."""
        cdef Py_ssize_t number = -1
        with gil:
            block = self.next_block(&number)
            if block is None:
                return False
            if not self.prepare_block(<BlockRoom>room, block, number):
                return False
        if self.n_parts > 1:
            self.do_part(space, room, number)
        else:
            if number == 0:
                prepare_output(space, self.n_bytes)
            self.encode_part(space, room, number)
        with gil:
            return self.end_block(<BlockRoom>room, number, space.unknown_at)

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
                self.taken += block.size
            return block

    cdef bint prepare_block(self, BlockRoom room, block, Py_ssize_t number) except -1:
        """Have a block's rows ready; False where something is wrong with it."""
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
        room.held = (text, starts, sizes)
        room.note, room.lengths = note, counted
        room.rows = Rows(text=NULL, size=text.shape[0], n=n, starts=NULL, sizes=NULL, lengths=NULL)
        if text.shape[0]:
            room.rows.text = &text[0]
        if n:
            room.rows.starts, room.rows.sizes, room.rows.lengths = &starts[0], &sizes[0], &lengths[0]
        return True

    cdef bint end_block(self, BlockRoom room, Py_ssize_t number, Py_ssize_t bad) except -1:
        """Keep what `done` says of a block that is encoded; False where something is wrong with it."""
        room.held = None                                   # the buffer may be used again
        try:
            self.results[number] = self.done_with(room.note, room.lengths, bad)
        except Exception as error:
            self.over = True
            self.errors[number] = error
            return False
        return True

    cdef Py_ssize_t encode_part(self, Workspace space, Room room, Py_ssize_t number) except -2 nogil:
        """Encode a block."""
        cdef Rows* rows = &(<BlockRoom>room).rows
        cdef Fragment* fragments = room.fragments
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
        """When all threads are done: (uint32 ids, what `done` answered for each block, in order).

        Raises:
            Exception: the one that the first of the blocks raised for which there was any.

        """
        if self.errors:
            raise self.errors[min(self.errors)]
        ids = self.done if self.n_parts == 1 else self.delivery.taken()
        return ids, [self.results[number] for number in sorted(self.results)]
