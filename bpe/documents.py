"""Texts that lie one after the other in a buffer: the documents of a mapped file, the rows of an Arrow array.

They are passed on as a buffer and two arrays of offsets, so that no Python object is made for each of them. Documents
that have not been found yet are passed on as a buffer and their separator. Not here: encoding (`bpe/encoding.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe._core.documents import split
from bpe.corpus import (
    BLOCK,
    Block,
    Cut,
    PathLike,
    listed_files,
    map_file,
    overlaps,
    ranges,
    separators_of,
    whole_block,
)
from bpe.errors import FormatError
from bpe.text import check_utf8


@dataclass(frozen=True)
class Documents:
    """Texts in one buffer: text i is `data[starts[i]:ends[i]]`.

    Attributes:
        data: the bytes.
        starts: int64, shape (n,).
        ends: int64, shape (n,).
        source: where they come from, for errors.

    """

    data: memoryview
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    source: str

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self.starts)

    @property
    def n_bytes(self) -> int:
        """How many bytes the texts have together."""
        return int((self.ends - self.starts).sum())

    def groups(self, size: int) -> Iterator[Documents]:
        """The texts in order, in groups of about `size` bytes; a longer one is a group by itself, or the end of one."""
        behind = np.cumsum(self.ends - self.starts)
        first = 0
        while first < len(self):
            before = behind[first - 1] if first else 0
            last = int(np.searchsorted(behind, before + size, side="left")) + 1
            yield Documents(self.data, self.starts[first:last], self.ends[first:last], self.source)
            first = last

    def texts(self) -> list[bytes]:
        """The texts as bytes objects."""
        whole = self.data
        return [bytes(whole[a:b]) for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]


@contextmanager
def blamed(source: str) -> Iterator[None]:
    """Name the source in errors about what texts hold."""
    try:
        yield
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(str(error), path=source) from None


# Files ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileText:
    """A file's text, in which the documents have not been found.

    Attributes:
        data: the bytes.
        separator: what is between two documents; b"" where all is one.
        keep: it belongs to the document before it.
        source: the file, for errors.

    """

    data: memoryview
    separator: bytes
    keep: bool
    source: str

    def documents(self) -> Documents:
        """Find the documents."""
        starts, ends = np.zeros(1, dtype=np.int64), np.array([len(self.data)], dtype=np.int64)
        if self.separator:
            starts, ends = split(self.data, starts, ends, [self.separator], self.keep, True)
        return Documents(self.data, starts, ends, self.source)

    def groups(self, size: int) -> Iterator[Documents | FileText]:
        """The same documents in order, in groups as those of `Documents`."""
        if overlaps(self.separator):
            yield from self.documents().groups(size)
            return
        whole: Any = self.data.obj  # bytes or a map, which a memoryview cannot search
        end, start = len(self.data), 0
        while True:
            found = whole.find(self.separator, start + size) if self.separator else -1
            behind = found + len(self.separator) if found >= 0 else end
            yield replace(self, data=self.data[start : behind if self.keep or found < 0 else found])
            if found < 0 or (self.keep and behind == end):  # nothing is behind the last that belongs to a document
                return
            start = behind

    def n_bytes_of(self, count: int) -> int:
        """How many bytes the documents have together, which are so many."""
        return len(self.data) - (0 if self.keep else (count - 1) * len(self.separator))

    def texts(self) -> list[bytes]:
        """The documents as bytes objects."""
        return self.documents().texts()


def file_texts(files: PathLike | Iterable[PathLike], separator: str | None, per_line: bool) -> Iterator[FileText]:
    """The text of each file, which is mapped into memory, not read.

    Every file is opened once before the first is handed on.
    """
    separators = separators_of(separator, per_line)
    paths = listed_files(files)
    for path in paths:
        yield FileText(map_file(path), b"".join(separators), per_line, os.fspath(path))


def joined_documents(texts: list[bytes], source: str) -> Documents:
    """Texts of their own as texts in one buffer."""
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    return Documents(memoryview(b"".join(texts)), bounds[:-1], bounds[1:], source)


# Arrow ----------------------------------------------------------------------------------------------------------------


def arrow_documents(array: Any) -> list[Documents] | None:
    """The rows of an Arrow array of strings, read from its buffers; None for what is no Arrow array.

    pyarrow is not imported: an array is known by what it can do. A null is an empty text.

    Raises:
        TypeError: for an Arrow array of another type.
        ValueError: for one whose offsets are wrong.

    """
    chunks = getattr(array, "chunks", None)
    if chunks is not None and hasattr(array, "num_chunks"):
        parts = [arrow_documents(chunk) for chunk in chunks]
        return [document for part in parts if part is not None for document in part]
    if not (hasattr(array, "buffers") and hasattr(array, "type") and hasattr(array, "offset")):
        return None
    name = str(array.type)
    widths = {"string": np.int32, "binary": np.int32, "large_string": np.int64, "large_binary": np.int64}
    if name not in widths:
        raise TypeError(
            f"texts is an Arrow array of {name}; it must be of {', '.join(widths)}: array.cast('large_string')"
        )
    valid, offsets, data = array.buffers()
    n, first = len(array), array.offset
    if n == 0:
        return []
    bounds = np.frombuffer(offsets, dtype=widths[name])[first : first + n + 1].astype(np.int64)
    size = 0 if data is None else data.size
    if len(bounds) != n + 1 or bounds[0] < 0 or bounds[-1] > size or (bounds[1:] < bounds[:-1]).any():
        raise ValueError(
            f"texts is an Arrow array of {n} rows whose offsets are wrong: they must rise within its {size} bytes; "
            "array.validate(full=True) says where"
        )
    starts, ends = bounds[:-1], bounds[1:]
    if valid is not None:
        bits = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")[first : first + n]
        ends = np.where(bits == 1, ends, starts)
    return [Documents(memoryview(b"" if data is None else data).cast("B"), starts, ends, "an Arrow array")]


def row_blocks(parts: Iterable[Documents], cut: Cut | None, *, utf8: bool, threads: int) -> Iterator[Block]:
    """The rows of an Arrow array in blocks as those that `text_blocks` in `bpe/corpus.py` makes of other texts."""
    done = 0
    for part in parts:
        for group in part.groups(BLOCK):
            if utf8:
                for number, text in enumerate(group.texts(), start=done):
                    check_utf8(text, f"text {number}")
            done += len(group)
            start, end = int(group.starts[-1]), int(group.ends[-1])
            long = cut is not None and end - start > 2 * BLOCK  # which only the last one of a group can be
            starts, ends = (group.starts[:-1], group.ends[:-1]) if long else (group.starts, group.ends)
            if len(starts):
                first = int(starts[0])
                held = part.data[first : int(ends[-1])]
                yield Block(held, starts - first, ends - first, [], False, part.source, first)
            if cut is not None and long:
                held = part.data[start:end]
                for first, last in ranges(held, cut, threads):
                    yield whole_block(held[first:last], f"text {done - 1}", first)
