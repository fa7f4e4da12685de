"""Blocks of documents for several threads: what they are, where they may end, and those of texts in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpe.base._aho_corasick import Finder
from bpe.base._utf8 import join_utf8
from bpe.base.utf8 import Bytes, TextLike, check_utf8, no_text, to_bytes, utf8_error
from bpe.corpus.reading import Buffers, EndCut, check_file_text
from bpe.corpus.separators import find_last, split
from bpe.errors import FormatError, check_iterable, check_unicode, shown, typed

PathLike = str | os.PathLike[str]

_NEWLINE = re.compile(b"\n")  # also searches a memoryview

#: The size in bytes of a block of texts in memory. A document that may not be cut can make it larger.
BLOCK = 1 << 22

#: Called as cut(text, offset): the first safe split point at or after the offset; the length of the text if none.
Cut = Callable[[Bytes, int], int]


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading of `Sources` can go on.

    Attributes:
        file: the index of the file among `Sources.files`.
        offset: of text, JSON Lines and CSV: a position in the decompressed text, where a document or record begins, in
            bytes; of Parquet and Arrow: the index of a row group or record batch.
        documents: how many documents after that are left out.

    """

    file: int
    offset: int
    documents: int = 0


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
        size: of a file: the bytes on disk that were read for this block.
        begins: of a file: whether the block starts with a new document rather than the rest of one.
        closes: of a file: whether the last document ends with the block.
        checked: whether the text is known to be UTF-8, or need not be.
        buffers: the pool that the memory of `text` is returned to; None if it is of no pool.
        file: of `Sources`: the index of the file.
        position, skip: of `Sources`: the offset and the documents of `resume`.
        skipped: of `Sources`: how many bad records had been left out when reading came to `position`.
        row: of Parquet and Arrow: the number of the row of the first document, if `text` is to be checked.

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
    file: int = 0
    position: int = 0
    skip: int = 0
    skipped: int = 0
    row: int | None = None

    @property
    def resume(self) -> Position:
        """The position where this block begins; where it continues a document (`begins` is False), there is none."""
        return Position(self.file, self.position, self.skip)

    def documents(self, empty: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The starts and ends of the documents in `text`: two int64 arrays. Empty documents only with `empty`."""
        if not self.separators:
            return self.starts, self.ends
        return split(self.text, self.starts, self.ends, self.separators, self.keep, empty)

    def check(self) -> None:
        """Raise FormatError, with the position in the file, for text that must be UTF-8 and is not."""
        if self.checked:
            return
        assert isinstance(self.text, memoryview)
        if self.row is None:
            check_file_text(self.text, self.source, self.offset)
            return
        found = invalid_document(self.text, self.starts, self.ends)
        if found is not None:
            number, reason = found
            raise FormatError(
                f'the text is not UTF-8 ({reason}); convert it, or pass encoding_errors="replace" to read each bad '
                'byte as U+FFFD, encoding_errors="bytes" to let a byte model encode the bytes unchanged, or '
                'on_error="skip" to leave out such rows',
                path=self.source,
                where=f"row {self.row + number}",
            )

    def release(self) -> None:
        """Return the memory of a block of a pool for reuse. `text` must not be used afterwards."""
        if self.buffers is not None:
            assert isinstance(self.text, memoryview)
            self.buffers.give_back(self.text)


def text_blocks(
    texts: Iterable[TextLike], cut: Cut | None, *, utf8: bool = False, threads: int = 1, most: int = BLOCK
) -> Generator[Block, None, None]:
    """Texts, each a document, in blocks for `threads` threads; with `utf8`, bytes that are not UTF-8 are an error.

    A block ends after `most` bytes, or BLOCK if that is less, unless a text is longer.

    Raises:
        TypeError: for a single text instead of several, or an item that is neither str nor bytes.

    """
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{shown(texts, 20)}]")
    check_iterable("texts", texts, "an iterable of str or bytes")
    waiting: list[str | bytes] = []
    most = min(most, BLOCK)  # BLOCK is less in tests
    size = 0
    for number, text in enumerate(texts):
        data: str | bytes
        if isinstance(text, str) and (cut is None or 4 * len(text) <= 2 * BLOCK):
            data, own = text, len(text) * (1 if text.isascii() else 2)  # of UTF-8, about
        else:
            data = _bytes_of(text, f"text {number}", utf8)
            own = len(data)
        if cut is not None and isinstance(data, bytes) and own > 2 * BLOCK:
            yield from _joined(waiting)
            waiting, size = [], 0
            view = memoryview(data)
            for start, end in ranges(view, cut, threads):
                yield whole_block(view[start:end], f"text {number}", start)
            continue
        waiting.append(data)
        size += own
        if size >= most:
            yield from _joined(waiting)
            waiting, size = [], 0
    yield from _joined(waiting)


def text_groups(texts: Iterable[TextLike], most: int) -> Generator[list[str | bytes], None, None]:
    """Texts in lists of `most` characters or bytes, or some more.

    Raises:
        TypeError: for an item that is neither str nor bytes.

    """
    group: list[str | bytes] = []
    size, most = 0, min(most, BLOCK)  # BLOCK is less in tests
    for number, text in enumerate(texts):
        group.append(text if isinstance(text, (str, bytes)) else _bytes_of(text, f"text {number}", False))
        size += len(text)
        if size >= most:
            yield group
            group, size = [], 0
    if group:
        yield group


def _bytes_of(text: TextLike, name: str, utf8: bool) -> bytes:
    """A text as bytes; with `utf8`, bytes that are not UTF-8 are an error."""
    try:
        data = to_bytes(text)
    except TypeError:
        raise no_text(text, name) from None
    if utf8 and not isinstance(text, str):
        check_utf8(data, name)
    return data


def invalid_document(text: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[int, str] | None:
    """The first document `text[starts[i]:ends[i]]` that is not UTF-8, and the reason; None if all are.

    A text that is UTF-8 as a whole is searched for documents that begin or end within a character, so the cost is that
    of one check of the text, and linear in the documents.
    """
    if utf8_error(text) is None:
        data, filled = np.frombuffer(text, dtype=np.uint8), starts < ends
        bounds = np.concatenate((starts[filled], ends[filled]))
        if not ((data[bounds[bounds < len(data)]] & 0xC0) == 0x80).any():
            return None
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        found = utf8_error(text[start:end])
        if found is not None:
            return number, f"byte 0x{text[start + found[0]]:02x} at offset {found[0]}: {found[1]}"
    return None


def document_cut(separators: list[bytes], keep: bool) -> EndCut | None:
    """A cut at the last separator, which keeps documents whole; None without separators."""
    if not separators:
        return None
    separator = separators[0]

    def cut(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        start = max(low - len(separator) + 1, 0)
        at = find_last(buffer, start, end, separator)
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


def next_line(text: Bytes, at: int) -> int:
    """The first start of a line at or after an offset greater than 0; the length of the text if there is none."""
    found = _NEWLINE.search(text, at - 1)
    return len(text) if found is None else found.end()


def last_line(text: memoryview, low: int) -> int:
    """The last start of a line after `low`, or at the end of the text; `low` if there is none."""
    return max(find_last(text, low, len(text), b"\n") + 1, low)


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


def whole_block(text: Bytes, source: str, offset: int) -> Block:
    """A block with one document: a text, or a part of one."""
    bounds = np.array([0, len(text)], dtype=np.int64)
    return Block(text, bounds[:1], bounds[1:], [], False, source, offset)


def _joined(texts: list[str | bytes]) -> Iterator[Block]:
    """A block with several small texts, or none."""
    if texts:
        data, offsets = join_utf8(texts)
        yield Block(data.data, offsets[:-1], offsets[1:], [], False, "", 0)


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
