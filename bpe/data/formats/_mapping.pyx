"""Bytes of a file, mapped into memory for reading without keeping the file open.

The standard library's `mmap`, and so `np.memmap`, keeps a file descriptor for each mapping; only Python 3.13 has an
option, `trackfd`, that prevents it. A process may have some thousand descriptors (`ulimit -n`), and a corpus may have
more files than that; Linux allows 65,530 mappings.
"""

import os

from bpe.base._system cimport map_to_read, mapping_step, unmap
from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport ENOMEM, errno


cdef class FileMapping:
    """Some bytes of a file, as an object with the buffer protocol; unmapped when nothing refers to it any more.

    The caller checks that the file has them: reading beyond its end kills the process.
    """
    cdef void* memory                  # whole pages
    cdef size_t length                 # bytes of the pages up to the last byte
    cdef size_t lead                   # bytes of the first page before the first byte

    def __cinit__(self, int file, size_t start, size_t size):
        """Map `size` bytes, at least 1, from byte `start` of an open file; OSError if the system refuses."""
        if size == 0 or size > (<size_t>-1 >> 1) or start > (<size_t>-1 >> 1) - size:
            raise ValueError(f"{size} bytes from {start} on cannot be mapped; there must be at least one")
        self.lead = start % mapping_step()
        self.length = self.lead + size
        self.memory = map_to_read(file, start - self.lead, self.length)
        if self.memory == NULL:
            advice = "; see sysctl vm.max_map_count: a shard takes two or three mappings" if errno == ENOMEM else ""
            raise OSError(errno, os.strerror(errno) + advice)

    def __dealloc__(self):
        if self.memory != NULL:
            unmap(self.memory, self.length)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <char*>self.memory + self.lead, self.length - self.lead, 1, flags)

    def view(self):
        """The bytes, read-only; they stay mapped while the view exists."""
        return memoryview(self)
