"""Formats that hold one stream of ids and no boundaries of documents: nanoGPT's and llm.c's .bin files.

nanogpt: uint16 ids, and nothing else; by convention an end-of-text id after each document. llmc: a header of 256 int32
numbers (magic number, version, number of ids, zeros), then the ids: magic 20240520, version 1 and uint16, or magic
20240801, version 7 and uint32; fewer than 2**31 ids in a file; by convention an end-of-text id before each document.

Sources: nanoGPT's `data/*/prepare.py` and `train.py`; llm.c's `dev/data/data_common.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.data.formats.protocol import ShardInfo, ShardWriter, smallest_dtype
from bpe.data.formats.reading import Shard, documents_by_token, mapped, one_document, size_of
from bpe.data.formats.writing import DocumentWriter, refuse_masks
from bpe.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: llm.c's magic numbers and versions by the dtype of the ids, and the size of its header in bytes.
_LLMC = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
_LLMC_HEADER = 256 * 4


class NanoGPT:
    """nanoGPT's format; see `ShardFormat`."""

    name = "nanogpt"
    around = (False, True)
    holds: frozenset[str] = frozenset()

    def dtype(self, largest_id: int) -> np.dtype[Any]:
        """Always uint16; the format has no other."""
        return smallest_dtype(self.name, largest_id, ["<u2"])

    def names(self, stem: str, *, masks: bool = False) -> tuple[str, ...]:
        """The name of a shard's file."""
        refuse_masks(self.name, masks)
        return (f"{stem}.bin",)

    def writer(
        self, folder: Path, stem: str, dtype: np.dtype[Any], *, masks: bool = False, info: ShardInfo | None = None
    ) -> ShardWriter:
        """Start a shard."""
        del info
        return _Writer(self.name, folder / self.names(stem, masks=masks)[0], dtype)

    def open(self, path: Path, *, end_of_text: int | None = None, validate: bool = True) -> Shard:
        """Open a shard. It is one document, unless `end_of_text` is given."""
        del validate
        size = size_of(path)
        if size % 2:
            raise FormatError(f"it has {size} bytes; uint16 ids take an even number", path=path)
        return _stream(path, mapped(path, "<u2", 0, size // 2), end_of_text, before=False)


class LLMC:
    """llm.c's format; see `ShardFormat`."""

    name = "llmc"
    around = (True, False)
    holds: frozenset[str] = frozenset()

    def dtype(self, largest_id: int) -> np.dtype[Any]:
        """uint16, or uint32 for ids above 65,535."""
        return smallest_dtype(self.name, largest_id, ["<u2", "<u4"])

    def names(self, stem: str, *, masks: bool = False) -> tuple[str, ...]:
        """The name of a shard's file."""
        refuse_masks(self.name, masks)
        return (f"{stem}.bin",)

    def writer(
        self, folder: Path, stem: str, dtype: np.dtype[Any], *, masks: bool = False, info: ShardInfo | None = None
    ) -> ShardWriter:
        """Start a shard."""
        del info
        return _LLMCWriter(self.name, folder / self.names(stem, masks=masks)[0], dtype, _LLMC_HEADER)

    def open(self, path: Path, *, end_of_text: int | None = None, validate: bool = True) -> Shard:
        """Open a shard. It is one document, unless `end_of_text` is given."""
        del validate
        size = size_of(path)
        with open(path, "rb") as file:
            data = file.read(_LLMC_HEADER)
        if len(data) < _LLMC_HEADER:
            raise FormatError(f"it has {size} bytes; its header takes {_LLMC_HEADER}", path=path)
        magic, version, count = np.frombuffer(data, dtype="<i4", count=3).tolist()
        names = [name for name, numbers in _LLMC.items() if numbers == (magic, version)]
        if not names:
            known = " or ".join(f"{a} and {b}" for a, b in _LLMC.values())
            raise FormatError(
                f"its magic number and version are {magic} and {version}; they must be {known}", path=path
            )
        dtype = np.dtype(names[0])
        expected = _LLMC_HEADER + count * dtype.itemsize
        if count < 0 or expected != size:
            raise FormatError(f"its header declares {count} ids, {expected} bytes; the file has {size}", path=path)
        return _stream(path, mapped(path, dtype, _LLMC_HEADER, count), end_of_text, before=True)


def _stream(path: Path, ids: NDArray[Any], end_of_text: int | None, *, before: bool) -> Shard:
    """A shard whose documents are found by their end-of-text id, if that is given."""
    if end_of_text is None:
        return Shard(path, ids, one_document(len(ids)), has_boundaries=False)
    return Shard(path, ids, documents_by_token(ids, end_of_text, before=before))


class _Writer(DocumentWriter):
    """Writes one file of ids."""

    def __init__(self, name: str, path: Path, dtype: np.dtype[Any], header_size: int = 0) -> None:
        super().__init__(dtype)
        self.name = name
        self._open((path, header_size))


class _LLMCWriter(_Writer):
    """Writes llm.c's header in addition."""

    max_tokens = (1 << 31) - 1

    def _headers(self) -> list[bytes]:
        header = np.zeros(_LLMC_HEADER // 4, dtype="<i4")
        header[:3] = *_LLMC[self._dtype.name], self.tokens
        return [header.tobytes()]
