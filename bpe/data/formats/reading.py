"""An open shard: memory-mapped ids, and where its documents begin. Every header, count and offset is checked first.

Files may be damaged or hostile. Counts from a header are compared with the file's size before they are used, and
offsets are checked in pieces, without loading them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpe.data.formats._mapping import FileMapping
from bpe.data.formats.files import Spool
from bpe.errors import FormatError, check_int

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Numbers are checked in pieces of this many.
NUMBERS_AT_ONCE = 1 << 17


class DocumentBounds(ABC):
    """Where the documents of one shard begin and end in its ids.

    Attributes:
        n_documents: the number of documents.
        n_tokens: the number of ids.

    """

    def __init__(self, n_documents: int, n_tokens: int) -> None:
        self.n_documents, self.n_tokens = n_documents, n_tokens

    def read_bounds(self, first: int, last: int) -> NDArray[np.int64]:
        """Read the starts of documents `first` to `last`, both included; `last` may be `n_documents`, which is the end.

        Raises:
            FormatError: if they do not rise within the shard, because the file has changed since it was checked.

        """
        if not 0 <= first <= last <= self.n_documents:
            raise IndexError(f"documents {first} to {last} are out of range; the shard has {self.n_documents}")
        bounds = self._read_bounds(first, last)
        if bounds[0] < 0 or bounds[-1] > self.n_tokens or (bounds[1:] < bounds[:-1]).any():
            raise FormatError(f"documents {first} to {last} do not lie within the shard's {self.n_tokens} tokens")
        return bounds

    def read_span(self, index: int) -> tuple[int, int]:
        """Read the start and the end of a document; see `read_bounds`."""
        start, end = self.read_bounds(index, index + 1).tolist()
        return start, end

    @abstractmethod
    def _read_bounds(self, first: int, last: int) -> NDArray[np.int64]: ...

    @abstractmethod
    def find_documents(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the documents that hold the ids at positions, 0 <= position < tokens: int64."""

    @abstractmethod
    def find_starts(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find where documents start, 0 <= document < count: int64. Callers check them: the file may have changed."""


class DocumentOffsets(DocumentBounds):
    """Documents by their starts and the end of the last one: n + 1 numbers, from 0 to the number of ids."""

    def __init__(self, offsets: NDArray[Any]) -> None:
        super().__init__(len(offsets) - 1, int(offsets[-1]))
        self._offsets = offsets

    def _read_bounds(self, first: int, last: int) -> NDArray[np.int64]:
        return np.array(self._offsets[first : last + 1], dtype=np.int64)

    def read_span(self, index: int) -> tuple[int, int]:
        """Read the start and the end of a document; see `read_bounds`."""
        start, end = self._offsets[index : index + 2].tolist()
        if not 0 <= start <= end <= self.n_tokens:
            raise FormatError(f"document {index} does not lie within the shard's {self.n_tokens} tokens")
        return start, end

    def find_documents(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the documents that hold the ids at positions."""
        return self._offsets.searchsorted(positions, side="right") - 1

    def find_starts(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find where documents start."""
        return self._offsets[documents].astype(np.int64, copy=False)


class DocumentEnds(DocumentBounds):
    """Documents by their ends: n numbers, the last of which is the number of ids."""

    def __init__(self, ends: NDArray[Any], n_tokens: int) -> None:
        super().__init__(len(ends), n_tokens)
        self._ends = ends

    def _read_bounds(self, first: int, last: int) -> NDArray[np.int64]:
        bounds = np.zeros(last - first + 1, dtype=np.int64)
        bounds[0 if first else 1 :] = self._ends[max(first - 1, 0) : last]
        return bounds

    def find_documents(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the documents that hold the ids at positions."""
        return self._ends.searchsorted(positions.astype(self._ends.dtype), side="right").astype(np.int64)

    def find_starts(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find where documents start."""
        return np.where(documents > 0, self._ends[documents - 1], self._ends.dtype.type(0)).astype(np.int64)


class Shard:
    """One shard, open for reading.

    Attributes:
        path: its main file.
        name: the name of that file.
        ids: 1-D array, memory-mapped; None for Parquet and Arrow shards, which only `batches` reads.
        n_tokens: the number of ids.
        bounds: where documents begin and end. In a format that does not record them, the shard is one document
            unless `end_of_text` was given.
        has_boundaries: whether the boundaries of documents are known.
        mask: the loss mask, uint8 like `ids`, or None.
        files: all files of the shard, the main one first.

    """

    def __init__(
        self,
        path: Path,
        ids: NDArray[Any] | None,
        bounds: DocumentBounds,
        *,
        has_boundaries: bool = True,
        mask: NDArray[np.uint8] | None = None,
        files: tuple[Path, ...] = (),
    ) -> None:
        self.path, self.name, self.ids, self.bounds = path, path.name, ids, bounds
        self.has_boundaries, self.mask = has_boundaries, mask
        self.files = files or (path,)

    def __repr__(self) -> str:
        return f"Shard({self.name!r}, {self.n_documents} documents, {self.n_tokens} tokens)"

    @property
    def n_tokens(self) -> int:
        """The number of ids."""
        return self.bounds.n_tokens

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return self.bounds.n_documents

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the ids."""
        assert self.ids is not None
        return self.ids.dtype

    @property
    def has_masks(self) -> bool:
        """Whether the shard has a loss mask."""
        return self.mask is not None

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The starts of all documents and the end of the last: int64, n + 1 long, in memory."""
        return self.bounds.read_bounds(0, self.n_documents)

    def batches(self, max_tokens: int = 1 << 22) -> Iterator[DocumentBatch]:
        """Yield the documents in order, in batches of at most `max_tokens` ids, as `ShardWriter.write` takes them.

        A batch has at most `max_tokens` documents, too. Longer documents are divided.
        """
        check_int("max_tokens", max_tokens, 1)
        assert self.ids is not None
        first = position = 0  # the first document that is not complete, and the next id
        while first < self.n_documents:
            document_starts = self.bounds.read_bounds(
                first, min(first + min(max_tokens, NUMBERS_AT_ONCE), self.n_documents)
            )
            begins_document = position == int(document_starts[0])
            n_fitting = int(np.searchsorted(document_starts[1:], position + max_tokens, side="right"))
            ends_document = n_fitting > 0
            stop = int(document_starts[n_fitting]) if ends_document else position + max_tokens
            inner = document_starts[1:n_fitting] if ends_document else document_starts[:0]
            lengths = np.diff(inner, prepend=position, append=stop)
            mask = None if self.mask is None else self.mask[position:stop]
            yield DocumentBatch(self.ids[position:stop], lengths, begins_document, ends_document, mask)
            first, position = first + n_fitting, stop


def have_masks(shards: Iterable[Shard], path: Path) -> bool:
    """Check whether shards have loss masks; FormatError, which names their folder, if only some have."""
    values = {shard.has_masks for shard in shards}
    if len(values) > 1:
        raise FormatError("some of its shards have loss masks and some have none", path=path)
    return True in values


class DocumentBatch(NamedTuple):
    """Consecutive documents: their ids, the number of ids of each, and their loss mask.

    With `begins_document` False the first continues a document of the batch before; with `ends_document` False the last
    one continues in the next batch.
    """

    ids: NDArray[Any]
    lengths: NDArray[np.int64]
    begins_document: bool
    ends_document: bool
    mask: NDArray[np.uint8] | None


# Checked access to files ----------------------------------------------------------------------------------------------


def find_size(path: Path) -> int:
    """Find the size of a regular file in bytes; FormatError if it is missing."""
    if not path.is_file():
        raise FormatError("the file is missing; a shard needs all of its files", path=path)
    return path.stat().st_size


def map_numbers(path: Path, dtype: Any, start: int, count: int) -> NDArray[Any]:
    """Map `count` numbers from byte `start` of a file into memory, read-only; the file must hold them.

    If `start` is no address of such numbers, as after a header of odd length, they are read instead.
    """
    dtype = np.dtype(dtype)
    size = find_size(path)
    if count < 0 or start + count * dtype.itemsize > size:
        needed = start + count * dtype.itemsize
        raise FormatError(f"its header needs {needed} bytes, but the file has {size}; it may be truncated", path=path)
    if not count:
        return np.empty(0, dtype=dtype)
    if start % dtype.alignment:
        numbers = np.fromfile(str(path), dtype, count, offset=start)  # a Path is Python code, in which Ctrl-C is lost
        numbers.flags.writeable = False
        return numbers
    with open(path, "rb") as file:
        return np.frombuffer(FileMapping(file.fileno(), start, count * dtype.itemsize).view(), dtype=dtype)


def read_numbers(path: Path, dtype: Any, start: int, count: int) -> Iterator[NDArray[Any]]:
    """Read `count` numbers from byte `start` of a file, in pieces that do not stay in memory."""
    with open(path, "rb") as file:
        file.seek(start)
        while count:
            piece = np.fromfile(file, dtype=dtype, count=min(count, NUMBERS_AT_ONCE))
            if not len(piece):
                raise FormatError("it got shorter while it was read", path=path)
            yield piece
            count -= len(piece)


def check_ascending(
    path: Path, dtype: Any, start: int, count: int, max_offset: int, *, first: int | None = None
) -> None:
    """Check that numbers in a file never fall, begin with `first` if that is given, and end with `max_offset`.

    Raises:
        FormatError: naming the number that breaks the rule.

    """
    last_offset, index = 0, 0
    for piece in read_numbers(path, dtype, start, count):
        if index == 0 and first is not None and piece[0] != first:
            raise FormatError(f"its first offset is {piece[0]}; it must be {first}", path=path)
        previous = np.empty_like(piece)
        previous[0], previous[1:] = last_offset, piece[:-1]
        wrong_indices = np.flatnonzero((piece > max_offset) | (piece < previous))
        if len(wrong_indices):
            wrong_index = int(wrong_indices[0])
            raise FormatError(
                f"offset {index + wrong_index} is {piece[wrong_index]}; offsets must never fall and be at most "
                f"{max_offset}, the tokens",
                path=path,
            )
        last_offset = int(piece[-1])
        index += len(piece)
    if last_offset != max_offset:
        raise FormatError(f"its last offset is {last_offset}; it must be {max_offset}, the number of tokens", path=path)


def find_dtype(path: Path, size: int, n_tokens: int, declared: str | None = None) -> np.dtype[Any]:
    """Find the dtype of ids that a format does not record, uint16 or uint32, from the file's size and their number.

    `declared` is the dtype that another file gives; it must agree.
    """
    for name in ("<u2", "<u4") if declared is None else (declared,):
        if size == n_tokens * np.dtype(name).itemsize:
            return np.dtype(name)
    widths = (2, 4) if declared is None else (np.dtype(declared).itemsize,)
    rule = " or ".join(str(n_tokens * width) for width in widths)
    raise FormatError(f"it has {size} bytes; {n_tokens} ids take {rule}", path=path)


def bound_one_document(n_tokens: int) -> DocumentOffsets:
    """Make the bounds of a shard that does not record its documents: all of it is one, or none if it is empty."""
    return DocumentOffsets(np.array([0, n_tokens] if n_tokens else [0], dtype=np.int64))


def split_by_token(shard: Shard, end_of_text: int, *, is_before: bool) -> Shard:
    """Divide a shard at its end-of-text ids, which each document ends with, or, if `is_before` is set, begins with.

    Ids after the last end-of-text id (before the first one) are a document, too. The offsets are kept in a temporary
    file, so that memory is bounded.
    """
    check_int("end_of_text", end_of_text, 0, 0xFFFFFFFF)
    ids, last_bound = shard.ids, 0
    assert ids is not None
    with Spool(None, "<i8") as spool:
        spool.append(np.zeros(1, dtype=np.int64))
        for start in range(0, len(ids), 1 << 20):
            document_bounds = np.flatnonzero(ids[start : start + (1 << 20)] == end_of_text) + (start + (not is_before))
            document_bounds = document_bounds[document_bounds > 0]
            if len(document_bounds):
                spool.append(document_bounds)
                last_bound = int(document_bounds[-1])
        if last_bound < len(ids):
            spool.append(np.array([len(ids)], dtype=np.int64))
        return Shard(shard.path, ids, DocumentOffsets(spool.map_numbers()))
