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

Blocks of JSON Lines are whole lines, which the thread that has read them replaces by the texts of the records.

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
from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport is_utf8
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset, strlen
from posix.unistd cimport close, pread

cdef extern from "bpe/corpus/_open_file.h" nogil:
    int bpe_open_file(const char* path, Py_ssize_t* size, int64_t* modified)   # the descriptor; -1, and `errno`
    int bpe_get_state(int file, Py_ssize_t* size, int64_t* modified)
    void set_errno "bpe_set_errno"(int code)

cdef enum:
    WINDOW_BYTES = 4096       # before a block's end that are searched for a split point first
    SPLIT_CONTEXT = 8         # bytes before a split point that decide whether it is one
    SIGNATURE_BYTES = 16      # that are checked without Python code
    SAMPLE_BYTES = 4096       # that `check_first_bytes` gets
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
        if reader.field is not None:                       # `read` has found them
            return 0
        self.n_documents = 0
        self.matches.n = 0
        if reader.separator_finder is not None:
            reader.separator_finder.leftmost_longest(self.data, 0, self.n, &self.matches)
        for i in range(self.matches.n):
            self.add_document(start, self.matches.rows[i].end if keep_separator else self.matches.rows[i].start)
            start = self.matches.rows[i].end
        if start < self.n or not (keep_separator or (reader.separator_ends and self.ends_document)):
            self.add_document(start, self.n)
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
        starts = np.array(<int64_t[: self.n_documents]>self.starts)
        return memoryview(self.buffer)[: self.n], starts, starts + <int64_t[: self.n_documents]>self.sizes

    def block(self):
        """Make a `Block` of the text, which must not be used after the next block was read."""
        from bpe.corpus.blocks import Block

        cdef FileReader reader = self.reader
        if reader is None:
            raise ValueError("the block was not read by a FileReader")
        self.split(reader)
        text, starts, ends = self.get_documents()
        return Block(
            text, starts, ends, self.source, self.offset, keep_separator=reader.keep_separator, size=self.size,
            begins_document=self.begins_document, ends_document=self.ends_document, must_be_utf8=reader.requires_utf8,
        )

    @property
    def source(self):
        """The name of the block's file, for errors."""
        if self.reader is None:
            raise ValueError("the block was not read by a FileReader")
        return self.reader.names[self.file_number]


