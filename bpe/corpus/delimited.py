"""CSV and TSV: one column of each row is a document.

The first row names the columns. Fields may be in double quotes, and then hold separators, newlines and doubled quotes,
as RFC 4180 and the standard library's `csv` have it. A row with another number of fields than the header is a bad
record; empty lines are ignored. A quotation mark that is text can swallow rows up to the next one. That is an error,
also where bad records are skipped: a bad row of several lines, and in TSV, which is often written without quoting, a
row whose first and last line each have as many fields as the header. Cost: linear, about a microsecond for each row.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bpe.base.forks import make_lock
from bpe.base.utf8 import escape, find_utf8_error, unescape
from bpe.corpus.blocks import Block
from bpe.corpus.contents import UTF8_BOM
from bpe.corpus.jsonl import check_unique_column, describe_known_names
from bpe.corpus.reading import MAX_READ, Stream
from bpe.corpus.records import Quoting, RecordContext
from bpe.corpus.streams import open_stream
from bpe.errors import FormatError, pluralize

#: A row with more bytes is refused, since its last quotation mark is probably missing.
MAX_ROW_BYTES = 1 << 30
#: The characters between fields.
DELIMITERS = {"csv": ",", "tsv": "\t"}

_lock = make_lock(sys.modules[__name__])
_n_parsing, _saved_limit = 0, 0


class _Lines:
    """The lines of blocks of text, decoded.

    Attributes:
        offset: the position in the file's text after the last line that was taken.

    """

    def __init__(self, context: RecordContext, stream: Stream) -> None:
        self._blocks, self._buffers = context.read_lines(stream), context.state.buffers
        self._ready: list[bytes] = []  # of the present block, the next line last
        self.offset = stream.offset + stream.bytes_to_skip
        self.n_taken = 0  # lines taken
        self.row_start = self.offset  # of the row that is being read
        self.n_bytes_read = 0  # bytes on disk of the blocks since the last call of `claim_bytes`

    def claim_bytes(self) -> int:
        """Return the bytes on disk that were read since the last call."""
        n_bytes_read, self.n_bytes_read = self.n_bytes_read, 0
        return n_bytes_read

    @property
    def at_block_end(self) -> bool:
        """Whether the next line begins a new block."""
        return not self._ready

    def __iter__(self) -> Iterator[str]:
        """Return the iterator itself."""
        return self

    def __next__(self) -> str:
        """Return the next line."""
        while not self._ready:
            block = next(self._blocks)
            self.n_bytes_read += block.size
            data = block.text.tobytes()
            self._buffers.give_back(block.text)
            if self.offset == 0 and data.startswith(UTF8_BOM):
                data, self.offset = data[len(UTF8_BOM) :], len(UTF8_BOM)
            self._ready = _split_lines(data) if b"\r" in data else data.splitlines(keepends=True)
            self._ready.reverse()
        line = self._ready.pop()
        self.offset += len(line)
        self.n_taken += 1
        if self.offset - self.row_start > MAX_ROW_BYTES:
            raise csv.Error(f"the row has more than {MAX_ROW_BYTES >> 30} GiB; a quotation mark is probably missing")
        return escape(line)


def _split_lines(text: bytes) -> list[bytes]:
    """Split a text into lines, each with its newline."""
    lines = [line + b"\n" for line in text.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


@dataclass(frozen=True)
class Dialect:
    """How rows are written: the character between fields, and whether fields may be in quotation marks."""

    delimiter: str
    quoting: Quoting

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


def _read_header(lines: _Lines, context: RecordContext, dialect: Dialect) -> list[str] | None:
    rows = dialect.make_reader(lines)
    with _allow_long_fields():
        try:
            names = next((row for row in rows if row), None)
        except csv.Error as error:
            raise FormatError(f"the header cannot be read ({error})", path=context.source, where="line 1") from None
    if names is None:
        return None
    if context.field not in names:
        raise FormatError(
            f"there is no column {context.field!r}{describe_known_names(names)}{_suggest_delimiter(names)}",
            path=context.source,
        )
    check_unique_column(context.field, names, context.source)
    return names


def _suggest_delimiter(names: list[str]) -> str:
    """Make the end of an error message for a header whose one name has a character that separates columns elsewhere."""
    delimiter = next((mark for mark in ";\t|," if mark in names[0]), None) if len(names) == 1 else None
    if delimiter is None:
        return ""
    return f"; if {delimiter!r} separates columns here, write the file with commas (.csv) or tabs (.tsv) first"


def read_blocks(context: RecordContext) -> Generator[Block, None, None]:
    """Yield the documents of CSV or TSV in blocks.

    Raises:
        FormatError: for a bad record, unless such records are skipped; for a header that cannot be read, or has no
            column of the name that is wanted.

    """
    file, states = context.file, context.state.file_states
    dialect, names = Dialect(DELIMITERS[file.format], context.quoting), None
    if context.start:
        if file.kind not in ("file", "remote"):
            raise ValueError(f"{file.name} can be read only once, so that reading cannot begin in its middle")
        with open_stream(file, states=states) as stream:
            names = _read_header(_Lines(context, stream), context, dialect)
    with context.open_stream() as stream:
        lines = _Lines(context, stream)
        columns = _read_header(lines, context, dialect) if names is None else names
        if columns is not None:
            yield from _read_rows(lines, columns, context, dialect)


def _read_rows(
    lines: _Lines, columns: list[str], context: RecordContext, dialect: Dialect
) -> Generator[Block, None, None]:
    rows, at_end, block_start = dialect.make_reader(lines), False, lines.offset

    def read_next() -> Iterator[str | bytes]:
        """Yield the documents of the next block."""
        nonlocal rows, at_end
        while not at_end:
            lines.row_start, line = lines.offset, lines.n_taken
            try:
                row = next(rows, None)
                at_end = row is None
                if (
                    dialect.may_swallow_rows
                    and row
                    and lines.n_taken > line + 1
                    and dialect.has_swallowed_rows(row, len(columns))
                ):
                    raise _make_quotes_error(context, line, lines.n_taken, f"each of them has {len(columns)} fields")
                if row:
                    yield _read_document(row, columns, context)
            except (csv.Error, _BadRowError) as error:
                reason = str(error).partition(" - do you need")[0]  # advice for callers of `csv`
                if lines.n_taken > line + 1 and dialect.quoting == "auto":
                    raise _make_quotes_error(context, line, lines.n_taken, reason) from None
                context.refuse_record(f"the row is bad: {reason}", line)
                if isinstance(error, csv.Error):  # the reader may hold a part of the bad row
                    rows = dialect.make_reader(lines)
            if (
                lines.at_block_end or lines.offset - block_start >= MAX_READ
            ):  # a long row may end in the middle of a block
                return

    while not at_end:
        block_start = lines.offset
        with _allow_long_fields():
            documents = list(read_next())
        block = context.join_block(documents, block_start, lines.claim_bytes())
        if block is not None:
            yield block


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


def _read_document(row: list[str], names: list[str], context: RecordContext) -> str | bytes:
    if len(row) != len(names):
        raise _BadRowError(f"it has {pluralize(len(row), 'field')}, and the header has {len(names)}")
    text = row[names.index(context.field)]
    if text.isascii():
        return text
    data = unescape(text)
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
