"""Objects that a forked process can use, whatever other threads did with them while it was forked.

A forked process has a copy of one thread. A lock that another one held stays held in it for ever, and what the lock
guards may be half changed. So before a fork, the locks that `make_lock` makes are acquired: the other threads finish
what they are doing, and the child finds every object whole. The wait has an end, since a thread may wait for the one
that forks. A lock that another thread still holds then is a new one in the child, or an error if the object may be
half changed.

`cached_property` has no lock at all: before Python 3.12, that of `functools` has one for all objects of a class.

What changes in one atomic step needs no lock, such as the kernels' table of words (`bpe/encode/_word_table.h`).
"""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property", "make_lock"]

#: How many seconds a fork waits for all locks.
FORK_TIMEOUT_SECONDS = 2.0

#: The owner of each lock, and what the child raises if the owner may be half changed; by the owner's `id`.
_owners: dict[int, tuple[weakref.ref[Any], str]] = {}
#: The locks that each forking thread has acquired, by the thread's identifier: several may fork at once.
_acquired_locks: dict[int, list[Any]] = {}

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801  # a name that everyone knows
        """An attribute that is computed at its first use, without a lock: several threads may compute it, and all get
        the value of the first that is done.
        """

        def __get__(self, instance, owner=None):
            """Return the value, which is kept in the object's `__dict__`."""
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))


def make_lock(owner: Any, lost_message: str = "") -> Any:
    """Make a reentrant lock for an object or a module, which keeps it as `_lock`.

    Args:
        owner: the object.
        lost_message: a forked process raises RuntimeError with this text where it takes the lock, if another thread
            held it during the fork all the time; "" if the object is whole at any time, so that the process has a new
            lock.

    """
    key = id(owner)
    # No Python code, in which a signal handler's exception would be lost: `pop` gets the reference as its default.
    _owners[key] = weakref.ref(owner, functools.partial(_owners.pop, key)), lost_message
    return threading.RLock()


class _LostLock:
    """The lock of an object that a forked process cannot use."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __enter__(self) -> None:
        raise RuntimeError(self._reason)

    def __exit__(self, *_: object) -> None:
        pass

    def acquire(self, **_: object) -> bool:
        """Return False: a process that is forked from this one cannot use the object either."""
        return False


def _acquire_locks() -> None:
    deadline = time.monotonic() + FORK_TIMEOUT_SECONDS
    # The latest first: code that holds a lock may use what existed before.
    for owner, _ in reversed(list(_owners.values())):
        lock = getattr(owner(), "_lock", None)
        if lock is not None and lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            _acquired_locks.setdefault(threading.get_ident(), []).append(lock)


def _release_locks() -> None:
    for lock in reversed(_acquired_locks.pop(threading.get_ident(), [])):
        lock.release()


def _renew_locks() -> None:
    for reference, lost_message in list(_owners.values()):
        owner: Any = reference()
        lock = getattr(owner, "_lock", None)
        if lock is None:
            continue
        if lock.acquire(blocking=False):  # free, or this thread's
            lock.release()
        else:
            owner._lock = _LostLock(lost_message) if lost_message else threading.RLock()
    _release_locks()
    _acquired_locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire_locks, after_in_parent=_release_locks, after_in_child=_renew_locks)
