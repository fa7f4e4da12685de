"""Blocks of documents for several threads: what they are, their documents, where they end; those of texts in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from bpe.base._aho_corasick import Finder
from bpe.base._utf8 import join_utf8
from bpe.base.fast_dataclasses import dataclass
from bpe.base.utf8 import Bytes, TextLike, check_utf8, find_utf8_error, make_type_error, to_bytes
from bpe.corpus.reading import BlockEndFinder, BufferPool
from bpe.errors import FormatError, check_bool, check_iterable, check_unicode, describe, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.base._buffers import Buffer

PathLike = str | os.PathLike[str]

#: The size in bytes of a block of texts in memory. A document that may not be cut can make it larger.
BLOCK_BYTES = 1 << 22

#: Called as find_split(text, offset): the first safe split point at or after the offset, or the length of the text.
SplitFinder = Callable[[Bytes, int], int]


@dataclass(frozen=True)
class Position:
    """Where reading of `Sources` can go on.

    Attributes:
        file_index: the index of the file among `Sources.files`.
        offset: of text, JSON Lines and CSV: a position in the decompressed text, where a document or record begins, in
            bytes; of Parquet and Arrow: the index of a row group or record batch.
        documents_to_skip: how many documents after that are left out.

    """

    file_index: int
    offset: int
    documents_to_skip: int = 0


@dataclass(frozen=True)
class Block:
    """A part of a corpus: documents, or a part of a document that ends at safe split points.

    Attributes:
        text: the bytes.
        starts, ends: int64: the documents in `text`, before `separators` divide them further.
        source: the name of the file or text, for errors.
        offset: the position of `text` in its source.
        separators: the strings that documents end at.
        keep_separator: whether a separator belongs to the document before it.
        disk_bytes: the bytes of the file on disk that were read for this block.
        begins_document: whether the block starts with a new document rather than the rest of one.
        ends_document: whether the last document ends with the block.
        must_be_utf8: whether `check` is to refuse a text that is not UTF-8.
        buffers: the pool that the memory of `text` is returned to; None if it is of no pool.
        file_index: the index of the file in `Sources`.
        resume_offset, documents_to_skip: the offset and the documents of `resume_position`; set by `Sources` only.
        n_bad_records: how many bad records of `Sources` had been left out when reading came to `resume_offset`.
        first_row: the number of the row of the first document in Parquet and Arrow, if `text` is to be checked.

    """

    text: Bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    source: str
    offset: int
    separators: Sequence[bytes] = ()
    keep_separator: bool = False
    disk_bytes: int = 0
    begins_document: bool = True
    ends_document: bool = True
    must_be_utf8: bool = False
    buffers: BufferPool | None = None
    file_index: int = 0
    resume_offset: int = 0
    documents_to_skip: int = 0
    n_bad_records: int = 0
    first_row: int | None = None

    @property
    def resume_position(self) -> Position:
        """The position where this block begins; there is none where it continues a document."""
        return Position(self.file_index, self.resume_offset, self.documents_to_skip)

    def find_documents(self, keep_empty: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the starts and ends of the documents in `text`: two int64 arrays; empty ones only with `keep_empty`."""
        if not self.separators:
            return self.starts, self.ends
        return split_spans(self.text, self.starts, self.ends, self.separators, self.keep_separator, keep_empty)

    def check(self) -> None:
        """Raise FormatError, with the position in the file, for text that must be UTF-8 and is not."""
        if not self.must_be_utf8:
            return
        assert isinstance(self.text, memoryview)
        if self.first_row is None:
            from bpe.corpus.reading import check_file_text

            check_file_text(self.text, self.source, self.offset)
            return
        invalid = find_invalid_document(self.text, self.starts, self.ends)
        if invalid is not None:
            index, reason = invalid
            raise FormatError(
                f'the text is not UTF-8 ({reason}); convert it, or pass encoding_errors="replace" to read each bad '
                'byte as U+FFFD, encoding_errors="bytes" to let a byte model encode the bytes unchanged, or '
                'on_error="skip" to leave out such rows',
                path=self.source,
                where=f"row {self.first_row + index}",
            )

    def release(self) -> None:
        """Return the memory of a block of a pool for reuse. `text` must not be used afterwards."""
        if self.buffers is not None:
            assert isinstance(self.text, memoryview)
            self.buffers.give_back(self.text)


