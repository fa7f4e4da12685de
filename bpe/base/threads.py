"""Threads of a call: how many it uses, and running its parts on them.

Threads are started per call and joined before it returns. There is no pool, because a fork would not copy its threads.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from bpe.errors import check_int

if TYPE_CHECKING:
    from concurrent.futures import Future

    from bpe.base._team import Team

Part = TypeVar("Part")
Result = TypeVar("Result")


def thread_count(threads: int | None) -> int:
    """The argument `threads` as a number: None means one per available core, or one inside a worker process.

    Worker processes are those that `multiprocessing`, its fork `multiprocess` (Hugging Face datasets) or a PyTorch
    DataLoader started: their siblings use the other cores.
    """
    if threads is not None:
        return check_int("threads", threads, 1, 4096)
    if _in_child_process() or _in_data_loader_worker():
        return 1
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _in_child_process() -> bool:
    loaded: list[Any] = [sys.modules.get(f"{name}.process") for name in ("multiprocessing", "multiprocess")]
    return any(process.parent_process() is not None for process in loaded if process is not None)


def _in_data_loader_worker() -> bool:
    worker: Any = sys.modules.get("torch.utils.data._utils.worker")  # loaded only if PyTorch is; never imported here
    return worker is not None and worker.get_worker_info() is not None


def in_order(work: Callable[[Part], Result], parts: Iterable[Part], threads: int) -> Iterator[Result]:
    """Yield `work(part)` for each part, in order, with at most `2 * threads` parts in flight.

    The first exception is raised. With one thread, everything runs in the caller's thread.
    """
    if threads == 1:
        yield from map(work, parts)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="bpe") as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for part in parts:
                waiting.append(pool.submit(work, part))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def shared_out(work: Callable[[Part], Result], parts: Iterable[Part], threads: int) -> Generator[Result, None, None]:
    """Yield `work(part)` for each part as it completes, from this thread and `threads - 1` others.

    A free thread takes the next part, so any thread may iterate `parts`, under a lock. Of several exceptions, that of
    the first part is raised. This thread works too, because one that only waited would still compete for a core.
    """
    import threading

    lock = threading.Lock()
    remaining = enumerate(parts)
    done: deque[Result] = deque()
    errors: list[tuple[int, BaseException]] = []

    def run_next() -> bool:
        number = sys.maxsize  # an error of `parts` itself ranks after the errors of all parts
        try:
            with lock:
                if errors:
                    return False
                number, part = next(remaining, (-1, None))
            if number >= 0:
                done.append(work(part))  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 (raised below, in the caller's thread)
            errors.append((number, error))
            return False
        return number >= 0

    def run_all() -> None:
        while run_next():
            pass

    started: list[threading.Thread] = []
    try:
        for number in range(1, threads):
            thread = threading.Thread(target=run_all, name=f"bpe_{number}")
            thread.start()
            started.append(thread)
        while run_next():
            while done:
                yield done.popleft()
    finally:
        with lock:
            remaining = enumerate(())
        for thread in started:
            thread.join()
    if errors:
        raise min(errors, key=lambda error: error[0])[1]
    yield from done


def together(work: Callable[[], None], threads: int, stop: Callable[[], None]) -> None:
    """Call `work` in this thread and in `threads - 1` others, and wait for all; the first exception is raised.

    `stop` is called at the first exception (KeyboardInterrupt included); it must make every `work` return soon.
    """
    import threading

    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised below, in the caller's thread)
            errors.append(error)
            stop()

    others: list[threading.Thread] = []
    try:
        for number in range(1, threads):
            thread = threading.Thread(target=guarded, name=f"bpe_{number}")
            thread.start()
            others.append(thread)
        guarded()
        for thread in others:
            thread.join()
    except BaseException as error:  # noqa: BLE001 (as above)
        errors.insert(0, error)
        stop()
        for thread in others:
            thread.join()
    if errors:
        raise errors[0]


@contextmanager
def helped(*teams: Team) -> Iterator[None]:
    """Inside the block, `team.size - 1` threads wait for parts of each team's jobs."""
    import threading

    started: list[tuple[Team, int, threading.Thread]] = []
    try:
        for team in teams:
            for part in range(1, team.size):
                thread = threading.Thread(target=team.help, args=(part,), name=f"bpe_{part}")
                thread.start()
                started.append((team, part, thread))
        yield
    finally:
        for team, part, _ in started:
            team.dismiss(part)
        for *_, thread in started:
            thread.join()
