"""Polling for signals in kernels that run without the GIL."""

cdef extern from *:
    const Py_ssize_t NEVER_AGAIN "PY_SSIZE_T_MAX"

cdef struct Watch:            # the watch of one call in one thread; the ids that the call writes are its clock
    Py_ssize_t next           # ids at the next poll
    double next_time          # before which a poll does not take the GIL, in seconds
    bint not_main             # this is not the main thread, which alone gets signals
    const Py_ssize_t* stopped  # not 0 after another thread has stopped the work; or NULL


cdef void begin_watch(Watch* watch) noexcept nogil

cdef int begin_long_watch(Watch* watch) except -1

cdef int poll(Watch* watch, size_t n) except -1 nogil

cdef int check_signals() except -1 nogil


cdef inline void end_watch(Watch* watch) noexcept nogil:
    """End the watch; a call without a watch, a short one, never polls."""
    watch.next, watch.stopped = NEVER_AGAIN, NULL


cdef inline int poll_if_due(Watch* watch, size_t n) except -1 nogil:
    """Poll when n ids are written, if the last poll was long ago."""
    if <Py_ssize_t>n >= watch.next:
        return poll(watch, n)
    return 0


cdef inline void restart_count(Watch* watch, size_t n) noexcept nogil:
    """Count from 0 again, now that the output of n ids is emptied."""
    watch.next -= n


cdef inline void count_work(Watch* watch, size_t n) noexcept nogil:
    """Count work that writes no ids as n ids."""
    watch.next -= n
