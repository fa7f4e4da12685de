"""The blocks of files or a stream to ids: each thread takes the next block in order.

A block is read by the thread that encodes it, so that the text is in that core's cache. Blocks are given out one at a
time and numbered in that order, which is the order of the ids. Those of a `FileReader` need no Python code and no GIL,
unless they hold bytes that are not UTF-8, disallowed special tokens or unknown symbols, for the error.

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


cdef struct BlockItems:       # of a block
    const byte_t* text
    Py_ssize_t size           # of the text
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
    int64_t number
    int64_t n                 # documents, or parts of them
    int64_t begins_document   # as those of `BlockIds`
    int64_t ends_document
    int64_t n_bytes
    int64_t disk_bytes
    int64_t file_index        # among the sources; -1 if Python code has read the block
    int64_t first_start       # in the file, of the first document that begins in the block; -1 as above, or without one

cdef enum:
    RECORD_FIELDS = 8         # of a record
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

    cdef FileBlock text                    # the current block, if a `FileReader` has read it
    cdef object block                      # otherwise the current block; else None
    cdef BlockItems items
    cdef ItemArrays own_items              # of a block with other items than its documents
    cdef int64_t* first_items              # of each document of such a block, and `n` of its items
    cdef size_t first_items_capacity
    cdef MatchList specials                # found in a document
    cdef Py_ssize_t number                 # of the current block
    cdef bint is_encoding                  # the current block, so that the workspace is in use
    cdef tuple owners                      # objects that the items point into, if Python code has prepared them
    cdef object context, lengths
    cdef Record* records
    cdef Py_ssize_t n_records
    cdef size_t records_capacity
    cdef int64_t* counts                   # ids of each document of the records
    cdef Py_ssize_t n_counts
    cdef size_t counts_capacity
    cdef uint64_t* hashes                  # of the documents' contents, if they are wanted
    cdef size_t hashes_capacity

    def __cinit__(self, *_):
        self.text = FileBlock()

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

    cdef int add_items(self, BlockBuffers buffers, FileBlock text) except -1 nogil:
        """Add the items of the documents of the current block."""
        cdef Py_ssize_t i, n = text.n_documents
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
        prepare_items: called as prepare_items(block) in the thread that encodes it; returns (buffer, starts, sizes,
            context). Item i is `buffer[starts[i]:starts[i] + sizes[i]]`, or the id `starts[i]` if its size is -1; both
            are int64.
        finish_block: called as finish_block(context, lengths, unknown_item) after a block is encoded, with the int64
            number of ids of each item, and the first item with a symbol that has no id, or -1; returns a `BlockIds`,
            whose ids are not used.
        specials: a `SpecialItems`, which makes the same items of a reader's block.
        n_bytes: the amount of text, about.
        max_bytes: the bytes after which no more blocks are taken; each document counts as DOCUMENT_BYTES more.
        out: the array to write the ids to, or an `IdTarget`, as for `OrderedIds`; None for a new array. No more blocks
            are taken once a target is full.
        with_hashes: whether to hash the contents of the documents, none of which is in two blocks.

    """

    cdef bint with_hashes
    cdef object blocks, prepare_items, finish_block
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
        self, encoder, threads, blocks, prepare_items, finish_block, SpecialItems specials not None, Py_ssize_t n_bytes,
        Py_ssize_t max_bytes, out=None, bint with_hashes=False,
    ):
        check_lock(&self.reading)
        self.specials = specials
        self.prepare_items, self.finish_block = prepare_items, finish_block
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
            self.first_reader.attach(buffers.text)
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
        if not self.prepare_text(buffers, buffers.text):
            with gil:
                self.prepare_block(buffers)
        buffers.is_encoding = True
        if self.n_parts > 1:
            self.encode_and_deliver(workspace, buffers, buffers.number)
        else:
            if buffers.number == 0:
                prepare_output(workspace, self.n_bytes)
            self.encode_part(workspace, buffers, buffers.number)
        buffers.is_encoding = False
        if buffers.owners is None and workspace.unknown_fragment < 0:
            self.record_text(buffers, buffers.text)
        else:
            with gil:
                self.record_block(buffers, workspace.unknown_fragment)
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
        while self.reader is None or not self.reader.give_out(buffers.text, find_block_end, <void*>self.encoder):
            with gil:
                if not self.take_from_iterator(buffers):
                    return False
            if self.reader is None:
                return True
        self.n_bytes_taken += buffers.text.n
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

    cdef bint prepare_text(self, BlockBuffers buffers, FileBlock text) except -1 nogil:
        """Read a reader's block and prepare its items; False if Python code has to do that."""
        cdef ItemArrays* own = &buffers.own_items
        if buffers.block is not None:
            return False
        text.reader.read(text)
        text.split(text.reader)                               # once, since it counts bad documents
        if text.reader.requires_utf8 and not is_utf8(text.data, text.n):
            return False
        if self.specials.disallowed is not None and self.specials.disallowed.occurs_in(text.data, text.n):
            return False
        buffers.items = BlockItems(
            text=text.data, size=text.capacity, n=text.n_documents, starts=text.starts, sizes=text.sizes, lengths=NULL
        )
        if self.specials.adds_items():
            self.specials.add_items(buffers, text)
            own.lengths = <int64_t*>grow_array(own.lengths, &own.lengths_capacity, own.n + 1, sizeof(int64_t))
            buffers.items.n, buffers.items.starts, buffers.items.sizes = own.n, own.starts, own.sizes
            buffers.items.lengths = own.lengths
        else:
            buffers.items.lengths = buffers.reserve_counts(text.n_documents)
        return True

    cdef int record_text(self, BlockBuffers buffers, FileBlock text) except -1 nogil:
        """Record an encoded block that `prepare_text` has prepared."""
        cdef int64_t* counts = buffers.reserve_counts(text.n_documents)
        cdef Py_ssize_t i, item
        cdef Record record = Record(
            number=buffers.number, n=text.n_documents, begins_document=text.begins_document,
            ends_document=text.ends_document, n_bytes=0, disk_bytes=text.disk_bytes,
            file_index=text.reader.units[text.unit_index, FILE_INDEX], first_start=-1,
        )
        if (not text.begins_document) < text.n_documents:
            record.first_start = text.offset + text.starts[not text.begins_document]
        if self.with_hashes:
            hash_documents(buffers, text)
        for i in range(text.n_documents):
            record.n_bytes += text.sizes[i]
            if buffers.items.lengths != counts:
                counts[i] = 0
                for item in range(buffers.first_items[i], buffers.first_items[i + 1]):
                    counts[i] += buffers.items.lengths[item]
        return buffers.add(record)

    cdef int prepare_block(self, BlockBuffers buffers) except -1:
        """Prepare the items of a block in Python."""
        cdef const byte_t[::1] text
        cdef const int64_t[::1] starts, sizes
        cdef int64_t[::1] lengths
        cdef Py_ssize_t i, n
        text, starts, sizes, context = self.prepare_items(
            buffers.text.make_block() if buffers.block is None else buffers.block
        )
        n = min(starts.shape[0], sizes.shape[0])
        for i in range(n):
            if sizes[i] >= 0 and not 0 <= starts[i] <= text.shape[0] - sizes[i]:
                raise ValueError(f"item {i} is not within its block of {text.shape[0]} bytes")
        length_array = np.empty(n, dtype=np.int64)
        lengths = length_array
        buffers.owners = (text, starts, sizes)
        buffers.context, buffers.lengths = context, length_array
        buffers.items = BlockItems(text=NULL, size=text.shape[0], n=n, starts=NULL, sizes=NULL, lengths=NULL)
        if text.shape[0]:
            buffers.items.text = &text[0]
        if n:
            buffers.items.starts, buffers.items.sizes, buffers.items.lengths = &starts[0], &sizes[0], &lengths[0]
        return 0

    cdef int record_block(self, BlockBuffers buffers, Py_ssize_t unknown_item) except -1:
        """Call `finish_block` for an encoded block, and record it."""
        cdef const int64_t[::1] lengths
        cdef Py_ssize_t i
        if buffers.owners is None:
            self.prepare_block(buffers)                       # an error names the symbol
        buffers.owners = buffers.block = None                 # the buffer may be reused
        ids = self.finish_block(buffers.context, buffers.lengths, unknown_item)
        lengths = ids.lengths
        buffers.reserve_counts(lengths.shape[0])
        for i in range(lengths.shape[0]):
            buffers.counts[buffers.n_counts + i] = lengths[i]
        if self.with_hashes:
            keep_hashes(buffers, ids.hashes)
        return buffers.add(Record(
            number=buffers.number, n=lengths.shape[0], begins_document=ids.begins_document,
            ends_document=ids.ends_document, n_bytes=ids.n_bytes, disk_bytes=ids.disk_bytes, file_index=-1,
            first_start=-1,
        ))

    cdef Py_ssize_t encode_part(self, Workspace workspace, ThreadBuffers buffers, Py_ssize_t number) except -2 nogil:
        """Encode a block."""
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
                    fragments[i].text = items.text + items.starts[first + i]
            begin_feed(workspace.feed, fragments, n, self.encoder.scanner)
            workspace.feed.in_one_buffer, workspace.feed.readable = True, items.text + items.size
            self.encoder.encode_feed(workspace, items.lengths + first)
            if workspace.unknown_fragment >= 0:
                workspace.unknown_fragment += first
                return workspace.unknown_fragment
            first += n
        return -1

    def result(self):
        """Return the result, after all threads are done: (uint32 ids, int64 ids of each document, int64 records of the
        blocks, shape (n, 7): the fields of `Record` after the number; the hashes of the documents, uint64, or None).

        It uses no NumPy function, since most of them release the GIL, and may wait for another thread to get it back.

        Raises:
            Exception: that of the first block with an error.

        """
        if self.errors:
            raise self.errors[min(self.errors)]
        ids = self.single_part_ids if self.n_parts == 1 else self.output.take_ids()
        return ids, *self.join_records()

    cdef tuple join_records(self):
        """Join the counts of all blocks to lengths of documents, their records in order, and the hashes."""
        cdef BlockBuffers buffers
        cdef Py_ssize_t n_counts = 0, n_records = 0, n_lengths = 0, n_blocks = 0, i, j, number
        for buffers in self.all_buffers:
            n_counts += buffers.n_counts
            n_records += buffers.n_records
            for i in range(buffers.n_records):
                n_blocks = max(n_blocks, <Py_ssize_t>buffers.records[i].number + 1)
        lengths = np.empty(n_counts, dtype=np.int64)
        hashes = np.empty(n_counts if self.with_hashes else 0, dtype=np.uint64)
        records = np.empty((n_records, RECORD_FIELDS - 1), dtype=np.int64)
        cdef int64_t[::1] length_rows = lengths
        cdef uint64_t[::1] hash_rows = hashes
        cdef int64_t[:, ::1] record_rows = records
        cdef RecordedBlock* blocks = <RecordedBlock*>check_allocated(
            calloc(n_blocks + 1, sizeof(RecordedBlock)), n_blocks + 1, b"blocks"
        )
        for buffers in self.all_buffers:
            j = 0
            for i in range(buffers.n_records):
                blocks[buffers.records[i].number] = RecordedBlock(&buffers.records[i], buffers.counts + j, NULL)
                if self.with_hashes:
                    blocks[buffers.records[i].number].hashes = buffers.hashes + j
                j += buffers.records[i].n
        i = 0
        for number in range(n_blocks):
            if blocks[number].record == NULL:
                continue
            memcpy(&record_rows[i, 0], &blocks[number].record.n, (RECORD_FIELDS - 1) * sizeof(int64_t))
            for j in range(blocks[number].record.n):
                if j == 0 and i and not blocks[number].record.begins_document:
                    length_rows[n_lengths - 1] += blocks[number].counts[j]
                else:
                    length_rows[n_lengths] = blocks[number].counts[j]
                    if self.with_hashes:
                        hash_rows[n_lengths] = blocks[number].hashes[j]
                    n_lengths += 1
            i += 1
        free(blocks)
        return lengths[:n_lengths], records, hashes[:n_lengths] if self.with_hashes else None


cdef int hash_documents(BlockBuffers buffers, FileBlock text) except -1 nogil:
    """Hash the documents of the current block, which is recorded next."""
    cdef uint64_t* hashes = buffers.reserve_hashes(text.n_documents)
    cdef Py_ssize_t i
    for i in range(text.n_documents):
        hashes[i] = hash_content(text.data + text.starts[i], text.sizes[i])
    return 0


cdef int keep_hashes(BlockBuffers buffers, const uint64_t[::1] block_hashes) except -1:
    """Keep the hashes of a block that Python code has read and that is recorded next."""
    cdef uint64_t* hashes = buffers.reserve_hashes(block_hashes.shape[0])
    cdef Py_ssize_t i
    for i in range(block_hashes.shape[0]):
        hashes[i] = block_hashes[i]
    return 0