cdef class FileReader:
    """The text of regular files in blocks, for several threads.

    Args:
        files: the name of each file, and its bytes when it was listed; at least one, none of them empty.
        first_file: the index of the first one among the sources.
        separators, keep_separator: as for `Block`.
        strings: what must not be cut: separators and special tokens.
        requires_utf8: whether the text must be UTF-8.
        separator_ends: whether a separator at the end of a file starts no empty document.
        block_bytes: bytes to read at once.
        check_first_bytes: called as check(first_bytes, name) for a file that may not be text, before its first block
            is used; None for no check.
        note_state: called as note(name, (size, modified)) when a file is opened; None if no file is opened twice.

    """

    def __cinit__(
        self, list files not None, Py_ssize_t first_file, list separators, bint keep_separator, list strings,
        bint requires_utf8, bint separator_ends=False, Py_ssize_t block_bytes=KERNEL_READ_BYTES,
        check_first_bytes=None, note_state=None,
    ):
        from bpe.corpus import reading

        cdef Py_ssize_t i
        check_lock(&self.lock)
        self.names, self.first_file, self.n_files = [name for name, _ in files], first_file, len(files)
        self.sizes = np.array([size for _, size in files], dtype=np.int64)
        self.block_bytes = min(reading.MAX_READ, block_bytes)  # MAX_READ is less in tests
        self.separators, self.keep_separator, self.requires_utf8 = list(separators), keep_separator, requires_utf8
        self.separator_finder = Finder(separators) if separators else None
        self.separator_ends = separator_ends
        self.unsplittable_finder = Finder(strings)
        if separators:
            self.separator_bytes = separators[0]
            self.separator = self.separator_bytes
        self.check_first_bytes, self.note_state = check_first_bytes, note_state
        self.encoded_names = list(map(os.fsencode, self.names))
        self.paths = <const char**>check_allocated(malloc((self.n_files + 1) * sizeof(char*)), self.n_files, b"paths")
        for i in range(self.n_files):
            self.paths[i] = self.encoded_names[i]
        self.begins_document, self.is_finished = True, self.n_files == 0

    def __dealloc__(self):
        self.close()
        free(self.paths)
        free(self.window)

    def set_field(self, FieldPath field not None, parse_line):
        """Read the files as JSON Lines, before any block is taken; the separator must be a newline that is kept.

        Args:
            field: what holds the text.
            parse_line: called as parse(line, number of the file, offset) for a line that the kernel cannot read;
                returns its text, which is not longer.

        """
        self.field, self.parse_line = field, parse_line

    def close(self):
        """Close the files that are open after an error, while no thread reads."""
        cdef OpenFile* file
        store(&self.is_finished, 1)
        self.file = NULL
        while self.open_files != NULL:
            file, self.open_files = self.open_files, self.open_files.next
            close(file.descriptor)
            free(file)

    @property
    def finished(self):
        """Whether all blocks were given out, or an error has ended that."""
        return bool(load(&self.is_finished))

    @property
    def resume_position(self):
        """The `Position` where the next block begins, while no thread reads."""
        from bpe.corpus.blocks import Position

        return Position(self.first_file + self.file_number, self.offset)

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
        cdef Py_ssize_t end
        with self.lock:
            if load(&self.is_finished):
                return False
            end = self.sizes[self.file_number]
            if self.file == NULL and end > self.block_bytes:
                open_next(self)
            if self.file != NULL:
                end = find_block_end(self, find_last_line if self.field is not None else find_last, context)
            block.file, block.file_number, block.index = self.file, self.file_number, self.n_blocks
            block.n = block.size = end - self.offset
            block.offset, block.begins_document = self.offset, self.begins_document
            self.n_blocks += 1
            if self.file == NULL or end == self.file.size:
                end_file(self, block)
            else:
                self.file.n_unread += 1
                self.begins_document = block.ends_document = ends_with_separator(self, end)
                self.offset = end
        if <void*>block.reader != <void*>self:             # else no GIL is needed
            with gil:
                block.reader = self
        return True

    cdef int read(self, FileBlock block) except -1 nogil:
        """Read a block that `give_out` has given out; its file is closed if it is the last one.

        A file that is one block is opened first. It may have another size by then.

        Raises:
            FormatError: for the first block of a file that is not text; for a bad record.
            OSError: for a file that cannot be read, got shorter or was changed.

        """
        cdef OpenFile small_file
        cdef OpenFile* file = block.file
        cdef byte_t* text
        cdef Py_ssize_t n_read, old_size, new_size
        cdef int code
        if file == NULL:
            file = &small_file
            open_small(self, block, file)
        old_size = new_size = file.size
        block.reserve(max(block.n, self.block_bytes) + (0 if self.field is None else RECORD_PADDING), 0)
        text = block.data
        if self.field is not None:
            text = block.lines = <byte_t*>grow_array(block.lines, &block.lines_capacity, block.n, 1)
        n_read = fill(file, text, block.n, block.offset)
        code = errno
        if n_read < block.n:
            with gil:
                raise_for_read(self, block, file, code, block.offset + n_read)
        if block.offset == 0 and self.check_first_bytes is not None and classify_beginning(text, block.n) != IS_TEXT:
            with gil:
                check_beginning(self, block, file)
        if end_read(self, block, file, &new_size):
            with gil:
                raise_for_change(self, block, old_size, new_size)
        if self.field is not None:
            read_records(self, block)
        return 0


# What needs the GIL. A function without it that had Python variables would take it each time it returned.

cdef int replace_buffer(FileBlock block, Py_ssize_t size, Py_ssize_t kept) except -1:
    """Give a block a buffer of `size` bytes, which begins with the first `kept` bytes of the old one."""
    larger = bytearray(size)
    if kept:
        memcpy(<byte_t*>larger, block.data, kept)
    block.buffer = larger
    block.data, block.capacity = <byte_t*>larger, len(larger)
    return 0


cdef int fail(FileReader reader, FileBlock block, OpenFile* unread_file, error) except -1:
    """Raise the error of a block, whose file it leaves unread, or NULL, and stop the reader."""
    if unread_file != NULL and block.file == NULL:
        close(unread_file.descriptor)
    error.block_of_reader = id(reader), block.index
    with nogil:
        with reader.lock:
            store(&reader.is_finished, 1)
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


cdef int check_beginning(FileReader reader, FileBlock block, OpenFile* file) except -1:
    """Raise FormatError for the first block of a file that is not text."""
    try:
        reader.check_first_bytes(os.pread(file.descriptor, SAMPLE_BYTES, 0), block.source)
    except BaseException as error:
        fail(reader, block, file, error)
    return 0


cdef int note_small_state(FileReader reader, FileBlock block, OpenFile* file) except -1:
    """Note the state of a file that is one block."""
    try:
        reader.note_state(block.source, (file.size, file.modified))
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

    name = reader.names[file.number]
    return OSError(code, os.strerror(code), name) if code else reading.make_shorter_error(name, file.size, end)


