"""Copying spans of ids of any integer type into the rows of a batch: int64 inputs, and labels shifted by one.

Not here: which spans, and whose ids (`bpe/data/loaders/spans.py`).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

ctypedef fused id_t:
    uint8_t
    uint16_t
    int32_t
    uint32_t
    int64_t


cdef void copy_span(
    const id_t* ids, int64_t at, int64_t count, int64_t length, int64_t* inputs, int64_t* labels
) noexcept nogil:
    """Copy ids to positions from `at` on of a row of length + 1 ids: the first has no label, the last no input."""
    cdef int64_t i
    for i in range(min(count, length - at)):
        inputs[at + i] = ids[i]
    for i in range(at == 0, count):
        labels[at + i - 1] = ids[i]


def gather(
    const id_t[::1] ids,               # IN all ids of a shard
    const int64_t[:, ::1] spans,       # IN of each: row; position in it; start in `ids`; number of ids
    int64_t[:, ::1] inputs,            # OUT one line for each row
    int64_t[:, ::1] labels,            # OUT the same
):
    """Copy each span to its row; IndexError for one that is outside the ids or the row, before anything is copied."""
    cdef int64_t size = ids.shape[0], length = inputs.shape[1], n_rows = inputs.shape[0], row, at, start, count
    cdef Py_ssize_t i, n = spans.shape[0]
    if spans.shape[1] != 4 or labels.shape[0] != n_rows or labels.shape[1] != length or length == 0:
        raise ValueError("spans must have 4 columns, and inputs and labels the same shape")
    for i in range(n):
        row, at, start, count = spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3]
        if not (0 <= row < n_rows and 0 <= at <= length and 0 < count <= length + 1 - at and 0 <= start <= size-count):
            raise IndexError(f"span {i} {row, at, start, count} is not in {size} ids, {n_rows} rows of {length} + 1")
    with nogil:
        for i in range(n):
            row = spans[i, 0]
            copy_span(&ids[spans[i, 2]], spans[i, 1], spans[i, 3], length, &inputs[row, 0], &labels[row, 0])
