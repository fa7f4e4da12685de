"""Work in one other thread, a bounded number of items behind the caller; its errors reach the caller at once.

Not here: threads that share work (`bpe/base/threads.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Background(Generic[Item]):
    """Calls `work(item)` in another thread for each item that is put, in order, one at a time.

    Use it as a context manager: at the end of the block no work is running, and items that have not begun are dropped.
    After an error no further item is begun.

    Args:
        work: the function.
        ahead: how many items may wait besides the one that is being worked on.

    """

    def __init__(self, work: Callable[[Item], None], ahead: int = 1) -> None:
        self._work, self._ahead = work, ahead
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bpe_writer")
        self._pending: deque[Future[None]] = deque()
        self._failed = False

    def put(self, item: Item) -> None:
        """Hand over an item; waits while too many are pending. Raises the error of an earlier item."""
        self.check()
        while len(self._pending) > self._ahead:
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(self._run, item))

    def check(self) -> None:
        """Raise the error of an earlier item, if there is one. Only one thread may call this or `put` at a time."""
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()

    def wait(self) -> None:
        """Wait until all items are done."""
        while self._pending:
            self._pending.popleft().result()

    def _run(self, item: Item) -> None:
        if self._failed:
            return
        try:
            self._work(item)
        except BaseException:
            self._failed = True
            raise

    def __enter__(self) -> Background[Item]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for future in self._pending:
            future.cancel()
        self._failed = True
        self._pool.shutdown(wait=True)
