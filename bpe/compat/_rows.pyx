"""Encodings of calls, as small objects that are created without a Python frame.

A batch of short texts has an object for each text, and creating one in Python takes as long as encoding a few words.
The methods are in subclasses in Python: `Encoding` in `encoding.py`, `Plan` and `Call` in `processing.py`.

Measured on a busy machine, `encode` for 60 bytes: 1.8 µs by `bpe.Tokenizer`, 5.7 with objects in Python, 2.6 here.
"""

cimport cython
import numpy as np

from bpe.base._utf8 cimport CodeUnits, max_utf8_size, get_code_units
from bpe.decode._decoder cimport TokenTable
from bpe.encode._encoder cimport MAX_SHORT_TEXT
from bpe.encode._fast_path cimport append_short_text, encode_to_array, may_have_name
from bpe.encode._workspace cimport Workspace
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_FindChar, PyUnicode_GET_LENGTH

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)


cdef class PlanFields:
    pass


cdef class StateFields:

    cdef PlanFields plan_with(self, bint template):
        cdef PlanFields plan
        with cython.critical_section(self):
            plan = self.template_plan if template else self.bare_plan
        if plan is not None:
            return plan
        plan = self.make_plan(template)
        with cython.critical_section(self):
            if template:
                self.template_plan = plan
            else:
                self.bare_plan = plan
        return plan

    def get_plan(self, bint template):
        """Return the plan of texts with template tokens, or without."""
        return self.plan_with(template)

    cdef object decode_short(self, list ids, bint skip_special):
        """Decode few ids; None for many ids, and for another decoder than that of bytes."""
        cdef tuple decoding
        with cython.critical_section(self):
            decoding = self.decoding
        if decoding is None:
            decoding = self.core.make_short_decoder(self.decoder)
            with cython.critical_section(self):
                self.decoding = decoding
        if decoding[0] is None:
            return None
        return (<TokenTable>decoding[0]).decode_short(ids, True, <bytes>decoding[2 if skip_special else 1])


cdef class TokenizerFields:

    @property
    def _state(self):
        cdef bint unchanged
        return get_state(self, &unchanged)

    @_state.setter
    def _state(self, StateFields state not None):
        with cython.critical_section(self):
            self.state = state

    @property
    def _shared_components(self):
        cdef dict shared_components
        with cython.critical_section(self):
            shared_components = self.shared_components
        if shared_components is None:
            self.raise_uninitialized()
        return shared_components

    @_shared_components.setter
    def _shared_components(self, dict shared_components not None):
        with cython.critical_section(self):
            self.shared_components = shared_components

    cdef int raise_uninitialized(self) except -1:
        """Raise RuntimeError for a tokenizer without a state."""
        raise RuntimeError(
            f"this {type(self).__name__} was made without `Tokenizer.__init__`; call super().__init__(model) in a "
            "subclass, and return from __reduce__ how to make the tokenizer anew"
        )


cdef StateFields get_state(TokenizerFields tokenizer, bint* unchanged):
    """Return the state of a tokenizer; set `unchanged` where no component was shared with the caller."""
    cdef StateFields state
    with cython.critical_section(tokenizer):
        state, unchanged[0] = tokenizer.state, not tokenizer.shared_components
    if state is None:
        tokenizer.raise_uninitialized()
    return state


@cython.auto_pickle(False)    # it would read the offsets of a call that has none
cdef class CallFields:
    def find_bounds(self, Py_ssize_t i):
        """Return the position in `ids` of the first id of a text, and the position after its last id."""
        if self.offsets is None:
            return 0, len(self.ids)
        if not 0 <= i < self.offsets.shape[0] - 1:
            raise IndexError(f"text {i} is not one of {self.offsets.shape[0] - 1}")
        return self.offsets[i], self.offsets[i + 1]


@cython.no_gc
cdef class Row:
    @property
    def call(self):
        with cython.critical_section(self):
            plan, text, ids = self.source, self.text, self.own_ids
            if text is not None:
                self.source = plan.make_call(text) if ids is None else plan.make_call_with_ids(text, ids)
                self.text = self.own_ids = None
            return self.source

    def set_resolved(self, parts):
        """Set `resolved`, unless it is set: another thread may read `resolved`, so it is never replaced."""
        with cython.critical_section(self):
            if self.resolved is None:
                self.resolved = parts

    def set_padding(self, padding):
        """Set `padding`, unless it is set."""
        with cython.critical_section(self):
            if self.padding is None:
                self.padding = padding


def make_call(type call_type not None, plan, texts, ids, offsets):
    """Make a call, as an object of `call_type`, a subclass of `CallFields`."""
    cdef CallFields call = new_object(call_type, ())
    call.plan, call.texts, call.ids, call.offsets = plan, texts, ids, offsets
    return call


