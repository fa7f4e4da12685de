"""Encodings of calls, as small objects that are created without a Python frame.

A batch of short texts has an object for each text, and creating one in Python takes as long as encoding a few words.
The methods are in subclasses in Python: `Encoding` in `encodings.py`, `Plan` and `Call` in `processing.py`.

Measured on a busy machine, `encode` for 60 bytes: 1.8 µs by `bpe.Tokenizer`, 5.7 with objects in Python, 2.6 here.
"""

cimport cython
from bpe.encode._encoder cimport Encoder
from bpe.encode._fast_path cimport may_have_name, short_ids
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF

cdef extern from *:
    """
    static inline PyObject* bpe_new_of(PyObject* kind, PyObject* arguments) {
        return ((PyTypeObject*)kind)->tp_new((PyTypeObject*)kind, arguments, NULL);
    }
    """
    object new_of "bpe_new_of"(object kind, tuple arguments)    # without `__init__`


cdef class PlanFields:
    """The fields of a `Plan` that the fast path reads; see there."""

    cdef public bint is_lazy
    cdef public bint has_no_names
    cdef public str prefix
    cdef public object encode
    cdef public Encoder kernel


cdef class Call:
    """What the rows of a call share.

    Attributes:
        plan: how rows become encodings, a `processing.Plan`.
        texts: the texts, or one text.
        ids: the ids of all texts, end to end; uint32.
        bounds: the first id of each text, and the number of ids; None for one text.

    """

    cdef readonly object plan
    cdef readonly object texts
    cdef readonly object ids
    cdef readonly object bounds


cdef class Row:
    """An encoding: a row of a call, whose columns are computed when they are read, or parts of its own.

    The encoding of one text by itself has the plan, the text and its ids, of which `call` makes a call when it is read.

    Attributes:
        call: the call, or None.
        row: the index of the row.
        own: None until `set_own`, then the parts.
        padding: None until `set_padding`.

    """

    cdef object of                # the call, or the plan, or None
    cdef object text              # with the plan: the text
    cdef object own_ids           # and its ids
    cdef readonly Py_ssize_t row
    cdef readonly object own
    cdef readonly object padding

    @property
    def call(self):
        with cython.critical_section(self):
            plan, text, ids = self.of, self.text, self.own_ids
            if ids is not None:
                self.of = plan.call_with(text, ids)
                self.text = self.own_ids = None
            return self.of

    def set_own(self, own):
        """Set `own`, unless it is set. Another thread may read it, so it is never replaced."""
        with cython.critical_section(self):
            if self.own is None:
                self.own = own

    def set_padding(self, padding):
        """Set `padding`, unless it is set."""
        with cython.critical_section(self):
            if self.padding is None:
                self.padding = padding


def call_of(type kind not None, plan, texts, ids, bounds):
    """A call, as an object of `kind`, a subclass of `Call`."""
    cdef Call call = new_of(kind, ())
    call.plan, call.texts, call.ids, call.bounds = plan, texts, ids, bounds
    return call


def rows_of(type kind not None, call, Py_ssize_t n):
    """The first `n` rows of a call, as objects of `kind`, a subclass of `Row`."""
    cdef list made = PyList_New(n)
    cdef Py_ssize_t i
    cdef Row row
    for i in range(n):
        row = new_of(kind, ())
        row.of, row.row = call, i
        Py_INCREF(row)                                     # PyList_SET_ITEM takes a reference
        PyList_SET_ITEM(made, i, row)
    return made


def with_fast_encode(method, type row_kind not None):
    """`Tokenizer.encode` with a fast path for a text without special tokens; `method` handles all other calls.

    `row_kind` is a subclass of `Row`.
    """

    def encode(self, sequence, pair=None, is_pretokenized=False, add_special_tokens=True):
        cdef PlanFields plan
        cdef Row row
        if type(sequence) is str and pair is None and not is_pretokenized and not self._handed:
            plan = self._state.plan if add_special_tokens else self._state.bare_plan
            if plan.is_lazy and (plan.has_no_names or not may_have_name(sequence, plan.prefix)):
                ids = None if plan.kernel is None else short_ids(plan.kernel, sequence)
                if ids is None:
                    try:
                        ids = plan.encode(sequence)
                    except ValueError:                     # a symbol that the vocabulary lacks
                        return method(self, sequence, pair, is_pretokenized, add_special_tokens)
                row = new_of(row_kind, ())
                row.of, row.text, row.own_ids = plan, sequence, ids
                return row
        return method(self, sequence, pair, is_pretokenized, add_special_tokens)

    return encode
