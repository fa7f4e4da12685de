"""Opening the text of a file, whatever holds it: regular files, pipes, standard input, remote and compressed files.

A compressed or remote file is read by a thread ahead of the caller. A pipe is read in the caller's thread only, since
Ctrl-C interrupts no other thread that waits for one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from bpe.corpus.ahead import read_ahead
from bpe.corpus.compression import OUT, decompressed
from bpe.corpus.contents import SIGNATURE, compression_of
from bpe.corpus.listing import SourceFile
from bpe.corpus.reading import EncodingErrors, Readable, changed_error
from bpe.corpus.remote import open_remote

#: The number of bytes that are read ahead.
AHEAD = 8 << 20

#: Data, and the bytes of the file that were read for it and everything before it.
Chunk = tuple[bytes, int]
#: The size of a file and the time of its last change, by its name.
States = dict[str, tuple[int, int]]


class Stream:
    """The text of an open file from some position, for `read_text`.

    Attributes:
        size: the number of bytes to read; None to read to the end.
        skip: the number of bytes of text to leave out first, where the file cannot be opened at a position.

    """

    def __init__(self, file: Readable, size: int | None = None, skip: int = 0) -> None:
        self._file = file
        self.size, self.skip = size, skip

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as one read does."""
        return self._file.readinto(buffer)

    def fileno(self) -> int:
        """The descriptor of a regular file."""
        number: int = self._file.fileno()  # type: ignore[attr-defined]
        return number

    def disk_bytes(self, came: int) -> int:
        """The bytes on disk for the `came` bytes of text that were read since the last call."""
        return came


class _ChunkStream(Stream):
    """The text of a file that comes in chunks."""

    def __init__(self, chunks: Iterator[Chunk], skip: int, end: int | None) -> None:
        self.size, self.skip = None, skip
        self._chunks, self._left = chunks, end
        self._rest = memoryview(b"")
        self._taken = self._counted = 0

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer with what is left of a chunk."""
        while not self._rest:
            found = next(self._chunks, None)
            if found is None:
                return 0
            self._rest, self._taken = memoryview(found[0]), found[1]
        count = min(len(buffer), len(self._rest))
        if self._left is not None:
            count = min(count, self._left)
            self._left -= count
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def disk_bytes(self, came: int) -> int:
        """The bytes of the compressed file that were read since the last call."""
        del came
        more, self._counted = self._taken - self._counted, self._taken
        return more


@contextmanager
def open_stream(
    file: SourceFile,
    start: int = 0,
    end: int | None = None,
    errors: EncodingErrors = "strict",
    states: States | None = None,
) -> Iterator[Stream]:
    """Open the text of a file.

    Args:
        file: the file.
        start: the position in the decompressed text where reading begins.
        end: where it ends; None for the end of the file. Not for a pipe.
        errors: how bytes that are not UTF-8 are handled: with "replace", positions are those in the changed text; with
            "bytes", the compression of a pipe is not looked for.
        states: what the files of one call were when they were first opened.

    Raises:
        OSError: for a file that cannot be read, or is changed before it is closed.

    """
    exact = errors != "replace"
    with ExitStack() as stack:
        raw, size = open_raw(file, stack, states)
        size = size or None  # an empty file is read to its end
        if file.seekable:
            if start == 0 and end is None:
                yield Stream(raw, size)
                return
            if exact:
                raw.seek(start)
            size = None if size is None else max((size if end is None else min(size, end)) - (start if exact else 0), 0)
            yield Stream(raw, size, 0 if exact else start)
            return
        packed = file.compression
        if packed is None and file.kind != "remote":  # a pipe shows its compression when it is read
            if errors != "bytes":
                raw = _Peeked(raw)
                packed = compression_of(raw.start)
            if packed is None:
                yield Stream(raw, None, start)
                return
        chunks = decompressed(raw, packed, file.name) if packed is not None else _chunks(raw)
        if file.kind in ("file", "remote"):
            chunks = read_ahead(chunks, _length, AHEAD)
        stack.enter_context(closing(chunks))
        yield _ChunkStream(chunks, start, end)


def open_raw(file: SourceFile, stack: ExitStack, states: States | None = None) -> tuple[Any, int | None]:
    """Open a file's bytes, to be closed with the stack, which raises OSError for a file that was changed meanwhile.

    Returns:
        The open file, and its size if it is regular.

    """
    if file.kind == "stdin":
        if sys.stdin is None:
            raise ValueError("stdin is closed, and - reads it; name files, or leave stdin open")
        return sys.stdin.buffer, None
    if file.kind == "remote":
        return stack.enter_context(open_remote(file.name)), None
    raw: Any = stack.enter_context(open(file.name, "rb", buffering=0))  # noqa: SIM115 (the stack closes it)
    return raw, watch(file, stack, raw.fileno(), states)


def watch(file: SourceFile, stack: ExitStack, opened: int | str, states: States | None) -> int | None:
    """Have the stack raise OSError when it is left, unless by another error, for a file whose size or time has changed.

    Args:
        file: the file; only regular ones are compared.
        stack: left when the file was read.
        opened: its descriptor, or its path.
        states: what files were when they were first opened.

    Returns:
        The size of the file; None for what is not regular.

    """
    if file.kind != "file":
        return None
    status = os.stat(opened)
    before = status.st_size, status.st_mtime_ns
    if states is not None and states.setdefault(file.name, before) != before:
        raise changed_error(file.name)

    def compare(error: type[BaseException] | None, *_: object) -> None:
        if error is None and ((now := os.stat(opened)).st_size, now.st_mtime_ns) != before:
            raise changed_error(file.name)

    stack.push(compare)
    return before[0]


def newlines_before(file: SourceFile, offset: int) -> int | None:
    """The newlines in the first `offset` bytes of a file's text, to number lines; None if it can be read only once."""
    if file.kind not in ("file", "remote"):
        return None if offset else 0
    found = done = 0
    buffer = bytearray(1 << 20)
    with open_stream(file) as stream, memoryview(buffer) as whole:
        while done < offset:
            count = stream.readinto(whole[: min(len(buffer), offset - done)])
            if not count:
                break
            found += buffer.count(b"\n", 0, count)
            done += count
    return found


def text_before(file: SourceFile, offset: int, size: int) -> bytes:
    """The last `size` of the first `offset` bytes of a file's text; no bytes if the text is shorter."""
    found, start = b"", max(offset - size, 0)
    buffer = memoryview(bytearray(1 << 20))
    with open_stream(file, start, offset) as stream:
        left = stream.skip + offset - start
        while count := stream.readinto(buffer[:left]):
            found, left = (found + bytes(buffer[:count]))[-size:], left - count
    return b"" if left else found


def _length(chunk: Chunk) -> int:
    return len(chunk[0])


def _chunks(raw: Any) -> Generator[Chunk, None, None]:
    taken = 0
    while data := raw.read(OUT):
        taken += len(data)
        yield data, taken


class _Peeked:
    """A file whose first bytes were read; they are read again.

    Attributes:
        start: the first bytes.

    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        parts = b""
        while len(parts) < SIGNATURE and (more := raw.read(SIGNATURE - len(parts))):
            parts += more
        self.start = self._left = parts

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as one read does."""
        if self._left:
            count = min(len(buffer), len(self._left))
            buffer[:count], self._left = self._left[:count], self._left[count:]
            return count
        found: int | None = self._raw.readinto(buffer)
        return found

    def read(self, size: int, /) -> bytes | None:
        """At most `size` bytes."""
        if self._left:
            data, self._left = self._left[:size], self._left[size:]
            return data
        found: bytes | None = self._raw.read(size)
        return found
