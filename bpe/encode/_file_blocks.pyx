"""The blocks of a file or stream to ids: each thread takes the next block in order.

A block is read by the thread that encodes it, so that the text is in that core's cache. Blocks are handed out one at a
time and numbered in that order, which is the order of the ids. Those of a `FileReader` need no Python code unless they
hold special tokens or bytes that are not UTF-8.
"""

import numpy as np

cimport cython

from bpe.base._aho_corasick cimport Finder
from bpe.base._memory cimport check_lock, grow_array
from bpe.base._types cimport byte_t, token_t
from bpe.base._utf8 cimport is_utf8
from bpe.corpus._file_reader cimport FileBlock, FileReader
from bpe.encode._batch cimport FRAGMENTS, EncodeJob, Worker
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport feed_fragments
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace, prepare_output
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

#: Most blocks of one job, for which shared memory is allocated. Another job takes the rest.
BLOCKS = 4096


cdef struct Rows:             # of a block: texts, and ids between them
    const byte_t* text
    Py_ssize_t size           # of the text
    Py_ssize_t n
    const int64_t* starts     # of the rows in the text; of a row without text, its id
    const int64_t* sizes      # in bytes; -1 for an id
    int64_t* lengths          # OUT: ids of each row

cdef struct Record:           # of an encoded block
    int64_t number
    int64_t n                 # documents, or parts of them
    int64_t begins            # as those of `BlockIds`
    int64_t ends
    int64_t n_bytes
    int64_t size

cdef enum:
    FIELDS = 6                # of a record


cdef Py_ssize_t last_cut(void* encoder, const byte_t* text, Py_ssize_t low, Py_ssize_t end) noexcept nogil:
    return (<Encoder>encoder).last_split_in(text, low, end)


cdef class BlockWorker(Worker):
    """The memory of a thread that encodes blocks, and the records of those that it has encoded."""

    cdef FileBlock text                    # the current block, if a `FileReader` has read it
    cdef object block                      # otherwise the current block; else None
    cdef Rows rows
    cdef tuple held                        # objects that they point into, if Python code has prepared them
    cdef object note, lengths
    cdef Record* records
    cdef Py_ssize_t n_records
    cdef size_t records_capacity
    cdef int64_t* counts                   # ids of each document of the records
    cdef Py_ssize_t n_counts
    cdef size_t counts_capacity

    def __cinit__(self, *_):
        self.text = FileBlock()

    def __dealloc__(self):
        free(self.records)
        free(self.counts)

    cdef int64_t* reserve_counts(self, Py_ssize_t n) except NULL nogil:
        """Have room for `n` more counts; return where they begin."""
        self.counts = <int64_t*>grow_array(self.counts, &self.counts_capacity, self.n_counts + n + 1, sizeof(int64_t))
        return self.counts + self.n_counts

    cdef int add(self, Record record) except -1 nogil:
        """Add a record whose counts have been written."""
        self.records = <Record*>grow_array(self.records, &self.records_capacity, self.n_records + 1, sizeof(Record))
        self.records[self.n_records] = record
        self.n_records += 1
        self.n_counts += record.n
        return 0

    def added(self):
        """The records, int64 of shape (n, FIELDS), and their counts, int64."""
        records = np.empty((self.n_records, FIELDS), dtype=np.int64)
        counts = np.empty(self.n_counts, dtype=np.int64)
        cdef int64_t[:, ::1] record_rows = records
        cdef int64_t[::1] count_rows = counts
        if self.n_records:
            memcpy(&record_rows[0, 0], self.records, self.n_records * sizeof(Record))
        if self.n_counts:
            memcpy(&count_rows[0], self.counts, self.n_counts * sizeof(int64_t))
        return records, counts