def make_rows(type row_type not None, call, Py_ssize_t n):
    """Make the first `n` rows of a call, as objects of `row_type`, a subclass of `Row`."""
    if not issubclass(row_type, Row):
        raise TypeError(f"{row_type.__name__} is no subclass of Row")
    return new_rows(row_type, call, n)


cdef list new_rows(type row_type, source, Py_ssize_t n):
    """Make the first `n` rows of a source, as objects of `row_type`, which must be a subclass of `Row`."""
    cdef list rows = PyList_New(n)
    cdef Py_ssize_t i
    cdef Row row
    for i in range(n):
        row = <Row>new_object(row_type, ())
        row.source, row.row = source, i
        Py_INCREF(row)                                     # PyList_SET_ITEM takes a reference
        PyList_SET_ITEM(rows, i, row)
    return rows


def are_all_str(list texts not None):
    """Whether all texts are of the type str itself, or NumPy's."""
    for text in texts:
        if type(text) is not str and type(text) is not np.str_:
            return False
    return True


def join_pairs(list pairs not None):
    """Join the texts of pairs in one list; None unless each pair is a tuple or list of two str."""
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
    """Whether any of several texts may have a name that begins with `prefix`."""
    cdef Py_UCS4 first_char
    if not prefix:
        return bool(texts)
    first_char = prefix[0]                                 # a character is found faster
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text is {type(text).__name__}; it must be str")
        if PyUnicode_FindChar(text, first_char, 0, PyUnicode_GET_LENGTH(text), 1) >= 0 and prefix in <str>text:
            return True
    return False


def with_fast_hf_encode(method, type row_type not None):
    """Wrap `Tokenizer.encode` in a fast path for texts and pairs; `method` handles other calls.

    `row_type` is a subclass of `Row`.
    """

    def encode(TokenizerFields self, sequence, pair=None, is_pretokenized=False, add_special_tokens=True):
        cdef Row row = None
        cdef bint unchanged
        cdef StateFields state = get_state(self, &unchanged)
        if type(sequence) is str and not is_pretokenized and unchanged:
            row = encode_row(row_type, state.plan_with(add_special_tokens), sequence, pair)
        return method(self, sequence, pair, is_pretokenized, add_special_tokens) if row is None else row

    return encode


def with_fast_hf_decode(method):
    """Wrap `Tokenizer.decode` in a fast path for few ids; `method` handles other calls."""

    def decode(TokenizerFields self, ids, skip_special_tokens=True):
        cdef bint unchanged
        cdef StateFields state = get_state(self, &unchanged)
        if type(ids) is list and unchanged:
            text = state.decode_short(ids, skip_special_tokens)
            if text is not None:
                return text
        return method(self, ids, skip_special_tokens)

    return decode


cdef Row encode_row(type row_type, PlanFields plan, str text, pair):
    """Encode a text, or a pair, as an object of `row_type`.

    None where rows cannot stay unresolved until they are read, for special tokens in texts that are long or that the
    kernel does not take, and for symbols that the vocabulary lacks.
    """
    cdef Row row
    if not plan.is_lazy or (pair is not None and (plan.pair_template_ids is None or type(pair) is not str)):
        return None
    try:
        ids = encode_ids(plan, text)
        pair_ids = None if pair is None or ids is None else encode_ids(plan, pair)
    except ValueError:
        return None
    if ids is None or (pair is not None and pair_ids is None):
        return None
    row = new_object(row_type, ())
    row.source, row.text = plan, text if pair is None else (text, pair)
    row.own_ids = ids if pair is None else (ids, pair_ids)
    return row


cdef bint has_no_special(PlanFields plan, str text) except -1:
    """Whether a text has no special tokens."""
    return plan.has_no_names or not may_have_name(text, plan.prefix)


cdef object encode_ids(PlanFields plan, str text):
    """Encode a text; None where `encode_row` is. ValueError for a symbol that the vocabulary lacks."""
    cdef bint takes_text = not plan.only_ascii or PyUnicode_IS_ASCII(text)
    if not has_no_special(plan, text):
        if plan.special_encoder is None or not takes_text or PyUnicode_GET_LENGTH(text) > MAX_SHORT_TEXT:
            return None
        return plan.special_encoder.encode(text)
    ids = None if plan.encoder is None or not takes_text else encode_to_array(plan.encoder, text)
    return plan.encode(text) if ids is None else ids


cdef bint append_short(PlanFields plan, Workspace workspace, str text) except -1:
    """Append the ids of a short text, with `plan.encoder`, not None. Returns False if Python must encode it."""
    cdef CodeUnits units
    if plan.only_ascii and not PyUnicode_IS_ASCII(text):
        return False
    if has_no_special(plan, text):
        return append_short_text(plan.encoder, workspace, text)
    units = get_code_units(text)
    # A longer text is encoded without the GIL, and there an interrupt gives the workspace back.
    if plan.special_encoder is None or max_utf8_size(&units) > MAX_SHORT_TEXT:
        return False
    return plan.special_encoder.append(workspace, text)
