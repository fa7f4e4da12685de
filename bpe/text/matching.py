"""Limits for untrusted regular expressions: a size limit for compiling and a time limit for matching.

A pattern in a tokenizer.json may take exponential time to match, or all memory to compile. Exceeding a limit is an
error, so no limit changes a result. Not here: the published patterns (`bpe/pretokenize`), replacing
(`bpe/text/normalizers.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import regex

from bpe.errors import shown, typed

_Result = TypeVar("_Result")

#: The default time limit for matching one text: this many seconds, plus this many for each million characters.
SECONDS, SECONDS_PER_MILLION = 10.0, 1.0
#: The most items a pattern may have, counting an item once per repetition. Compiling that many takes 5 s and 100 MB.
MOST_ITEMS = 250_000
#: The greatest nesting depth of groups: the `regex` package recurses into each.
MOST_DEPTH = 100

_PIECE = regex.compile(
    r"(?<skip>\(\?#[^)]*\)|\s+)|(?<open>\()|(?<close>\))|(?<bar>\|)|(?<repeat>\{\s*(?<low>\d*)\s*(?:,\s*(?<high>\d*)\s*)?\})"
    r"|(?<item>\\.|\[\^?\]?(?:\\.|[^\\\]])*+\]?|.)",
    regex.DOTALL,
)


def compiled(pattern: str) -> Any:
    """Compile a pattern with the `regex` package.

    Raises:
        ValueError: for a pattern that does not compile, that exceeds `MOST_ITEMS` or `MOST_DEPTH`, or that searches
            from right to left.

    >>> bool(compiled("[0-9]+").fullmatch("17"))
    True

    """
    count, depth = size_of(pattern) if len(pattern) <= MOST_ITEMS else (len(pattern), 0)
    if count > MOST_ITEMS:
        raise ValueError(
            f"pattern {shown(pattern)} has {count} items when its repeats are expanded; the limit is {MOST_ITEMS}: "
            "use * or + instead of high counts"
        )
    if depth > MOST_DEPTH:
        raise ValueError(f"pattern {shown(pattern)} has groups nested {depth} deep; the limit is {MOST_DEPTH}")
    try:
        expression = regex.compile(pattern)
    except (regex.error, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(
            f"pattern {shown(pattern)} does not compile: {str(error) or type(error).__name__}; it must be a regular "
            "expression of the `regex` package"
        ) from None
    if expression.flags & regex.REVERSE:
        raise ValueError(
            f"pattern {shown(pattern)} searches from right to left, so that its matches are not in the order of the "
            "text; remove the flag (?r)"
        )
    return expression


def matches_of(expression: Any, text: str, timeout: float | None) -> Iterator[Any]:
    r"""The matches of a compiled pattern in a text, in order and without overlaps.

    Raises:
        ValueError: for matches that are not: `\K` in a look-around moves the start of a match anywhere.

    """
    found: Iterator[Any] = expression.finditer(text, timeout=timeout)
    return _ordered(found, expression.pattern) if r"\K" in expression.pattern else found


def _ordered(matches: Iterator[Any], pattern: str) -> Iterator[Any]:
    r"""Check the matches of a pattern with `\K`, of which there may be endlessly many at one position."""
    done = 0
    for match in matches:
        start, end = match.span()
        if not done <= start <= end:
            raise ValueError(
                rf"pattern {shown(pattern)} has a match from {start} to {end} after position {done}; its matches must "
                r"be in the order of the text, without overlaps: move \K out of the look-around"
            )
        done = end
        yield match


def size_of(pattern: str) -> tuple[int, int]:
    """(number of items in a pattern, counting one once per repetition; greatest nesting depth of its groups).

    The number is an upper bound of what compiling creates, even for an invalid pattern.

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
    if regex.search(r"\(\?[a-zA-Z0-9]*x", pattern):  # verbose mode: comments may contain parentheses; assume the worst
        return len(pattern) * product, depth
    return sum(totals), depth


def check_timeout(timeout: object) -> float | None:
    """The argument `timeout`: seconds, which may be infinite, or None for the default limit."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is {typed(timeout)}; it must be a number of seconds, or None")
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout}; it must be more than 0 seconds (inf: no limit)")
    return float(timeout)


def within_time(pattern: str, text: str, timeout: float | None, match: Callable[[float | None], _Result]) -> _Result:
    """Call `match` with a timeout for the methods of a compiled pattern, and return its result.

    Args:
        pattern: the pattern, for the error.
        text: the text that is searched.
        timeout: seconds, or None for 10 s and 1 s more for each million characters.
        match: the function that calls the `regex` package. It may be called again: that package measures the processor
            time of all threads, so it times out too early while others run.

    Raises:
        TimeoutError: if matching takes longer.

    """
    limit = SECONDS + SECONDS_PER_MILLION * len(text) / 1e6 if timeout is None else timeout
    if math.isinf(limit):
        return match(None)
    start, processor_time = time.monotonic(), limit
    while True:
        try:
            return match(processor_time)
        except TimeoutError:  # noqa: PERF203 (once in 10 s)
            if time.monotonic() - start >= limit:
                break
            processor_time *= 2
    raise TimeoutError(
        f"pattern {shown(pattern)} took more than {limit:.3g} s on a text of {len(text)} characters, "
        f"{shown(text[:40], 30)}; nested repeats may take exponential time: rewrite the pattern, or pass a longer "
        "timeout="
    )
