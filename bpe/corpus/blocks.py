"""Corpora: the documents of files and iterables, in blocks that threads take.

Not here: what is done with the documents (`bpe/count/counting.py`).
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

#: A block of texts in memory has about this many bytes, or whole documents where those may not be cut.
BLOCK = 1 << 22

#: Where a text may be cut, at or after an offset, so that its parts give what the whole does; its length if nowhere.
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
    # Of a block of a file:
    size: int = 0  # bytes that were read for it
    begins: bool = True  # a document begins with it; otherwise its first one began in the block before
    closes: bool = True  # its last document ends with it; otherwise that goes on in the next block
    checked: bool = True  # it need not be UTF-8, or is known to be
    buffers: Buffers | None = None  # where its memory goes back to

    def documents(self, empty: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the documents of the block start and end in `text`: two int64 arrays; empty ones only with `empty`."""
        if not self.separators:
            return self.starts, self.ends
        return split(self.text, self.starts, self.ends, self.separators, self.keep, empty)

    def check(self) -> None:
        """Refuse a file's text that is not UTF-8, unless that is allowed.

        Raises:
            FormatError: with the position in the file.

        """
        if not self.checked:
            assert isinstance(self.text, memoryview)
            check_file_text(self.text, self.source, self.offset)

    def release(self) -> None:
        """Give the memory of a file's block back: its text is not used any more."""
        if self.buffers is not None:
            assert isinstance(self.text, memoryview)
            self.buffers.give_back(self.text)


def text_blocks(
    texts: Iterable[TextLike], cut: Cut | None, *, utf8: bool = False, threads: int = 1
) -> Generator[Block, None, None]:
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
    """The documents of files in blocks for so many threads, which read them as they take them.

    Of a regular file as much is read as it has when it is opened; of anything else, all that comes.

    Raises:
        FormatError: for a file that is no text by its first bytes. Bytes that are not UTF-8 are for `Block.check`.
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
    """A cut that leaves documents whole; None where there are no separators."""
    if not separators:
        return None
    separator = separators[0]

    def cut(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        at = buffer.rfind(separator, max(low - len(separator) + 1, 0), end)
        behind = at + len(separator)
        return None if at < 0 else (behind, behind) if keep else (at, behind)

    def cut_in_order(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        del low  # which separators count depends on those before them
        bounds = np.array([0, end], dtype=np.int64)
        with memoryview(buffer) as whole:
            starts, ends = split(whole, bounds[:1], bounds[1:], separators, keep, True)
        return (int(ends[-2]), int(starts[-1])) if len(starts) > 1 else None

    return cut_in_order if overlaps(separator) else cut


def safe_cut(last: Callable[[memoryview, int], int], strings: list[bytes]) -> EndCut:
    """A cut at a place that `last` finds, in none of the strings.

    Args:
        last: called as last(text, low): the last place beyond `low` where the text may be cut whatever follows it, or
            `low`.
        strings: separators and special tokens.

    """
    finder = Finder(list(dict.fromkeys(strings)))
    longest = max(finder.longest, 1)

    def cut(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        limit, low = end - longest + 1, max(low - longest - 3, 0)  # a string or a character may not have ended there
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
        check_device(path)
        if stat.S_ISREG(os.stat(path).st_mode):  # all are there before the first is read
            with open(path, "rb"):
                pass
    return paths


@dataclass(frozen=True, slots=True)
class TextFiles:
    """The text files of a call, listed and checked once.

    Attributes:
        paths: the files, in order.
        separators: the strings that documents end at; none where each file is one document.
        keep_separator: whether a separator belongs to the document before it.
        encoding_errors: what becomes of bytes that are not UTF-8.
        size: the bytes of all files, or None where that is not known before they are read.
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
        """The files that the arguments of a call name.

        Args:
            files: one path or several.
            separator: the string between documents.
            per_line: each line is a document.
            encoding_errors: as for `Tokenizer.encode_files`.
            chars: whether they are for a character model, which takes UTF-8 only.

        Raises:
            TypeError, ValueError: for arguments that are wrong or contradict each other.
            OSError: for a file that cannot be read.

        """
        separators = separators_of(separator, per_line)
        checked = checked_encoding_errors(encoding_errors, chars=chars)
        paths = listed_files(files)
        size = sum(Path(path).stat().st_size for path in paths) or None
        return cls(paths, separators, per_line, checked, size, all_regular(paths))

    def blocks(self, cut: EndCut | None, threads: int) -> Generator[Block, None, None]:
        """The documents in blocks, as `file_blocks` has them."""
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
    """Whether all paths are regular files. Anything else, such as a pipe, may keep its reader waiting for ever.

    Only the caller's thread may read such a file: Ctrl-C interrupts the wait of no other thread.
    """
    return all(stat.S_ISREG(os.stat(path).st_mode) for path in paths)


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
