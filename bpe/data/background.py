"""Work in one other thread, a bounded number of items behind the caller; its errors reach the caller at once.

Threads that share work: `bpe/base/threads.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from bpe.base._team import Outcome
from bpe.base.threads import Workers

Item = TypeVar("Item")


class Background(Workers, Generic[Item]):
    """Calls `work(item)` in another thread for each item that is put, in order, one at a time.

    Use it as a context manager: at the end of the block no work is running, and items that have not begun are dropped.
    After an error no further item is begun.

    Args:
        work: the function.
        ahead: how many items may wait besides the one that is being worked on.

    """

    def __init__(self, work: Callable[[Item], None], ahead: int = 1) -> None:
        super().__init__(1, name="bpe_writer")
        self._work, self._ahead = work, ahead
        self._pending: deque[Outcome[None]] = deque()
        self._failed = False

    def put(self, item: Item) -> None:
        """Hand over an item; waits while too many are pending. Raises the error of an earlier item."""
        self.check()
        while len(self._pending) > self._ahead:
            self._pending.popleft().result()
        self._pending.append(self.submit(self._run, item))

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
