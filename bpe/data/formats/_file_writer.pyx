"""Numbers to a file by several threads: converted, summed and written in pieces, without the GIL.

    ids in memory      |  piece 0  |  piece 1  |  piece 2  | ...      a free thread takes the next piece,
    bytes of the file  |  piece 0  |  piece 1  |  piece 2  | ...      converts it, sums it and writes it at its position

`write_at` writes an array. A `FileTarget` takes the ids of the parts of a text from the threads that encode them.

Linux lets one thread at a time write to a file. So threads convert and sum side by side, and write one after the other:
2.5 GB/s into memory (tmpfs), 4.5 GB/s into the page cache of ext4, more than disks. On tmpfs four threads and more
write through mappings instead, which costs twice the processor time and has no such limit. They share mappings of 8 MB,
since no thread can populate pages while another maps or unmaps some. Pages are populated first: where that fails, as on
a full file system, `pwrite` reports why, whereas storing to a page without memory would kill the process.
"""

import os

import numpy as np

from bpe.base._atomic cimport load, store
from bpe.base._crc32 cimport add_crc32, combine_crcs, move_crc_back
from bpe.base._interrupts cimport check_signals
from bpe.base._memory cimport check_allocated
from bpe.base._ordered_output cimport IdTarget
from bpe.base._system cimport begin_sync, mapping_step, unmap, write_bytes_at
from bpe.base._team cimport Team, count_parts
from bpe.base._types cimport byte_t, token_t
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_type_lock,
)
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    static Py_ssize_t bpe_take_next(Py_ssize_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

    static void bpe_add_bits(uint32_t *bits, uint32_t more) { __atomic_fetch_or(bits, more, __ATOMIC_RELAXED); }

    #if defined(__linux__)
    #include <sys/mman.h>
    #include <sys/stat.h>
    #include <sys/vfs.h>
    #include <unistd.h>
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23
    #endif

    /* Whether a file is in memory, on tmpfs. */
    static int bpe_is_on_tmpfs(int file) {
        struct statfs status;
        return fstatfs(file, &status) == 0 && status.f_type == 0x01021994;
    }

    /* Make a file at least `size` bytes large; whether it is. One thread at a time; `ShardFile.sync` cuts off what is
     * too much. */
    static int bpe_extend_file(int file, int64_t size) {
        struct stat status;
        return fstat(file, &status) == 0 && (status.st_size >= size || ftruncate(file, size) == 0);
    }

    /* Map bytes of a file, from a page's beginning on; NULL if that is not possible. */
    static uint8_t *bpe_map_to_write(int file, int64_t start, size_t n) {
        void *pages = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, file, start);
        return pages == MAP_FAILED ? NULL : pages;
    }

    /* Have memory for all bytes of mapped pages; whether there is. */
    static int bpe_populate(void *pages, size_t n) { return madvise(pages, n, MADV_POPULATE_WRITE) == 0; }
    #else                                                   /* no tmpfs: nothing is mapped */
    static int bpe_is_on_tmpfs(int file) { (void)file; return 0; }
    static int bpe_extend_file(int file, int64_t size) { (void)file, (void)size; return 0; }
    static uint8_t *bpe_map_to_write(int file, int64_t start, size_t n) {
        (void)file, (void)start, (void)n;
        return NULL;
    }
    static int bpe_populate(void *pages, size_t n) { (void)pages, (void)n; return 0; }
    #endif

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
    bint extend_file "bpe_extend_file"(int file, int64_t size) nogil
    byte_t* map_to_write "bpe_map_to_write"(int file, int64_t start, size_t n) nogil
    bint populate "bpe_populate"(void* pages, size_t n) nogil
    uint32_t narrow_ids "bpe_narrow_ids"(uint16_t* out, const uint32_t* ids, size_t n) nogil
    uint32_t gather_bits "bpe_gather_bits"(const uint32_t* ids, size_t n) nogil

cdef enum:
    PIECE_BYTES = 1 << 19     # of the file: a piece stays in a core's cache while it is converted, summed and written
    MIN_PIECES = 2            # for each thread, since a helper has to be woken
    MIN_MAPPING_THREADS = 4
    WINDOW_BYTES = 1 << 23    # of a mapping; a multiple of PIECE_BYTES, and of pages
    N_WINDOWS = 8
    SYNC_BYTES = 1 << 24      # after which the system begins to write a target's bytes to the disk

