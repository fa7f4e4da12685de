"""Memory limits: the arguments `max_memory` and `cache_memory`, and the memory that the process uses now."""

from __future__ import annotations

import os
import re
import sys

from bpe.errors import check_int, short_repr

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

#: The least memory, in bytes, that training needs on top of the interpreter and NumPy.
LEAST = 64 << 20


def check_memory(value: int | str | None) -> int | None:
    """The argument `max_memory` in bytes. It is an int, or a str whose units are powers of 1024.

    >>> check_memory("2G") == check_memory(2 << 30) == 2147483648
    True

    Raises:
        TypeError, ValueError: for anything else, and for less memory than training needs.

    """
    if value is None:
        return None
    number = byte_count("max_memory", value, 1)
    in_use = resident()
    least = -(-(in_use + LEAST) >> 20) << 20
    if number < least:
        raise ValueError(
            f"max_memory is {in_megabytes(number)}, but this process already uses {in_megabytes(in_use)}, and training "
            f"needs {LEAST >> 20} MB more plus memory for the corpus's distinct words; it must be at least {least}"
        )
    return number


def in_megabytes(number: int) -> str:
    """A number of bytes for an error message, also in MB (2**20 bytes, rounded up).

    >>> in_megabytes(1000), in_megabytes(150 << 20)
    ('1000 bytes', '157286400 bytes (150 MB)')
    """
    return f"{number} bytes" if number < 1 << 20 else f"{number} bytes ({-(-number >> 20)} MB)"


def byte_count(name: str, value: int | str, least: int) -> int:
    """An argument in bytes. It is an int, or a str whose units are powers of 1024.

    >>> byte_count("cache_memory", "1.5 MB", 0)
    1572864

    Raises:
        TypeError, ValueError: for anything else, and for less than `least` bytes.

    """
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", value, re.IGNORECASE)
        if found is None:
            raise ValueError(f"{name} is {short_repr(value)}; it must be a number of bytes, or one with a unit: '2G'")
        value = int(float(found[1]) * UNITS[found[2].upper()])
    return check_int(name, value, least)


def resident() -> int:
    """The resident memory of this process in bytes; its peak where the system reports only that."""
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
