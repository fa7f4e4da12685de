"""Shuffling by seed in bounded memory: documents in the order of a 64-bit key, by way of bucket files on disk.

The key of a document is a hash of (seed, part, file, number), where `number` counts the documents of its file. The
output holds all documents in ascending order of their keys; equal keys keep the source order. Shard k of n holds the
keys from k * 2**64 / n to (k + 1) * 2**64 / n. So a hash of (seed, file, document number) picks the shard, and the
order within each shard is random as well:

    keys        0 ........................................ 2**64
    shards      |      0       |      1       |      2       |
    buckets     |  0 |  1 |  2 |  3 |  4 |  5 |  6 |  7 |  8 |

Encoding appends each document to the bucket file of its key. Then each bucket, small enough for memory, is read, sorted
and written. The number of buckets changes nothing in the result. A document larger than memory can hold is not
supported here: every document is encoded as a whole.

Cost: the ids are written twice and read once; the bucket files need as much disk space as the shards.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.data.loaders.order import GOLDEN, mix_words
from bpe.errors import FormatError, add_file_name, name_file_in_errors

#: The folder of the bucket files, in the output folder.
BUCKETS_FOLDER = ".buckets"
#: The size that bucket files are meant to have, in bytes of ids; and the limits of their number.
BUCKET_BYTES = 16 << 20
MIN_BUCKETS, MAX_BUCKETS = 16, 1024
#: The most ids that are sorted in memory at once. A bucket with more is mapped into memory instead of being read.
_MAX_READ_IDS = 32 << 20
#: The number of ids that are passed on at once.
_BATCH_IDS = 4 << 20

#: What is known of each document in a bucket file.
DOCUMENT_DTYPE = np.dtype([("key", "<u8"), ("length", "<i8"), ("validation", "u1")])


def compute_document_keys(
    seed: int, part: tuple[int, int], files: NDArray[np.int64], indices: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Compute the keys of documents, by file and by index within the file, with a chain of SplitMix64 steps.

    Args:
        seed: 0 or more.
        part: the number and the count of parts; (0, 1) for a whole corpus.
        files: int64, one element per document.
        indices: int64, one element per document.

    >>> keys = compute_document_keys(0, (0, 1), np.array([0, 0, 1]), np.array([0, 1, 0]))
    >>> [f"{key:016x}" for key in keys.tolist()]
    ['982c8176b8ae2182', '3e24d37292b9d72c', 'fa16df6cee9c8dae']
    """
    key = _mix_step(np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64))
    for word in (seed >> 64 & 0xFFFFFFFFFFFFFFFF, *part):
        key = _mix_step(key ^ np.array([word], dtype=np.uint64))
    return _mix_step(_mix_step(key ^ files.astype(np.uint64)) ^ indices.astype(np.uint64))


