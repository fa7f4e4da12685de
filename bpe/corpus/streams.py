"""Opening the text of a file, whatever holds it: regular files, pipes, standard input, remote and compressed files.

Of compressed data, every member, frame or stream is read, not only the first. A remote file, or a compressed one that
is not small, is read by a thread ahead of the caller; for several threads, so are those after it (`NextFiles`). A pipe
is read in the caller's thread only, since Ctrl-C interrupts no other thread that waits for one.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from bpe.base._team import Crew
from bpe.corpus.contents import SIGNATURE_BYTES, Compression, find_compression
from bpe.corpus.listing import SourceFile, import_extra, open_remote
from bpe.corpus.reading import DamagedFileError, EncodingErrors, Stream, make_changed_error
from bpe.errors import FormatError, ignore_system_errors, raise_if_of_signal_handler, with_article

#: The number of bytes that are read ahead.
READ_AHEAD_BYTES = 8 << 20
#: The number of bytes of compressed data that are read at once, and the most that one step gives. A step takes the GIL
#: each time that its output grows, by doubling from 16 or 32 KB, so small ones wait longer for a busy interpreter.
COMPRESSED_READ_BYTES, DECOMPRESSED_CHUNK_BYTES = 1 << 19, 1 << 19

#: The most memory for the window of xz or zstd data, whose size the file declares; `zstd --long=31` has 2 GB. Set
#: `bpe.corpus.streams.max_window_bytes` lower where strangers name the files.
max_window_bytes = 1 << 31
#: The most bytes that a compressed file can have unpacked: no limit but the memory for its longest document. Set
#: `bpe.corpus.streams.max_unpacked_bytes` where strangers name the files.
max_unpacked_bytes = 1 << 62
#: The fewest bytes of a compressed file that a thread reads: starting and joining one takes as long as reading them.
MIN_THREAD_BYTES = 1 << 15

#: What a member, frame or stream begins with, and the most bytes of it: less than `find_compression` needs, so that the
#: first bytes of one that was cut off are not taken for other data.
_MEMBER_STARTS: dict[Compression, re.Pattern[bytes]] = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bz2": re.compile(rb"BZh[1-9]"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
}
_MEMBER_START_BYTES = 6

Item = TypeVar("Item")
#: Data, and the bytes of the file that were read for it and everything before it.
Chunk = tuple[bytes, int]
#: The size of a file and the time of its last change, by its name.
FileStamps = dict[str, tuple[int, int]]


class _ChunkStream(Stream):
    """The text of a file that comes in chunks."""

    def __init__(self, chunks: Iterator[Chunk], source: str, bytes_to_skip: int, end: int | None) -> None:
        super().__init__(None, source, bytes_to_skip=bytes_to_skip)
        self._chunks, self._bytes_left = chunks, end
        self._chunk = memoryview(b"")
        self._bytes_taken = self._bytes_counted = 0

    def start(self) -> None:
        """Start the thread that reads ahead, before anything else is read."""
        next(self._chunks)  # the empty one

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer with what is left of a chunk."""
        while not self._chunk:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._chunk, self._bytes_taken = memoryview(chunk[0]), chunk[1]
        count = min(len(buffer), len(self._chunk))
        if self._bytes_left is not None:
            count = min(count, self._bytes_left)
            self._bytes_left -= count
        buffer[:count] = self._chunk[:count]
        self._chunk = self._chunk[count:]
        return count

    def count_disk_bytes(self, bytes_read: int) -> int:
        """Count the bytes of the compressed file that were read since the last call."""
        del bytes_read
        new_bytes, self._bytes_counted = self._bytes_taken - self._bytes_counted, self._bytes_taken
        return new_bytes


