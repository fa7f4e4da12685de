"""A crew leaves no thread behind, whatever exception ends its block, and whenever a signal handler raises one."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from bpe.base._team import Crew, Team
from bpe.base.threads import Workers, map_ordered, map_unordered, run_threads, team_threads
from bpe.corpus.streams import read_ahead


class Interrupt(BaseException):
    """The exception of a signal handler."""


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    deadline = time.monotonic() + 60
    while any(thread.name.startswith("bpe") and thread.is_alive() for thread in threading.enumerate()):
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.001)


def interrupt_start(monkeypatch: pytest.MonkeyPatch, number: int, *, before: bool) -> None:
    """Make the start of a thread end with an exception, before or after the thread is started."""
    start, started = threading.Thread.start, []

    def interrupted(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) != number:
            start(thread)
            return
        if not before:
            start(thread)
        raise Interrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)


def share_out(work: Callable[[int], int]) -> list[int]:
    return sorted(map_unordered(work, range(20), 4))


def map_in_order(work: Callable[[int], int]) -> list[int]:
    return list(map_ordered(work, range(20), 4))


def work_together(work: Callable[[int], int]) -> list[int]:
    remaining, done = iter(range(20)), []
    run_threads(lambda: done.extend(map(work, remaining)), 4, lambda: None)
    return sorted(done)


def help_teams(work: Callable[[int], int]) -> list[int]:
    with team_threads(Team(3), Team(2)):
        return [work(part) for part in range(20)]


CALLS = [share_out, map_in_order, work_together, help_teams]


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("call", CALLS)
def test_an_exception_while_a_thread_starts(
    call: Callable[[Callable[[int], int]], list[int]], number: int, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_start(patch, number, before=before)
        with pytest.raises(Interrupt):
            call(abs)
    assert call(abs) == list(range(20))


def test_an_error_of_threading_after_an_interrupt_is_raised_as_the_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its conditions raise RuntimeError where a handler's exception ends a wait."""

    def interrupted(_: threading.Thread) -> None:
        try:
            raise Interrupt
        finally:
            raise RuntimeError("release unlocked lock")

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    try:
        raise ValueError("an exception that is being handled already")
    except ValueError:
        with pytest.raises(Interrupt):
            share_out(abs)


@pytest.mark.parametrize("call", CALLS)
def test_an_exception_in_the_callers_thread_and_one_more_while_it_waits(
    call: Callable[[Callable[[int], int]], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one arrives while the threads of the block are joined, as by an impatient second Ctrl-C."""
    join, running, interrupts = threading.Thread.join, set[int](), iter(range(3))

    def interrupted(thread: threading.Thread) -> None:
        if next(interrupts, None) is not None:
            raise Interrupt
        join(thread)

    def work(part: int) -> int:
        running.add(part)
        if threading.current_thread() is threading.main_thread():
            raise Interrupt
        time.sleep(0.01)
        running.remove(part)
        return part

    monkeypatch.setattr(threading.Thread, "join", interrupted)

    def work_or_fail(
        part: int,
    ) -> int:  # the caller's thread does no part of `map_in_order`: the first part fails there
        if part == 0:
            raise Interrupt
        return work(part)

    with pytest.raises(Interrupt):
        call(work_or_fail if call is map_in_order else work)
    running.discard(min(running, default=0))  # what the caller's own thread was doing
    assert not running


def test_a_thread_with_an_identifier_that_has_not_started_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Thread.start` was interrupted just there; `join` is an error then, which hid the interrupt."""

    def interrupted(thread: threading.Thread) -> None:
        thread._ident = 1  # type: ignore[attr-defined]
        raise Interrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(Interrupt), Crew(lambda _: None, 2):
        pass


def test_the_result_of_work_is_waited_for_in_no_python_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler's exception in Python's `Future` left its lock acquired, and the other thread waited for ever."""
    monkeypatch.setattr(threading.Condition, "__enter__", None)
    assert map_in_order(abs) == list(range(20))


@pytest.mark.parametrize("call", CALLS)
def test_starting_a_thread_waits_in_no_python_code(
    call: Callable[[Callable[[int], int]], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler's exception there left a lock acquired, so that the new thread never began, nor the process ended."""

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        event._cond.acquire()  # type: ignore[attr-defined]
        raise Interrupt

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    assert call(abs) == list(range(20))


@pytest.mark.skipif(sys.version_info < (3, 13), reason="before, none is asked: test_interrupts.py")
def test_a_handlers_exception_in_a_property_of_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of `threading.Thread` are Python code, in which a handler may run while the crew ends."""
    inside, left = threading.Event(), threading.Event()
    ident, is_alive = threading.Thread.ident.fget, threading.Thread.is_alive  # type: ignore[attr-defined]
    raised: list[str] = []

    def once(name: str, read: Callable[[threading.Thread], object]) -> Callable[[threading.Thread], object]:
        def method(thread: threading.Thread) -> object:
            if threading.current_thread() is threading.main_thread() and inside.is_set() and name not in raised:
                raised.append(name)
                raise Interrupt
            return read(thread)

        return method

    def work(_: int) -> None:
        inside.set()
        stopped.wait()
        time.sleep(0.05)
        left.set()

    stopped = threading.Event()

    def call() -> None:
        with Crew(work, 1, stopped.set):
            inside.wait()
            monkeypatch.setattr(threading.Thread, "ident", property(once("ident", ident)))
            monkeypatch.setattr(threading.Thread, "is_alive", once("is_alive", is_alive))

    with pytest.raises(Interrupt):
        call()
    assert left.is_set()


def test_a_thread_that_starts_late_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[int] = []
    crew = Crew(entered.append, 2)
    interrupt_start(monkeypatch, 1, before=True)
    with pytest.raises(Interrupt), crew:
        pass
    crew.enter(1)
    assert crew.closed
    assert entered == []


def test_stop_is_called_again_where_a_handler_ends_it() -> None:
    ended, calls = threading.Event(), iter(range(3))

    def stop() -> None:
        if next(calls, None) is not None:
            raise Interrupt
        ended.set()

    with pytest.raises(Interrupt), Crew(lambda _: ended.wait() and None, 2, stop):
        pass


def test_workers_drop_what_has_not_begun() -> None:
    begun, release = [], threading.Event()

    def work(part: int) -> None:
        begun.append(part)
        release.wait()

    with Workers(1) as workers:
        futures = [workers.submit(work, part) for part in range(5)]
        while not begun:
            time.sleep(0.001)
        threading.Timer(0.01, release.set).start()
    assert begun == [0]
    assert not futures[1].done()


def test_a_generator_that_a_helper_closes_waits_for_nobody() -> None:
    """The garbage collector may close it in any thread."""
    generators = []

    def work(part: int) -> int:
        if threading.current_thread() is not threading.main_thread() and generators:
            try:
                generators[0].close()
            except ValueError:  # the main thread is in it
                return part
        time.sleep(0.001)
        return part

    generators.append(map_unordered(work, range(200), 3))
    for _ in generators[0]:
        time.sleep(0.002)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    items = read_ahead(iter(range(100)), lambda _: 1, 3)
    shared = map_unordered(lambda part: time.sleep(0.001) or part, range(100), 3)
    assert next(items) == 0
    next(shared)
    child = os.fork()
    if child == 0:
        try:
            shared.close()
            items.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list(items) == list(range(1, 100))
    shared.close()
