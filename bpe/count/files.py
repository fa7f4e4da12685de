"""Files of word counts, and the sealed form that they share with checkpoints: a checksum guards the whole file."""

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

from bpe.base.atomic_files import atomic_write
from bpe.base.offsets import offsets_of
from bpe.base.utf8 import read_file
from bpe.corpus.blocks import PathLike
from bpe.count.word_counts import UNITS, Arrays, WordCounts
from bpe.errors import COUNT_LIMIT, FormatError, check_choice, check_int, pluralize, short_repr
from bpe.pretokenize.pretokenizer import Pretokenizer

#: The dtypes of stored lengths and counts. `write_counts` takes the narrowest that holds the largest value.
_DTYPES = ("|u1", "<u2", "<u4", "<u8")
#: The Unicode version of the named pretokenizers in files that do not record it.
_DEFAULT_UNICODE_VERSION = "18.0"


@dataclass(frozen=True)
class SealedFormat:
    """A kind of file that ends with a checksum.

    Layout, little-endian: 8 bytes that name the kind, a uint32 version (1), a uint64 length and as many bytes of JSON,
    the data, and the SHA-256 of everything before.

    Attributes:
        magic: the first 8 bytes.
        kind: what such a file is, for errors.
        damaged: what to say of one with a wrong checksum.
        other_version: what to add for one of another version.

    """

    magic: bytes
    kind: str
    damaged: str
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
        """The JSON and the data of a file.

        Raises:
            FormatError: for a file that is damaged, of another version or another kind.

        """
        data = memoryview(read_file(path, sys.maxsize))  # a view, so that no slice below is a copy
        if data[:8] != self.magic:
            begin = bytes(data[:8])
            raise FormatError(
                f"begins with {short_repr(begin)}, not {self.magic!r}: this is not {self.kind}", path=path
            )
        if len(data) < 52 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
            raise FormatError(f"the checksum is wrong: {self.damaged}", path=path)
        version = int.from_bytes(data[8:12], "little")
        if version != 1:
            raise FormatError(f"is of version {version}; this release reads version 1{self.other_version}", path=path)
        end = 20 + int.from_bytes(data[12:20], "little")
        return bytes(data[20:end]), data[end:-32]


FORMAT = SealedFormat(b"BPECOUNT", "a file of word counts", "the file is truncated or altered; count again")


def read_counts(path: PathLike) -> tuple[WordCounts, Any]:
    """The counts in a file, and what `write_counts` wrote there of a count that was unfinished, or None."""
    from bpe.text.pipeline_normalizers import from_json as normalizer_from_json

    head, data = FORMAT.read(path)
    try:
        header = json.loads(head)
        pretokenizer, normalizer = header["pretokenizer"], header["normalizer"]
        loaded = WordCounts(
            None if pretokenizer is None else Pretokenizer.from_json(pretokenizer),
            None if normalizer is None else normalizer_from_json(normalizer),
            header["special_tokens"],
        )
        loaded.unicode_version = _read_unicode_version(header, loaded.pretokenizer)
        loaded.units = check_choice("units", header.get("units", UNITS[0]), UNITS)
        loaded.documents = header.get("documents")
        if not isinstance(loaded.documents, str | None):
            raise TypeError(f"documents is {short_repr(loaded.documents)}; it must be a str or null")
        arrays = _read_arrays(data, header)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the header is not valid: {error}", path=path) from None
    try:
        loaded._add_arrays(*arrays)
        if len(loaded) != len(arrays[2]):
            raise ValueError("a word occurs twice; each word must have one count")
    except ValueError as error:
        raise FormatError(str(error), path=path) from None
    return loaded, header.get("unfinished")


def write_counts(counts: WordCounts, path: PathLike, unfinished: Any = None) -> None:
    """Write a file of counts; of a count that is unfinished, with a JSON value that says so."""
    blob, offsets, numbers = counts._snapshot()
    lengths = _narrow(np.diff(offsets))
    numbers = _narrow(numbers)
    header = {
        "words": len(numbers),
        "bytes": len(blob),
        "lengths": lengths.dtype.str,
        "counts": numbers.dtype.str,
        "pretokenizer": None if counts.pretokenizer is None else counts.pretokenizer.to_json(),
        "normalizer": None if counts.normalizer is None else counts.normalizer.to_json(),
        "special_tokens": list(counts.special_tokens),
        "unicode_version": counts.unicode_version,
        "units": counts.units,
        "documents": counts.documents,
        **({} if unfinished is None else {"unfinished": unfinished}),
    }
    FORMAT.write(path, header, (lengths.tobytes(), numbers.tobytes(), blob.tobytes()))


def _narrow(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """The numbers (none negative) in the narrowest little-endian unsigned type that holds them."""
    dtype = np.min_scalar_type(int(numbers.max(initial=0)))
    return numbers.astype(dtype.newbyteorder("<"))


def _read_arrays(data: memoryview, header: Mapping[str, Any]) -> Arrays:
    """The (blob, offsets, counts) after a file's header; ValueError where they contradict the header."""
    words, size = check_int("words", header["words"], 0), check_int("bytes", header["bytes"], 0)
    dtypes = [check_choice(name, header[name], _DTYPES) for name in ("lengths", "counts")]
    ends = list(accumulate([*(words * np.dtype(dtype).itemsize for dtype in dtypes), size]))
    if ends[-1] != len(data):
        raise ValueError(f"header declares {pluralize(ends[-1], 'payload byte')}; the file has {len(data)}")
    lengths = np.frombuffer(data[: ends[0]], dtype=dtypes[0])
    counts = np.frombuffer(data[ends[0] : ends[1]], dtype=dtypes[1]).astype(np.uint64)
    longest = int(lengths.max(initial=0))
    offsets = offsets_of(lengths.astype(np.int64) if longest <= size else np.zeros(words, dtype=np.int64))
    # No length is greater than size, so a sum that overflows shows as an offset smaller than the one before.
    if offsets[-1] != size or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError("the lengths of the words are wrong: none may be 0, and they must sum to the bytes of all")
    highest = int(counts.max(initial=0))
    if highest > COUNT_LIMIT:
        raise ValueError(f"a count is {highest}; it must be at most 2**63 - 1")
    return np.frombuffer(data[ends[1] :], dtype=np.uint8), offsets, counts.astype(np.int64)


def _read_unicode_version(header: Mapping[str, Any], pretokenizer: Pretokenizer | None) -> str | None:
    """The Unicode version that split the words in a file; ValueError where the header's is not valid."""
    own = None if pretokenizer is None else pretokenizer.unicode_version
    version = header.get("unicode_version", own and _DEFAULT_UNICODE_VERSION)
    if own is None and version is None:
        return None
    if own is None or not isinstance(version, str):
        raise ValueError(f"unicode_version is {short_repr(version)}; it must be {'null' if own is None else 'a str'}")
    return version
