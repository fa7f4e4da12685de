"""Counts that are written to disk and read back equal counts that stay in memory, with the same order."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.base._team import Team
from bpe.base.offsets import compute_offsets
from bpe.count._word_list import list_words
from bpe.count._word_table import WordTable
from bpe.count.counting import ThreadTables, fill_from_corpus
from bpe.count.spilling import N_PARTS, Spill

WORDS = [
    "low",
    "é" * 9,
    "a-rather-longer-word",
    "語" * 40,
    *(f"w{i}" for i in range(3000)),
    *("x" * i for i in range(50)),
]


def texts() -> list[str]:
    random_ = random.Random(5)
    return [" ".join(random_.choices(WORDS, k=400)) for _ in range(60)]


def counted(budget: int | None, threads: int) -> bpe.WordCounts:
    """Counts from tables with a total budget in bytes."""
    counts = bpe.WordCounts("whitespace")
    fill_from_corpus(counts, texts(), threads, False, max_memory=budget)
    return counts


@pytest.mark.parametrize(("budget", "threads"), [(1, 1), (1, 4), (500_000, 2), (10**9, 2)])
def test_any_budget_gives_the_same_counts(monkeypatch: pytest.MonkeyPatch, budget: int, threads: int) -> None:
    monkeypatch.setattr("bpe.corpus.blocks.BLOCK_BYTES", 3000)
    assert counted(budget, threads) == counted(None, 1)


def test_a_full_table_is_given_to_no_other_thread() -> None:
    """Another thread may take a table as soon as it is back; a full one goes to disk instead."""

    class TakenAtOnce(list[WordTable]):
        def append(self, table: WordTable, /) -> None:
            """Have another thread take the table."""

    tables = ThreadTables(2, 8, 1)
    tables._idle = TakenAtOnce()
    with tables.lend() as table:
        table.add_arrays(
            np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2]), np.array([3, 4]), np.arange(2, dtype="u8")
        )
    assert tables._spill is not None
    assert tables.snapshot()[2].tolist() == [3, 4]
    tables.close()


def test_spilled_counts_support_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """They can be looked up, added to and merged like others."""
    monkeypatch.setattr("bpe.corpus.blocks.BLOCK_BYTES", 3000)
    expected = counted(None, 1)
    assert len(counted(1, 1)) == len(expected)
    assert counted(1, 1).total == expected.total
    assert counted(1, 1)["low"] == expected["low"]
    for change in (lambda c: c.add("low new"), lambda c: c.update({"z": 3, "low": 2}), lambda c: c.merge(expected)):
        in_memory, spilled = counted(None, 1), counted(1, 1)
        change(in_memory)
        change(spilled)
        assert in_memory == spilled


def test_the_parts_of_a_table_contain_each_word_once() -> None:
    table = WordTable()
    words, n = [word.encode() or b"-" for word in WORDS], len(WORDS)
    table.add_arrays(
        b"".join(words), compute_offsets([*map(len, words)]), np.ones(n, np.int64), np.arange(n, dtype=np.uint64)
    )
    arrays_by_part: list[Any] = []
    for part in range(N_PARTS):
        blob, offsets, counts, positions = list_words(table, Team(1), part, N_PARTS)
        assert len(counts) < len(WORDS) / 10
        assert (np.diff(positions.astype(np.int64)) > 0).all()
        arrays_by_part += [
            (int(position), blob[start:end].tobytes())
            for position, start, end in zip(positions, offsets, offsets[1:], strict=False)
        ]
    assert sorted(arrays_by_part) == [(position, word.encode() or b"-") for position, word in enumerate(WORDS)]


def test_a_sum_beyond_the_limit_is_refused() -> None:
    spill = Spill()
    table = WordTable()
    table.add_arrays(b"low", compute_offsets([3]), np.array([2**62]), np.zeros(1, dtype=np.uint64))
    spill.add(table)
    with pytest.raises(ValueError, match=r"more than 2\*\*63 - 1"):
        spill.add(table)
    spill.close()


def test_a_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Spill, array: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spill, "_store", full)
    monkeypatch.setattr("bpe.corpus.blocks.BLOCK_BYTES", 3000)
    with pytest.raises(OSError, match="No space left"):
        counted(1, 2)
