"""Calls of transformers' tokenizers: ids, masks, types and offsets, with template tokens, truncated and padded.

The columns of a call are written as lists of int, or straight into arrays of int64, which tensors share. A call with
options that were used before has no Python frame: a `RowLayout` has all that the options say.

Measured on a busy machine, `tok(text)` for 20 bytes: 9.0 µs with columns in Python, 1.3 here.
"""

cimport numpy as cnp

from bpe.base._id_lists cimport make_list, read_ids
from bpe.base._types cimport token_t
from bpe.compat._rows cimport (
    CallFields, PlanFields, Row, TokenizerFields, append_short, get_state, new_object, new_rows,
)
from bpe.encode._encoder cimport MAX_SHORT_TEXT
from bpe.encode._fast_path cimport MAX_SHORT_TEXTS, are_short_together
from bpe.encode._workspace cimport Workspace
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_INCREF, PyObject
from cpython.unicode cimport PyUnicode_GET_LENGTH
from libc.stdint cimport int64_t

from sys import _getframe as sys_getframe

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    Py_ssize_t count_references "Py_REFCNT"(PyObject* item)
    dict get_attributes "PyObject_GenericGetDict"(object item, void* context)
    int set_attributes "PyObject_GenericSetDict"(object item, object attributes, void* context) except -1

cdef enum:
    MAX_LAYOUTS = 64          # of a tokenizer: one for each kind of call
    MAX_DEPTH = 16            # of the values in a message
    MAX_MEAN_CHARS = 8        # of a token, in most texts
    MIN_LEFT_OUT = 1 << 15    # characters of one text that must be left out to pay for the setup of a job
    MAX_SMALL = 256           # tokens of a row of a list for which no memory is allocated

ctypedef fused number_t:      # of a list's buffer, or of an array
    token_t
    int64_t

cdef enum Column:
    IDS, TYPE_IDS, ATTENTION, SPECIAL, OFFSETS

cdef dict COLUMNS = {
    "input_ids": IDS, "token_type_ids": TYPE_IDS, "attention_mask": ATTENTION, "special_tokens_mask": SPECIAL,
    "offset_mapping": OFFSETS,
}
# Functions of transformers that read the backend: those that return it or a part of it, and those that change nothing.
cdef tuple HANDING_OUT = ("backend_tokenizer", "decoder")
cdef frozenset UNCHANGING = frozenset((
    "__len__", "get_vocab", "vocab", "vocab_size", "added_tokens_decoder", "num_special_tokens_to_add",
    "convert_ids_to_tokens", "_convert_id_to_token", "_convert_token_to_id_with_added_voc", "_decode",
))
cdef tuple KEYS = ((0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,))  # of calls without options, by their kind
#: The keys of a tokenizer's state and of its backend in its `__dict__`.
STATE_ATTRIBUTE, BACKEND_ATTRIBUTE = "_bpe_acceleration", "_tokenizer"

cdef struct Piece:
    const token_t* ids        # template tokens
    const token_t* type_ids
    Py_ssize_t n

cdef struct RowBounds:
    int64_t start[2]          # of each text, in the ids of the call
    int64_t stop[2]
    Py_ssize_t n              # tokens, without padding
    Py_ssize_t n_missing      # tokens of padding


# The state of a tokenizer ---------------------------------------------------------------------------------------------


cdef class AccelerationFields:
    """The fields of an `AccelerationState` that each call reads.

    Attributes:
        backend: the backend with which results were compared.
        backend_was_read: whether the backend was read since it was last compared.
        is_shared: whether code other than the tokenizer's may have the backend, and change it unnoticed.
        verification_due: whether the backend has changed, and results have not been compared again yet.
        decoding: the compat tokenizer, if decoding is accelerated.

    """

    cdef public object backend
    cdef public bint backend_was_read
    cdef public bint is_shared
    cdef public bint verification_due
    cdef dict layouts         # of the calls of each kind
    cdef public TokenizerFields decoding

    def __cinit__(self):
        self.layouts = {}

    def find_layout(self, tokenizer, tuple key not None):
        """Return the layout that was kept for a key, if it is still that of the tokenizer."""
        layout = self.layouts.get(key)
        return layout if layout is not None and (<RowLayout?>layout).fits(tokenizer) else None

    def keep_layout(self, tuple key not None, RowLayout layout not None):
        """Keep a layout."""
        if len(self.layouts) >= MAX_LAYOUTS:
            self.layouts.clear()                           # never another dict: threads read the attribute
        self.layouts[key] = layout

    def is_certain(self, tokenizer):
        """Whether this is the state of a tokenizer, and nothing can have changed its backend since the last call."""
        return find_unchanged(tokenizer) is self

    def note_sharing(self):
        """Note whether anything but this state and one tokenizer refers to the backend."""
        if count_references(<PyObject*>self.backend) > 2:
            self.is_shared = True


