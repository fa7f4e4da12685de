"""Progress bars: on stderr, where that is a terminal, and only if asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_bar(shown: bool, what: str, total: int | None, unit: str) -> Iterator[Callable[[int], Any]]:
    """A function to call with how much more is done; it does nothing unless `shown`."""
    if not shown:
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what, unit=unit, unit_scale=unit == "B", disable=None) as bar:
        yield bar.update
