"""Ctrl-C in the middle of a long call.

A signal handler runs in the main thread, and only while that holds the GIL. So a kernel that works without the GIL
takes it from time to time to let handlers run. Its clock is the number of ids that it has written, since reading a real
one takes longer; it polls some ten times a second, since another thread may hold the GIL for 5 milliseconds. An
exception of the handler, usually KeyboardInterrupt, ends the call like any other error. Other threads end when
`stopped` is set.
"""

from threading import get_ident, main_thread

from bpe.base._atomic cimport load
from cpython.exc cimport PyErr_CheckSignals

cdef Py_ssize_t poll_interval = 1 << 22          # ids between two polls


class StoppedError(Exception):
    """Another thread has stopped the work."""


def set_poll_interval(Py_ssize_t ids):
    """Set the number of ids between two polls, for tests; the previous number."""
    global poll_interval
    previous, poll_interval = poll_interval, ids
    return previous


cdef void begin_watch(Watch* watch) noexcept nogil:
    """Start the watch of a call."""
    watch.next, watch.not_main, watch.stopped = poll_interval, False, NULL


cdef int poll(Watch* watch, size_t n) except -1 nogil:
    """Check, when n ids are written, whether to stop; let signal handlers run in the main thread.

    Raises:
        StoppedError: if another thread has stopped the work. Signal handlers may raise any exception.

    """
    watch.next = n + poll_interval
    if watch.stopped != NULL and load(watch.stopped):
        with gil:
            raise StoppedError
    if watch.not_main:
        return 0
    with gil:
        watch.not_main = get_ident() != main_thread().ident
        return PyErr_CheckSignals()


cdef int check_signals() except -1 nogil:
    """Let signal handlers run, if this is the main thread."""
    with gil:
        return PyErr_CheckSignals()
