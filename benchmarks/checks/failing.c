/* Calls of the system that fail when they are told to, for check_failures.py: a library to preload on Linux.
 *
 * `failing_arm(kind, n, mode, code)` lets the n-th call of a kind from now on fail, in a mode; n is from 1. With n = 0
 * nothing fails, and `failing_count(kind)` says how many calls there were. Memory and mappings fail only where a library
 * in the folder of `failing_use` asks for them: those of the interpreter are not what is checked.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum { MEMORY, MAPPING, OPEN, READ, WRITE, RESIZE, SYNC, RENAME, THREAD, N_KINDS };
enum { ONCE, FROM_THEN_ON, SHORT };
enum { MAX_RANGES = 256 };

static atomic_int armed = -1;      /* the kind, or -1 */
static atomic_long counts[N_KINDS], fail_at;
static atomic_int fail_mode, fail_code;
static struct { uintptr_t begin, end; } ranges[MAX_RANGES];
static int n_ranges;

static int add_ranges(struct dl_phdr_info *info, size_t size, void *folder)
{
    (void)size;
    for (int i = 0; strncmp(info->dlpi_name, folder, strlen(folder)) == 0 && i < info->dlpi_phnum && n_ranges < MAX_RANGES; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            ranges[n_ranges].begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            ranges[n_ranges].end = ranges[n_ranges].begin + info->dlpi_phdr[i].p_memsz;
            n_ranges++;
        }
    return 0;
}

/* Note where the code of the libraries in a folder is; returns in how many parts. */
int failing_use(const char *folder)
{
    n_ranges = 0;
    dl_iterate_phdr(add_ranges, (void *)folder);
    return n_ranges;
}

void failing_arm(int kind, long n, int mode, int code)
{
    armed = -1;
    for (int i = 0; i < N_KINDS; i++)
        counts[i] = 0;
    fail_at = n;
    fail_mode = mode;
    fail_code = code;
    armed = kind;
}

void failing_disarm(void) { armed = -1; }

long failing_count(int kind) { return counts[kind]; }

/* Whether this call has to fail; sets `errno`. */
static int fails(int kind)
{
    if (armed != kind)
        return 0;
    long number = ++counts[kind];
    if (fail_at == 0 || (fail_mode == FROM_THEN_ON ? number < fail_at : number != fail_at))
        return 0;
    errno = fail_code;
    return 1;
}

/* Whether the n-th call has to do less than it was asked for. */
static int is_short(int kind) { return armed == kind && fail_mode == SHORT; }

static int is_ours(void *caller)
{
    for (int i = 0; i < n_ranges; i++)
        if (ranges[i].begin <= (uintptr_t)caller && (uintptr_t)caller < ranges[i].end)
            return 1;
    return 0;
}

#define FAILS_MEMORY (armed == MEMORY && is_ours(__builtin_return_address(0)) && fails(MEMORY))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t n) { return FAILS_MEMORY ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return FAILS_MEMORY ? NULL : __libc_calloc(n, size); }
void *realloc(void *old, size_t n) { return FAILS_MEMORY ? NULL : __libc_realloc(old, n); }
void *aligned_alloc(size_t step, size_t n) { return FAILS_MEMORY ? NULL : __libc_memalign(step, n); }
int posix_memalign(void **out, size_t step, size_t n)
{
    if (FAILS_MEMORY)
        return ENOMEM;
    void *data = __libc_memalign(step, n);
    *out = data ? data : *out;
    return data ? 0 : ENOMEM;
}

void *mmap(void *address, size_t n, int protection, int flags, int file, off_t offset)
{
    if (armed == MAPPING && is_ours(__builtin_return_address(0)) && fails(MAPPING))
        return MAP_FAILED;
    return REAL(mmap)(address, n, protection, flags, file, offset);
}
void *mmap64(void *address, size_t n, int protection, int flags, int file, off64_t offset)
{
    if (armed == MAPPING && is_ours(__builtin_return_address(0)) && fails(MAPPING))
        return MAP_FAILED;
    return REAL(mmap64)(address, n, protection, flags, file, offset);
}

#define MODE(flags) \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);

int open(const char *path, int flags, ...)
{
    MODE(flags)
    return fails(OPEN) ? -1 : REAL(open)(path, flags, mode);
}
int open64(const char *path, int flags, ...)
{
    MODE(flags)
    return fails(OPEN) ? -1 : REAL(open64)(path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...)
{
    MODE(flags)
    return fails(OPEN) ? -1 : REAL(openat)(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...)
{
    MODE(flags)
    return fails(OPEN) ? -1 : REAL(openat64)(folder, path, flags, mode);
}

/* The bytes to read or write: fewer where the call has to be short; -1 where it fails. */
static ssize_t choose_size(int kind, size_t n)
{
    if (!fails(kind))
        return (ssize_t)n;
    return is_short(kind) ? (ssize_t)(n + 1) / 2 : -1;
}

#define TRANSFER(kind, call) \
    ssize_t size = choose_size(kind, n); \
    return size < 0 ? -1 : call;

ssize_t read(int file, void *data, size_t n) { TRANSFER(READ, REAL(read)(file, data, size)) }
ssize_t pread(int file, void *data, size_t n, off_t at) { TRANSFER(READ, REAL(pread)(file, data, size, at)) }
ssize_t pread64(int file, void *data, size_t n, off64_t at) { TRANSFER(READ, REAL(pread64)(file, data, size, at)) }
ssize_t write(int file, const void *data, size_t n) { TRANSFER(WRITE, REAL(write)(file, data, size)) }
ssize_t pwrite(int file, const void *data, size_t n, off_t at) { TRANSFER(WRITE, REAL(pwrite)(file, data, size, at)) }
ssize_t pwrite64(int file, const void *data, size_t n, off64_t at) { TRANSFER(WRITE, REAL(pwrite64)(file, data, size, at)) }

int ftruncate(int file, off_t n) { return fails(RESIZE) ? -1 : REAL(ftruncate)(file, n); }
int ftruncate64(int file, off64_t n) { return fails(RESIZE) ? -1 : REAL(ftruncate64)(file, n); }
int fsync(int file) { return fails(SYNC) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fails(SYNC) ? -1 : REAL(fdatasync)(file); }
int rename(const char *old, const char *new) { return fails(RENAME) ? -1 : REAL(rename)(old, new); }
int renameat(int from, const char *old, int to, const char *new)
{
    return fails(RENAME) ? -1 : REAL(renameat)(from, old, to, new);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *settings, void *(*run)(void *), void *argument)
{
    return fails(THREAD) ? EAGAIN : REAL(pthread_create)(thread, settings, run, argument);
}
