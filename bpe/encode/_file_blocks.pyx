"""The blocks of files or a stream to ids: each thread takes the next block in order.

A block is read by the thread that encodes it, so that the text is in that core's cache. Blocks are given out one at a
time and numbered in that order, which is the order of the ids. Those of a `FileReader` need no Python code and no GIL,
unless they hold bytes that are not UTF-8, disallowed special tokens or unknown symbols, for the error. Other blocks are
opened and closed by Python code; what is between is the same.

A block has *documents*, and these have *items*: texts, and ids before, between and after them:

    documents   |low<|sep|>er      |est        |
    items       |low|<|sep|>|er|eos|est|eos    |
"""

import numpy as np

cimport cython

from bpe.base._aho_corasick cimport Finder, MatchList
from bpe.base._atomic cimport load, store
from bpe.base._interrupts cimport poll
from bpe.base._memory cimport check_allocated, check_lock, grow_array
from bpe.base._ordered_output cimport OrderedIds
from bpe.base._system cimport sleep
from bpe.base._types cimport NO_TOKEN, byte_t, token_t
from bpe.base._utf8 cimport is_utf8
from bpe.corpus._content_hash cimport hash_content
from bpe.corpus._file_reader cimport FILE_INDEX, FileBlock, FileReader
from bpe.encode._batch cimport MAX_FRAGMENTS, EncodeJob, ThreadBuffers
from bpe.encode._chunk cimport Fragment
from bpe.encode._chunk_filler cimport begin_feed
from bpe.encode._encoder cimport Encoder
from bpe.encode._workspace cimport Workspace, prepare_output
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy


cdef struct BlockText:        # the text of a block, and its documents
    const byte_t* data
    Py_ssize_t size           # bytes that may be read
    Py_ssize_t n              # documents
    const int64_t* starts
    const int64_t* sizes      # in bytes
    bint begins_document, ends_document

cdef struct BlockItems:       # of a block
    Py_ssize_t n
    const int64_t* starts     # of the items in the text; of an item without text, its id
    const int64_t* sizes      # in bytes; -1 for an id
    int64_t* lengths          # OUT: ids of each item

cdef struct ItemArrays:       # memory for items
    int64_t* starts
    int64_t* sizes
    int64_t* lengths
    Py_ssize_t n
    size_t starts_capacity, sizes_capacity, lengths_capacity

cdef struct Record:           # of an encoded block
    int64_t n_begun           # the columns of `BlockIds.blocks`
    int64_t file_index
    int64_t start
    int64_t documents_to_skip
    int64_t n_bad_records
    Py_ssize_t number
    Py_ssize_t n              # documents, or parts of them
    bint begins_document, ends_document   # as those of `BlockIds`
    Py_ssize_t n_bytes
    Py_ssize_t disk_bytes

cdef enum:
    N_COLUMNS = 5             # of a record
    DOCUMENT_BYTES = 128      # that a document takes, with the arrays of the lengths, at most
    MAX_WAITING_IDS = 1 << 24  # that wait in memory for an earlier block to be encoded, before they go to a target
    WAIT_MICROSECONDS = 1000

cdef struct RecordedBlock:
    Record* record
    const int64_t* counts     # ids of each document
    const uint64_t* hashes    # of their contents, or NULL


