"""Ctrl-C in the middle of a long call.

A signal's handler runs in the main thread, and only while that holds the GIL. So a kernel that works without the GIL
takes it now and then to let handlers run. It counts the ids that it has written, since reading a clock takes longer,
and does so only some ten times a second, since another thread may hold the GIL for 5 milliseconds. An exception of the
handler, usually KeyboardInterrupt, ends the call like any other error. Other threads end when `stopped` is set.

Not here: starting and joining threads (`bpe/base/threads.py`), and who says that work is to end (`encode/_batch.pyx`).
"""

from threading import get_ident, main_thread

from bpe.base._atomic cimport load
from cpython.exc cimport PyErr_CheckSignals

cdef Py_ssize_t far = 1 << 22                    # ids between two looks


class StoppedError(Exception):
    """Work that another thread has ended."""


def look_after(Py_ssize_t ids):
    """After how many ids threads look, for tests; returns after how many it was."""
    global far
    before, far = far, ids
    return before


cdef void begin_watch(Watch* watch) noexcept nogil:
    """A call begins."""
    watch.next, watch.apart, watch.stopped = far, False, NULL


cdef int look(Watch* watch, size_t n) except -1 nogil:
    """Look for a reason to end when n ids are written.

    Raises:
        StoppedError: if another thread has ended the work; in the main thread, what a signal's handler raises.

    """
    watch.next = n + far
    if watch.stopped != NULL and load(watch.stopped):
        with gil:
            raise StoppedError
    if watch.apart:
        return 0
    with gil:
        watch.apart = get_ident() != main_thread().ident
        return PyErr_CheckSignals()


cdef int hear() except -1 nogil:
    """Have signals handled, if this is the main thread."""
    with gil:
        return PyErr_CheckSignals()
