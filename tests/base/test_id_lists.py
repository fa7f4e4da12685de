"""Ids as lists of int, whose objects exist before."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from bpe.base._id_lists import as_array, as_list, as_lists, keep_ints

#: Ints that are kept, at most.
MOST = 1 << 19


@pytest.mark.parametrize("ids", [[], [0], [299, 0, 5, 5], [599, 600, 2**32 - 1], [MOST - 1], [MOST, 1]])
@pytest.mark.parametrize("limit", [-1, 0, 600, 2**40])
def test_ints_are_those_of_the_array(ids, limit) -> None:
    keep_ints(limit)
    actual = as_list(np.array(ids, dtype=np.uint32))
    assert actual == ids
    assert set(map(type, actual)) <= {int}


def test_every_kept_int_is_as_any_other() -> None:
    keep_ints(MOST)
    numbers, ids = list(range(MOST)), as_list(np.arange(MOST, dtype=np.uint32))
    assert ids == numbers
    assert list(map(hash, ids)) == list(map(hash, numbers))
    assert [-number for number in ids] == [-number for number in numbers]
    assert list(map(int.bit_length, ids)) == list(map(int.bit_length, numbers))
    assert set(map(sys.getsizeof, ids[1:])) == {sys.getsizeof(1)}
    assert pickle.dumps(ids) == pickle.dumps(numbers)
    assert pickle.loads(pickle.dumps(ids)) == copy.deepcopy(ids) == numbers
    assert dict.fromkeys(ids) == dict.fromkeys(numbers)
    assert f"{ids[70_000]:,}" == "70,000"


@given(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 2 * MOST) | st.integers(0, 300), max_size=40))
@examples(45)
def test_lists_of_any_ids(ids) -> None:
    array = np.array(ids, dtype=np.uint32)
    assert as_list(array) == ids
    assert as_array(ids).tolist() == as_array(as_list(array)).tolist() == ids


def test_kept_ints_stay_when_their_lists_are_freed() -> None:
    keep_ints(300)
    ids = np.array([5, 299] * 500, dtype=np.uint32)
    last = as_list(ids)[-1]
    for _ in range(1000):
        assert len(as_list(ids)) == 1000
    gc.collect()
    assert as_list(ids)[-1] is last
    assert last == 299


def test_ints_that_are_not_kept_are_freed_with_their_list() -> None:
    actual = as_list(np.array([2**32 - 1, 2**32 - 2], dtype=np.uint32))
    number = actual[0]
    before = sys.getrefcount(number)
    del actual
    assert sys.getrefcount(number) == before - 1


def test_ints_are_kept_by_several_threads_at_once() -> None:
    """In a new process, where none are kept; each list is right, whatever another thread has made so far."""
    code = """if True:
        import threading
        import numpy as np
        from bpe.base._id_lists import as_list, keep_ints
        wrong, start = [], threading.Barrier(8)
        def keep(n):
            ids = np.arange(n, dtype=np.uint32)
            start.wait()
            keep_ints(n)
            if as_list(ids) != ids.tolist():
                wrong.append(n)
        threads = [threading.Thread(target=keep, args=(1000 * n,)) for n in (1, 9, 3, 7, 5, 2, 8, 4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(wrong)
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
    with ThreadPoolExecutor(4) as pool:
        ids = np.arange(5000, dtype=np.uint32)
        assert list(pool.map(as_list, [ids] * 200)) == [ids.tolist()] * 200


def test_the_garbage_collector_does_not_visit_lists_of_ids() -> None:
    """They are as other lists in all else, while it collects too."""
    lists = [as_list(np.array([5, 3, 5], dtype=np.uint32)) for _ in range(2000)]
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
    assert as_lists(ids, offsets) == [[0, 1], [], [2, 3, 4, 5]]
    assert as_lists(ids[:0], offsets[:1]) == []


@pytest.mark.parametrize("offsets", [[0, 7], [-1, 2], [3, 2], [0, 4, 2**62]])
def test_offsets_outside_the_ids_are_refused(offsets) -> None:
    with pytest.raises(ValueError, match="of 6 ids"):
        as_lists(np.arange(6, dtype=np.uint32), np.array(offsets, dtype=np.int64))


@pytest.mark.parametrize(
    "ids", [np.zeros(3, dtype=np.int64), np.zeros((2, 2), dtype=np.uint32), np.zeros(6, dtype=np.uint32)[::2]]
)
def test_other_arrays_are_refused(ids) -> None:
    with pytest.raises(TypeError, match="must be uint32, 1-D and contiguous"):
        as_list(ids)
    with pytest.raises(TypeError):
        as_list([1])  # type: ignore[arg-type]


def test_lists_of_int_are_arrays() -> None:
    for ids in ([], [0], [5, 2**32 - 1, 7]):
        actual = as_array(ids)
        assert actual.dtype == np.uint32
        assert actual.tolist() == ids
    for bad in ([True], [1.0], ["a"], [np.uint32(1)], [None]):
        with pytest.raises(TypeError, match=r"id 0 is .*; it must be int"):
            as_array(bad)  # type: ignore[arg-type]
    for number in (-1, 2**32, 2**70, -(2**70)):
        with pytest.raises(OverflowError):
            as_array([0, number])
