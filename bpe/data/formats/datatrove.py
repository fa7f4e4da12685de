"""datatrove's format: ids in X.ds, ends of documents in X.ds.index, loss masks in X.ds.loss, facts in X.ds.metadata.

`.ds` has the ids, uint16 or uint32, and nothing else. `.ds.index` has the end of each document in tokens, uint64.
`.ds.loss`, if there are loss masks, has a byte for each id, 1 or 0: 0 means no loss. `.ds.metadata` has three lines of
text: the tokenizer's name, `|` and the size of an id in bytes; the number of tokens; the same number for people, such
as `1.50 MT`. By convention an end-of-text id follows each document.

Source: `src/datatrove/pipeline/tokens/tokenizer.py` of datatrove.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.data.formats.protocol import ShardInfo, ShardWriter, WrittenFile, smallest_dtype
from bpe.data.formats.reading import Ends, Shard, check_rising, dtype_by_size, mapped, numbers_in, size_of
from bpe.data.formats.writing import DocumentWriter
from bpe.errors import FormatError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

_END = np.dtype("<u8")
#: The largest accepted size of the metadata in bytes.
_MAX_METADATA = 1 << 16


class Datatrove:
    """datatrove's format; see `ShardFormat`."""

    name = "datatrove"
    around = (False, True)
    holds = frozenset({"documents", "masks"})

    def dtype(self, largest_id: int) -> np.dtype[Any]:
        """uint16, or uint32 for ids above 65,535."""
        return smallest_dtype(self.name, largest_id, ["<u2", "<u4"])

    def names(self, stem: str, *, masks: bool = False) -> tuple[str, ...]:
        """The names of a shard's files."""
        names = f"{stem}.ds", f"{stem}.ds.index", f"{stem}.ds.metadata", f"{stem}.ds.loss"
        return names if masks else names[:3]

    def writer(
        self, folder: Path, stem: str, dtype: np.dtype[Any], *, masks: bool = False, info: ShardInfo | None = None
    ) -> ShardWriter:
        """Start a shard."""
        paths = [folder / name for name in self.names(stem, masks=masks)]
        return _Writer(paths, dtype, (info or ShardInfo()).tokenizer, masks=masks)

    def open(self, path: Path, *, end_of_text: int | None = None, validate: bool = True) -> Shard:
        """Open a shard by the path of its ids."""
        del end_of_text  # boundaries are recorded
        index, metadata, loss = (path.with_name(path.name + end) for end in (".index", ".metadata", ".loss"))
        size, index_size = size_of(path), size_of(index)
        if index_size % _END.itemsize:
            raise FormatError(f"it has {index_size} bytes, which is no whole number of uint64 ends", path=index)
        count = index_size // _END.itemsize
        ends = mapped(index, _END, 0, count)
        tokens = int(ends[-1]) if count else 0
        declared = None
        files: tuple[Path, ...] = (path, index)
        if metadata.exists():
            declared, files = _check_metadata(metadata, tokens), (path, index, metadata)
        dtype = dtype_by_size(path, size, tokens, declared)
        if validate and count:
            check_rising(index, _END, 0, count, tokens)
        mask = None
        if loss.exists():
            mask, files = _opened_mask(loss, tokens, validate), (*files, loss)
        return Shard(path, mapped(path, dtype, 0, tokens), Ends(ends, tokens), mask=mask, files=files)


def _check_metadata(path: Path, tokens: int) -> str | None:
    """Check the metadata's number of tokens; returns the dtype by its size of an id, if it has one."""
    if size_of(path) > _MAX_METADATA:
        raise FormatError(f"it has more than {_MAX_METADATA} bytes; it must have three lines", path=path)
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    if len(lines) < 2 or not re.fullmatch(r"\d{1,20}", lines[1]) or int(lines[1]) != tokens:
        second = shown(lines[1] if len(lines) > 1 else "")
        raise FormatError(f"its second line is {second}; it must be {tokens}, the number of tokens", path=path)
    width = lines[0].rpartition("|")[2] if "|" in lines[0] else ""
    if width not in ("", "2", "4"):
        raise FormatError(f"its first line is {shown(lines[0])}; it must end in |2 or |4", path=path)
    return f"<u{width}" if width else None


def _opened_mask(path: Path, tokens: int, validate: bool) -> NDArray[np.uint8]:
    """The loss mask, memory-mapped; FormatError unless it has a byte for each id, 0 or 1."""
    if size_of(path) != tokens:
        raise FormatError(f"it has {size_of(path)} bytes; there are {tokens} ids", path=path)
    if validate:
        position = 0
        for piece in numbers_in(path, np.uint8, 0, tokens):
            if piece.max(initial=0) > 1:
                bad = int(np.argmax(piece > 1))
                raise FormatError(f"it is {piece[bad]}; it must be 0 or 1", path=path, where=f"offset {position + bad}")
            position += len(piece)
    return mapped(path, np.uint8, 0, tokens)


class _Writer(DocumentWriter):
    """Writes a shard: ids, masks if there are some, metadata; the index, which completes it, is renamed last."""

    name = "datatrove"

    def __init__(self, paths: list[Path], dtype: np.dtype[Any], tokenizer: str, *, masks: bool) -> None:
        super().__init__(dtype, masks=masks)
        if "\n" in tokenizer:
            raise ValueError(f"the tokenizer's name is {shown(tokenizer)}; it must be one line")
        self._tokenizer = tokenizer
        self._loss = paths[0].with_name(paths[0].name + ".loss")
        self._open(*((path, 0) for path in (paths[0], *paths[3:], paths[2], paths[1])))

    def finish(self) -> list[WrittenFile]:
        """Finish the shard, and remove the mask of a shard that it replaces."""
        written = super().finish()
        if not self._masks:
            self._loss.unlink(missing_ok=True)
        return written

    def _checked(
        self, ids: NDArray[Any], lengths: NDArray[np.int64], begins: bool, mask: NDArray[np.uint8] | None
    ) -> NDArray[np.int64]:
        """Refuse weights in masks, too."""
        if mask is not None and mask.max(initial=0) > 1:
            raise ValueError(
                f"the mask has the value {mask.max()}; {self.name} shards hold 0 and 1: use native, parquet or arrow"
            )
        return super()._checked(ids, lengths, begins, mask)

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        self._files[-1].write_array(ends, _END)

    def _headers(self) -> list[bytes]:
        lines = f"{self._tokenizer}|{self._dtype.itemsize}", str(self.tokens), f"{_metric(self.tokens)}T"
        self._files[-2].write("\n".join(lines).encode())
        return [b""] * len(self._files)


def _metric(number: int) -> str:
    """A number with three digits and an SI prefix, as `humanize.metric` writes it.

    >>> _metric(5), _metric(1_500), _metric(12_345_678)
    ('5.00 ', '1.50 k', '12.3 M')
    """
    exponent = math.floor(math.log10(number)) if number else 0
    digits = f"{number / 10 ** (exponent // 3 * 3):.{2 - exponent % 3}f}"
    return f"{digits} {' kMGTPEZY'[exponent // 3].strip()}"