cdef Py_ssize_t find_block_end(void* encoder, const byte_t* text, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    return (<Encoder>encoder).find_last_split_in(text, start, end)


cdef class BlockBuffers(ThreadBuffers):
    """The memory of a thread that encodes blocks, and the records of those that it has encoded."""

    cdef FileBlock file_block              # the current block, if a `FileReader` has read it
    cdef object block                      # otherwise the current block; else None
    cdef tuple owners                      # objects that the text of such a block points into
    cdef BlockText text                    # of the current block
    cdef BlockItems items
    cdef ItemArrays own_items              # of a block with other items than its documents
    cdef int64_t* first_items              # of each document of such a block, and `n` of its items
    cdef size_t first_items_capacity
    cdef MatchList specials                # found in a document
    cdef Py_ssize_t number                 # of the current block
    cdef bint is_encoding                  # the current block, so that the workspace is in use
    cdef Record* records
    cdef Py_ssize_t n_records
    cdef size_t records_capacity
    cdef int64_t* counts                   # ids of each document of the records
    cdef Py_ssize_t n_counts
    cdef size_t counts_capacity
    cdef uint64_t* hashes                  # of the documents' contents, if they are wanted
    cdef size_t hashes_capacity

    def __cinit__(self, *_):
        self.file_block = FileBlock()

    def __dealloc__(self):
        free(self.records)
        free(self.counts)
        free(self.hashes)
        free(self.own_items.starts)
        free(self.own_items.sizes)
        free(self.own_items.lengths)
        free(self.first_items)
        free(self.specials.rows)

    cdef int64_t* reserve_counts(self, Py_ssize_t n) except NULL nogil:
        """Have room for `n` more counts; return where they begin."""
        self.counts = <int64_t*>grow_array(self.counts, &self.counts_capacity, self.n_counts + n + 1, sizeof(int64_t))
        return self.counts + self.n_counts

    cdef uint64_t* reserve_hashes(self, Py_ssize_t n) except NULL nogil:
        """Have room for the hashes of `n` more documents; return where they begin."""
        self.hashes = <uint64_t*>grow_array(self.hashes, &self.hashes_capacity, self.n_counts + n + 1, sizeof(uint64_t))
        return self.hashes + self.n_counts

    cdef int add_item(self, int64_t start, int64_t size) except -1 nogil:
        """Add an item of the current block: a text, or an id of size -1; an id that is NO_TOKEN adds none."""
        cdef ItemArrays* items = &self.own_items
        if size < 0 and start == NO_TOKEN:
            return 0
        items.starts = <int64_t*>grow_array(items.starts, &items.starts_capacity, items.n + 1, sizeof(int64_t))
        items.sizes = <int64_t*>grow_array(items.sizes, &items.sizes_capacity, items.n + 1, sizeof(int64_t))
        items.starts[items.n], items.sizes[items.n] = start, size
        items.n += 1
        return 0

    cdef int add(self, Record record) except -1 nogil:
        """Add a record whose counts have been written."""
        self.records = <Record*>grow_array(self.records, &self.records_capacity, self.n_records + 1, sizeof(Record))
        self.records[self.n_records] = record
        self.n_records += 1
        self.n_counts += record.n
        return 0


cdef class SpecialItems:
    """The items of documents in which special tokens may be: which to find, which to leave to Python code.

    Args:
        allowed: finds the tokens to encode as ids, which are `ids`; None if there are none.
        disallowed: finds those that are an error; None if there are none.
        bos, eos: the ids before and after each document, or None.

    """

    cdef Finder allowed, disallowed
    cdef const int64_t[::1] ids
    cdef token_t bos, eos

    def __cinit__(self, Finder allowed, ids, Finder disallowed, bos, eos):
        self.allowed, self.ids, self.disallowed = allowed, ids, disallowed
        self.bos, self.eos = NO_TOKEN if bos is None else bos, NO_TOKEN if eos is None else eos

    cdef bint adds_items(self) noexcept nogil:
        """Whether documents may have other items than their text."""
        return self.allowed is not None or self.bos != NO_TOKEN or self.eos != NO_TOKEN

    cdef int add_items(self, BlockBuffers buffers) except -1 nogil:
        """Add the items of the documents of the current block."""
        cdef BlockText* text = &buffers.text
        cdef Py_ssize_t i, n = text.n
        buffers.own_items.n = 0
        buffers.first_items = <int64_t*>grow_array(
            buffers.first_items, &buffers.first_items_capacity, n + 1, sizeof(int64_t)
        )
        for i in range(n):
            buffers.first_items[i] = buffers.own_items.n
            if i or text.begins_document:
                buffers.add_item(self.bos, -1)
            self.add_text_items(buffers, text.starts[i], text.starts[i] + text.sizes[i])
            if i < n - 1 or text.ends_document:
                buffers.add_item(self.eos, -1)
        buffers.first_items[n] = buffers.own_items.n
        return 0

    cdef int add_text_items(self, BlockBuffers buffers, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
        """Add the items of a document: the special tokens in it, and the text between them."""
        cdef MatchList* found = &buffers.specials
        cdef Py_ssize_t i, text_start = start
        found.n = 0
        if self.allowed is not None:
            self.allowed.find_leftmost_longest(buffers.text.data, start, end, found)
        for i in range(found.n):
            if text_start < found.rows[i].start:
                buffers.add_item(text_start, found.rows[i].start - text_start)
            buffers.add_item(self.ids[found.rows[i].string_index], -1)
            text_start = found.rows[i].end
        if text_start < end or start == end:
            buffers.add_item(text_start, end - text_start)
        return 0


cdef class BlockJob(EncodeJob):
    """Blocks to encode; nothing is added.

    Args:
        encoder, threads: as for any job.
        blocks: an iterator of blocks and of `FileReader`s, advanced by one thread at a time. A reader comes again until
            it is finished.
        open_block: called as open_block(block) in the thread that encodes it; returns (buffer, starts, ends), the last
            two int64: document i is `buffer[starts[i]:ends[i]]`. It raises the errors of the block's text.
        raise_for_unknown: called as raise_for_unknown(block, start, size) for a text of the block that has a symbol
            without an id; raises the error.
        specials: makes the items of the documents.
        n_bytes: the amount of text, about.
        max_bytes: the bytes after which no more blocks are taken; each document counts as DOCUMENT_BYTES more.
        out: the array to write the ids to, or an `IdTarget`, as for `OrderedIds`; None for a new array. No more blocks
            are taken once a target is full.
        with_hashes: whether to hash the contents of the documents, none of which is in two blocks.

    """

    cdef bint with_hashes
    cdef object blocks, open_block, raise_for_unknown
    cdef object first_block                # the first item, if it is a block that no thread has taken; else None
    cdef FileReader first_reader           # if the first item is one; else None
    cdef FileReader reader                 # the current one, or None
    cdef SpecialItems specials
    cdef cython.pythread_type_lock reading     # held while a block is taken; never acquired while holding the GIL
    cdef Py_ssize_t max_bytes, n_bytes_taken
    cdef Py_ssize_t is_over                # 1 when no more blocks are taken; read without a lock
    cdef list all_buffers
    cdef dict errors                       # by number

    def __cinit__(
        self, encoder, threads, blocks, open_block, raise_for_unknown, SpecialItems specials not None,
        Py_ssize_t n_bytes, Py_ssize_t max_bytes, out=None, bint with_hashes=False,
    ):
        check_lock(&self.reading)
        self.specials = specials
        self.open_block, self.raise_for_unknown = open_block, raise_for_unknown
        self.n_bytes, self.max_bytes, self.with_hashes = n_bytes, max_bytes, with_hashes
        self.all_buffers, self.errors = [], {}
        self.take_first(blocks)
        self.n_parts = 1
        if threads > 1 or out is not None:
            self.n_parts = <Py_ssize_t>1 << 60           # as many as there are blocks
            self.output = OrderedIds(self.n_bytes + 1024, self.encoder.pool, out)

    cdef int take_first(self, blocks) except -1:
        """Take the first item in the caller's thread: each time that a thread takes the GIL later may cost 5 ms."""
        first, self.blocks = next(blocks, None), blocks
        if isinstance(first, FileReader):
            self.reader = self.first_reader = first
        elif first is None:
            self.is_over = 1
        else:
            self.first_block = first
        return 0

    def count_threads(self):
        """Return the number of threads that may work."""
        return 1 if load(&self.is_over) else self.threads

    cdef ThreadBuffers new_buffers(self):
        cdef BlockBuffers buffers = BlockBuffers(MAX_FRAGMENTS)
        if self.first_reader is not None:
            self.first_reader.attach(buffers.file_block)
        self.all_buffers.append(buffers)
        return buffers

    def stop(self):
        """Take no more blocks, and stop the threads."""
        store(&self.is_over, 1)
        EncodeJob.stop(self)

    cdef bint encode_next(self, Workspace workspace, ThreadBuffers buffers) except -1 nogil:
        """Take the next block and encode it; False if there is none."""
        return self.encode_next_block(workspace, <BlockBuffers>buffers)

    cdef bint encode_next_block(self, Workspace workspace, BlockBuffers buffers) except -1 nogil:
        """Encode the next block, with the worker's own type; False if there is none."""
        self.wait_for_target(workspace)
        with self.reading:
            if not self.take_block(buffers):
                return False
        self.open_text(buffers, buffers.file_block)
        self.make_items(buffers)
        buffers.is_encoding = True
        if self.n_parts > 1:
            self.encode_and_deliver(workspace, buffers, buffers.number)
        else:
            if buffers.number == 0:
                prepare_output(workspace, self.n_bytes)
            self.encode_part(workspace, buffers, buffers.number)
        buffers.is_encoding = False
        if workspace.unknown_fragment >= 0:
            with gil:
                self.raise_for_item(buffers, workspace.unknown_fragment)
        self.record_documents(buffers)
        return True

    cdef int wait_for_target(self, Workspace workspace) except -1 nogil:
        """Wait while too many ids are in memory that belong to a target: an earlier block's thread may be held up."""
        if self.output is None or self.output.target is None:
            return 0
        while load(&self.output.n_waiting) > MAX_WAITING_IDS and not load(&self.is_over):
            sleep(WAIT_MICROSECONDS)
            poll(&workspace.scratch.watch, 0)
        return 0

    cdef bint keep_error(self, ThreadBuffers buffers, error) except -1:
        """Keep the error of a block for `result`, which raises that of the first block with one."""
        cdef BlockBuffers own = <BlockBuffers>buffers
        if own.is_encoding or not isinstance(error, Exception):
            return False
        store(&self.is_over, 1)
        self.errors[own.number] = error
        return True

    cdef bint take_block(self, BlockBuffers buffers) except -1 nogil:
        """Take the next block; False if there is none."""
        if buffers.n_records:
            self.n_bytes_taken += DOCUMENT_BYTES * buffers.records[buffers.n_records - 1].n
        if load(&self.is_over) or self.n_bytes_taken >= self.max_bytes:
            return False
        if self.output is not None and self.output.target is not None and load(&self.output.target.full):
            return False
        buffers.number = self.take_part()
        while self.reader is None or not self.reader.give_out(buffers.file_block, find_block_end, <void*>self.encoder):
            with gil:
                if not self.take_from_iterator(buffers):
                    return False
            if self.reader is None:
                return True
        self.n_bytes_taken += buffers.file_block.n
        return True

    cdef bint take_from_iterator(self, BlockBuffers buffers) except -1:
        """Take the next block or reader of the iterator; False if there is none."""
        self.reader = None
        block, self.first_block = self.first_block, None
        if block is None:
            block = next(self.blocks, None)
        if block is None:
            store(&self.is_over, 1)
            return False
        if isinstance(block, FileReader):
            self.reader = block
        else:
            buffers.block = block
            self.n_bytes_taken += max(block.disk_bytes, len(block.text))  # a compressed file has less on disk
        return True

    cdef int open_text(self, BlockBuffers buffers, FileBlock block) except -1 nogil:
        """Read the text and find the documents of the block that was taken."""
        if buffers.block is not None:
            with gil:
                return self.open_python_block(buffers)
        block.reader.read(block)
        block.split(block.reader)
        if self.may_have_error(block):
            with gil:
                self.check_block(block)
        buffers.text = BlockText(
            data=block.data, size=block.capacity, n=block.n_documents, starts=block.starts, sizes=block.sizes,
            begins_document=block.begins_document, ends_document=block.ends_document,
        )
        return 0

    cdef bint may_have_error(self, FileBlock block) except -1 nogil:
        """Whether a block may not be UTF-8, or have a disallowed special token."""
        if block.reader.requires_utf8 and not is_utf8(block.data, block.n):
            return True
        return self.specials.disallowed is not None and self.specials.disallowed.occurs_in(block.data, block.n)

    cdef int check_block(self, FileBlock block) except -1:
        """Have Python code raise the error of a block, if there is one."""
        self.open_block(block.make_block())
        return 0

    cdef int open_python_block(self, BlockBuffers buffers) except -1:
        """Have Python code open a block that it has read."""
        cdef const byte_t[::1] text
        cdef const int64_t[::1] starts, sizes
        cdef Py_ssize_t i
        text, start_array, ends = self.open_block(buffers.block)
        starts, sizes = start_array, ends - start_array
        for i in range(starts.shape[0]):
            if not 0 <= starts[i] <= text.shape[0] - sizes[i] or sizes[i] < 0:
                raise ValueError(f"document {i} is not within its block of {text.shape[0]} bytes")
        buffers.owners = (text, starts, sizes)
        buffers.text = BlockText(
            data=NULL, size=text.shape[0], n=starts.shape[0], starts=NULL, sizes=NULL,
            begins_document=buffers.block.begins_document, ends_document=buffers.block.ends_document,
        )
        if text.shape[0]:
            buffers.text.data = &text[0]
        if starts.shape[0]:
            buffers.text.starts, buffers.text.sizes = &starts[0], &sizes[0]
        return 0

    cdef int make_items(self, BlockBuffers buffers) except -1 nogil:
        """Make the items of the current block's documents."""
        cdef BlockText* text = &buffers.text
        cdef ItemArrays* own = &buffers.own_items
        if not self.specials.adds_items():
            buffers.items = BlockItems(
                n=text.n, starts=text.starts, sizes=text.sizes, lengths=buffers.reserve_counts(text.n)
            )
            return 0
        self.specials.add_items(buffers)
        own.lengths = <int64_t*>grow_array(own.lengths, &own.lengths_capacity, own.n + 1, sizeof(int64_t))
        buffers.items = BlockItems(n=own.n, starts=own.starts, sizes=own.sizes, lengths=own.lengths)
        return 0

    cdef int raise_for_item(self, BlockBuffers buffers, Py_ssize_t item) except -1:
        """Raise the error for an item with a symbol that has no id."""
        block = buffers.file_block.make_block() if buffers.block is None else buffers.block
        self.raise_for_unknown(block, buffers.items.starts[item], buffers.items.sizes[item])
        return 0

    cdef int record_documents(self, BlockBuffers buffers) except -1 nogil:
        """Record the current block, which is encoded."""
        cdef BlockText* text = &buffers.text
        cdef int64_t* counts = buffers.reserve_counts(text.n)
        cdef Py_ssize_t i, item
        cdef Record record = Record(
            n_begun=text.n - (not text.begins_document), file_index=0, start=-1, documents_to_skip=0, n_bad_records=0,
            number=buffers.number, n=text.n, begins_document=text.begins_document, ends_document=text.ends_document,
            n_bytes=0, disk_bytes=0,
        )
        if self.with_hashes:
            hash_documents(buffers)
        for i in range(text.n):
            record.n_bytes += text.sizes[i]
            if buffers.items.lengths != counts:
                counts[i] = 0
                for item in range(buffers.first_items[i], buffers.first_items[i + 1]):
                    counts[i] += buffers.items.lengths[item]
        if buffers.block is not None:
            with gil:
                close_python_block(buffers, &record)
        else:
            describe_source(buffers.file_block, &record)
        return buffers.add(record)

    cdef Py_ssize_t encode_part(self, Workspace workspace, ThreadBuffers buffers, Py_ssize_t number) except -2 nogil:
        """Encode a block."""
        cdef BlockText* text = &(<BlockBuffers>buffers).text
        cdef BlockItems* items = &(<BlockBuffers>buffers).items
        cdef Fragment* fragments = buffers.fragments
        cdef Py_ssize_t i, n, first = 0
        while first < items.n:
            n = min(items.n - first, <Py_ssize_t>MAX_FRAGMENTS)
            for i in range(n):
                fragments[i].size = items.sizes[first + i]
                if fragments[i].size < 0:
                    fragments[i].text, fragments[i].token = NULL, <token_t>items.starts[first + i]
                else:
                    fragments[i].text = text.data + items.starts[first + i]
            begin_feed(workspace.feed, fragments, n, self.encoder.scanner)
            workspace.feed.in_one_buffer, workspace.feed.readable = True, text.data + text.size
            self.encoder.encode_feed(workspace, items.lengths + first)
            if workspace.unknown_fragment >= 0:
                workspace.unknown_fragment += first
                return workspace.unknown_fragment
            first += n
        return -1

    def result(self):
        """Return the arguments of `BlockIds`, after all threads are done; None if there were no blocks.

        It uses no NumPy function, since most of them release the GIL, and may wait for another thread to get it back.

        Raises:
            Exception: that of the first block with an error.

        """
        if self.errors:
            raise self.errors[min(self.errors)]
        ids = self.single_part_ids if self.n_parts == 1 else self.output.take_ids()
        fields = self.join_records()
        return None if fields is None else (ids, *fields)

    cdef tuple join_records(self):
        """Join the counts of all blocks to lengths of documents, and their records in order."""
        cdef BlockBuffers buffers
        cdef Py_ssize_t n_counts = 0, n_records = 0, n_lengths = 0, n_blocks = 0, n_bytes = 0, disk_bytes = 0, i, j
        for buffers in self.all_buffers:
            n_counts += buffers.n_counts
            n_records += buffers.n_records
            for i in range(buffers.n_records):
                n_blocks = max(n_blocks, buffers.records[i].number + 1)
        if not n_records:
            return None
        lengths = np.empty(n_counts, dtype=np.int64)
        hashes = np.empty(n_counts if self.with_hashes else 0, dtype=np.uint64)
        rows = np.empty((n_records, N_COLUMNS), dtype=np.int64)
        cdef int64_t[::1] length_rows = lengths
        cdef uint64_t[::1] hash_rows = hashes
        cdef int64_t[:, ::1] record_rows = rows
        cdef RecordedBlock* blocks = <RecordedBlock*>check_allocated(
            calloc(n_blocks, sizeof(RecordedBlock)), n_blocks, b"blocks"
        )
        cdef Record* record
        cdef Record* first = NULL
        cdef Record* last = NULL
        for buffers in self.all_buffers:
            j = 0
            for i in range(buffers.n_records):
                blocks[buffers.records[i].number] = RecordedBlock(&buffers.records[i], buffers.counts + j, NULL)
                if self.with_hashes:
                    blocks[buffers.records[i].number].hashes = buffers.hashes + j
                j += buffers.records[i].n
        n_records = 0
        for i in range(n_blocks):
            record = blocks[i].record
            if record == NULL:
                continue
            first, last = record if first == NULL else first, record
            memcpy(&record_rows[n_records, 0], record, N_COLUMNS * sizeof(int64_t))
            n_bytes += record.n_bytes
            disk_bytes += record.disk_bytes
            for j in range(record.n):
                if j == 0 and n_lengths and not record.begins_document:
                    length_rows[n_lengths - 1] += blocks[i].counts[j]
                else:
                    length_rows[n_lengths] = blocks[i].counts[j]
                    if self.with_hashes:
                        hash_rows[n_lengths] = blocks[i].hashes[j]
                    n_lengths += 1
            n_records += 1
        begins, ends = bool(first.begins_document), bool(last.ends_document)
        free(blocks)
        return (
            lengths[:n_lengths], begins, ends, n_bytes, disk_bytes, hashes[:n_lengths] if self.with_hashes else None,
            rows,
        )


cdef void describe_source(FileBlock block, Record* record) noexcept nogil:
    """Record where a block of a `FileReader` is from."""
    record.disk_bytes, record.file_index = block.disk_bytes, block.reader.units[block.unit_index, FILE_INDEX]
    record.n_bad_records = block.n_bad_records
    if block.begins_document:
        record.start = block.offset                     # bad records may be before the document
    elif block.n_documents > 1:
        record.start = block.offset + block.starts[1]


cdef int close_python_block(BlockBuffers buffers, Record* record) except -1:
    """Record where a block is from that Python code has read, and release its memory."""
    block, buffers.block, buffers.owners = buffers.block, None, None
    record.disk_bytes, record.file_index = block.disk_bytes, block.file_index
    record.documents_to_skip, record.n_bad_records = block.documents_to_skip, block.n_bad_records
    if block.begins_document:
        record.start = block.resume_offset
    block.release()
    return 0


cdef int hash_documents(BlockBuffers buffers) except -1 nogil:
    """Hash the documents of the current block, which is recorded next."""
    cdef BlockText* text = &buffers.text
    cdef uint64_t* hashes = buffers.reserve_hashes(text.n)
    cdef Py_ssize_t i
    for i in range(text.n):
        hashes[i] = hash_content(text.data + text.starts[i], text.sizes[i])
    return 0
