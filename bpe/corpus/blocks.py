"""The documents of files and iterables, in blocks for several threads.

Not here: reading a file (`bpe/corpus/reading.py`), the rows of Arrow arrays (`bpe/corpus/documents.py`).
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bpe.base._aho_corasick import Finder
from bpe.base.utf8 import Bytes, TextLike, check_device, check_utf8, no_text, to_bytes
from bpe.corpus._separators import split
from bpe.corpus.reading import (
    Buffers,
    EncodingErrors,
    EndCut,
    Readable,
    Schedule,
    check_file_text,
    checked_encoding_errors,
    read_text,
    regular_size,
)
from bpe.errors import check_iterable, check_unicode, shown, type_name, typed

PathLike = str | os.PathLike[str]

#: The size in bytes of a block of texts in memory. A document that may not be cut can make it larger.
BLOCK = 1 << 22

#: Called as cut(text, offset): the first safe split point at or after the offset; the length of the text if none.
Cut = Callable[[Bytes, int], int]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a corpus: documents, or a part of a document that ends at safe split points.

    Attributes:
        text: the bytes.
        starts, ends: int64: the documents in `text`, before `separators` divide them further.
        separators: the strings that documents end at.
        keep: whether a separator belongs to the document before it.
        source: the name of the file or text, for errors.
        offset: the position of `text` in its source.
        size: of a file: the bytes that were read for this block.
        begins: of a file: whether the block starts with a new document rather than the rest of one.
        closes: of a file: whether the last document ends with the block.
        checked: whether the text is known to be UTF-8, or need not be.
        buffers: of a file: the pool that the memory of `text` is returned to.

    """

    text: Bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    separators: list[bytes]
    keep: bool
    source: str
    offset: int
    size: int = 0
    begins: bool = True
    closes: bool = True
    checked: bool = True
    buffers: Buffers | None = None

    def documents(self, empty: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The starts and ends of the documents in `text`: two int64 arrays. Empty documents only with `empty`."""
        if not self.separators:
            return self.starts, self.ends
        return split(self.text, self.starts, self.ends, self.separators, self.keep, empty)

    def check(self) -> None:
        """Raise FormatError, with the position in the file, for text that must be UTF-8 and is not."""
        if not self.checked:
            assert isinstance(self.text, memoryview)
            check_file_text(self.text, self.source, self.offset)

    def release(self) -> None:
        """Return the memory of a file's block for reuse. `text` must not be used afterwards."""
        if self.buffers is not None:
            assert isinstance(self.text, memoryview)
            self.buffers.give_back(self.text)


def text_blocks(
    texts: Iterable[TextLike], cut: Cut | None, *, utf8: bool = False, threads: int = 1
) -> Generator[Block, None, None]:
    """Texts, each a document, in blocks for `threads` threads; with `utf8`, bytes that are not UTF-8 are an error.

    Raises:
        TypeError: for a single text instead of several, or an item that is neither str nor bytes.

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


@contextmanager
def open_file(path: PathLike) -> Iterator[tuple[Readable, int | None, str]]:
    """Open a file for `file_blocks`: (the file, its size if it has one, its name)."""
    with open(path, "rb", buffering=0) as file:
        yield file, regular_size(file.fileno()), os.fspath(path)


def file_blocks(
    paths: list[PathLike],
    separators: list[bytes],
    keep: bool,
    cut: EndCut | None,
    *,
    threads: int = 1,
    total: int | None = None,
    encoding_errors: EncodingErrors = "strict",
    opened: Callable[[PathLike], AbstractContextManager[tuple[Readable, int | None, str]]] = open_file,
) -> Generator[Block, None, None]:
    """The documents of files, in blocks for `threads` threads; a block is read when a thread takes it.

    A regular file is read up to the size that it has when it is opened, anything else to its end.

    Raises:
        FormatError: for a file whose first bytes show that it is not text. `Block.check` finds bytes that are not
            UTF-8.
        OSError: for a file that cannot be read, or gets shorter while it is read.

    """
    buffers, schedule = Buffers(), Schedule(total, threads)
    line_end = separators[0] if keep else b""
    for path in paths:
        with opened(path) as (file, size, source):
            for text in read_text(
                file,
                source,
                cut,
                buffers,
                schedule,
                size=size,
                line_end=line_end,
                encoding_errors=encoding_errors,
            ):
                bounds = np.array([0, len(text.text)], dtype=np.int64)
                yield Block(
                    text.text,
                    bounds[:1],
                    bounds[1:],
                    separators,
                    keep,
                    source,
                    text.offset,
                    text.size,
                    text.begins,
                    text.ends,
                    encoding_errors != "strict",
                    buffers,
                )


def document_cut(separators: list[bytes], keep: bool) -> EndCut | None:
    """A cut at the last separator, which keeps documents whole; None without separators."""
    if not separators:
        return None
    separator = separators[0]

    def cut(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        at = buffer.rfind(separator, max(low - len(separator) + 1, 0), end)
        after = at + len(separator)
        return None if at < 0 else (after, after) if keep else (at, after)

    def cut_in_order(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        del low  # occurrences that overlap count from the left, so the search starts at the beginning
        bounds = np.array([0, end], dtype=np.int64)
        with memoryview(buffer) as whole:
            starts, ends = split(whole, bounds[:1], bounds[1:], separators, keep, True)
        return (int(ends[-2]), int(starts[-1])) if len(starts) > 1 else None

    return cut_in_order if overlaps(separator) else cut


def safe_cut(last: Callable[[memoryview, int], int], strings: list[bytes]) -> EndCut:
    """A cut at a safe split point that is in none of the strings.

    Args:
        last: called as last(text, low): the last position greater than `low` where the text may be cut whatever
            follows it, or `low`.
        strings: separators and special tokens.

    """
    finder = Finder(list(dict.fromkeys(strings)))
    longest = max(finder.longest, 1)

    def cut(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        limit, low = end - longest + 1, max(low - longest - 3, 0)  # the text may end within a string or a character
        with memoryview(buffer) as whole, whole[:end] as text:
            while limit > low:
                with text[:limit] as part:
                    limit = last(part, low)
                if limit <= low:
                    break
                if not finder.crosses(text, limit):
                    return limit, limit
        return None

    return cut


def separators_of(separator: str | None, per_line: bool) -> list[bytes]:
    """The strings that documents end at, from the arguments `separator` and `per_line`.

    Raises:
        TypeError, ValueError: for invalid values, or both arguments at once.

    """
    if separator is not None and not isinstance(separator, str):
        raise TypeError(f"separator is {typed(separator)}; it must be a str or None")
    if separator == "":
        raise ValueError("separator is ''; it must be at least one character, or None for one document per file")
    if separator is not None and per_line:
        raise ValueError(f"separator is {separator!r} and per_line is {per_line!r}; give at most one of them")
    return [b"\n"] if per_line else [] if separator is None else [check_unicode("separator", separator)]


def check_separating(separator: str | None, per_line: bool) -> None:
    """Raise ValueError if `separator` or `per_line` is given without files."""
    if separator is not None or per_line:
        given = f"separator is {shown(separator)}" if separator is not None else f"per_line is {per_line!r}"
        raise ValueError(f"{given}, but only files= are split into documents; leave it out, and split texts yourself")


def overlaps(separator: bytes) -> bool:
    """Whether two occurrences can overlap, so that the matches depend on where the search begins."""
    return any(separator.startswith(separator[k:]) for k in range(1, len(separator)))


def listed_files(files: PathLike | Iterable[PathLike]) -> list[PathLike]:
    """The argument `files` as a list of readable paths.

    Raises:
        TypeError: for an item that is not a path.
        OSError: for a file that cannot be read.

    """
    if isinstance(files, (str, os.PathLike)):
        files = [files]
    given: object = files
    rule = "a path (str or pathlib's), or an iterable of paths"
    check_iterable("files", given, rule)
    if isinstance(given, (bytes, io.IOBase)):  # iterating over them gives ints or lines, not paths
        raise TypeError(f"files is {typed(given)}; it must be {rule}")
    paths = list(files)
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"file {shown(path)} is {type_name(path)}; it must be a path")
        check_device(path)
        if stat.S_ISREG(os.stat(path).st_mode):  # a missing file is an error before any is read
            with open(path, "rb"):
                pass
    return paths


@dataclass(frozen=True, slots=True)
class TextFiles:
    """The text files of a call, listed and checked once.

    Attributes:
        paths: the files, in order.
        separators: the strings that documents end at; empty if each file is one document.
        keep_separator: whether a separator belongs to the document before it.
        encoding_errors: how bytes that are not UTF-8 are handled.
        size: the bytes of all files, or None if unknown before they are read.
        regular: whether all are regular files, which any thread may read.

    """

    paths: list[PathLike]
    separators: list[bytes]
    keep_separator: bool
    encoding_errors: EncodingErrors
    size: int | None
    regular: bool

    @classmethod
    def of(
        cls,
        files: PathLike | Iterable[PathLike],
        separator: str | None,
        per_line: bool,
        encoding_errors: EncodingErrors = "strict",
        *,
        chars: bool = False,
    ) -> TextFiles:
        """Check the arguments of a call and list its files.

        Args:
            files: one path or several.
            separator: the string between documents.
            per_line: each line is a document.
            encoding_errors: as for `Tokenizer.encode_files`.
            chars: whether they are for a character model, which takes UTF-8 only.

        Raises:
            TypeError, ValueError: for arguments that are invalid or contradict each other.
            OSError: for a file that cannot be read.

        """
        separators = separators_of(separator, per_line)
        checked = checked_encoding_errors(encoding_errors, chars=chars)
        paths = listed_files(files)
        size = sum(Path(path).stat().st_size for path in paths) or None
        return cls(paths, separators, per_line, checked, size, all_regular(paths))

    def blocks(self, cut: EndCut | None, threads: int) -> Generator[Block, None, None]:
        """The documents in blocks; see `file_blocks`."""
        return file_blocks(
            self.paths,
            self.separators,
            self.keep_separator,
            cut,
            threads=threads,
            total=self.size,
            encoding_errors=self.encoding_errors,
        )


def all_regular(paths: Iterable[PathLike]) -> bool:
    """Whether all paths are regular files. Reading anything else, such as a pipe, may block for any time.

    Only the caller's thread may read such a file, since Ctrl-C interrupts no other thread.
    """
    return all(stat.S_ISREG(os.stat(path).st_mode) for path in paths)


def whole_block(text: Bytes, source: str, offset: int) -> Block:
    """A block with one document: a text, or a part of one."""
    bounds = np.array([0, len(text)], dtype=np.int64)
    return Block(text, bounds[:1], bounds[1:], [], False, source, offset)


def _joined(texts: list[bytes]) -> Iterator[Block]:
    """A block with several small texts, or none."""
    if texts:
        ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
        yield Block(b"".join(texts), starts, ends, [], False, "", 0)


def ranges(text: Bytes, cut: Cut, threads: int) -> Iterator[tuple[int, int]]:
    """The parts (start, end) of a long text, of about BLOCK bytes each.

    With several threads the parts get smaller towards the end, down to an eighth of BLOCK, so that no thread waits
    long for another.
    """
    least = BLOCK if threads == 1 else max(BLOCK // 16, 1)
    start = 0
    while start < len(text):
        left = len(text) - start
        size = max(min(BLOCK, left // (2 * threads)), least)
        end = len(text) if left <= 2 * least else cut(text, start + size)
        yield start, end
        start = end
