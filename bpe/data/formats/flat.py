"""Formats whose files are plain arrays: the native one, and those of nanoGPT, llm.c and datatrove.

native: `.npy` has the ids (uint16 or uint32), `.offsets.npy` the starts of the documents and the end of the last one
(int64, n + 1 long, from 0), and, for instruction data, `.mask.npy` a byte for each id. A shard without offsets is not
complete. `bpe encode -o ids.npy` writes the same layout.

nanogpt: uint16 ids, and nothing else; by convention an end-of-text id after each document. llmc: a header of 256 int32
numbers (magic number, version, number of ids, zeros), then the ids: magic 20240520, version 1 and uint16, or magic
20240801, version 7 and uint32; fewer than 2**31 ids in a file; by convention an end-of-text id before each document.

datatrove: `.ds` has the ids, uint16 or uint32, and nothing else. `.ds.index` has the end of each document in tokens,
uint64. `.ds.loss`, if there are loss masks, has a byte for each id, 1 or 0: 0 means no loss. `.ds.metadata` has three
lines of text: the tokenizer's name, `|` and the size of an id in bytes; the number of tokens; the same number for
people, such as `1.50 MT`. By convention an end-of-text id follows each document.

Sources: nanoGPT's `data/*/prepare.py` and `train.py`; llm.c's `dev/data/data_common.py`;
`src/datatrove/pipeline/tokens/tokenizer.py` of datatrove.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.data.formats.reading import (
    DocumentEnds,
    DocumentOffsets,
    Shard,
    bound_one_document,
    check_ascending,
    find_dtype,
    find_size,
    map_numbers,
    read_numbers,
)
from bpe.data.formats.shard_format import ShardWriter
from bpe.errors import FormatError, name_file_in_errors, short_repr
from bpe.formats.id_files import MAX_HEADER, NpyHeader, build_npy_header, parse_npy_header

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OFFSET_DTYPE, _END_DTYPE, _MASK_DTYPE = np.dtype("<i8"), np.dtype("<u8"), np.dtype("u1")
#: llm.c's magic numbers and versions by the dtype of the ids, and the size of its header in bytes.
_LLMC_VERSIONS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
LLMC_HEADER_BYTES = 256 * 4
#: The largest accepted size of datatrove's metadata in bytes.
_MAX_METADATA_BYTES = 1 << 16


# native ---------------------------------------------------------------------------------------------------------------


def open_native(path: Path, validate: bool) -> Shard:
    """Open a native shard by the path of its ids."""
    stem = path.name.removesuffix(".npy")
    offsets_path, mask_path = (path.with_name(f"{stem}.{name}.npy") for name in ("offsets", "mask"))
    ids_header = _read_header(path, ("<u2", "<u4"))
    offsets_header = _read_header(offsets_path, ("<i8",))
    if not offsets_header.length:
        raise FormatError("it is empty; it must have one number more than there are documents", path=offsets_path)
    ids = map_numbers(path, ids_header.dtype, ids_header.start, ids_header.length)
    offsets = map_numbers(offsets_path, _OFFSET_DTYPE, offsets_header.start, offsets_header.length)
    if validate:
        check_ascending(
            offsets_path, _OFFSET_DTYPE, offsets_header.start, offsets_header.length, ids_header.length, first=0
        )
    elif offsets[-1] != ids_header.length:
        raise FormatError(f"its last offset is {offsets[-1]}; it must be {ids_header.length}", path=offsets_path)
    mask = None
    files: tuple[Path, ...] = (path, offsets_path)
    if mask_path.exists():
        mask_header = _read_header(mask_path, ("|u1",))
        if mask_header.length != ids_header.length:
            raise FormatError(f"it has {mask_header.length} bytes; there are {ids_header.length} ids", path=mask_path)
        mask = map_numbers(mask_path, _MASK_DTYPE, mask_header.start, mask_header.length)
        files = (*files, mask_path)
    return Shard(path, ids, DocumentOffsets(offsets), mask=mask, files=files)


def _read_header(path: Path, dtypes: tuple[str, ...]) -> NpyHeader:
    """Read the header of a .npy file of one of these dtypes; the file must have the size that it declares."""
    size = find_size(path)
    with open(path, "rb") as file, name_file_in_errors(str(path)):
        header = parse_npy_header(file.read(MAX_HEADER), str(path))
    if header.dtype.str not in dtypes:
        raise FormatError(f"its dtype is {header.dtype.str}; it must be {' or '.join(dtypes)}", path=path)
    expected = header.start + header.length * header.dtype.itemsize
    if size != expected:
        raise FormatError(f"its header declares {expected} bytes; the file has {size}", path=path)
    return header


class NativeWriter(ShardWriter):
    """Writes a native shard. The files in `_files`: ids, mask (if there are masks), offsets."""

    def begin(self) -> None:
        """Write the offset of the first document."""
        self._files[-1].write(np.zeros(1, dtype=_OFFSET_DTYPE))

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        self._files[-1].write_array(ends, _OFFSET_DTYPE)

    def _make_headers(self) -> list[bytes]:
        headers = [build_npy_header(self._dtype, self.n_tokens), build_npy_header(_OFFSET_DTYPE, self.n_documents + 1)]
        if self._masks:
            headers.insert(1, build_npy_header(_MASK_DTYPE, self.n_tokens))
        return headers


# nanoGPT and llm.c ----------------------------------------------------------------------------------------------------


def open_nanogpt(path: Path, validate: bool) -> Shard:
    """Open nanoGPT's ids, as one document."""
    del validate
    size = find_size(path)
    if size % 2:
        raise FormatError(f"it has {size} bytes; uint16 ids take an even number", path=path)
    return Shard(path, map_numbers(path, "<u2", 0, size // 2), bound_one_document(size // 2), has_boundaries=False)


def open_llmc(path: Path, validate: bool) -> Shard:
    """Open llm.c's ids, as one document."""
    del validate
    size = find_size(path)
    with open(path, "rb") as file:
        data = file.read(LLMC_HEADER_BYTES)
    if len(data) < LLMC_HEADER_BYTES:
        raise FormatError(f"it has {size} bytes; its header takes {LLMC_HEADER_BYTES}", path=path)
    magic, version, count = np.frombuffer(data, dtype="<i4", count=3).tolist()
    dtype_names = [name for name, numbers in _LLMC_VERSIONS.items() if numbers == (magic, version)]
    if not dtype_names:
        accepted_versions = " or ".join(f"{magic_} and {version_}" for magic_, version_ in _LLMC_VERSIONS.values())
        raise FormatError(
            f"its magic number and version are {magic} and {version}; they must be {accepted_versions}", path=path
        )
    dtype = np.dtype(dtype_names[0])
    expected = LLMC_HEADER_BYTES + count * dtype.itemsize
    if count < 0 or expected != size:
        raise FormatError(f"its header declares {count} ids, {expected} bytes; the file has {size}", path=path)
    return Shard(
        path, map_numbers(path, dtype, LLMC_HEADER_BYTES, count), bound_one_document(count), has_boundaries=False
    )


class LLMCWriter(ShardWriter):
    """Writes llm.c's header and ids."""

    max_tokens = (1 << 31) - 1

    def _make_headers(self) -> list[bytes]:
        header = np.zeros(LLMC_HEADER_BYTES // 4, dtype="<i4")
        header[:3] = *_LLMC_VERSIONS[self._dtype.name], self.n_tokens
        return [header.tobytes()]


# datatrove ------------------------------------------------------------------------------------------------------------


def open_datatrove(path: Path, validate: bool) -> Shard:
    """Open a datatrove shard by the path of its ids."""
    index, metadata, loss = (path.with_name(path.name + suffix) for suffix in (".index", ".metadata", ".loss"))
    size, index_size = find_size(path), find_size(index)
    if index_size % _END_DTYPE.itemsize:
        raise FormatError(f"it has {index_size} bytes, which is no whole number of uint64 ends", path=index)
    count = index_size // _END_DTYPE.itemsize
    ends = map_numbers(index, _END_DTYPE, 0, count)
    n_tokens = int(ends[-1]) if count else 0
    declared_dtype = None
    files: tuple[Path, ...] = (path, index)
    if metadata.exists():
        declared_dtype, files = _check_metadata(metadata, n_tokens), (path, index, metadata)
    dtype = find_dtype(path, size, n_tokens, declared_dtype)
    if validate and count:
        check_ascending(index, _END_DTYPE, 0, count, n_tokens)
    mask = None
    if loss.exists():
        mask, files = _open_mask(loss, n_tokens, validate), (*files, loss)
    return Shard(path, map_numbers(path, dtype, 0, n_tokens), DocumentEnds(ends, n_tokens), mask=mask, files=files)


def _check_metadata(path: Path, n_tokens: int) -> str | None:
    """Check the metadata's number of tokens; returns the dtype by its size of an id, if it has one."""
    if find_size(path) > _MAX_METADATA_BYTES:
        raise FormatError(f"it has more than {_MAX_METADATA_BYTES} bytes; it must have three lines", path=path)
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    if len(lines) < 2 or not re.fullmatch(r"\d{1,20}", lines[1]) or int(lines[1]) != n_tokens:
        second_line = short_repr(lines[1] if len(lines) > 1 else "")
        raise FormatError(f"its second line is {second_line}; it must be {n_tokens}, the number of tokens", path=path)
    width = lines[0].rpartition("|")[2] if "|" in lines[0] else ""
    if width not in ("", "2", "4"):
        raise FormatError(f"its first line is {short_repr(lines[0])}; it must end in |2 or |4", path=path)
    return f"<u{width}" if width else None


def _open_mask(path: Path, n_tokens: int, validate: bool) -> NDArray[np.uint8]:
    """Map the loss mask into memory; FormatError unless it has a byte for each id, 0 or 1."""
    if find_size(path) != n_tokens:
        raise FormatError(f"it has {find_size(path)} bytes; there are {n_tokens} ids", path=path)
    if validate:
        position = 0
        for piece in read_numbers(path, np.uint8, 0, n_tokens):
            if piece.max(initial=0) > 1:
                index = int(np.argmax(piece > 1))
                raise FormatError(
                    f"it is {piece[index]}; it must be 0 or 1", path=path, where=f"offset {position + index}"
                )
            position += len(piece)
    return map_numbers(path, np.uint8, 0, n_tokens)


class DatatroveWriter(ShardWriter):
    """Writes a datatrove shard. The files in `_files`: ids, mask (if there are masks), metadata, index."""

    def __init__(self, *args: Any, **options: Any) -> None:
        if "\n" in options["info"].tokenizer:
            raise ValueError(f"the tokenizer's name is {short_repr(options['info'].tokenizer)}; it must be one line")
        super().__init__(*args, **options)

    def _check_mask(self, mask: NDArray[np.uint8]) -> None:
        """Refuse weights in masks."""
        if mask.max(initial=0) > 1:
            raise ValueError(
                f"the mask has the value {mask.max()}; datatrove shards hold 0 and 1: use native, parquet or arrow"
            )

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        self._files[-1].write_array(ends, _END_DTYPE)

    def _make_headers(self) -> list[bytes]:
        lines = (
            f"{self._info.tokenizer}|{self._dtype.itemsize}",
            str(self.n_tokens),
            f"{format_si_prefix(self.n_tokens)}T",
        )
        self._files[-2].write("\n".join(lines).encode())
        return [b""] * len(self._files)


def format_si_prefix(count: int) -> str:
    """Spell a number with three digits and an SI prefix, as `humanize.metric` does.

    >>> format_si_prefix(5), format_si_prefix(1_500), format_si_prefix(12_345_678)
    ('5.00 ', '1.50 k', '12.3 M')
    """
    exponent = math.floor(math.log10(count)) if count else 0
    digits = f"{count / 10 ** (exponent // 3 * 3):.{2 - exponent % 3}f}"
    return f"{digits} {' kMGTPEZY'[exponent // 3].strip()}"