cdef AccelerationFields find_unchanged(tokenizer):
    """Return the state of a tokenizer if nothing can have changed its backend since the last call; else None."""
    cdef dict attributes = get_attributes(tokenizer, NULL)
    cdef PyObject* item = PyDict_GetItem(attributes, STATE_ATTRIBUTE)
    cdef AccelerationFields state
    if item == NULL or <object>item is None:               # a copy has None
        return None
    state = <AccelerationFields?><object>item
    item = PyDict_GetItem(attributes, BACKEND_ATTRIBUTE)
    if item != <PyObject*>state.backend or state.backend_was_read or state.is_shared or state.verification_due:
        return None
    return state if count_references(item) == 2 else None


cdef class BackendAttribute:
    """An attribute that reads the backend of a tokenizer, and notes that it was read.

    Code of transformers uses the backend and drops it, except for the properties `HANDING_OUT`, and most of it changes
    nothing (`UNCHANGING`). Other code may keep what it reads.

    Args:
        default: what a tokenizer without a backend has.

    """

    cdef object default
    cdef list known_codes     # of functions that change nothing

    def __cinit__(self, default):
        self.default, self.known_codes = default, []

    def __get__(self, tokenizer, tokenizer_type):
        cdef dict attributes
        cdef PyObject* backend
        cdef PyObject* state
        if tokenizer is None:
            return self
        attributes = get_attributes(tokenizer, NULL)
        backend, state = PyDict_GetItem(attributes, BACKEND_ATTRIBUTE), PyDict_GetItem(attributes, STATE_ATTRIBUTE)
        if backend == NULL:
            return self.default
        if state != NULL and <object>state is not None:
            if <PyObject*>(<AccelerationFields?><object>state).backend == backend:
                self.note_read(<AccelerationFields><object>state)
        return <object>backend

    def __set__(self, tokenizer, backend):
        get_attributes(tokenizer, NULL)[BACKEND_ATTRIBUTE] = backend

    @property
    def _bpe_original(self):
        return self.default

    cdef int note_read(self, AccelerationFields state) except -1:
        """Note that the running function, which is not a kernel's, reads the backend."""
        cdef PyObject* code
        cdef object known_code
        if state.is_shared and state.backend_was_read:
            return 0
        frame = sys_getframe(0)
        frame_code = frame.f_code
        code = <PyObject*>frame_code
        for known_code in self.known_codes:
            if <PyObject*>known_code == code:
                return 0
        is_internal = str(frame.f_globals.get("__name__")).startswith("transformers.")
        name = frame_code.co_name
        if not is_internal or name in HANDING_OUT:
            state.is_shared = True
        if not is_internal or name not in UNCHANGING:
            state.backend_was_read = True
        else:
            self.known_codes.append(frame_code)
        return 0


# Calls ----------------------------------------------------------------------------------------------------------------


def with_fast_call(method, make_layout):
    """Wrap `__call__` of a tokenizer in a fast path for texts, pairs and lists; `method` handles other calls.

    `make_layout` returns the `RowLayout` of a call, or None, from the tokenizer, the text, the options and their key.
    """

    def __call__(self, text=None, *args, **options):
        pair = None
        if type(text) is str or type(text) is list:
            if args:
                if len(args) > 1 or "text_pair" in options:
                    return method(self, text, *args, **options)
                pair = args[0]
            elif options:
                pair = options.get("text_pair")
            result = answer(self, text, pair, options, False, make_layout)
            if result is not None:
                return result
        return method(self, text, *args, **options)

    return __call__


def with_fast_transformers_encode(method, make_layout):
    """Wrap `encode` of a tokenizer in a fast path for texts and pairs; `method` handles other calls."""

    def encode(self, text, *args, **options):
        if not args and type(text) is str:
            result = answer(self, text, options.get("text_pair") if options else None, options, True, make_layout)
            if result is not None:
                return result
        return method(self, text, *args, **options)

    return encode


