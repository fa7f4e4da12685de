"""Progress: bars on stderr where that is a terminal, bars in notebooks, a line each 30 s elsewhere, or a function.

Nothing is shown unless the caller wants it. Not here: where the work is done and counted.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from bpe.base.spelling import spell
from bpe.errors import typed

Stage = Literal["count", "index", "merge", "write", "encode", "decode"]

#: What bars and lines call the stages.
NAMES: dict[Stage, str] = {
    "count": "counting",
    "index": "indexing pairs",
    "merge": "merging",
    "write": "writing",
    "encode": "encoding",
    "decode": "decoding",
}
#: How much of the last token the bar of merges shows.
_TOKEN_WIDTH = 24
#: Where stderr is no terminal, a line is written each time so many seconds have passed.
LINE_EVERY = 30.0
#: The time for the k-th merge falls about as k**(_MERGE_POWER - 1), since the pairs become rarer. So the first k of n
#: merges are (k / n)**_MERGE_POWER of the work. Measured: 512 to 16,384 merges of 20 MB of Japanese.
_MERGE_POWER = 0.35


@dataclass(frozen=True)
class Progress:
    """The state of a job; a function given as `progress` is called with one.

    Attributes:
        stage: "count" (words are counted) or "merge" (merges are made).
        done: the work done, in bytes of text or in merges.
        total: all the work, in the same unit, or None if it is not known.
        token: the last token made, bytes in a byte model and str in a character model; None while words are counted.
        count: the count of its pair when it was merged; None while words are counted.

    """

    stage: Literal["count", "merge"]
    done: int
    total: int | None
    token: Any = None
    count: int | None = None


#: The argument `progress`: whether to show bars or lines, or a function to call.
ProgressLike = bool | Callable[[Progress], object]


#: To be called with how much more is done, and of merges with a function that gives the last token, and its count.
Advance = Callable[..., object]


def check_progress(progress: object) -> None:
    """Refuse what is neither a bool nor a function."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(
            f"progress is {typed(progress)}; it must be True for bars on stderr, False "
            "for none, or a function that takes a bpe.Progress"
        )


@contextmanager
def progress_bar(
    progress: ProgressLike, stage: Stage, total: int | None, unit: str, done: int = 0, *, brief: bool = False
) -> Iterator[Advance]:
    """What to call as work goes on: it moves a bar, writes lines, calls the function `progress`, or does nothing.

    Args:
        progress: whether to show anything, or the function to call.
        stage: what is being done.
        total: how much there is to do, None where that is not known.
        unit: "B" for bytes, or the plural of what is counted.
        done: how much was done before.
        brief: show a bar only if the work takes a while, and remove it at the end.

    """
    if callable(progress):
        yield _Function(progress, stage, total, done) if stage in ("count", "merge") else _nothing
    elif not progress:
        yield _nothing
    elif (kind := _bar_class()) is not None:
        estimate = Estimate(stage, total, done)
        with kind(
            estimate=estimate, total=total, initial=done, desc=NAMES[stage], unit=unit if unit == "B" else f" {unit}",
            unit_scale=unit == "B", miniters=1, smoothing=0.1, leave=not brief, delay=0.5 if brief else 0,
            bar_format=_FORMAT if total is not None else _FORMAT_WITHOUT_TOTAL,
        ) as bar:  # fmt: skip
            yield _Bar(bar, estimate)
    else:
        lines = _Lines(stage, unit, Estimate(stage, total, done))
        yield lines
        lines.end()


@contextmanager
def progress_note(progress: ProgressLike, stage: Stage) -> Iterator[None]:
    """Show a stage of which only the name is known, not how far it is."""
    kind = _bar_class() if progress is True else None
    if kind is None:
        yield
        return
    with kind(estimate=None, total=None, desc=NAMES[stage], bar_format="{desc} …", leave=False):
        yield


