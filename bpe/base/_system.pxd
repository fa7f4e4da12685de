"""Files, mappings of files and time, by the same calls on Linux, macOS and Windows; the header has their comments.

Kernels return to Python, or poll, some ten times a second by this clock.
"""

from libc.stdint cimport int64_t

cdef extern from "bpe/base/_system.h" nogil:
    # Descriptors are 0 or more; -1, and `errno`, for an error.
    int open_file "bpe_open_file"(const char* path, Py_ssize_t* size, int64_t* modified)
    int close_descriptor "bpe_close_descriptor"(int file)
    int get_file_state "bpe_get_file_state"(int file, Py_ssize_t* size, int64_t* modified)
    int read_stamp "bpe_read_stamp"(const char* path, int64_t* size, int64_t* seconds, int64_t* nanoseconds)
    bint is_regular "bpe_is_regular"(const char* path)
    Py_ssize_t read_bytes_at "bpe_read_bytes_at"(int file, void* data, size_t n, int64_t position)
    Py_ssize_t write_bytes_at "bpe_write_bytes_at"(int file, const void* data, size_t n, int64_t position)
    void begin_sync "bpe_begin_sync"(int file, int64_t start, int64_t n)
    size_t mapping_step "bpe_mapping_step"()                   # what the beginning of a mapping must be a multiple of
    void* map_to_read "bpe_map_to_read"(int file, size_t start, size_t size)   # NULL, and `errno`, for an error
    void unmap "bpe_unmap"(void* data, size_t size)
    double read_clock "bpe_read_clock"()                       # in seconds; it takes some 25 ns
    void sleep "bpe_sleep"(int microseconds)
    void set_errno "bpe_set_errno"(int code)
