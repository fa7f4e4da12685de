"""Ids as lists of int taken from a table."""

from __future__ import annotations

import copy
import gc
import sys

import numpy as np
import pytest

from bpe.base._id_lists import as_array, as_list, as_lists

#: Not what a caller passes: it shows what is taken from the table.
NUMBERS = (*range(1000, 1300), *range(300))


@pytest.mark.parametrize("ids", [[], [0], [299, 0, 5, 5], [599, 600, 2**32 - 1]])
def test_numbers_are_taken_from_the_table_or_made(ids) -> None:
    array = np.array(ids, dtype=np.uint32)
    assert as_list(array, NUMBERS) == [NUMBERS[i] if i < 600 else i for i in ids]
    assert as_list(array, ()) == array.tolist() == as_list(array, tuple(range(10**6)))


def test_references_are_counted() -> None:
    number = 10**6
    before = sys.getrefcount(number)
    found = as_list(np.zeros(1000, dtype=np.uint32), (number,))
    assert sys.getrefcount(number) >= before + 1000
    del found
    gc.collect()
    assert sys.getrefcount(number) == before


def test_the_garbage_collector_does_not_visit_lists_of_ids() -> None:
    """They are as other lists in all else, while it collects too."""
    lists = [as_list(np.array([5, 3, 5], dtype=np.uint32), tuple(range(8))) for _ in range(2000)]
    assert not any(map(gc.is_tracked, lists))
    lists[0] += [[1], 2]
    lists[1].sort()
    lists[2].clear()
    gc.collect()
    assert lists[:3] == [[5, 3, 5, [1], 2], [3, 5, 5], []]
    assert copy.deepcopy(lists[0]) == lists[0]


def test_rows() -> None:
    ids = np.arange(6, dtype=np.uint32)
    offsets = np.array([0, 2, 2, 6], dtype=np.int64)
    assert as_lists(ids, offsets, tuple(range(10))) == [[0, 1], [], [2, 3, 4, 5]]
    assert as_lists(ids[:0], offsets[:1], ()) == []


@pytest.mark.parametrize("offsets", [[0, 7], [-1, 2], [3, 2], [0, 4, 2**62]])
def test_offsets_outside_the_ids_are_refused(offsets) -> None:
    with pytest.raises(ValueError, match="of 6 ids"):
        as_lists(np.arange(6, dtype=np.uint32), np.array(offsets, dtype=np.int64), ())


@pytest.mark.parametrize(
    "ids", [np.zeros(3, dtype=np.int64), np.zeros((2, 2), dtype=np.uint32), np.zeros(6, dtype=np.uint32)[::2]]
)
def test_other_arrays_are_refused(ids) -> None:
    with pytest.raises(TypeError, match="must be uint32, 1-D and contiguous"):
        as_list(ids, ())
    with pytest.raises(TypeError):
        as_list([1], ())  # type: ignore[arg-type]


def test_lists_of_int_are_arrays() -> None:
    for ids in ([], [0], [5, 2**32 - 1, 7]):
        found = as_array(ids)
        assert found.dtype == np.uint32
        assert found.tolist() == ids
    for bad in ([True], [1.0], ["a"], [np.uint32(1)], [None]):
        with pytest.raises(TypeError, match=r"id 0 is .*; it must be int"):
            as_array(bad)  # type: ignore[arg-type]
    for number in (-1, 2**32, 2**70, -(2**70)):
        with pytest.raises(OverflowError):
            as_array([0, number])