cdef Py_ssize_t PAGE_BYTES = mapping_step()


def find_document_ends(const int64_t[::1] lengths not None, int64_t first=0):
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


cdef struct Window:           # a mapping of a part of the file
    byte_t* pages             # NULL for none
    int64_t start             # in the file; a multiple of WINDOW_BYTES
    int64_t n_left            # bytes that are not written yet; it is unmapped after them

cdef struct Output:           # a file that several threads write to
    int file
    int64_t start             # where the first byte is written
    bint narrows              # uint32 ids to uint16
    bint checks_bits          # of uint32 ids
    bint maps
    Py_ssize_t error          # the first error's number, or 0
    PyThread_type_lock lock   # held while a thread calls `pwrite`, or changes windows
    Window[N_WINDOWS] windows  # window i of the file is at i % N_WINDOWS

cdef struct Writing:          # of some data to a file
    Output* output
    int64_t n_bytes           # in the file
    const byte_t* data
    uint32_t* crcs            # of each piece
    Py_ssize_t n_pieces
    Py_ssize_t next_piece     # that no thread has taken
    uint32_t bits             # of all ids


def write_at(
    int file, Py_ssize_t position, const byte_t[::1] data not None, Team team not None, str path, *, bint narrows=False,
    uint32_t max_id=0xFFFFFFFF, Py_ssize_t sync_from=-1,
):
    """Write bytes, or uint32 ids as uint16, at a position of a file; return their CRC-32 in the file.

    Args:
        file: the descriptor, open for reading and writing.
        position: the position of the first byte.
        data: the bytes, at least one.
        team: the threads; only one thread at a time may use a team.
        path: the path of the file, for errors.
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
    cdef Output output
    cdef Writing job = Writing(
        output=&output, n_bytes=size, data=&data[0], crcs=NULL, next_piece=0, bits=0,
        n_pieces=(position + size - 1) // PIECE_BYTES - position // PIECE_BYTES + 1,
    )
    cdef int parts = count_parts(team.size, job.n_pieces // MIN_PIECES)
    open_output(&output, file, position, narrows, max_id, parts)
    job.crcs = <uint32_t*>malloc(job.n_pieces * sizeof(uint32_t))
    try:
        check_allocated(job.crcs, job.n_pieces, b"checksums")
        with nogil:
            team.share(parts, write_pieces, &job)
            for i in range(job.n_pieces if not output.error else 0):
                crc = combine_crcs(crc, job.crcs[i], find_bounds(position, size, i).size)
            if sync_from >= 0 and not output.error:
                begin_sync(file, sync_from, position + size - sync_from)
    finally:
        close_output(&output)
        free(job.crcs)
    if output.error:
        raise OSError(output.error, os.strerror(output.error), path)
    return None if output.checks_bits and job.bits > max_id else crc


cdef int open_output(
    Output* output, int file, int64_t position, bint narrows, uint32_t max_id, Py_ssize_t threads
) except -1:
    """Begin to write at a position of a file, with some threads; `narrows` and `max_id` as for `write_at`."""
    memset(output, 0, sizeof(Output))
    output.file, output.start, output.narrows, output.checks_bits = file, position, narrows, max_id < 0xFFFFFFFF
    if (narrows or output.checks_bits) and position % (2 if narrows else 4):
        raise ValueError(f"position is {position}; ids begin at a multiple of their size")
    output.maps = threads >= MIN_MAPPING_THREADS and is_on_tmpfs(file)
    output.lock = PyThread_allocate_lock()
    check_allocated(<void*>output.lock, 1, b"lock")
    return 0


cdef void close_output(Output* output) noexcept:
    """Unmap what is still mapped, after all threads are done."""
    cdef int i
    for i in range(N_WINDOWS):
        if output.windows[i].pages != NULL:
            unmap(output.windows[i].pages, WINDOW_BYTES)
            output.windows[i].pages = NULL
    if output.lock != NULL:
        PyThread_free_lock(output.lock)
        output.lock = NULL


cdef struct Piece:
    int64_t start             # in the file
    Py_ssize_t size


cdef inline Piece find_bounds(int64_t start, int64_t n_bytes, Py_ssize_t index) noexcept nogil:
    """Find a piece of some bytes in the file: it begins at a multiple of `PIECE_BYTES`, but for the first one, and ends
    at one.
    """
    cdef int64_t boundary = (start // PIECE_BYTES + index) * PIECE_BYTES
    cdef int64_t piece_start = max(boundary, start), end = min(boundary + PIECE_BYTES, start + n_bytes)
    return Piece(piece_start, end - piece_start)


cdef int write_pieces(void* data, int part) except -1 nogil:
    """Write the next piece until there is none: the work of one thread."""
    cdef Writing* job = <Writing*>data
    cdef Output* output = job.output
    cdef byte_t* buffer = NULL
    cdef Py_ssize_t index
    cdef uint32_t bits = 0
    cdef Piece piece
    if output.narrows:
        buffer = <byte_t*>check_allocated(malloc(PIECE_BYTES), PIECE_BYTES, b"bytes of a buffer")
    try:
        while not load(&output.error):
            index = take_next(&job.next_piece)
            if index >= job.n_pieces:
                break
            piece = find_bounds(output.start, job.n_bytes, index)
            job.crcs[index] = write_piece(
                output, piece, job.data + (piece.start - output.start) * (2 if output.narrows else 1), buffer, &bits
            )
    finally:
        free(buffer)
        add_bits(&job.bits, bits)
    return 0


cdef uint32_t write_piece(
    Output* output, Piece piece, const byte_t* source, byte_t* buffer, uint32_t* bits
) except? 0 nogil:
    """Convert, sum and write a piece; return its CRC, and add the bits of its ids to `bits`.

    `buffer` has room for the piece, if ids are narrowed.
    """
    cdef byte_t* pages = map_piece(output, piece) if output.maps else NULL
    cdef byte_t* target = buffer if pages == NULL else pages
    cdef uint32_t crc
    if output.narrows:
        bits[0] |= narrow_ids(<uint16_t*>target, <const uint32_t*>source, piece.size // 2)
        source = target
    else:
        if output.checks_bits:
            bits[0] |= gather_bits(<const uint32_t*>source, piece.size // 4)
        if pages != NULL:
            memcpy(target, source, piece.size)
    crc = add_crc32(0, source, piece.size)
    if pages == NULL:
        write_whole(output, source, piece)
    if output.maps:
        finish_piece(output, piece)
    return crc


cdef byte_t* map_piece(Output* output, Piece piece) noexcept nogil:
    """Find the memory for a piece in its window, which is mapped for the first one; NULL if that is not possible."""
    cdef int64_t start = piece.start // WINDOW_BYTES * WINDOW_BYTES, offset = piece.start - start
    cdef Window* window = &output.windows[start // WINDOW_BYTES % N_WINDOWS]
    cdef Py_ssize_t lead = offset % PAGE_BYTES
    cdef byte_t* pages = NULL
    PyThread_acquire_lock(output.lock, WAIT_LOCK)
    if window.pages == NULL and extend_file(output.file, start + WINDOW_BYTES):
        window.pages, window.start = map_to_write(output.file, start, WINDOW_BYTES), start
        window.n_left = start + WINDOW_BYTES - max(start, output.start)
    if window.pages != NULL and window.start == start:
        pages = window.pages + offset
    PyThread_release_lock(output.lock)
    if pages != NULL and not populate(pages - lead, lead + piece.size):
        return NULL
    return pages


cdef void finish_piece(Output* output, Piece piece) noexcept nogil:
    """Note that a piece is written; its window is unmapped if it was the last one."""
    cdef int64_t start = piece.start // WINDOW_BYTES * WINDOW_BYTES
    cdef Window* window = &output.windows[start // WINDOW_BYTES % N_WINDOWS]
    cdef byte_t* unused = NULL
    PyThread_acquire_lock(output.lock, WAIT_LOCK)
    if window.pages != NULL and window.start == start:
        window.n_left -= piece.size
        if window.n_left == 0:
            unused, window.pages = window.pages, NULL
    PyThread_release_lock(output.lock)
    if unused != NULL:
        unmap(unused, WINDOW_BYTES)


cdef int write_whole(Output* output, const byte_t* data, Piece piece) except -1 nogil:
    """Write all bytes of a piece, unless another thread has met an error."""
    cdef Py_ssize_t n_written
    PyThread_acquire_lock(output.lock, WAIT_LOCK)
    try:
        while piece.size and not load(&output.error):
            n_written = write_bytes_at(output.file, data, piece.size, piece.start)
            if n_written >= 0:
                data += n_written
                piece.start += n_written
                piece.size -= n_written
            elif errno == EINTR:
                check_signals()
            else:
                store(&output.error, errno)
    finally:
        PyThread_release_lock(output.lock)
    return 0


cdef class FileTarget(IdTarget):
    """Writes ids to a file: those of each part in the thread that hands it over.

    Args:
        file, position, path, narrows, max_id: as for `write_at`.
        max_ids: as for `IdTarget`.
        threads: the number of threads that write.

    """

    cdef Output output
    cdef uint32_t moved_crcs               # of all parts, added up as for `move_crc_back`
    cdef int64_t n_bytes, n_unsynced
    cdef uint32_t max_id
    cdef object path

    def __cinit__(
        self, int file, Py_ssize_t position, Py_ssize_t max_ids, Py_ssize_t threads, str path, *, bint narrows=False,
        uint32_t max_id=0xFFFFFFFF,
    ):
        self.max_ids, self.max_id, self.path = max_ids, max_id, path
        open_output(&self.output, file, position, narrows, max_id, threads)

    def __dealloc__(self):
        close_output(&self.output)

    cdef int write(self, Py_ssize_t start, const token_t* ids, Py_ssize_t n) except -1 nogil:
        """Convert, sum and write the ids of a part, of which `start` were before."""
        cdef Py_ssize_t item_size = 2 if self.output.narrows else 4, i = 0
        cdef int64_t n_bytes = n * item_size, position = self.output.start + start * item_size
        cdef const byte_t* source = <const byte_t*>ids
        cdef byte_t* buffer = NULL
        cdef uint32_t crc = 0, bits = 0
        cdef Piece piece
        if self.output.narrows:
            buffer = <byte_t*>check_allocated(malloc(min(n_bytes, PIECE_BYTES)), n, b"ids of a buffer")
        try:
            while True:
                piece = find_bounds(position, n_bytes, i)
                crc = combine_crcs(crc, write_piece(&self.output, piece, source, buffer, &bits), piece.size)
                source += piece.size * (2 if self.output.narrows else 1)
                i += 1
                if piece.start + piece.size == position + n_bytes:
                    break
        finally:
            free(buffer)
        if load(&self.output.error) or (self.output.checks_bits and bits > self.max_id):
            with gil:
                raise_for_part(self, ids, n)
        self.add(move_crc_back(crc, start * item_size + n_bytes), n_bytes, position + n_bytes)
        return 0

    cdef void add(self, uint32_t moved_crc, int64_t n_bytes, int64_t end) noexcept nogil:
        """Add the CRC of a part that ends at a position of the file, and begin to write to the disk now and then."""
        cdef int64_t n_to_sync = 0
        PyThread_acquire_lock(self.output.lock, WAIT_LOCK)
        self.moved_crcs ^= moved_crc
        self.n_bytes += n_bytes
        self.n_unsynced += n_bytes
        if self.n_unsynced >= SYNC_BYTES and not self.output.maps:
            n_to_sync, self.n_unsynced = self.n_unsynced, 0
        PyThread_release_lock(self.output.lock)
        if n_to_sync:
            begin_sync(self.output.file, max(end - n_to_sync, self.output.start), n_to_sync)

    def finish(self):
        """End the writing, after all threads are done; returns the number of bytes, and their CRC-32."""
        close_output(&self.output)
        return self.n_bytes, combine_crcs(self.moved_crcs, 0, self.n_bytes)


cdef int raise_for_part(FileTarget target, const token_t* ids, Py_ssize_t n) except -1:
    """Raise the error of a part: of the file, or for an id that is too large."""
    from bpe.errors import make_id_error

    cdef token_t largest = 0
    cdef Py_ssize_t i
    if load(&target.output.error):
        raise OSError(target.output.error, os.strerror(target.output.error), target.path)
    for i in range(n):
        largest = max(largest, ids[i])
    raise make_id_error(largest, "uint16" if target.output.narrows else "int32", target.max_id)
