"""Reading a text file in small blocks without the GIL.

A block of 256 KB, unless the caller wants larger ones, the file's bytes that are copied to it and its ids stay in a
core's cache of 1 MB, and no Python code runs for a block, which would take as long as its scanner. Blocks end at safe
split points, as those of `reading.py`, which handles everything else: pipes, compressed files, replacements, other
places to cut.
"""

import os

import numpy as np

from bpe.base._aho_corasick cimport Finder
from bpe.base._interrupts cimport check_signals
from bpe.base._memory cimport check_lock, grow_array
from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport is_utf8
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy
from posix.unistd cimport pread

#: The number of bytes that a `FileReader` reads at once: a block, its ids and tables fit a cache of 1 MB.
KERNEL_READ_BYTES = 1 << 18


cdef class FileBlock:
    """A thread's buffer for one block after the other."""

    def __dealloc__(self):
        free(self.starts)
        free(self.sizes)
        free(self.matches.rows)

    cdef int reserve(self, Py_ssize_t size, Py_ssize_t kept) except -1 nogil:
        """Grow the buffer to `size` bytes; its first `kept` bytes stay."""
        cdef byte_t* old = self.data
        if size <= self.capacity:
            return 0
        with gil:
            larger = bytearray(size + size // 8)
            if kept:
                memcpy(<byte_t*>larger, old, kept)
            self.buffer = larger
            self.data, self.capacity = <byte_t*>larger, len(larger)
        return 0

    cdef int split(self, FileReader reader) except -1 nogil:
        """Find the documents: between separators; with `keep_separator` each separator ends one, and none is empty."""
        cdef bint keep_separator = reader.keep_separator
        cdef Py_ssize_t start = 0, i
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
            text, starts, ends, reader.source, self.offset, keep_separator=reader.keep_separator, size=self.size,
            begins_document=self.begins_document, ends_document=self.ends_document, is_checked=not reader.requires_utf8,
        )


cdef class FileReader:
    """A regular file's text in blocks, for several threads.

    Args:
        file: the descriptor of the open file.
        source: its name, for errors.
        size: its bytes, more than 0; fewer are an error.
        separators, keep_separator: as for `Block`.
        strings: what must not be cut: separators and special tokens.
        requires_utf8: whether the text must be UTF-8.
        separator_ends: whether a separator at the end of the file starts no empty document.
        block_bytes: bytes to read at once.

    Raises:
        FormatError: for a file that must be UTF-8, and whose first bytes show that it is not text.

    """

    def __cinit__(
        self, int file, source, Py_ssize_t size, list separators, bint keep_separator, list strings, bint requires_utf8,
        bint separator_ends=False, Py_ssize_t block_bytes=KERNEL_READ_BYTES,
    ):
        from bpe.corpus import contents, reading

        check_lock(&self.lock)
        self.file, self.source, self.size = file, source, size
        self.block_bytes = min(reading.MAX_READ, block_bytes)  # MAX_READ is less in tests
        self.separators, self.keep_separator, self.requires_utf8 = list(separators), keep_separator, requires_utf8
        self.separator_finder = Finder(separators) if separators else None
        self.separator_ends = separator_ends
        self.unsplittable_finder = Finder(strings)
        if separators:
            self.separator_bytes = separators[0]
            self.separator = self.separator_bytes
        self.begins_document = True
        if requires_utf8:
            contents.check_text(os.pread(file, contents.SIGNATURE_BYTES, 0), source)

    def __dealloc__(self):
        free(self.remainder)

    @property
    def position(self):
        """Where the next block begins, while no thread reads."""
        return self.n_read - self.n_remainder

    cdef bint take_block(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil:
        """Read the next block, from any number of threads, and check it: the first error in the file is raised."""
        cdef bint has_block
        with self.lock:
            has_block = self.read_next(block, find_last, context)
            if has_block and self.requires_utf8 and not is_utf8(block.data, block.n):
                self.finished = True
                with gil:
                    from bpe.corpus import reading
                    reading.check_file_text(memoryview(block.buffer)[: block.n], self.source, block.offset)
        return has_block

    cdef bint read_next(self, FileBlock block, find_last_t find_last, void* context) except -1 nogil:
        """Read the next block; False if there is none. One thread at a time may call this."""
        cdef Py_ssize_t end = self.n_remainder, searched = 0, split_point = 0, read_size
        if self.finished:
            return False
        block.offset, block.size, block.begins_document = self.n_read - end, 0, self.begins_document
        block.reserve(end + self.block_bytes, 0)
        if end:
            memcpy(block.data, self.remainder, end)
        while split_point == 0:
            # Doubling keeps the search for a split point linear.
            read_size = min(max(self.block_bytes, end), self.size - self.n_read)
            block.reserve(end + read_size, end)
            fill(self, block.data + end, read_size)
            end += read_size
            block.size += read_size
            if self.n_read == self.size:
                split_point = end
            else:
                split_point = find_split(self, block.data, searched, end, find_last, context)
            searched = end
        block.index = self.n_blocks
        self.n_blocks += 1
        self.finished = self.n_read == self.size
        self.n_remainder = end - split_point
        self.remainder = <byte_t*>grow_array(self.remainder, &self.remainder_capacity, self.n_remainder, 1)
        memcpy(self.remainder, block.data + split_point, self.n_remainder)
        block.n = split_point
        self.begins_document = self.finished or (
            self.keep_separator and has_separator_before(self, block.data, split_point)
        )
        block.ends_document = self.begins_document
        return True


cdef bint has_separator_before(FileReader reader, const byte_t* text, Py_ssize_t position) noexcept nogil:
    """Whether the separator is right before a position."""
    cdef Py_ssize_t size = reader.separator_finder.longest
    return size <= position and memcmp(text + position - size, reader.separator, size) == 0


cdef int fill(FileReader reader, byte_t* out, Py_ssize_t size) except -1 nogil:
    """Read exactly `size` bytes."""
    cdef Py_ssize_t n_filled = 0, n_new
    cdef int code
    while n_filled < size:
        n_new = pread(reader.file, out + n_filled, size - n_filled, reader.n_read + n_filled)
        code = errno
        if n_new < 0 and code == EINTR:
            check_signals()
            continue
        if n_new <= 0:
            with gil:
                if n_new < 0:
                    raise OSError(code, os.strerror(code), reader.source)
                from bpe.corpus import reading
                raise reading.make_shorter_error(reader.source, reader.size, reader.n_read + n_filled)
        n_filled += n_new
    reader.n_read += size
    return 0


cdef Py_ssize_t find_split(
    FileReader reader, const byte_t* text, Py_ssize_t low, Py_ssize_t end, find_last_t find_last, void* context
) except -1 nogil:
    """Find the last position after `low` where `text[:end]` may be cut; 0 if there is none (`make_safe_end_finder`)."""
    cdef Py_ssize_t max_length = max(reader.unsplittable_finder.longest, <Py_ssize_t>1), limit = end - max_length + 1
    low = max(low - max_length - 3, <Py_ssize_t>0)        # the text may end within a string or a character
    while limit > low:
        limit = find_last(context, text, low, limit)
        if limit <= low:
            return 0
        if not reader.unsplittable_finder.crosses_in(text, limit, end):
            return limit
    return 0
