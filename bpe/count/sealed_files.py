"""Sealed files, of word counts and of checkpoints: a checksum guards the whole file."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base import utf8
from bpe.base.atomic_files import atomic_write
from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import read_file
from bpe.corpus.blocks import PathLike
from bpe.errors import COUNT_LIMIT, FormatError, check_choice, check_int, pluralize, short_repr

#: The most words that are read: no limit but the memory, some 150 bytes each. Set `bpe.count.sealed_files.max_words`
#: where strangers name the files.
max_words = 1 << 62
#: The dtypes of stored lengths and counts. `pack_arrays` takes the narrowest that holds the largest value.
_DTYPES = ("|u1", "<u2", "<u4", "<u8")
#: What a header says of words, and the data.
PackedArrays = tuple[dict[str, Any], tuple[bytes, ...]]


@dataclass(frozen=True)
class SealedFormat:
    """A kind of file that ends with a checksum.

    Layout, little-endian: 8 bytes that name the kind, a uint32 version (1), a uint64 length and as many bytes of JSON,
    the data, and the SHA-256 of everything before.

    Attributes:
        magic: the first 8 bytes.
        kind: what such a file is, for errors.
        damage_message: what to say of one with a wrong checksum.
        other_version: what to add for one of another version.

    """

    magic: bytes
    kind: str
    damage_message: str
    other_version: str = ""

    def write(self, path: PathLike, header: Mapping[str, Any], parts: Iterable[bytes]) -> None:
        """Write a file, whole or not at all."""
        data = json.dumps(header).encode()
        digest = hashlib.sha256()
        with atomic_write(path) as file:
            for part in (self.magic + b"\1\0\0\0" + len(data).to_bytes(8, "little") + data, *parts):
                digest.update(part)
                file.write(part)
            file.write(digest.digest())

    def read(self, path: PathLike) -> tuple[bytes, memoryview]:
        """Read the JSON and the data of a file.

        Raises:
            FormatError: for a file that is damaged, of another version or another kind.

        """
        data = memoryview(read_file(path, sys.maxsize))  # a view, so that no slice below is a copy
        if data[:8] != self.magic:
            magic = bytes(data[:8])
            raise FormatError(
                f"begins with {short_repr(magic)}, not {self.magic!r}: this is not {self.kind}", path=path
            )
        if len(data) < 52 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
            raise FormatError(f"the checksum is wrong: {self.damage_message}", path=path)
        version = int.from_bytes(data[8:12], "little")
        if version != 1:
            raise FormatError(f"is of version {version}; this release reads version 1{self.other_version}", path=path)
        size = int.from_bytes(data[12:20], "little")
        if size > utf8.max_file_bytes:
            raise FormatError(
                f"its header has {size} bytes; at most {utf8.max_file_bytes} are read (bpe.base.utf8.max_file_bytes); "
                "set that higher if that is meant",
                path=path,
            )
        end = 20 + size
        return bytes(data[20:end]), data[end:-32]


COUNTS_FORMAT = SealedFormat(b"BPECOUNT", "a file of word counts", "the file is truncated or altered; count again")
#: Words: their bytes end to end, offsets, counts.
CountedWords = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]


def pack_arrays(blob: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> PackedArrays:
    """Pack words and their counts: (what a header says of them, the data)."""
    lengths, packed_counts = _narrow(np.diff(offsets)), _narrow(counts)
    sizes = {
        "words": len(packed_counts),
        "bytes": len(blob),
        "lengths": lengths.dtype.str,
        "counts": packed_counts.dtype.str,
    }
    return sizes, (lengths.tobytes(), packed_counts.tobytes(), blob.tobytes())


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    """Convert numbers, none of them negative, to the narrowest little-endian unsigned type that holds them."""
    dtype = np.min_scalar_type(int(values.max(initial=0)))
    return values.astype(dtype.newbyteorder("<"))


def read_arrays(data: memoryview, header: Mapping[str, Any]) -> CountedWords:
    """Read the (blob, offsets, counts) after a file's header; ValueError for a contradiction, or too many words."""
    words, size = check_int("words", header["words"], 0), check_int("bytes", header["bytes"], 0)
    if words > max_words:
        raise ValueError(
            f"it has {words} words; at most {max_words} are read (bpe.count.sealed_files.max_words); set that higher "
            "if that is meant"
        )
    dtypes = [check_choice(name, header[name], _DTYPES) for name in ("lengths", "counts")]
    ends = list(accumulate([*(words * np.dtype(dtype).itemsize for dtype in dtypes), size]))
    if ends[-1] != len(data):
        raise ValueError(f"header declares {pluralize(ends[-1], 'payload byte')}; the file has {len(data)}")
    lengths = np.frombuffer(data[: ends[0]], dtype=dtypes[0])
    counts = np.frombuffer(data[ends[0] : ends[1]], dtype=dtypes[1]).astype(np.uint64)
    max_length = int(lengths.max(initial=0))
    offsets = compute_offsets(lengths.astype(np.int64) if max_length <= size else np.zeros(words, dtype=np.int64))
    # No length is greater than size, so a sum that overflows shows as an offset smaller than the one before.
    if offsets[-1] != size or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError("the lengths of the words are wrong: none may be 0, and they must sum to the bytes of all")
    max_count = int(counts.max(initial=0))
    if max_count > COUNT_LIMIT:
        raise ValueError(f"a count is {max_count}; it must be at most 2**63 - 1")
    return np.frombuffer(data[ends[1] :], dtype=np.uint8), offsets, counts.astype(np.int64)
