"""Read one column of the rows of CSV and TSV without creating an object for each row or field.

This is a fast path for valid rows, with as many fields as the header; the standard library's `csv` reads any other row,
and decides what is an error. Where a row ends is decided here, as `csv` with `strict=True` does:

    rows      |1,"low, ""lower""\\n",en\\n|2,new"er,en\\r\\n|3,"low"er,en\\n|
                 one field, two lines        a mark as text   an error: the row ends with its line

Marks are text unless a field begins with one. Cost: linear, in steps from mark to mark and from delimiter to delimiter.
"""

from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport is_utf8
from libc.string cimport memchr, memcpy


cdef class RowDialect:
    """How rows are written; any number of threads may read with one.

    Args:
        delimiter: the character between fields.
        has_quotes: whether fields may be in quotation marks.
        may_swallow_rows: whether a row whose first and last line each have as many fields as the header is unusual.
        requires_utf8: whether a row is whose text is not UTF-8.
        max_row_bytes: the most bytes of a row that is not.

    """

    def __cinit__(
        self, delimiter, bint has_quotes, bint may_swallow_rows, bint requires_utf8, Py_ssize_t max_row_bytes
    ):
        self.delimiter, self.has_quotes = ord(delimiter), has_quotes
        self.may_swallow_rows, self.requires_utf8 = may_swallow_rows, requires_utf8
        self.max_row_bytes = max_row_bytes

    cdef Py_ssize_t find_last_row(self, const byte_t* text, Py_ssize_t start, Py_ssize_t n) noexcept nogil:
        """Find the last end of a row in `text[start:n]`, whose first one begins at `start`; `start` if there is none.

        What follows `text[:n]` does not matter.
        """
        cdef const byte_t* row = text + start           # the last row's start so far
        cdef const byte_t* at = row                     # all before it has been looked at
        cdef const byte_t* quote = row
        cdef const byte_t* end = text + n
        cdef bint has_returns = memchr(text + start, c"\r", n - start) != NULL
        while self.has_quotes:
            quote = <const byte_t*>memchr(quote, c'"', end - quote)
            if quote == NULL:
                break
            if quote > at and (quote - 1)[0] != self.delimiter and (quote - 1)[0] != c"\n":
                quote += 1                              # text
                continue
            if has_returns and skip_bad_line(&at, quote, end):
                if at == NULL:
                    break
                row = quote = at
                continue
            row = find_row_start(row, at, quote)
            at = skip_quoted(quote + 1, end)
            if (end if at == NULL else at) - row > self.max_row_bytes:
                at = row + self.max_row_bytes           # the row ends with its line here
            elif at == NULL:
                return row - text                       # the end of this row is not known
            elif at[0] == self.delimiter or at[0] == c"\n" or at[0] == c"\r":
                quote = at
                continue
            at = <const byte_t*>memchr(at, c"\n", end - at)
            if at == NULL:
                break
            at += 1
            row = quote = at
        return (row if at == NULL else find_row_start(row, at, end)) - text

    cdef Py_ssize_t read_row(
        self, RowCursor* rows, Py_ssize_t wanted, Py_ssize_t n_columns, bint is_valid, byte_t* out
    ) noexcept nogil:
        """Take a row and write the text of its column `wanted` to `out`; its size, or a `RowKind`.

        An unusual row is taken, too; a longer one than may be ends with its line. `is_valid`: whether the text is known
        to be UTF-8. The output needs as many bytes as the row has.
        """
        cdef Py_ssize_t size
        cdef const byte_t* row = rows.at
        if end_row(rows):
            return EMPTY_ROW
        if rows.at > row:
            return UNUSUAL_ROW
        size = self.read_fields(rows, wanted, n_columns, out)
        if rows.at - row > self.max_row_bytes:
            rows.at, rows.line_end = row + self.max_row_bytes, NULL
            skip_line(rows)
            return UNUSUAL_ROW
        if size < 0:
            return UNUSUAL_ROW
        if self.may_swallow_rows and has_swallowed_rows(row, rows.at, self.delimiter, n_columns):
            return UNUSUAL_ROW
        if not is_valid and self.requires_utf8 and not is_utf8(out, size):
            return UNUSUAL_ROW
        return size

    cdef Py_ssize_t read_fields(
        self, RowCursor* rows, Py_ssize_t wanted, Py_ssize_t n_columns, byte_t* out
    ) noexcept nogil:
        """Take the fields and the end of a row, and write the wanted one. Returns its size, or -1 for a bad row."""
        cdef Py_ssize_t column = 0, size = 0, n
        while True:
            if self.has_quotes and rows.at < rows.end and rows.at[0] == c'"':
                n = read_quoted(rows, self.delimiter, out if column == wanted else NULL)
            else:
                n = read_plain(rows, self.delimiter, out if column == wanted else NULL)
            if n < 0:
                return -1
            if column == wanted:
                size = n
            column += 1
            if rows.at == rows.end or rows.at[0] != self.delimiter:
                return size if end_row(rows) and column == n_columns else -1
            rows.at += 1


