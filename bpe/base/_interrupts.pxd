"""When a kernel that runs without the GIL looks for signals."""

cdef extern from *:
    const Py_ssize_t NEVER_AGAIN "PY_SSIZE_T_MAX"

cdef struct Watch:            # of one call in one thread; the ids that it writes are its clock
    Py_ssize_t next           # how many ids there are when it looks again
    bint apart                # it is not the main thread, which alone gets signals
    const Py_ssize_t* stopped  # not 0 when another thread has ended the work; NULL where there is none


cdef void begin_watch(Watch* watch) noexcept nogil

cdef int look(Watch* watch, size_t n) except -1 nogil

cdef int hear() except -1 nogil


cdef inline void end_watch(Watch* watch) noexcept nogil:
    """A call is over; short ones, which begin no watch, never look."""
    watch.next, watch.stopped = NEVER_AGAIN, NULL


cdef inline int look_if_due(Watch* watch, size_t n) except -1 nogil:
    """Look for a reason to end when n ids are written, if the last look was long ago."""
    if <Py_ssize_t>n >= watch.next:
        return look(watch, n)
    return 0
