"""Numbers to a file by several threads: converted, summed and written in pieces, without the GIL.

    ids in memory      |  piece 0  |  piece 1  |  piece 2  | ...      a free thread takes the next piece,
    bytes of the file  |  piece 0  |  piece 1  |  piece 2  | ...      converts it, sums it and writes it at its position

Linux lets one thread at a time write to a file. So threads convert and sum side by side, and write in turn: 2.5 GB/s
into memory (tmpfs), 4.5 GB/s into the page cache of ext4, more than disks. On tmpfs four threads and more write through
mappings instead, which costs twice the processor time and has no such limit. Pages are populated first: where that
fails, as on a full file system, `pwrite` reports why, whereas storing to a page without memory would kill the process.
"""

import os

import numpy as np

from bpe.base._atomic cimport load, store
from bpe.base._cpu cimport follow_vector_level
from bpe.base._interrupts cimport check_signals
from bpe.base._memory cimport check_allocated
from bpe.base._team cimport Team, count_parts
from bpe.base._types cimport byte_t
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_type_lock,
)
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.types cimport off_t

cdef extern from "bpe/base/_crc32.h" nogil:
    void fill_tables "bpe_crc32_fill_tables"()
    uint32_t add_crc32 "bpe_crc32"(uint32_t before, const byte_t* data, size_t n, int level)
    uint32_t combine "bpe_crc32_combine"(uint32_t first, uint32_t second, size_t n)

cdef extern from *:
    """
    #include <fcntl.h>
    #include <sys/mman.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <sys/vfs.h>
    #endif
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23
    #endif

    static Py_ssize_t bpe_take_next(Py_ssize_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

    static void bpe_add_bits(uint32_t *bits, uint32_t more) { __atomic_fetch_or(bits, more, __ATOMIC_RELAXED); }

    /* Whether a file is in memory, on tmpfs. */
    static int bpe_is_on_tmpfs(int file) {
    #ifdef __linux__
        struct statfs status;
        return fstatfs(file, &status) == 0 && status.f_type == 0x01021994;
    #else
        (void)file;
        return 0;
    #endif
    }

    /* Map bytes of a file, from a page's beginning on, with memory for all of them; NULL if that is not possible. */
    static uint8_t *bpe_map_pages(int file, off_t start, size_t n) {
    #ifdef __linux__
        void *pages = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, file, start);
        if (pages == MAP_FAILED) return NULL;
        if (madvise(pages, n, MADV_POPULATE_WRITE) == 0) return pages;
        munmap(pages, n);
    #else
        (void)file, (void)start, (void)n;
    #endif
        return NULL;
    }

    /* Begin to write bytes of a file to the disk, or wait for that where it cannot be begun only. An error is that of
     * the file's last `fsync`, too. */
    static void bpe_begin_sync(int file, off_t start, off_t n) {
    #ifdef __linux__
        sync_file_range(file, start, n, SYNC_FILE_RANGE_WRITE);
    #else
        (void)start, (void)n;
        fsync(file);
    #endif
    }

    /* Narrow n ids to 16 bits; return the bits that any of them has. */
    static uint32_t bpe_narrow_ids(uint16_t *out, const uint32_t *ids, size_t n) {
        uint32_t bits = 0;
        for (size_t i = 0; i < n; i++) {
            bits |= ids[i];
            out[i] = (uint16_t)ids[i];
        }
        return bits;
    }
    static uint32_t bpe_gather_bits(const uint32_t *ids, size_t n) {
        uint32_t bits = 0;
        for (size_t i = 0; i < n; i++) bits |= ids[i];
        return bits;
    }
    """
    Py_ssize_t take_next "bpe_take_next"(Py_ssize_t* next) nogil
    void add_bits "bpe_add_bits"(uint32_t* bits, uint32_t more) nogil
    bint is_on_tmpfs "bpe_is_on_tmpfs"(int file) nogil
    byte_t* map_pages "bpe_map_pages"(int file, off_t start, size_t n) nogil
    void begin_sync "bpe_begin_sync"(int file, off_t start, off_t n) nogil
    uint32_t narrow_ids "bpe_narrow_ids"(uint16_t* out, const uint32_t* ids, size_t n) nogil
    uint32_t gather_bits "bpe_gather_bits"(const uint32_t* ids, size_t n) nogil
    ssize_t pwrite(int file, const void* data, size_t n, off_t position) nogil
    int ftruncate(int file, off_t size) nogil
    int munmap(void* address, size_t length) nogil

