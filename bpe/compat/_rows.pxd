"""Encodings of calls, for the kernel that makes other objects of the same calls."""

from bpe.encode._encoder cimport Encoder
from bpe.encode._special_encoder cimport SpecialEncoder
from bpe.encode._workspace cimport Workspace
from libc.stdint cimport int64_t

cdef extern from *:
    """
    static inline PyObject* bpe_new_object(PyObject* kind, PyObject* arguments) {
        return ((PyTypeObject*)kind)->tp_new((PyTypeObject*)kind, arguments, NULL);
    }
    """
    object new_object "bpe_new_object"(object kind, tuple arguments)    # without `__init__`


cdef class PlanFields:
    """The fields of a `Plan` that kernels read; see there."""

    cdef public bint is_lazy
    cdef public bint has_no_names
    cdef public str prefix
    cdef public object pair_template_ids
    cdef public object encode
    cdef public Encoder encoder
    cdef public SpecialEncoder special_encoder
    cdef public bint only_ascii


cdef class StateFields:
    """The plans and the short decoder that the calls of a `State` share, each made at the first call that needs it."""

    cdef PlanFields template_plan, bare_plan
    cdef tuple decoding           # what `make_short_decoder` of the core gave, or None before the first call

    cdef PlanFields plan_with(self, bint template)
    cdef object decode_short(self, list ids, bint skip_special)


cdef class TokenizerFields:
    """The fields of a `Tokenizer` that the fast path reads; see there.

    Another thread may replace them at any time, so whoever reads one takes a reference at once.
    """

    cdef StateFields state
    cdef dict shared_components

    cdef int raise_uninitialized(self) except -1


cdef class CallFields:
    """What the rows of a call share.

    Attributes:
        plan: how rows become encodings, a `processing.Plan`.
        texts: the texts, or one text.
        ids: the ids of all texts, end to end; uint32.
        offsets: the ids of text i are `ids[offsets[i]:offsets[i + 1]]`; None for one text. Not visible to Python.

    """

    cdef readonly object plan
    cdef readonly object texts
    cdef readonly object ids
    cdef const int64_t[::1] offsets


cdef class Row:
    """An encoding: a row of a call, whose columns are computed when they are read, or parts of its own.

    The encoding of a single text or pair holds the plan and the text, and its ids where they are known; reading `call`
    makes a call of these. Nothing that a row refers to refers to a row, so the garbage collector need not know rows.

    Attributes:
        call: the call, or None.
        row: the index of the row.
        resolved: None until `set_resolved`, then the parts.
        padding: None until `set_padding`.

    """

    cdef object source            # the call, or the plan, or None
    cdef object text              # beside a plan: the text, or a tuple of two for a pair
    cdef object own_ids           # beside a plan: the ids of the text; for a pair, a tuple of the ids of each text
    cdef readonly Py_ssize_t row
    cdef readonly object resolved
    cdef readonly object padding


cdef StateFields get_state(TokenizerFields tokenizer, bint* unchanged)
cdef bint append_short(PlanFields plan, Workspace workspace, str text) except -1
cdef list new_rows(type row_type, source, Py_ssize_t n)
