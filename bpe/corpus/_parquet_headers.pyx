"""Where a Parquet file has a column, by the footer, and what its pages hold, by the headers of pages.

pyarrow has no way to ask for the headers of pages, and ends the process over a footer that contradicts itself. Both are
structs of Thrift's compact protocol, which are walked without making objects of what is not asked for.

Source: parquet-format (parquet.thrift), and Apache Thrift's page on the compact protocol.
"""

import numpy as np

from bpe.base._types cimport byte_t
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    # Thrift's types; a field of the two types for bools has no bytes, an item of a list has one.
    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    # Fields of the footer, of a row group, of a column in it, and of what that says.
    ROW_GROUPS = 4
    COLUMNS = 1
    COLUMN_DATA = 3
    UNPACKED_SIZE = 6
    PACKED_SIZE = 7
    DATA_PAGE = 9
    DICTIONARY_PAGE = 11
    # Fields of a page's header, and of the structs in it for the two kinds of data pages.
    PAGE_TYPE = 1
    PAGE_SIZE = 2
    PACKED_PAGE_SIZE = 3
    DATA_HEADER = 5
    DATA_HEADER_V2 = 8
    N_VALUES = 1
    ENCODING = 2
    ENCODING_V2 = 4
    MIN_ROW_GROUP = 7         # bytes: its three fields, and its end
    MAX_DEPTH = 64            # of structs and lists within each other

cdef struct Walk:
    const byte_t* at
    const byte_t* end
    bint has_failed           # at what is no struct; `at` is at the end then

cdef struct Field:
    int64_t number
    int kind


def find_column_chunks(const byte_t[::1] footer, Py_ssize_t column):
    """Find a column in each row group of a Parquet file.

    Args:
        footer: uint8 (n,), the footer, without its size and the magic bytes.
        column: the index of the column among the leaves of the schema.

    Returns:
        int64 (row groups, 4): the positions of the dictionary page and of the first data page, and the sizes of all
        pages as they are in the file and without compression, in bytes; 0 for what the footer lacks.

    Raises:
        ValueError: for a footer that is no such struct.

    """
    cdef Walk walk
    cdef Field field
    cdef int64_t[:, ::1] chunks
    cdef uint64_t i, n
    cdef int kind
    if footer.shape[0] == 0:
        raise ValueError("the footer is empty")
    walk.at, walk.end, walk.has_failed = &footer[0], &footer[0] + footer.shape[0], False
    field.number = 0
    chunks = result = np.zeros((0, 4), dtype=np.int64)
    while read_field(&walk, &field):
        if field.number == ROW_GROUPS and field.kind == LIST:
            n = read_list(&walk, &kind)
            if kind != STRUCT or n > <uint64_t>(walk.end - walk.at) / MIN_ROW_GROUP:
                fail(&walk)
                break
            chunks = result = np.zeros((n, 4), dtype=np.int64)
            for i in range(n):
                read_row_group(&walk, column, &chunks[i, 0])
        else:
            skip(&walk, field.kind, 0)
    if walk.has_failed or walk.at != walk.end:
        raise ValueError("the footer is no struct of Thrift, or has bytes behind it")
    return result


def read_page_header(const byte_t[::1] data):
    """Read the header of a page.

    Args:
        data: uint8 (n,), what begins with the header.

    Returns:
        What parquet.thrift calls type, uncompressed_page_size, compressed_page_size, num_values and encoding, -1 for
        what the header lacks, and how many bytes the header has. None if the data ends before it, or begins with no
        struct.

    """
    cdef Walk walk
    cdef Field field, inner
    cdef int encoding_field
    cdef int64_t page_type = -1, size = -1, packed_size = -1, n_values = -1, encoding = -1
    if data.shape[0] == 0:
        return None
    walk.at, walk.end, walk.has_failed = &data[0], &data[0] + data.shape[0], False
    field.number = 0
    while read_field(&walk, &field):
        if field.kind == I32 and field.number == PAGE_TYPE:
            page_type = read_integer(&walk)
        elif field.kind == I32 and field.number == PAGE_SIZE:
            size = read_integer(&walk)
        elif field.kind == I32 and field.number == PACKED_PAGE_SIZE:
            packed_size = read_integer(&walk)
        elif field.kind == STRUCT and (field.number == DATA_HEADER or field.number == DATA_HEADER_V2):
            encoding_field = ENCODING if field.number == DATA_HEADER else ENCODING_V2
            inner.number = 0
            while read_field(&walk, &inner):
                if inner.kind == I32 and inner.number == N_VALUES:
                    n_values = read_integer(&walk)
                elif inner.kind == I32 and inner.number == encoding_field:
                    encoding = read_integer(&walk)
                else:
                    skip(&walk, inner.kind, 1)
        else:
            skip(&walk, field.kind, 0)
    if walk.has_failed:
        return None
    return page_type, size, packed_size, n_values, encoding, walk.at - &data[0]


