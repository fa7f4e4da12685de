/* What kernels ask of the operating system, besides memory (_pages.h): files, mappings of files, time.
 *
 * Each function does on all systems what its comment says; an error is -1, or NULL, and `errno`. Descriptors are those of
 * Python's `os.open`. A path is encoded as `os.fsencode` does, which on Windows is UTF-8.
 */
#ifndef BPE_SYSTEM_H
#define BPE_SYSTEM_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#if defined(_WIN32)

#define WIN32_LEAN_AND_MEAN
#include <io.h>
#include <windows.h>

enum { BPE_MAX_PATH = 1 << 15 }; /* UTF-16 units, with the 0 */

/* The times of Windows count 100 ns from the year 1601. */
static inline int64_t bpe_to_unix_ns(FILETIME time)
{
    return ((int64_t)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) - 116444736000000000) * 100;
}

/* The path in UTF-16; -1, and `errno`, if it is not valid or too long. */
static inline int bpe_widen_path(const char *path, wchar_t *wide)
{
    if (*path && MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, BPE_MAX_PATH))
        return 0;
    errno = ENOENT;
    return -1;
}

static inline HANDLE bpe_handle_of(int file) { return (HANDLE)_get_osfhandle(file); }

static inline int bpe_get_file_state(int file, Py_ssize_t *size, int64_t *modified)
{
    BY_HANDLE_FILE_INFORMATION status;
    if (GetFileType(bpe_handle_of(file)) != FILE_TYPE_DISK || !GetFileInformationByHandle(bpe_handle_of(file), &status)) {
        errno = ESPIPE;
        return -1;
    }
    *size = (Py_ssize_t)((uint64_t)status.nFileSizeHigh << 32 | status.nFileSizeLow);
    *modified = bpe_to_unix_ns(status.ftLastWriteTime);
    return 0;
}

static inline int bpe_read_stamp(const char *path, int64_t *size, int64_t *seconds, int64_t *nanoseconds)
{
    wchar_t wide[BPE_MAX_PATH];
    WIN32_FILE_ATTRIBUTE_DATA status;
    int64_t modified;
    if (bpe_widen_path(path, wide) < 0)
        return -1;
    if (!GetFileAttributesExW(wide, GetFileExInfoStandard, &status) ||
        status.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) { /* a link, which `os.stat` follows */
        errno = ENOENT;
        return -1;
    }
    modified = bpe_to_unix_ns(status.ftLastWriteTime);
    *size = (int64_t)((uint64_t)status.nFileSizeHigh << 32 | status.nFileSizeLow);
    *seconds = modified / 1000000000;
    *nanoseconds = modified % 1000000000;
    return 0;
}

static inline int bpe_is_regular(const char *path)
{
    wchar_t wide[BPE_MAX_PATH];
    DWORD attributes = bpe_widen_path(path, wide) < 0 ? INVALID_FILE_ATTRIBUTES : GetFileAttributesW(wide);
    return attributes != INVALID_FILE_ATTRIBUTES &&
           !(attributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE | FILE_ATTRIBUTE_REPARSE_POINT));
}

static inline int bpe_open_to_read(const char *path)
{
    wchar_t wide[BPE_MAX_PATH];
    return bpe_widen_path(path, wide) < 0 ? -1 : _wopen(wide, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
}

static inline int bpe_close_descriptor(int file) { return _close(file); }

static inline DWORD bpe_min_dword(size_t n) { return n < 1 << 30 ? (DWORD)n : 1 << 30; }

static inline Py_ssize_t bpe_read_bytes_at(int file, void *data, size_t n, int64_t position)
{
    OVERLAPPED at = {.Offset = (DWORD)position, .OffsetHigh = (DWORD)(position >> 32)};
    DWORD n_read = 0;
    if (ReadFile(bpe_handle_of(file), data, bpe_min_dword(n), &n_read, &at) || GetLastError() == ERROR_HANDLE_EOF)
        return n_read;
    errno = EIO;
    return -1;
}

static inline Py_ssize_t bpe_write_bytes_at(int file, const void *data, size_t n, int64_t position)
{
    OVERLAPPED at = {.Offset = (DWORD)position, .OffsetHigh = (DWORD)(position >> 32)};
    DWORD n_written = 0;
    if (WriteFile(bpe_handle_of(file), data, bpe_min_dword(n), &n_written, &at))
        return n_written;
    errno = GetLastError() == ERROR_DISK_FULL ? ENOSPC : EIO;
    return -1;
}

static inline size_t bpe_mapping_step(void)
{
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return system.dwAllocationGranularity;
}

static inline void *bpe_map_to_read(int file, size_t start, size_t size)
{
    HANDLE mapping = CreateFileMappingW(bpe_handle_of(file), NULL, PAGE_READONLY, 0, 0, NULL);
    void *data = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, (DWORD)((uint64_t)start >> 32), (DWORD)start, size) : NULL;
    if (mapping)
        CloseHandle(mapping); /* the view keeps it */
    if (!data)
        errno = ENOMEM;
    return data;
}