class Estimate:
    """How far a stage is, and how long the rest may take.

    The time left is that of the work done so far, scaled to the work that is left. So it changes slowly. The first
    merges take much longer than the last, which a power of their number accounts for.

    >>> times = iter([0, 10])
    >>> half = Estimate("count", total=1000, done=0, clock=lambda: next(times))
    >>> half.done += 500
    >>> half.left()
    10.0
    """

    def __init__(self, stage: Stage, total: int | None, done: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = total, done
        self._clock = clock
        self._power = _MERGE_POWER if stage == "merge" else 1.0
        self._start, self._began = done, clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the stage began."""
        return self._clock() - self._began

    @property
    def rate(self) -> float:
        """How much is done in a second, on average since the stage began."""
        return (self.done - self._start) / max(self.elapsed, 1e-9)

    def left(self) -> float | None:
        """Seconds until the stage is done; None where nothing is known about that."""
        if self.total is None or self.done <= self._start:
            return None
        most = max(self.total, self.done)
        begun, done, total = (float(number) ** self._power for number in (self._start, self.done, most))
        return float(self.elapsed * (total - done) / (done - begun))


def _nothing(*_: object) -> None:
    pass


class _Function:
    """Calls a program's own function."""

    def __init__(self, function: Callable[[Progress], object], stage: Any, total: int | None, done: int) -> None:
        self.function, self.stage, self.total, self.done = function, stage, total, done

    def __call__(self, more: int, token: Callable[[], Any] | None = None, count: int | None = None) -> None:
        self.done += more
        self.function(Progress(self.stage, self.done, self.total, None if token is None else token(), count))


# Bars -----------------------------------------------------------------------------------------------------------------

_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{left}, {rate_fmt}{postfix}]"
_FORMAT_WITHOUT_TOTAL = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]"


def _bar_class() -> Any:
    """Tqdm's bar for this terminal or notebook, with our time left; None where there is neither."""
    if "ipykernel.zmqshell" not in sys.modules and (sys.stderr is None or not sys.stderr.isatty()):
        return None
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # a notebook without ipywidgets has tqdm's bar of text
        from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread: each update looks at the clock

        def __init__(self, *, estimate: Estimate | None, **options: Any) -> None:
            self.estimate = estimate
            super().__init__(**options)

        @property
        def format_dict(self) -> dict[str, Any]:
            fields: dict[str, Any] = super().format_dict
            left = None if self.estimate is None else self.estimate.left()
            fields["left"] = "?" if left is None else self.format_interval(left)
            return fields

    return Bar


class _Bar:
    """Moves a bar of tqdm's."""

    def __init__(self, bar: Any, estimate: Estimate) -> None:
        self.bar, self.estimate = bar, estimate

    def __call__(self, more: int, token: Callable[[], Any] | None = None, count: int | None = None) -> None:
        self.estimate.done += more
        if token is not None:
            text = spell(token())
            text = text if len(text) <= _TOKEN_WIDTH else text[: _TOKEN_WIDTH - 1] + "…"
            self.bar.set_postfix_str(f"{text} {count:,}", refresh=False)
        self.bar.update(more)


# Lines ----------------------------------------------------------------------------------------------------------------


class _Lines:
    """Writes a line to stderr each half minute: the stage, how far it is, the rate, the time left."""

    def __init__(self, stage: Stage, unit: str, estimate: Estimate) -> None:
        self.name, self.unit, self.estimate = NAMES[stage], unit, estimate
        self.last = 0.0  # seconds after the beginning

    def __call__(self, more: int, *_: object) -> None:
        self.estimate.done += more
        if self.estimate.elapsed - self.last >= LINE_EVERY:
            self.last = self.estimate.elapsed
            self._write(self._text())

    def end(self) -> None:
        """Say that the stage is done, if anything was said of it."""
        if self.last:
            done, elapsed = _amount(self.estimate.done, self.unit), _duration(self.estimate.elapsed)
            self._write(f"{self.name}: done, {done} in {elapsed}")

    def _text(self) -> str:
        at, left = self.estimate, self.estimate.left()
        amount = _amount(at.done, self.unit)
        if at.total is not None:
            amount = f"{100 * at.done // max(at.total, 1)}%, {amount} of {_amount(at.total, self.unit)}"
        rest = "" if left is None else f", {_duration(left)} left"
        return f"{self.name}: {amount}, {_amount(int(at.rate), self.unit)}/s{rest}"

    def _write(self, text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(f"bpe: {text}\n")
            sys.stderr.flush()


def _amount(number: int, unit: str) -> str:
    """A number with its unit.

    >>> _amount(81_500_000, "B"), _amount(12_345, "merges")
    ('81.5 MB', '12,345 merges')
    """
    if unit != "B":
        return f"{number:,} {unit}"
    size, prefixes = float(number), ["", "k", "M", "G", "T"]
    while size >= 999.95 and len(prefixes) > 1:
        size /= 1000
        prefixes.pop(0)
    return f"{size:.1f} {prefixes[0]}B"


def _duration(seconds: float) -> str:
    """Seconds as people read them.

    >>> _duration(59.4), _duration(61), _duration(7322)
    ('59 s', '1:01 min', '2:02 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"
