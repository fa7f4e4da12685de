"""Touching a large new result's memory in the pages that are cheapest; the header says why."""

cdef extern from "bpe/base/_prefault.h" nogil:
    ctypedef struct Fresh "bpe_fresh":
        int slow                                 # no pages of 2 MB are taken: one has come slowly
    void fresh_begin "bpe_fresh_begin"(Fresh* fresh, void* start, size_t size)   # new memory, written front to back
    void fresh_behind "bpe_fresh_behind"(Fresh* fresh, const void* place)        # up to here it was touched before
    size_t fresh_touched "bpe_fresh_touched"(const Fresh* fresh, const void* start)  # bytes from there on
    void fresh_reach "bpe_fresh_reach"(Fresh* fresh, const void* place)          # it will be written up to here soon
    void fresh_part "bpe_fresh_part"(Fresh* fresh, const void* place, Fresh* part)  # what is before `place`, apart
    void fresh_end "bpe_fresh_end"(void* start, size_t size)                     # before its memory is reallocated
    void fresh_join "bpe_fresh_join"(Fresh* fresh, const Fresh* part)            # when the part has been reached
