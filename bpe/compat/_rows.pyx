"""Encodings of calls, as small objects that are created without a Python frame.

A batch of short texts has an object for each text, and creating one in Python takes as long as encoding a few words.
The methods are in subclasses in Python: `Encoding` in `encoding.py`, `Plan` and `Call` in `processing.py`.

Measured on a busy machine, `encode` for 60 bytes: 1.8 µs by `bpe.Tokenizer`, 5.7 with objects in Python, 2.6 here.
"""

cimport cython
import numpy as np

from bpe.decode._decoder cimport TokenTable
from bpe.encode._encoder cimport Encoder
from bpe.encode._fast_path cimport may_have_name, encode_to_array
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_FindChar, PyUnicode_GET_LENGTH
from libc.stdint cimport int64_t

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
    cdef public object pair_ends
    cdef public object encode
    cdef public Encoder kernel


cdef class StateFields:
    """What the calls of a `State` share: its `make_plan` makes each plan at the first call that needs it."""

    cdef PlanFields templated, bare
    cdef tuple decoding           # what `short_decoder` of the core gave, or None before the first call

    cdef PlanFields plan_with(self, bint template):
        cdef PlanFields plan
        with cython.critical_section(self):
            plan = self.templated if template else self.bare
        if plan is not None:
            return plan
        plan = self.make_plan(template)
        with cython.critical_section(self):
            if template:
                self.templated = plan
            else:
                self.bare = plan
        return plan

    def plan(self, bint template):
        """How texts become encodings, with template tokens or without."""
        return self.plan_with(template)

    cdef object short_text(self, list ids, bint skip_special):
        """The text of few ids; None if they are many, or for another decoder than that of bytes."""
        cdef tuple decoding
        with cython.critical_section(self):
            decoding = self.decoding
        if decoding is None:
            decoding = self.core.short_decoder(self.decoder)
            with cython.critical_section(self):
                self.decoding = decoding
        if decoding[0] is None:
            return None
        return (<TokenTable>decoding[0]).decode_short(ids, True, <bytes>decoding[2 if skip_special else 1])


cdef class TokenizerFields:
    """The fields of a `Tokenizer` that the fast path reads; see there.

    Another thread may replace them at any time, so whoever reads one takes a reference at once.
    """

    cdef StateFields state
    cdef dict handed

    @property
    def _state(self):
        cdef bint unchanged
        return state_of(self, &unchanged)

    @_state.setter
    def _state(self, StateFields state not None):
        with cython.critical_section(self):
            self.state = state

    @property
    def _handed(self):
        cdef dict handed
        with cython.critical_section(self):
            handed = self.handed
        if handed is None:
            self.refuse()
        return handed

    @_handed.setter
    def _handed(self, dict handed not None):
        with cython.critical_section(self):
            self.handed = handed

    cdef int refuse(self) except -1:
        """Raise RuntimeError for a tokenizer without a state."""
        raise RuntimeError(
            f"this {type(self).__name__} was made without `Tokenizer.__init__`; call super().__init__(model) in a "
            "subclass, and return from __reduce__ how to make the tokenizer anew"
        )


cdef inline StateFields state_of(TokenizerFields tokenizer, bint* unchanged):
    """The state of a tokenizer, and whether no component was handed out."""
    cdef StateFields state
    with cython.critical_section(tokenizer):
        state, unchanged[0] = tokenizer.state, not tokenizer.handed
    if state is None:
        tokenizer.refuse()
    return state


@cython.auto_pickle(False)    # it would read the offsets of a call that has none
cdef class Call:
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

    def bounds(self, Py_ssize_t i):
        """The first id of a text and the one after its last, as positions in `ids`."""
        if self.offsets is None:
            return 0, len(self.ids)
        if not 0 <= i < self.offsets.shape[0] - 1:
            raise IndexError(f"text {i} is not one of {self.offsets.shape[0] - 1}")
        return self.offsets[i], self.offsets[i + 1]


@cython.no_gc
cdef class Row:
    """An encoding: a row of a call, whose columns are computed when they are read, or parts of its own.

    The encoding of one text, or one pair, by itself has the plan, the text and its ids, of which `call` makes a call
    when it is read. Nothing that a row refers to refers to a row, so the garbage collector need not know it.

    Attributes:
        call: the call, or None.
        row: the index of the row.
        resolved: None until `set_resolved`, then the parts.
        padding: None until `set_padding`.

    """

    cdef object of                # the call, or the plan, or None
    cdef object text              # with the plan: the text, or a tuple of two for a pair
    cdef object own_ids           # and its ids; of a pair, a tuple of those of each text
    cdef readonly Py_ssize_t row
    cdef readonly object resolved
    cdef readonly object padding

    @property
    def call(self):
        with cython.critical_section(self):
            plan, text, ids = self.of, self.text, self.own_ids
            if ids is not None:
                self.of = plan.call_with(text, ids)
                self.text = self.own_ids = None
            return self.of

    def set_resolved(self, parts):
        """Set `resolved`, unless it is set. Another thread may read it, so it is never replaced."""
        with cython.critical_section(self):
            if self.resolved is None:
                self.resolved = parts

    def set_padding(self, padding):
        """Set `padding`, unless it is set."""
        with cython.critical_section(self):
            if self.padding is None:
                self.padding = padding


