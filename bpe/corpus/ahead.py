"""Reading ahead: a thread makes the next items while the caller uses the present one.

Not here: what is read (`streams.py`, `columnar.py`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

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
    import threading

    changed = threading.Condition()
    ready: deque[Item] = deque()
    errors: list[BaseException] = []
    waiting, stopped, ended = 0, False, False
    process = os.getpid()

    def make() -> bool:
        """Make one item and append it; False at the end."""
        nonlocal waiting
        try:
            item = next(items)
        except StopIteration:
            return False
        with changed:
            while waiting >= most and not stopped:
                changed.wait()
            if stopped:
                return False
            ready.append(item)
            waiting += size(item)
            changed.notify_all()
        return True

    def run() -> None:
        nonlocal ended
        try:
            while make():
                pass
        except BaseException as error:  # noqa: BLE001 (raised below, in the caller's thread)
            errors.append(error)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            with changed:
                ended = True
                changed.notify_all()

    thread = threading.Thread(target=run, name="bpe_reader", daemon=True)
    thread.start()
    try:
        while True:
            if os.getpid() != process:
                raise RuntimeError(
                    "these sources were being read when the process forked; read them again in the child"
                )
            with changed:
                while not ready and not ended:
                    changed.wait()
                if not ready:
                    break
                item = ready.popleft()
                waiting -= size(item)
                changed.notify_all()
            yield item
            del item
    finally:
        if os.getpid() == process:
            with changed:
                stopped = True
                ready.clear()
                changed.notify_all()
            thread.join()
    if errors:
        raise errors[0]
