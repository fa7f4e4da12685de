"""Threads that end with the block that started them; see `_crew.pyx`."""


cdef class Crew:

    cdef object work, stop, lock
    cdef object empty                      # held until the last thread leaves a closed crew
    cdef str name
    cdef bint daemon
    cdef readonly int size
    cdef readonly list threads             # threading.Thread
    cdef readonly bint closed              # no thread enters any more, and those inside should leave
    cdef int inside                        # threads that are in `work`
    cdef int process                       # the process that has the threads

    cdef int leave(self) except -1
