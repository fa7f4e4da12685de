"""Progress reports: a bar on a terminal or in a notebook, a line on stderr every 30 s elsewhere, or a callback.

Nothing is shown unless the caller asks for it.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from bpe.base.fast_dataclasses import dataclass
from bpe.errors import describe, ignore_system_errors

Stage = Literal["count", "index", "merge", "write", "encode", "decode", "shuffle", "verify", "convert"]

#: The names of the stages in bars and lines.
_STAGE_NAMES: dict[Stage, str] = {
    "count": "counting",
    "index": "indexing pairs",
    "merge": "merging",
    "write": "writing",
    "encode": "encoding",
    "decode": "decoding",
    "shuffle": "shuffling",
    "verify": "verifying",
    "convert": "converting",
}
#: The stages that a callback gets.
_CALLBACK_STAGES = ("count", "merge", "encode", "shuffle", "verify", "convert")
#: How many characters of the last token a merge bar shows.
_TOKEN_WIDTH = 24
#: The interval between lines in seconds, where stderr is not a terminal.
LINE_INTERVAL_SECONDS = 30.0
#: The k-th merge takes time proportional to k**(_MERGE_POWER - 1), because pairs become rarer. So the first k of n
#: merges are (k / n)**_MERGE_POWER of the work. Measured on 512 to 16,384 merges of 20 MB of Japanese.
_MERGE_POWER = 0.35


@dataclass(frozen=True)
class Progress:
    """The state of a job, passed to a callback that is given as `progress`.

    Attributes:
        stage: "count" (counting words), "merge" (learning merges), "encode" (encoding to shards), "shuffle" (writing
            shuffled shards), "verify" or "convert" (of shards).
        done: the work done so far: merges in stage "merge", tokens in "shuffle" and "convert", else bytes of the files.
        total: the total work in the same unit, or None if it is unknown.
        token: in stage "merge", the token of the last merge: bytes in a byte model, str in a character model.
        count: in stage "merge", the count of the merged pair.
        documents, tokens: in stage "encode", how many there were since the call began.

    """

    stage: Literal["count", "merge", "encode", "shuffle", "verify", "convert"]
    done: int
    total: int | None
    token: Any = None
    count: int | None = None
    documents: int | None = None
    tokens: int | None = None


#: The argument `progress`: whether to show bars or lines, or a callback.
ProgressLike = bool | Callable[[Progress], object]


#: advance(amount), where `amount` is the work done since the last call; for merges advance(amount, token, count), where
#: `token()` returns the last token; for documents advance(amount, documents=d, tokens=t), their numbers since then.
Advance = Callable[..., object]


def check_progress(progress: object) -> None:
    """Raise TypeError unless `progress` is a bool or a callable."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(
            f"progress is {describe(progress)}; it must be True for bars on stderr, False "
            "for none, or a function that takes a bpe.base.Progress"
        )


@contextmanager
def progress_bar(
    progress: ProgressLike, stage: Stage, total: int | None, unit: str, done: int = 0, *, brief: bool = False
) -> Iterator[Advance]:
    """Yield the function to call as work advances: it moves a bar, writes lines, calls `progress`, or does nothing.

    Args:
        progress: whether to show anything, or the callback.
        stage: the stage of the work.
        total: the total work, None if it is unknown.
        unit: "B" for bytes, or a plural noun.
        done: the work done before this call.
        brief: show a bar only if the work takes over 0.5 s, and remove it at the end.

    """
    bar_class = None if callable(progress) or not progress else _make_bar_class()
    if callable(progress):
        yield _CallbackReport(stage, total, done, progress) if stage in _CALLBACK_STAGES else _ignore_progress
    elif not progress:
        yield _ignore_progress
    elif bar_class is not None:
        report = _BarReport(stage, total, done)
        with bar_class(
            estimate=report.estimate, total=total, initial=done, desc=_STAGE_NAMES[stage],
            unit=unit if unit == "B" else f" {unit}", unit_scale=unit == "B", miniters=1, smoothing=0.1,
            leave=not brief, delay=0.5 if brief else 0,
            bar_format=_FORMAT if total is not None else _FORMAT_WITHOUT_TOTAL,
        ) as report.bar:  # fmt: skip
            yield report
    else:
        line_report = _LineReport(stage, total, done, unit)
        yield line_report
        line_report.end()