cdef object answer(tokenizer, text, pair, dict options, bint ids_only, make_layout):
    """Answer a call; None where transformers' own code must do so."""
    cdef bint is_single = type(text) is str
    cdef AccelerationFields state
    cdef tuple key
    if is_single:
        if pair is not None and (type(pair) is not str or not pair):
            return None
    elif not are_texts(text) or not (pair is None or (are_texts(pair) and len(<list>pair) == len(<list>text))):
        return None
    key = make_key(options, is_single + 2 * (pair is not None) + 4 * ids_only)
    if key is None:
        return None
    state = find_unchanged(tokenizer)
    layout = None if state is None else state.find_layout(tokenizer, key)
    if layout is None:
        layout = make_layout(tokenizer, text, options, key)
        if layout is None:
            return None
    return (<RowLayout?>layout).encode(tokenizer, text, pair)


cdef bint are_texts(texts) except -1:
    """Whether an object is a list of str, with at least one."""
    if type(texts) is not list or not texts:
        return False
    for text in <list>texts:
        if type(text) is not str:
            return False
    return True


cdef tuple make_key(dict options, int call_kind):
    """Make a key of the options of a call; None where a value may be equal to a value of another type.

    The text pair is no part of it.
    """
    cdef list key
    if not options:
        return KEYS[call_kind]
    key = [call_kind]
    for name, value in options.items():
        if name != "text_pair":
            value_type = type(value)
            if not (value is None or value_type is str or value_type is int or value_type is bool):
                return None
            key += (name, value, value_type)
    return tuple(key)