cdef void read_row_group(Walk* walk, Py_ssize_t column, int64_t* chunk) noexcept nogil:
    """Read a row group, and of its columns the one that is asked for."""
    cdef Field field
    cdef int64_t i, n
    cdef int kind
    field.number = 0
    while read_field(walk, &field):
        if field.number == COLUMNS and field.kind == LIST:
            n = <int64_t>read_list(walk, &kind)
            i = 0
            while i < n and not walk.has_failed:
                if i == column and kind == STRUCT:
                    read_column(walk, chunk)
                else:
                    skip_item(walk, kind, 1)
                i += 1
        else:
            skip(walk, field.kind, 1)


cdef void read_column(Walk* walk, int64_t* chunk) noexcept nogil:
    """Read a column of a row group."""
    cdef Field field, inner
    field.number = 0
    while read_field(walk, &field):
        if field.number == COLUMN_DATA and field.kind == STRUCT:
            inner.number = 0
            while read_field(walk, &inner):
                if inner.kind != I64:
                    skip(walk, inner.kind, 3)
                elif inner.number == DICTIONARY_PAGE:
                    chunk[0] = read_integer(walk)
                elif inner.number == DATA_PAGE:
                    chunk[1] = read_integer(walk)
                elif inner.number == PACKED_SIZE:
                    chunk[2] = read_integer(walk)
                elif inner.number == UNPACKED_SIZE:
                    chunk[3] = read_integer(walk)
                else:
                    skip(walk, inner.kind, 3)
        else:
            skip(walk, field.kind, 2)


cdef bint read_field(Walk* walk, Field* field) noexcept nogil:
    """Read the number and the type of a struct's next field; False after the last."""
    cdef byte_t head
    if walk.at >= walk.end:
        fail(walk)
        return False
    head = walk.at[0]
    walk.at += 1
    if head == 0:
        return False
    field.kind = head & 15
    field.number = field.number + (head >> 4) if head >> 4 else read_integer(walk)
    return not walk.has_failed


cdef uint64_t read_list(Walk* walk, int* kind) noexcept nogil:
    """Read the head of a list: returns how many items it has."""
    cdef byte_t head
    kind[0] = 0
    if walk.at >= walk.end:
        fail(walk)
        return 0
    head = walk.at[0]
    walk.at += 1
    kind[0] = head & 15
    return head >> 4 if head >> 4 < 15 else read_varint(walk)


cdef uint64_t read_varint(Walk* walk) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef byte_t byte
    while walk.at < walk.end and shift < 64:
        byte = walk.at[0]
        walk.at += 1
        value |= <uint64_t>(byte & 127) << shift
        if byte < 128:
            return value
        shift += 7
    fail(walk)
    return 0


cdef int64_t read_integer(Walk* walk) noexcept nogil:
    """Read a signed integer, which is stored doubled, minus 1 if it is negative."""
    cdef uint64_t value = read_varint(walk)
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)


cdef void skip(Walk* walk, int kind, int depth) noexcept nogil:
    """Skip the value of a field."""
    cdef Field field
    cdef uint64_t i = 0, n
    cdef int item_kind, kinds
    if depth > MAX_DEPTH:
        fail(walk)
    elif kind == BYTE:
        advance(walk, 1)
    elif kind == I16 or kind == I32 or kind == I64:
        read_varint(walk)
    elif kind == DOUBLE:
        advance(walk, 8)
    elif kind == BINARY:
        advance(walk, read_varint(walk))
    elif kind == LIST or kind == SET:
        n = read_list(walk, &item_kind)
        while i < n and not walk.has_failed:
            skip_item(walk, item_kind, depth + 1)
            i += 1
    elif kind == MAP:
        n = read_varint(walk)
        kinds = walk.at[0] if n and walk.at < walk.end else 0
        advance(walk, n > 0)
        while i < n and not walk.has_failed:
            skip_item(walk, kinds >> 4, depth + 1)
            skip_item(walk, kinds & 15, depth + 1)
            i += 1
    elif kind == STRUCT:
        field.number = 0
        while read_field(walk, &field):
            skip(walk, field.kind, depth + 1)
    elif kind != TRUE and kind != FALSE:
        fail(walk)


cdef void skip_item(Walk* walk, int kind, int depth) noexcept nogil:
    """Skip an item of a list or a map."""
    if kind == TRUE or kind == FALSE:
        advance(walk, 1)
    else:
        skip(walk, kind, depth)


cdef void advance(Walk* walk, uint64_t size) noexcept nogil:
    if size > <uint64_t>(walk.end - walk.at):
        fail(walk)
    else:
        walk.at += size


cdef void fail(Walk* walk) noexcept nogil:
    walk.at, walk.has_failed = walk.end, True
