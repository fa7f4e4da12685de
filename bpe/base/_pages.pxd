"""Memory in whole pages, for large tables and large results; the header says why.

A table that is looked up at random touches a page per look-up; with pages of 4 KB the look-ups of their addresses miss
too (Korean counting 186 -> 202 MB/s, and fewer pages to clear one by one).
"""

cdef extern from "bpe/base/_pages.h" nogil:
    const size_t HUGE "BPE_HUGE"                                # bytes of a large page
    void trim_heap "bpe_trim_heap"()                            # what is free goes back to the system, as far as it can
    void* zeroed "bpe_zeroed"(size_t size)                      # NULL where there is none; to be given back by
    void release "bpe_release"(void* data, size_t size)         # this, with the same size
    void ask_for_huge_pages "bpe_ask_for_huge_pages"(void* start, size_t size)
    # Beyond Linux there is nothing of these: `map_pages` returns NULL.
    void* map_pages "bpe_map_pages"(size_t size)                # whole large pages, of zeros; NULL where there are none
    void unmap_pages "bpe_unmap_pages"(void* start, size_t size)
    bint move_page "bpe_move_page"(void* page, void* place)     # a large page to a mapped place; if not, that is lost
    bint offer_pages "bpe_offer_pages"(void* start, size_t size)  # the system may take them until they are written to
