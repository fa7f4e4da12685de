"""Corpora: the documents of files and iterables, in blocks that threads take.

Not here: what is done with the documents (`bpe/counting.py`).
"""

from __future__ import annotations

import io
import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe._core.documents import split
from bpe.errors import check_iterable, check_unicode, shown, type_name, typed
from bpe.text import Bytes, TextLike, check_utf8, no_text, to_bytes

PathLike = str | os.PathLike[str]

#: A block has about this many bytes, or whole documents where those may not be cut.
BLOCK = 1 << 22

#: Where a text may be cut, at or behind an offset, so that its parts give what the whole does; its length if nowhere.
Cut = Callable[[Bytes, int], int]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a corpus: documents, or a part of one that was cut where that makes no difference."""

    text: Bytes
    starts: NDArray[np.int64]  # of the documents in `text`, or of what `separators` cut into documents
    ends: NDArray[np.int64]
    separators: list[bytes]
    keep: bool  # a separator belongs to the document before it
    source: str
    offset: int  # of `text` in its source
    mapped: mmap.mmap | None = None

    def documents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the documents of the block start and end in `text`: two int64 arrays."""
        if not self.separators:
            return self.starts, self.ends
        return split(self.text, self.starts, self.ends, self.separators, self.keep)

    def check_utf8(self) -> None:
        """Raise ValueError where the text is not UTF-8."""
        check_utf8(self.text, self.source, self.offset)

    def release(self) -> None:
        """Give the memory of a mapped file's pages back; they are read again if anyone asks for them."""
        if self.mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            start = -(-self.offset // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (self.offset + len(self.text)) // mmap.PAGESIZE * mmap.PAGESIZE
            if start < end:
                self.mapped.madvise(mmap.MADV_DONTNEED, start, end - start)


def text_blocks(texts: Iterable[TextLike], cut: Cut | None, *, utf8: bool = False, threads: int = 1) -> Iterator[Block]:
    """Texts, each a document, in blocks for so many threads; with `utf8`, bytes that are not UTF-8 are an error.

    Raises:
        TypeError: for one text in place of several, or what is no text.

    """
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{shown(texts, 20)}]")
    check_iterable("texts", texts, "an iterable of str or bytes")
    waiting: list[bytes] = []
    size = 0
    for number, text in enumerate(texts):
        try:
            data = to_bytes(text)
        except TypeError:
            raise no_text(text, f"text {number}") from None
        if utf8 and not isinstance(text, str):
            check_utf8(data, f"text {number}")
        if cut is not None and len(data) > 2 * BLOCK:
            yield from _joined(waiting)
            waiting, size = [], 0
            view = memoryview(data)
            for start, end in ranges(view, cut, threads):
                yield whole_block(view[start:end], f"text {number}", start)
            continue
        waiting.append(data)
        size += len(data)
        if size >= BLOCK:
            yield from _joined(waiting)
            waiting, size = [], 0
    yield from _joined(waiting)


def file_blocks(
    files: Iterable[PathLike],
    separator: str | None,
    per_line: bool,
    cut: Cut | None,
    strings: list[bytes],
    threads: int = 1,
) -> Iterator[Block]:
    """The documents of files in blocks for so many threads.

    A regular file is mapped into memory, anything else read bit by bit.
    """
    separators = separators_of(separator, per_line)
    for path in files:
        with open(path, "rb") as file:
            source = os.fspath(path)
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                pieces: Iterator[tuple[Bytes, int, mmap.mmap | None]] = _read(file, cut, strings)
            else:
                pieces = _mapped(file, separators, cut, threads)
            for text, offset, mapped in pieces:
                block = whole_block(text, source, offset)
                yield replace(block, separators=separators, keep=per_line, mapped=mapped)


def separators_of(separator: str | None, per_line: bool) -> list[bytes]:
    """The arguments `separator` and `per_line` as the strings that documents end at.

    Raises:
        TypeError, ValueError: for what they must not be.

    """
    if separator is not None and not isinstance(separator, str):
        raise TypeError(f"separator is {typed(separator)}; it must be a str or None")
    if separator == "":
        raise ValueError("separator is ''; it must be at least one character, or None for one document per file")
    if separator is not None and per_line:
        raise ValueError(f"separator is {separator!r} and per_line is {per_line!r}; give at most one of them")
    return [b"\n"] if per_line else [] if separator is None else [check_unicode("separator", separator)]


