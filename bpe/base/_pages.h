/* Memory in whole pages: zeroed tables, and large results. */
#ifndef BPE_PAGES_H
#define BPE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#define BPE_HUGE ((size_t)1 << 21) /* on x86-64, and on most others; a wrong guess costs nothing but speed */

static inline size_t bpe_whole_pages(size_t size) { return (size + BPE_HUGE - 1) & ~(BPE_HUGE - 1); }

#if defined(__linux__) && defined(MADV_HUGEPAGE)

/* Of a multiple of 2 MB, at a multiple of 2 MB. */
static inline void *bpe_map_pages(size_t size) {
    char *all = (char *)mmap(NULL, size + BPE_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;
    if (all == (char *)MAP_FAILED) return NULL;
    before = (size_t)(-(uintptr_t)all & (BPE_HUGE - 1));
    if (before) munmap(all, before);
    munmap(all + before + size, BPE_HUGE - before);
    return all + before;
}

/* Let the pages from a position on go; whether they went. */
static inline int bpe_drop_pages(void *data, size_t from, size_t size) {
    size = bpe_whole_pages(size);
    from = bpe_whole_pages(from);
    return from >= size || madvise((char *)data + from, size - from, MADV_DONTNEED) == 0;
}

/* Let the pages of a file that is mapped for reading go; they are read again when they are used. */
static inline void bpe_forget_mapped(const void *start, size_t size) {
    size_t page = 4096, first = ((size_t)start + page - 1) & ~(page - 1), end = ((size_t)start + size) & ~(page - 1);
    if (first < end) (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

static inline void *bpe_zeroed(size_t size) {
    void *data;
    if (size < BPE_HUGE) return calloc(size, 1);
    data = bpe_map_pages(bpe_whole_pages(size));
    if (data) madvise(data, bpe_whole_pages(size), MADV_HUGEPAGE);
    return data;
}

static inline void bpe_release(void *data, size_t size) {
    if (size < BPE_HUGE) free(data);
    else if (data) munmap(data, bpe_whole_pages(size));
}

/* Move `data` to a larger block, whose other bytes are 0; NULL, and nothing is changed, if there is no memory. */
static inline void *bpe_grow_zeroed(void *data, size_t size, size_t larger) {
    void *moved;
    if (size >= BPE_HUGE) {
        moved = mremap(data, bpe_whole_pages(size), bpe_whole_pages(larger), MREMAP_MAYMOVE);
        return moved == MAP_FAILED ? NULL : moved;
    }
    moved = bpe_zeroed(larger);
    if (moved && size) memcpy(moved, data, size);
    if (moved) bpe_release(data, size);
    return moved;
}

/* For new memory from elsewhere, as NumPy asks for its arrays: clearing small pages took half of decoding. */
static inline void bpe_ask_for_huge_pages(void *start, size_t size) {
    size_t page = 4096, first = ((size_t)start + page - 1) & ~(page - 1), end = ((size_t)start + size) & ~(page - 1);
    if (size >= 2 * BPE_HUGE) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
}

#else

static inline int bpe_drop_pages(void *data, size_t from, size_t size) { (void)data; return from >= size; }
static inline void bpe_forget_mapped(const void *start, size_t size) { (void)start; (void)size; }
static inline void *bpe_zeroed(size_t size) { return calloc(size, 1); }
static inline void bpe_release(void *data, size_t size) { (void)size; free(data); }
static inline void *bpe_grow_zeroed(void *data, size_t size, size_t larger) {
    char *moved = (char *)realloc(data, larger);
    if (moved) memset(moved + size, 0, larger - size);
    return moved;
}
static inline void bpe_ask_for_huge_pages(void *start, size_t size) { (void)start; (void)size; }

#endif

static inline void bpe_trim_heap(void) {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

#endif
