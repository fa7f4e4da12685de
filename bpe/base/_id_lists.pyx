"""Ids as lists of Python's int, of which there is one object for each id; and lists of int as ids.

`ndarray.tolist` allocates an int for each id: memory that is touched once and freed with the list. Here a list points
at ints that exist and stay, so that making it reads the ids alone (`_int_objects.h`). Nor need the garbage collector
go through the lists made here: ints are part of no cycle, and visiting the lists of recent calls takes 5 to 15% of the
time of encoding to lists. So they are untracked. If a caller adds an object that refers to its list, the two are only
freed when the caller breaks that cycle.
"""

cimport cython
cimport numpy as cnp

from bpe.base._types cimport token_t
from cpython.list cimport PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport UINT32_MAX, int64_t

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void* each)

cdef extern from *:
    """
    #define bpe_list_items(list) (((PyListObject *)(list))->ob_item)
    """
    PyObject** list_items "bpe_list_items"(list each)

cdef extern from "bpe/base/_int_objects.h":
    int make_ints "bpe_make_ints"(Py_ssize_t limit) except -1
    bint point_at_ints "bpe_point_at_ints"(const token_t* ids, Py_ssize_t n, PyObject** items) nogil
    bint read_items "bpe_read_ids"(PyObject** items, Py_ssize_t n, token_t* ids)


def keep_ints(Py_ssize_t limit):
    """Make the int objects of the ids below a limit, or of the first 2**19; they stay until the process ends.

    Lists are made without them too, more slowly.
    """
    make_ints(limit)


cdef list make_list(const token_t* ids, Py_ssize_t n):
    """Make a list of these ids."""
    cdef Py_ssize_t i
    cdef object token_id
    cdef list id_list = PyList_New(n)
    PyObject_GC_UnTrack(<void*>id_list)
    if not point_at_ints(ids, n, list_items(id_list)):
        for i in range(n):
            token_id = ids[i]
            Py_INCREF(token_id)                            # the reference that `PyList_SET_ITEM` takes
            PyList_SET_ITEM(id_list, i, token_id)
    return id_list


cdef const token_t* get_data(cnp.ndarray ids) except NULL:
    """Return the data of an array of ids."""
    if cnp.PyArray_NDIM(ids) != 1 or cnp.PyArray_TYPE(ids) != cnp.NPY_UINT32 or not cnp.PyArray_IS_C_CONTIGUOUS(ids):
        raise TypeError(f"ids are {ids.dtype}, {ids.ndim}-D; they must be uint32, 1-D and contiguous")
    return <const token_t*>cnp.PyArray_DATA(ids)


def as_list(cnp.ndarray ids not None):
    """Convert a uint32 array of ids to a list of int."""
    return make_list(get_data(ids), cnp.PyArray_SIZE(ids))


def as_lists(cnp.ndarray ids not None, const int64_t[::1] offsets not None):
    """Make a list for each text of a batch: text i is `ids[offsets[i]:offsets[i + 1]]`."""
    cdef const token_t* data = get_data(ids)
    cdef Py_ssize_t i, size = cnp.PyArray_SIZE(ids), n = offsets.shape[0] - 1
    cdef int64_t start, end                                # read once: another thread may change the offsets
    cdef list rows = []
    for i in range(n):
        start, end = offsets[i], offsets[i + 1]
        if not 0 <= start <= end <= size:
            raise ValueError(f"text {i} is from {start} to {end} of {size} ids")
        rows.append(make_list(data + start, end - start))
    return rows


cdef bint read_ids(list ids, Py_ssize_t n, token_t* out):
    """Read a list of n ids; False if it has another size, another type than int in it, or a number that is no id."""
    cdef bint done = False
    with cython.critical_section(ids):                     # of free threading: another thread may change the list
        if PyList_GET_SIZE(ids) == n:
            done = read_items(list_items(ids), n, out)
    return done


def as_array(list ids not None):
    """Convert a list of int to a uint32 array.

    Raises TypeError for anything but int itself, and OverflowError for a number that is negative or has over 32 bits.
    """
    cdef cnp.npy_intp n = len(ids)
    cdef object array = cnp.PyArray_EMPTY(1, &n, cnp.NPY_UINT32, 0)
    cdef tuple items
    if read_ids(ids, n, <token_t*>cnp.PyArray_DATA(array)):
        return array
    items = tuple(ids)
    for i, item in enumerate(items):
        if type(item) is not int:
            raise TypeError(f"id {i} is {type(item).__name__}; it must be int")
        if not 0 <= item <= UINT32_MAX:
            raise OverflowError(f"id {i} is {item}; ids are from 0 to {UINT32_MAX}")
    return np.array(items, dtype=np.uint32)                # another thread has changed the list
