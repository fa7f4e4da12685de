"""A team of threads that do one job after another in parts, without the GIL.

A kernel that runs without the GIL calls `share`; each helper, a Python thread in `help`, sleeps until then. What a part
is depends on its number alone, so that no result depends on the speed of threads. Waking a helper takes 10 to 50
microseconds. A forked child has no helpers: it must not go on with its parent's work.

A `Crew` is the threads of any call. They end with the block that started them, whatever exception ends it. A signal
handler's exception, such as KeyboardInterrupt, appears between two bytecodes of the main thread: after a thread has
started and before Python code has noted it, or in the `finally` that was to wait for it. Compiled code has no
bytecodes. So `Crew` starts, stops and waits for its threads here, and a handler's exception that arrives meanwhile is
raised when all threads have left. A thread takes part only if it enters before the crew is closed: one that starts
later, because `Thread.start` was interrupted, returns at once. An exception in that method's wait, which is Python
code, could leave a lock acquired for ever that the new thread needs; so it does not wait (`StartEvent`).
"""

from os import getpid
from sys import exc_info
from threading import Lock, Thread, _dangling, get_ident

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)


cdef class Team:
    """A caller and `size - 1` helpers, numbered from 1: threads that are in `help` until `dismiss`."""

    def __cinit__(self, int size):
        cdef int part
        for part in range(max(1, min(size, <int>MAX_PARTS))):
            self.begin_locks[part] = PyThread_allocate_lock()
            self.end_locks[part] = PyThread_allocate_lock()
            if self.begin_locks[part] == NULL or self.end_locks[part] == NULL:
                raise MemoryError("no memory for a lock")
            PyThread_acquire_lock(self.begin_locks[part], WAIT_LOCK)
            PyThread_acquire_lock(self.end_locks[part], WAIT_LOCK)
            self.size = part + 1
        self.errors = [None] * self.size

    def __dealloc__(self):
        cdef int part
        for part in range(MAX_PARTS):
            if self.begin_locks[part] != NULL:
                PyThread_free_lock(self.begin_locks[part])
            if self.end_locks[part] != NULL:
                PyThread_free_lock(self.end_locks[part])

    cdef int share(self, int parts, work_t work, void* job) except -1 nogil:
        """Call `work(job, part)` for each part from 0 on, at most `size` of them; the caller does part 0.

        Of several errors, that of the lowest part is raised.
        """
        cdef int part
        cdef bint done = False
        if parts == 1:
            return work(job, 0)
        self.work, self.job = work, job
        for part in range(1, parts):
            PyThread_release_lock(self.begin_locks[part])
        try:
            work(job, 0)
            done = True
        finally:
            for part in range(1, parts):
                PyThread_acquire_lock(self.end_locks[part], WAIT_LOCK)
            if self.failed:
                with gil:
                    raise_part_error(self, done)
        return 0

    def help(self, int part):
        """Do this part of every job until `dismiss`."""
        while True:
            try:
                with nogil:
                    serve(self, part)
                return
            except BaseException as error:                 # the caller waits, and raises it
                self.errors[part], self.failed = error, True
                PyThread_release_lock(self.end_locks[part])

    cdef void dismiss(self) noexcept:
        """Make all helpers return from `help`."""
        cdef int part
        self.work = NULL
        for part in range(1, self.size):
            PyThread_release_lock(self.begin_locks[part])


cdef int raise_part_error(Team team, bint raises) except -1:
    """Forget the errors of helpers; raise the first of them, unless the caller's own part has failed."""
    team.failed, errors, team.errors = False, team.errors, [None] * team.size
    for error in errors:
        if raises and error is not None:
            raise error
    return 0


cdef int serve(Team team, int part) except -1 nogil:
    while True:
        PyThread_acquire_lock(team.begin_locks[part], WAIT_LOCK)
        if team.work == NULL:
            return 0
        team.work(team.job, part)
        PyThread_release_lock(team.end_locks[part])


def dismiss(tuple teams):
    """Make the helpers of all teams return from `help`; no signal handler runs meanwhile."""
    for team in teams:
        (<Team?>team).dismiss()


cdef class StartEvent:
    """Takes the place of the `threading.Event` of a thread that has begun; no method of it is Python code."""

    cdef object lock              # held until the thread has begun
    cdef bint is_started

    def __cinit__(self):
        self.lock, self.is_started = Lock(), False
        self.lock.acquire()

    def set(self):
        """Note that the thread has begun."""
        self.is_started = True
        self.lock.release()

    def is_set(self):
        """Whether the thread has begun."""
        return self.is_started

    def wait(self, timeout=None):
        """Return at once, for `Thread.start`."""
        return self.is_started

    def _at_fork_reinit(self):
        pass


