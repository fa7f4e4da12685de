"""Memory in whole pages, for large tables and large results; the header says why.

A table that is looked up at random touches a page per look-up; with pages of 4 KB the look-ups of their addresses miss
too (Korean counting 186 -> 202 MB/s, and fewer pages to clear one by one).
"""

cdef extern from "bpe/base/_pages.h" nogil:
    void trim_heap "bpe_trim_heap"()                            # what is free goes back to the system, as far as it can
    # NULL without memory; give it back with `release` and the same size.
    void* allocate_zeroed "bpe_zeroed"(size_t size)
    # NULL without memory: then `data` is as before.
    void* grow_zeroed "bpe_grow_zeroed"(void* data, size_t size, size_t larger)
    void release "bpe_release"(void* data, size_t size)         # frees what the two above returned
    void ask_for_huge_pages "bpe_ask_for_huge_pages"(void* start, size_t size)
    # Gives the pages from `begin` on back to the system. Returns whether that worked.
    bint drop_pages "bpe_drop_pages"(void* data, size_t begin, size_t size)
    void forget_mapped "bpe_forget_mapped"(const void* start, size_t size)   # pages of a file, mapped for reading
