"""CSV and TSV: one column of each row is a document.

The first row names the columns. Fields may be in double quotes, and then hold separators, newlines and doubled quotes,
as RFC 4180 and the standard library's `csv` have it. A kernel reads the usual rows (`_csv_rows.pyx`), within blocks of
rows (`_file_reader.pyx`); `csv` reads the header and any other row, and decides what is valid. A row with another
number of fields than the header is a bad record; empty lines are ignored. A quotation mark that is text can swallow
rows up to the next one. That is an error, also where bad records are skipped: a bad row of several lines, and in TSV,
which is often written without quoting, a row whose first and last line each have as many fields as the header. Cost:
linear.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any

from bpe.base.forks import make_lock
from bpe.base.utf8 import decode_losslessly, encode_losslessly, find_utf8_error
from bpe.corpus._csv_rows import RowDialect
from bpe.corpus.contents import UTF8_BOM
from bpe.corpus.jsonl import check_unique_column, describe_known_names
from bpe.corpus.reading import Stream
from bpe.corpus.records import Quoting, RecordContext
from bpe.corpus.streams import open_stream
from bpe.errors import FormatError, pluralize

#: A row with more bytes is refused, since its last quotation mark is probably missing. Set
#: `bpe.corpus.delimited.max_row_bytes` lower where strangers name the files.
max_row_bytes = 1 << 30
#: The characters between fields.
DELIMITERS = {"csv": ",", "tsv": "\t"}

_lock = make_lock(sys.modules[__name__])
_n_parsing, _saved_limit = 0, 0


class _Lines:
    """The lines of some rows, decoded.

    Attributes:
        n_taken: how many were taken.
        n_bytes: their bytes.

    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines, self.n_taken, self.n_bytes = iter(lines), 0, 0

    def __iter__(self) -> Iterator[str]:
        """Return the iterator itself."""
        return self

    def __next__(self) -> str:
        """Return the next line, with its newline."""
        line = next(self._lines)
        self.n_bytes += len(line)
        self.n_taken += 1
        if self.n_bytes > max_row_bytes:
            raise csv.Error(
                f"the row has more than {max_row_bytes} bytes (bpe.corpus.delimited.max_row_bytes); a quotation mark "
                "is probably missing"
            )
        return decode_losslessly(line)


@dataclass(frozen=True)
class Dialect:
    """How rows are written: the character between fields, and whether fields may be in quotation marks."""

    delimiter: str
    quoting: Quoting

    def make_kernel(self, *, requires_utf8: bool) -> RowDialect:
        """Make the dialect that the kernel reads rows by."""
        return RowDialect(self.delimiter, self.quoting != "none", self.may_swallow_rows, requires_utf8, max_row_bytes)

    def make_reader(self, lines: _Lines) -> Iterator[list[str]]:
        """Make a reader of the rows of lines."""
        quoting: Any = csv.QUOTE_NONE if self.quoting == "none" else csv.QUOTE_MINIMAL
        return csv.reader(lines, delimiter=self.delimiter, quoting=quoting, strict=True)

    @property
    def may_swallow_rows(self) -> bool:
        """Whether a quotation mark may be text, so that it swallows rows."""
        return self.quoting == "auto" and self.delimiter == "\t"

    def has_swallowed_rows(self, row: list[str], n_columns: int) -> bool:
        """Whether the lines of a row, which are several, seem to be rows themselves."""
        text = self.delimiter.join(row)
        end_lines = text.partition("\n")[0], text.rpartition("\n")[2]
        return all(end.count(self.delimiter) == n_columns - 1 for end in end_lines)


def find_header(rows: bytes, context: RecordContext, dialect: Dialect) -> tuple[int, list[str]]:
    """Find the header of a file, of which some rows begin a part: (its bytes in them, the names of the columns).

    Of a part that begins within the file, the header is read again. An empty file has no names.

    Raises:
        FormatError: for a header that cannot be read, or has no column of the name that is wanted, or several.
        ValueError: for a part that begins within a pipe.

    """
    if not context.start:
        return _read_header(BytesIO(rows), context, dialect)
    file = context.file
    if file.kind not in ("file", "remote"):
        raise ValueError(f"{file.name} can be read only once, so that reading cannot begin in its middle")
    with open_stream(file, stamps=context.state.file_stamps) as stream:
        return 0, _read_header(_split_lines(stream), context, dialect)[1]


