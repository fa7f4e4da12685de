"""The native format: ids, offsets and loss mask as three .npy files.

`tokens-00000.npy` holds the ids (uint16 or uint32), `tokens-00000.offsets.npy` the starts of the documents and the end
of the last one (int64, n + 1 long, from 0), and, for instruction data, `tokens-00000.mask.npy` a byte for each id. The
offsets are renamed last: a shard without them is not complete. `bpe encode -o ids.npy` writes the same layout.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.data.formats.protocol import ShardInfo, ShardWriter, WrittenFile, smallest_dtype
from bpe.data.formats.reading import Offsets, Shard, check_rising, mapped, size_of
from bpe.data.formats.writing import DocumentWriter
from bpe.errors import FormatError
from bpe.formats.id_files import HEADER_SIZE, MAX_HEADER, NpyHeader, npy_header, parse_npy_header

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OFFSETS = np.dtype("<i8")
_MASK = np.dtype("u1")


class Native:
    """The native format; see `ShardFormat`."""

    name = "native"
    around = (False, False)
    holds = frozenset({"documents", "masks"})

    def dtype(self, largest_id: int) -> np.dtype[Any]:
        """uint16, or uint32 for ids above 65,535."""
        return smallest_dtype(self.name, largest_id, ["<u2", "<u4"])

    def names(self, stem: str, *, masks: bool = False) -> tuple[str, ...]:
        """The names of a shard's files."""
        names = f"{stem}.npy", f"{stem}.offsets.npy", f"{stem}.mask.npy"
        return names if masks else names[:2]

    def writer(
        self, folder: Path, stem: str, dtype: np.dtype[Any], *, masks: bool = False, info: ShardInfo | None = None
    ) -> ShardWriter:
        """Start a shard."""
        del info
        return _Writer([folder / name for name in self.names(stem, masks=masks)], dtype, masks=masks)

    def open(self, path: Path, *, end_of_text: int | None = None, validate: bool = True) -> Shard:
        """Open a shard by the path of its ids."""
        del end_of_text  # boundaries are recorded
        stem = path.name.removesuffix(".npy")
        offsets_path, mask_path = (path.with_name(f"{stem}.{name}.npy") for name in ("offsets", "mask"))
        header = _header(path, ("<u2", "<u4"))
        beside = _header(offsets_path, ("<i8",))
        if not beside.length:
            raise FormatError("it is empty; it must have one number more than there are documents", path=offsets_path)
        ids = mapped(path, header.dtype, header.start, header.length)
        offsets = mapped(offsets_path, _OFFSETS, beside.start, beside.length)
        if validate:
            check_rising(offsets_path, _OFFSETS, beside.start, beside.length, header.length, first=0)
        elif offsets[-1] != header.length:
            raise FormatError(f"its last offset is {offsets[-1]}; it must be {header.length}", path=offsets_path)
        mask = None
        files: tuple[Path, ...] = (path, offsets_path)
        if mask_path.exists():
            third = _header(mask_path, ("|u1",))
            if third.length != header.length:
                raise FormatError(f"it has {third.length} bytes; there are {header.length} ids", path=mask_path)
            mask = mapped(mask_path, _MASK, third.start, third.length)
            files = (*files, mask_path)
        return Shard(path, ids, Offsets(offsets), mask=mask, files=files)


def _header(path: Path, dtypes: tuple[str, ...]) -> NpyHeader:
    """The header of a .npy file of one of these dtypes; the file has exactly the size that it declares."""
    size = size_of(path)
    with open(path, "rb") as file:
        header = parse_npy_header(file.read(MAX_HEADER), str(path))
    if header.dtype.str not in dtypes:
        raise FormatError(f"its dtype is {header.dtype.str}; it must be {' or '.join(dtypes)}", path=path)
    expected = header.start + header.length * header.dtype.itemsize
    if size != expected:
        raise FormatError(f"its header declares {expected} bytes; the file has {size}", path=path)
    return header


class _Writer(DocumentWriter):
    """Writes a native shard. The files in `_files`: ids, mask (if there are masks), offsets."""

    name = "native"

    def __init__(self, paths: list[Path], dtype: np.dtype[Any], *, masks: bool) -> None:
        super().__init__(dtype, masks=masks)
        self._open(*((path, HEADER_SIZE) for path in (paths[0], *paths[2:], paths[1])))
        self._files[-1].write(np.zeros(1, dtype=_OFFSETS))

    def finish(self) -> list[WrittenFile]:
        """Finish the shard, and remove the mask of a shard that it replaces."""
        written = super().finish()
        if not self._masks:
            path = self._files[0].path
            path.with_name(path.name.removesuffix(".npy") + ".mask.npy").unlink(missing_ok=True)
        return written

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        self._files[-1].write_array(ends, _OFFSETS)

    def _headers(self) -> list[bytes]:
        headers = [npy_header(self._dtype, self.tokens), npy_header(_OFFSETS, self.documents + 1)]
        if self._masks:
            headers.insert(1, npy_header(_MASK, self.tokens))
        return headers
