"""Limits for untrusted regular expressions: a size limit for compiling and a time limit for matching.

A pattern in a tokenizer.json may take exponential time to match, or all memory to compile. Exceeding a limit is an
error, so no limit changes a result, and whether one is exceeded does not depend on what else runs.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

from bpe.errors import describe, short_repr

_Result = TypeVar("_Result")

#: The default time limit for matching one text: this many seconds, plus this many for each million characters.
BASE_SECONDS, SECONDS_PER_MILLION = 10.0, 1.0
#: The most items a pattern may have, counting an item once per repetition. Compiling that many takes 5 s and 100 MB.
MAX_ITEMS = 250_000
#: The greatest nesting depth of groups: the `regex` package recurses into each.
MAX_DEPTH = 100

_SYNTAX = (
    r"(?<skip>\(\?#[^)]*\)|\s+)|(?<open>\()|(?<close>\))|(?<bar>\|)|(?<repeat>\{\s*(?<low>\d*)\s*(?:,\s*(?<high>\d*)\s*)?\})"
    r"|(?<item>\\.|(?<set>\[\^?\]?(?:\\.|%s)*+\]?)|.)"
)


@cache
def _compile_syntax(in_sets: str) -> Any:
    """Compile the expression for the pieces of a pattern, with an expression for the characters in sets."""
    import regex

    return regex.compile(_SYNTAX % in_sets, regex.DOTALL)


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern with the `regex` package.

    Raises:
        ValueError: for a pattern that does not compile, that exceeds `MAX_ITEMS` or `MAX_DEPTH`, or that searches
            from right to left.

    >>> bool(compile_pattern("[0-9]+").fullmatch("17"))
    True

    """
    import regex

    count, depth = measure_pattern(pattern) if len(pattern) <= MAX_ITEMS else (len(pattern), 0)
    if count > MAX_ITEMS:
        raise ValueError(
            f"pattern {short_repr(pattern)} has {count} items when its repeats are expanded; the limit is "
            f"{MAX_ITEMS}: use * or + instead of high counts"
        )
    if depth > MAX_DEPTH:
        raise ValueError(f"pattern {short_repr(pattern)} has groups nested {depth} deep; the limit is {MAX_DEPTH}")
    try:
        expression = regex.compile(pattern)
    except (regex.error, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(
            f"pattern {short_repr(pattern)} does not compile: {str(error) or type(error).__name__}; it must be a "
            "regular expression of the `regex` package"
        ) from None
    if expression.flags & regex.REVERSE:
        raise ValueError(
            f"pattern {short_repr(pattern)} searches from right to left, so that its matches are not in the order of "
            "the text; remove the flag (?r)"
        )
    return expression


def find_matches(expression: Any, text: str, timeout: float | None) -> Iterator[Any]:
    r"""Find the matches of a compiled pattern in a text, in order and without overlaps.

    Raises:
        ValueError: for matches that are not: `\K` in a look-around moves the start of a match anywhere.

    """
    matches: Iterator[Any] = expression.finditer(text, timeout=timeout)
    return _check_order(matches, expression.pattern) if r"\K" in expression.pattern else matches


def _check_order(matches: Iterator[Any], pattern: str) -> Iterator[Any]:
    r"""Check the matches of a pattern with `\K`, of which there may be endlessly many at one position."""
    last_end = 0
    for match in matches:
        start, end = match.span()
        if not last_end <= start <= end:
            raise ValueError(
                rf"pattern {short_repr(pattern)} has a match from {start} to {end} after position {last_end}; its "
                r"matches must be in the order of the text, without overlaps: move \K out of the look-around"
            )
        last_end = end
        yield match


def measure_pattern(pattern: str) -> tuple[int, int]:
    """Count the items of a pattern, one once per repetition, and its nested groups; returns (items, greatest depth).

    The number is an upper bound of what compiling creates, even for an invalid pattern.

    >>> measure_pattern("(a{10}b){3}|c"), measure_pattern(r"\\p{L}{1,3}[a{9}]")
    ((35, 1), (7, 0))
    """
    import regex

    totals, last_item_size, depth, largest_size = [0], 0, 0, 1
    syntax = _compile_syntax(r"[^\\\]]")
    if regex.search(r"\(\?[a-zA-Z0-9]*V1", pattern):  # a class may be within another
        syntax = _compile_syntax(r"[^\\\[\]]|(?&set)")
    for piece in syntax.finditer(pattern):
        kind = next(name for name in ("repeat", "open", "close", "skip", "item", "bar") if piece[name] is not None)
        if kind == "open":
            totals.append(0)
            depth = max(depth, len(totals) - 1)
            last_item_size = 0
        elif kind == "close":
            last_item_size = totals.pop() if len(totals) > 1 else totals[0]
            totals[-1] += last_item_size
        elif kind == "repeat":
            n_repeats = max(1, *(int(digits[:9]) for digits in (piece["low"], piece["high"]) if digits), 1)
            largest_size *= n_repeats
            totals[-1] += last_item_size * (n_repeats - 1)
            last_item_size *= n_repeats
        elif kind != "skip":
            last_item_size = 1
            totals[-1] += 1
    if regex.search(r"\(\?[a-zA-Z0-9]*x", pattern):  # verbose mode: comments may contain parentheses; assume the worst
        return len(pattern) * largest_size, depth
    return sum(totals), depth


def check_timeout(timeout: object) -> float | None:
    """Check the argument `timeout`: seconds, which may be infinite, or None for the default limit."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is {describe(timeout)}; it must be a number of seconds, or None")
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout}; it must be more than 0 seconds (inf: no limit)")
    return math.inf if timeout > sys.float_info.max else float(timeout)


class Deadline:
    """A time limit for matching patterns on one text.

    What counts is the processor time of the calling thread, so that other threads and a busy machine change no result:
    matching that ends within the limit gives its result, any other raises TimeoutError. The `regex` package counts the
    time of all threads. Where it has timed out too early, matching is repeated with a longer time.

    Reading a thread's time takes ten times as long as reading the clock. It is read once in a hundredth of the limit,
    so the limit is exact to that part.

    Args:
        limit: the limit in seconds, which may be infinite.
        n_chars: the number of characters in the text.

    """

    def __init__(self, limit: float, n_chars: int) -> None:
        self._limit = self._seconds_left = limit
        self._n_chars = n_chars
        self._last_thread_time = time.thread_time()
        self._next_check = time.monotonic() + limit / 100  # when the thread's time is read again

    def run(self, pattern: str, text: str, match: Callable[[float | None], _Result]) -> _Result:
        """Call `match` with a timeout for the methods of a compiled pattern, perhaps several times; return its result.

        Args:
            pattern: the pattern, for the error.
            text: the text that is searched, for the error.
            match: the function that calls the `regex` package.

        Raises:
            TimeoutError: if the thread has used more time than the limit.

        """
        if self._limit > _MAX_SECONDS:
            return match(None)
        if time.monotonic() >= self._next_check:
            self._subtract(pattern, text)
        timeout = self._seconds_left
        while True:
            try:
                result = match(timeout)
            except TimeoutError:  # noqa: PERF203 (once in 10 s)
                time_left = self._seconds_left
                self._subtract(pattern, text)
                self._seconds_left = time_left  # an attempt that is repeated does not count
                timeout *= 2
            else:
                if timeout > self._seconds_left:
                    self._subtract(pattern, text)
                return result

    def _subtract(self, pattern: str, text: str) -> None:
        """Subtract what the thread has used since the last call; raise TimeoutError if nothing is left."""
        wall_time, thread_time = time.monotonic(), time.thread_time()
        self._seconds_left -= thread_time - self._last_thread_time
        self._last_thread_time, self._next_check = thread_time, wall_time + self._limit / 100
        if self._seconds_left <= 0:
            raise _make_timeout_error(pattern, text, self._limit, self._n_chars)


#: A longer limit is none: the `regex` package cannot count it.
_MAX_SECONDS = 1e9


def _make_timeout_error(pattern: str, text: str, limit: float, n_chars: int) -> TimeoutError:
    part = "" if len(text) == n_chars else f"a part of {len(text)} characters of "
    return TimeoutError(
        f"pattern {short_repr(pattern)} took more than {limit:.3g} s on {part}a text of {n_chars} characters, "
        f"{short_repr(text[:40], 30)}; nested repeats may take exponential time: rewrite the pattern, or pass a longer "
        "timeout="
    )


def compute_time_limit(n_chars: int, timeout: float | None) -> float:
    """Compute the limit in seconds for matching a text: `timeout`, or 10 s and 1 s more for each million characters."""
    return BASE_SECONDS + SECONDS_PER_MILLION * n_chars / 1e6 if timeout is None else timeout


def run_within_time(
    pattern: str, text: str, timeout: float | None, match: Callable[[float | None], _Result]
) -> _Result:
    """Call `match` as `Deadline.run` does, with a limit for this text alone; None means the default limit.

    The thread's time is read only after `regex` has timed out, so that short texts are not slower; if other threads may
    have used the time, matching is then repeated.
    """
    limit = compute_time_limit(len(text), timeout)
    try:
        return match(limit if limit <= _MAX_SECONDS else None)
    except TimeoutError:
        if time.process_time() - time.thread_time() < limit / 100:  # other threads have used nothing
            raise _make_timeout_error(pattern, text, limit, len(text)) from None
        return Deadline(limit, len(text)).run(pattern, text, match)
