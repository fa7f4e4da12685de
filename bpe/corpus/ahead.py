"""Reading ahead: a thread makes the next items while the caller uses the present one.

Not here: what is read (`streams.py`, `columnar.py`).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item], size: Callable[[Item], int], most: int) -> Generator[Item, None, None]:
    """Yield the items of an iterator, which a thread advances ahead of the caller.

    The thread starts with the first item. It ends when the items end, and soon after the generator is closed: at most
    one more item is made. An exception of the iterator reaches the caller after the items before it. The thread is a
    daemon, so that a generator that is never closed does not keep the process alive; in a forked child, which has no
    copy of the thread, the generator ends with an error instead of waiting forever.

    Args:
        items: the iterator, used by the thread only; a generator is closed there too.
        size: the size of an item in bytes.
        most: the thread pauses while the items that wait have this many bytes.

    """
    process = os.getpid()
    reader = _Reader(items, size, most)
    reader.start()
    try:
        while True:
            if os.getpid() != process:
                raise RuntimeError(
                    "these sources were being read when the process forked; read them again in the child"
                )
            found = reader.take()
            if not found:
                break
            yield found.pop()
    finally:
        if os.getpid() == process:
            reader.stop()
    if reader.errors:
        raise reader.errors[0]


class _Reader(Generic[Item]):
    """The thread, and the items that wait."""

    def __init__(self, items: Iterator[Item], size: Callable[[Item], int], most: int) -> None:
        self._items, self._size, self._most = items, size, most
        self._changed = threading.Condition()
        self._ready: deque[Item] = deque()
        self._waiting, self._stopped, self._ended = 0, False, False
        self._thread = threading.Thread(target=self._run, name="bpe_reader", daemon=True)
        self.errors: list[BaseException] = []

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def take(self) -> list[Item]:
        """The next item, in a list; an empty list at the end."""
        with self._changed:
            while not self._ready and not self._ended:
                self._changed.wait()
            if not self._ready:
                return []
            item = self._ready.popleft()
            self._waiting -= self._size(item)
            self._changed.notify_all()
        return [item]

    def stop(self) -> None:
        """Let the thread end, and wait for that."""
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._make():
                pass
        except BaseException as error:  # noqa: BLE001 (raised in the caller's thread)
            self.errors.append(error)
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _make(self) -> bool:
        """Make one item and append it; False at the end."""
        try:
            item = next(self._items)
        except StopIteration:
            return False
        with self._changed:
            while self._waiting >= self._most and not self._stopped:
                self._changed.wait()
            if self._stopped:
                return False
            self._ready.append(item)
            self._waiting += self._size(item)
            self._changed.notify_all()
        return True
