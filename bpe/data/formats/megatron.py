"""Megatron-LM's indexed datasets: ids in X.bin, an index in X.idx.

`.bin` has the ids and nothing else: uint16 or int32, and of other writers uint8 or int64. `.idx`, all little-endian:
`MMIDIDX` and two zero bytes, uint64 version 1, uint8 dtype code, uint64 number of sequences n, uint64 number of
document indices m + 1, then int32 lengths (n), int64 byte pointers into .bin (n), and int64 document indices (m + 1):
document i consists of the sequences from index i to index i + 1. A multimodal dataset has an int8 mode of each sequence
after that, and is refused. The writer makes each document one sequence. While it writes, only the lengths are kept, in
a temporary file; the pointers and indices follow from them.

Source: `megatron/core/datasets/indexed_dataset.py` of Megatron-LM.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.offsets import compute_offsets
from bpe.data.formats.reading import DocumentBounds, Shard, check_ascending, find_size, map_numbers, read_numbers
from bpe.data.formats.shard_format import ShardWriter
from bpe.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
#: The dtype codes of ids that this module reads.
_ID_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    4: np.dtype("<i4"),
    5: np.dtype("<i8"),
    8: np.dtype("<u2"),
}
#: The other codes, which are of no use for ids.
_UNUSABLE_DTYPES = {2: "int8", 3: "int16", 6: "float64", 7: "float32"}
_LENGTH_DTYPE, _POINTER_DTYPE = np.dtype("<i4"), np.dtype("<i8")
#: The indices of documents are written in pieces of this many.
_PIECE_INDICES = 1 << 16


def open_megatron(path: Path, validate: bool) -> Shard:
    """Open a shard by the path of its ids, or of its index."""
    path, index = path.with_suffix(".bin"), path.with_suffix(".idx")
    dtype, n_sequences, n_indices = _read_header(index)
    size = find_size(path)
    if size % dtype.itemsize:
        raise FormatError(f"it has {size} bytes, which is no whole number of {dtype} ids", path=path)
    n_tokens = size // dtype.itemsize
    lengths_start = _HEADER.size
    pointers_start = lengths_start + n_sequences * _LENGTH_DTYPE.itemsize
    indices_start = pointers_start + n_sequences * _POINTER_DTYPE.itemsize
    if validate:
        _check_sequences(index, lengths_start, pointers_start, n_sequences, dtype.itemsize, size)
        check_ascending(index, _POINTER_DTYPE, indices_start, n_indices, n_sequences, first=0)
    bounds = _SequenceBounds(
        map_numbers(index, _POINTER_DTYPE, pointers_start, n_sequences),
        map_numbers(index, _POINTER_DTYPE, indices_start, n_indices),
        dtype.itemsize,
        n_tokens,
    )
    return Shard(path, map_numbers(path, dtype, 0, n_tokens), bounds, files=(path, index))


def _read_header(index: Path) -> tuple[np.dtype[Any], int, int]:
    """Read (dtype, number of sequences, number of document indices) of an index, and check its size."""
    size = find_size(index)
    with open(index, "rb") as file:
        data = file.read(_HEADER.size)
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        raise FormatError(f"it does not begin with a Megatron index's {_HEADER.size} bytes", path=index)
    _, version, code, n_sequences, n_indices = _HEADER.unpack(data)
    if version != 1:
        raise FormatError(f"its version is {version}; it must be 1", path=index, where="offset 9")
    if code not in _ID_DTYPES:
        rule = "token ids are 1 (uint8), 4 (int32), 5 (int64) or 8 (uint16): write the dataset again with one of these"
        raise FormatError(
            f"its dtype code is {code} ({_UNUSABLE_DTYPES.get(code, 'unknown')}); {rule}", path=index, where="offset 17"
        )
    expected = (
        _HEADER.size
        + n_sequences * (_LENGTH_DTYPE.itemsize + _POINTER_DTYPE.itemsize)
        + n_indices * _POINTER_DTYPE.itemsize
    )
    if size == expected + n_sequences > expected:
        raise FormatError(
            f"it has the modes of its {n_sequences} sequences, as a multimodal dataset has, which no format here "
            "holds; write the text without modes (multimodal=False)",
            path=index,
        )
    if expected != size or not n_indices:
        counts = f"{n_sequences} sequences and {n_indices} document indices"
        raise FormatError(f"its header declares {counts}, {expected} bytes; the file has {size}", path=index)
    return _ID_DTYPES[code], n_sequences, n_indices


def _check_sequences(
    index_path: Path, lengths_start: int, pointers_start: int, count: int, width: int, size: int
) -> None:
    """Check that sequences follow each other without gaps and end with the ids' file."""
    expected, first_sequence = 0, 0
    lengths = read_numbers(index_path, _LENGTH_DTYPE, lengths_start, count)
    for pointers in read_numbers(index_path, _POINTER_DTYPE, pointers_start, count):
        sizes = next(lengths).astype(np.int64) * width
        starts = expected + compute_offsets(sizes)
        wrong_sequences = np.flatnonzero((pointers != starts[:-1]) | (sizes < 0))
        if len(wrong_sequences):
            i = int(wrong_sequences[0])
            raise FormatError(
                f"sequence {first_sequence + i} has length {sizes[i] // width} and pointer {pointers[i]}; sequences "
                f"must follow each other, this one at {starts[i]}",
                path=index_path,
            )
        expected, first_sequence = int(starts[-1]), first_sequence + len(pointers)
    if expected != size:
        raise FormatError(f"its sequences have {expected} bytes; the file of ids has {size}", path=index_path)


