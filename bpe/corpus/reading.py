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
from typing import Any, Literal, Protocol

from bpe.base.records import dataclass
from bpe.base.utf8 import utf8_error
from bpe.corpus.contents import ANY_TEXT, FIRST_LINE, SAMPLE, Expected, check_text, note_text, wants_line
from bpe.errors import FormatError, check_choice, pluralize

EncodingErrors = Literal["strict", "replace", "bytes"]

#: The largest number of bytes to read at once: for one thread, and for several, which buffer the ids of what they read.
MAX_READ, MAX_SHARED_READ = 1 << 21, 1 << 20
#: The smallest number of bytes: several threads start and end with small reads.
MIN_READ = 1 << 18

#: A block without a split point grows by 1/GROWTH of its size.
GROWTH = 8

#: Called as cut(buffer, low, end): the position greater than `low` where the text `buffer[:end]` may be cut, and the
#: position where the rest begins, after a separator that is dropped; None if there is no such position.
EndCut = Callable[[bytearray, int, int], tuple[int, int] | None]


class Readable(Protocol):
    """A file open for reading bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as possible; returns the number of bytes, 0 at the end."""
        ...


@dataclass(frozen=True)
class TextBlock:
    """A block of a file's text.

    Attributes:
        text: the bytes, in a buffer that `Buffers.give_back` takes back.
        offset: the position of the first byte in the file's text.
        size: the number of bytes of the file that were read for it.
        begins: whether the block starts with a new document rather than the rest of one.
        ends: whether the last document ends with the block.

    """

    text: memoryview
    offset: int
    size: int
    begins: bool
    ends: bool