cdef class Outcome:
    """The result of work on another thread. An exception in Python's `Future`, which is Python code, could leave its
    lock acquired, and then the other thread waited for ever.
    """

    cdef object lock              # held until there is a result or an error
    cdef object value, error

    def __cinit__(self):
        self.lock = Lock()
        self.lock.acquire()

    def set_result(self, value):
        """Set the result, once."""
        self.value = value
        self.lock.release()

    def set_exception(self, error):
        """Set an exception in its place."""
        self.error = error
        self.lock.release()

    def done(self):
        """Whether there is a result or an error."""
        return not self.lock.locked()

    def result(self):
        """Wait for the result, and return it or raise the exception."""
        self.lock.acquire()
        self.lock.release()
        if self.error is not None:
            raise self.error
        return self.value


cdef class Crew:
    """`size` threads that call `work(thread_number)`, numbered from 1, from the beginning of the `with` block.

    At its end, `stop` is called, and the block waits until no thread is in `work`. `stop` has to make every `work`
    return soon. A handler's exception may end it early, and then it is called again. `work` must raise nothing.
    """

    def __init__(self, work, int size, stop=None, *, str name="bpe", bint daemon=False):
        self.work, self.stop, self.size, self.name, self.daemon = work, stop, size, name, daemon
        self.lock, self.all_left_lock, self.threads, self.start_events, self.started = Lock(), Lock(), [], [], 0
        self.all_left_lock.acquire()
        self.closed, self.running, self.thread_by_ident, self.process = False, set(), {}, getpid()

    def __enter__(self):
        cdef int thread_number
        outer = exc_info()[1]
        try:
            for thread_number in range(1, self.size + 1):
                thread = Thread(
                    target=self.enter, args=(thread_number,), name=f"{self.name}_{thread_number}", daemon=self.daemon
                )
                start_event = StartEvent()
                thread._started = start_event
                self.threads.append(thread)
                self.start_events.append(start_event)
                thread.start()
                self.started = thread_number
        except BaseException as error:
            self.leave()
            raise find_first_error(error, outer)
        return self

    def __exit__(self, kind, error, trace):
        self.leave()

    def enter(self, int thread_number):
        """Do the work in one of the threads, unless the block has ended."""
        with self.lock:
            if self.closed:
                return
            self.running.add(get_ident())
            self.thread_by_ident[get_ident()] = self.threads[thread_number - 1]
        try:
            self.work(thread_number)
        finally:
            with self.lock:
                self.running.discard(get_ident())
                if self.closed and not self.running:
                    self.all_left_lock.release()

    def join(self):
        """Wait until every thread has returned from its work."""
        for start_event, thread in zip(self.start_events, self.threads):
            (<StartEvent>start_event).lock.acquire()
            (<StartEvent>start_event).lock.release()
            wait_until_ended(thread)

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
        waiting = bool(self.running) and not self.closed
        self.closed = True
        self.lock.release()
        if self.stop is not None:
            call_until_done(self.stop, errors)
        if get_ident() not in self.running:                # else the garbage collector closes a generator in it
            if waiting:
                acquire(self.all_left_lock, errors)
            own_thread = self.thread_by_ident.get(get_ident())
            for start_event in self.start_events[: self.started]:
                acquire((<StartEvent>start_event).lock, errors)
                (<StartEvent>start_event).lock.release()
            for thread in self.threads:
                if thread is not own_thread:               # those that have not begun return when they do
                    wait_until_ended(thread, errors)
                # The callback of the thread's weak reference goes.
                call_until_done(lambda thread=thread: _dangling.discard(thread), errors)
            self.work = self.stop = None                   # they may refer to the crew
        if errors:
            raise find_first_error(errors.pop(), outer)
        return 0


cdef find_first_error(error, outer):
    """Find the exception that led to another: `threading` may raise RuntimeError after a handler's ends a wait."""
    while error.__context__ is not None and error.__context__ is not outer:
        error = error.__context__
    return error


cdef int wait_until_ended(thread, list errors=None) except -1:
    """Wait until a thread has ended, if it has begun; exceptions of handlers are raised, or appended to `errors`.

    Until Python 3.12, `Thread.join` and `is_alive` are Python code that acquires the lock which a thread releases when
    it ends. An exception there can leave it acquired for ever, so they are not called.
    """
    if hasattr(thread, "_tstate_lock"):
        lock = thread._tstate_lock
        if lock is not None:
            if errors is None:
                PyErr_CheckSignals()                       # the wait itself ends only at a signal that comes during it
                lock.acquire()
            else:
                acquire(lock, errors)
            lock.release()
    elif errors is None:
        thread.join()
    elif call_until_done(thread.is_alive, errors):
        call_until_done(thread.join, errors)
    return 0


cdef int acquire(lock, list errors) except -1:
    """Acquire a lock, however often a handler's exception ends the wait."""
    while True:
        try:
            lock.acquire()
            return 0
        except BaseException as error:
            errors.append(error)


cdef object call_until_done(call, list errors):
    """Call again where a handler's exception ends the call, which must raise nothing itself; returns its result.

    A method of `threading.Thread`, or a property, has bytecodes, between which a handler may run.
    """
    for _ in range(1000):
        try:
            return call()
        except BaseException as error:
            errors.append(error)
    return None