def _split_lines(stream: Stream) -> Iterator[bytes]:
    """Yield the lines of a stream."""
    buffer, rest = bytearray(1 << 16), b""
    while n_read := stream.readinto(memoryview(buffer)):
        *lines, rest = (rest + buffer[:n_read]).split(b"\n")
        yield from (line + b"\n" for line in lines)
    yield rest


def _read_header(file_lines: Iterator[bytes], context: RecordContext, dialect: Dialect) -> tuple[int, list[str]]:
    """Read the header at the beginning of some lines: (its bytes, the names of the columns)."""
    first_line = next(file_lines, b"")
    n_before = len(UTF8_BOM) if first_line.startswith(UTF8_BOM) else 0
    lines = _Lines(chain((first_line[n_before:],), file_lines))
    with _allow_long_fields():
        try:
            names = next((row for row in dialect.make_reader(lines) if row), None)
        except csv.Error as error:
            raise FormatError(f"the header cannot be read ({error})", path=context.source, where="line 1") from None
    if names is not None and context.field not in names:
        raise FormatError(
            f"there is no column {context.field!r}{describe_known_names(names)}{_suggest_delimiter(names)}",
            path=context.source,
        )
    check_unique_column(context.field, names or [], context.source)
    return n_before + lines.n_bytes, names or []


def _suggest_delimiter(names: list[str]) -> str:
    """Make the end of an error message for a header whose one name has a character that separates columns elsewhere."""
    delimiter = next((mark for mark in ";\t|," if mark in names[0]), None) if len(names) == 1 else None
    if delimiter is None:
        return ""
    return f"; if {delimiter!r} separates columns here, write the file with commas (.csv) or tabs (.tsv) first"


def parse_row(
    record: bytes, names: list[str], context: RecordContext, dialect: Dialect, first_line: int
) -> bytes | None:
    """Read the text of a row that the kernel cannot read; None for an empty row, and for a bad one that is skipped.

    Args:
        record: the row, of one line or several; after an error, `csv` goes on with the line after the wrong one.
        names: the columns.
        context: the part of the file.
        dialect: how rows are written.
        first_line: the index in the part of the row's first line.

    Raises:
        FormatError: for a bad row, unless such rows are skipped; for a row whose quotation marks seem to be text.

    """
    lines = _Lines(BytesIO(record))
    with _allow_long_fields():
        try:
            row = next(dialect.make_reader(lines), None)
            if dialect.may_swallow_rows and row and lines.n_taken > 1 and dialect.has_swallowed_rows(row, len(names)):
                reason = f"each of them has {len(names)} fields"
                raise _make_quotes_error(context, first_line, first_line + lines.n_taken, reason)
            return _read_document(row, names, context) if row else None
        except (csv.Error, _BadRowError) as error:
            reason = str(error).partition(" - do you need")[0]  # advice for callers of `csv`
            if lines.n_taken > 1 and dialect.quoting == "auto":
                raise _make_quotes_error(context, first_line, first_line + lines.n_taken, reason) from None
            context.refuse_record(f"the row is bad: {reason}", first_line)
            return None


def _make_quotes_error(context: RecordContext, first_line: int, end_line: int, reason: str) -> FormatError:
    """Make the error for a quotation mark that makes several lines one row, which seems to be wrong."""
    begin, end = context.name_line(first_line), context.name_line(end_line - 1)
    lines = f"it begins in {begin} and ends in {end}, in quotation marks"
    return FormatError(
        f'the row is bad: {reason}; {lines}: pass quoting="none" if they are text, quoting="excel" if a field does '
        "have these lines, or correct the row",
        path=context.source,
        where=begin,
    )


class _BadRowError(ValueError):
    """A row without the column."""


def _read_document(row: list[str], names: list[str], context: RecordContext) -> bytes:
    if len(row) != len(names):
        raise _BadRowError(f"it has {pluralize(len(row), 'field')}, and the header has {len(names)}")
    data = encode_losslessly(row[names.index(context.field)])
    if context.encoding_errors != "bytes" and (error := find_utf8_error(data)) is not None:
        offset, reason = error
        raise _BadRowError(f"byte 0x{data[offset]:02x} of column {context.field!r} is not UTF-8 ({reason})")
    return data


@contextmanager
def _allow_long_fields() -> Iterator[None]:
    """Let `csv` read fields of any length inside the block; its limit is one for the whole process."""
    global _n_parsing, _saved_limit
    with _lock:
        if not _n_parsing:
            _saved_limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
        _n_parsing += 1
    try:
        yield
    finally:
        with _lock:
            _n_parsing -= 1
            if not _n_parsing:
                csv.field_size_limit(_saved_limit)