def _mix_step(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Take one step of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words with good avalanche."""
    return mix_words(words + np.uint64(GOLDEN))


def find_buckets(keys: NDArray[np.uint64], n_buckets: int) -> NDArray[np.int64]:
    """Find the bucket of each key: `key * n_buckets >> 64`, for a number below 2**31, in 64-bit arithmetic.

    >>> find_buckets(np.array([0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1], dtype=np.uint64), 10)
    array([0, 4, 5, 9])
    """
    half, factor = np.uint64(32), np.uint64(n_buckets)
    low_product = (keys & np.uint64(0xFFFFFFFF)) * factor >> half
    return ((keys >> half) * factor + low_product >> half).astype(np.int64)


def count_buckets(n_bytes: int, shards: int) -> int:
    """Choose the number of buckets, a multiple of the number of shards, for ids that take about `n_bytes`."""
    n_buckets = min(max(n_bytes // BUCKET_BYTES, MIN_BUCKETS), MAX_BUCKETS)
    return max(1, -(-n_buckets // shards)) * shards


#: Documents in the order of their keys: ids of the output's dtype; int64 lengths of documents, or of the part of one;
#: whether the first document begins here, and the last one ends here; which documents are for validation.
SortedDocuments = tuple[NDArray[Any], NDArray[np.int64], bool, bool, NDArray[np.bool_]]


class Buckets:
    """The bucket files of one output.

    Args:
        out: the output folder.
        n_buckets: their number.
        dtype: the type of the ids.

    """

    def __init__(self, out: Path, n_buckets: int, dtype: np.dtype[Any]) -> None:
        self.folder, self.n_buckets, self.dtype = out / BUCKETS_FOLDER, n_buckets, dtype

    def create(self) -> None:
        """Make the folder, and remove bucket files of an earlier attempt."""
        self.remove_all()
        self.folder.mkdir()

    def remove_all(self) -> None:
        """Remove the folder with all its files."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def append(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        keys: NDArray[np.uint64],
        validation: NDArray[np.bool_] | None,
    ) -> None:
        """Append whole documents to the files of their buckets."""
        order, bounds = self._partition(keys)
        documents = np.zeros(len(lengths), dtype=DOCUMENT_DTYPE)
        documents["key"], documents["length"] = keys[order], lengths[order]
        if validation is not None:
            documents["validation"] = validation[order]
        starts = np.cumsum(lengths) - lengths
        gathered = gather_documents(ids, starts[order], lengths[order]).astype(self.dtype, copy=False)
        id_bounds = compute_offsets(lengths[order])[bounds]
        for bucket in np.flatnonzero(np.diff(bounds)).tolist():
            _append(self._make_path(bucket, "documents"), documents[bounds[bucket] : bounds[bucket + 1]])
            if id_bounds[bucket] < id_bounds[bucket + 1]:
                _append(self._make_path(bucket, "ids"), gathered[id_bounds[bucket] : id_bounds[bucket + 1]])

    def _partition(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the stable order of documents by bucket, and the bounds of each bucket in that order."""
        buckets = find_buckets(keys, self.n_buckets)
        order = np.argsort(buckets.astype(np.uint16 if self.n_buckets <= 1 << 16 else np.int64), kind="stable")
        bounds = compute_offsets(np.bincount(buckets, minlength=self.n_buckets))
        return order, bounds

    def measure_sizes(self, *, sync: bool = False) -> list[list[int]]:
        """Measure each bucket's two files in bytes, and first write them to the disk if `sync`."""
        return [
            [_find_size(self._make_path(bucket, kind), sync) for kind in ("ids", "documents")]
            for bucket in range(self.n_buckets)
        ]

    def truncate(self, sizes: list[list[int]]) -> bool:
        """Truncate the files to sizes that `measure_sizes` returned; False if one has become shorter than that."""
        current_sizes = self.measure_sizes()
        if any(
            current_size < recorded_size
            for current_pair, recorded_pair in zip(current_sizes, sizes, strict=True)
            for current_size, recorded_size in zip(current_pair, recorded_pair, strict=True)
        ):
            return False
        for bucket, (current_pair, recorded_pair) in enumerate(zip(current_sizes, sizes, strict=True)):
            for kind, current_size, recorded_size in zip(
                ("ids", "documents"), current_pair, recorded_pair, strict=True
            ):
                if current_size > recorded_size:
                    os.truncate(self._make_path(bucket, kind), recorded_size)
        return True

    def sort_documents(self, bucket: int) -> Iterator[SortedDocuments]:
        """Yield the documents of a bucket in the order of their keys."""
        documents = self._read(bucket, "documents", DOCUMENT_DTYPE)
        lengths = documents["length"].astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        ids = self._read(bucket, "ids", self.dtype)
        if len(lengths) and (int(lengths.min()) < 0 or int(lengths.sum()) != len(ids)):
            raise FormatError(
                f"it has {len(ids)} ids; its documents have {int(lengths.sum())}: to start over, remove "
                f"{self.folder.parent}",
                path=self._make_path(bucket, "ids"),
            )
        order = np.argsort(documents["key"], kind="stable")
        lengths, starts, validation = lengths[order], starts[order], documents["validation"][order].astype(np.bool_)
        del documents
        ends = np.cumsum(lengths)
        first = 0
        while first < len(lengths):
            limit = int(ends[first] - lengths[first]) + _BATCH_IDS
            last = int(np.searchsorted(ends, limit, side="right"))
            if last > first:
                part = slice(first, last)
                yield gather_documents(ids, starts[part], lengths[part]), lengths[part], True, True, validation[part]
                first = last
                continue
            yield from _divide_document(ids, int(starts[first]), int(lengths[first]), validation[first : first + 1])
            first += 1

    def _read(self, bucket: int, kind: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        path = self._make_path(bucket, kind)
        n_items = _find_size(path) // dtype.itemsize
        if n_items > _MAX_READ_IDS:
            return np.memmap(path, dtype=dtype, mode="r")
        # As a str: NumPy goes on after Ctrl-C in the Python code of a Path, which becomes a SystemError.
        return np.fromfile(str(path), dtype=dtype) if n_items else np.empty(0, dtype=dtype)

    def remove(self, buckets: range) -> None:
        """Remove the files of buckets that are no longer needed."""
        for bucket in buckets:
            for kind in ("ids", "documents"):
                self._make_path(bucket, kind).unlink(missing_ok=True)

    def _make_path(self, bucket: int, kind: str) -> Path:
        return self.folder / f"{bucket:05}.{kind}"


def gather_documents(ids: NDArray[Any], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[Any]:
    """Gather the documents `ids[starts[i]:starts[i] + lengths[i]]`, one after the other.

    >>> gather_documents(np.array([10, 11, 12, 13]), np.array([2, 0]), np.array([2, 1]))
    array([12, 13, 10])
    """
    total = int(lengths.sum())
    if len(lengths) and total > 64 * len(lengths):  # long documents: slices are faster than an index per id
        bounds = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        return np.concatenate([ids[start:end] for start, end in bounds])
    positions = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    positions += np.arange(total)
    gathered: NDArray[Any] = ids[positions]
    return gathered


def _divide_document(
    ids: NDArray[Any], start: int, length: int, validation: NDArray[np.bool_]
) -> Iterator[SortedDocuments]:
    """Yield a document in several parts."""
    for offset in range(0, length, _BATCH_IDS):
        n_ids = min(_BATCH_IDS, length - offset)
        part = np.array(ids[start + offset : start + offset + n_ids])
        yield part, np.array([n_ids]), offset == 0, offset + n_ids == length, validation


def _append(path: Path, array: NDArray[Any]) -> None:
    try:
        with open(path, "ab", buffering=0) as file:
            data = np.ascontiguousarray(array).view(np.uint8).data
            while len(data):
                data = data[file.write(data) :]
    except OSError as error:  # a failed write names no file
        raise add_file_name(error, str(path)) from None


def _find_size(path: Path, sync: bool = False) -> int:
    """Find the size of a file, 0 if there is none."""
    try:
        if sync:
            with open(path, "rb+") as file, name_file_in_errors(str(path)):
                os.fsync(file.fileno())
        return path.stat().st_size
    except FileNotFoundError:
        return 0
