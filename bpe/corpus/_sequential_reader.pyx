"""Reading text that only one thread at a time can read: compressed text, and the rows of CSV.

Other threads decompress a text. Which newlines end the rows of CSV, only all the text before says, since they may be in
quotation marks. So the thread that takes a block also reads it, under the lock, and finds the last split point in it;
what is after that begins the next block. Records are read, and all blocks are used, outside the lock:

    one thread at a time    |read block 0, its end|read block 1, its end|
    thread A                                      |use block 0          |read block 2 ...
"""

from bpe.base._memory cimport grow_array
from bpe.base._types cimport byte_t
from bpe.corpus._csv_rows cimport RowDialect
from bpe.corpus._file_reader cimport (
    FILE_INDEX, SAMPLE_BYTES, SPLIT_CONTEXT, UNIT_START, FileBlock, FileReader, count_newlines, end_block,
    end_file, end_read, fail_locked, fill, find_last_line, find_last_t, find_split, input_of, open_next,
    raise_for_change, raise_for_window, read_records, reserve_input, skip_byte_order_mark,
)
from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport errno
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove


cdef class SequentialReader(FileReader):
    """The text of files in blocks that only one thread at a time can read: compressed text, and CSV."""

    def __dealloc__(self):
        free(self.rest)

    def set_texts(self, texts not None):
        """Have Python code read the text, before any block is taken.

        Args:
            texts: `texts.open(unit_index)` opens that of a unit, and returns (fill, count_disk_bytes, offset):
                fill(buffer) returns how many bytes it has written, fewer than fit only at the end, and
                count_disk_bytes(n) how many were read for these n; `texts.finish()` closes it, and `texts.abandon()`
                after an error.

        """
        self.texts = texts

    def set_rows(self, RowDialect dialect not None, read_header, parse_record):
        """Read the files as CSV, before any block is taken; the separator must be a newline that is kept.

        Args:
            dialect: how rows are written.
            read_header: called as read_header(text, index of the unit) with the first rows of a unit; returns (the
                bytes of the header in it, the index of the column with the text, the number of columns).
            parse_record: as for `set_field`, called for rows.

        """
        self.dialect, self.read_header, self.parse_record, self.has_records = dialect, read_header, parse_record, True

    @property
    def resume_position(self):
        """As that of `FileReader`; the unit's start while there were only blank lines, before a header of rows."""
        from bpe.corpus.blocks import Position

        if self.dialect is not None and self.is_open and self.n_columns == 0:
            return Position(self.units[self.unit_index, FILE_INDEX], self.units[self.unit_index, UNIT_START])
        return FileReader.resume_position.__get__(self)

    def abandon_text(self):
        """Close the text that is open after an error, when no thread reads it."""
        if self.texts is None:
            return
        with nogil:
            with self.lock:
                with gil:
                    self.texts.abandon()

    def read_block(self, buffers not None):
        """Read the next block of records, whose text is in a buffer of the pool, as a `Block`; None at the end."""
        cdef FileBlock block = FileBlock()
        cdef bint has_block
        block.buffers = buffers
        with nogil:
            has_block = self.take_block(block, find_last_line, NULL)
        return block.make_block() if has_block else None

    cdef int give_out_next(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil:
        """Read the next block, while holding the lock."""
        cdef bint at_end
        if not self.is_open:
            open_in_order(self)
        at_end = read_in_order(self, block, find_last_line if self.has_records else find_last, context)
        block.file, block.unit_index, block.index = self.file, self.unit_index, self.n_blocks
        block.offset, block.begins_document = self.offset, self.begins_document
        block.n_lines_before = -1 if self.texts is None else self.n_lines
        self.offset += block.n
        if self.texts is not None and self.has_records:
            self.n_lines += count_newlines(block.lines, block.n)
        if self.dialect is not None and self.n_columns == 0:  # blank lines may fill blocks before the header
            with gil:
                take_header(self, block)
        block.column, block.n_columns = self.column, self.n_columns
        if at_end:
            end_in_order(self, block)
        else:
            if self.file != NULL:
                self.file.n_unread += 1
            end_block(self, block, input_of(self, block) + block.n, block.n)
        self.n_blocks += 1
        return 0

    cdef int read(self, FileBlock block) except -1 nogil:
        """Check a block that `give_out` has read, and read its records; its file is closed if it is the last one."""
        cdef Py_ssize_t old_size = 0, new_size = 0
        if self.texts is None:
            old_size = new_size = block.file.size
            if end_read(self, block, block.file, &new_size):
                with gil:
                    raise_for_change(self, block, old_size, new_size)
        if self.has_records:
            read_records(self, block)
        return 0


cdef int open_in_order(SequentialReader reader) except -1 nogil:
    """Open the file or text of the next unit, while holding the lock."""
    reader.n_rest = reader.n_lines = reader.n_columns = 0
    if reader.texts is None:
        open_next(reader)
    else:
        with gil:
            open_text(reader)
    reader.is_open = True
    return 0


cdef bint read_in_order(
    SequentialReader reader, FileBlock block, find_last_t find_last, void* context
) except -1 nogil:
    """Read the next block, up to the last split point in it, while holding the lock; whether it is the unit's last.

    A block without a split point grows by an eighth, so that the cost stays linear. Where more follows, the block ends
    before the last byte that was read, so that no block is empty.
    """
    cdef Py_ssize_t n = reader.n_rest, size = max(reader.block_bytes, n + n // 8 + 1), searched_to = 0, end = 0
    cdef byte_t* text
    cdef bint at_end = False
    block.disk_bytes = 0
    while True:
        if reader.texts is None:
            size = min(size, reader.file.end - reader.offset)
        text = reserve_input(reader, block, max(size, 1))
        if block.disk_bytes == 0 and reader.n_rest:
            memcpy(text, reader.rest, reader.n_rest)
        n += read_more(reader, block, text + n, size - n, reader.offset + n)
        at_end = n < size if reader.texts is not None else n == reader.file.end - reader.offset
        if at_end:
            end = n
            break
        end = find_end_in_order(reader, text, searched_to, n - 1, find_last, context)
        if end > 0:
            break
        searched_to, size = n - 1, n + max(n // 8, reader.block_bytes)
    reader.n_rest = n - end
    reader.rest = <byte_t*>grow_array(reader.rest, &reader.rest_capacity, reader.n_rest, 1)
    memcpy(reader.rest, text + end, reader.n_rest)
    block.n = end
    return at_end


cdef Py_ssize_t read_more(
    SequentialReader reader, FileBlock block, byte_t* out, Py_ssize_t n, Py_ssize_t offset
) except -1 nogil:
    """Read `n` bytes, or fewer only at the end of a text; returns their number."""
    cdef Py_ssize_t n_read
    cdef int code
    if reader.texts is not None:
        with gil:
            return fill_from_text(reader, block, out, n)
    n_read = fill(reader.file, out, n, offset)
    code = errno
    if n_read < n:
        with gil:
            raise_for_window(reader, code, offset + n_read)
    block.disk_bytes += n_read
    return n_read


cdef Py_ssize_t find_end_in_order(
    SequentialReader reader, const byte_t* text, Py_ssize_t searched_to, Py_ssize_t n, find_last_t find_last,
    void* context,
) except -1 nogil:
    """Find the last position in `text[:n]` where a block may end; 0 if there is none."""
    cdef Py_ssize_t low, start, longest = max(reader.unsplittable_finder.longest, <Py_ssize_t>1)
    if reader.dialect is None:
        low = searched_to - longest - SPLIT_CONTEXT
        return find_split(reader, text, max(low, <Py_ssize_t>0), n, find_last, context)
    start = skip_byte_order_mark(text, n, reader.offset)
    low = reader.dialect.find_last_row(text, start, n)
    return low if low > start else 0


cdef int end_in_order(SequentialReader reader, FileBlock block) except -1 nogil:
    """Give out the last block of a unit, while holding the lock."""
    reader.is_open = False
    if reader.texts is not None:
        with gil:
            finish_text(reader)
    end_file(reader, block)
    return 0


# What needs the GIL, while the lock is held.

cdef int open_text(SequentialReader reader) except -1:
    try:
        reader.fill_text, reader.count_disk_bytes, reader.offset = reader.texts.open(reader.unit_index)
    except BaseException as error:
        fail_locked(reader, error)
    reader.begins_document = True
    return 0


cdef Py_ssize_t fill_from_text(SequentialReader reader, FileBlock block, byte_t* out, Py_ssize_t n) except -1:
    """Have Python code write at most `n` bytes; returns their number."""
    cdef Py_ssize_t n_read = 0
    try:
        n_read = reader.fill_text(PyMemoryView_FromMemory(<char*>out, n, PyBUF_WRITE))
        if not 0 <= n_read <= n:
            raise ValueError(f"{n_read} bytes were read into a buffer of {n}")
        block.disk_bytes += <Py_ssize_t>reader.count_disk_bytes(n_read)
    except BaseException as error:
        fail_locked(reader, error)
    return n_read


cdef int finish_text(SequentialReader reader) except -1:
    try:
        reader.texts.finish()
    except BaseException as error:
        fail_locked(reader, error)
    return 0


cdef int take_header(SequentialReader reader, FileBlock block) except -1:
    """Take the header, or blank lines before it, from a block, and check the first bytes of a plain file."""
    cdef Py_ssize_t n_header = 0
    cdef bytes rows = block.lines[: block.n]
    try:
        if reader.check_first_bytes is not None and reader.texts is None and block.offset == 0:
            reader.check_first_bytes(rows[:SAMPLE_BYTES], reader.names[reader.unit_index])
        n_header, reader.column, reader.n_columns = reader.read_header(rows, reader.unit_index)
        if not 0 <= n_header <= block.n:
            raise ValueError(f"the header has {n_header} of {block.n} bytes")
    except BaseException as error:
        fail_locked(reader, error)
    if block.n_lines_before >= 0:
        block.n_lines_before += count_newlines(block.lines, n_header)
    block.n -= n_header
    block.offset += n_header
    memmove(block.lines, block.lines + n_header, block.n)
    return 0
