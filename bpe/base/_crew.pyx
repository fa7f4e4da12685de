"""Threads that end with the block that started them, whatever exception ends it, and whenever.

A signal handler's exception, such as KeyboardInterrupt, appears between two bytecodes of the main thread: after a
thread has started and before Python code has noted it, or in the `finally` that was to wait for it. Compiled code has
no bytecodes. So `Crew` starts, stops and waits for its threads here, and a handler's exception that arrives meanwhile
is raised when all threads have left. A thread takes part only if it enters before the crew is closed: one that starts
later, because `Thread.start` was interrupted, returns at once.
"""

from _thread import allocate_lock, get_ident
from os import getpid
from sys import exc_info
from threading import Thread


cdef class Crew:
    """`size` threads that call `work(number)`, numbered from 1, from the beginning of the `with` block.

    At its end, `stop` is called, and the block waits until no thread is in `work`. `stop` has to make every `work`
    return soon. A handler's exception may end it early, and then it is called again. `work` must raise nothing.
    """

    def __init__(self, work, int size, stop=None, *, str name="bpe", bint daemon=False):
        self.work, self.stop, self.size, self.name, self.daemon = work, stop, size, name, daemon
        self.lock, self.empty, self.threads = allocate_lock(), allocate_lock(), []
        self.empty.acquire()
        self.closed, self.inside, self.process = False, 0, getpid()

    def __enter__(self):
        cdef int number
        outer = exc_info()[1]
        try:
            for number in range(1, self.size + 1):
                thread = Thread(target=self.enter, args=(number,), name=f"{self.name}_{number}", daemon=self.daemon)
                self.threads.append(thread)
                thread.start()
        except BaseException as error:
            self.leave()
            raise first_of(error, outer)
        return self

    def __exit__(self, kind, error, trace):
        self.leave()

    def enter(self, int number):
        """Do the work in one of the threads, unless the block has ended."""
        with self.lock:
            if self.closed:
                return
            self.inside += 1
        try:
            self.work(number)
        finally:
            with self.lock:
                self.inside -= 1
                if self.closed and self.inside == 0:
                    self.empty.release()

    def join(self):
        """Wait until every thread has returned from its work."""
        for thread in self.threads:
            thread.join()

    cdef int leave(self) except -1:
        """Close the crew, and wait until no thread is in it; then raise the last exception of a handler.

        A forked child has no copy of the threads, and waits for none.
        """
        cdef list errors = []
        cdef bint waiting
        outer = exc_info()[1]
        if getpid() != self.process:
            return 0
        acquire(self.lock, errors)
        waiting = self.inside > 0 and not self.closed
        self.closed = True
        self.lock.release()
        if self.stop is not None:
            insist(self.stop, errors)
        # else the garbage collector closes a generator in one of its own threads
        if get_ident() not in [thread.ident for thread in self.threads]:
            if waiting:
                acquire(self.empty, errors)
            for thread in self.threads:
                if thread.ident is not None:                # else it has not started, or returns when it does
                    insist(thread.join, errors)
            self.work = self.stop = None                   # they may refer to the crew
        if errors:
            raise first_of(errors.pop(), outer)
        return 0


cdef first_of(error, outer):
    """The exception that led to another: where a handler's ends a wait, `threading` may raise RuntimeError after it."""
    while error.__context__ is not None and error.__context__ is not outer:
        error = error.__context__
    return error


cdef int acquire(lock, list errors) except -1:
    """Acquire a lock, however often a handler's exception ends the wait."""
    while True:
        try:
            lock.acquire()
            return 0
        except BaseException as error:
            errors.append(error)


cdef int insist(call, list errors) except -1:
    """Call again where a handler's exception ends the call, which must raise nothing itself."""
    for _ in range(1000):
        try:
            call()
            break
        except BaseException as error:
            errors.append(error)
    return 0