def make_text_blocks(
    texts: Iterable[TextLike],
    find_split: SplitFinder | None,
    *,
    requires_utf8: bool = False,
    threads: int = 1,
    max_size: int = BLOCK_BYTES,
) -> Generator[Block, None, None]:
    """Yield texts, each a document, in blocks for `threads` threads.

    With `requires_utf8`, bytes that are not UTF-8 are an error. A block ends after `max_size` bytes, or BLOCK_BYTES if
    that is less, unless a text is longer.

    Raises:
        TypeError: for a single text instead of several, or an item that is neither str nor bytes.

    """
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(
            f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{short_repr(texts, 20)}]"
        )
    check_iterable("texts", texts, "an iterable of str or bytes")
    waiting: list[str | bytes] = []
    max_size = min(max_size, BLOCK_BYTES)  # BLOCK_BYTES is less in tests
    waiting_size = 0
    for index, text in enumerate(texts):
        data: str | bytes
        if isinstance(text, str) and (find_split is None or 4 * len(text) <= 2 * BLOCK_BYTES):
            data, data_size = text, len(text) * (1 if text.isascii() else 2)  # of UTF-8, about
        else:
            data = _encode_text(text, f"text {index}", requires_utf8)
            data_size = len(data)
        if find_split is not None and isinstance(data, bytes) and data_size > 2 * BLOCK_BYTES:
            yield from _join_texts(waiting)
            waiting, waiting_size = [], 0
            view = memoryview(data)
            for start, end in divide_text(view, find_split, threads):
                yield make_one_document_block(view[start:end], f"text {index}", start)
            continue
        waiting.append(data)
        waiting_size += data_size
        if waiting_size >= max_size:
            yield from _join_texts(waiting)
            waiting, waiting_size = [], 0
    yield from _join_texts(waiting)


def group_texts(texts: Iterable[TextLike], max_size: int) -> Generator[list[str | bytes], None, None]:
    """Group texts in lists of `max_size` characters or bytes, or some more.

    Raises:
        TypeError: for an item that is neither str nor bytes.

    """
    group: list[str | bytes] = []
    size, max_size = 0, min(max_size, BLOCK_BYTES)  # BLOCK_BYTES is less in tests
    for index, text in enumerate(texts):
        group.append(text if isinstance(text, (str, bytes)) else _encode_text(text, f"text {index}", False))
        size += len(text)
        if size >= max_size:
            yield group
            group, size = [], 0
    if group:
        yield group


def _encode_text(text: TextLike, name: str, requires_utf8: bool) -> bytes:
    """Encode a text as bytes; with `requires_utf8`, bytes that are not UTF-8 are an error."""
    try:
        data = to_bytes(text)
    except TypeError:
        raise make_type_error(text, name) from None
    if requires_utf8 and not isinstance(text, str):
        check_utf8(data, name)
    return data