def check_separating(separator: str | None, per_line: bool) -> None:
    """Refuse the arguments `separator` and `per_line` where there are no files for them to cut.

    Raises:
        ValueError: if one of them is given.

    """
    if separator is not None or per_line:
        given = f"separator is {shown(separator)}" if separator is not None else f"per_line is {per_line!r}"
        raise ValueError(f"{given}, but only files= are cut into documents; leave it out, and cut texts yourself")


def overlaps(separator: bytes) -> bool:
    """Whether one may begin within another, so that which ones count depends on where the search begins."""
    return any(separator.startswith(separator[k:]) for k in range(1, len(separator)))


def listed_files(files: PathLike | Iterable[PathLike]) -> list[PathLike]:
    """The argument `files` as a list of paths that can be read.

    Raises:
        TypeError: for what is no path.
        OSError: for a file that cannot be read.

    """
    if isinstance(files, (str, os.PathLike)):
        files = [files]
    given: object = files
    rule = "a path (str or pathlib's), or an iterable of paths"
    check_iterable("files", given, rule)
    if isinstance(given, (bytes, io.IOBase)):  # whose numbers, or lines, are no paths
        raise TypeError(f"files is {typed(given)}; it must be {rule}")
    paths = list(files)
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"file {shown(path)} is {type_name(path)}; it must be a path")
        if stat.S_ISREG(os.stat(path).st_mode):  # all are there before the first is read
            with open(path, "rb"):
                pass
    return paths


def map_file(path: PathLike) -> memoryview:
    """The bytes of a file without reading them: a map of it, or what a pipe gives."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(file.read())
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def total_size(paths: list[PathLike]) -> int | None:
    """The bytes of files together, or None where that is not known before."""
    return sum(Path(path).stat().st_size for path in paths) or None


def whole_block(text: Bytes, source: str, offset: int) -> Block:
    """A text, or a part of one, as a block."""
    bounds = np.array([0, len(text)], dtype=np.int64)
    return Block(text, bounds[:1], bounds[1:], [], False, source, offset)


def _joined(texts: list[bytes]) -> Iterator[Block]:
    """Small texts as one block."""
    if texts:
        ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
        yield Block(b"".join(texts), starts, ends, [], False, "", 0)


def ranges(text: Bytes, cut: Cut, threads: int) -> Iterator[tuple[int, int]]:
    """A long text in parts of about BLOCK bytes: (start, end). Several threads get smaller ones towards the end.

    The last part is at most an eighth of BLOCK then, so that no thread waits long for another.
    """
    least = BLOCK if threads == 1 else max(BLOCK // 16, 1)
    start = 0
    while start < len(text):
        left = len(text) - start
        size = max(min(BLOCK, left // (2 * threads)), least)
        end = len(text) if left <= 2 * least else cut(text, start + size)
        yield start, end
        start = end


def _mapped(
    file: BufferedReader, separators: list[bytes], cut: Cut | None, threads: int
) -> Iterator[tuple[Bytes, int, mmap.mmap | None]]:
    """A file mapped into memory in parts: (text, its offset, the map)."""
    if not os.fstat(file.fileno()).st_size:
        return
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    whole = memoryview(mapped)
    if cut is None:
        cut = _behind_a_document(mapped, separators)
    for start, end in ranges(whole, cut, threads):
        yield whole[start:end], start, mapped


def _behind_a_document(mapped: Any, separators: list[bytes]) -> Cut:
    """A cut that leaves documents whole, for what goes through a text from its beginning to its end."""
    done = 0

    def cut(text: Bytes, at: int) -> int:
        nonlocal done
        while separators and done < at:
            found = mapped.find(separators[0], done)
            if found < 0:
                break
            done = found + len(separators[0])
        return done if done >= at else len(text)

    return cut


def _read(file: BufferedReader, cut: Cut | None, strings: list[bytes]) -> Iterator[tuple[Bytes, int, mmap.mmap | None]]:
    """What a pipe gives, in parts: (text, its offset, None). Where texts may not be cut, all of it at once."""
    beyond = max(map(len, strings), default=0)  # a string that begins behind a cut may end behind what has been read
    text, offset = b"", 0
    while more := file.read(BLOCK):
        text += more
        if cut is None or (end := cut(text, max(0, len(text) - BLOCK // 2))) + beyond >= len(text):
            continue
        yield text[:end], offset, None
        text, offset = text[end:], offset + end
    if text:
        yield text, offset, None
