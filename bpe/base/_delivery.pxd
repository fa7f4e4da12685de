"""One array of ids that several threads write, part by part; `_delivery.pyx` says how."""

from bpe.base._atomic cimport load
from bpe.base._prefault cimport Fresh
from bpe.base._result_pool cimport Loan, ResultPool
from bpe.merge._merging cimport Ids
from cpython.pythread cimport PyThread_type_lock

cdef struct Parcel:           # the ids of a part that is encoded: waiting, or on the way to their place
    Ids ids
    size_t place
    Fresh fresh               # memory there to touch first
    bint waiting

cdef struct Sender:           # a thread, and the part that it encodes
    const Py_ssize_t* turn    # where it sees whose turn it is; NULL when it need not know
    Py_ssize_t number         # of the part
    bint in_place             # it has begun to write where the ids stay
    Ids own                   # its buffer meanwhile
    Fresh fresh               # of the memory there, which is the sender's then


cdef class Delivery:
    """The result of a job, and what has not been put there yet."""

    cdef PyThread_type_lock lock
    cdef Parcel* parcels               # by number of the part
    cdef Py_ssize_t n_parts
    cdef Py_ssize_t turn               # the part that comes next behind those that have their place
    cdef size_t copying                # parcels that are being copied to their place
    cdef Ids* spare                    # buffers that nobody uses
    cdef Py_ssize_t n_spare
    cdef Ids ids
    cdef ResultPool pool               # which lends memory for many of them
    cdef Loan loan                     # that memory
    cdef Fresh fresh                   # of the ids' memory; not while a sender has it

    cdef void begin(self, Sender* sender, Py_ssize_t number) noexcept nogil
    cdef void write_in_place(self, Sender* sender, Ids* out) noexcept nogil
    cdef int finish(self, Sender* sender, Ids* out) except -1 nogil
    cdef void give_up(self, Sender* sender, Ids* out) noexcept nogil
    cdef int take(self, Sender* sender, Ids* out) except -1 nogil
    cdef Py_ssize_t place(self) except -1 nogil
    cdef int grow(self, size_t more) except -1 nogil
    cdef void copy(self, Parcel* parcel) noexcept nogil
    cdef object taken(self)


cdef inline bint has_turn(const Sender* sender) noexcept nogil:
    """Whether a sender that writes to its buffer may `write_in_place`."""
    return sender.turn != NULL and load(sender.turn) == sender.number
