"""Word counts that do not fit in memory.

A full table is written to a temporary file, divided into parts by the hash of the words. At the end the tables are
merged part by part, so that only one part of all tables is in memory. Not here: when a table is full
(`bpe/count/counting.py`).
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base._slices import copy_slices
from bpe.base.offsets import offsets_of
from bpe.count._word_table import WordTable, give_memory_back
from bpe.count.word_counts import Arrays
from bpe.errors import COUNT_LIMIT

#: The number of parts in which a table is stored.
PARTS = 64

_Stored = tuple[int, int, Any]  # an array in the file: its position, its length, its dtype


class Spill:
    """Spilled tables, in a temporary file without a name, which vanishes when it is closed or the process ends."""

    def __init__(self) -> None:
        import tempfile  # here, because most processes never need it

        self._file: Any = tempfile.TemporaryFile(prefix="bpe-counts-")  # noqa: SIM115 (closed by `close`)
        self._folder = tempfile.gettempdir()
        self._lock = Lock()  # each thread has a table of its own, but all share the file
        self._parts: list[list[list[_Stored]]] = [[] for _ in range(PARTS)]  # the tables' arrays, by part
        self._total = 0

    def add(self, table: WordTable) -> None:
        """Write a table's words.

        Raises:
            OSError: naming the folder of temporary files, where the disk is full.
            ValueError: if the counts of all tables sum to more than 2**63 - 1.

        """
        with self._lock:
            self._total += table.total
            if self._total > COUNT_LIMIT:
                raise ValueError(
                    "the counts sum to more than 2**63 - 1, the largest sum supported; scale the counts down"
                )
            for number, part in enumerate(self._parts):
                part.append([self._store(array) for array in table.arrays(number, PARTS)])

    def merged(self) -> Arrays:
        """Merge all tables: (blob, offsets, counts) in order of first appearance, as `WordCounts.arrays` returns them.

        The merged words of each part are written back to the file. They are read again, and copied to their final
        positions, when the order of all words is known.
        """
        words: list[list[_Stored]] = []
        found: list[list[NDArray[Any]]] = [[], []]  # counts, positions
        for part in self._parts:
            table = WordTable()
            for stored in part:
                table.add_arrays(*map(self._load, stored))
            blob, offsets, counts, positions = table.arrays()
            del table
            words.append([self._store(blob), self._store(offsets)])
            found[0].append(counts)
            found[1].append(positions)
            del blob, offsets
        give_memory_back()  # the tables leave fragmented memory
        order = np.argsort(np.concatenate(found.pop()))
        counts = np.concatenate(found.pop())[order]
        lengths = np.concatenate([np.diff(self._load(offsets)) for _, offsets in words])
        offsets = offsets_of(lengths[order])
        targets = lengths  # no longer needed
        targets[order] = offsets[:-1]
        del order
        whole = np.empty(offsets[-1], dtype=np.uint8)
        done = 0
        for blob_at, offsets_at in words:
            bounds = self._load(offsets_at)
            copy_slices(
                self._load(blob_at), bounds[:-1], np.diff(bounds), targets[done : done + len(bounds) - 1], whole
            )
            done += len(bounds) - 1
        del targets, lengths
        give_memory_back()
        return whole, offsets, counts

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def _store(self, array: NDArray[Any]) -> _Stored:
        position = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(array)
        except OSError as error:
            rule = f"{error.strerror} for a temporary file of word counts; set TMPDIR to use another folder"
            raise OSError(error.errno, rule, self._folder) from None
        return position, len(array), array.dtype

    def _load(self, stored: _Stored) -> NDArray[Any]:
        position, size, dtype = stored
        array = np.empty(size, dtype=dtype)
        self._file.seek(position)
        if self._file.readinto(array) != array.nbytes:
            raise OSError("the temporary file of word counts is shorter than what was written to it")
        return array
