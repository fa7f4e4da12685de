/* The int objects that lists of ids are made of: one for each id, in one array, never freed.
 *
 * The interpreter has its small ints in such an array too. An object's address follows from its id, and since it is never
 * freed, no list needs to count its references: making a list of ids reads nothing but the ids. Since Python 3.12, such
 * objects are called immortal (PEP 683), and counting leaves them alone. Before that, freeing a list lowers the counts of
 * its ints, which begin at 2**60: a billion a second would take 36 years to use one up.
 *
 * An object is a copy of one that the interpreter has made, whatever its layout. Where that would not do, there are none:
 * with pointers of 32 bits, ints of 15-bit digits, a build that checks all reference counts, and other interpreters.
 */
#ifndef BPE_INT_OBJECTS_H
#define BPE_INT_OBJECTS_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if PY_VERSION_HEX < 0x030B0000
#include "longintrepr.h"
#endif

enum { BPE_MAX_INTS = 1 << 19 }; /* they take 16 MB at most; the pages of those not made yet take no memory */

#if SIZEOF_VOID_P == 8 && PyLong_SHIFT == 30 && !defined(Py_REF_DEBUG) && !defined(Py_TRACE_REFS) && !defined(PYPY_VERSION)

static PyLongObject bpe_ints[BPE_MAX_INTS];
static Py_ssize_t bpe_n_ints; /* those below this number are made */

/* Make the objects of the ids below a limit; -1, with an exception, if there is no memory. Threads may do so at once, and
 * while lists point at the objects: each is written whole, and all threads write the same bytes. */
static int bpe_make_ints(Py_ssize_t limit) {
    Py_ssize_t made = __atomic_load_n(&bpe_n_ints, __ATOMIC_ACQUIRE), id;
    size_t size = (size_t)PyLong_Type.tp_basicsize + sizeof(digit); /* one digit: ids are below 2**30 */
    PyLongObject copy;
    if (limit > BPE_MAX_INTS) limit = BPE_MAX_INTS;
    for (id = made; id < limit; id++) {
        PyObject *number = PyLong_FromSsize_t(id);
        if (number == NULL) return -1;
        memcpy(&copy, number, size);
#if PY_VERSION_HEX >= 0x030C0000
        memcpy(&copy, Py_None, offsetof(PyObject, ob_type)); /* the count of an immortal object */
#else
        ((PyObject *)&copy)->ob_refcnt = (Py_ssize_t)1 << 60;
#endif
        memcpy(&bpe_ints[id], &copy, size);
        Py_DECREF(number);
    }
    while (made < limit && !__atomic_compare_exchange_n(&bpe_n_ints, &made, limit, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {}
    return 0;
}

/* Point at the objects of n ids; 0, and `items` are as before, if one of them has none. */
static inline int bpe_point_at_ints(const uint32_t *ids, Py_ssize_t n, PyObject **items) {
    uint32_t limit = (uint32_t)__atomic_load_n(&bpe_n_ints, __ATOMIC_ACQUIRE), missing = 0;
    for (Py_ssize_t i = 0; i < n; i++) missing |= ids[i] >= limit;
    if (missing) return 0;
    for (Py_ssize_t i = 0; i < n; i++) items[i] = (PyObject *)&bpe_ints[ids[i]];
    return 1;
}

/* The id of one of these objects, by its address; SIZE_MAX of any other one. */
static inline size_t bpe_kept_id(const PyObject *number) {
    size_t at = (size_t)((uintptr_t)number - (uintptr_t)bpe_ints);
    return at < sizeof bpe_ints ? at / sizeof *bpe_ints : SIZE_MAX;
}

#else

static int bpe_make_ints(Py_ssize_t limit) { return (void)limit, 0; }
static inline int bpe_point_at_ints(const uint32_t *ids, Py_ssize_t n, PyObject **items) {
    return (void)ids, (void)items, n == 0;
}
static inline size_t bpe_kept_id(const PyObject *number) { return (void)number, SIZE_MAX; }

#endif

/* Read n objects as ids; 0 if one is not of type int itself, or has over 32 bits. */
static inline int bpe_read_ids(PyObject *const *items, Py_ssize_t n, uint32_t *ids) {
    for (Py_ssize_t i = 0; i < n; i++) {
        size_t kept = bpe_kept_id(items[i]);
        long long number = (long long)kept;
        if (kept == SIZE_MAX) {
            if (!PyLong_CheckExact(items[i])) return 0;
            number = PyLong_AsLongLong(items[i]); /* -1 if it does not fit */
            if (number == -1) PyErr_Clear();
            if (number < 0 || number > UINT32_MAX) return 0;
        }
        ids[i] = (uint32_t)number;
    }
    return 1;
}

#endif
