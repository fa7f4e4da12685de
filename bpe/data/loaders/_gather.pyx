"""Filling the rows of a batch from spans of ids: int64 inputs, labels shifted by one, positions and documents."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

ctypedef fused id_t:
    uint8_t
    uint16_t
    int32_t
    uint32_t
    int64_t


cdef void copy_span(
    const id_t* ids, int64_t column, int64_t count, int64_t length, int64_t* inputs, int64_t* labels
) noexcept nogil:
    """Copy ids to positions from `column` on of a row of length + 1 ids: the first has no label, the last no input."""
    cdef int64_t i
    for i in range(min(count, length - column)):
        inputs[column + i] = ids[i]
    for i in range(column == 0, count):
        labels[column + i - 1] = ids[i]


def gather(
    const id_t[::1] ids,               # IN all ids of a shard
    const int64_t[:, ::1] spans,       # IN of each: row; position in it; start in `ids`; number of ids
    int64_t[:, ::1] inputs,            # OUT one line for each row
    int64_t[:, ::1] labels,            # OUT the same
):
    """Copy each span to its row; IndexError for one that is outside the ids or the row, before anything is copied."""
    cdef int64_t size = ids.shape[0], length = inputs.shape[1], n_rows = inputs.shape[0], row, column, start, count
    cdef Py_ssize_t i, n = spans.shape[0]
    if spans.shape[1] != 4 or labels.shape[0] != n_rows or labels.shape[1] != length or length == 0:
        raise ValueError("spans must have 4 columns, and inputs and labels the same shape")
    for i in range(n):
        row, column, start, count = spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3]
        if not (
            0 <= row < n_rows and 0 <= column <= length and 0 < count <= length + 1 - column
            and 0 <= start <= size - count
        ):
            raise IndexError(
                f"span {i} {row, column, start, count} is not in {size} ids, {n_rows} rows of {length} + 1"
            )
    with nogil:
        for i in range(n):
            row = spans[i, 0]
            copy_span(&ids[spans[i, 2]], spans[i, 1], spans[i, 3], length, &inputs[row, 0], &labels[row, 0])


cdef void number_span(
    int64_t start, int64_t stop, int64_t document, int64_t* positions, int64_t* documents
) noexcept nogil:
    """Number the positions from `start` to `stop` of a row from 0 on, and name their document."""
    cdef int64_t i
    for i in range(start, stop):
        positions[i] = i - start
        documents[i] = document


def number_positions(
    const int64_t[:, ::1] spans,       # IN of each: row; position in it; number of ids; document
    int64_t[:, ::1] positions,         # OUT one line for each row: from 0 in each span
    int64_t[:, ::1] documents,         # OUT the same: the document of the span
):
    """Number the positions of each span; what follows a row's last span is a span of document -1.

    The first span of a row begins at 0, and each other one where the one before it ends. IndexError for a span that
    does not, or that is outside the row, before anything is written.
    """
    cdef int64_t length = positions.shape[1], n_rows = positions.shape[0], row, column, count
    cdef int64_t[::1] filled = np.zeros(n_rows, dtype=np.int64)
    cdef Py_ssize_t i, n = spans.shape[0]
    if spans.shape[1] != 4 or documents.shape[0] != n_rows or documents.shape[1] != length or length == 0:
        raise ValueError("spans must have 4 columns, and positions and documents the same shape")
    for i in range(n):
        row, column, count = spans[i, 0], spans[i, 1], spans[i, 2]
        if not (0 <= row < n_rows and column == filled[row] and 0 < count <= length + 1 - column):
            raise IndexError(
                f"span {i} {row, column, count} is not in {n_rows} rows of {length} + 1, or not next to the one "
                "before it"
            )
        filled[row] += count
    with nogil:
        for i in range(n):
            row, column = spans[i, 0], spans[i, 1]
            count = min(spans[i, 2], length - column)      # a row's last id has a label alone
            number_span(column, column + count, spans[i, 3], &positions[row, 0], &documents[row, 0])
        for row in range(n_rows):
            number_span(filled[row], length, -1, &positions[row, 0], &documents[row, 0])
