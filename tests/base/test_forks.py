"""Locks and cached properties in forked processes."""

from __future__ import annotations

import functools
import os
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import bpe
from bpe.base import forks

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


class Owner:
    """An object with a lock."""

    def __init__(self, lost: str = "") -> None:
        self._lock = forks.make_lock(self, lost)


def in_child(work: Callable[[], bool]) -> bool:
    """What a forked process finds."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        right = False
        try:
            right = work()
        finally:
            os._exit(0 if right else 1)
    return os.waitpid(pid, 0)[1] == 0


def held_elsewhere(lock: Any, seconds: float | None) -> tuple[threading.Thread, threading.Event]:
    """A thread that holds a lock, for some time or until the event is set."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    return thread, done


def usable(owner: Any) -> bool:
    with owner._lock:
        return True


def test_a_fork_waits_for_locks() -> None:
    owner = Owner("lost")
    thread, _ = held_elsewhere(owner._lock, 0.2)
    assert in_child(lambda: usable(owner))
    thread.join()
    assert usable(owner)


def test_threads_that_fork_at_once_release_their_own_locks() -> None:
    """One that ended its fork released what another had acquired for its own, and then nobody released the rest."""
    owner, ready, go = Owner(), threading.Event(), threading.Event()

    def fork() -> None:
        forks._acquire_locks()
        ready.set()
        go.wait()
        forks._release_locks()

    thread = threading.Thread(target=fork)
    thread.start()
    ready.wait()
    forks._release_locks()
    assert not owner._lock.acquire(blocking=False)
    go.set()
    thread.join()
    assert usable(owner)
    assert forks._acquired_locks == {}


def test_a_lock_that_stays_held_is_new_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "FORK_TIMEOUT_SECONDS", 0.1)
    owner, other = Owner(), Owner("it is half changed")
    thread, done = held_elsewhere(owner._lock, None)
    thread_2, done_2 = held_elsewhere(other._lock, None)

    def work() -> bool:
        for _ in range(2):  # in the child of the child too
            with pytest.raises(RuntimeError, match="it is half changed"):
                usable(other)
            if not (usable(owner) and in_child(lambda: usable(owner))):
                return False
        with pytest.raises(RuntimeError, match="it is half changed"):
            usable(other)
        return True

    assert in_child(work)
    done.set()
    done_2.set()
    thread.join()
    thread_2.join()
    assert usable(owner)
    assert usable(other)


def test_a_thread_may_fork_with_the_lock() -> None:
    owner = Owner("lost")
    with owner._lock:
        assert in_child(lambda: usable(owner))
    assert usable(owner)


def test_counts_that_another_thread_never_finishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "FORK_TIMEOUT_SECONDS", 0.1)
    counts = bpe.WordCounts()
    thread, done = held_elsewhere(counts._lock, None)

    def work() -> bool:
        with pytest.raises(RuntimeError, match="another thread was changing these counts while the process was forked"):
            counts.add("low")
        return True

    assert in_child(work)
    done.set()
    thread.join()
    counts.add("low")
    assert counts["low"] == 1


def test_owners_are_forgotten() -> None:
    owners = [Owner() for _ in range(100)]
    keys = {id(owner) for owner in owners}
    assert keys <= forks._owners.keys()
    del owners
    assert all(reference() is not None for reference, _ in forks._owners.values())


def test_cached_properties_have_one_value_and_no_lock() -> None:
    both = threading.Barrier(2)

    class Thing:
        @forks.cached_property
        def value(self) -> object:
            """A value."""
            both.wait(10)
            return object()

    thing, actual = Thing(), list[object]()
    threads = [threading.Thread(target=lambda: actual.append(thing.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert actual[0] is actual[1] is thing.value
    assert isinstance(Thing.value, functools.cached_property)
    assert Thing.value.__doc__ == "A value."


def test_other_locks_belong_to_one_call(request: pytest.FixtureRequest) -> None:
    """The lock of an object that outlives a call must be one of `make_lock`."""
    folder = request.config.rootpath / "bpe"
    wanted = re.compile(r"\b(?:R?Lock|Condition|Semaphore|Event|Queue)\(\)")
    actual = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if wanted.search(path.read_text("utf-8"))}
    of_calls = {"base/threads.py", "count/counting.py", "count/spilling.py", "evaluation/tallying.py"}
    of_shards_while_they_are_written = {"data/formats/columns.py"}
    assert actual == of_calls | of_shards_while_they_are_written | {"base/forks.py"}


def test_all_cached_properties_are_these(request: pytest.FixtureRequest) -> None:
    """Before Python 3.12, those of `functools` hold a lock while they are computed."""
    folder = request.config.rootpath / "bpe"
    actual = [
        str(path)
        for path in folder.rglob("*.py")
        if path.name != "forks.py" and "cached_property" in path.read_text(encoding="utf-8").partition("from bpe")[0]
    ]
    assert actual == []
