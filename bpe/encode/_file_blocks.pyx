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
from bpe.encode._batch cimport MAX_FRAGMENTS, EncodeJob, ThreadBuffers
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport feed_fragments
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace, prepare_output
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

#: Most blocks of one job, for which shared memory is allocated. Another job takes the rest.
MAX_BLOCKS = 4096


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
    RECORD_FIELDS = 6         # of a record


cdef Py_ssize_t find_last_cut(void* encoder, const byte_t* text, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    return (<Encoder>encoder).find_last_split_in(text, start, end)


cdef class BlockBuffers(ThreadBuffers):
    """The memory of a thread that encodes blocks, and the records of those that it has encoded."""

    cdef FileBlock text                    # the current block, if a `FileReader` has read it
    cdef object block                      # otherwise the current block; else None
    cdef Rows rows
    cdef tuple owners                      # objects that they point into, if Python code has prepared them
    cdef object context, lengths
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

    def to_arrays(self):
        """Return the records, int64 of shape (n, RECORD_FIELDS), and their counts, int64."""
        records = np.empty((self.n_records, RECORD_FIELDS), dtype=np.int64)
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
        prepare_rows: called as prepare_rows(block) in the thread that encodes it; returns (buffer, starts, sizes,
            context). Row i is `buffer[starts[i]:starts[i] + sizes[i]]`, or the id `starts[i]` if its size is -1; both
            are int64.
        finish_block: called as finish_block(context, lengths, first_unknown) after a block is encoded, with the int64
            number of ids of each row, and the first row with a symbol that has no id, or -1; returns a `BlockIds`,
            whose ids are not used.
        special_finder: finds the strings for which a reader's block needs `prepare_rows`; None: all blocks do.
        n_bytes: the amount of text, about.
        max_bytes: the bytes after which no more blocks are taken.

    """

    cdef object blocks, prepare_rows, finish_block
    cdef FileReader reader                 # the current one, or None
    cdef Finder special_finder
    cdef cython.pythread_type_lock reading     # held while a block is taken; never acquired while holding the GIL
    cdef Py_ssize_t max_bytes, n_bytes_taken
    cdef bint is_over                      # no more blocks are taken
    cdef list all_buffers
    cdef dict errors                       # by number

    def __cinit__(
        self, encoder, threads, blocks, prepare_rows, finish_block, special_finder, Py_ssize_t n_bytes,
        Py_ssize_t max_bytes,
    ):
        check_lock(&self.reading)
        self.blocks, self.special_finder = blocks, special_finder
        self.prepare_rows, self.finish_block = prepare_rows, finish_block
        self.n_bytes, self.max_bytes = n_bytes, max_bytes
        self.all_buffers, self.errors = [], {}
        self.n_parts = 1 if threads == 1 else MAX_BLOCKS
        self.allocate_shared()

    def count_threads(self):
        """Return the number of threads that may work."""
        return self.threads

    cdef ThreadBuffers new_buffers(self):
        buffers = BlockBuffers(MAX_FRAGMENTS)
        self.all_buffers.append(buffers)
        return buffers

    def stop(self):
        """Take no more blocks, and stop the threads."""
        self.is_over = True
        EncodeJob.stop(self)

    cdef bint encode_next(self, Workspace space, ThreadBuffers buffers) except -1 nogil:
        """Take the next block and encode it; False if there is none."""
        return self.encode_next_block(space, <BlockBuffers>buffers)

    cdef bint encode_next_block(self, Workspace space, BlockBuffers buffers) except -1 nogil:
        """Encode the next block, with the worker's own type; False if there is none."""
        cdef Py_ssize_t number = -1
        cdef bint has_block
        with self.reading:
            with gil:
                has_block = self.take_block(buffers, &number)
        if not has_block:
            return False
        if buffers.block is not None or not self.prepare_text(buffers):
            with gil:
                if not self.prepare_block(buffers, number):
                    return False
        if self.n_parts > 1:
            self.encode_and_deliver(space, buffers, number)
        else:
            if number == 0:
                prepare_output(space, self.n_bytes)
            self.encode_part(space, buffers, number)
        if buffers.owners is None and space.unknown_at < 0:
            return self.record_text(buffers, number)
        with gil:
            return self.record_block(buffers, number, space.unknown_at)

    cdef bint take_block(self, BlockBuffers buffers, Py_ssize_t* number) except -1:
        """Take the next block; False if there is none, or after an error, which `result` raises."""
        cdef FileReader reader
        cdef bint has_block
        buffers.block = None
        if self.is_over or self.n_bytes_taken >= self.max_bytes or (self.threads > 1 and self.n_taken >= self.n_parts):
            return False
        number[0] = self.take_part()
        try:
            while True:
                reader = self.reader
                if reader is None:
                    block = next(self.blocks, None)
                    if block is None:
                        break
                    if not isinstance(block, FileReader):
                        buffers.block = block
                        self.n_bytes_taken += max(block.size, len(block.text))  # a compressed file has less on disk
                        return True
                    self.reader = reader = block
                with nogil:
                    has_block = reader.read_next(buffers.text, find_last_cut, <void*>self.encoder)
                if has_block:
                    buffers.text.reader = reader
                    self.n_bytes_taken += buffers.text.size
                    return True
                self.reader = None
        except Exception as error:
            self.errors[number[0]] = error
        self.is_over = True
        return False

    cdef bint prepare_text(self, BlockBuffers buffers) except -1 nogil:
        """Prepare the rows of a reader's block; False if Python code has to do that."""
        cdef Py_ssize_t n = buffers.text.n
        if self.special_finder is None or (buffers.text.reader.requires_utf8 and not is_utf8(buffers.text.data, n)):
            return False
        if self.special_finder.occurs_in(buffers.text.data, n):
            return False
        buffers.text.split(buffers.text.reader)
        buffers.rows = Rows(
            text=buffers.text.data, size=buffers.text.capacity, n=buffers.text.n_documents, starts=buffers.text.starts,
            sizes=buffers.text.sizes, lengths=buffers.reserve_counts(buffers.text.n_documents),
        )
        return True

    cdef bint record_text(self, BlockBuffers buffers, Py_ssize_t number) except -1 nogil:
        """Record an encoded block that `prepare_text` has prepared."""
        cdef Py_ssize_t i
        cdef Record record = Record(
            number=number, n=buffers.rows.n, begins=buffers.text.begins_document, ends=buffers.text.ends_document,
            n_bytes=0, size=buffers.text.size,
        )
        for i in range(buffers.rows.n):
            record.n_bytes += buffers.rows.sizes[i]
        buffers.add(record)
        return True

    cdef bint prepare_block(self, BlockBuffers buffers, Py_ssize_t number) except -1:
        """Prepare the rows of a block in Python; False after an error, which `result` raises."""
        cdef const byte_t[::1] text
        cdef const int64_t[::1] starts, sizes
        cdef int64_t[::1] lengths
        cdef Py_ssize_t i, n
        try:
            block = buffers.text.block() if buffers.block is None else buffers.block
            text, starts, sizes, context = self.prepare_rows(block)
            n = min(starts.shape[0], sizes.shape[0])
            for i in range(n):
                if sizes[i] >= 0 and not 0 <= starts[i] <= text.shape[0] - sizes[i]:
                    raise ValueError(f"row {i} is not within its block of {text.shape[0]} bytes")
        except Exception as error:
            self.is_over = True
            self.errors[number] = error
            return False
        length_array = np.empty(n, dtype=np.int64)
        lengths = length_array
        buffers.owners = (text, starts, sizes)
        buffers.context, buffers.lengths = context, length_array
        buffers.rows = Rows(text=NULL, size=text.shape[0], n=n, starts=NULL, sizes=NULL, lengths=NULL)
        if text.shape[0]:
            buffers.rows.text = &text[0]
        if n:
            buffers.rows.starts, buffers.rows.sizes, buffers.rows.lengths = &starts[0], &sizes[0], &lengths[0]
        return True

    cdef bint record_block(self, BlockBuffers buffers, Py_ssize_t number, Py_ssize_t first_unknown) except -1:
        """Call `finish_block` for an encoded block, and record it; False after an error, which `result` raises."""
        cdef const int64_t[::1] lengths
        cdef Py_ssize_t i
        if buffers.owners is None and not self.prepare_block(buffers, number):  # an error names the symbol
            return False
        buffers.owners = None                                # the buffer may be reused
        try:
            ids = self.finish_block(buffers.context, buffers.lengths, first_unknown)
        except Exception as error:
            self.is_over = True
            self.errors[number] = error
            return False
        lengths = ids.lengths
        buffers.reserve_counts(lengths.shape[0])
        for i in range(lengths.shape[0]):
            buffers.counts[buffers.n_counts + i] = lengths[i]
        buffers.add(Record(
            number=number, n=lengths.shape[0], begins=ids.begins_document, ends=ids.ends_document, n_bytes=ids.n_bytes,
            size=ids.size,
        ))
        return True

    cdef Py_ssize_t encode_part(self, Workspace space, ThreadBuffers buffers, Py_ssize_t number) except -2 nogil:
        """Encode a block."""
        cdef Rows* rows = &(<BlockBuffers>buffers).rows
        cdef Fragment* fragments = buffers.fragments
        cdef Py_ssize_t i, n, first = 0
        while first < rows.n:
            n = min(rows.n - first, <Py_ssize_t>MAX_FRAGMENTS)
            for i in range(n):
                fragments[i].size = rows.sizes[first + i]
                if fragments[i].size < 0:
                    fragments[i].text, fragments[i].token = NULL, <token_t>rows.starts[first + i]
                else:
                    fragments[i].text = rows.text + rows.starts[first + i]
            feed_fragments(space.feed, fragments, n, self.encoder.scanner)
            space.feed.in_one_buffer, space.feed.readable = True, rows.text + rows.size
            self.encoder.encode_feed(space, rows.lengths + first)
            if space.unknown_at >= 0:
                space.unknown_at += first
                return space.unknown_at
            first += n
        return -1

    def result(self):
        """Return the result, after all threads are done: (uint32 ids, int64 ids of each document of the blocks, int64
        records of the blocks, shape (n, 5): their documents, and `begins`, `ends`, `n_bytes`, `size` of `BlockIds`).

        Raises:
            Exception: that of the first block with an error.

        """
        if self.errors:
            raise self.errors[min(self.errors)]
        ids = self.single_part_ids if self.n_parts == 1 else self.output.take_ids()
        record_arrays, count_arrays = [], []
        for buffers in self.all_buffers:
            records, counts = buffers.to_arrays()
            record_arrays.append(records)
            count_arrays.append(counts)
        records, counts = np.concatenate(record_arrays), np.concatenate(count_arrays)
        ends = np.cumsum(records[:, 1])
        order = np.argsort(records[:, 0])
        parts = [counts[:0]]
        for i in order:
            parts.append(counts[ends[i] - records[i, 1] : ends[i]])
        return ids, np.concatenate(parts), records[order, 1:]
