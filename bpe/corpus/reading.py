"""Reading text files in blocks, so that memory does not grow with the file.

Files are read, not mapped: a mapped file that gets shorter kills the process. A block ends at a safe split point; the
rest of what was read starts the next block:

    read      |low lower low|est\nnewest w|ide
    blocks    |low lower| lowest\nnewest| wide

Bytes that are not UTF-8 are refused unless `encoding_errors` allows them.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Literal, Protocol

from bpe.base.fast_dataclasses import dataclass
from bpe.base.utf8 import find_utf8_error
from bpe.corpus.contents import (
    ANY_TEXT,
    MAX_FIRST_LINE_BYTES,
    SAMPLE_BYTES,
    ExpectedText,
    check_text,
    needs_first_line,
    warn_about_text,
)
from bpe.errors import FormatError, add_file_name, check_choice, pluralize

EncodingErrors = Literal["strict", "replace", "bytes"]

#: The largest number of bytes to read at once: for one thread, and for several, which buffer the ids of what they read.
MAX_READ, MAX_SHARED_READ = 1 << 21, 1 << 20
#: The smallest number of bytes: several threads start and end with small reads.
MIN_READ = 1 << 18

#: A block without a split point grows by 1/GROWTH_DIVISOR of its size.
GROWTH_DIVISOR = 8

#: Called as find_block_end(buffer, low, end): the position greater than `low` where the text `buffer[:end]` may be cut,
#: and the position where the rest begins, after a separator that is dropped; None if there is no such position.
BlockEndFinder = Callable[[bytearray, int, int], tuple[int, int] | None]


class DamagedFileError(FormatError):
    """Raised for a file whose data cannot be decompressed, or read as a whole."""

    def __init__(self, message: str, source: str) -> None:
        super().__init__(f'{message}, or pass on_error="skip_files" to leave out such files', path=source)
        self.reason = message


class Readable(Protocol):
    """A file open for reading bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as possible; returns the number of bytes, 0 at the end."""
        ...


@dataclass(frozen=True)
class TextBlock:
    """A block of a file's text.

    Attributes:
        text: the bytes, in a buffer that `BufferPool.give_back` takes back.
        offset: the position of the first byte in the file's text.
        disk_bytes: the number of bytes of the file that were read for it.
        begins_document: whether the block starts with a new document rather than the rest of one.
        ends_document: whether the last document ends with the block.

    """

    text: memoryview
    offset: int
    disk_bytes: int
    begins_document: bool
    ends_document: bool


class Stream:
    """The text of an open file from some position, for `read_text`.

    Attributes:
        source: the name of the file, for errors.
        size: the number of bytes to read, and an error if the file has fewer; None to read to the end.
        offset: the position of the file in its text, at the start of a document.
        bytes_to_skip: the number of bytes of text to leave out first, where the file cannot be opened at a position.

    """

    def __init__(
        self, file: Readable | None, source: str, size: int | None = None, offset: int = 0, bytes_to_skip: int = 0
    ) -> None:
        self._file = file
        self.source, self.size, self.offset, self.bytes_to_skip = source, size, offset, bytes_to_skip

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as one read does."""
        assert self._file is not None
        return self._file.readinto(buffer)

    def fileno(self) -> int:
        """Return the descriptor of a regular file."""
        descriptor: int = self._file.fileno()  # type: ignore[union-attr]
        return descriptor

    def count_disk_bytes(self, bytes_read: int) -> int:
        """Count the bytes on disk for the bytes of text that were read since the last call."""
        return bytes_read


def check_encoding_errors(value: object, *, is_char_model: bool = False) -> EncodingErrors:
    """Validate the argument `encoding_errors`.

    Args:
        value: the argument.
        is_char_model: whether the text is for a character model.

    Raises:
        ValueError: for any other value than the three; for "bytes" in a character model.

    """
    encoding_errors: EncodingErrors = check_choice("encoding_errors", value, ("strict", "replace", "bytes"))
    if encoding_errors == "bytes" and is_char_model:
        raise ValueError(
            "encoding_errors is 'bytes', but a character model has no symbols for bytes that are not UTF-8; pass "
            "'replace', or use a byte model"
        )
    return encoding_errors