class Stream:
    """The text of an open file from some position, for `read_text`.

    Attributes:
        source: the name of the file, for errors.
        size: the number of bytes to read, and an error if the file has fewer; None to read to the end.
        offset: the position of the file in its text, at the start of a document.
        skip: the number of bytes of text to leave out first, where the file cannot be opened at a position.

    """

    def __init__(
        self, file: Readable | None, source: str, size: int | None = None, offset: int = 0, skip: int = 0
    ) -> None:
        self._file = file
        self.source, self.size, self.offset, self.skip = source, size, offset, skip

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as one read does."""
        assert self._file is not None
        return self._file.readinto(buffer)

    def fileno(self) -> int:
        """The descriptor of a regular file."""
        descriptor: int = self._file.fileno()  # type: ignore[union-attr]
        return descriptor

    def count_disk_bytes(self, bytes_read: int) -> int:
        """The bytes on disk for the bytes of text that were read since the last call."""
        return bytes_read


def check_encoding_errors(value: object, *, chars: bool = False) -> EncodingErrors:
    """Validate the argument `encoding_errors`.

    Args:
        value: the argument.
        chars: whether the text is for a character model.

    Raises:
        ValueError: for any other value than the three; for "bytes" in a character model.

    """
    checked: EncodingErrors = check_choice("encoding_errors", value, ("strict", "replace", "bytes"))
    if checked == "bytes" and chars:
        raise ValueError(
            "encoding_errors is 'bytes', but a character model has no symbols for bytes that are not UTF-8; pass "
            "'replace', or use a byte model"
        )
    return checked


def check_file_text(text: memoryview, source: str, offset: int) -> None:
    """Raise FormatError, with the position of the first invalid byte, for a block of a file that is not UTF-8."""
    error = utf8_error(text)
    if error is not None:
        position, reason = error
        raise FormatError(
            f"byte 0x{text[position]:02x} is not UTF-8 ({reason}); convert the file to UTF-8, or pass "
            'encoding_errors="replace" to read each such byte as U+FFFD, or encoding_errors="bytes" to let a byte '
            "model encode the bytes unchanged",
            path=source,
            where=f"offset {offset + position}",
        )


def shorter_error(source: str, size: int, done: int) -> OSError:
    """The error for a file that had `size` bytes and ends after `done`."""
    return OSError(
        f"{source} got shorter while it was read: it had {pluralize(size, 'byte')}, and now ends after {done}; read it "
        "when no other program writes to it"
    )


def changed_error(source: str) -> OSError:
    """The error for a file that another program has written to since reading it began."""
    return OSError(
        f"{source} was changed while it was read, so that parts of it may be old and others new; read it again when no "
        "other program writes to it"
    )


def character_cut(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
    """An `EndCut` after the last complete character, for text that may be cut anywhere."""
    cut_at = end
    while cut_at > max(end - 3, low) and buffer[cut_at - 1] & 0xC0 == 0x80:
        cut_at -= 1
    if cut_at > low and buffer[cut_at - 1] >= 0xC0:  # the last character may be incomplete
        cut_at -= 1
    else:
        cut_at = end
    return (cut_at, cut_at) if cut_at > low else None


class Schedule:
    """Sizes of reads: small at first and at the end, so that no thread waits long for another.

    Args:
        total: the number of bytes to read in all, or None if unknown.
        threads: the number of threads that take the blocks.

    """

    def __init__(self, total: int | None, threads: int) -> None:
        self._left, self._threads = total, threads
        self._most = MAX_READ if threads == 1 else min(MAX_READ, MAX_SHARED_READ)  # MAX_READ is less in tests
        self._next = self._most if threads == 1 else MIN_READ

    def size(self) -> int:
        """The number of bytes to read next."""
        size, self._next = self._next, min(2 * self._next, self._most)
        if self._threads > 1 and self._left is not None:
            size = max(min(size, self._left // (2 * self._threads)), min(MIN_READ, self._most))
        return size

    def read(self, count: int) -> None:
        """Record that `count` bytes have been read."""
        if self._left is not None:
            self._left -= count


class Buffers:
    """A pool of read buffers. A buffer is reused when its block is done, so that it stays in a processor cache."""

    def __init__(self) -> None:
        self._idle: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes."""
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
    cut: EndCut | None,
    buffers: Buffers,
    schedule: Schedule,
    *,
    line_end: bytes = b"",
    encoding_errors: EncodingErrors = "strict",
    expected: Expected | None = None,
) -> Iterator[TextBlock]:
    """The text of an open file in blocks, the last of which may be empty.

    Args:
        stream: the file.
        cut: finds where the text may be cut; None if it may not.
        buffers: the pool that blocks take their memory from.
        schedule: the sizes of reads.
        line_end: the string that ends a document and belongs to it.
        encoding_errors: "replace" reads bytes that are not UTF-8 as U+FFFD; otherwise they are not changed.
        expected: what the first bytes of a text file may be, which is logged if it may not be meant; None for records.

    Raises:
        FormatError: for a file whose first bytes show that it is not text, unless `encoding_errors` is "bytes".
        OSError: for a file that cannot be read, or has fewer bytes than the stream's size.

    """
    fill: Callable[[memoryview], int] = _CheckedFill(stream, expected, encoding_errors).fill
    if encoding_errors == "replace":
        fill = _Replacing(fill).fill
    rest, buffer = b"", bytearray()  # read, but not in a block yet
    grown = 0  # the bytes in `buffer`, if it was lengthened because no cut was found; else 0
    searched = 0  # there is no position to cut at up to here
    bytes_read, begins, final = _skip(fill, stream.skip), True, False
    offset = stream.offset + bytes_read
    while not final:
        start = grown or len(rest)
        wanted = max(schedule.size(), start // GROWTH)  # growing by a share keeps the search for a cut linear
        if grown:
            buffer = _lengthen(buffer, start + wanted)
        else:
            buffer = buffers.take(start + wanted)
            buffer[:start] = rest
        with memoryview(buffer) as whole, whole[start : start + wanted] as free:
            count = fill(free)
        schedule.read(count)
        bytes_read += count
        end, final = start + count, count < wanted
        split = (end, end) if final else None if cut is None else cut(buffer, searched, end)
        if split is None:
            grown = searched = end
            continue
        ends = final or split[0] < split[1] or (bool(line_end) and buffer.endswith(line_end, 0, split[0]))
        with memoryview(buffer) as whole:
            rest, grown, searched = bytes(whole[split[1] : end]), 0, 0
            text = TextBlock(whole[: split[0]], offset, stream.count_disk_bytes(bytes_read), begins, ends)
        yield text
        offset += split[1]
        begins, bytes_read = ends, 0


def _lengthen(buffer: bytearray, size: int) -> bytearray:
    """The buffer with at least `size` bytes, in place if it can be, so that a long record is in memory once."""
    more = bytes(max(size - len(buffer), 0))
    try:
        buffer.extend(more)
    except BufferError:  # the caller has a view of a block that it has released
        return buffer + more
    return buffer


def _skip(fill: Callable[[memoryview], int], count: int) -> int:
    """Read `count` bytes and drop them; returns how many there were."""
    done = 0
    while done < count:
        wanted = min(count - done, MAX_READ)
        with memoryview(bytearray(wanted)) as free:
            more = fill(free)
        done += more
        if more < wanted:
            break
    return done


class _CheckedFill:
    """Reads a stream up to its size, or to its end, and checks the first bytes of its file."""

    def __init__(self, stream: Stream, expected: Expected | None, encoding_errors: EncodingErrors) -> None:
        self._stream, self._source, self._size, self._expected = stream, stream.source, stream.size, expected
        self._done, self._start = 0, b""
        self._checks = encoding_errors != "bytes" and stream.offset == 0

    def fill(self, target: memoryview) -> int:
        """Fill the buffer; returns the number of bytes, which is smaller only at the end."""
        if self._size is not None:
            target = target[: self._size - self._done]
        count = 0
        while count < len(target):
            try:
                more = self._stream.readinto(target[count:])
            except OSError as error:  # add the file's name
                raise OSError(error.errno, error.strerror, self._source) from None
            if not more:
                break
            count += more
        self._done += count
        if self._checks:
            self._look(target[:count], ended=count < len(target) or count == 0 or self._done == self._size)
        if self._size is not None and count < len(target):
            raise shorter_error(self._source, self._size, self._done)
        return count

    def _look(self, data: memoryview, *, ended: bool) -> None:
        """Check the first bytes of the file when they are there."""
        before = len(self._start)
        self._start += bytes(data[: SAMPLE - before])
        if len(self._start) < SAMPLE and not ended:
            return
        if wants_line(self._start):
            self._start += bytes(data[SAMPLE - before : FIRST_LINE])
        check_text(self._start, self._source, self._expected or ANY_TEXT)
        if self._expected is not None:
            note_text(self._start, self._source, self._expected)
        self._checks = False


class _Replacing:
    """Replaces bytes that are not UTF-8 by U+FFFD, as `bytes.decode("utf-8", "replace")` does.

    Args:
        fill: reads the file's bytes, as `_CheckedFill.fill` does.

    """

    def __init__(self, fill: Callable[[memoryview], int]) -> None:
        self._fill = fill
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ready = b""
        self._ended = False

    def fill(self, target: memoryview) -> int:
        """Fill the buffer; returns the number of bytes, which is smaller only at the end."""
        while len(self._ready) < len(target) and not self._ended:
            raw = bytearray(len(target))
            count = self._fill(memoryview(raw))
            self._ended = count < len(raw)
            self._ready += self._decoder.decode(raw[:count], self._ended).encode()
        count = min(len(target), len(self._ready))
        target[:count], self._ready = self._ready[:count], self._ready[count:]
        return count