cdef class BlockJob(EncodeJob):
    """Blocks to encode; nothing is added.

    Args:
        encoder, threads: as for any job.
        blocks: an iterator of blocks and of `FileReader`s, advanced by one thread at a time. A reader comes again until
            it is finished.
        prepared: called as prepared(block) in the thread that encodes it; returns (buffer, starts, sizes, note). Row i
            is `buffer[starts[i]:starts[i] + sizes[i]]`, or the id `starts[i]` if its size is -1; both are int64.
        done: called as done(note, lengths, bad) after a block is encoded, with the int64 number of ids of each row, and
            the first row with a symbol that has no id, or -1; returns a `BlockIds`, whose ids are not used.
        special: finds the strings for which a reader's block has to be prepared by `prepared`; None: all of them do.
        n_bytes: the amount of text, about.
        most: bytes after which no more blocks are taken.

    """

    cdef object blocks, prepared, done_with
    cdef FileReader reader                 # the current one, or None
    cdef Finder special
    cdef cython.pythread_type_lock reading     # held while a block is taken; never acquired while holding the GIL
    cdef Py_ssize_t max_bytes, taken
    cdef bint over                         # no more blocks are taken
    cdef list workers
    cdef dict errors                       # by number

    def __cinit__(self, encoder, threads, blocks, prepared, done, special, Py_ssize_t n_bytes, Py_ssize_t max_bytes):
        check_lock(&self.reading)
        self.blocks, self.prepared, self.done_with, self.special = blocks, prepared, done, special
        self.n_bytes, self.max_bytes = n_bytes, max_bytes
        self.workers, self.errors = [], {}
        self.n_parts = 1 if threads == 1 else BLOCKS
        self.share_out()

    def prepare(self):
        """The number of threads that may work."""
        return self.threads

    cdef Worker new_worker(self):
        worker = BlockWorker(FRAGMENTS)
        self.workers.append(worker)
        return worker

    def stop(self):
        """Take no more blocks, and stop the threads."""
        self.over = True
        EncodeJob.stop(self)

    cdef bint do_next(self, Workspace work, Worker worker) except -1 nogil:
        """Take the next block and encode it; False if there is none."""
        return self.do_block(work, <BlockWorker>worker)

    cdef bint do_block(self, Workspace work, BlockWorker own) except -1 nogil:
        """Encode the next block, with the worker's own type; False if there is none."""
        cdef Py_ssize_t number = -1
        cdef bint found
        with self.reading:
            with gil:
                found = self.next_block(own, &number)
        if not found:
            return False
        if own.block is not None or not self.prepare_text(own):
            with gil:
                if not self.prepare_block(own, number):
                    return False
        if self.n_parts > 1:
            self.do_part(work, own, number)
        else:
            if number == 0:
                prepare_output(work, self.n_bytes)
            self.encode_part(work, own, number)
        if own.held is None and work.unknown_at < 0:
            return self.end_text(own, number)
        with gil:
            return self.end_block(own, number, work.unknown_at)

    cdef bint next_block(self, BlockWorker worker, Py_ssize_t* number) except -1:
        """Take the next block; False if there is none, or after an error, which `result` raises."""
        cdef FileReader reader
        cdef bint found
        worker.block = None
        if self.over or self.taken >= self.max_bytes or (self.threads > 1 and self.begun >= self.n_parts):
            return False
        number[0] = self.begin()
        try:
            while True:
                reader = self.reader
                if reader is None:
                    block = next(self.blocks, None)
                    if block is None:
                        break
                    if not isinstance(block, FileReader):
                        worker.block = block
                        self.taken += max(block.size, len(block.text))  # a compressed file has less on disk
                        return True
                    self.reader = reader = block
                with nogil:
                    found = reader.next(worker.text, last_cut, <void*>self.encoder)
                if found:
                    worker.text.reader = reader
                    self.taken += worker.text.size
                    return True
                self.reader = None
        except Exception as error:
            self.errors[number[0]] = error
        self.over = True
        return False

    cdef bint prepare_text(self, BlockWorker worker) except -1 nogil:
        """Prepare the rows of a reader's block; False if Python code has to do that."""
        cdef Py_ssize_t n = worker.text.n
        if self.special is None or (worker.text.reader.checked and not is_utf8(worker.text.data, n)):
            return False
        if self.special.occurs_in(worker.text.data, n):
            return False
        worker.text.split(worker.text.reader)
        worker.rows = Rows(
            text=worker.text.data, size=worker.text.capacity, n=worker.text.n_documents, starts=worker.text.starts,
            sizes=worker.text.sizes, lengths=worker.reserve_counts(worker.text.n_documents),
        )
        return True

    cdef bint end_text(self, BlockWorker worker, Py_ssize_t number) except -1 nogil:
        """Record an encoded block that `prepare_text` has prepared."""
        cdef Py_ssize_t i
        cdef Record record = Record(
            number=number, n=worker.rows.n, begins=worker.text.begins, ends=worker.text.ends_document, n_bytes=0,
            size=worker.text.size,
        )
        for i in range(worker.rows.n):
            record.n_bytes += worker.rows.sizes[i]
        worker.add(record)
        return True

    cdef bint prepare_block(self, BlockWorker worker, Py_ssize_t number) except -1:
        """Prepare the rows of a block in Python; False after an error, which `result` raises."""
        cdef const byte_t[::1] text
        cdef const int64_t[::1] starts, sizes
        cdef int64_t[::1] lengths
        cdef Py_ssize_t i, n
        try:
            text, starts, sizes, note = self.prepared(worker.text.block() if worker.block is None else worker.block)
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

    cdef bint end_block(self, BlockWorker worker, Py_ssize_t number, Py_ssize_t first_unknown) except -1:
        """Call `done` for an encoded block, and record it; False after an error, which `result` raises."""
        cdef const int64_t[::1] lengths
        cdef Py_ssize_t i
        if worker.held is None and not self.prepare_block(worker, number):  # `done` names the symbol without an id
            return False
        worker.held = None                                   # the buffer may be reused
        try:
            ids = self.done_with(worker.note, worker.lengths, first_unknown)
        except Exception as error:
            self.over = True
            self.errors[number] = error
            return False
        lengths = ids.lengths
        worker.reserve_counts(lengths.shape[0])
        for i in range(lengths.shape[0]):
            worker.counts[worker.n_counts + i] = lengths[i]
        worker.add(Record(
            number=number, n=lengths.shape[0], begins=ids.begins, ends=ids.ends, n_bytes=ids.n_bytes, size=ids.size,
        ))
        return True

    cdef Py_ssize_t encode_part(self, Workspace work, Worker worker, Py_ssize_t number) except -2 nogil:
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
            feed_fragments(work.feed, fragments, n, self.encoder.scanner)
            work.feed.shared, work.feed.readable = True, rows.text + rows.size
            self.encoder.encode_feed(work, rows.lengths + first)
            if work.unknown_at >= 0:
                work.unknown_at += first
                return work.unknown_at
            first += n
        return -1

    def result(self):
        """After all threads are done: (uint32 ids, int64 ids of each document of the blocks, int64 records of the
        blocks, shape (n, 5): their documents, and `begins`, `ends`, `n_bytes`, `size` of `BlockIds`).

        Raises:
            Exception: that of the first block with an error.

        """
        if self.errors:
            raise self.errors[min(self.errors)]
        ids = self.done if self.n_parts == 1 else self.output.take_ids()
        added_records, added_counts = [], []
        for worker in self.workers:
            records, counts = worker.added()
            added_records.append(records)
            added_counts.append(counts)
        records, counts = np.concatenate(added_records), np.concatenate(added_counts)
        ends = np.cumsum(records[:, 1])
        order = np.argsort(records[:, 0])
        parts = [counts[:0]]
        for i in order:
            parts.append(counts[ends[i] - records[i, 1] : ends[i]])
        return ids, np.concatenate(parts), records[order, 1:]
