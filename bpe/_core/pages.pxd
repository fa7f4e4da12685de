"""Memory for large tables: zeroed, and in huge pages where the system has them.

A table that is looked up at random touches a page per look-up; with pages of 4 KB the look-ups of their addresses miss
too (Korean counting 186 -> 202 MB/s, and fewer pages to clear one by one).
"""

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif
    #if defined(__GLIBC__)
    #include <malloc.h>
    #endif
    #define BPE_HUGE ((size_t)1 << 21)   /* on x86-64, and on most others; a wrong guess costs nothing but speed */
    static inline size_t bpe_whole_pages(size_t size) { return (size + BPE_HUGE - 1) & ~(BPE_HUGE - 1); }
    static inline void* bpe_zeroed(size_t size) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (size >= BPE_HUGE) {
            size_t whole = bpe_whole_pages(size), before;
            char* all = (char*)mmap(NULL, whole + BPE_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (all == (char*)MAP_FAILED) return NULL;
            before = (size_t)(-(uintptr_t)all & (BPE_HUGE - 1));
            if (before) munmap(all, before);
            munmap(all + before + whole, BPE_HUGE - before);
            madvise(all + before, whole, MADV_HUGEPAGE);
            return all + before;
        }
    #endif
        return calloc(size, 1);
    }
    static inline void bpe_release(void* data, size_t size) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (size >= BPE_HUGE) {
            if (data) munmap(data, bpe_whole_pages(size));
            return;
        }
    #endif
        free(data);
    }
    /* For new memory from elsewhere, as NumPy asks for its arrays: clearing small pages took half of decoding. */
    static inline void bpe_ask_for_huge_pages(void* start, size_t size) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        size_t page = 4096, first = ((size_t)start + page - 1) & ~(page - 1);
        size_t end = ((size_t)start + size) & ~(page - 1);
        if (size >= 2 * BPE_HUGE) (void)madvise((void*)first, end - first, MADV_HUGEPAGE);
    #else
        (void)start; (void)size;
    #endif
    }
    static inline void bpe_trim_heap(void) {
    #if defined(__GLIBC__)
        malloc_trim(0);
    #endif
    }
    """
    void trim_heap "bpe_trim_heap"() nogil                      # what is free goes back to the system, as far as it can
    void* zeroed "bpe_zeroed"(size_t size) nogil                # NULL where there is none; to be given back by
    void release "bpe_release"(void* data, size_t size) nogil   # this, with the same size
    void ask_for_huge_pages "bpe_ask_for_huge_pages"(void* start, size_t size) nogil
