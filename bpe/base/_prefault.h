/* Touching a large new result's memory before it is written to, in the pages that are cheapest here and now.
 *
 * The first touch of a page is a fault. Clearing 110 MB takes 60 ms by faults of 4 KB, 38 where the kernel is asked for
 * 256 KB at a time, 11 in pages of 2 MB. But a virtual machine may not have been given the memory by its host yet, which
 * then takes milliseconds for each 2 MB, while small pages come from what it has: so pages of 2 MB are taken until
 * one takes too long.
 */
#ifndef BPE_FRESH_H
#define BPE_FRESH_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *next; /* what lies before it has been touched */
    char *end;
    int slow;   /* a page of 2 MB took too long */
} bpe_fresh;

#if defined(__linux__)
#include <sys/mman.h>
#include <time.h>
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; an older one refuses it */
#endif
#define BPE_FRESH_HUGE ((size_t)1 << 21)
#define BPE_FRESH_STEP ((size_t)1 << 18)
#define BPE_FRESH_QUICK 1000000 /* nanoseconds for 2 MB: clearing takes 200,000 */

/* The thread's own time: what the host takes to give memory counts, and other processes that have the core do not. */
static inline int64_t bpe_fresh_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
#endif

/* Before memory that was touched in both kinds of pages is given to realloc: one that has them mixed is copied where it
 * could be moved by its page tables, and is there twice while it is copied.
 */
static inline void bpe_fresh_end(void *start, size_t size) {
#if defined(__linux__)
    char *first = (char *)((uintptr_t)start & ~(uintptr_t)4095);
    if (size >= 2 * BPE_FRESH_HUGE) (void)madvise(first, (size_t)((char *)start + size - first), MADV_HUGEPAGE);
#else
    (void)start; (void)size;
#endif
}

/* Begin with new memory that will be written from its start to its end. */
static inline void bpe_fresh_begin(bpe_fresh *fresh, void *start, size_t size) {
#if defined(__linux__)
    fresh->next = (char *)(((uintptr_t)start + 4095) & ~(uintptr_t)4095);
    fresh->end = (char *)(((uintptr_t)start + size) & ~(uintptr_t)4095);
    fresh->slow = 0;
    if (size < 2 * BPE_FRESH_HUGE) fresh->end = fresh->next; /* perhaps memory that was used before */
#else
    (void)start; (void)size;
    fresh->next = fresh->end = NULL;
#endif
}

/* What lies before `place` has been touched by others. */
static inline void bpe_fresh_behind(bpe_fresh *fresh, const void *place) {
    if (fresh->next < (const char *)place) fresh->next = (char *)place < fresh->end ? (char *)place : fresh->end;
}

/* How much of memory that begins at `start` has been touched. */
static inline size_t bpe_fresh_touched(const bpe_fresh *fresh, const void *start) {
    return fresh->next > (const char *)start ? (size_t)(fresh->next - (const char *)start) : 0;
}

/* Touch it up to `place` and a little beyond; what is not touched by this is touched by writing to it. */
static inline void bpe_fresh_reach(bpe_fresh *fresh, const void *place) {
#if defined(__linux__)
    while (fresh->next < fresh->end && fresh->next < (const char *)place + BPE_FRESH_STEP) {
        size_t left = (size_t)(fresh->end - fresh->next), step = left < BPE_FRESH_STEP ? left : BPE_FRESH_STEP;
        size_t before = (size_t)(-(uintptr_t)fresh->next & (BPE_FRESH_HUGE - 1)); /* the next page of 2 MB */
        int64_t began = 0;
        if (!fresh->slow && before == 0 && left >= BPE_FRESH_HUGE) {
            step = BPE_FRESH_HUGE;
            (void)madvise(fresh->next, step, MADV_HUGEPAGE);
            began = bpe_fresh_now();
        } else if (before && before < step) {
            step = before;
        }
        if (madvise(fresh->next, step, MADV_POPULATE_WRITE) != 0) {
            (void)madvise(fresh->next, left, MADV_HUGEPAGE);
            fresh->end = fresh->next;
            return;
        }
        fresh->next += step;
        if (began && bpe_fresh_now() - began > BPE_FRESH_QUICK) {
            fresh->slow = 1;
            (void)madvise(fresh->next, left - step, MADV_NOHUGEPAGE); /* for all of it, where memory has grown */
        }
    }
#else
    (void)fresh; (void)place;
#endif
}

/* Hand on what lies before `place`, in whole pages of 2 MB, for `part` to reach while another thread begins behind it. */
static inline void bpe_fresh_part(bpe_fresh *fresh, const void *place, bpe_fresh *part) {
    *part = *fresh;
#if defined(__linux__)
    char *end = (char *)(((uintptr_t)place + BPE_FRESH_HUGE - 1) & ~(BPE_FRESH_HUGE - 1));
    if (end > fresh->end) end = fresh->end;
    part->end = end > fresh->next ? end : fresh->next;
    fresh->next = part->end;
#else
    (void)place;
#endif
}

/* When the part has been reached: what it has shown of the machine. */
static inline void bpe_fresh_join(bpe_fresh *fresh, const bpe_fresh *part) { fresh->slow |= part->slow; }

#endif
