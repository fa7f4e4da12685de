"""A team of threads that do one job after another in parts, without the GIL.

A kernel that runs without the GIL calls `share`; each helper, a Python thread in `help`, sleeps until then. What a part
is depends on its number alone, so that no result depends on the speed of threads. Waking a helper takes 10 to 50
microseconds. A forked child has no helpers: it must not go on with its parent's work. Not here: starting the threads
(`bpe/base/threads.py`).
"""

from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)


cdef class Team:
    """A caller and `size - 1` helpers, numbered from 1: threads that are in `help` until `dismiss`."""

    def __cinit__(self, int size):
        cdef int part
        for part in range(max(1, min(size, <int>MOST_PARTS))):
            self.begins[part] = PyThread_allocate_lock()
            self.ends[part] = PyThread_allocate_lock()
            if self.begins[part] == NULL or self.ends[part] == NULL:
                raise MemoryError("no memory for a lock")
            PyThread_acquire_lock(self.begins[part], WAIT_LOCK)
            PyThread_acquire_lock(self.ends[part], WAIT_LOCK)
            self.size = part + 1
        self.errors = [None] * self.size

    def __dealloc__(self):
        cdef int part
        for part in range(MOST_PARTS):
            if self.begins[part] != NULL:
                PyThread_free_lock(self.begins[part])
            if self.ends[part] != NULL:
                PyThread_free_lock(self.ends[part])

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
            PyThread_release_lock(self.begins[part])
        try:
            work(job, 0)
            done = True
        finally:
            for part in range(1, parts):
                PyThread_acquire_lock(self.ends[part], WAIT_LOCK)
            if self.failed:
                with gil:
                    self.end_failed(done)
        return 0

    cdef int end_failed(self, bint raises) except -1:
        """Forget the errors of helpers; raise the first of them, unless the caller's own part has failed."""
        self.failed, errors, self.errors = False, self.errors, [None] * self.size
        for error in errors:
            if raises and error is not None:
                raise error
        return 0

    def help(self, int part):
        """Do this part of every job until `dismiss`."""
        while True:
            try:
                with nogil:
                    self.serve(part)
                return
            except BaseException as error:                 # the caller waits, and raises it
                self.errors[part], self.failed = error, True
                PyThread_release_lock(self.ends[part])

    cdef int serve(self, int part) except -1 nogil:
        while True:
            PyThread_acquire_lock(self.begins[part], WAIT_LOCK)
            if self.work == NULL:
                return 0
            self.work(self.job, part)
            PyThread_release_lock(self.ends[part])

    cdef void dismiss(self) noexcept:
        """Make all helpers return from `help`."""
        cdef int part
        self.work = NULL
        for part in range(1, self.size):
            PyThread_release_lock(self.begins[part])


def dismiss(tuple teams):
    """Make the helpers of all teams return from `help`; no signal handler runs meanwhile."""
    for team in teams:
        (<Team?>team).dismiss()
