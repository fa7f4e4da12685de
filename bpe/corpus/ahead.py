"""Reading ahead: a thread makes the next items while the caller uses the present one."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

from bpe.base._team import Crew

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
    with Crew(reader.run, 1, reader.stop, name="bpe_reader", daemon=True):
        while found := reader.take():
            yield found.pop()
            if os.getpid() != process:
                raise RuntimeError(
                    "these sources were being read when the process forked; read them again in the child"
                )
    if reader.errors:
        raise reader.errors[0]


class _Reader(Generic[Item]):
    """The thread's work, and the items that wait."""

    def __init__(self, items: Iterator[Item], size: Callable[[Item], int], most: int) -> None:
        self._items, self._size, self._most = items, size, most
        self._ready: SimpleQueue[list[Item]] = SimpleQueue()  # one item each; an empty list at the end
        self._taken: SimpleQueue[int] = SimpleQueue()  # their sizes
        self._stopped = False
        self.errors: list[BaseException] = []

    def take(self) -> list[Item]:
        """The next item, in a list; an empty list at the end."""
        found = self._ready.get()
        if found:
            self._taken.put(self._size(found[0]))
        return found

    def stop(self) -> None:
        """Make the thread end after the item that it is making."""
        self._stopped = True
        self._taken.put(self._most)

    def run(self, _: int) -> None:
        """Make items until they end, or until `stop`."""
        waiting = 0
        try:
            for item in self._items:
                while waiting >= self._most and not self._stopped:
                    waiting -= self._taken.get()
                if self._stopped:
                    break
                waiting += self._size(item)
                self._ready.put([item])
                del item
        except BaseException as error:  # noqa: BLE001 (raised in the caller's thread)
            self.errors.append(error)
        finally:
            self._close()
            self._ready.put([])

    def _close(self) -> None:
        """Close a generator; its error is one more of the iterator."""
        try:
            if (close := getattr(self._items, "close", None)) is not None:
                close()
        except BaseException as error:  # noqa: BLE001 (as above)
            self.errors.append(error)
