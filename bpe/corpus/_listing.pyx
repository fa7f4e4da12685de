"""Measuring many files without the GIL: their sizes, which of them begin as only text does, their stamps.

The first two cost four calls of the system for each file. Python code does the same for a file that is compressed, is
not regular or cannot be read, and raises the error. `os.stat` would release the GIL for each file, and might wait 5 ms
to get it back from a busy thread.
"""

import numpy as np

from bpe.base._atomic cimport fetch_add
from bpe.base._interrupts cimport Watch, begin_long_watch, check_signals, poll
from bpe.base._memory cimport check_allocated
from bpe.base._system cimport close_descriptor, is_regular, open_file, read_bytes_at, read_clock, read_stamp
from bpe.base._types cimport byte_t
from bpe.corpus._file_reader cimport MAY_BE_JSON, MAY_BE_OTHER, SAMPLE_BYTES, Beginning, classify_beginning
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr

cdef extern from "Python.h":
    object PyUnicode_EncodeFSDefault(str name)             # as `os.fsencode`, which takes ten times as long

cdef enum:
    UNKNOWN_SIZE = -1

cdef double check_seconds = 0.1   # between two checks of signals: each may wait 5 ms for the GIL


cdef class FileMeasurer:
    """The sizes of the files of some names, and the stamps that show whether a file was changed.

    Attributes:
        sizes: int64, in bytes; -1 for a name that Python code has to look at.
        may_be_records: bool, whether a file that has a size may begin with JSON.

    """

    cdef list encoded_names
    cdef const char** paths               # of `encoded_names`
    cdef size_t n_files, n_taken
    cdef int64_t[::1] size_rows
    cdef byte_t[::1] record_rows
    cdef readonly object sizes, may_be_records

    def __cinit__(self, list names not None):
        cdef size_t i
        self.n_files = len(names)
        self.encoded_names = list(map(encode_name, names))
        self.paths = <const char**>check_allocated(malloc((self.n_files + 1) * sizeof(char*)), self.n_files, b"paths")
        for i in range(self.n_files):
            self.paths[i] = self.encoded_names[i]
        self.sizes, self.may_be_records = np.empty(self.n_files, np.int64), np.zeros(self.n_files, np.bool_)
        self.size_rows, self.record_rows = self.sizes, self.may_be_records.view(np.uint8)

    def __dealloc__(self):
        free(self.paths)

    def measure(self):
        """Measure files until none is left or `stop` is called, in any number of threads."""
        cdef Watch watch
        cdef size_t i
        begin_long_watch(&watch)
        with nogil:
            while True:
                i = fetch_add(&self.n_taken, 1)
                if i >= self.n_files:
                    break
                self.size_rows[i] = measure_file(self.paths[i], &self.record_rows[i])
                poll(&watch, 0)

    def stop(self):
        """Make all threads return from `measure`."""
        fetch_add(&self.n_taken, self.n_files)

    def read_stamps(self):
        """List the (size, time of the last change in ns) that `os.stat` has; None for what is no local file."""
        cdef double next_check = read_clock() + check_seconds
        cdef object numbers = np.zeros((self.n_files, 3), np.int64), is_known = np.zeros(self.n_files, np.bool_)
        cdef int64_t[:, ::1] rows = numbers
        cdef byte_t[::1] known_rows = is_known.view(np.uint8)
        cdef size_t i
        with nogil:
            for i in range(self.n_files):
                known_rows[i] = read_stamp(self.paths[i], &rows[i, 0], &rows[i, 1], &rows[i, 2]) == 0
                if read_clock() > next_check:
                    next_check += check_seconds
                    check_signals()
        stamps = []                                        # a comprehension in a kernel may release an item twice
        for (size, seconds, ns), known in zip(numbers.tolist(), is_known.tolist()):
            stamps.append((size, seconds * 1_000_000_000 + ns) if known else None)
        return stamps


def encode_name(str name not None):
    """Encode a file's name; as one that names no file, b"", if the system could have none such."""
    try:
        return b"" if "\0" in name else PyUnicode_EncodeFSDefault(name)
    except UnicodeEncodeError:
        return b""


cdef int64_t measure_file(const char* path, byte_t* may_be_records) noexcept nogil:
    """Measure a file; -1 if it is not regular, cannot be read, or does not begin as text does.

    Nothing but a regular file is opened: opening a pipe for a moment would end the wait of its writer.
    """
    cdef byte_t first_bytes[SAMPLE_BYTES]
    cdef Py_ssize_t size, n_read
    cdef int64_t modified
    cdef Beginning beginning
    cdef int descriptor
    if not is_regular(path):
        return UNKNOWN_SIZE
    descriptor = open_file(path, &size, &modified)
    if descriptor < 0:
        return UNKNOWN_SIZE
    n_read = read_bytes_at(descriptor, first_bytes, SAMPLE_BYTES, 0)
    while n_read < 0 and errno == EINTR:
        n_read = read_bytes_at(descriptor, first_bytes, SAMPLE_BYTES, 0)
    close_descriptor(descriptor)
    if n_read < 0 or memchr(first_bytes, 0, n_read) != NULL:
        return UNKNOWN_SIZE
    beginning = classify_beginning(first_bytes, n_read)
    may_be_records[0] = beginning == MAY_BE_JSON
    return UNKNOWN_SIZE if beginning == MAY_BE_OTHER else size
