"""Threads that stand ready to do one job after another in parts, without the GIL.

A kernel that runs without the GIL calls `share`; each helper, a Python thread in `help`, sleeps until then. The
kernel decides what a part is, from its number alone, so that no result depends on which thread is how fast. Waking a
helper takes 10 to 50 microseconds. A forked child has no helpers: it must not go on with what its parent was doing.
Not here: starting the threads (`bpe/base/threads.py`).
"""

from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)
from libc.string cimport memset


cdef class Team:
    """A caller and `size - 1` helpers, numbered from 1: threads that have to be in `help` until `dismiss`."""

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

    def __dealloc__(self):
        cdef int part
        for part in range(MOST_PARTS):
            if self.begins[part] != NULL:
                PyThread_free_lock(self.begins[part])
            if self.ends[part] != NULL:
                PyThread_free_lock(self.ends[part])

    cdef int share(self, int parts, work_t work, void* job) except -1 nogil:
        """Have `work(job, part)` done for each part from 0 on, at most `size` of them, part 0 by the caller."""
        cdef int part
        if parts == 1:
            return work(job, 0)
        self.work, self.job = work, job
        for part in range(1, parts):
            PyThread_release_lock(self.begins[part])
        try:
            work(job, 0)
        finally:
            for part in range(1, parts):
                PyThread_acquire_lock(self.ends[part], WAIT_LOCK)
        if self.failed:
            with gil:
                self.failed, error, self.error = False, self.error, None
                raise error
        return 0

    def help(self, int part):
        """Do this part of every job until the team is dismissed."""
        while True:
            try:
                with nogil:
                    self.serve(part)
                return
            except BaseException as error:                 # whatever it is: the caller waits, and raises it
                self.error, self.failed = error, True
                PyThread_release_lock(self.ends[part])

    cdef int serve(self, int part) except -1 nogil:
        while True:
            PyThread_acquire_lock(self.begins[part], WAIT_LOCK)
            if self.work == NULL:
                return 0
            self.work(self.job, part)
            PyThread_release_lock(self.ends[part])

    def dismiss(self, int part):
        """Let a helper go."""
        self.work = NULL
        PyThread_release_lock(self.begins[part])


cdef struct Trial:
    int fails
    int done[MOST_PARTS]


cdef int try_part(void* job, int part) except -1 nogil:
    cdef Trial* trial = <Trial*>job
    if part == trial.fails:
        with gil:
            raise MemoryError(f"part {part}")
    trial.done[part] += 1
    return 0


def try_out(Team team, int parts, int fails):
    """Share a job of which one part fails, for the tests: how often each was done."""
    cdef Trial trial
    memset(&trial, 0, sizeof(trial))
    trial.fails = fails
    with nogil:
        team.share(parts, try_part, &trial)
    return [trial.done[part] for part in range(parts)]
