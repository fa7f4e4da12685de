"""Reading text files in small blocks without the GIL.

A block of 256 KB, unless the caller wants larger ones, and its ids stay in a core's cache of 1 MB, and no Python code
runs for a block, which would take as long as its scanner. Blocks end at safe split points, as those of `reading.py`,
which handles everything else: pipes, compressed files, replacements, other places to cut.

Threads share a reader of several files. What a block's bounds depend on is done by one thread at a time: it opens the
next file, reads a few KB before the block's end, and looks for the last split point there. The block is then read and
used by the thread that has taken it, while others take the next ones:

    one thread at a time    |block 0, its end|block 1, its end|block 2, its end|
    thread A                                 |read and use block 0              |block 3 ...
    thread B                                                  |read and use block 1 ...

A file that was listed with no more bytes than a block is one block. The thread that takes it also opens and closes it,
so that nothing is done one thread at a time for many small files but to number them.

Blocks of JSON Lines are whole lines, which the thread that has read them replaces by the texts of the records. Those of
CSV are whole rows, which a `SequentialReader` reads (`_sequential_reader.pyx`).

A file is closed when all its blocks were read; it is an error if it has been changed by then. After an error no more
blocks are given out, and files are closed as soon as no thread reads them. Errors have the number of their block
(`block_of_reader`), since which thread's is the first depends on chance.
"""

import os

import numpy as np

from bpe.base._aho_corasick cimport Finder
from bpe.base._atomic cimport load, store
from bpe.base._json cimport JsonReader, next_byte
from bpe.base._memory cimport check_allocated, check_lock, grow_array
from bpe.base._system cimport close_descriptor, get_file_state, open_file, read_bytes_at, set_errno
from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport is_utf8
from bpe.corpus._csv_rows cimport EMPTY_ROW, RowCursor, open_rows
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset, strlen

cdef extern from "Python.h":
    object PyUnicode_EncodeFSDefault(str name)             # as `os.fsencode`, which takes ten times as long

cdef enum:
    WINDOW_BYTES = 4096       # before a block's end that are searched for a split point first
    SIGNATURE_BYTES = 16      # that are checked without Python code
    RECORD_PADDING = 8        # bytes after the texts of records that may be written

cdef const char* UTF8_BOM = b"\xef\xbb\xbf"

#: The number of bytes that a `FileReader` reads at once: a block, its ids and tables fit a cache of 1 MB.
KERNEL_READ_BYTES = 1 << 18


