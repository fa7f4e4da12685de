"""Progress reports: a bar on a terminal or in a notebook, a line on stderr every 30 s elsewhere, or a callback.

Nothing is shown unless the caller asks for it.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from bpe.base.spelling import spell
from bpe.errors import typed

Stage = Literal["count", "index", "merge", "write", "encode", "decode", "shuffle", "verify", "convert"]

#: The names of the stages in bars and lines.
NAMES: dict[Stage, str] = {
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
_REPORTED = ("count", "merge", "encode", "shuffle", "verify", "convert")
#: How many characters of the last token a merge bar shows.
_TOKEN_WIDTH = 24
#: The interval between lines in seconds, where stderr is not a terminal.
LINE_EVERY = 30.0
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


#: advance(more), where `more` is the work done since the last call; for merges advance(more, token, count), where
#: `token()` returns the last token; for documents advance(more, documents=d, tokens=t), their numbers since then.
Advance = Callable[..., object]


def check_progress(progress: object) -> None:
    """Raise TypeError unless `progress` is a bool or a callable."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(
            f"progress is {typed(progress)}; it must be True for bars on stderr, False "
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
    if callable(progress):
        yield _Function(progress, stage, total, done) if stage in _REPORTED else _nothing
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
    """Show only the name of a stage whose progress is not measured."""
    kind = _bar_class() if progress is True else None
    if kind is None:
        yield
        return
    with kind(estimate=None, total=None, desc=NAMES[stage], bar_format="{desc} …", leave=False):
        yield


class Estimate:
    """How much of a stage is done, and an estimate of the time left.

    The estimate scales the time taken so far to the work that is left. The average over the whole stage changes
    slowly, so the estimate is steady. Merges are weighted by `_MERGE_POWER`, because early ones take much longer.

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
        """The average amount of work per second since the stage began."""
        return (self.done - self._start) / max(self.elapsed, 1e-9)

    def left(self) -> float | None:
        """The estimated seconds until the stage is done; None if no work is done yet or the total is unknown."""
        if self.total is None or self.done <= self._start:
            return None
        end = max(self.total, self.done)
        start, done, total = (float(number) ** self._power for number in (self._start, self.done, end))
        return float(self.elapsed * (total - done) / (done - start))


def _nothing(*_: object, **__: object) -> None:
    pass


class _Contents:
    """The documents and tokens of a stage so far; neither is shown if none was reported."""

    def __init__(self) -> None:
        self.documents = self.tokens = 0

    def add(self, documents: int, tokens: int) -> None:
        """Add the numbers since the last call."""
        self.documents += documents
        self.tokens += tokens

    def __str__(self) -> str:
        return f"{self.documents:,} documents, {self.tokens:,} tokens" if self.documents or self.tokens else ""


class _Function:
    """Calls the caller's function."""

    def __init__(self, function: Callable[[Progress], object], stage: Any, total: int | None, done: int) -> None:
        self.function, self.stage, self.total, self.done = function, stage, total, done
        self.contents = _Contents()

    def __call__(
        self,
        more: int,
        token: Callable[[], Any] | None = None,
        count: int | None = None,
        *,
        documents: int | None = None,
        tokens: int | None = None,
    ) -> None:
        self.done += more
        last = None if token is None else token()
        if documents is None:
            self.function(Progress(self.stage, self.done, self.total, last, count))
            return
        contents = self.contents
        contents.add(documents, tokens or 0)
        self.function(Progress(self.stage, self.done, self.total, last, count, contents.documents, contents.tokens))


# Bars -----------------------------------------------------------------------------------------------------------------

_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{left}, {rate_fmt}{postfix}]"
_FORMAT_WITHOUT_TOTAL = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]"


def _bar_class() -> Any:
    """A tqdm bar class for this terminal or notebook that shows `Estimate.left`; None where there is neither."""
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
            left = None if self.estimate is None else self.estimate.left()
            fields["left"] = "?" if left is None else self.format_interval(left)
            return fields

    return Bar


class _Bar:
    """Moves a tqdm bar."""

    def __init__(self, bar: Any, estimate: Estimate) -> None:
        self.bar, self.estimate, self.contents = bar, estimate, _Contents()

    def __call__(
        self,
        more: int,
        token: Callable[[], Any] | None = None,
        count: int | None = None,
        *,
        documents: int = 0,
        tokens: int = 0,
    ) -> None:
        self.estimate.done += more
        if documents or tokens:
            self.contents.add(documents, tokens)
            self.bar.set_postfix_str(str(self.contents), refresh=False)
        if token is not None:
            text = spell(token())
            text = text if len(text) <= _TOKEN_WIDTH else text[: _TOKEN_WIDTH - 1] + "…"
            self.bar.set_postfix_str(f"{text} {count:,}", refresh=False)
        self.bar.update(more)


# Lines ----------------------------------------------------------------------------------------------------------------


class _Lines:
    """Writes a line to stderr every `LINE_EVERY` seconds: the stage, the work done, the rate, the time left."""

    def __init__(self, stage: Stage, unit: str, estimate: Estimate) -> None:
        self.name, self.unit, self.estimate = NAMES[stage], unit, estimate
        self.contents = _Contents()
        self.last = 0.0  # when the last line was written, in seconds since the stage began

    def __call__(self, more: int, *_: object, documents: int = 0, tokens: int = 0) -> None:
        self.estimate.done += more
        self.contents.add(documents, tokens)
        if self.estimate.elapsed - self.last >= LINE_EVERY:
            self.last = self.estimate.elapsed
            self._write(self._text())

    def end(self) -> None:
        """Write that the stage is done, if it has written any line before."""
        if self.last:
            done, elapsed = _amount(self.estimate.done, self.unit), _duration(self.estimate.elapsed)
            self._write(f"{self.name}: done, {done}{self._contents()} in {elapsed}")

    def _contents(self) -> str:
        """The documents and tokens so far."""
        text = str(self.contents)
        return f", {text}" if text else ""

    def _text(self) -> str:
        now, left = self.estimate, self.estimate.left()
        amount = _amount(now.done, self.unit)
        if now.total is not None:
            amount = f"{100 * now.done // max(now.total, 1)}%, {amount} of {_amount(now.total, self.unit)}"
        time_left = "" if left is None else f", {_duration(left)} left"
        return f"{self.name}: {amount}{self._contents()}, {_amount(int(now.rate), self.unit)}/s{time_left}"

    def _write(self, text: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError):  # a closed pipe or a full disk does not end the work
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
    """A duration in seconds, minutes or hours.

    >>> _duration(59.4), _duration(61), _duration(7322)
    ('59 s', '1:01 min', '2:02 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"
