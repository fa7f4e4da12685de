"""Ctrl-C in the middle of a long call.

A signal handler runs in the main thread, and only while that holds the GIL. So a kernel that works without the GIL
takes it from time to time to let handlers run. Its clock is the number of ids that it has written, since reading a real
one takes longer. It polls at most ten times a second. Another thread may hold the GIL for 5 milliseconds or more; the
longer a poll waited for it, the later is the next one, after half a second at most, so that waits take a fortieth of
the time. An exception of the handler, usually KeyboardInterrupt, ends the call like any other error. Other threads end
when `stopped` is set.
"""

from threading import get_ident, main_thread

from bpe.base._atomic cimport load
from bpe.base._system cimport read_clock
from cpython.exc cimport PyErr_CheckSignals

cdef Py_ssize_t poll_interval = 1 << 22          # ids between two polls
cdef double min_wait = 0.1                       # seconds between two polls that take the GIL
cdef double max_wait = 0.5                       # or `WAIT_FACTOR` times as long as it took to get it, up to this
cdef enum:
    WAIT_FACTOR = 40


class StoppedError(Exception):
    """Another thread has stopped the work."""


def set_poll_interval(Py_ssize_t ids):
    """Set the ids between two polls, each of which takes the GIL, for tests. Returns the previous number."""
    global poll_interval, min_wait
    previous, poll_interval, min_wait = poll_interval, ids, 0
    return previous


cdef void begin_watch(Watch* watch) noexcept nogil:
    """Start the watch of a call."""
    watch.next, watch.next_time, watch.not_main, watch.stopped = poll_interval, 0, False, NULL


cdef int begin_long_watch(Watch* watch) except -1:
    """Start the watch of a thread that has the GIL, which need not take it again at once to poll."""
    begin_watch(watch)
    watch.next_time = read_clock() + min_wait
    watch.not_main = get_ident() != main_thread().ident
    return 0


cdef int poll(Watch* watch, size_t n) except -1 nogil:
    """Check, when n ids are written, whether to stop; let signal handlers run in the main thread.

    Raises:
        StoppedError: if another thread has stopped the work. Signal handlers may raise any exception.

    """
    watch.next = n + poll_interval
    if watch.stopped != NULL and load(watch.stopped):
        with gil:
            raise StoppedError
    if watch.not_main or (min_wait and read_clock() < watch.next_time):
        return 0
    cdef double start = read_clock()
    with gil:
        watch.next_time = start + min(max(min_wait, WAIT_FACTOR * (read_clock() - start)), max_wait)
        watch.not_main = get_ident() != main_thread().ident
        return PyErr_CheckSignals()


cdef int check_signals() except -1 nogil:
    """Let signal handlers run, if this is the main thread."""
    with gil:
        return PyErr_CheckSignals()