@contextmanager
def progress_note(progress: ProgressLike, stage: Stage) -> Iterator[None]:
    """Show only the name of a stage whose progress is not measured."""
    bar_class = _make_bar_class() if progress is True else None
    if bar_class is None:
        yield
        return
    with bar_class(estimate=None, total=None, desc=_STAGE_NAMES[stage], bar_format="{desc} …", leave=False):
        yield


class Estimate:
    """How much of a stage is done, and an estimate of the time left.

    The estimate scales the time taken so far to the work that is left. The average over the whole stage changes
    slowly, so the estimate is steady. Merges are weighted by `_MERGE_POWER`, because early ones take much longer.

    >>> times = iter([0, 10])
    >>> half = Estimate("count", total=1000, done=0, clock=lambda: next(times))
    >>> half.done += 500
    >>> half.estimate_left()
    10.0
    """

    def __init__(self, stage: Stage, total: int | None, done: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = total, done
        self._clock = clock
        self._power = _MERGE_POWER if stage == "merge" else 1.0
        self._initially_done, self._start_time = done, clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the stage began."""
        return self._clock() - self._start_time

    @property
    def rate(self) -> float:
        """The average amount of work per second since the stage began."""
        return (self.done - self._initially_done) / max(self.elapsed, 1e-9)

    def estimate_left(self) -> float | None:
        """Estimate the seconds until the stage is done; None if no work is done yet or the total is unknown."""
        if self.total is None or self.done <= self._initially_done:
            return None
        total = max(self.total, self.done)
        start, done, total = (float(n) ** self._power for n in (self._initially_done, self.done, total))
        return float(self.elapsed * (total - done) / (done - start))


def _ignore_progress(*_: object, **__: object) -> None:
    pass


class _Report:
    """How far a stage is: the work, and the documents and tokens if they are reported; subclasses show it."""

    def __init__(self, stage: Any, total: int | None, done: int) -> None:
        self.stage, self.estimate = stage, Estimate(stage, total, done)
        self.documents: int | None = None
        self.tokens: int | None = None

    def __call__(
        self,
        amount: int,
        token: Callable[[], Any] | None = None,
        count: int | None = None,
        *,
        documents: int | None = None,
        tokens: int | None = None,
    ) -> None:
        self.estimate.done += amount
        self.amount, self.token, self.count = amount, token, count
        if documents is not None:
            self.documents = (self.documents or 0) + documents
            self.tokens = (self.tokens or 0) + (tokens or 0)
        self.show()

    def show(self) -> None:
        """Show the state, of which `amount`, `token` and `count` are new."""
        raise NotImplementedError

    def describe_contents(self) -> str:
        """Describe the documents and tokens so far; empty if there are none."""
        return f"{self.documents:,} documents, {self.tokens:,} tokens" if self.documents or self.tokens else ""


class _CallbackReport(_Report):
    """Calls the caller's function."""

    def __init__(self, stage: Stage, total: int | None, done: int, function: Callable[[Progress], object]) -> None:
        super().__init__(stage, total, done)
        self.function = function

    def show(self) -> None:
        """Call the function."""
        done, total = self.estimate.done, self.estimate.total
        token = None if self.token is None else self.token()
        self.function(Progress(self.stage, done, total, token, self.count, self.documents, self.tokens))


# Bars -----------------------------------------------------------------------------------------------------------------

_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{left}, {rate_fmt}{postfix}]"
_FORMAT_WITHOUT_TOTAL = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]"