cdef int raise_for_window(FileReader reader, int code, Py_ssize_t end) except -1:
    """Raise OSError for the current file, which cannot be read or ends early, while holding the lock."""
    return fail_locked(reader, make_read_error(reader, reader.file, code, end))


cdef int raise_for_open(FileReader reader, int code) except -1:
    """Raise OSError for the next file, which cannot be opened, while holding the lock."""
    return fail_locked(reader, OSError(code, os.strerror(code), reader.names[reader.file_number]))


cdef int raise_for_small(FileReader reader, FileBlock block, int code) except -1:
    """Raise OSError for a file that is one block and cannot be opened."""
    return fail(reader, block, NULL, OSError(code, os.strerror(code), block.source))


cdef int fail_locked(FileReader reader, error) except -1:
    """Raise the error of the next block, and stop the reader, while holding the lock."""
    error.block_of_reader = id(reader), reader.n_blocks
    store(&reader.is_finished, 1)
    close_unused(reader)
    raise error


def may_begin_otherwise(const byte_t[::1] text):
    """Whether a file that begins so may hold something else than text, which `contents.py` decides."""
    return text.shape[0] > 0 and classify_beginning(&text[0], text.shape[0]) != IS_TEXT


cdef Beginning classify_beginning(const byte_t* text, Py_ssize_t n) noexcept nogil:
    """Tell what a file's first bytes may be; that they are text is certain.

    All signatures have a control character, bytes that are not UTF-8, or one of a few first characters.
    """
    cdef Py_ssize_t n_checked = min(n, <Py_ssize_t>SIGNATURE_BYTES), i
    for i in range(n_checked):
        if (text[i] < 32 and not 9 <= text[i] <= 13) or text[i] == 127:
            return MAY_BE_OTHER
    if begins_with(text, n, UTF8_BOM) or begins_with(text, n, b"%PDF") or begins_with(text, n, b"BZh"):
        return MAY_BE_OTHER
    if begins_with(text, n, b"RIFF") or begins_with(text, n, b"q\xc7"):
        return MAY_BE_OTHER
    if not is_utf8(text, n if n < SIGNATURE_BYTES else measure_whole_characters(text, SIGNATURE_BYTES)):
        return MAY_BE_OTHER
    i = 0
    while i < n_checked and (text[i] == c" " or 9 <= text[i] <= 13):
        i += 1
    if n and (i == n_checked or text[i] == c"{" or text[i] == c"["):
        return MAY_BE_JSON
    return IS_TEXT


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
    file.number = reader.file_number
    file.descriptor = bpe_open_file(reader.paths[file.number], &file.size, &file.modified)
    if file.descriptor < 0:
        code = errno
        free(file)
        with gil:
            raise_for_open(reader, code)
    file.next, reader.open_files, reader.file = reader.open_files, file, file
    reader.begins_document = True
    if reader.note_state is not None:
        with gil:
            reader.note_state(reader.names[file.number], (file.size, file.modified))
    return 0


cdef int open_small(FileReader reader, FileBlock block, OpenFile* file) except -1 nogil:
    """Open a file that is one block, as large as the file is now."""
    cdef int code
    memset(file, 0, sizeof(OpenFile))
    file.number = block.file_number
    file.descriptor = bpe_open_file(reader.paths[file.number], &file.size, &file.modified)
    if file.descriptor < 0:
        code = errno
        with gil:
            raise_for_small(reader, block, code)
    block.n = block.size = file.size
    if reader.note_state is not None:
        with gil:
            note_small_state(reader, block, file)
    return 0


cdef void end_file(FileReader reader, FileBlock block) noexcept nogil:
    """Give out the last block of a file, while holding the lock."""
    if reader.file != NULL:
        reader.file.n_unread += 1
        reader.file.is_given_out = True
    reader.begins_document = block.ends_document = True
    reader.file, reader.offset = NULL, 0
    reader.file_number += 1
    store(&reader.is_finished, reader.file_number == reader.n_files)


cdef bint end_read(FileReader reader, FileBlock block, OpenFile* file, Py_ssize_t* size) noexcept nogil:
    """Note that a block was read, and close the file after its last one.

    Returns whether the file was changed by then, and gives its `size`.
    """
    cdef bint is_changed = False
    if block.file == NULL:
        is_changed = has_changed(file, size)
        close(file.descriptor)
        return is_changed
    with reader.lock:
        file.n_unread -= 1
        if file.n_unread == 0 and (file.is_given_out or load(&reader.is_finished)):
            is_changed = file.is_given_out and has_changed(file, size)
            close_file(reader, file)
    return is_changed