cdef class FileBlock:
    """A thread's buffer for one block after the other."""

    def __dealloc__(self):
        free(self.lines)
        free(self.starts)
        free(self.sizes)
        free(self.matches.rows)

    cdef int reserve(self, Py_ssize_t size, Py_ssize_t kept) except -1 nogil:
        """Grow the buffer to `size` bytes; its first `kept` bytes stay."""
        if size > self.capacity:
            with gil:
                replace_buffer(self, size + size // 8, kept)
        return 0

    cdef int split(self, FileReader reader) except -1 nogil:
        """Find the documents: between separators; with `keep_separator` each separator ends one, and none is empty."""
        cdef bint keep_separator = reader.keep_separator
        cdef Py_ssize_t start = 0, i
        if reader.has_records:                             # `read` has found them
            return 0
        self.n_documents = self.n_bad_records = 0
        self.matches.n = 0
        if reader.separator_finder is not None:
            reader.separator_finder.find_leftmost_longest(self.data, 0, self.n, &self.matches)
        for i in range(self.matches.n):
            self.add_document(start, self.matches.rows[i].end if keep_separator else self.matches.rows[i].start)
            start = self.matches.rows[i].end
        if start < self.n or not (keep_separator or self.drops_trailing):
            self.add_document(start, self.n)
        if reader.count_invalid is not None and not is_utf8(self.data, self.n):
            drop_invalid_documents(reader, self)
        return 0

    cdef int add_document(self, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
        cdef Py_ssize_t n = self.n_documents
        self.starts = <int64_t*>grow_array(self.starts, &self.starts_capacity, n + 1, sizeof(int64_t))
        self.sizes = <int64_t*>grow_array(self.sizes, &self.sizes_capacity, n + 1, sizeof(int64_t))
        self.starts[n], self.sizes[n] = start, end - start
        self.n_documents += 1
        return 0

    def get_documents(self):
        """Return the text, valid until the next block is read, and the starts and ends that `split` has found."""
        if self.n_documents == 0:
            return memoryview(self.buffer)[: self.n], np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        starts = np.array(<int64_t[: self.n_documents]>self.starts)
        return memoryview(self.buffer)[: self.n], starts, starts + <int64_t[: self.n_documents]>self.sizes

    def make_block(self):
        """Make a `Block` of what `split` has found; its text must not be used after the next block was read."""
        from bpe.corpus.blocks import Block

        cdef FileReader reader = self.reader
        if reader is None:
            raise ValueError("the block was not read by a FileReader")
        text, starts, ends = self.get_documents()
        return Block(
            text, starts, ends, self.source, self.offset, keep_separator=reader.keep_separator,
            disk_bytes=self.disk_bytes, begins_document=self.begins_document, ends_document=self.ends_document,
            must_be_utf8=reader.requires_utf8, buffers=self.buffers,
            file_index=reader.units[self.unit_index, FILE_INDEX], resume_offset=self.offset,
        )

    @property
    def source(self):
        """The name of the block's file, for errors."""
        if self.reader is None:
            raise ValueError("the block was not read by a FileReader")
        return self.reader.names[self.unit_index]


cdef class FileReader:
    """The text of regular files in blocks, for several threads.

    Args:
        names: the files, at least one.
        units: int64, what is read of each, in the columns that `_file_reader.pxd` lists.
        separators, keep_separator: as for `Block`.
        strings: what must not be cut: separators and special tokens.
        requires_utf8: whether the text must be UTF-8.
        separator_ends: whether a separator at the end of a file starts no empty document; it never does at the end of
            a unit that the file goes on after.
        block_bytes: bytes to read at once.
        check_first_bytes: called as check(first_bytes, name) for a file that may not be text, before its first block
            is used; None for no check.
        note_stamp: called as note(name, (size, modified)) when a file is opened; None if no file is opened twice.

    """

    def __cinit__(
        self, list names not None, const int64_t[:, ::1] units not None, list separators, bint keep_separator,
        list strings, bint requires_utf8, bint separator_ends=False, Py_ssize_t block_bytes=KERNEL_READ_BYTES,
        check_first_bytes=None, note_stamp=None,
    ):
        from bpe.corpus import reading
        from bpe.corpus.blocks import can_overlap_itself

        cdef Py_ssize_t i
        check_lock(&self.lock)
        self.names, self.units, self.n_units = list(names), units, len(names)
        if units.shape[0] != self.n_units or units.shape[1] != UNIT_COLUMNS:
            raise ValueError(
                f"there are {self.n_units} names, and {units.shape[0]} units of {units.shape[1]} numbers; give one of "
                f"{UNIT_COLUMNS} for each file"
            )
        self.block_bytes = min(reading.MAX_READ, block_bytes)  # MAX_READ is less in tests
        self.separators, self.keep_separator, self.requires_utf8 = list(separators), keep_separator, requires_utf8
        self.separator_finder = Finder(separators) if separators else None
        self.separator_ends = separator_ends
        self.overlaps_itself = any(map(can_overlap_itself, separators))
        self.unsplittable_finder = Finder(strings)
        if separators:
            self.separator_bytes = separators[0]
            self.separator = self.separator_bytes
        self.check_first_bytes, self.note_stamp = check_first_bytes, note_stamp
        self.encoded_names = []
        for name in self.names:
            self.encoded_names.append(PyUnicode_EncodeFSDefault(name))
        self.paths = <const char**>check_allocated(malloc((self.n_units + 1) * sizeof(char*)), self.n_units, b"paths")
        for i in range(self.n_units):
            self.paths[i] = self.encoded_names[i]
        self.begins_document, self.finished_flag = True, self.n_units == 0
        self.offset = units[0, UNIT_START] if self.n_units else 0

    def __dealloc__(self):
        cdef OpenFile* file
        while self.open_files != NULL:
            file, self.open_files = self.open_files, self.open_files.next
            close_descriptor(file.descriptor)
            free(file)
        free(self.paths)
        free(self.window)
        free(self.matches.rows)

    def keep_documents_whole(self):
        """End blocks where documents end, before any block is taken."""
        self.whole_documents = True

    def drop_invalid(self, count_invalid not None):
        """Leave out documents that are not UTF-8, before any block is taken; blocks must end where documents do.

        Args:
            count_invalid: called as count(n) for n documents that were left out.

        """
        self.keep_documents_whole()
        self.count_invalid = count_invalid

    def set_field(self, FieldPath field not None, parse_record):
        """Read the files as JSON Lines, before any block is taken; the separator must be a newline that is kept.

        Args:
            field: what holds the text.
            parse_record: called as parse(line, index of the unit, position, index of the line) for a line that the
                kernel cannot read; lines are counted from a position in the file. Returns the text, which is not
                longer, or None for a line to leave out.

        """
        self.field, self.parse_record, self.has_records = field, parse_record, True

    def close(self):
        """Give out no more blocks, and close each file once no thread reads it.

        Other threads may read: an exception of a signal handler can end the generator that the reader came from.
        """
        with nogil:
            with self.lock:
                store(&self.finished_flag, 1)
                close_unused(self)

    @property
    def is_finished(self):
        """Whether all blocks were given out, or an error has ended that."""
        return bool(load(&self.finished_flag))

    @property
    def resume_position(self):
        """The `Position` where the next block begins, while no thread reads."""
        from bpe.corpus.blocks import Position

        return Position(
            self.units[self.unit_index, FILE_INDEX] if self.unit_index < self.n_units
            else self.units[self.n_units - 1, FILE_INDEX] + 1, self.offset
        )

    cdef int attach(self, FileBlock block) except -1:
        """Prepare a thread's block while it has the GIL, so that it need not wait for that later."""
        block.reader = self
        return block.reserve(self.block_bytes + RECORD_PADDING, 0)

    cdef bint take_block(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil:
        """Read the next block, from any number of threads, and check it; False if there is none.

        Raises:
            FormatError: for a file that is not text; for a block that must be UTF-8 and is not.
            OSError: for a file that cannot be read, got shorter or was changed.

        """
        if not self.give_out(block, find_last, context):
            return False
        self.read(block)
        if self.requires_utf8 and not is_utf8(block.data, block.n):
            with gil:
                raise_for_text(self, block)
        return True

    cdef bint give_out(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil:
        """Give out the next block, which is to be `read`; False if there is none."""
        cdef bint is_given_out = False
        with self.lock:
            if load(&self.finished_flag):
                return False
            try:
                self.give_out_next(block, find_last, context)
                is_given_out = True
            finally:
                if not is_given_out:                       # what is known of the file may be half changed
                    store(&self.finished_flag, 1)
        if <void*>block.reader != <void*>self:             # else no GIL is needed
            with gil:
                block.reader = self
        return True

    cdef int give_out_next(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil:
        """Find the end of the next block, while holding the lock."""
        cdef Py_ssize_t end = measure_small(self)
        if self.file == NULL and end < 0:
            open_next(self)
        if self.file != NULL:
            end = find_block_end(self, find_last_line if self.has_records else find_last, context)
        block.file, block.unit_index, block.index = self.file, self.unit_index, self.n_blocks
        block.n = block.disk_bytes = end - self.offset
        block.n_lines_before = -1
        block.offset, block.begins_document = self.offset, self.begins_document
        self.n_blocks += 1
        if self.file == NULL or end == self.file.end:
            end_file(self, block)
        else:
            self.file.n_unread += 1
            end_block(self, block, self.window + end - self.window_start, end - self.window_start)
            self.offset = end
        return 0

    cdef int read(self, FileBlock block) except -1 nogil:
        """Read a block that `give_out` has given out; its file is closed if it is the last one.

        A file that is one block is opened first. It may have another size by then.

        Raises:
            FormatError: for the first block of a file that is not text; for a bad record.
            OSError: for a file that cannot be read, got shorter or was changed.

        """
        cdef OpenFile small_file
        cdef OpenFile* file = block.file
        cdef byte_t* text = NULL
        cdef Py_ssize_t n_read, old_size, new_size
        cdef int code
        if file == NULL:
            file = &small_file
            open_small(self, block, file)
        old_size = new_size = file.size
        try:
            text = reserve_input(self, block, max(block.n, self.block_bytes))
        finally:
            if text == NULL:
                leave_unread(self, block, file)
        n_read = fill(file, text, block.n, block.offset)
        code = errno
        if n_read < block.n:
            with gil:
                raise_for_read(self, block, file, code, block.offset + n_read)
        if block.offset == 0 and self.check_first_bytes is not None and needs_check(self, text, block.n):
            with gil:
                check_beginning(self, block, file)
        if end_read(self, block, file, &new_size):
            with gil:
                raise_for_change(self, block, old_size, new_size)
        if self.has_records:
            read_records(self, block)
        return 0


# What needs the GIL. A function without it that had Python variables would take it each time it returned.

cdef int replace_buffer(FileBlock block, Py_ssize_t size, Py_ssize_t kept) except -1:
    """Give a block a buffer of `size` bytes, which begins with the first `kept` bytes of the old one."""
    larger = bytearray(size) if block.buffers is None else block.buffers.take(size)
    if kept:
        memcpy(<byte_t*>larger, block.data, kept)
    block.buffer = larger
    block.data, block.capacity = <byte_t*>larger, len(larger)
    return 0


cdef int fail(FileReader reader, FileBlock block, OpenFile* unread_file, error) except -1:
    """Raise the error of a block, whose file it leaves unread, or NULL, and stop the reader."""
    if unread_file != NULL and block.file == NULL:
        close_descriptor(unread_file.descriptor)
    error.block_of_reader = id(reader), block.index
    with nogil:
        with reader.lock:
            store(&reader.finished_flag, 1)
            if block.file != NULL and unread_file != NULL:
                unread_file.n_unread -= 1
            close_unused(reader)
    raise error


cdef int raise_for_text(FileReader reader, FileBlock block) except -1:
    """Raise FormatError for a block that is not UTF-8."""
    from bpe.corpus import reading

    try:
        reading.check_file_text(memoryview(block.buffer)[: block.n], block.source, block.offset)
    except Exception as error:
        fail(reader, block, NULL, error)
    return 0


cdef int drop_invalid_documents(FileReader reader, FileBlock block) except -1 nogil:
    """Leave out the documents of a block that are not UTF-8, and count them."""
    cdef Py_ssize_t i, n = 0
    for i in range(block.n_documents):
        if is_utf8(block.data + block.starts[i], block.sizes[i]):
            block.starts[n], block.sizes[n] = block.starts[i], block.sizes[i]
            n += 1
    block.n_bad_records, block.n_documents = block.n_documents - n, n
    with gil:
        reader.count_invalid(block.n_bad_records)
    return 0


cdef int check_beginning(FileReader reader, FileBlock block, OpenFile* file) except -1:
    """Raise FormatError for the first block of a file that is not text."""
    cdef byte_t[SAMPLE_BYTES] first_bytes
    cdef Py_ssize_t n = fill(file, first_bytes, SAMPLE_BYTES, 0)   # `os.pread` would release the GIL
    try:
        reader.check_first_bytes(first_bytes[:n], block.source)
    except BaseException as error:
        fail(reader, block, file, error)
    return 0


cdef int note_next_stamp(FileReader reader, OpenFile* file) except -1:
    """Note the size and time of the file that the next block is from, while holding the lock."""
    try:
        reader.note_stamp(reader.names[file.unit_index], (file.size, file.modified))
    except BaseException as error:
        fail_locked(reader, error)
    return 0


cdef int note_small_stamp(FileReader reader, FileBlock block, OpenFile* file) except -1:
    """Note the size and time of a file that is one block."""
    try:
        reader.note_stamp(block.source, (file.size, file.modified))
    except BaseException as error:
        fail(reader, block, file, error)
    return 0


cdef int raise_for_change(FileReader reader, FileBlock block, Py_ssize_t old_size, Py_ssize_t new_size) except -1:
    """Raise OSError for a file that was changed since it was opened, or got shorter."""
    from bpe.corpus import reading

    if new_size < old_size:
        return fail(reader, block, NULL, reading.make_shorter_error(block.source, old_size, new_size))
    return fail(reader, block, NULL, reading.make_changed_error(block.source))


cdef int raise_for_read(FileReader reader, FileBlock block, OpenFile* file, int code, Py_ssize_t end) except -1:
    """Raise OSError for a block that cannot be read, or, where the code is 0, for a file that ends early."""
    return fail(reader, block, file, make_read_error(reader, file, code, end))


cdef object make_read_error(FileReader reader, OpenFile* file, int code, Py_ssize_t end):
    """Make the OSError for a file that cannot be read, or, where the code is 0, ends early."""
    from bpe.corpus import reading

    name = reader.names[file.unit_index]
    return OSError(code, os.strerror(code), name) if code else reading.make_shorter_error(name, file.size, end)


cdef int raise_for_window(FileReader reader, int code, Py_ssize_t end) except -1:
    """Raise OSError for the current file, which cannot be read or ends early, while holding the lock."""
    return fail_locked(reader, make_read_error(reader, reader.file, code, end))


cdef int raise_for_open(FileReader reader, int code) except -1:
    """Raise OSError for the next file, which cannot be opened, while holding the lock."""
    return fail_locked(reader, OSError(code, os.strerror(code), reader.names[reader.unit_index]))


cdef int raise_for_small(FileReader reader, FileBlock block, int code) except -1:
    """Raise OSError for a file that is one block and cannot be opened."""
    return fail(reader, block, NULL, OSError(code, os.strerror(code), block.source))


cdef int fail_locked(FileReader reader, error) except -1:
    """Raise the error of the next block, and stop the reader, while holding the lock."""
    error.block_of_reader = id(reader), reader.n_blocks
    store(&reader.finished_flag, 1)
    close_unused(reader)
    raise error


def may_begin_otherwise(const byte_t[::1] text not None):
    """Whether a file that begins so may hold something else than text, which `contents.py` decides."""
    return text.shape[0] > 0 and classify_beginning(&text[0], text.shape[0]) != IS_TEXT


cdef Beginning classify_beginning(const byte_t* text, Py_ssize_t n) noexcept nogil:
    """Tell what a file's first bytes may be; that they are text is certain.

    All signatures have a control character, bytes that are not UTF-8, or one of a few beginnings.
    """
    cdef Py_ssize_t n_checked = min(n, <Py_ssize_t>SIGNATURE_BYTES), i
    for i in range(n_checked):
        if (text[i] < 32 and not 9 <= text[i] <= 13) or text[i] == 127:
            return MAY_BE_OTHER
    if begins_with(text, n, UTF8_BOM) or begins_with(text, n, b"%PDF") or begins_with(text, n, b"BZh"):
        return MAY_BE_OTHER
    if begins_with(text, n, b"{\\rtf"):
        return MAY_BE_OTHER
    if begins_with(text, n, b"RIFF") or begins_with(text, n, b"q\xc7"):
        return MAY_BE_OTHER
    if not is_utf8(text, n if n < SIGNATURE_BYTES else measure_whole_characters(text, SIGNATURE_BYTES)):
        return MAY_BE_OTHER
    return MAY_BE_JSON if may_begin_record(text, min(n, <Py_ssize_t>SAMPLE_BYTES)) else IS_TEXT


cdef bint needs_check(FileReader reader, const byte_t* text, Py_ssize_t n) noexcept nogil:
    """Whether Python code has to check a file that begins so; records of JSON may begin as they do."""
    cdef Beginning beginning = classify_beginning(text, n)
    return beginning == MAY_BE_OTHER or (beginning == MAY_BE_JSON and not reader.has_records)


cdef bint may_begin_record(const byte_t* text, Py_ssize_t n) noexcept nogil:
    """Whether a text may begin with a JSON object that has a key, or an array of them, of which `n` bytes are there."""
    cdef Py_ssize_t i = skip_white_space(text, n, 0)
    if i < n and text[i] == c"[":
        i = skip_white_space(text, n, i + 1)
    if i < n and text[i] != c"{":
        return False
    i = skip_white_space(text, n, i + 1)
    return n > 0 and (i >= n or text[i] == c'"')


cdef inline Py_ssize_t skip_white_space(const byte_t* text, Py_ssize_t n, Py_ssize_t start) noexcept nogil:
    while start < n and (text[start] == c" " or 9 <= text[start] <= 13):
        start += 1
    return start


cdef inline bint begins_with(const byte_t* text, Py_ssize_t n, const char* prefix) noexcept nogil:
    return n >= <Py_ssize_t>strlen(prefix) and memcmp(text, prefix, strlen(prefix)) == 0


cdef Py_ssize_t measure_whole_characters(const byte_t* text, Py_ssize_t n) noexcept nogil:
    """Measure the bytes of the characters that end within the first n bytes of UTF-8."""
    cdef Py_ssize_t last = n - 1
    while last > 0 and n - last < 4 and text[last] & 0xC0 == 0x80:
        last -= 1
    return last if text[last] >= 0xC0 else n


cdef int open_next(FileReader reader) except -1 nogil:
    """Open the file that the next block is from."""
    cdef OpenFile* file = <OpenFile*>check_allocated(calloc(1, sizeof(OpenFile)), 1, b"open file")
    cdef int code
    file.unit_index = reader.unit_index
    file.descriptor = open_file(reader.paths[file.unit_index], &file.size, &file.modified)
    if file.descriptor < 0:
        code = errno
        free(file)
        with gil:
            return raise_for_open(reader, code)
    file.next, reader.open_files, reader.file = reader.open_files, file, file
    reader.begins_document = True
    file.end = reader.units[file.unit_index, UNIT_END]
    if max(file.end, reader.offset) > file.size:
        with gil:
            raise_for_window(reader, 0, file.size)
    if file.end < 0:
        file.end = file.size
    if reader.note_stamp is not None:
        with gil:
            note_next_stamp(reader, file)
    return 0


cdef int open_small(FileReader reader, FileBlock block, OpenFile* file) except -1 nogil:
    """Open a file that is one block, as large as the file is now."""
    cdef int code
    memset(file, 0, sizeof(OpenFile))
    file.unit_index = block.unit_index
    file.descriptor = open_file(reader.paths[file.unit_index], &file.size, &file.modified)
    if file.descriptor < 0:
        code = errno
        with gil:
            return raise_for_small(reader, block, code)
    block.n = block.disk_bytes = file.size
    if reader.note_stamp is not None:
        with gil:
            note_small_stamp(reader, block, file)
    return 0


cdef void end_file(FileReader reader, FileBlock block) noexcept nogil:
    """Give out the last block of a file, while holding the lock."""
    if reader.file != NULL:
        reader.file.n_unread += 1
        reader.file.is_given_out = True
    cdef bint is_part = reader.units[reader.unit_index, UNIT_END] >= 0
    block.drops_trailing = reader.separator_finder is not None and (reader.separator_ends or is_part)
    reader.begins_document = block.ends_document = True
    reader.file = NULL
    reader.unit_index += 1
    reader.offset = reader.units[reader.unit_index, UNIT_START] if reader.unit_index < reader.n_units else 0
    store(&reader.finished_flag, reader.unit_index == reader.n_units)


cdef bint end_read(FileReader reader, FileBlock block, OpenFile* file, Py_ssize_t* size) noexcept nogil:
    """Note that a block was read, and close the file after its last one.

    Returns whether the file was changed by then, and gives its `size`.
    """
    cdef bint is_changed = False
    if block.file == NULL:
        is_changed = has_changed(file, size)
        close_descriptor(file.descriptor)
        return is_changed
    with reader.lock:
        file.n_unread -= 1
        if file.n_unread == 0 and (file.is_given_out or load(&reader.finished_flag)):
            is_changed = file.is_given_out and has_changed(file, size)
            close_file(reader, file)
    return is_changed


cdef void leave_unread(FileReader reader, FileBlock block, OpenFile* file) noexcept nogil:
    """Note that a block will not be read, for want of memory."""
    if block.file == NULL:
        close_descriptor(file.descriptor)
        return
    with reader.lock:
        file.n_unread -= 1


cdef bint has_changed(const OpenFile* file, Py_ssize_t* size) noexcept nogil:
    """Whether a file has another size, which is given, or time than when it was opened."""
    cdef int64_t modified = 0
    return get_file_state(file.descriptor, size, &modified) < 0 or size[0] != file.size or modified != file.modified


cdef void close_file(FileReader reader, OpenFile* file) noexcept nogil:
    """Close a file that no thread reads, while holding the lock."""
    cdef OpenFile** link = &reader.open_files
    while link[0] != file:
        link = &link[0].next
    link[0] = file.next
    if reader.file == file:
        reader.file = NULL
    close_descriptor(file.descriptor)
    free(file)


cdef void close_unused(FileReader reader) noexcept nogil:
    """Close the files that no thread reads, after an error and while holding the lock."""
    cdef OpenFile* file = reader.open_files
    cdef OpenFile* next_file
    while file != NULL:
        next_file = file.next
        if file.n_unread == 0:
            close_file(reader, file)
        file = next_file


cdef Py_ssize_t measure_small(FileReader reader) noexcept nogil:
    """Measure the next file, if it was listed as small and is read as a whole, so that it is one block; else -1."""
    cdef const int64_t* unit = &reader.units[reader.unit_index, 0]
    cdef bint is_small = unit[UNIT_START] == 0 and unit[UNIT_END] < 0 and unit[LISTED_SIZE] <= reader.block_bytes
    return unit[LISTED_SIZE] if is_small else -1


cdef byte_t* reserve_input(FileReader reader, FileBlock block, Py_ssize_t size) except NULL nogil:
    """Have room for what is read of a file, `size` bytes; what was there stays."""
    if reader.has_records:
        block.lines = <byte_t*>grow_array(block.lines, &block.lines_capacity, size, 1)
        return block.lines
    block.reserve(size, min(block.capacity, size))
    return block.data


cdef void end_block(FileReader reader, FileBlock block, const byte_t* end, Py_ssize_t n) noexcept nogil:
    """Say whether a document ends at the end of a block that is not the file's last, with `n` bytes before it."""
    cdef bint ends = reader.whole_documents or reader.has_records or ends_with_separator(reader, end, n)
    block.drops_trailing = reader.whole_documents
    reader.begins_document = block.ends_document = ends


cdef Py_ssize_t find_block_end(FileReader reader, find_last_t find_last, void* context) except -1 nogil:
    """Find where the next block ends: at the last split point before `block_bytes` bytes, or else before twice as many.

    The text before that is read in windows that get larger, so the cost is linear in the distance.
    """
    cdef Py_ssize_t start = reader.offset, size = reader.file.end, end = start + reader.block_bytes
    cdef Py_ssize_t searched_to = start
    cdef Py_ssize_t longest = max(reader.unsplittable_finder.longest, <Py_ssize_t>1), low, n, split, min_split
    if reader.whole_documents and reader.separator_finder is None:
        return size
    while end < size:
        n, low = max(min(<Py_ssize_t>WINDOW_BYTES, reader.block_bytes // 4), <Py_ssize_t>1), end  # less in tests
        if reader.whole_documents and reader.overlaps_itself:
            n = end - start
        while low > searched_to:
            low = max(start, end - n)
            read_window(reader, low, end)
            min_split = 0 if low == start else max(<Py_ssize_t>SPLIT_CONTEXT, longest)
            split = find_split(reader, reader.window, min_split, end - low, find_last, context)
            if split > min_split:
                return low + split
            n *= 4
        searched_to = max(start, end - longest - 3)        # the text may end within a string or a character
        end += max(reader.block_bytes, end - start)
    return size


cdef int read_window(FileReader reader, Py_ssize_t low, Py_ssize_t end) except -1 nogil:
    """Read the text from `low` to `end` of the current file to the window."""
    cdef Py_ssize_t n_read
    cdef int code
    reader.window = <byte_t*>grow_array(reader.window, &reader.window_capacity, end - low, 1)
    n_read = fill(reader.file, reader.window, end - low, low)
    code = errno
    if n_read < end - low:
        with gil:
            raise_for_window(reader, code, low + n_read)
    reader.window_start = low
    return 0


cdef bint ends_with_separator(FileReader reader, const byte_t* end, Py_ssize_t n) noexcept nogil:
    """Whether the text up to `end`, of which `n` bytes are there, ends with a separator that is kept."""
    cdef Py_ssize_t size
    if not reader.keep_separator or reader.separator_finder is None:
        return False
    size = reader.separator_finder.longest
    return size <= n and memcmp(end - size, reader.separator, size) == 0


cdef Py_ssize_t fill(OpenFile* file, byte_t* out, Py_ssize_t size, Py_ssize_t offset) noexcept nogil:
    """Read `size` bytes of a file from an offset on; returns their number, and `errno` says why they are fewer."""
    cdef Py_ssize_t n_filled = 0, n_new
    while n_filled < size:
        n_new = read_bytes_at(file.descriptor, out + n_filled, size - n_filled, offset + n_filled)
        if n_new == 0:
            set_errno(0)                                   # the file ends
            return n_filled
        if n_new > 0:
            n_filled += n_new
        elif errno != EINTR:
            return n_filled
    return n_filled


cdef Py_ssize_t find_split(
    FileReader reader, const byte_t* text, Py_ssize_t low, Py_ssize_t end, find_last_t find_last, void* context
) except -1 nogil:
    """Find the last position after `low` where `text[:end]` may be cut; 0 if there is none (`make_safe_end_finder`)."""
    cdef Py_ssize_t limit = end - max(reader.unsplittable_finder.longest, <Py_ssize_t>1) + 1
    if reader.whole_documents:
        return 0 if reader.separator_finder is None else find_last_document(reader, text, low, end)
    while limit > low:
        limit = find_last(context, text, low, limit)
        if limit <= low:
            return 0
        if not reader.unsplittable_finder.crosses_in(text, limit, end):
            return limit
    return 0


cdef Py_ssize_t find_last_document(
    FileReader reader, const byte_t* text, Py_ssize_t low, Py_ssize_t end
) except -1 nogil:
    """Find the last end of a separator in `text[low:end]`, which begins a document if separators overlap; 0 if none."""
    cdef Py_ssize_t start
    if not reader.overlaps_itself:
        start = reader.separator_finder.find_last_in(text, low, end)
        return 0 if start < 0 else start + reader.separator_finder.longest
    reader.matches.n = 0
    reader.separator_finder.find_leftmost_longest(text, 0, end, &reader.matches)
    return reader.matches.rows[reader.matches.n - 1].end if reader.matches.n else 0


# Records --------------------------------------------------------------------------------------------------------------


cdef Py_ssize_t find_last_line(void* context, const byte_t* text, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    """Find the last start of a line after `start`, or at `end`; `start` if there is none."""
    while end > start and text[end - 1] != c"\n":
        end -= 1
    return end


cdef Py_ssize_t skip_byte_order_mark(const byte_t* text, Py_ssize_t n, Py_ssize_t offset) noexcept nogil:
    """Measure the byte order mark of a text at an offset."""
    return 3 if offset == 0 and n >= 3 and memcmp(text, UTF8_BOM, 3) == 0 else 0


cdef int read_records(FileReader reader, FileBlock block) except -1 nogil:
    """Make the text of a block and its documents from its lines, whose blank ones are left out."""
    cdef Py_ssize_t size = block.n, start = skip_byte_order_mark(block.lines, size, block.offset)
    cdef bint is_valid = is_utf8(block.lines, size)
    block.n = block.n_documents = block.counted_to = block.n_counted_lines = block.n_bad_records = 0
    block.reserve(max(size, reader.block_bytes) + RECORD_PADDING, 0)
    if reader.dialect is not None:
        return read_rows(reader, block, start, size, is_valid)
    return read_lines(reader, block, start, size, is_valid)


cdef int read_lines(
    FileReader reader, FileBlock block, Py_ssize_t start, Py_ssize_t size, bint is_valid
) except -1 nogil:
    """Read lines of JSON."""
    cdef JsonReader json = JsonReader(block.lines + start, block.lines + size, c" ")
    cdef const byte_t* line
    cdef Py_ssize_t n
    while json.at < json.end:
        n = reader.field.read_record(&json, block.data + block.n) if is_valid else -1
        if n < 0:
            line = json.at
            if next_byte(&json) == c"\n" or json.at == json.end:
                json.at += json.at < json.end
                continue
            json.at = <const byte_t*>memchr(line, c"\n", json.end - line)
            if json.at == NULL:
                json.at = json.end
            with gil:
                n = parse_record(reader, block, line - block.lines, json.at - block.lines)
            json.at += json.at < json.end
        if n >= 0:
            block.add_document(block.n, block.n + n)
            block.n += n
    return 0


cdef int read_rows(
    FileReader reader, FileBlock block, Py_ssize_t start, Py_ssize_t size, bint is_valid
) except -1 nogil:
    """Read rows of CSV."""
    cdef RowCursor rows = open_rows(block.lines, size)
    cdef const byte_t* row
    cdef Py_ssize_t n
    rows.at += start
    while rows.at < rows.end:
        row = rows.at
        n = reader.dialect.read_row(&rows, block.column, block.n_columns, is_valid, block.data + block.n)
        if n < 0 and n != EMPTY_ROW:
            with gil:
                n = parse_record(reader, block, row - block.lines, rows.at - block.lines)
        if n >= 0:
            block.add_document(block.n, block.n + n)
            block.n += n
    return 0


cdef Py_ssize_t parse_record(FileReader reader, FileBlock block, Py_ssize_t start, Py_ssize_t end) except -2:
    """Have Python code read the lines from `start` to `end`; the size of the text after the block's, or -1 for none."""
    cdef Py_ssize_t n_lines
    cdef bytes record = block.lines[start:end], text
    block.n_counted_lines += count_newlines(block.lines + block.counted_to, start - block.counted_to)
    block.counted_to, n_lines = start, block.n_counted_lines
    try:
        if block.n_lines_before < 0:
            text = reader.parse_record(record, block.unit_index, block.offset, n_lines)
        else:
            text = reader.parse_record(
                record, block.unit_index, reader.units[block.unit_index, UNIT_START], block.n_lines_before + n_lines
            )
        if text is not None and len(text) > len(record):
            raise ValueError(f"the text of a record of {len(record)} bytes has {len(text)}; it must not be longer")
    except BaseException as error:
        fail(reader, block, NULL, error)
    if text is None:
        block.n_bad_records += 1
        return -1
    memcpy(block.data + block.n, <const byte_t*>text, len(text))
    return len(text)


cdef Py_ssize_t count_newlines(const byte_t* text, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t count = 0, i
    for i in range(n):
        count += text[i] == c"\n"
    return count


cdef byte_t* input_of(FileReader reader, FileBlock block) noexcept nogil:
    return block.lines if reader.has_records else block.data