cdef enum:
    PIECE_BYTES = 1 << 19     # of the file: a piece stays in a core's cache while it is converted, summed and written
    MIN_MAPPING_THREADS = 4

cdef int level = 0
cdef Py_ssize_t PAGE_BYTES = os.sysconf("SC_PAGESIZE")


cdef void use_level(int new_level) noexcept:
    global level
    level = new_level

fill_tables()
follow_vector_level(use_level)


def crc32(const byte_t[::1] data, uint32_t before=0):
    """Return the CRC-32 of bytes, as `zlib.crc32` does, or of bytes whose CRC is `before` with these after them."""
    if not data.shape[0]:
        return before
    with nogil:
        before = add_crc32(before, &data[0], data.shape[0], level)
    return before


def sum_lengths(const int64_t[::1] lengths, int64_t first=0):
    """Compute `first + np.cumsum(lengths)` and the smallest length, or 0: (ends, smallest); the GIL is not released."""
    ends = np.empty(lengths.shape[0], dtype=np.int64)
    cdef int64_t[::1] out = ends
    cdef int64_t smallest = 0
    cdef Py_ssize_t i
    for i in range(lengths.shape[0]):
        first += lengths[i]
        smallest = min(smallest, lengths[i])
        out[i] = first
    return ends, smallest


def combine_crc32(uint32_t first, uint32_t second, size_t size):
    """Compute the CRC-32 of two byte strings, one after the other, from theirs; `size` is the second's in bytes."""
    return combine(first, second, size)


cdef struct Writing:          # of some data to a file
    int file
    int64_t start             # in the file
    int64_t n_bytes
    const byte_t* data
    bint narrows              # uint32 ids to uint16
    bint checks_bits          # of uint32 ids
    bint maps
    uint32_t bits             # of all ids
    uint32_t* crcs            # of each piece
    Py_ssize_t n_pieces
    Py_ssize_t next_piece     # that no thread has taken
    Py_ssize_t error          # the first error's number, or 0
    PyThread_type_lock lock   # held while a thread calls `pwrite`


def write_at(
    int file, Py_ssize_t position, const byte_t[::1] data, Team team, str path, *, bint narrows=False,
    uint32_t max_id=0xFFFFFFFF, Py_ssize_t sync_from=-1,
):
    """Write bytes, or uint32 ids as uint16, at a position of a file; return their CRC-32 in the file.

    Args:
        file: the descriptor, open for reading and writing.
        position: of the first byte.
        data: the bytes, at least one.
        team: the threads; only one thread at a time may use a team.
        path: of the file, for errors.
        narrows: whether the bytes are uint32 ids that are written as uint16.
        max_id: with less than 0xFFFFFFFF, the bytes are uint32 ids; 2**k - 1.
        sync_from: the position from which on the system is to begin to write to the disk; -1 for nowhere.

    Returns:
        The CRC, or None for an id larger than `max_id`; what is in the file then does not matter.

    Raises:
        OSError: for bytes that cannot be written; it names the file.

    """
    cdef Py_ssize_t size = data.shape[0] // 2 if narrows else data.shape[0], i
    cdef uint32_t crc = 0
    cdef Writing job = Writing(
        file=file, start=position, n_bytes=size, data=&data[0], narrows=narrows,
        checks_bits=max_id < 0xFFFFFFFF, n_pieces=(position + size - 1) // PIECE_BYTES - position // PIECE_BYTES + 1,
    )
    cdef int parts = count_parts(team.size, job.n_pieces)
    if (narrows or job.checks_bits) and position % (2 if narrows else 4):
        raise ValueError(f"position is {position}; ids begin at a multiple of their size")
    job.maps = parts >= MIN_MAPPING_THREADS and is_on_tmpfs(file) and ftruncate(file, position + size) == 0
    job.crcs = <uint32_t*>check_allocated(malloc(job.n_pieces * sizeof(uint32_t)), job.n_pieces, b"checksums")
    job.lock = PyThread_allocate_lock()
    try:
        check_allocated(<void*>job.lock, 1, b"lock")
        with nogil:
            team.share(parts, write_pieces, &job)
            for i in range(job.n_pieces if not job.error else 0):
                crc = combine(crc, job.crcs[i], find_bounds(&job, i).size)
            if sync_from >= 0 and not job.error:
                begin_sync(file, sync_from, position + size - sync_from)
    finally:
        PyThread_free_lock(job.lock)
        free(job.crcs)
    if job.error:
        raise OSError(job.error, os.strerror(job.error), path)
    return None if job.checks_bits and job.bits > max_id else crc