cdef RowCursor open_rows(const byte_t* text, Py_ssize_t n) noexcept nogil:
    """Make a cursor at the first row of a text."""
    return RowCursor(at=text, end=text + n, line_end=NULL, has_returns=memchr(text, c"\r", n) != NULL)


cdef Py_ssize_t read_plain(RowCursor* rows, byte_t delimiter, byte_t* out) noexcept nogil:
    """Take a field without marks, and write it unless `out` is NULL. Returns its size."""
    cdef const byte_t* start = rows.at
    cdef const byte_t* end
    if rows.line_end == NULL or rows.line_end < start:
        rows.line_end = <const byte_t*>memchr(start, c"\n", rows.end - start)
        if rows.line_end == NULL:
            rows.line_end = rows.end
    end = <const byte_t*>memchr(start, delimiter, rows.line_end - start)
    rows.at = rows.line_end if end == NULL else end
    if rows.has_returns:
        end = <const byte_t*>memchr(start, c"\r", rows.at - start)
        if end != NULL:
            rows.at = end
    if out != NULL:
        memcpy(out, start, rows.at - start)
    return rows.at - start


cdef Py_ssize_t read_quoted(RowCursor* rows, byte_t delimiter, byte_t* out) noexcept nogil:
    """Take a field in marks; write it unless `out` is NULL. Returns its size, or -1 for a bad row, which it takes."""
    cdef const byte_t* start = rows.at + 1
    cdef const byte_t* quote
    cdef Py_ssize_t size = 0
    while True:
        quote = <const byte_t*>memchr(start, c'"', rows.end - start)
        if quote == NULL:
            rows.at = rows.end
            return -1
        if out != NULL:
            memcpy(out + size, start, quote - start)
        size += quote - start
        if quote + 1 == rows.end or quote[1] != c'"':
            break
        if out != NULL:
            out[size] = c'"'
        size += 1
        start = quote + 2
    rows.at = quote + 1
    if rows.at < rows.end and rows.at[0] != delimiter and rows.at[0] != c"\n" and rows.at[0] != c"\r":
        skip_line(rows)
        return -1
    return size


cdef const byte_t* skip_quoted(const byte_t* at, const byte_t* end) noexcept nogil:
    """Find the end of a field after its opening mark, after the closing one; NULL if it may not be in the text."""
    while True:
        at = <const byte_t*>memchr(at, c'"', end - at)
        if at == NULL or at + 1 == end:
            return NULL
        if at[1] != c'"':
            return at + 1
        at += 2


cdef bint has_swallowed_rows(
    const byte_t* row, const byte_t* end, byte_t delimiter, Py_ssize_t n_columns
) noexcept nogil:
    """Whether the lines of a row, which are several, seem to be rows themselves."""
    cdef const byte_t* newline
    if (end - 1)[0] == c"\n":
        end -= 1
    newline = <const byte_t*>memchr(row, c"\n", end - row)
    if newline == NULL or count_bytes(row, newline, delimiter) != n_columns - 1:
        return False
    return count_bytes(find_row_start(newline, newline, end), end, delimiter) == n_columns - 1


cdef Py_ssize_t count_bytes(const byte_t* text, const byte_t* end, byte_t byte) noexcept nogil:
    cdef Py_ssize_t n = 0
    while text < end:
        n += text[0] == byte
        text += 1
    return n


cdef const byte_t* find_row_start(const byte_t* row, const byte_t* at, const byte_t* end) noexcept nogil:
    """Find the last row's start in `at:end`, which has no marks of fields; `row` if there is none."""
    while end > at:
        if (end - 1)[0] == c"\n":
            return end
        end -= 1
    return row


cdef bint skip_bad_line(const byte_t** at, const byte_t* end, const byte_t* text_end) noexcept nogil:
    """Whether there is a carriage return before `end` that ends no row; then `at` is moved after its line, or NULL."""
    cdef const byte_t* byte = at[0]
    while True:
        byte = <const byte_t*>memchr(byte, c"\r", end - byte)
        if byte == NULL:
            return False
        while byte < end and byte[0] == c"\r":
            byte += 1
        if byte[0] != c"\n":
            at[0] = <const byte_t*>memchr(byte, c"\n", text_end - byte)
            if at[0] != NULL:
                at[0] += 1
            return True


cdef bint end_row(RowCursor* rows) noexcept nogil:
    """Take the end of a row, if it is there; a carriage return that is none makes the line end the row, too: False."""
    cdef const byte_t* start = rows.at
    while rows.at < rows.end and rows.at[0] == c"\r":
        rows.at += 1
    if rows.at == rows.end:
        return True
    if rows.at[0] == c"\n":
        rows.at += 1
        return True
    if rows.at > start:
        skip_line(rows)
    return False


cdef void skip_line(RowCursor* rows) noexcept nogil:
    """Move to the next line."""
    cdef const byte_t* newline = <const byte_t*>memchr(rows.at, c"\n", rows.end - rows.at)
    rows.at = rows.end if newline == NULL else newline + 1