@contextmanager
def open_stream(
    file: SourceFile,
    start: int = 0,
    end: int | None = None,
    encoding_errors: EncodingErrors = "strict",
    stamps: FileStamps | None = None,
) -> Iterator[Stream]:
    """Open the text of a file.

    Args:
        file: the file.
        start: the position in the decompressed text where reading begins.
        end: where it ends; None for the end of the file. Not for a pipe.
        encoding_errors: how bytes that are not UTF-8 are handled: with "replace", positions are those in the changed
            text; with "bytes", the compression of a pipe is not looked for.
        stamps: what the files of one call were when they were first opened.

    Raises:
        OSError: for a file that cannot be read, or is changed before it is closed.

    """
    offsets_are_bytes = encoding_errors != "replace"
    with ExitStack() as stack:
        raw, size = open_raw(file, stack, stamps)
        size = size or None  # an empty file is read to its end
        if file.is_seekable:
            if start == 0 and end is None:
                yield Stream(raw, file.name, size)
                return
            if offsets_are_bytes:
                raw.seek(start)
            size = (
                None
                if size is None
                else max((size if end is None else min(size, end)) - (start if offsets_are_bytes else 0), 0)
            )
            yield Stream(raw, file.name, size, *((start, 0) if offsets_are_bytes else (0, start)))
            return
        compression = file.compression
        if compression is None and file.kind != "remote":  # a pipe shows its compression when it is read
            if encoding_errors != "bytes":
                raw = _PeekedFile(raw)
                compression = find_compression(raw.first_bytes)
            if compression is None:
                yield Stream(raw, file.name, bytes_to_skip=start)
                return
        chunks = decompress(raw, compression, file.name) if compression is not None else _read_chunks(raw)
        if file.kind not in ("file", "remote"):
            chunks = _drop_advice(chunks)
        if _is_read_ahead(file):
            chunks = read_ahead(_begin_empty(chunks), _measure, READ_AHEAD_BYTES)
        stack.enter_context(closing(chunks))
        yield _ChunkStream(chunks, file.name, start, end)


def _is_read_ahead(file: SourceFile) -> bool:
    """Whether a thread reads a file that is compressed or remote."""
    return file.kind == "remote" or (file.kind == "file" and (file.size or 0) >= MIN_THREAD_BYTES)


def open_raw(file: SourceFile, stack: ExitStack, stamps: FileStamps | None = None) -> tuple[Any, int | None]:
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
    return raw, watch_for_changes(file, stack, raw.fileno(), stamps)


def watch_for_changes(
    file: SourceFile, stack: ExitStack, descriptor_or_path: int | str, stamps: FileStamps | None
) -> int | None:
    """When the stack is left without an error, raise OSError if the file's size or time has changed.

    Args:
        file: the file; only regular ones are compared.
        stack: left when the file was read.
        descriptor_or_path: its descriptor, or its path.
        stamps: what files were when they were first opened.

    Returns:
        The size of the file; None for what is not regular.

    """
    if file.kind != "file":
        return None
    first_stamp = read_stamp(descriptor_or_path)
    if stamps is not None and stamps.setdefault(file.name, first_stamp) != first_stamp:
        raise make_changed_error(file.name)

    def compare(error: type[BaseException] | None, *_: object) -> None:
        if error is None and read_stamp(descriptor_or_path) != first_stamp:
            raise make_changed_error(file.name)

    stack.push(compare)
    return first_stamp[0]


def read_stamp(descriptor_or_path: int | str) -> tuple[int, int]:
    """Read the size of a file, and the time of its last change in ns; those of many: `FileMeasurer.read_stamps`."""
    status = os.stat(descriptor_or_path)
    return status.st_size, status.st_mtime_ns


def read_compressed(file: SourceFile, stamps: FileStamps) -> None:
    """Decompress a regular or remote file, and drop the text, to see whether it is damaged.

    Raises:
        DamagedFileError, OSError: as for `decompress`.

    """
    assert file.compression is not None
    with ExitStack() as stack:
        for _ in decompress(open_raw(file, stack, stamps)[0], file.compression, file.name):
            pass


def count_newlines(file: SourceFile, offset: int) -> int | None:
    """Count the newlines in the first `offset` bytes of a file's text, to number lines; None for a pipe."""
    if file.kind not in ("file", "remote"):
        return None if offset else 0
    newlines = bytes_read = 0
    buffer = bytearray(1 << 20)
    with open_stream(file) as stream, memoryview(buffer) as view:
        while bytes_read < offset:
            count = stream.readinto(view[: min(len(buffer), offset - bytes_read)])
            if not count:
                break
            newlines += buffer.count(b"\n", 0, count)
            bytes_read += count
    return newlines


