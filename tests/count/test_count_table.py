"""The table that counts words, against a dict."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe.base._team import Team
from bpe.base.offsets import compute_offsets
from bpe.base.threads import team_threads
from bpe.count._table_merge import merge_tables
from bpe.count._word_list import list_words
from bpe.count._word_table import WordTable


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=60))
def test_word_table_counts_like_a_dict(words: list[bytes]) -> None:
    table = WordTable()
    plain: dict[bytes, int] = {}
    for position, word in enumerate(words):
        table.add_arrays(
            word, compute_offsets([len(word)]), np.array([position + 1]), np.array([position], dtype=np.uint64)
        )
        plain[word] = plain.get(word, 0) + position + 1
    blob, offsets, counts, _ = list_words(table, Team(1))
    distinct_words = [bytes(blob[a:b]) for a, b in pairwise(offsets)]
    assert dict(zip(distinct_words, counts.tolist(), strict=True)) == plain
    assert distinct_words == list(plain)
    assert [table.get(word) for word in distinct_words] == counts.tolist()
    assert table.get(b"never seen, and longer than fifteen bytes") == table.get(b"no") == 0


def list_counts(table: WordTable, threads: int = 1) -> list[tuple[bytes, int, int]]:
    """List (word, count, position)."""
    team = Team(threads)
    with team_threads(team):
        blob, offsets, counts, positions = list_words(table, team)
    words = [bytes(blob[a:b]) for a, b in pairwise(offsets)]
    return list(zip(words, counts.tolist(), positions.tolist(), strict=True))


WORDS_OF_ALL_SIZES = [b"w%d" % i + b"-" * (i % 40) for i in range(20_000)]


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("n_words", [0, 1, 300, 8_000])
def test_merged_tables_are_one_of_all_words(threads: int, n_words: int) -> None:
    random_ = random.Random(threads + n_words)
    words = WORDS_OF_ALL_SIZES[:n_words]
    plain: dict[bytes, list[int]] = {}
    tables: list[WordTable] = []
    for number in range(5):
        chosen = {word: random_.randint(1, 9) for word in random_.sample(words, n_words * number // 5)}
        positions = np.array([random_.randrange(1 << 40) for _ in chosen], dtype=np.uint64)
        tables.append(WordTable(random_.choice([0, 1 << 16])))
        tables[-1].add_arrays(
            b"".join(chosen), compute_offsets([*map(len, chosen)]), np.array([*chosen.values()], np.int64), positions
        )
        for (word, count), position in zip(chosen.items(), positions.tolist(), strict=True):
            total, first = plain.get(word, [0, 1 << 62])
            plain[word] = [total + count, min(first, position)]
    team = Team(threads)
    with team_threads(team):
        merge_tables(tables[-1], tables[:-1], team)
    expected = sorted(((word, *numbers) for word, numbers in plain.items()), key=lambda row: row[2])
    assert list_counts(tables[-1]) == list_counts(tables[-1], threads=3) == expected
    assert len(tables[-1]) == len(plain)
    assert tables[-1].total == sum(count for count, _ in plain.values())
    assert [tables[-1].get(word) for word in words] == [plain.get(word, [0])[0] for word in words]


def test_too_high_counts_and_parts_that_do_not_exist_are_refused() -> None:
    word = b"low", compute_offsets([3]), np.array([2**62]), np.zeros(1, dtype=np.uint64)
    table, other = WordTable(), WordTable()
    for part, parts in ((0, 0), (0, 3), (4, 4)):
        with pytest.raises(ValueError, match=f"part is {part} of {parts}"):
            list_words(table, Team(1), part, parts)
    table.add_arrays(*word)
    other.add_arrays(*word)
    with pytest.raises(ValueError, match=r"more than 2\*\*63 - 1"):
        merge_tables(table, [other], Team(1))


def test_words_are_listed_by_position_whatever_the_threads() -> None:
    random_ = random.Random(3)
    for largest in (1 << 8, 1 << 20, 1 << 62):
        positions = [random_.randrange(largest) * len(WORDS_OF_ALL_SIZES) + i for i in range(len(WORDS_OF_ALL_SIZES))]
        positions = [position % (1 << 63) for position in positions]
        table = WordTable()
        table.add_arrays(
            b"".join(WORDS_OF_ALL_SIZES),
            compute_offsets([*map(len, WORDS_OF_ALL_SIZES)]),
            np.ones(len(positions), np.int64),
            np.array(positions, dtype=np.uint64),
        )
        listed = list_counts(table)
        assert [row[2] for row in listed] == sorted(positions)
        assert {row[0]: row[2] for row in listed} == dict(zip(WORDS_OF_ALL_SIZES, positions, strict=True))
        assert list_counts(table, 2) == list_counts(table, 16) == listed