def check_file_text(text: memoryview, source: str, offset: int) -> None:
    """Raise FormatError, with the position of the first invalid byte, for a block of a file that is not UTF-8."""
    error = find_utf8_error(text)
    if error is not None:
        position, reason = error
        raise FormatError(
            f"byte 0x{text[position]:02x} is not UTF-8 ({reason}); convert the file to UTF-8, or pass "
            'encoding_errors="replace" to read each such byte as U+FFFD, or encoding_errors="bytes" to let a byte '
            "model encode the bytes unchanged",
            path=source,
            where=f"offset {offset + position}",
        )


def make_shorter_error(source: str, size: int, end: int) -> OSError:
    """Make the error for a file that had `size` bytes and ends after `end`."""
    return OSError(
        f"{source} got shorter while it was read: it had {pluralize(size, 'byte')}, and now ends after {end}; read it "
        "when no other program writes to it"
    )


def make_changed_error(source: str) -> OSError:
    """Make the error for a file that another program has written to since reading it began."""
    return OSError(
        f"{source} was changed while it was read, so that parts of it may be old and others new; read it again when no "
        "other program writes to it"
    )


def find_last_character_end(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
    """Find the end of a block after the last complete character, for text that may be cut anywhere."""
    block_end = end
    while block_end > max(end - 3, low) and buffer[block_end - 1] & 0xC0 == 0x80:
        block_end -= 1
    if block_end > low and buffer[block_end - 1] >= 0xC0:  # the last character may be incomplete
        block_end -= 1
    else:
        block_end = end
    return (block_end, block_end) if block_end > low else None


class ReadSchedule:
    """Sizes of reads: small at first and at the end, so that no thread waits long for another.

    Args:
        total: the number of bytes to read in all, or None if unknown.
        threads: the number of threads that take the blocks.

    """

    def __init__(self, total: int | None, threads: int) -> None:
        self._bytes_left, self._threads = total, threads
        self._max_size = MAX_READ if threads == 1 else min(MAX_READ, MAX_SHARED_READ)  # MAX_READ is less in tests
        self._next_size = self._max_size if threads == 1 else MIN_READ

    def take_size(self) -> int:
        """Return the number of bytes to read next, and advance the schedule."""
        size, self._next_size = self._next_size, min(2 * self._next_size, self._max_size)
        if self._threads > 1 and self._bytes_left is not None:
            size = max(min(size, self._bytes_left // (2 * self._threads)), min(MIN_READ, self._max_size))
        return size

    def record_read(self, count: int) -> None:
        """Record that `count` bytes have been read."""
        if self._bytes_left is not None:
            self._bytes_left -= count


class BufferPool:
    """A pool of read buffers. A buffer is reused when its block is done, so that it stays in a processor cache."""

    def __init__(self) -> None:
        self._idle: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """Take a buffer of at least `size` bytes."""
        try:
            buffer = self._idle.pop()  # list.pop and append are atomic: no lock
        except IndexError:
            buffer = bytearray(0)
        if len(buffer) >= size:
            return buffer
        return bytearray(size if size > 16 * MAX_READ else size + size // 8)  # a larger one is not used again

    def give_back(self, text: memoryview) -> None:
        """Take back the buffer of a block's text, which must not be used afterwards."""
        buffer: Any = text.obj
        text.release()
        if len(buffer) <= 16 * MAX_READ:
            self._idle.append(buffer)


def read_text(
    stream: Stream,
    find_block_end: BlockEndFinder | None,
    buffers: BufferPool,
    schedule: ReadSchedule,
    *,
    line_end: bytes = b"",
    encoding_errors: EncodingErrors = "strict",
    expected: ExpectedText | None = None,
) -> Iterator[TextBlock]:
    """Yield the text of an open file in blocks, the last of which may be empty.

    Args:
        stream: the file.
        find_block_end: finds where the text may be cut; None if it may not.
        buffers: the pool that blocks take their memory from.
        schedule: the sizes of reads.
        line_end: the string that ends a document and belongs to it.
        encoding_errors: "replace" reads bytes that are not UTF-8 as U+FFFD; otherwise they are not changed.
        expected: what the first bytes of a text file may be, which is logged if it may not be meant; None for records.

    Raises:
        FormatError: for a file whose first bytes show that it is not text, unless `encoding_errors` is "bytes".
        OSError: for a file that cannot be read, or has fewer bytes than the stream's size.

    """
    fill = _make_fill(stream, expected, encoding_errors)
    remainder, buffer = b"", bytearray()  # read, but not in a block yet
    n_carried = 0  # the bytes in `buffer`, if it was lengthened because no block end was found; else 0
    searched_until = 0  # no block may end up to here
    bytes_read = _skip_bytes(fill, stream.bytes_to_skip)
    begins_document = True
    at_end = False
    offset = stream.offset + bytes_read
    while not at_end:
        start = n_carried or len(remainder)
        # Growing by a share keeps the search for a cut linear.
        read_size = max(schedule.take_size(), start // GROWTH_DIVISOR)
        if n_carried:
            buffer = _lengthen(buffer, start + read_size)
        else:
            buffer = buffers.take(start + read_size)
            buffer[:start] = remainder
        with memoryview(buffer) as view, view[start : start + read_size] as target:
            count = fill(target)
        schedule.record_read(count)
        bytes_read += count
        end, at_end = start + count, count < read_size
        bounds = (
            (end, end) if at_end else None if find_block_end is None else find_block_end(buffer, searched_until, end)
        )
        if bounds is None:
            n_carried = searched_until = end
            continue
        block_end, rest_start = bounds
        ends_document = at_end or block_end < rest_start or (bool(line_end) and buffer.endswith(line_end, 0, block_end))
        with memoryview(buffer) as view:
            remainder, n_carried, searched_until = bytes(view[rest_start:end]), 0, 0
            block = TextBlock(
                view[:block_end], offset, stream.count_disk_bytes(bytes_read), begins_document, ends_document
            )
        yield block
        offset += rest_start
        begins_document, bytes_read = ends_document, 0


def _lengthen(buffer: bytearray, size: int) -> bytearray:
    """Lengthen the buffer to at least `size` bytes, in place if it can be, so that a long record is in memory once."""
    padding = bytes(max(size - len(buffer), 0))
    try:
        buffer.extend(padding)
    except BufferError:  # the caller has a view of a block that it has released
        return buffer + padding
    return buffer


def _skip_bytes(fill: Callable[[memoryview], int], count: int) -> int:
    """Read `count` bytes and drop them; returns how many there were."""
    n_skipped = 0
    while n_skipped < count:
        read_size = min(count - n_skipped, MAX_READ)
        with memoryview(bytearray(read_size)) as target:
            n_read = fill(target)
        n_skipped += n_read
        if n_read < read_size:
            break
    return n_skipped


def _make_fill(
    stream: Stream, expected: ExpectedText | None, encoding_errors: EncodingErrors
) -> Callable[[memoryview], int]:
    """Make the function that fills a buffer with the text of a stream; arguments as for `read_text`."""
    fill: Callable[[memoryview], int] = _CheckedReader(stream, expected, encoding_errors).fill
    return _ReplacingReader(fill).fill if encoding_errors == "replace" else fill


class UnitTexts:
    """The texts of units, which a `SequentialReader` opens one after the other.

    Args:
        open_text: opens the text of a unit by its index.
        expected, encoding_errors: as for `read_text`.

    """

    def __init__(
        self,
        open_text: Callable[[int], AbstractContextManager[Stream]],
        expected: ExpectedText | None,
        encoding_errors: EncodingErrors,
    ) -> None:
        self._open_text, self._expected, self._encoding_errors = open_text, expected, encoding_errors
        self._stack = ExitStack()

    def open(self, unit_index: int) -> tuple[Callable[[memoryview], int], Callable[[int], int], int]:
        """Open the text of a unit: (what fills a buffer, what counts the bytes on disk, where the text begins)."""
        stream = self._stack.enter_context(self._open_text(unit_index))
        fill = _make_fill(stream, self._expected, self._encoding_errors)
        return fill, stream.count_disk_bytes, stream.offset + _skip_bytes(fill, stream.bytes_to_skip)

    def finish(self) -> None:
        """Close a text that was read; OSError for a file that was changed meanwhile."""
        self._stack.close()

    def abandon(self) -> None:
        """Close a text after an error, without comparing its file."""
        self._stack.__exit__(GeneratorExit, GeneratorExit(), None)


class _CheckedReader:
    """Reads a stream up to its size, or to its end, and checks the first bytes of its file."""

    def __init__(self, stream: Stream, expected: ExpectedText | None, encoding_errors: EncodingErrors) -> None:
        self._stream, self._source, self._size, self._expected = stream, stream.source, stream.size, expected
        self._n_read, self._first_bytes = 0, b""
        self._must_check = encoding_errors != "bytes" and stream.offset == 0

    def fill(self, target: memoryview) -> int:
        """Fill the buffer; returns the number of bytes, which is smaller only at the end."""
        if self._size is not None:
            target = target[: self._size - self._n_read]
        count = 0
        while count < len(target):
            try:
                n_read = self._stream.readinto(target[count:])
            except OSError as error:  # add the file's name
                raise add_file_name(error, self._source) from None
            if not n_read:
                break
            count += n_read
        self._n_read += count
        if self._must_check:
            self._check_first_bytes(
                target[:count], at_end=count < len(target) or count == 0 or self._n_read == self._size
            )
        if self._size is not None and count < len(target):
            raise make_shorter_error(self._source, self._size, self._n_read)
        return count

    def _check_first_bytes(self, data: memoryview, *, at_end: bool) -> None:
        """Check the first bytes of the file when they are there."""
        n_before = len(self._first_bytes)
        self._first_bytes += bytes(data[: SAMPLE_BYTES - n_before])
        if len(self._first_bytes) < SAMPLE_BYTES and not at_end:
            return
        if needs_first_line(self._first_bytes):
            self._first_bytes += bytes(data[SAMPLE_BYTES - n_before : MAX_FIRST_LINE_BYTES])
        check_text(self._first_bytes, self._source, self._expected or ANY_TEXT)
        if self._expected is not None:
            warn_about_text(self._first_bytes, self._source, self._expected)
        self._must_check = False


class _ReplacingReader:
    """Replaces bytes that are not UTF-8 by U+FFFD, as `bytes.decode("utf-8", "replace")` does.

    Args:
        fill: reads the file's bytes, as `_CheckedReader.fill` does.

    """

    def __init__(self, fill: Callable[[memoryview], int]) -> None:
        self._fill = fill
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._replaced = b""
        self._at_end = False

    def fill(self, target: memoryview) -> int:
        """Fill the buffer; returns the number of bytes, which is smaller only at the end."""
        while len(self._replaced) < len(target) and not self._at_end:
            raw_bytes = bytearray(len(target))
            count = self._fill(memoryview(raw_bytes))
            self._at_end = count < len(raw_bytes)
            self._replaced += self._decoder.decode(raw_bytes[:count], self._at_end).encode()
        count = min(len(target), len(self._replaced))
        target[:count], self._replaced = self._replaced[:count], self._replaced[count:]
        return count
