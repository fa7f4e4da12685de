"""A team of threads that do one job after another in parts; see `_team.pyx`."""

from cpython.pythread cimport PyThread_type_lock

cdef enum:
    MAX_PARTS = 16            # of a job: fewer threads use all of the memory bandwidth

ctypedef int (*work_t)(void* job, int part) except -1 nogil


cdef inline int count_parts(size_t max_parts, size_t worth) noexcept nogil:
    """Count the parts of a job: `worth`, but from 1 to `max_parts`."""
    return <int>max(<size_t>1, min(max_parts, worth))


cdef class Team:

    cdef readonly int size             # parts that a job can have: the caller's and one per helper
    cdef PyThread_type_lock begin_locks[MAX_PARTS]
    cdef PyThread_type_lock end_locks[MAX_PARTS]
    cdef work_t work                   # the work of the current job; NULL makes helpers return
    cdef void* job
    cdef bint failed                   # a helper, at the current job
    cdef list errors                   # the error of each part, or None

    cdef int share(self, int parts, work_t work, void* job) except -1 nogil
    cdef void dismiss(self) noexcept


cdef class Crew:

    cdef object work, stop, lock
    cdef object all_left_lock              # held until the last thread leaves a closed crew
    cdef str name
    cdef bint daemon
    cdef readonly int size
    cdef readonly list threads             # threading.Thread
    cdef list start_events                 # a `StartEvent` for each
    cdef int started                       # threads whose `start` has returned
    cdef readonly bint closed              # no thread enters any more, and those inside should leave
    cdef set running                       # identifiers of the threads that are in `work`
    cdef dict thread_by_ident              # the threads that have been in it, by identifier
    cdef int process                       # the process that has the threads

    cdef int leave(self) except -1
