"""Threads of a call: how many it uses, and running its parts on them.

Threads are started per call and joined before it returns (`_team.pyx`). There is no pool, because a fork would not copy
its threads.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from bpe.base._team import Crew, Outcome, Team, dismiss
from bpe.errors import MAX_THREADS, check_int

Part = TypeVar("Part")
Result = TypeVar("Result")


def resolve_threads(threads: int | None) -> int:
    """Convert the argument `threads` to a number: None means one per available core, or one inside a worker process.

    Worker processes are those that `multiprocessing`, its fork `multiprocess` (Hugging Face datasets) or a PyTorch
    DataLoader started: their siblings use the other cores.
    """
    if threads is not None:
        return check_int("threads", threads, 1, MAX_THREADS)
    if _in_child_process() or _in_data_loader_worker():
        return 1
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _in_child_process() -> bool:
    process_modules: list[Any] = [sys.modules.get(f"{name}.process") for name in ("multiprocessing", "multiprocess")]
    return any(module.parent_process() is not None for module in process_modules if module is not None)


def _in_data_loader_worker() -> bool:
    worker: Any = sys.modules.get("torch.utils.data._utils.worker")  # loaded only if PyTorch is; never imported here
    return worker is not None and worker.get_worker_info() is not None


class Workers(Crew):
    """Threads that do what `submit` gives them; when the block ends, work that has not begun is dropped."""

    def __init__(self, threads: int, *, name: str = "bpe") -> None:
        from queue import SimpleQueue

        self._jobs: SimpleQueue[tuple[Outcome[Any], Callable[[Any], Any], Any] | None] = SimpleQueue()
        super().__init__(self._do_jobs, threads, self._end_jobs, name=name)

    def submit(self, work: Callable[[Part], Result], part: Part) -> Outcome[Result]:
        """Have `work(part)` called in one of the threads, after what was submitted before has begun."""
        outcome: Outcome[Result] = Outcome()
        self._jobs.put((outcome, work, part))
        return outcome

    def _do_jobs(self, _: int) -> None:
        while (job := self._jobs.get()) is not None and not self.closed:
            outcome, work, part = job
            try:
                result = work(part)
            except BaseException as error:  # noqa: BLE001 (raised by `outcome.result`)
                outcome.set_exception(error)
            else:
                outcome.set_result(result)
            del job, outcome

    def _end_jobs(self) -> None:
        for _ in range(self.size):
            self._jobs.put(None)


def map_ordered(work: Callable[[Part], Result], parts: Iterable[Part], threads: int) -> Iterator[Result]:
    """Yield `work(part)` for each part, in order, with at most `2 * threads` parts in flight.

    The first exception is raised. With one thread, everything runs in the caller's thread.
    """
    if threads == 1:
        yield from map(work, parts)
        return
    with Workers(threads) as workers:
        outcomes: deque[Outcome[Result]] = deque()
        for part in parts:
            outcomes.append(workers.submit(work, part))
            if len(outcomes) >= 2 * threads:
                yield outcomes.popleft().result()
        while outcomes:
            yield outcomes.popleft().result()


def map_unordered(work: Callable[[Part], Result], parts: Iterable[Part], threads: int) -> Generator[Result, None, None]:
    """Yield `work(part)` for each part as it completes, from this thread and `threads - 1` others.

    A free thread takes the next part, so any thread may iterate `parts`, under a lock. Of several exceptions, that of
    the first part is raised, or of the first block where parts share a reader (`_find_first_error`). This thread works
    too, because one that only waited would still compete for a core.
    """
    lock = Lock()
    numbered_parts = enumerate(parts)
    results: deque[Result] = deque()
    errors: list[tuple[int, BaseException]] = []

    def run_next() -> bool:
        index = sys.maxsize  # an error of `parts` itself ranks after the errors of all parts
        try:
            with lock:
                if errors or crew.closed:
                    return False
                index, part = next(numbered_parts, (-1, None))
            if index >= 0:
                results.append(work(part))  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 (raised below, in the caller's thread)
            errors.append((index, error))
            return False
        return index >= 0

    def run_all(_: int) -> None:
        while run_next():
            pass

    crew = Crew(run_all, threads - 1)
    with crew:
        while run_next():
            while results:
                yield results.popleft()
        crew.join()
    if errors:
        raise _find_first_error(errors)
    yield from results


def _find_first_error(errors: Iterable[tuple[int, BaseException]]) -> BaseException:
    """Find the error of the first part.

    Several parts may take blocks of the same `FileReader` in any order; its errors have (its id, the block's index).
    """
    in_order = sorted(errors, key=lambda error: error[0])
    first = in_order[0][1]
    reader, index = getattr(first, "block_of_reader", (None, 0))
    for _, error in in_order[1:]:
        other_reader, other_index = getattr(error, "block_of_reader", (None, 0))
        if reader is not None and other_reader == reader and other_index < index:
            first, index = error, other_index
    return first


def run_threads(work: Callable[[], None], threads: int, stop: Callable[[], None]) -> None:
    """Call `work` in this thread and in `threads - 1` others, and wait for all; the first exception is raised.

    `stop` is called at the first exception (KeyboardInterrupt included) and when all is done; it must make every `work`
    return soon.
    """
    if threads == 1:
        work()
        return
    errors: list[BaseException] = []

    def run_and_keep_error(_: int) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised below, in the caller's thread)
            errors.append(error)
            stop()

    with Crew(run_and_keep_error, threads - 1, stop) as crew:
        run_and_keep_error(0)
        crew.join()
    if errors:
        raise errors[0]


def team_threads(*teams: Team) -> Crew:
    """Start `team.size - 1` threads for each team, which take parts of its jobs until the block ends."""
    team_parts = [(team, part) for team in teams for part in range(1, team.size)]

    def help_team(index: int) -> None:
        team, part = team_parts[index - 1]
        team.help(part)

    return Crew(help_team, len(team_parts), partial(dismiss, teams))