def _make_bar_class() -> Any:
    """Make a tqdm bar class for this terminal or notebook that shows the time left; None where there is neither."""
    if "ipykernel.zmqshell" not in sys.modules and (sys.stderr is None or not sys.stderr.isatty()):
        return None
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # without ipywidgets, tqdm falls back to a text bar
        from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no monitor thread: each update reads the clock

        def __init__(self, *, estimate: Estimate | None, **options: Any) -> None:
            self.estimate = estimate
            super().__init__(**options)

        @property
        def format_dict(self) -> dict[str, Any]:
            fields: dict[str, Any] = super().format_dict
            seconds_left = None if self.estimate is None else self.estimate.estimate_left()
            fields["left"] = "?" if seconds_left is None else self.format_interval(seconds_left)
            return fields

    return Bar


class _BarReport(_Report):
    """Moves a tqdm bar."""

    bar: Any

    def show(self) -> None:
        """Move the bar, and write the last token, or the numbers of documents and tokens, after it."""
        text = self.describe_contents()
        if self.token is not None:
            from bpe.base.spelling import spell

            text = spell(self.token())
            text = f"{text if len(text) <= _TOKEN_WIDTH else text[: _TOKEN_WIDTH - 1] + '…'} {self.count:,}"
        if text:
            self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(self.amount)


# Lines ----------------------------------------------------------------------------------------------------------------


class _LineReport(_Report):
    """Writes a line to stderr every `LINE_INTERVAL_SECONDS`: the stage, the work done, the rate, the time left."""

    def __init__(self, stage: Stage, total: int | None, done: int, unit: str) -> None:
        super().__init__(stage, total, done)
        self.unit = unit
        self.last_line_time = 0.0  # when the last line was written, in seconds since the stage began

    def show(self) -> None:
        """Write a line if one is due."""
        estimate = self.estimate
        if estimate.elapsed - self.last_line_time < LINE_INTERVAL_SECONDS:
            return
        self.last_line_time = estimate.elapsed
        amount, seconds_left = _format_amount(estimate.done, self.unit), estimate.estimate_left()
        if estimate.total is not None:
            total = _format_amount(estimate.total, self.unit)
            amount = f"{100 * estimate.done // max(estimate.total, 1)}%, {amount} of {total}"
        rate = f"{_format_amount(int(estimate.rate), self.unit)}/s"
        self._write(
            [
                amount,
                self.describe_contents(),
                rate,
                "" if seconds_left is None else f"{_format_duration(seconds_left)} left",
            ]
        )

    def end(self) -> None:
        """Write that the stage is done, if it has written any line before."""
        if self.last_line_time:
            parts = ["done", _format_amount(self.estimate.done, self.unit), self.describe_contents()]
            self._write(parts, f" in {_format_duration(self.estimate.elapsed)}")

    def _write(self, parts: list[str], end: str = "") -> None:
        if sys.stderr is not None:
            with ignore_system_errors():  # a closed pipe or a full disk does not end the work
                sys.stderr.write(f"bpe: {_STAGE_NAMES[self.stage]}: {', '.join(filter(None, parts))}{end}\n")
                sys.stderr.flush()


def _format_amount(amount: int, unit: str) -> str:
    """Spell an amount with its unit.

    >>> _format_amount(81_500_000, "B"), _format_amount(12_345, "merges")
    ('81.5 MB', '12,345 merges')
    """
    if unit != "B":
        return f"{amount:,} {unit}"
    size, prefixes = float(amount), ["", "k", "M", "G", "T"]
    while size >= 999.95 and len(prefixes) > 1:
        size /= 1000
        prefixes.pop(0)
    return f"{size:.1f} {prefixes[0]}B"


def _format_duration(seconds: float) -> str:
    """Spell a duration in seconds, minutes or hours.

    >>> _format_duration(59.4), _format_duration(61), _format_duration(7322)
    ('59 s', '1:01 min', '2:02 h')
    """
    seconds_rounded = round(seconds)
    if seconds_rounded < 60:
        return f"{seconds_rounded} s"
    if seconds_rounded < 3600:
        return f"{seconds_rounded // 60}:{seconds_rounded % 60:02} min"
    return f"{seconds_rounded // 3600}:{seconds_rounded % 3600 // 60:02} h"
