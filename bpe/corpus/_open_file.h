/* Opening a regular file, and what shows that it was changed: its size, and the time of its last change. */
#ifndef BPE_OPEN_FILE_H
#define BPE_OPEN_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#define BPE_MODIFIED st_mtimespec
#else
#define BPE_MODIFIED st_mtim
#endif

/* Get the size and the time, in ns, of an open file; -1, and `errno`, if it is not regular or has none. */
static inline int bpe_get_state(int file, Py_ssize_t *size, int64_t *modified)
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

/* Read the size of a file and the time of its last change, as `os.stat` does; -1, and `errno`. */
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

static inline void bpe_set_errno(int code)
{
    errno = code;
}

/* Open a regular file for reading: its descriptor; -1, and `errno`. It waits for no writer of a pipe. */
static inline int bpe_open_file(const char *path, Py_ssize_t *size, int64_t *modified)
{
    int file, code;
    do
        file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (file < 0 && errno == EINTR);
    if (file >= 0 && bpe_get_state(file, size, modified) < 0) {
        code = errno;
        close(file);
        errno = code;
        return -1;
    }
    return file;
}

#endif