def call_of(type kind not None, plan, texts, ids, offsets):
    """A call, as an object of `kind`, a subclass of `Call`."""
    cdef Call call = new_of(kind, ())
    call.plan, call.texts, call.ids, call.offsets = plan, texts, ids, offsets
    return call


def rows_of(type kind not None, call, Py_ssize_t n):
    """The first `n` rows of a call, as objects of `kind`, a subclass of `Row`."""
    cdef list made = PyList_New(n)
    cdef Py_ssize_t i
    cdef Row row
    if not issubclass(kind, Row):
        raise TypeError(f"{kind.__name__} is no subclass of Row")
    for i in range(n):
        row = <Row>new_of(kind, ())
        row.of, row.row = call, i
        Py_INCREF(row)                                     # PyList_SET_ITEM takes a reference
        PyList_SET_ITEM(made, i, row)
    return made


def are_all_str(list texts not None):
    """Whether all texts are of the type str itself, or NumPy's."""
    for text in texts:
        if type(text) is not str and type(text) is not np.str_:
            return False
    return True


def join_pairs(list pairs not None):
    """The texts of pairs in one list; None unless each is a tuple or list of two str."""
    cdef list texts = []
    for pair in pairs:
        if type(pair) is list:
            pair = tuple(pair)                             # another thread may change the list
        if type(pair) is not tuple or len(<tuple>pair) != 2:
            return None
        first, second = <tuple>pair
        if type(first) is not str or type(second) is not str:
            return None
        texts.append(first)
        texts.append(second)
    return texts


def has_name(list texts not None, str prefix not None):
    """Whether any of several texts, which are str, may have a name that begins with `prefix`."""
    cdef Py_UCS4 first
    if not prefix:
        return bool(texts)
    first = prefix[0]                                      # a character is found faster
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text is {type(text).__name__}; it must be str")
        if PyUnicode_FindChar(text, first, 0, PyUnicode_GET_LENGTH(text), 1) >= 0 and prefix in <str>text:
            return True
    return False


def with_fast_encode(method, type row_kind not None):
    """`Tokenizer.encode` with a fast path for texts and pairs without special tokens; `method` handles other calls.

    `row_kind` is a subclass of `Row`.
    """

    def encode(TokenizerFields self, sequence, pair=None, is_pretokenized=False, add_special_tokens=True):
        cdef Row row = None
        cdef bint unchanged
        cdef StateFields state = state_of(self, &unchanged)
        if type(sequence) is str and not is_pretokenized and unchanged:
            row = fast_row(row_kind, state.plan_with(add_special_tokens), sequence, pair)
        return method(self, sequence, pair, is_pretokenized, add_special_tokens) if row is None else row

    return encode


def with_fast_decode(method):
    """`Tokenizer.decode` with a fast path for few ids; `method` handles other calls."""

    def decode(TokenizerFields self, ids, skip_special_tokens=True):
        cdef bint unchanged
        cdef StateFields state = state_of(self, &unchanged)
        if type(ids) is list and unchanged:
            text = state.short_text(ids, skip_special_tokens)
            if text is not None:
                return text
        return method(self, ids, skip_special_tokens)

    return decode


cdef Row fast_row(type kind, PlanFields plan, str text, pair):
    """The encoding of a text, or of a pair, as an object of `kind`.

    None if it cannot be left as it is until it is read, for special tokens, and for symbols that the vocabulary lacks.
    """
    cdef Row row
    if not plan.is_lazy or not is_free(plan, text):
        return None
    if pair is not None and (plan.pair_ends is None or type(pair) is not str or not is_free(plan, pair)):
        return None
    row = new_of(kind, ())
    row.of, row.text = plan, text if pair is None else (text, pair)
    try:
        row.own_ids = ids_of(plan, text) if pair is None else (ids_of(plan, text), ids_of(plan, pair))
    except ValueError:
        return None
    return row


cdef bint is_free(PlanFields plan, str text) except -1:
    """Whether a text has no special tokens."""
    return plan.has_no_names or not may_have_name(text, plan.prefix)


cdef object ids_of(PlanFields plan, str text):
    """The ids of a text without special tokens; ValueError for a symbol that the vocabulary lacks."""
    ids = None if plan.kernel is None else encode_to_array(plan.kernel, text)
    return plan.encode(text) if ids is None else ids
