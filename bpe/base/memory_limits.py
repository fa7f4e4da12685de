"""Memory limits: the arguments `max_memory` and `cache_memory`, and the memory that the process uses now."""

from __future__ import annotations

import math
import os
import re
import sys

from bpe.errors import check_int, raise_if_of_signal_handler, short_repr

_BYTE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

#: The least memory, in bytes, that training needs on top of the interpreter and NumPy.
MIN_MEMORY = 64 << 20


def check_memory(value: int | str | None) -> int | None:
    """Convert the argument `max_memory`, an int or a str whose units are powers of 1024, to bytes.

    >>> check_memory("2G") == check_memory(2 << 30) == 2147483648
    True

    Raises:
        TypeError, ValueError: for anything else, and for less memory than training needs.

    """
    if value is None:
        return None
    limit = parse_byte_count("max_memory", value, 1)
    in_use = measure_memory()
    min_limit = -(-(in_use + MIN_MEMORY) >> 20) << 20
    if limit < min_limit:
        raise ValueError(
            f"max_memory is {format_bytes(limit)}, but this process already uses {format_bytes(in_use)}, and training "
            f"needs {MIN_MEMORY >> 20} MB more plus memory for the corpus's distinct words; it must be at "
            f"least {min_limit}"
        )
    return limit


def format_bytes(n_bytes: int) -> str:
    """Spell a number of bytes for an error message, also in MB (2**20 bytes, rounded up).

    >>> format_bytes(1000), format_bytes(150 << 20)
    ('1000 bytes', '157286400 bytes (150 MB)')
    """
    return f"{n_bytes} bytes" if n_bytes < 1 << 20 else f"{n_bytes} bytes ({-(-n_bytes >> 20)} MB)"


def parse_byte_count(name: str, value: int | str, min_value: int) -> int:
    """Convert an argument, an int or a str whose units are powers of 1024, to bytes.

    >>> parse_byte_count("cache_memory", "1.5 MB", 0)
    1572864

    Raises:
        TypeError, ValueError: for anything else, and for less than `min_value` bytes.

    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", value, re.IGNORECASE)
        if match is None:
            raise ValueError(f"{name} is {short_repr(value)}; it must be a number of bytes, or one with a unit: '2G'")
        number = float(match[1]) * _BYTE_UNITS[match[2].upper()]
        if number == math.inf:
            raise ValueError(f"{name} is {short_repr(value)}; it must be less than 2**1024 bytes")
        value = int(number)
    return check_int(name, value, min_value)


def measure_memory() -> int:
    """Measure the resident memory of this process in bytes, or its peak where the system reports only that."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError) as error:
        raise_if_of_signal_handler(error)
    try:
        import resource
    except ImportError:  # Windows
        return MIN_MEMORY
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024
