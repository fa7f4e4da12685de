"""Regular expressions that come from users and files: compiled within a size and matched within a time.

A pattern in a tokenizer.json may take forever to match, or all memory to compile. Neither limit ever changes a result:
what is beyond it is an error. Not here: which patterns there are (`bpe/pretokenize`), and replacing
(`bpe/text/normalizers.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import regex

from bpe.errors import shown, typed

_Result = TypeVar("_Result")

#: Matching one text takes at most so many seconds, and so many more for each million characters, if no timeout is set.
SECONDS, SECONDS_PER_MILLION = 10.0, 1.0
#: A pattern may have so many items, with those in repeats counted as often as they are repeated: 5 s and 100 MB.
MOST_ITEMS = 250_000
#: So deep its groups may be nested; the `regex` package calls itself for each.
MOST_DEPTH = 100

_PIECE = regex.compile(
    r"(?<skip>\(\?#[^)]*\)|\s+)|(?<open>\()|(?<close>\))|(?<bar>\|)|(?<repeat>\{\s*(?<low>\d*)\s*(?:,\s*(?<high>\d*)\s*)?\})"
    r"|(?<item>\\.|\[\^?\]?(?:\\.|[^\\\]])*+\]?|.)",
    regex.DOTALL,
)


def compiled(pattern: str) -> Any:
    """A pattern compiled by the `regex` package.

    Raises:
        ValueError: for a pattern that does not compile, or is too large to: nested counted repeats are written out.

    >>> bool(compiled("[0-9]+").fullmatch("17"))
    True

    """
    count, depth = size_of(pattern) if len(pattern) <= MOST_ITEMS else (len(pattern), 0)
    if count > MOST_ITEMS:
        raise ValueError(
            f"pattern {shown(pattern)} has {count} items when its repeats are written out; at most {MOST_ITEMS} are "
            "compiled: use * or + instead of high counts"
        )
    if depth > MOST_DEPTH:
        raise ValueError(f"pattern {shown(pattern)} has groups {depth} deep; they may be nested {MOST_DEPTH} deep")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(
            f"pattern {shown(pattern)} does not compile: {str(error) or type(error).__name__}; it must be a regular "
            "expression of the `regex` package"
        ) from None


def size_of(pattern: str) -> tuple[int, int]:
    """How many items a pattern has, repeated ones as often as they may be matched, and how deep groups are nested.

    This is at least what compiling makes of it, whether the pattern is a valid one or not.

    >>> size_of("(a{10}b){3}|c"), size_of(r"\\p{L}{1,3}[a{9}]")
    ((35, 1), (7, 0))
    """
    totals, last, depth, product = [0], 0, 0, 1
    for piece in _PIECE.finditer(pattern):
        kind = next(name for name in ("repeat", "open", "close", "skip", "item", "bar") if piece[name] is not None)
        if kind == "open":
            totals.append(0)
            depth = max(depth, len(totals) - 1)
            last = 0
        elif kind == "close":
            last = totals.pop() if len(totals) > 1 else totals[0]
            totals[-1] += last
        elif kind == "repeat":
            times = max(1, *(int(digits[:9]) for digits in (piece["low"], piece["high"]) if digits), 1)
            product *= times
            totals[-1] += last * (times - 1)
            last *= times
        elif kind != "skip":
            last = 1
            totals[-1] += 1
    if regex.search(r"\(\?[a-zA-Z0-9]*x", pattern):  # comments may hold anything, so that groups are not known
        return len(pattern) * product, depth
    return sum(totals), depth


def check_timeout(timeout: object) -> float | None:
    """The argument `timeout`: seconds, which may be infinite, or None for the usual limit."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is {typed(timeout)}; it must be a number of seconds, or None")
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout}; it must be more than 0 seconds (math.inf: no limit)")
    return float(timeout)


def within_time(pattern: str, text: str, timeout: float | None, match: Callable[[float | None], _Result]) -> _Result:
    """What `match` answers, called with the `timeout` for the methods of a compiled pattern.

    Args:
        pattern: the pattern, for the error.
        text: the text that is searched.
        timeout: seconds, or None for 10 s and 1 s more for each million characters.
        match: what calls the `regex` package. It may be called again: that package counts the processor time of all
            threads, so that it gives up too early where others work too.

    Raises:
        TimeoutError: if matching took longer.

    """
    limit = SECONDS + SECONDS_PER_MILLION * len(text) / 1e6 if timeout is None else timeout
    if math.isinf(limit):
        return match(None)
    began, allowed = time.monotonic(), limit
    while True:
        try:
            return match(allowed)
        except TimeoutError:  # noqa: PERF203 (once in 10 s)
            if time.monotonic() - began >= limit:
                break
            allowed *= 2
    raise TimeoutError(
        f"pattern {shown(pattern)} took more than {limit:g} s on a text of {len(text)} characters, "
        f"{shown(text[:40], 30)}; "
        "its nested repeats may take exponential time: rewrite it, or give it longer with timeout="
    )
