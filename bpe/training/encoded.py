"""Words as ids of a tokenizer, to go on training from; in a temporary file, if they are too many for the memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.threads import map_ordered
from bpe.encode.engine import Engine
from bpe.errors import add_file_name
from bpe.vocab.spec import TokenizerSpec

#: Bytes of words that are encoded together.
GROUP_BYTES = 1 << 22


def encode_in_groups(
    spec: TokenizerSpec, blob: NDArray[np.uint8], offsets: NDArray[np.int64], threads: int = 1
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """Encode words by a tokenizer's merges alone: (ids, offsets) of each group of GROUP_BYTES bytes or more.

    Words may be long, such as lines. The engine cuts them where no merge reaches across, and the parts repeat.
    """
    engine = Engine(
        replace(spec, pretokenizer=None, normalizer=None, special_tokens={}, token_flags={}, template=None, dropout=0.0)
    )

    def encode_group(group: tuple[int, int]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        bounds = offsets[group[0] : group[1] + 1]
        batch = engine.encode_words(blob[bounds[0] : bounds[-1]], bounds - bounds[0])
        return batch.ids, batch.offsets

    yield from map_ordered(encode_group, _group_words(offsets), threads)


def _group_words(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Group consecutive words, GROUP_BYTES bytes or one word each: (first word, end)."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + GROUP_BYTES, "right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


class ArraySpool:
    """Arrays of uint32, one after the other: in memory, or all in a temporary file once they exceed `max_bytes` bytes.

    The file has no name, and vanishes when the last array that it is mapped to does.
    """

    def __init__(self, max_bytes: int | None) -> None:
        self._max_bytes = max_bytes
        self._arrays: list[NDArray[np.uint32]] = []
        self._size = 0
        self._file: Any = None

    def append(self, array: NDArray[np.uint32]) -> None:
        """Append an array.

        Raises:
            OSError: naming the folder of temporary files, where the disk is full.

        """
        self._arrays.append(array)
        self._size += array.nbytes
        if self._max_bytes is None or (self._file is None and self._size <= self._max_bytes):
            return
        import tempfile  # here, because most processes never need it

        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="bpe-tokens-")  # noqa: SIM115 (the mapping outlives it)
        try:
            for array in self._arrays:
                self._file.write(array)
            self._file.flush()
        except OSError as error:
            rule = f"{error.strerror} for a temporary file of encoded words; set TMPDIR to use another folder"
            raise add_file_name(error, tempfile.gettempdir(), rule) from None
        self._arrays.clear()

    def take_all(self) -> tuple[NDArray[np.uint8], bool]:
        """Return all arrays: (their bytes, whether they are a file that is mapped for reading)."""
        if self._file is None:
            return np.concatenate([np.empty(0, np.uint32), *self._arrays]).view(np.uint8), False
        with self._file as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, dtype=np.uint8), True