def read_text_before(file: SourceFile, offset: int, size: int) -> bytes:
    """Read the last `size` of the first `offset` bytes of a file's text; no bytes if the text is shorter."""
    text, start = b"", max(offset - size, 0)
    buffer = memoryview(bytearray(1 << 20))
    with open_stream(file, start, offset) as stream:
        bytes_left = stream.bytes_to_skip + offset - start
        while count := stream.readinto(buffer[:bytes_left]):
            text, bytes_left = (text + bytes(buffer[:count]))[-size:], bytes_left - count
    return b"" if bytes_left else text


def _drop_advice(chunks: Generator[Chunk, None, None]) -> Generator[Chunk, None, None]:
    """Yield the chunks of a pipe, whose damage is an error whatever `on_error` is: it cannot be read twice."""
    try:
        yield from chunks
    except DamagedFileError as error:
        raise FormatError(error.reason, path=error.path) from None


def _begin_empty(chunks: Generator[Chunk, None, None]) -> Generator[Chunk, None, None]:
    """Yield an empty chunk, which is there at once, before the others."""
    yield b"", 0
    yield from chunks


class NextFiles:
    """Compressed files that are opened, and read by threads of their own, before it is their turn; small ones are not.

    Args:
        files: regular files that will be read as a whole, with their indices, in order.
        n: how many are read at once, the present one included.
        encoding_errors, stamps: as for `open_stream`.

    """

    def __init__(
        self, files: Iterable[tuple[int, SourceFile]], n: int, encoding_errors: EncodingErrors, stamps: FileStamps
    ) -> None:
        self._files = deque((index, file) for index, file in files if _is_read_ahead(file))
        self._n, self._stamps, self._encoding_errors = n, stamps, encoding_errors
        self._opened: deque[tuple[int, ExitStack, Stream]] = deque()

    def open_stream(self, index: int) -> AbstractContextManager[Stream] | None:
        """Return a file that was opened, or None; start to read those after it."""
        found = None
        while self._opened and self._opened[0][0] <= index:
            opened_index, stack, stream = self._opened.popleft()
            if opened_index == index:
                found = _hold(stack, stream)
            else:
                _abandon(stack)
        while self._files and self._files[0][0] <= index:
            self._files.popleft()
        while self._files and len(self._opened) < self._n - 1:
            self._open(*self._files.popleft())
        return found

    def _open(self, index: int, file: SourceFile) -> None:
        with ExitStack() as stack, ignore_system_errors():  # which is raised again when it is the file's turn
            stream = stack.enter_context(open_stream(file, 0, None, self._encoding_errors, self._stamps))
            assert isinstance(stream, _ChunkStream)
            stream.start()
            self._opened.append((index, stack.pop_all(), stream))

    def close(self) -> None:
        """Close the files that were opened before their turn."""
        while self._opened:
            _abandon(self._opened.popleft()[1])


@contextmanager
def _hold(stack: ExitStack, stream: Stream) -> Iterator[Stream]:
    with stack:
        yield stream


def _abandon(stack: ExitStack) -> None:
    """Leave a stack as an error does, so that a file that was not read is not compared."""
    stack.__exit__(GeneratorExit, GeneratorExit(), None)


def _measure(chunk: Chunk) -> int:
    return len(chunk[0])


def _read_chunks(raw: Any) -> Generator[Chunk, None, None]:
    bytes_read = 0
    while data := raw.read(DECOMPRESSED_CHUNK_BYTES):
        bytes_read += len(data)
        yield data, bytes_read


class _PeekedFile:
    """A file whose first bytes were read; they are read again.

    Attributes:
        first_bytes: the first bytes.

    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        first_bytes = b""
        while len(first_bytes) < SIGNATURE_BYTES and (more := raw.read(SIGNATURE_BYTES - len(first_bytes))):
            first_bytes += more
        self.first_bytes = self._unread = first_bytes

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as one read does."""
        if self._unread:
            count = min(len(buffer), len(self._unread))
            buffer[:count], self._unread = self._unread[:count], self._unread[count:]
            return count
        count_read: int | None = self._raw.readinto(buffer)
        return count_read

    def read(self, size: int, /) -> bytes | None:
        """Read at most `size` bytes."""
        if self._unread:
            data, self._unread = self._unread[:size], self._unread[size:]
            return data
        data_read: bytes | None = self._raw.read(size)
        return data_read


