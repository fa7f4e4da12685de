"""The int objects that lists of ids are made of. Two lists share them, so a list costs 8 bytes for each id."""

from __future__ import annotations

#: The most ids for which int objects are kept; they take 40 bytes each.
MOST_NUMBERS = 1 << 20

_numbers: tuple[int, ...] = ()  # 0, 1, 2, …; replaced by a longer tuple


def id_objects(limit: int) -> tuple[int, ...]:
    """At least the ints below `limit`, or below `MOST_NUMBERS`.

    >>> id_objects(3)[:3]
    (0, 1, 2)
    """
    global _numbers
    wanted = min(limit, MOST_NUMBERS)
    if len(_numbers) < wanted:
        _numbers = tuple(range(wanted))
    return _numbers