cdef class RowLayout:
    """How a call with certain options becomes rows. Immutable.

    Args:
        plan: how texts are encoded and truncated.
        types: the classes of encodings and of the result; the second is None where only ids are wanted.
        columns: the names of the columns, in their order.
        make_tensor: makes what a call returns of an array; None for lists.
        template: a `processing.RowTemplate`.
        truncation: (the most ids of a text that are kept, whether those at the end are), or None.
        padding: a `RowPadding` whose length is -1 for that of the longest row, or None.
        max_length: the number of tokens after which transformers warns; for pairs that would have to be truncated, the
            number after which transformers' own code must encode; each is -1 if there is none.
        tokenizer_type: the class of the tokenizer.
        settings: the names and the values of its attributes that all this depends on.

    """

    cdef PlanFields plan
    cdef type row_type
    cdef object batch_type    # a class, or None
    cdef bint has_plain_batch  # whether the result has only the attributes that are set here
    cdef tuple columns
    cdef object make_tensor
    cdef tuple trims
    cdef tuple memory         # what the pieces point at
    cdef Piece pieces[3]      # before, between and after the texts
    cdef token_t text_type_ids[2]
    cdef int n_texts
    cdef Py_ssize_t max_ids, warn_length, pair_limit
    cdef Py_ssize_t n_wanted  # ids of a text that are wanted, the first ones; 0 if all are
    cdef bint keeps_end, is_padded, pads_left
    cdef tuple padding
    cdef Py_ssize_t padded_length
    cdef token_t pad_id, pad_type_id
    cdef object tokenizer_type
    cdef tuple settings       # names of attributes, their values, and whether they are in the tokenizer's `__dict__`

    def __cinit__(
        self, PlanFields plan not None, tuple types not None, tuple columns not None, make_tensor, template,
        truncation, tuple padding, tuple max_length not None, tokenizer_type, tuple settings not None,
    ):
        cdef int i
        self.plan, self.tokenizer_type = plan, tokenizer_type
        self.settings = ()
        for name, value in settings:
            is_plain = not hasattr(getattr(tokenizer_type, name, None), "__set__")
            self.settings += ((name, value, is_plain),)
        self.row_type, self.batch_type, self.has_plain_batch = types
        if not issubclass(self.row_type, Row):
            raise TypeError(f"{self.row_type.__name__} is no subclass of Row")
        if self.batch_type is not None and not isinstance(self.batch_type, type):
            raise TypeError(f"{self.batch_type!r} is no class")
        self.columns = self.memory = ()
        for name in columns:
            self.columns += ((name, COLUMNS[name]),)
        self.make_tensor = make_tensor
        self.trims, self.n_texts = template.trims, len(template.trims)
        if not 1 <= self.n_texts <= 2 or not len(template.ids) == self.n_texts + 1 == len(template.type_ids):
            raise ValueError(f"a template of {self.n_texts} texts has {len(template.ids)} pieces")
        for values in template.ids + template.type_ids:
            self.memory += (np.array(values, np.uint32).tobytes(),)
        for i in range(self.n_texts + 1):
            self.pieces[i].ids = <const token_t*><const char*>(<bytes>self.memory[i])
            self.pieces[i].type_ids = <const token_t*><const char*>(<bytes>self.memory[self.n_texts + 1 + i])
            self.pieces[i].n = min(len(self.memory[i]), len(self.memory[self.n_texts + 1 + i])) // sizeof(token_t)
        for i in range(self.n_texts):
            self.text_type_ids[i] = template.text_type_ids[i]
        self.max_ids, self.keeps_end = (-1, False) if truncation is None else truncation
        self.n_wanted = 0 if truncation is None or self.keeps_end else self.max_ids
        self.warn_length, self.pair_limit = max_length
        self.padding, self.is_padded = padding, padding is not None
        if self.is_padded:
            if len(padding) != 5:
                raise ValueError(f"padding has {len(padding)} fields; it must have 5")
            self.padded_length, self.pads_left = padding[0], padding[1] == "left"
            self.pad_id, self.pad_type_id = padding[2], padding[3]

    cdef bint fits(self, tokenizer) except -1:
        """Whether the tokenizer's attributes are those for which the layout was made."""
        cdef dict attributes = get_attributes(tokenizer, NULL)
        cdef PyObject* item
        if type(tokenizer) is not self.tokenizer_type:
            return False
        for name, value, is_plain in self.settings:
            item = PyDict_GetItem(attributes, name) if is_plain else NULL
            if item == NULL:
                if getattr(tokenizer, name) != value:
                    return False
            elif item != <PyObject*>value and <object>item != value:
                return False
        return True

    cdef object encode(self, tokenizer, text, pair):
        """Encode texts to a result; None where transformers' own code must do so."""
        cdef list texts
        cdef CallFields call
        cdef bint is_single = type(text) is str, is_short
        if is_single:
            texts = [text] if pair is None else [text, pair]
        else:
            texts = list(<list>text) if pair is None else []
            if pair is not None:
                for texts_of_pair in zip(<list>text, <list>pair):
                    texts += texts_of_pair
            if not are_texts(texts):        # another thread has changed the lists meanwhile
                return None
        is_short = PyUnicode_GET_LENGTH(text) <= MAX_SHORT_TEXT if is_single else are_short_together(texts)
        if is_short and self.plan.encoder is not None:
            result = self.encode_short(tokenizer, texts, is_single)
            if result is not NotImplemented:
                return result
        if self.pays_to_limit(texts):
            call = self.plan.encode_texts(texts, self.n_wanted)
            return self.write_call(tokenizer, texts, call, is_single, True)
        call = self.plan.encode_texts(texts) if pair is None else self.plan.encode_pairs(texts)
        return self.write_call(tokenizer, texts, call, is_single, False)

    cdef bint pays_to_limit(self, list texts) except -1:
        """Whether to encode long texts only as far as their ids are wanted; for one text, that needs a job."""
        if PyList_GET_SIZE(texts) == 1:
            return 0 < self.n_wanted < (PyUnicode_GET_LENGTH(texts[0]) - MIN_LEFT_OUT) // MAX_MEAN_CHARS
        return self.n_wanted > 0

    cdef object encode_short(self, tokenizer, list texts, bint is_single):
        """Encode texts that are short together to a result; NotImplemented if one of them is long."""
        cdef Workspace workspace = self.plan.encoder.take_workspace()
        try:
            result = self.encode_in(workspace, tokenizer, texts, is_single)
        except BaseException as error:
            self.plan.encoder.abandon(workspace, error)
            raise
        self.plan.encoder.give_back(workspace)
        return result

    cdef object encode_in(self, Workspace workspace, tokenizer, list texts, bint is_single):
        cdef int64_t bounds[MAX_SHORT_TEXTS + 1]
        cdef Py_ssize_t i, n_texts = PyList_GET_SIZE(texts)
        bounds[0] = 0
        if self.n_wanted:
            self.plan.encoder.want_beginnings(workspace, self.n_wanted)
        for i in range(n_texts):
            if not append_short(self.plan, workspace, texts[i]):
                return NotImplemented
            bounds[i + 1] = <int64_t>workspace.out.n
        rows = self.new_own_rows(texts)
        return self.write(tokenizer, texts, workspace.out.data, bounds, rows, n_texts // self.n_texts, is_single)

    cdef list new_own_rows(self, list texts):
        """Make rows that encode their texts when they are read; None where only ids are wanted."""
        cdef list rows
        cdef Row row
        cdef Py_ssize_t i, n_rows = PyList_GET_SIZE(texts) // self.n_texts
        if self.batch_type is None:
            return None
        rows = new_rows(self.row_type, self.plan, n_rows)
        for i in range(n_rows):
            row = <Row>rows[i]
            row.text = texts[i] if self.n_texts == 1 else (texts[2 * i], texts[2 * i + 1])
            row.row = 0
        return rows

    cdef object write_call(self, tokenizer, list texts, CallFields call, bint is_single, bint has_beginnings):
        """Write the rows of a call, which may have only the beginnings of the texts."""
        cdef cnp.ndarray ids = np.ascontiguousarray(call.ids, np.uint32)
        cdef Py_ssize_t i, n_rows = PyList_GET_SIZE(texts) // self.n_texts
        cdef int64_t bounds_of_one[2]
        cdef const int64_t* bounds = bounds_of_one
        if call.offsets is None:
            if PyList_GET_SIZE(texts) != 1:
                raise ValueError(f"a call of one text has {len(texts)}")
            bounds_of_one[0], bounds_of_one[1] = 0, cnp.PyArray_SIZE(ids)
        else:
            if call.offsets.shape[0] != PyList_GET_SIZE(texts) + 1:
                raise ValueError(f"a call of {call.offsets.shape[0] - 1} texts has {len(texts)}")
            bounds = &call.offsets[0]
        for i in range(PyList_GET_SIZE(texts)):
            if not 0 <= bounds[i] <= bounds[i + 1] <= cnp.PyArray_SIZE(ids):
                raise ValueError(f"text {i} is from {bounds[i]} to {bounds[i + 1]} of {cnp.PyArray_SIZE(ids)} ids")
        if has_beginnings:
            rows = self.new_own_rows(texts)
        else:
            rows = None if self.batch_type is None else new_rows(self.row_type, call, n_rows)
        return self.write(tokenizer, texts, <const token_t*>cnp.PyArray_DATA(ids), bounds, rows, n_rows, is_single)

    cdef object write(
        self, tokenizer, texts, const token_t* ids, const int64_t* bounds, list rows, Py_ssize_t n_rows, bint is_single
    ):
        """Write the columns of rows; None for rows that are no array, or must be truncated by transformers."""
        cdef RowBounds row
        cdef Py_ssize_t i, n_longest = 0, n_shortest = -1, length
        cdef token_t small_buffer[MAX_SMALL]
        cdef token_t* buffer = small_buffer
        for i in range(n_rows):
            self.find_bounds(&row, bounds, i, 0)
            n_longest = max(n_longest, row.n)
            n_shortest = row.n if n_shortest < 0 else min(n_shortest, row.n)
        if 0 <= self.pair_limit < n_longest:
            return None
        length = (n_longest if self.padded_length < 0 else self.padded_length) if self.is_padded else 0
        n_longest, n_shortest = max(n_longest, length), max(n_shortest, length)
        if self.make_tensor is not None and (n_longest != n_shortest or not n_longest):
            return None
        if self.make_tensor is None and n_longest > MAX_SMALL:
            buffer = <token_t*>PyMem_Malloc(n_longest * sizeof(token_t))
            if buffer == NULL:
                raise MemoryError
        data = {}
        try:
            for name, column in self.columns:
                if column == OFFSETS:
                    values = self.write_offsets(texts, bounds, n_rows, length)
                    if values is None:
                        return None
                    data[name] = values[0] if is_single and self.make_tensor is None else values
                elif self.make_tensor is not None:
                    array = self.write_array(column, ids, bounds, n_rows, n_longest)
                    data[name] = self.make_tensor(array)
                elif is_single:
                    self.find_bounds(&row, bounds, 0, length)
                    data[name] = self.write_list(column, ids, &row, buffer)
                else:
                    data[name] = self.write_lists(column, ids, bounds, n_rows, length, buffer)
        finally:
            if buffer != small_buffer:
                PyMem_Free(buffer)
        if 0 <= self.warn_length < n_longest:
            for row_ids in [data["input_ids"]] if is_single and self.make_tensor is None else data["input_ids"]:
                if len(row_ids) > self.warn_length:
                    tokenizer._eventual_warn_about_too_long_sequence(row_ids, None, True)
        return self.finish(data, rows, length)

    cdef object finish(self, dict data, list rows, Py_ssize_t length):
        """Make the result of columns."""
        cdef Row row
        if rows is None:
            return data["input_ids"]
        if self.is_padded:
            padding = (length,) + self.padding[1:]
            for item in rows:
                row = item
                row.padding = padding
        if not self.has_plain_batch:
            return self.batch_type(data, rows)
        result = new_object(self.batch_type, ())
        set_attributes(result, {"data": data, "_encodings": rows, "_n_sequences": self.n_texts}, NULL)
        return result

    cdef void find_bounds(
        self, RowBounds* row, const int64_t* bounds, Py_ssize_t index, Py_ssize_t length
    ) noexcept nogil:
        """Find the tokens of a row that is padded to a length."""
        cdef int i
        row.n = self.pieces[self.n_texts].n
        for i in range(self.n_texts):
            row.start[i], row.stop[i] = bounds[index * self.n_texts + i], bounds[index * self.n_texts + i + 1]
            if 0 <= self.max_ids < row.stop[i] - row.start[i]:
                if self.keeps_end:
                    row.start[i] = row.stop[i] - self.max_ids
                else:
                    row.stop[i] = row.start[i] + self.max_ids
            row.n += self.pieces[i].n + <Py_ssize_t>(row.stop[i] - row.start[i])
        row.n_missing = max(length - row.n, 0)

    cdef void fill(self, Column column, const token_t* ids, const RowBounds* row, number_t* out) noexcept nogil:
        """Write a column of a row to `out`, which has room for it."""
        cdef token_t padding = (
            self.pad_id if column == IDS else self.pad_type_id if column == TYPE_IDS else column == SPECIAL
        )
        cdef int i
        cdef Py_ssize_t n
        if self.pads_left:
            out = fill_run(out, padding, row.n_missing)
        for i in range(self.n_texts + 1):
            n = self.pieces[i].n
            if column <= TYPE_IDS:
                out = copy_run(out, self.pieces[i].ids if column == IDS else self.pieces[i].type_ids, n)
            else:
                out = fill_run(out, 1, n)
            if i == self.n_texts:
                break
            n = <Py_ssize_t>(row.stop[i] - row.start[i])
            if column == IDS:
                out = copy_run(out, ids + row.start[i], n)
            else:
                out = fill_run(out, <token_t>(self.text_type_ids[i] if column == TYPE_IDS else column == ATTENTION), n)
        if not self.pads_left:
            fill_run(out, padding, row.n_missing)

    cdef list write_list(self, Column column, const token_t* ids, const RowBounds* row, token_t* buffer):
        """Write a column of a row as a list, by way of a buffer."""
        if column == IDS and row.n == row.stop[0] - row.start[0] and not row.n_missing:
            return make_list(ids + row.start[0], row.n)    # without template and padding, no copy
        self.fill(column, ids, row, buffer)
        return make_list(buffer, row.n + row.n_missing)

    cdef list write_lists(
        self, Column column, const token_t* ids, const int64_t* bounds, Py_ssize_t n_rows, Py_ssize_t length,
        token_t* buffer,
    ):
        """Write a column as a list for each row."""
        cdef RowBounds row
        cdef Py_ssize_t i
        cdef list lists = PyList_New(n_rows), items
        for i in range(n_rows):
            self.find_bounds(&row, bounds, i, length)
            items = self.write_list(column, ids, &row, buffer)
            Py_INCREF(items)                               # PyList_SET_ITEM takes a reference
            PyList_SET_ITEM(lists, i, items)
        return lists

    cdef object write_array(
        self, Column column, const token_t* ids, const int64_t* bounds, Py_ssize_t n_rows, Py_ssize_t length
    ):
        """Write a column as an array with a row of `length` for each row."""
        cdef RowBounds row
        cdef Py_ssize_t i
        cdef cnp.npy_intp shape[2]
        cdef int64_t* out
        shape[0], shape[1] = n_rows, length
        array = cnp.PyArray_EMPTY(2, shape, cnp.NPY_INT64, 0)
        out = <int64_t*>cnp.PyArray_DATA(array)
        for i in range(n_rows):
            self.find_bounds(&row, bounds, i, length)
            self.fill(column, ids, &row, out)
            out += length
        return array

    cdef object write_offsets(self, texts, const int64_t* bounds, Py_ssize_t n_rows, Py_ssize_t length):
        """Write the offsets, as tuples or as an array; None where they cannot be found without `tokenizers`."""
        cdef RowBounds row
        cdef Py_ssize_t i, k, index
        cdef list lists = [], items
        for i in range(n_rows):
            self.find_bounds(&row, bounds, i, length)
            items = [(0, 0)] * (row.n_missing if self.pads_left else 0)
            for k in range(self.n_texts + 1):
                items += [(0, 0)] * self.pieces[k].n
                if k == self.n_texts:
                    break
                index = i * self.n_texts + k
                spans = self.plan.find_spans(
                    texts[index], self.trims[k], row.start[k] - bounds[index], row.stop[k] - bounds[index]
                )
                if spans is None:
                    return None
                items += spans
            items += [(0, 0)] * (0 if self.pads_left else row.n_missing)
            lists.append(items)
        return lists if self.make_tensor is None else self.make_tensor(np.array(lists, dtype=np.int64))


cdef inline number_t* copy_run(number_t* out, const token_t* ids, Py_ssize_t n) noexcept nogil:
    """Copy n ids; return the position after the last."""
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = ids[i]
    return out + n


cdef inline number_t* fill_run(number_t* out, token_t value, Py_ssize_t n) noexcept nogil:
    """Write a value n times; return the position after the last."""
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = value
    return out + n


# Decoding -------------------------------------------------------------------------------------------------------------


def with_fast_transformers_decode(method):
    """Wrap `decode` of a tokenizer in a fast path for few ids; `method` handles other calls."""

    def decode(self, token_ids, skip_special_tokens=False, **options):
        cdef AccelerationFields state
        cdef bint unchanged
        if not options and type(token_ids) is list and type(skip_special_tokens) is bool:
            state = find_unchanged(self)
            if state is not None and state.decoding is not None and not self.clean_up_tokenization_spaces:
                text = get_state(state.decoding, &unchanged).decode_short(token_ids, skip_special_tokens)
                if text is not None:
                    return text
        return method(self, token_ids, skip_special_tokens, **options)

    return decode


def find_names(list names not None, list ids not None):
    """Find the name of each id, or None where there is none; None unless all ids are int from 0 to 2**32 - 1."""
    cdef Py_ssize_t i, n = PyList_GET_SIZE(ids), n_names = PyList_GET_SIZE(names)
    cdef token_t* buffer = <token_t*>PyMem_Malloc((n + 1) * sizeof(token_t))
    cdef list found
    if buffer == NULL:
        raise MemoryError
    try:
        if not read_ids(ids, n, buffer):
            return None
        found = PyList_New(n)
        for i in range(n):
            name = names[buffer[i]] if <Py_ssize_t>buffer[i] < n_names else None
            Py_INCREF(name)                                # PyList_SET_ITEM takes a reference
            PyList_SET_ITEM(found, i, name)
        return found
    finally:
        PyMem_Free(buffer)


# Chats ----------------------------------------------------------------------------------------------------------------

#: Fields for which transformers adds others.
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")


def copy_messages(list messages not None):
    """Copy a conversation without the fields of messages that are None, as transformers does.

    None unless it has JSON's types only, and no message has its reasoning.
    """
    cdef list copies = []
    cdef dict message_copy
    for message in messages:
        if type(message) is not dict:
            return None
        message_copy = {}
        for name, value in (<dict>message).items():
            if type(name) is not str or name in REASONING_FIELDS:
                return None
            if value is not None:
                value = copy_plain(value, MAX_DEPTH)
                if value is NotImplemented:
                    return None
                message_copy[name] = value
        copies.append(message_copy)
    return copies


cdef object copy_plain(value, int max_depth):
    """Copy a value of JSON's types; NotImplemented for any other, and for values nested deeper than `max_depth`."""
    value_type = type(value)
    if value is None or value_type is str or value_type is int or value_type is float or value_type is bool:
        return value
    if not max_depth:
        return NotImplemented
    if value_type is list:
        items = []
        for item in <list>value:
            item = copy_plain(item, max_depth - 1)
            if item is NotImplemented:
                return NotImplemented
            items.append(item)
        return items
    if value_type is not dict:
        return NotImplemented
    fields = {}
    for name, item in (<dict>value).items():
        item = copy_plain(item, max_depth - 1)
        if type(name) is not str or item is NotImplemented:
            return NotImplemented
        fields[name] = item
    return fields