class _SequenceBounds(DocumentBounds):
    """Documents of one sequence or several, by byte pointers."""

    def __init__(self, pointers: NDArray[Any], indices: NDArray[Any], width: int, n_tokens: int) -> None:
        super().__init__(len(indices) - 1, n_tokens)
        self._pointers, self._indices, self._width = pointers, indices, width

    def _read_bounds(self, first: int, last: int) -> NDArray[np.int64]:
        sequences = self._indices[first : last + 1]
        if sequences.min() < 0 or sequences.max() > len(self._pointers):
            raise FormatError(f"documents {first} to {last} do not lie within the shard's sequences")
        bounds = np.full(len(sequences), self.n_tokens, dtype=np.int64)
        is_inside = sequences < len(self._pointers)
        bounds[is_inside] = self._pointers[sequences[is_inside]] // self._width
        return bounds

    def find_documents(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the documents that hold the ids at positions."""
        sequences = self._pointers.searchsorted(positions * self._width, side="right") - 1
        return self._indices.searchsorted(sequences, side="right") - 1

    def find_starts(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find where documents start."""
        if not len(self._pointers):  # documents without ids
            return np.zeros(len(documents), dtype=np.int64)
        sequences = self._indices[documents]
        is_inside = (sequences >= 0) & (sequences < len(self._pointers))
        return np.where(is_inside, self._pointers[np.where(is_inside, sequences, 0)] // self._width, self.n_tokens)


class MegatronWriter(ShardWriter):
    """Writes a shard: the ids at once, the index at the end."""

    max_document = (1 << 31) - 1

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lengths = self._start_spool("<i4")

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        self._lengths.append(np.diff(ends, prepend=self._last_end))

    def _make_headers(self) -> list[bytes]:
        index, count = self._files[1], self.n_documents
        code = next(code for code, dtype in _ID_DTYPES.items() if dtype == self._dtype)
        index.write(_HEADER.pack(_MAGIC, 1, code, count, count + 1))
        for lengths in self._lengths.read_pieces():
            index.write_array(lengths, _LENGTH_DTYPE)
        position = 0
        for lengths in self._lengths.read_pieces():
            ends = position + np.cumsum(lengths, dtype=np.int64)
            index.write_array((ends - lengths) * self._dtype.itemsize, _POINTER_DTYPE)
            position = int(ends[-1])
        for start in range(0, count + 1, _PIECE_INDICES):
            index.write_array(np.arange(start, min(start + _PIECE_INDICES, count + 1)), _POINTER_DTYPE)
        return [b"", b""]