cdef bint has_changed(const OpenFile* file, Py_ssize_t* size) noexcept nogil:
    """Whether a file has another size, which is given, or time than when it was opened."""
    cdef int64_t modified = 0
    return bpe_get_state(file.descriptor, size, &modified) < 0 or size[0] != file.size or modified != file.modified


cdef void close_file(FileReader reader, OpenFile* file) noexcept nogil:
    """Close a file that no thread reads, while holding the lock."""
    cdef OpenFile** link = &reader.open_files
    while link[0] != file:
        link = &link[0].next
    link[0] = file.next
    if reader.file == file:
        reader.file = NULL
    close(file.descriptor)
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


cdef Py_ssize_t find_block_end(FileReader reader, find_last_t find_last, void* context) except -1 nogil:
    """Find where the next block ends: at the last split point before `block_bytes` bytes, or else before twice as many.

    The text before that is read in windows that get larger, so the cost is linear in the distance.
    """
    cdef Py_ssize_t start = reader.offset, size = reader.file.size, end = start + reader.block_bytes
    cdef Py_ssize_t searched_to = start
    cdef Py_ssize_t longest = max(reader.unsplittable_finder.longest, <Py_ssize_t>1), low, n, split, min_split
    while end < size:
        n, low = max(min(<Py_ssize_t>WINDOW_BYTES, reader.block_bytes // 4), <Py_ssize_t>1), end  # less in tests
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


cdef bint ends_with_separator(FileReader reader, Py_ssize_t end) noexcept nogil:
    """Whether the text up to `end`, which `find_block_end` has found, ends with a separator that is kept."""
    cdef Py_ssize_t size, n = end - reader.window_start
    if not reader.keep_separator:
        return False
    size = reader.separator_finder.longest
    return size <= n and memcmp(reader.window + n - size, reader.separator, size) == 0


cdef Py_ssize_t fill(OpenFile* file, byte_t* out, Py_ssize_t size, Py_ssize_t offset) noexcept nogil:
    """Read `size` bytes of a file from an offset on; returns their number, and `errno` says why they are fewer."""
    cdef Py_ssize_t n_filled = 0, n_new
    while n_filled < size:
        n_new = pread(file.descriptor, out + n_filled, size - n_filled, offset + n_filled)
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
    while limit > low:
        limit = find_last(context, text, low, limit)
        if limit <= low:
            return 0
        if not reader.unsplittable_finder.crosses_in(text, limit, end):
            return limit
    return 0


# Records --------------------------------------------------------------------------------------------------------------


cdef Py_ssize_t find_last_line(void* context, const byte_t* text, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    """Find the last start of a line after `start`, or at `end`; `start` if there is none."""
    while end > start and text[end - 1] != c"\n":
        end -= 1
    return end


cdef int read_records(FileReader reader, FileBlock block) except -1 nogil:
    """Make the text of a block and its documents from its lines, whose blank ones are left out."""
    cdef JsonReader json = JsonReader(block.lines, block.lines + block.size, c" ")
    cdef const byte_t* line
    cdef bint is_valid = is_utf8(block.lines, block.size)
    cdef Py_ssize_t n
    block.n = block.n_documents = 0
    if block.offset == 0 and begins_with(block.lines, block.size, UTF8_BOM):
        json.at += strlen(UTF8_BOM)
    while json.at < json.end:
        n = reader.field.read_record(&json, block.data + block.n) if is_valid else -1
        if n < 0:
            line = json.at
            if next_byte(&json) == c"\n" or json.at == json.end:
                json.at += json.at < json.end
                continue
            json.at = line
            with gil:
                n = parse_line(reader, block, &json)
        block.add_document(block.n, block.n + n)
        block.n += n
    return 0


cdef Py_ssize_t parse_line(FileReader reader, FileBlock block, JsonReader* json) except -1:
    """Take a line that Python code reads; the size of its text, which is written after the block's."""
    cdef Py_ssize_t offset = block.offset + (json.at - block.lines)
    cdef const byte_t* end = <const byte_t*>memchr(json.at, c"\n", json.end - json.at)
    cdef bytes line, text
    line = json.at[: (json.end if end == NULL else end) - json.at]
    try:
        text = reader.parse_line(line, block.file_number, offset)
    except Exception as error:
        fail(reader, block, NULL, error)
    if len(text) > len(line):
        raise ValueError(f"the text of a line of {len(line)} bytes has {len(text)}; it must not be longer")
    memcpy(block.data + block.n, <const byte_t*>text, len(text))
    json.at = json.end if end == NULL else end + 1
    return len(text)