cdef struct Piece:
    int64_t start             # in the file
    Py_ssize_t size


cdef inline Piece find_bounds(Writing* job, Py_ssize_t index) noexcept nogil:
    """Find a piece, which begins at a multiple of `PIECE_BYTES`, but for the first one, and ends at one."""
    cdef int64_t boundary = (job.start // PIECE_BYTES + index) * PIECE_BYTES
    cdef int64_t start = max(boundary, job.start), end = min(boundary + PIECE_BYTES, job.start + job.n_bytes)
    return Piece(start, end - start)


cdef int write_pieces(void* data, int part) except -1 nogil:
    """Write the next piece until there is none: the work of one thread."""
    cdef Writing* job = <Writing*>data
    cdef byte_t* buffer = NULL
    cdef Py_ssize_t index
    if job.narrows:
        buffer = <byte_t*>check_allocated(malloc(PIECE_BYTES), PIECE_BYTES, b"bytes of a buffer")
    try:
        while not load(&job.error):
            index = take_next(&job.next_piece)
            if index >= job.n_pieces:
                break
            write_piece(job, index, buffer)
    finally:
        free(buffer)
    return 0


cdef int write_piece(Writing* job, Py_ssize_t index, byte_t* buffer) except -1 nogil:
    """Convert, sum and write a piece."""
    cdef Piece piece = find_bounds(job, index)
    cdef Py_ssize_t lead = piece.start % PAGE_BYTES
    cdef const byte_t* source = job.data + (piece.start - job.start) * (2 if job.narrows else 1)
    cdef byte_t* pages = map_pages(job.file, piece.start - lead, lead + piece.size) if job.maps else NULL
    cdef byte_t* target = buffer if pages == NULL else pages + lead
    if job.narrows:
        add_bits(&job.bits, narrow_ids(<uint16_t*>target, <const uint32_t*>source, piece.size // 2))
        source = target
    else:
        if job.checks_bits:
            add_bits(&job.bits, gather_bits(<const uint32_t*>source, piece.size // 4))
        if pages != NULL:
            memcpy(target, source, piece.size)
    job.crcs[index] = add_crc32(0, source, piece.size, level)
    if pages != NULL:
        munmap(pages, lead + piece.size)
        return 0
    return write_whole(job, source, piece)


cdef int write_whole(Writing* job, const byte_t* data, Piece piece) except -1 nogil:
    """Write all bytes of a piece, unless another thread has met an error."""
    cdef ssize_t n_written
    PyThread_acquire_lock(job.lock, WAIT_LOCK)
    try:
        while piece.size and not load(&job.error):
            n_written = pwrite(job.file, data, piece.size, piece.start)
            if n_written >= 0:
                data += n_written
                piece.start += n_written
                piece.size -= n_written
            elif errno == EINTR:
                check_signals()
            else:
                store(&job.error, errno)
    finally:
        PyThread_release_lock(job.lock)
    return 0