def find_invalid_document(
    text: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[int, str] | None:
    """Find the first document `text[starts[i]:ends[i]]` that is not UTF-8, and the reason; None if all are.

    A text that is UTF-8 as a whole is searched for documents that begin or end within a character, so the cost is that
    of one check of the text, and linear in the documents.
    """
    if find_utf8_error(text) is None:
        data, non_empty = np.frombuffer(text, dtype=np.uint8), starts < ends
        bounds = np.concatenate((starts[non_empty], ends[non_empty]))
        if not ((data[bounds[bounds < len(data)]] & 0xC0) == 0x80).any():
            return None
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        error = find_utf8_error(text[start:end])
        if error is not None:
            return index, f"byte 0x{text[start + error[0]]:02x} at offset {error[0]}: {error[1]}"
    return None


# Splitting at separators and special tokens ---------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _make_finder(strings: tuple[bytes, ...]) -> Finder:
    """Make a finder of distinct strings, which is kept: all blocks of a corpus have the same strings."""
    return Finder(list(strings))


def split_spans(
    text: Bytes,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    strings: Iterable[bytes],
    keep: bool = False,
    keep_empty: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split spans of a text at every occurrence of some strings, from left to right; the longest string wins.

    Args:
        text: the text.
        starts: where the spans to split start: span i is `text[starts[i]:ends[i]]`.
        ends: where they end.
        strings: non-empty bytes to split at.
        keep: each string ends the span before it, instead of being dropped.
        keep_empty: return empty spans too, as `bytes.split` does; with `keep` there are none.

    Returns:
        (starts, ends) of the spans between the strings, two int64 arrays.

    Raises:
        ValueError: for an empty string, or a span that is not within the text.

    Example:
        >>> split_spans(b"ab;c", np.array([0]), np.array([4]), [b";"])
        (array([0, 3]), array([2, 4]))

    """
    distinct = tuple(dict.fromkeys(strings))
    if b"" in distinct:
        raise ValueError("a string to split at is empty; it must have at least one byte")
    matches, counts = _make_finder(distinct).find_in(text, starts, ends)
    span_starts = np.insert(matches[:, 1], np.append(np.int64(0), counts[:-1])[: len(starts)], starts)
    span_ends = np.insert(matches[:, 1 if keep else 0], counts, ends)
    if keep or not keep_empty:
        non_empty = span_starts < span_ends
        span_starts, span_ends = span_starts[non_empty], span_ends[non_empty]
    return span_starts, span_ends


def find_last_string(text: Buffer, start: int, end: int, string: bytes) -> int:
    """Find the last position of a string in `text[start:end]`; -1 if there is none.

    `bytearray.rfind` reads byte by byte for two bytes or more, and holds the GIL.
    """
    return _make_finder((string,)).find_last(text, start, end)


# Where blocks may end -------------------------------------------------------------------------------------------------


def make_document_end_finder(separators: list[bytes], keep_separator: bool) -> BlockEndFinder | None:
    """Make a function that ends a block at the last separator, which keeps documents whole; None without separators."""
    if not separators:
        return None
    separator = separators[0]

    def find_block_end(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        start = max(low - len(separator) + 1, 0)
        position = find_last_string(buffer, start, end, separator)
        rest_start = position + len(separator)
        if position < 0:
            return None
        return (rest_start, rest_start) if keep_separator else (position, rest_start)

    def find_block_end_in_order(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        del low  # occurrences that overlap count from the left, so the search starts at the beginning
        bounds = np.array([0, end], dtype=np.int64)
        with memoryview(buffer) as view:
            starts, ends = split_spans(view, bounds[:1], bounds[1:], separators, keep_separator, True)
        return (int(ends[-2]), int(starts[-1])) if len(starts) > 1 else None

    return find_block_end_in_order if can_overlap_itself(separator) else find_block_end


def make_safe_end_finder(find_last: Callable[[memoryview, int], int], strings: list[bytes]) -> BlockEndFinder:
    """Make a function that ends a block at a safe split point that is in none of the strings.

    Args:
        find_last: called as find_last(text, low): the last position greater than `low` where the text may be cut
            whatever follows it, or `low`.
        strings: separators and special tokens.

    """
    finder = Finder(list(dict.fromkeys(strings)))
    max_length = max(finder.longest, 1)

    def find_block_end(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        # The text may end within a string or a character.
        limit = end - max_length + 1
        low = max(low - max_length - 3, 0)
        with memoryview(buffer) as view, view[:end] as text:
            while limit > low:
                with text[:limit] as part:
                    limit = find_last(part, low)
                if limit <= low:
                    break
                if not finder.crosses(text, limit):
                    return limit, limit
        return None

    return find_block_end


def find_next_line(text: Bytes, offset: int) -> int:
    """Find the first start of a line at or after an offset greater than 0, or else the text's length."""
    match = re.compile(b"\n").search(text, offset - 1)  # also searches a memoryview
    return len(text) if match is None else match.end()


def find_last_line(text: memoryview, low: int) -> int:
    """Find the last start of a line after `low`, or at the end of the text; `low` if there is none."""
    return max(find_last_string(text, low, len(text), b"\n") + 1, low)


def parse_separators(separator: str | None, per_line: bool) -> list[bytes]:
    """Return the strings that documents end at, from the arguments `separator` and `per_line`.

    Raises:
        TypeError, ValueError: for invalid values, or both arguments at once.

    """
    if separator is not None and not isinstance(separator, str):
        raise TypeError(f"separator is {describe(separator)}; it must be a str or None")
    if separator == "":
        raise ValueError("separator is ''; it must be at least one character, or None for one document per file")
    if check_bool("per_line", per_line) and separator is not None:
        raise ValueError(f"separator is {separator!r} and per_line is True; give at most one of them")
    if per_line:
        return [b"\n"]
    return [] if separator is None else [check_unicode("separator", separator)]


def can_overlap_itself(separator: bytes) -> bool:
    """Whether two occurrences can overlap, so that the matches depend on where the search begins."""
    return any(separator.startswith(separator[k:]) for k in range(1, len(separator)))


def make_one_document_block(text: Bytes, source: str, offset: int) -> Block:
    """Make a block with one document: a text, or a part of one."""
    bounds = np.array([0, len(text)], dtype=np.int64)
    return Block(text, bounds[:1], bounds[1:], source, offset)


def _join_texts(texts: list[str | bytes]) -> Iterator[Block]:
    """Yield a block with several small texts, or none."""
    if texts:
        data, offsets = join_utf8(texts)
        yield Block(data.data, offsets[:-1], offsets[1:], source="", offset=0)


def divide_text(text: Bytes, find_split: SplitFinder, threads: int) -> Iterator[tuple[int, int]]:
    """Yield the parts (start, end) of a long text, of about BLOCK_BYTES each.

    With several threads the parts get smaller towards the end, down to an eighth of BLOCK_BYTES, so that no thread
    waits long for another.
    """
    min_size = BLOCK_BYTES if threads == 1 else max(BLOCK_BYTES // 16, 1)
    start = 0
    while start < len(text):
        bytes_left = len(text) - start
        size = max(min(BLOCK_BYTES, bytes_left // (2 * threads)), min_size)
        end = len(text) if bytes_left <= 2 * min_size else find_split(text, start + size)
        yield start, end
        start = end