# Compression ----------------------------------------------------------------------------------------------------------


class BytesFile(Protocol):
    """A file open for reading bytes."""

    def read(self, size: int, /) -> bytes | None:
        """Read at most `size` bytes; none at the end."""
        ...


class _Decompressor(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def decompress(file: BytesFile, compression: Compression, source: str) -> Generator[tuple[bytes, int], None, None]:
    """Yield a compressed file's data in chunks of at most DECOMPRESSED_CHUNK_BYTES, each with the bytes read so far.

    Raises:
        DamagedFileError: for data that is damaged, ends early or is followed by other bytes, or has more than
            `max_unpacked_bytes` unpacked.
        ImportError: if a package for this compression is missing.
        OSError: for a file that cannot be read.

    """
    make_decompressor, errors = _FACTORIES[compression](source)
    decompressor: _Decompressor = make_decompressor()
    bytes_read, bytes_unpacked, data = 0, 0, b""
    while True:
        if decompressor.eof:
            data, new_bytes = _read_next_member(file, compression, decompressor.unused_data)
            bytes_read += new_bytes
            if not data:
                return
            if not _MEMBER_STARTS[compression].match(data):
                end = bytes_read - len(data)
                raise DamagedFileError(
                    f"the {compression} data ends before byte {end}, and what follows is no {compression} data: it "
                    f"begins with {data[:_MEMBER_START_BYTES]!r}; remove it (head -c {end}), or copy or download the "
                    "file again",
                    source,
                )
            decompressor = make_decompressor()
        elif decompressor.needs_input:
            data = _read(file)
            bytes_read += len(data)
            if not data:
                raise DamagedFileError(
                    f"the {compression} data ends early, after {bytes_read} bytes: the file is incomplete; copy or "
                    "download it again",
                    source,
                )
        else:
            data = b""
        try:
            decompressed = decompressor.decompress(data, DECOMPRESSED_CHUNK_BYTES)
        except errors as error:
            raise_if_of_signal_handler(error)
            if "memory" in str(error).lower():
                raise DamagedFileError(
                    f"the {compression} data needs a window of more than {max_window_bytes} bytes ({error}), the most "
                    "that is read (bpe.corpus.streams.max_window_bytes); set that higher, or decompress the file",
                    source,
                ) from None
            raise DamagedFileError(
                f"the {compression} data is damaged before byte {bytes_read} ({error}); copy or download the file "
                "again",
                source,
            ) from None
        if decompressed:
            bytes_unpacked += len(decompressed)
            if bytes_unpacked > max_unpacked_bytes:
                raise DamagedFileError(
                    f"the {compression} data has more than {max_unpacked_bytes} bytes unpacked, the most that is read "
                    "(bpe.corpus.streams.max_unpacked_bytes); set that higher, or divide the file",
                    source,
                )
            yield decompressed, bytes_read


def _read_next_member(file: BytesFile, compression: Compression, data: bytes) -> tuple[bytes, int]:
    """Read the beginning of the member, frame or stream after one that has ended.

    Args:
        file: the file.
        compression: its compression.
        data: the bytes after the end that were read already.

    Returns:
        The bytes after the end, without the zeros that pad gzip and xz data, none at the end of the file; and how many
        bytes were read.

    """
    padding = b"\0" if compression in ("gzip", "xz") else b""
    data, bytes_read = data.lstrip(padding), 0
    while len(data) < _MEMBER_START_BYTES and (more := _read(file)):
        bytes_read += len(more)
        data = (data + more).lstrip(padding)
    return data, bytes_read


def _read(file: BytesFile) -> bytes:
    data = file.read(COMPRESSED_READ_BYTES)
    if data is None:  # a pipe without data that does not block
        raise BlockingIOError(f"the input is {with_article(file)} without data that does not block; let it block")
    return data


# Libraries ------------------------------------------------------------------------------------------------------------

_Factory = tuple[Callable[[], Any], Any]  # what makes a decompressor, and its exceptions


class _Gzip:
    """One member of a gzip file, with the interface of the other decompressors."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    @property
    def needs_input(self) -> bool:
        return not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return bytes(self._stream.decompress(data or self._stream.unconsumed_tail, max_length))


def _load_gzip(source: str) -> _Factory:
    del source
    try:
        from isal import isal_zlib

        return lambda: _Gzip(isal_zlib.decompressobj(31)), (isal_zlib.error,)
    except ImportError:
        import zlib

        return lambda: _Gzip(zlib.decompressobj(31)), (zlib.error,)


def _load_bz2(source: str) -> _Factory:
    del source
    import bz2

    return bz2.BZ2Decompressor, (OSError, ValueError)


def _load_xz(source: str) -> _Factory:
    del source
    import lzma

    return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=max_window_bytes), (lzma.LZMAError,)


def _load_zstd(source: str) -> _Factory:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    zstd = import_extra(name, "corpus", "zstd data", source)
    largest, log = zstd.DecompressionParameter.window_log_max.bounds()[1], max(max_window_bytes, 1024).bit_length() - 1
    options = {zstd.DecompressionParameter.window_log_max: min(log, largest)}
    return lambda: zstd.ZstdDecompressor(options=options), (zstd.ZstdError,)


_FACTORIES: dict[Compression, Callable[[str], _Factory]] = {
    "gzip": _load_gzip,
    "bz2": _load_bz2,
    "xz": _load_xz,
    "zstd": _load_zstd,
}


# Reading ahead --------------------------------------------------------------------------------------------------------


def read_ahead(items: Iterator[Item], measure: Callable[[Item], int], max_size: int) -> Generator[Item, None, None]:
    """Yield the items of an iterator, which a thread advances ahead of the caller.

    The thread starts with the first item. It ends when the items end, and soon after the generator is closed: at most
    one more item is made. An exception of the iterator reaches the caller after the items before it. The thread is a
    daemon, so that a generator that is never closed does not keep the process alive; in a forked child, which has no
    copy of the thread, the generator ends with an error instead of waiting forever.

    Args:
        items: the iterator, used by the thread only; a generator is closed there too.
        measure: the size of an item in bytes.
        max_size: the thread pauses while the items that wait have this many bytes.

    """
    process = os.getpid()
    reader = _AheadReader(items, measure, max_size)
    with Crew(reader.run, 1, reader.stop, name="bpe_reader", daemon=True):
        while item := reader.take():
            yield item.pop()
            if os.getpid() != process:
                raise RuntimeError(
                    "these sources were being read when the process forked; read them again in the child"
                )
    if reader.errors:
        raise reader.errors[0]


class _AheadReader(Generic[Item]):
    """The thread's work, and the items that wait."""

    def __init__(self, items: Iterator[Item], measure: Callable[[Item], int], max_size: int) -> None:
        self._items, self._measure, self._max_size = items, measure, max_size
        self._ready: SimpleQueue[list[Item]] = SimpleQueue()  # one item each; an empty list at the end
        self._taken_sizes: SimpleQueue[int] = SimpleQueue()  # their sizes
        self._stopped = False
        self.errors: list[BaseException] = []

    def take(self) -> list[Item]:
        """Return the next item, in a list; an empty list at the end."""
        item = self._ready.get()
        if item:
            self._taken_sizes.put(self._measure(item[0]))
        return item

    def stop(self) -> None:
        """Make the thread end after the item that it is making."""
        self._stopped = True
        self._taken_sizes.put(self._max_size)

    def run(self, _: int) -> None:
        """Make items until they end, or until `stop`."""
        waiting_bytes = 0
        try:
            for item in self._items:
                while waiting_bytes >= self._max_size and not self._stopped:
                    waiting_bytes -= self._taken_sizes.get()
                if self._stopped:
                    break
                waiting_bytes += self._measure(item)
                self._ready.put([item])
                del item
        except BaseException as error:  # noqa: BLE001 (raised in the caller's thread)
            self.errors.append(error)
        finally:
            self._close()
            self._ready.put([])

    def _close(self) -> None:
        """Close a generator; its error is one more of the iterator."""
        try:
            if (close := getattr(self._items, "close", None)) is not None:
                close()
        except BaseException as error:  # noqa: BLE001 (as above)
            self.errors.append(error)
