"""Texts that lie one after the other in a buffer: the documents of a mapped file, the rows of an Arrow array.

They are handed on as a buffer and two arrays of offsets, so that no object is made for any of them. Not here: encoding
them (`bpe/encoding.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe._core.documents import split
from bpe.corpus import PathLike, listed_files, map_file, separators_of
from bpe.errors import FormatError
from bpe.threads import together

#: Bytes of a file by thread from which on several find its documents; how far they look for a place to begin at.
PARALLEL, WINDOW = 4 << 20, 2 << 20


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

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Name the source in errors about what the texts hold."""
        try:
            yield
        except FormatError:
            raise
        except ValueError as error:
            raise FormatError(str(error), path=self.source) from None

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


# Files ----------------------------------------------------------------------------------------------------------------


def file_documents(
    files: PathLike | Iterable[PathLike], separator: str | None, per_line: bool, threads: int = 1
) -> Iterator[Documents]:
    """The documents of each file, which is mapped into memory, not read.

    Every file is opened once before the first is handed on.
    """
    separators = separators_of(separator, per_line)
    paths = listed_files(files)
    for path in paths:
        data = map_file(path)
        starts, ends = _split(data, separators, per_line, threads)
        yield Documents(data, starts, ends, os.fspath(path))


def joined_documents(texts: list[bytes], source: str) -> Documents:
    """Texts of their own as texts in one buffer."""
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    return Documents(memoryview(b"".join(texts)), bounds[:-1], bounds[1:], source)


def _split(
    data: memoryview, separators: list[bytes], keep: bool, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The documents of a file; those of a large one are found on several threads, and its pages mapped."""
    places = [len(data) * k // threads for k in range(1, threads)]
    if len(separators) != 1 or len(data) < threads * PARALLEL or _overlaps(separators[0]):
        places = []
    starts, ends = [0], []
    for place in places:
        found = bytes(data[place : place + WINDOW]).find(separators[0])
        if found >= 0:
            behind = place + found + len(separators[0])
            ends.append(behind if keep else place + found)
            starts.append(behind)
    ends.append(len(data))
    bounds = np.array([starts, ends], dtype=np.int64)

    todo = list(range(len(starts)))
    parts = [bounds] * len(starts)

    def work() -> None:
        while todo:
            try:
                k = todo.pop()
            except IndexError:  # another thread was faster
                return
            parts[k] = np.array(split(data, bounds[0, k : k + 1], bounds[1, k : k + 1], separators, keep, True))

    together(work, len(starts))
    joined = np.concatenate(parts, axis=1)
    return joined[0], joined[1]


def _overlaps(separator: bytes) -> bool:
    """Whether one may begin within another, so that which ones count depends on where the search begins."""
    return any(separator.startswith(separator[k:]) for k in range(1, len(separator)))


# Arrow ----------------------------------------------------------------------------------------------------------------


def arrow_documents(array: Any) -> list[Documents] | None:
    """The rows of an Arrow array of strings, read from its buffers; None for what is no Arrow array.

    pyarrow is not imported: an array is known by what it can do. A null is an empty text.

    Raises:
        TypeError: for an Arrow array of another type.

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
    starts, ends = bounds[:-1], bounds[1:]
    if valid is not None:
        bits = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")[first : first + n]
        ends = np.where(bits == 1, ends, starts)
    return [Documents(memoryview(b"" if data is None else data).cast("B"), starts, ends, "an Arrow array")]