static inline void bpe_unmap(void *data, size_t size) { (void)size, UnmapViewOfFile(data); }

static inline void bpe_begin_sync(int file, int64_t start, int64_t n) { (void)start, (void)n, _commit(file); }

static inline double bpe_read_clock(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    return (double)ticks.QuadPart / (double)per_second.QuadPart;
}

static inline void bpe_sleep(int microseconds) { Sleep((DWORD)(microseconds + 999) / 1000); }

#else

#include <sys/mman.h>
#include <unistd.h>

#if defined(__APPLE__)
#define BPE_MODIFIED st_mtimespec
#else
#define BPE_MODIFIED st_mtim
#endif

/* Get the size, and the time of the last change in ns, of an open file; an error if it is not regular or has none. */
static inline int bpe_get_file_state(int file, Py_ssize_t *size, int64_t *modified)
{
    struct stat status;
    if (fstat(file, &status) < 0)
        return -1;
    if (!S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : ESPIPE;
        return -1;
    }
    *size = (Py_ssize_t)status.st_size;
    *modified = (int64_t)status.BPE_MODIFIED.tv_sec * 1000000000 + status.BPE_MODIFIED.tv_nsec;
    return 0;
}

/* Read the size of a file and the time of its last change, as `os.stat` does. */
static inline int bpe_read_stamp(const char *path, int64_t *size, int64_t *seconds, int64_t *nanoseconds)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return -1;
    *size = (int64_t)status.st_size;
    *seconds = (int64_t)status.BPE_MODIFIED.tv_sec;
    *nanoseconds = (int64_t)status.BPE_MODIFIED.tv_nsec;
    return 0;
}

/* Whether a path is that of a regular file; 0 if it is not known. */
static inline int bpe_is_regular(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* Open a file for reading, without waiting for the writer of a pipe. */
static inline int bpe_open_to_read(const char *path)
{
    int file;
    do
        file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (file < 0 && errno == EINTR);
    return file;
}

static inline int bpe_close_descriptor(int file) { return close(file); }

/* Read or write up to n bytes at a position of a file; returns their number. Windows moves the file's own position. */
static inline Py_ssize_t bpe_read_bytes_at(int file, void *data, size_t n, int64_t position)
{
    return pread(file, data, n, (off_t)position);
}
static inline Py_ssize_t bpe_write_bytes_at(int file, const void *data, size_t n, int64_t position)
{
    return pwrite(file, data, n, (off_t)position);
}

/* What the beginning of a mapping must be a multiple of. */
static inline size_t bpe_mapping_step(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Map bytes of a file for reading. The mapping stays when the file is closed. */
static inline void *bpe_map_to_read(int file, size_t start, size_t size)
{
    void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, file, (off_t)start);
    return data == MAP_FAILED ? NULL : data;
}
static inline void bpe_unmap(void *data, size_t size) { munmap(data, size); }

/* Begin to write bytes of a file to the disk; elsewhere than on Linux, wait until all of it is there. Errors are left to
 * the file's last `os.fsync`, which has them too. */
static inline void bpe_begin_sync(int file, int64_t start, int64_t n)
{
#if defined(__linux__)
    sync_file_range(file, start, n, SYNC_FILE_RANGE_WRITE);
#else
    (void)start, (void)n;
    fsync(file);
#endif
}

/* Read a clock, in seconds; it takes some 25 ns. */
static inline double bpe_read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void bpe_sleep(int microseconds) { usleep((useconds_t)microseconds); }

#endif

static inline void bpe_set_errno(int code) { errno = code; }

/* Open a regular file for reading, and get its state. */
static inline int bpe_open_file(const char *path, Py_ssize_t *size, int64_t *modified)
{
    int code, file = bpe_open_to_read(path);
    if (file >= 0 && bpe_get_file_state(file, size, modified) < 0) {
        code = errno;
        bpe_close_descriptor(file);
        errno = code;
        return -1;
    }
    return file;
}

#endif
