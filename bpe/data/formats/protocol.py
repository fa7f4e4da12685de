"""The interface of a shard format, and the plain data that passes through it.

A format is one object: it chooses the dtype of the ids, writes shards and opens them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bpe.errors import check_int

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.data.formats.reading import Shard


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Facts about a shard that some formats store beside the ids.

    Attributes:
        tokenizer: the tokenizer's name or fingerprint, without line breaks (datatrove).
        source: where the documents come from (dolma's column `src`).
        first_document: the number of the shard's first document in the corpus (dolma's columns `id` and `loc`).

    """

    tokenizer: str = "unknown"
    source: str = ""
    first_document: int = 0


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a finished shard: its name, its size in bytes, and its CRC-32 as 8 hexadecimal digits."""

    name: str
    size: int
    crc32: str


class ShardWriter(Protocol):
    """Writes one shard. Memory is bounded: ids and index go to temporary files, which `finish` renames."""

    @property
    def tokens(self) -> int:
        """The number of tokens written."""

    @property
    def documents(self) -> int:
        """The number of documents that are complete."""

    def write(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        *,
        begins: bool = True,
        ends: bool = True,
        mask: NDArray[np.uint8] | None = None,
    ) -> None:
        """Write documents: `ids` of all of them, and the number of ids of each.

        With `begins=False` the first document continues the last one of the previous call; with `ends=False` the last
        one continues in the next call. `mask` has one byte for each id (0: no loss for this token).

        Raises:
            ValueError: for ids, lengths or counts that the format cannot hold; nothing of this call is written then.
            OSError: for a write error, such as a full disk; it names the file.

        """

    def finish(self) -> list[WrittenFile]:
        """Write everything to the disk, rename the files into place, the one that makes the shard valid last."""

    def discard(self) -> None:
        """Remove the temporary files. Does nothing after `finish`."""


class ShardFormat(Protocol):
    """One format of shards."""

    @property
    def name(self) -> str:
        """The name, as in `--format`."""

    @property
    def around(self) -> tuple[bool, bool]:
        """Whether the format by convention has the end-of-text id (before, after) each document."""

    @property
    def holds(self) -> frozenset[str]:
        """What the format stores beside the ids: "documents", "masks"."""

    def dtype(self, largest_id: int) -> np.dtype[Any]:
        """The smallest dtype of the format that holds ids up to `largest_id`; ValueError if none does."""

    def writer(
        self, folder: Path, stem: str, dtype: np.dtype[Any], *, masks: bool = False, info: ShardInfo | None = None
    ) -> ShardWriter:
        """Start a shard whose files begin with `stem`, in an existing folder; ids of a dtype that `dtype` returned."""

    def names(self, stem: str, *, masks: bool = False) -> tuple[str, ...]:
        """The names of a shard's files, the main one first."""

    def open(self, path: Path, *, end_of_text: int | None = None, validate: bool = True) -> Shard:
        """Open a shard by the path of its main file.

        Raises:
            FormatError: for a file that does not have this format.

        """


def smallest_dtype(name: str, largest_id: int, choices: Sequence[str]) -> np.dtype[Any]:
    """The first of these dtypes, little-endian, that holds ids up to `largest_id`.

    Raises:
        ValueError: if none does.

    >>> smallest_dtype("native", 65536, ["<u2", "<u4"])
    dtype('uint32')

    """
    largest_id = check_int("largest_id", largest_id, 0)
    for choice in choices:
        if largest_id <= np.iinfo(choice).max:
            return np.dtype(choice)
    most = np.iinfo(choices[-1]).max
    larger = "" if most > 0xFFFF else "; formats with 32-bit ids, such as native, hold it"
    raise ValueError(f"the largest id is {largest_id}; {name} shards hold ids up to {most}{larger}")
