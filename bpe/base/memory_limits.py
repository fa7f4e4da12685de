"""How much memory may be taken: the arguments `max_memory` and `cache_memory`, and what the process has already."""

from __future__ import annotations

import os
import re
import sys

from bpe.errors import check_int, shown

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

#: No training works in less than this on top of what the interpreter and NumPy take.
LEAST = 64 << 20


def check_memory(value: int | str | None) -> int | None:
    """The argument `max_memory` in bytes: an int, or a str with a unit of 1024.

    >>> check_memory("2G") == check_memory(2 << 30) == 2147483648
    True

    Raises:
        TypeError, ValueError: for anything else, and for too little to work in.

    """
    if value is None:
        return None
    number = byte_count("max_memory", value, 1)
    before = resident()
    least = -(-(before + LEAST) >> 20) << 20
    if number < least:
        raise ValueError(
            f"max_memory is {in_megabytes(number)}, but this process takes {in_megabytes(before)} before it begins, "
            f"and training {LEAST >> 20} MB more and room for the corpus's distinct words; it must be at least {least}"
        )
    return number


def in_megabytes(number: int) -> str:
    """A number of bytes as an error message shows it.

    >>> in_megabytes(1000), in_megabytes(150 << 20)
    ('1000 bytes', '157286400 bytes (150 MB)')
    """
    return f"{number} bytes" if number < 1 << 20 else f"{number} bytes ({-(-number >> 20)} MB)"


def byte_count(name: str, value: int | str, least: int) -> int:
    """An argument in bytes: an int, or a str with a unit of 1024.

    >>> byte_count("cache_memory", "1.5 MB", 0)
    1572864

    Raises:
        TypeError, ValueError: for anything else, and for less than `least`.

    """
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", value, re.IGNORECASE)
        if found is None:
            raise ValueError(f"{name} is {shown(value)}; it must be a number of bytes, or one with a unit: '2G'")
        value = int(float(found[1]) * UNITS[found[2].upper()])
    return check_int(name, value, least)


def resident() -> int:
    """The bytes of memory that this process takes now; the most it ever took where only that is known."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return LEAST
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) if sys.platform == "darwin" else int(most) * 1024
