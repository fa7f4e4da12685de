"""Word counts that do not fit in memory.

A full table is written to a temporary file, divided into parts by the hash of the words. At the end the tables are
merged part by part, so that only one part of all tables is in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base._slices import copy_slices
from bpe.base._team import Team
from bpe.base.offsets import compute_offsets
from bpe.count._word_list import list_words
from bpe.count._word_table import WordTable, give_memory_back
from bpe.errors import COUNT_LIMIT, add_file_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.count.sealed_files import CountedWords

#: A table that is spilled is listed by the thread that has filled it.
ONE_THREAD = Team(1)
#: The number of parts in which a table is stored.
N_PARTS = 64

_StoredArray = tuple[int, int, Any]  # an array in the file: its position, its length, its dtype


class Spill:
    """Spilled tables, in a temporary file without a name, which vanishes when it is closed or the process ends."""

    def __init__(self) -> None:
        import tempfile  # here, because most processes never need it

        self._new_file: Callable[[], Any] = partial(tempfile.TemporaryFile, prefix="bpe-counts-")
        self._file: Any = self._new_file()
        self._folder = tempfile.gettempdir()
        self._lock = Lock()  # each thread has a table of its own, but all share the file
        self._parts: list[list[list[_StoredArray]]] = [[] for _ in range(N_PARTS)]  # the tables' arrays, by part
        self._total = 0
        self._sample = WordTable()  # the words of the first part of each table

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
            for part_number, part in enumerate(self._parts):
                arrays = list_words(table, ONE_THREAD, part_number, N_PARTS)
                part.append([self._store(array) for array in arrays])
                if part_number == 0:
                    self._sample.add_arrays(*arrays)

    def sample(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Sample about one in N_PARTS of the distinct words: (their bytes, offsets)."""
        with self._lock:
            blob, offsets, *_ = list_words(self._sample, ONE_THREAD)
        return blob, offsets

    def merge(self) -> CountedWords:
        """Merge all tables: (blob, offsets, counts) in order of first appearance, as `WordCounts.arrays` returns them.

        The merged words of each part are written to a new file, in place of those before. They are read again, and
        copied to their final positions, when the order of all words is known. More tables may be added afterwards.
        """
        old_file, parts, self._parts = self._file, self._parts, []
        self._file = self._new_file()
        columns: list[list[NDArray[Any]]] = [[], []]  # counts, positions
        for part in parts:
            table = WordTable()
            for stored in part:
                table.add_arrays(*(self._load(array, old_file) for array in stored))
            arrays = list_words(table, ONE_THREAD)
            del table
            self._parts.append([[self._store(array) for array in arrays]])
            columns[0].append(arrays[2])
            columns[1].append(arrays[3])
            del arrays
        old_file.close()
        give_memory_back()  # the tables leave fragmented memory
        order = np.argsort(np.concatenate(columns.pop()))
        counts = np.concatenate(columns.pop())[order]
        lengths = np.concatenate([np.diff(self._load(stored[1])) for [stored] in self._parts])
        offsets = compute_offsets(lengths[order])
        targets = lengths  # which are not needed any more: their memory holds the targets
        targets[order] = offsets[:-1]
        del order
        merged_blob = np.empty(offsets[-1], dtype=np.uint8)
        n_copied = 0
        for [stored] in self._parts:
            bounds = self._load(stored[1])
            copy_slices(
                self._load(stored[0]),
                bounds[:-1],
                np.diff(bounds),
                targets[n_copied : n_copied + len(bounds) - 1],
                merged_blob,
            )
            n_copied += len(bounds) - 1
        del targets, lengths
        give_memory_back()
        return merged_blob, offsets, counts

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def _store(self, array: NDArray[Any]) -> _StoredArray:
        position = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(array)
        except OSError as error:
            rule = f"{error.strerror} for a temporary file of word counts; set TMPDIR to use another folder"
            raise add_file_name(error, self._folder, rule) from None
        return position, len(array), array.dtype

    def _load(self, stored: _StoredArray, file: Any = None) -> NDArray[Any]:
        position, size, dtype = stored
        array = np.empty(size, dtype=dtype)
        file = self._file if file is None else file
        file.seek(position)
        if file.readinto(array) != array.nbytes:
            raise OSError("the temporary file of word counts is shorter than what was written to it")
        return array
